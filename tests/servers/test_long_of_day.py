"""Which long trials a day has, and what the last line of a run says of those that were skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_of_day import DAYS, BeginWithin, day_of
from support.skipped import line_of

ROOT = Path(__file__).parents[2]
FILE = "tests/sink/delta/test_fence.py"


def run(*arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    ).stdout.splitlines()


def collected(*arguments):
    return {line for line in run("--collect-only", "-m", "long", *arguments, FILE) if "::" in line}


def test_a_day_has_its_long_trials_and_no_others():
    every = collected()

    assert every
    day = day_of(min(every))
    assert collected("--long-of-day", str(DAYS * 1000 + day)) == {test for test in every if day_of(test) == day}


def test_two_weeks_have_every_trial_once():
    names = [f"tests/test_{file}.py::test_{number}" for file in range(40) for number in range(20)]
    days = [sum(day_of(name) == day for name in names) for day in range(DAYS)]

    assert sum(days) == len(names)
    assert max(days) < 2 * min(days)


def test_what_has_not_begun_in_time_is_skipped():
    now_s = [10.0]
    limit = BeginWithin(5, clock=lambda: now_s[0])
    now_s[0] = 14.9
    limit.pytest_runtest_setup()
    now_s[0] = 15.0

    with pytest.raises(pytest.skip.Exception, match="not begun within 5 s"):
        limit.pytest_runtest_setup()


def test_the_last_line_counts_what_was_skipped():
    lines = run("--begin-within", "0", "tests/servers/test_file_order.py::test_files_of_equal_length_are_taken_in_their_order")

    assert lines[-1] == "1 test was not run. 1 of them: not begun within 0 s"


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], ""),
        (["no MySQL", "no PostgreSQL", "no MySQL"], "3 tests were not run. 2 of them: no MySQL; 1 of them: no PostgreSQL"),
    ],
)
def test_reasons_are_counted_the_most_frequent_first(reasons, line):
    assert line_of(reasons) == line
