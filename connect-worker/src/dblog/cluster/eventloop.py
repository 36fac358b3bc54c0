"""The herder's event loop: what other threads post to its thread, what falls due later, and whether wanted and actual are to be compared."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable
from itertools import count

from dblog.clock import Clock

RETRY_S = 1.0
"""What failed for want of brokers is tried again after that time."""
_IDLE_S = 5.0


class EventLoop:
    """``post`` and ``stop`` may be called from any thread, ``stopping`` read by any; all else belongs to the herder's thread."""

    def __init__(self, clock: Clock) -> None:
        self.stopping = threading.Event()
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        """A heap of what falls due, by the clock's seconds."""
        self._clock = clock
        self._timer_numbers = count()
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._reconcile_wanted = False

    def post(self, action: Callable[[], None]) -> None:
        """Have the herder's thread do it, after what was posted before."""
        self._posted.put(action)

    def stop(self) -> None:
        """Report that the worker ends, and wake the herder's thread."""
        self.stopping.set()
        self.post(lambda: None)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do it in a turn of its own, not before ``delay_s``."""
        heapq.heappush(self.timers, (self._clock.monotonic_s() + delay_s, next(self._timer_numbers), action))

    def reconcile_soon(self) -> None:
        """Have wanted and actual compared at the end of this turn, or at once in the next."""
        self._reconcile_wanted = True

    def take_reconcile(self) -> bool:
        """Whether a comparison was asked for since the last call."""
        wanted, self._reconcile_wanted = self._reconcile_wanted, False
        return wanted

    def run_due(self) -> None:
        """Do what has fallen due."""
        now_s = self._clock.monotonic_s()  # what falls due meanwhile has its turn after the requests that wait
        while self.timers and self.timers[0][0] <= now_s:
            heapq.heappop(self.timers)[2]()

    def run_posted(self) -> None:
        """Do all that has been posted; when it is nothing, wait for the first until something falls due."""
        timeout_s = _IDLE_S
        if self._reconcile_wanted:
            timeout_s = 0.0
        elif self.timers:
            timeout_s = max(0.0, self.timers[0][0] - self._clock.monotonic_s())
        if self.run_next(timeout_s=timeout_s):
            while self.run_next(timeout_s=0.0):
                pass

    def run_next(self, *, timeout_s: float) -> bool:
        """Do what was posted first; False when nothing came in time."""
        try:
            action = self._posted.get(timeout=timeout_s) if timeout_s else self._posted.get_nowait()
        except queue.Empty:
            return False
        action()
        return True
