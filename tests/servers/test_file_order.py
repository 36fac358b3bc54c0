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


def _run(folder, processes, *options):
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", "-c", folder / "pytest.ini"]
    command += ["--numprocesses", str(processes), "--dist", "loadfile", "--no-loadscope-reorder", folder]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(TESTS_FOLDER)}, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.parametrize("killer", [None, 2])
def test_half_of_the_processes_take_the_files_of_the_sink_whatever_dies(own_folder, killer):
    (own_folder / "tests" / "sink").mkdir(parents=True)
    for file in range(12):
        (own_folder / "tests" / "sink" / f"test_sink_{file}.py").write_text(TESTS.format(killer=killer if file == 5 else None))
        (own_folder / "tests" / f"test_{file}.py").write_text(TESTS.format(killer=None))

    run = _run(own_folder, 4, "-v")

    ended = re.findall(r"\[(gw\d+)\].* (?:PASSED|FAILED) (\S+)::", run.stdout)
    assert len(ended) == 120
    # Another process takes the place of one that has died, if it comes in time.
    assert len({process for process, file in ended if file.startswith("tests/sink/")}) in ({2} if killer is None else {2, 3})


def test_a_test_that_kills_its_process_fails_once_and_the_others_are_run(own_folder):
    for file in range(30):
        (own_folder / f"test_{file}.py").write_text(TESTS.format(killer=2 if file == 20 else None))

    run = _run(own_folder, 3, "-q")

    assert re.findall(r"\d+ (?:passed|failed)", run.stdout.splitlines()[-1]) == ["1 failed", "149 passed"]
    assert "crashed while running 'test_20.py::test_one[2]'" in run.stdout
