"""Chooses the long tests of a day, so that all of them run within two weeks (``make test-day``).

A test's own name determines its day, so a new test does not move others to another day.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from zlib import crc32

import pytest

DAYS = 14


def day_of(test: str) -> int:
    """Return the day, from 0 to 13, of the test with this name."""
    return crc32(test.encode()) % DAYS


def choose(config: pytest.Config, items: list[pytest.Item], day: int) -> None:
    """Keep only the long tests of the day; ``day`` counts from any start."""
    chosen = [item for item in items if item.get_closest_marker("long") and day_of(item.nodeid) == day % DAYS]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


class BeginWithin:
    """A pytest plugin that skips tests that have not begun within a time limit.

    The count of skipped tests at the end includes them. A test that has begun may finish, so the
    run can exceed the limit by the duration of the longest test.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until_s = clock() + limit_s
        self._limit_s = limit_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip the test if the time is over.

        Raises:
            pytest.skip.Exception: The time is over.
        """
        if self._clock() >= self._until_s:
            pytest.skip(f"not begun within {self._limit_s:.0f} s")
