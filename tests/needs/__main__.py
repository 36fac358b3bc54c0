"""`python -m needs TARGET`: asks the machine whether it has what `make TARGET` needs, before that spends minutes; `--make` makes what can be made.

Exit status 2 when something is missing; then all of it has been printed, with remedies. Only the standard library is imported.
"""

import argparse
import contextlib
import os
import sys

from needs.missing import announcement, missing, refusal
from needs.targets import TARGETS, has_apt, trial
from stack.errors import StackError
from stack.java import own_path
from stack.steps import BOARD


def main(arguments: list[str]) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m needs", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--make", action="store_true", help="make what can be made, instead of asking")
    given = parser.parse_args(arguments)
    wanted = trial(given.target)
    if not given.make:
        # What setup has unpacked for itself shows nothing about the machine.
        os.environ["PATH"] = own_path()
        if found := missing(wanted.needs):
            print(refusal(wanted, found, has_apt=has_apt()), file=sys.stderr)
            return 2
        print(announcement(wanted), flush=True)
        return 0
    try:
        for made in wanted.made:
            if made.make is None or made.there():
                continue
            print(f"{given.target}: {made.what}; some {made.minutes:g} minutes", flush=True)
            with BOARD.step(made.what) if made.is_silent else contextlib.nullcontext():
                made.make()
    except KeyboardInterrupt:
        return 130
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
