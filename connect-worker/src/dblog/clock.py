"""The clocks as a dependency: only this file reads the wall clock and the monotonic clock.

Code that decides by time takes a ``Clock``, so tests and the simulation pass their own.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock for records, monotonic clock for limits."""

    def now_us(self) -> int:
        """Return microseconds since 1970-01-01 UTC, for ``ts_ms`` and the like."""

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never jumps, for timeouts and intervals."""


class SystemClock:
    """Clocks of the machine."""

    def now_us(self) -> int:
        """Return the wall clock in microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Return the monotonic clock in seconds."""
        return time.monotonic()


def lease_clock_s() -> float:
    """Return seconds of the clock that leases use.

    All processes of a machine share it, and it continues while the machine sleeps.
    """
    # macOS has only CLOCK_MONOTONIC, which continues there while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
