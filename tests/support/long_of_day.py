"""Which of the long trials are run on a day: another part each day, every one of them within two weeks (``make test-day``).

The part is chosen by the trial's own name, so that a new trial moves no other to a day that has just been.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from zlib import crc32

import pytest

DAYS = 14


def day_of(test: str) -> int:
    """The day, from 0 to 13, of a trial with this name."""
    return crc32(test.encode()) % DAYS


def choose(config: pytest.Config, items: list[pytest.Item], day: int) -> None:
    """Leave only the long trials of the day; ``day`` counts from any beginning."""
    chosen = [item for item in items if item.get_closest_marker("long") and day_of(item.nodeid) == day % DAYS]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


class BeginWithin:
    """A pytest plugin: a test that has not begun in this time is skipped, and so is in the count of those at the end.

    A test that has begun is left to its end, so the run takes as much longer as the longest of them.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until_s = clock() + limit_s
        self._limit_s = limit_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip what comes too late.

        Raises:
            pytest.skip.Exception: The time is over.
        """
        if self._clock() >= self._until_s:
            pytest.skip(f"not begun within {self._limit_s:.0f} s")
