"""The last line of a test run: the number of skipped tests, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason why the test was skipped, without the place in the code."""
    told = report.longrepr
    return (told[2] if isinstance(told, tuple) else str(told)).removeprefix("Skipped: ")


def line_of(reasons: Iterable[str]) -> str:
    """Return one line for all reasons, the most frequent first; empty if no test was skipped."""
    counts = Counter(reasons)
    if not counts:
        return ""
    told = "; ".join(f"{count} of them: {reason}" for reason, count in counts.most_common())
    total = counts.total()
    return f"{total} test{'s were' if total > 1 else ' was'} not run. {told}"
