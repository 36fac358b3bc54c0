"""Which file of tests a process takes next."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.file_order import LONG, next_file

WAITING = (
    "tests/demo/test_shop.py",
    "tests/docs/test_readme.py",
    "tests/sink/delta/test_fence.py",
    "tests/sink/snapshots/test_manifest.py",
)

TESTS_FOLDER = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("sink_first", "expected"), [(True, "tests/sink/snapshots/test_manifest.py"), (False, "tests/docs/test_readme.py")]
)
def test_a_process_takes_a_long_file_of_its_kind_first(sink_first, expected):
    assert next_file(WAITING, sink_first=sink_first) == expected


def test_files_of_equal_length_are_taken_in_their_order():
    assert next_file(["tests/sink/a.py", "tests/sink/b.py"], sink_first=True) == "tests/sink/a.py"


def test_a_process_that_has_no_file_of_its_kind_left_helps_the_others():
    assert next_file(["tests/demo/test_shop.py"], sink_first=True) == "tests/demo/test_shop.py"


@pytest.mark.parametrize("file", LONG)
def test_a_long_file_exists(file):
    assert (Path(__file__).parents[2] / file).is_file()


CONFTEST = """
from support.file_order import LongFilesFirst


def pytest_xdist_make_scheduler(config, log):
    return LongFilesFirst(config, log)
"""
TESTS = """
import os
import pytest


@pytest.mark.parametrize("number", range(5))
def test_one(number):
    if number == {killer}:
        os.abort()
"""


def test_a_test_that_kills_its_process_fails_once_and_the_others_are_run(own_folder):
    (own_folder / "pytest.ini").write_text("[pytest]\n")
    (own_folder / "conftest.py").write_text(CONFTEST)
    for file in range(30):
        (own_folder / f"test_{file}.py").write_text(TESTS.format(killer=2 if file == 20 else None))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", own_folder / "pytest.ini"]
    command += ["--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder", own_folder]

    run = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS_FOLDER)}, capture_output=True, text=True, check=False, timeout=120
    )

    assert re.findall(r"\d+ (?:passed|failed)", run.stdout.splitlines()[-1]) == ["1 failed", "149 passed"]
    assert "crashed while running 'test_20.py::test_one[2]'" in run.stdout
