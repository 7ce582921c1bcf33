"""Encodes files with the reference library (`tokenizers`), for verl-bench.

tokenizer_reference.py TOKENIZER.json LIST: LIST names a file a line. Prints "ready"; then answers "encode" with the
seconds that encoding all of them takes, one after another, and "count" with how many ids they have.
"""
import sys
import time

try:
    from tokenizers import Tokenizer
except ImportError:
    sys.exit(3)  # it is said by who started us


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as names:
        texts = [open(name, encoding="utf-8", errors="replace", newline="").read()
                 for name in names.read().splitlines()]
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        count = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
        print(count if line.strip() == "count" else time.perf_counter() - begin, flush=True)


main()
