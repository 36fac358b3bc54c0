"""Sums the durations of tests by file, which shows where a run's time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

SHOWN_MAX = 30


def lines_of(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the files that took longest, each with its seconds and its share of all.

    Setup and teardown count too. Files that take less than a hundredth of all are left out.
    """
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid.partition("::")[0]] += report.duration
    whole_s = seconds.total()
    return [
        f"{taken_s:7.1f} s {taken_s / whole_s:5.1%} {file}" for file, taken_s in seconds.most_common(SHOWN_MAX) if taken_s * 100 >= whole_s
    ]
