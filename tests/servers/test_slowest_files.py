"""The files that took longest are named by what all phases of their tests took."""

from __future__ import annotations

import pytest
from support import slowest_files


def _report(test: str, when: str, duration_s: float) -> pytest.TestReport:
    return pytest.TestReport(test, ("", None, ""), {}, "passed", None, when, duration=duration_s)  # type: ignore[arg-type]


def test_durations_of_all_phases_and_tests_of_a_file_are_one_line_and_short_files_have_none() -> None:
    reports = [
        _report("tests/a.py::one[x::y]", "setup", 20.0),
        _report("tests/a.py::one[x::y]", "call", 10.0),
        _report("tests/a.py::two", "call", 9.5),
        _report("tests/b.py::one", "call", 60.0),
        _report("tests/c.py::one", "call", 0.5),
    ]

    assert slowest_files.lines_of(reports) == ["   60.0 s 60.0% tests/b.py", "   39.5 s 39.5% tests/a.py"]
