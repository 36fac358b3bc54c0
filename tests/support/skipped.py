"""The last line of a run of tests: how many were skipped, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why it was skipped, without where the code says so."""
    told = report.longrepr
    return (told[2] if isinstance(told, tuple) else str(told)).removeprefix("Skipped: ")


def line_of(reasons: Iterable[str]) -> str:
    """One line for all of them, the most frequent reason first; empty where none was skipped."""
    counts = Counter(reasons)
    if not counts:
        return ""
    told = "; ".join(f"{count} of them: {reason}" for reason, count in counts.most_common())
    total = counts.total()
    return f"{total} test{'s were' if total > 1 else ' was'} not run. {told}"
