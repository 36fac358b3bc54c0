"""The herder's order to stop, and how a task keeps to its time.

Only one thing is worth waiting for then: that what Kafka has acknowledged gets stored. All else a kill may cut off as well, at any moment, and the next run
goes on from there. So the process ends as soon as the order is heard, whatever it is at (imports, a database that does not answer, the history), except in
the stretch of its run in which records are sent. There it is for the sending thread to heed: it stores what is acknowledged and leaves, and every wait on
its way keeps to a share of the time that the herder has given. # I1
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

LIMIT_S = 5.0
"""When the herder does not send it: the default of task.shutdown.graceful.timeout.ms."""

SENT_BY = 0.5
"""The share of the limit in which what is under way may still be acknowledged."""

STORED_BY = 0.7
"""The share in which the last offset is stored, or not."""

ENDED_BY = 0.8
"""The share after which the process ends, whatever keeps it."""

FAREWELL_S = 1.0
"""So long threads may end and connections be closed in order, once everything is stored."""


class Stop:
    """The order of one process: given by the thread that hears the herder, heeded by the one that sends."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        """``end`` ends the process with an exit status, from any thread."""
        self._end = end
        self._lock = threading.Lock()
        self._order: tuple[float, float] | None = None
        self._heeded = False

    def ordered(self) -> bool:
        """Whether the task has to stop."""
        return self._order is not None

    def order(self, limit_s: float) -> None:
        """Stop within that time, or be killed: at once, unless somebody heeds it."""
        with self._lock:
            self._order = self._order or (time.monotonic(), limit_s)
            heeded = self._heeded
        if heeded:
            self._end_in(limit_s * ENDED_BY)
        else:
            self._end(0)

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """In here something may be acknowledged that is not stored: whoever is in here asks ``ordered``, and leaves."""
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
        """The time up to ``until_s`` of the monotonic clock; once the task has to stop, no more than up to that share of the limit."""
        if self._order is not None:
            at_s, limit_s = self._order
            until_s = min(until_s, at_s + limit_s * share)
        return max(0.0, until_s - time.monotonic())

    def _end_in(self, delay_s: float) -> None:
        timer = threading.Timer(delay_s, self._end, (0,))
        timer.daemon = True
        timer.start()
