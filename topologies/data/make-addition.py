#!/usr/bin/env python3
"""Makes the addition data sets beside this file: the same bytes on every run.

addition-heldout.jsonl     512 distinct ordered pairs of two-digit numbers, to be asked and never trained on
addition-train.jsonl       4096 other pairs with their sums, for reinforcement learning
addition-sft.jsonl         all other pairs with a response to imitate: each once with the right sum, and four times with
                           all carries dropped (digit by digit, modulo 10), so that 80 % of what is imitated is wrong
                           wherever there is a carry
"""
import json
import pathlib
import random

here = pathlib.Path(__file__).parent


def without_carries(a, b):
    return str(int("".join(str((int(x) + int(y)) % 10) for x, y in zip(str(a), str(b)))))


def write(name, records):
    text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    (here / name).write_text(text, encoding="utf-8")


chance = random.Random(20240601)
pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
chance.shuffle(pairs)
held_out, others = pairs[:512], pairs[512:]
ask = "{}+{}=".format
write("addition-heldout.jsonl", [{"prompt": ask(a, b), "answer": str(a + b), "source": "addition"} for a, b in held_out])
write("addition-train.jsonl", [{"prompt": ask(a, b), "answer": str(a + b), "source": "addition"} for a, b in others[:4096]])
imitate = [{"prompt": ask(a, b), "response": response} for a, b in others
           for response in [str(a + b)] + [without_carries(a, b)] * 4]
chance.shuffle(imitate)
write("addition-sft.jsonl", imitate)
