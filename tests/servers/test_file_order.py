"""Which file of tests a process takes next."""

from pathlib import Path

import pytest
from support.file_order import LONG, next_file

WAITING = (
    "tests/demo/test_shop.py",
    "tests/docs/test_readme.py",
    "tests/sink/delta/test_fence.py",
    "tests/sink/snapshots/test_manifest.py",
)


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
