"""Runs the threads that merge landed records while batches go on landing.

A strategy decides what is due: merges by batches (``merge_by_batches.py``) or for consistent
snapshots (``snapshots/strategy.py``). The scheduler owns threads, slots, start, drain and stop, and
keeps the failure on which the job stops.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from dblog_sink.batches.parts import Parts

log = logging.getLogger(__name__)

_TICK_S = 0.25
_STOP_WAIT_S = 10.0


class MergeJob(Protocol):
    """The work of one thread."""

    def run(self) -> None:
        """Do the work. Called in a thread of the scheduler."""

    def ended(self, error: Exception | None) -> Exception | None:
        """Take note of the outcome. Return the error on which the job must stop, or None.

        Called with the book's lock held.
        """


class Strategy(Protocol):
    """The rules that choose the next merges. Every method is called with the book's lock held."""

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Return at most ``slots`` jobs to begin now, and mark their tables as busy.

        ``everything`` is True for a drain, which waits for no interval and no batch size.
        """

    def drain_started(self) -> None:
        """Take note that a drain begins."""

    def drained(self) -> bool:
        """Return True if nothing is left to merge. Called while no job runs."""

    def restarted(self) -> None:
        """Forget earlier failures, because the query starts again."""

    def lands_everything(self, *, repeated: bool) -> bool:
        """Return True if a batch must land whatever it contains.

        ``repeated`` is True if the batch may have been tried before.
        """


class MergeScheduler:
    """The runner of a strategy's jobs. ``cancel`` interrupts Spark's jobs."""

    def __init__(
        self, parts: Parts, strategy: Strategy, *, cancel: Callable[[], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._strategy = strategy
        self._book = parts.book
        self._ending = parts.ending
        self._cancel = cancel
        self._now_s = now_s
        self._slots: int = parts.settings["merge.background.threads"]
        self._threads = ThreadPoolExecutor(max_workers=self._slots, thread_name_prefix="dblog-merge")
        self._running = 0
        self._clock: threading.Thread | None = None
        self.failure: Exception | None = None
        """Error of a merge on which the job stops, else None."""

    def restarted(self) -> None:
        """Clear the failure and try again."""
        with self._book.turn:
            self.failure = None
            self._strategy.restarted()

    def start(self) -> None:
        """Start merging what is due, until ``stop``."""
        self._clock = threading.Thread(target=self._tick, name="dblog-merges", daemon=True)
        self._clock.start()

    def begin_no_more(self) -> None:
        """Let no further merge begin; running merges continue."""
        self._ending.set()

    def stop(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """Let no further merge begin, and wait at most ``wait_s`` for running ones.

        The next start finds what waits, and repeats an interrupted merge.
        """
        self._ending.set()
        if self._clock is not None:
            self._clock.join()
        with self._book.turn:
            if not self._book.turn.wait_for(lambda: self._running == 0, timeout=max(0.0, wait_s)):
                log.warning("a merge takes too long to be waited for; it is broken off and will be repeated")
                self._cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def drain(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Merge everything that has landed, unless asked to stop.

        Raise the error of a failed merge.
        """
        with self._book.turn:
            self._strategy.drain_started()
            while self.failure is None and not stopping() and not self._ending.is_set():
                if not self._running and self._strategy.drained():
                    break
                if not self._begin(everything=True):
                    self._book.turn.wait(_TICK_S)
        if self.failure is not None:
            raise self.failure

    def lands_everything(self, *, repeated: bool) -> bool:
        """Return the decision of the strategy."""
        with self._book.turn:
            return self._strategy.lands_everything(repeated=repeated)

    def _tick(self) -> None:
        while not self._ending.wait(_TICK_S):
            with self._book.turn:
                if self.failure is None:
                    self._begin(everything=False)

    def _begin(self, *, everything: bool) -> int:
        jobs = self._strategy.due(slots=self._slots - self._running, now_s=self._now_s(), everything=everything)
        self._running += len(jobs)
        for job in jobs:
            self._threads.submit(self._run, job)
        return len(jobs)

    def _run(self, job: MergeJob) -> None:
        error: Exception | None = None
        try:
            job.run()
        except Exception as e:  # noqa: BLE001  the strategy judges it
            error = e
        with self._book.turn:
            self._running -= 1
            try:
                failure = job.ended(error)
            except Exception as e:  # noqa: BLE001  as of the merge itself
                failure = e
            self.failure = self.failure or failure
            self._book.turn.notify_all()
