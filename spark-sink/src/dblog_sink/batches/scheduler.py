"""The threads that merge what has landed, while batches go on landing.

A strategy decides what is due: merges by batches (``merge_by_batches.py``), or for consistent snapshots (``snapshots/strategy.py``). The scheduler owns
threads, slots, start, drain and stop, and keeps the failure that the job stops on.
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
    """One piece of work for a thread."""

    def run(self) -> None:
        """Do it; called in a thread of the scheduler."""

    def ended(self, error: Exception | None) -> Exception | None:
        """Take note of the outcome, with the book's turn; returns what the job must stop on."""


class Strategy(Protocol):
    """Decides what is merged when. Every method is called with the book's turn."""

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """What begins now, at most ``slots`` jobs; their tables are taken. ``everything``: a drain, which waits for no interval and no batch size."""

    def drain_started(self) -> None:
        """A drain begins."""

    def drained(self) -> bool:
        """Whether nothing is left to merge, asked while no job runs."""

    def restarted(self) -> None:
        """The query starts again: failures before do not count."""

    def lands_everything(self, *, repeated: bool) -> bool:
        """Whether a batch lands whatever it holds. ``repeated``: it may have been tried before."""


class MergeScheduler:
    """Runs the strategy's jobs. ``cancel`` breaks off Spark's jobs."""

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
        """Why something could not be merged; the job stops on it."""

    def restarted(self) -> None:
        """Forget why merging stopped, and try again."""
        with self._book.turn:
            self.failure = None
            self._strategy.restarted()

    def start(self) -> None:
        """Begin to merge what is due, until ``stop``."""
        self._clock = threading.Thread(target=self._tick, name="dblog-merges", daemon=True)
        self._clock.start()

    def begin_no_more(self) -> None:
        """Let no further merge begin; those that run go on."""
        self._ending.set()

    def stop(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """Begin no further merge, and wait for those that run, but not for long: the next start finds what waits, and repeats what was broken off."""
        self._ending.set()
        if self._clock is not None:
            self._clock.join()
        with self._book.turn:
            if not self._book.turn.wait_for(lambda: self._running == 0, timeout=max(0.0, wait_s)):
                log.warning("a merge takes too long to be waited for; it is broken off and will be repeated")
                self._cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def drain(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Merge everything that has landed, unless asked to stop before; raises what a merge failed with."""
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
        """As of the strategy."""
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
