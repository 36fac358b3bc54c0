"""The herder's order to stop, and the time within which a task obeys it.

One thing is worth waiting for: that the offsets of acknowledged records are stored. Anything else
could be cut off by a kill at any moment, and the next run would repeat it. So the process exits as
soon as the order arrives, whatever it is doing (imports, a database that does not answer, the
schema history). The exception is the stretch of a run in which records are sent. There the sending
thread stores the acknowledged offsets and leaves, and each wait on the way is limited to a share of
the time that the herder has given. # I1
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

LIMIT_S = 5.0
"""Seconds to stop within if the herder names no limit: the default of
``task.shutdown.graceful.timeout.ms``.
"""

SENT_BY = 0.5
"""Share of the limit in which records that were sent may still be acknowledged."""

STORED_BY = 0.7
"""Share of the limit by which storing the last offset has succeeded or is abandoned."""

ENDED_BY = 0.8
"""Share of the limit after which the process exits, whatever it is doing."""

FAREWELL_S = 1.0
"""Seconds for threads to end and connections to close in order, once everything is stored."""


class Stop:
    """Stop order of one process: the thread that reads the herder's messages sets it, the sending
    thread obeys it.

    ``end`` ends the process with an exit status, from any thread.
    """

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._order: tuple[float, float] | None = None
        self._heeded = False

    def ordered(self) -> bool:
        """Return True if the task has to stop."""
        return self._order is not None

    def order(self, limit_s: float) -> None:
        """Stop within ``limit_s`` seconds: exit at once, or let a thread inside
        ``heeded`` finish.
        """
        with self._lock:
            self._order = self._order or (time.monotonic(), limit_s)
            heeded = self._heeded
        if heeded:
            self._end_in(limit_s * ENDED_BY)
        else:
            self._end(0)

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Delay the exit while something may be acknowledged that is not stored.

        The thread inside has to check ``ordered`` and leave in time.
        """
        with self._lock:
            self._heeded = True
        try:
            yield
        finally:
            with self._lock:
                self._heeded = False
            if self.ordered():
                self._end_in(FAREWELL_S)

    def left_s(self, until_s: float, share: float) -> float:
        """Return the seconds until ``until_s`` of the monotonic clock.

        Once the task has to stop, return no more than remains of this share of the limit.
        """
        if self._order is not None:
            at_s, limit_s = self._order
            until_s = min(until_s, at_s + limit_s * share)
        return max(0.0, until_s - time.monotonic())

    def _end_in(self, delay_s: float) -> None:
        timer = threading.Timer(delay_s, self._end, (0,))
        timer.daemon = True
        timer.start()
