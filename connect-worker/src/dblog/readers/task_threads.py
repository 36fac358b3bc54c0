"""The threads of a running task. An error that ends one of them comes out of the task's queue."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from dblog.readers.queue import BlockingQueue


class TaskThreads:
    """Threads of one run. ``queue`` gets the error of a thread, which ends the task."""

    def __init__(self, queue: BlockingQueue) -> None:
        self._queue = queue
        self._threads: list[threading.Thread] = []

    def spawn(self, name: str, work: Callable[[], None]) -> None:
        """Run ``work`` in a new thread."""

        def guarded() -> None:
            try:
                work()
            except BaseException as e:  # noqa: BLE001 - whatever ends a thread must end the task
                self._queue.fail(e)

        # The connector's name in log lines is a context variable, which a new thread does not
        # inherit.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(guarded,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, *, timeout_s: float) -> None:
        """Wait until the threads have ended, for each at most ``timeout_s``."""
        for thread in self._threads:
            thread.join(timeout=timeout_s)
