#!/usr/bin/env python3
"""Writes the data of the addition task: sums of two numbers, 37+48= -> 85.

  addition-heldout.jsonl   {prompt, answer, source}: 512 ordered pairs that no other file has
  addition-train.jsonl     {prompt, answer, source}: all other ordered pairs, for reinforcement learning
  addition-sft.jsonl       {prompt, response}: examples to learn the form from; pairs drawn anew for each line, none
                           held out; most of them wrong, because every carry is dropped: 37+48=75

A model that has learned the last file knows how sums look and sometimes gets one right: enough to learn from rewards.
The same seed gives the same bytes. Only random() is drawn from, whose values Python keeps from version to version.
"""
import argparse
import json
import os
import random


class Draw:
    """Draws from a seeded stream by random() alone."""

    def __init__(self, seed):
        self.stream = random.Random(seed)

    def below(self, bound):
        return int(self.stream.random() * bound)

    def chance(self, probability):
        return self.stream.random() < probability

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def without_carries(a, b):
    """The sum digit by digit, each modulo 10: 37 and 48 give 75, 50 and 50 give 0."""
    total, place = 0, 1
    while a or b:
        total += (a % 10 + b % 10) % 10 * place
        a, b, place = a // 10, b // 10, place * 10
    return total


def write(folder, name, records):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")


def question(a, b):
    return {"prompt": f"{a}+{b}=", "answer": str(a + b), "source": "addition"}


def example(draw, pairs, dropped):
    a, b = pairs[draw.below(len(pairs))]
    return {"prompt": f"{a}+{b}=", "response": str(without_carries(a, b) if draw.chance(dropped) else a + b)}


def main():
    parser = argparse.ArgumentParser(description="Writes the data of the addition task.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", type=int, default=2, help="of each operand (default 2)")
    parser.add_argument("--heldout", type=int, default=512, help="pairs held out (default 512)")
    parser.add_argument("--train", type=int, default=100000, help="most pairs in the train file (default 100000)")
    parser.add_argument("--sft", type=int, default=76800, help="examples to imitate (default 76800: 600 steps of 128)")
    parser.add_argument("--dropped", type=float, default=0.8, help="share of examples without carries (default 0.8)")
    parser.add_argument("--name", default="addition", help="what the files' names begin with")
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)), help="folder (default: this one)")
    args = parser.parse_args()
    low, high = 10 ** (args.digits - 1), 10 ** args.digits
    if args.digits < 1 or args.digits > 3 or not 0 < args.heldout < (high - low) ** 2 or not 0 <= args.dropped <= 1:
        parser.error("digits is 1 to 3, heldout less than all pairs, dropped between 0 and 1")
    pairs = [(a, b) for a in range(low, high) for b in range(low, high)]
    Draw(f"{args.seed} pairs").shuffle(pairs)
    heldout, rest = pairs[:args.heldout], pairs[args.heldout:]
    draw = Draw(f"{args.seed} sft")
    write(args.out, f"{args.name}-heldout.jsonl", (question(a, b) for a, b in heldout))
    write(args.out, f"{args.name}-train.jsonl", (question(a, b) for a, b in rest[:args.train]))
    write(args.out, f"{args.name}-sft.jsonl", (example(draw, rest, args.dropped) for _ in range(args.sft)))


if __name__ == "__main__":
    main()
