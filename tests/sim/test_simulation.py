"""The simulation, shorter than ``make sim``: schedules by seed in a process of their own, which has simulated threads for good. # I1 I2 I3 I4 I6"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(TESTS), str(TESTS.parent / "connect-worker" / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
    return subprocess.run([sys.executable, "-m", "sim", *arguments], env=environment, capture_output=True, text=True, check=False)


def test_every_schedule_keeps_the_invariants_and_comes_to_its_end() -> None:
    done = simulate("--seeds", "1500", "--processes", "1")

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "1500 schedules" in done.stdout


@pytest.mark.parametrize("watermarks", [True, False], ids=["written watermarks", "read-only"])
def test_a_seed_gives_the_same_schedule_again(watermarks: bool) -> None:
    def is_worth_it(text: str) -> bool:  # which seed gives which schedule changes with the readers
        return len(text.splitlines()) > 20 and (" watermark " in text) == watermarks

    seed, first = next((str(seed), text) for seed in range(40, 60) if is_worth_it(text := simulate("--seed", str(seed)).stdout))

    assert simulate("--seed", seed).stdout == first


def test_a_protection_that_is_taken_away_is_missed_and_the_schedule_that_shows_it_is_named() -> None:
    done = simulate("--mutations", "--within", "200")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "mutations were found out" in done.stdout
