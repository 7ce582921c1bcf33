#!/usr/bin/env python3
"""Writes arithmetic questions in words, for models that know language, as the beginning of a calculation in digits.

    Question: What is seven plus twelve?
    Calculation:                             (a model goes on: 7 + 12 = 19)

  words-heldout.jsonl   {prompt, answer, source}: questions whose operands no question to learn from has
  words-train.jsonl     {prompt, answer, source}: questions to learn from

Answers are digits. The ranges decide how hard the questions are: a group of samples teaches something only where some
are right and some wrong, so choose them such that the untrained model is right 15 to 50 % of the time.
The same seed gives the same bytes. Only random() is drawn from, whose values Python keeps from version to version.
"""
import argparse
import json
import os
import random

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
NAMES = "Ann Ben Clara David Emma Felix Grace Henry Ida Jack".split()
THINGS = "apples books coins marbles pencils shells stamps stones tickets cards".split()

# Templates of an operation: {a} and {b} are operands in words, {name}, {other} and {things} make a story.
PLAIN = {
    "plus": ["What is {a} plus {b}?"],
    "minus": ["What is {a} minus {b}?"],
    "times": ["What is {a} times {b}?"],
}
STORIES = {
    "plus": ["{name} has {a} {things} and buys {b} more. How many {things} does {name} have now?",
             "{name} has {a} {things} and {other} has {b}. How many {things} do they have together?"],
    "minus": ["{name} has {a} {things} and gives {b} of them to {other}. How many {things} does {name} have left?",
              "There are {a} {things} on a table. {name} takes {b} of them away. How many {things} are left?"],
    "times": ["{name} has {a} boxes with {b} {things} in each. How many {things} does {name} have?"],
}
RESULT = {"plus": lambda a, b: a + b, "minus": lambda a, b: a - b, "times": lambda a, b: a * b}


def in_words(n):
    """0 to 999 as an English speaker says it."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")
    return ONES[n // 100] + " hundred" + (" and " + in_words(n % 100) if n % 100 else "")


class Draw:
    """Draws from a seeded stream by random() alone."""

    def __init__(self, seed):
        self.stream = random.Random(seed)

    def below(self, bound):
        return int(self.stream.random() * bound)

    def one_of(self, items):
        return items[self.below(len(items))]

    def chance(self, probability):
        return self.stream.random() < probability

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def combinations(args):
    """All (operation, a, b) within the ranges, a difference never below 0; a sum in one order of its operands only."""
    found = []
    for operation in args.operations:
        low, high = (args.times_low, args.times_high) if operation == "times" else (args.low, args.high)
        for a in range(low, high + 1):
            for b in range(low, high + 1):
                if (a >= b if operation == "minus" else a <= b):
                    found.append((operation, a, b))
    return found


def question(draw, args, combination):
    operation, a, b = combination
    if operation != "minus" and draw.chance(0.5):
        a, b = b, a
    templates = STORIES if draw.chance(args.stories) else PLAIN
    name, other = draw.one_of(NAMES), draw.one_of(NAMES)
    while other == name:
        other = draw.one_of(NAMES)
    text = draw.one_of(templates[operation]).format(a=in_words(a), b=in_words(b), name=name, other=other,
                                                    things=draw.one_of(THINGS))
    return {"prompt": args.prefix + text + args.suffix, "answer": str(RESULT[operation](a, b)), "source": "words"}


def write(folder, name, records):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Writes arithmetic questions in words.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=int, default=240, help="questions to learn from (default 240)")
    parser.add_argument("--heldout", type=int, default=128, help="questions held out (default 128)")
    parser.add_argument("--operations", nargs="+", choices=sorted(RESULT), default=["plus", "minus"])
    parser.add_argument("--low", type=int, default=2, help="smallest operand of plus and minus (default 2)")
    parser.add_argument("--high", type=int, default=20, help="largest operand of plus and minus (default 20)")
    parser.add_argument("--times-low", type=int, default=2, help="smallest operand of times (default 2)")
    parser.add_argument("--times-high", type=int, default=9, help="largest operand of times (default 9)")
    parser.add_argument("--stories", type=float, default=0, help="share of one-step word problems (default 0)")
    parser.add_argument("--prefix", default="Question: ", help="what begins each prompt")
    parser.add_argument("--suffix", default="\nCalculation:", help="what ends each prompt")
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)), help="folder (default: this one)")
    args = parser.parse_args()
    if not (0 <= args.low <= args.high < 1000 and 0 <= args.times_low <= args.times_high < 1000):
        parser.error("operands are 0 to 999, and no range is empty")
    found = combinations(args)
    if len(found) < args.train + args.heldout:
        parser.error(f"the ranges give {len(found)} questions, not {args.train + args.heldout}: widen them")
    draw = Draw(f"{args.seed} words")
    draw.shuffle(found)
    heldout, train = found[:args.heldout], found[args.heldout:args.heldout + args.train]
    write(args.out, "words-heldout.jsonl", [question(draw, args, each) for each in heldout])
    write(args.out, "words-train.jsonl", [question(draw, args, each) for each in train])


if __name__ == "__main__":
    main()
