"""Time as a dependency: the only file in which the wall clock and the monotonic clock are read.

Whatever decides by time takes a ``Clock``, so tests and the simulation pass their own.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records and monotonic time for limits."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC, for ``ts_ms`` and its siblings."""

    def monotonic_s(self) -> float:
        """Seconds that never jump, for timeouts and intervals."""


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Wall clock, microseconds since the epoch."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Monotonic clock, seconds."""
        return time.monotonic()


def lease_clock_s() -> float:
    """Seconds of the clock that leases are counted by: the same for all processes of a machine, and it runs on while the machine sleeps."""
    # macOS has only the second of these, and counts it on while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
