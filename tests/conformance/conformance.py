"""Does an actor keep the protocol? Drives one actor process over real sockets, as its node, its director and its peers.

    conformance.py host  PROGRAM…     a C host: verl-actor (its kind `synthetic` is used)
    conformance.py command PROGRAM…   a program that speaks the protocol, such as actor.py beside this file

Each check is one rule of runtime/wire/PROTOCOL.md, with an actor of its own. Ends with "N passed, N failed".
"""

import os
import signal
import sys
import time
import traceback

import lines
import rules_channels
import rules_data
import rules_life
import rules_refusals
from party import Bench, Wrong, check

GROUPS = (rules_life, rules_data, rules_channels, rules_refusals)  # importing one adds its rules


def run(test, program, kind):
    bench = Bench(program, kind)
    try:
        test(bench)
        check(bench.node.wrong is None, f"to the node: {bench.node.wrong}")
        return None
    except Wrong as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    finally:
        bench.close()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("host", "command"):
        sys.exit(__doc__)
    only = os.environ.get("CONFORMANCE_ONLY", "")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    passed = failed = 0
    for test in lines.RULES:
        if only not in test.__name__ or (sys.argv[1] == "host" and hasattr(test, "for_programs")):
            continue
        begin = time.monotonic()
        wrong = run(test, sys.argv[2:], sys.argv[1])
        print(f"{'ok    ' if wrong is None else 'FAILED'} {test.__name__.replace('_', ' ')} "
              f"({time.monotonic() - begin:.1f} s)", flush=True)
        if wrong is not None:
            print("       " + wrong.strip().replace("\n", "\n       "), flush=True)
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
