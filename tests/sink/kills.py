"""The property test with real kills: SIGKILL of Python and JVM at random steps between commits, again and again, then compared with the model.

``make sink-campaign RUNS=20 SEED=7``; the tests kill within one process (test_random_changes.py, test_chaos_sink.py), and every program of the whole flow (e2e).
Each run is a series of child processes over one folder: a child writes the batches that are left, as a query goes on from its checkpoint, until it kills
itself at a step that the seed chose, or is done.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dblog_sink.state.crash_points import STEPS
from pyspark.sql import SparkSession
from sink.feed import MODES, Feed, Trial
from sink.harness import Sink, local_session
from support.registry_server import RegistryServer

KILLS = 3
UNIVERSES = 100
BATCHES = 4


def run(seed: int, folder: Path, *, kills: int = KILLS) -> list[str]:
    """One run; raises AssertionError if the table is not what the model expects. Returns the steps at which it was killed."""
    dice = random.Random(f"kills {seed}")
    died = []
    for attempt in range(kills + 1):
        # Any of the next steps, whatever its name: short of the end there are some in every batch.
        at = 0 if attempt == kills else dice.randint(1, 9)
        child = subprocess.run(
            [sys.executable, __file__, "--child", "--seed", str(seed), "--folder", str(folder), "--kill-at", str(at)],
            check=False,
            timeout=1800,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # pytest's own paths are nowhere else
        )
        if child.returncode == 0:
            return died
        assert child.returncode == -signal.SIGKILL, f"seed {seed}: the child ended with status {child.returncode}"
        died.append((folder / "killed").read_text(encoding="utf-8"))
    raise AssertionError(f"seed {seed}: not done after {kills} kills")


def child(seed: int, folder: Path, kill_at: int) -> None:
    """Write what is left, and die at the step of that number (0: never)."""
    mode = MODES[seed % len(MODES)]
    session = local_session(folder / "spark")
    with RegistryServer() as registry:  # the schemas get the same ids each time
        feed = Feed(registry)
        trial = Trial(mode, seed, feed, count=UNIVERSES, batches=BATCHES)
        sink = Sink(session, registry, folder, settings=settings(seed) | trial.settings)
        sink.reached = Killer(session, folder, kill_at)
        done = folder / "done"
        first = int(done.read_text(encoding="utf-8")) if done.exists() else 0
        for number in range(first, len(trial.batches)):
            sink.writer(sink.frame(trial.batches[number]), number)
            if random.Random(f"drain {seed} {number}").random() < 0.5:
                sink.drain()
            done.write_text(str(number + 1), encoding="utf-8")
        sink.writer  # noqa: B018  also where no batch was left
        sink.drain()
        trial.check(sink)
        sink.restarted()
    session.stop()


def settings(seed: int) -> dict[str, str]:
    """What decides the ways that rows take."""
    dice = random.Random(f"settings {seed}")
    return {
        "trigger.interval.s": dice.choice(["0", "1000"]),
        "merge.rows.min": dice.choice(["1000", "1000000"]),
        "rewrite.rows.max": dice.choice(["0", "200"]),
        "control.interval.s": dice.choice(["0", "5"]),
    }


class Killer:
    """Counts steps, and ends JVM and Python at the chosen one."""

    def __init__(self, session: SparkSession, folder: Path, at: int) -> None:
        self._jvm_pid = int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        self._folder = folder
        self._left = at

    def __call__(self, step: str) -> None:
        assert step in STEPS
        self._left -= 1
        if self._left == 0:
            (self._folder / "killed").write_text(step, encoding="utf-8")
            os.kill(self._jvm_pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Many runs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the first run; the others follow")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kill-at", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.seed, given.folder, given.kill_at)
        return 0
    wrong = []
    for seed in range(given.seed, given.seed + given.runs):
        folder = Path(tempfile.mkdtemp(prefix="dblog-kills-"))
        began_s = time.monotonic()
        try:
            died = run(seed, folder, kills=given.kills)
            print(f"seed {seed}: identical, killed at {', '.join(died) or 'no step'}, {time.monotonic() - began_s:.0f} s")
            shutil.rmtree(folder)
        except AssertionError as e:
            wrong.append(seed)
            print(f"{e}; its files are in {folder}")
    print(f"{given.runs - len(wrong)} of {given.runs} runs identical" + (f"; wrong: seeds {wrong}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
