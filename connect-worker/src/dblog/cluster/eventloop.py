"""The herder's event loop: actions from other threads, timers, and the flag to reconcile."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable
from itertools import count

from dblog.clock import Clock

RETRY_S = 1.0
"""Delay before an action that failed for lack of brokers is tried again."""
_IDLE_S = 5.0


class EventLoop:
    """Runs actions in the herder's thread.

    Any thread may call ``post`` and ``stop`` and read ``stopping``; everything else belongs to the
    herder's thread.
    """

    def __init__(self, clock: Clock) -> None:
        self.stopping = threading.Event()
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        """A heap of pending timers by the clock's seconds."""
        self._clock = clock
        self._timer_numbers = count()
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._reconcile_wanted = False

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the herder's thread, after the actions posted before it."""
        self._posted.put(action)

    def stop(self) -> None:
        """Announce the end of the worker and wake the herder's thread."""
        self.stopping.set()
        self.post(lambda: None)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run ``action`` in a turn of its own, not before ``delay_s`` has passed."""
        heapq.heappush(self.timers, (self._clock.monotonic_s() + delay_s, next(self._timer_numbers), action))

    def reconcile_soon(self) -> None:
        """Request a reconcile at the end of this turn, or at once in the next."""
        self._reconcile_wanted = True

    def take_reconcile(self) -> bool:
        """Return True if a reconcile was requested since the last call."""
        wanted, self._reconcile_wanted = self._reconcile_wanted, False
        return wanted

    def run_due(self) -> None:
        """Run the timers that are due."""
        now_s = self._clock.monotonic_s()  # timers that become due meanwhile run after the waiting requests
        while self.timers and self.timers[0][0] <= now_s:
            heapq.heappop(self.timers)[2]()

    def run_posted(self) -> None:
        """Run all posted actions. If there are none, wait for one until the next timer is due."""
        timeout_s = _IDLE_S
        if self._reconcile_wanted:
            timeout_s = 0.0
        elif self.timers:
            timeout_s = max(0.0, self.timers[0][0] - self._clock.monotonic_s())
        if self.run_next(timeout_s=timeout_s):
            while self.run_next(timeout_s=0.0):
                pass

    def run_next(self, *, timeout_s: float) -> bool:
        """Run the first posted action. Return False if none came in time."""
        try:
            action = self._posted.get(timeout=timeout_s) if timeout_s else self._posted.get_nowait()
        except queue.Empty:
            return False
        action()
        return True
