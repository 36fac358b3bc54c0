"""``make sim`` and ``make sim-mutations``: schedules by seed, and the protections whose absence they must show."""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import signal
import subprocess
import sys
import time

from sim.mutations import MUTATIONS, Mutation, applied, mutated
from sim.play import install, play

GARBAGE_SEEDS = 30
"""A schedule leaves circles of objects behind; they are looked for so often."""
HANGS_S = 5
"""A schedule that takes so much time of the processor does not end at all. The clock on the wall would take a busy machine for it."""


def failure(seed: int, *, trace: list[str] | None = None) -> str | None:
    """What the schedule of a seed comes to, None when all is well."""
    signal.setitimer(signal.ITIMER_PROF, HANGS_S)
    try:
        play(seed, trace=trace)
    except Exception as e:  # noqa: BLE001 - a broken product may raise anything
        return f"{type(e).__name__}: {e}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def campaign(first: int, seeds: int) -> int:
    """Play them all; 1 when one has failed, whose schedule is printed."""
    began_s = time.monotonic()
    for seed in range(first, first + seeds):
        found = failure(seed)
        if found is not None:
            return show(seed)
        if seed % GARBAGE_SEEDS == 0:
            gc.collect()
    print(f"{seeds} schedules from seed {first} in {time.monotonic() - began_s:.1f} s: I1 to I6 hold")
    return 0


def show(seed: int) -> int:
    """One seed with its schedule."""
    trace: list[str] = []
    found = failure(seed, trace=trace)
    print("\n".join(trace))
    print(f"seed {seed}: {found or 'all is well'}; again with: make sim SEED={seed}")
    return found is not None


def shared(first: int, seeds: int, processes: int) -> int:
    """The same by processes side by side, each with its share; 1 when one of them has failed."""
    bounds = [first + seeds * n // processes for n in range(processes + 1)]
    shares = [
        subprocess.Popen([sys.executable, "-m", "sim", "--first", str(begin), "--seeds", str(end - begin), "--processes", "1"])
        for begin, end in itertools.pairwise(bounds)
    ]
    ends = [share.wait() for share in shares]
    return int(any(ends))


def survives(mutation: Mutation, seeds: int) -> tuple[int, str] | None:
    """None if no seed has failed, else the first one and what it came to."""
    with applied(mutation):
        for seed in range(seeds):
            if seed % GARBAGE_SEEDS == 0:
                gc.collect()
            found = failure(seed)
            if found is not None:
                return seed, found
    return None


def mutations(wanted: str, seeds_max: int) -> int:
    """Take each protection away; 1 when the absence of one was not seen. ``wanted``: part of a name."""
    survived = []
    for mutation in MUTATIONS:
        mutated(mutation)  # also those that are not tried now
    chosen = [m for m in MUTATIONS if wanted in m.name and m.seeds <= seeds_max]
    for mutation in chosen:
        began_s = time.monotonic()
        found = survives(mutation, mutation.seeds)
        if found is None:
            survived.append(mutation.name)
            print(f"SURVIVES {mutation.seeds} seeds: {mutation.name} ({mutation.where}), {time.monotonic() - began_s:.1f} s", flush=True)
        else:
            print(f"seed {found[0]:5}  {mutation.name}: {found[1][:150]}", flush=True)
    print(f"{len(chosen) - len(survived)} of {len(chosen)} mutations were found out")
    return bool(survived)


def hung(*_: object) -> None:
    raise RuntimeError(f"the schedule has not ended within {HANGS_S} s of the processor")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make sim")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="this one alone, with its schedule")
    parser.add_argument("--mutations", nargs="?", const="", default=None, help="take protections away, those whose names hold this text")
    parser.add_argument("--within", type=int, default=1_000_000, help="only mutations that are found out within so many seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that share the seeds")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a schedule
        os.execve(sys.executable, [sys.executable, "-m", "sim", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - this program itself
    signal.signal(signal.SIGPROF, hung)
    install()
    gc.disable()
    gc.freeze()
    if arguments.seed is not None:
        return show(arguments.seed)
    if arguments.mutations is not None:
        return mutations(arguments.mutations, arguments.within)
    if arguments.processes > 1:
        return shared(arguments.first, arguments.seeds, arguments.processes)
    return campaign(arguments.first, arguments.seeds)


if __name__ == "__main__":
    sys.exit(main())
