"""Daemon threads, bounded in number, for calls that may wait for long.

An executor's threads are joined when the event loop and the interpreter end, so a call that still
waits for a broker or a database would delay the end of the worker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from typing import TypeVar

from dblog.cluster.requests import RequestError

T = TypeVar("T")

_RETRY_S = 5


class Threads:
    """Runs at most ``limit`` calls at once.

    Refuses further ones with 503 and the message ``busy``.
    """

    def __init__(self, name: str, *, limit: int, busy: str) -> None:
        self._name = name
        self._busy = busy
        self._places = threading.Semaphore(limit)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run the work in a thread and return its future. Raise RequestError 503 at the limit."""
        if not self._places.acquire(blocking=False):
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, self._busy, retry_after_s=_RETRY_S)
        future: Future[T] = Future()
        # a caller that stops waiting cannot cancel it: the thread still sets the result
        future.set_running_or_notify_cancel()

        def run() -> None:
            # The place is released before the caller goes on, because its next call may come at
            # once.
            try:
                outcome = work()
            except BaseException as e:  # noqa: BLE001  the caller gets any error
                self._places.release()
                future.set_exception(e)
            else:
                self._places.release()
                future.set_result(outcome)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return future

    async def call(self, work: Callable[[], T], *, limit_s: float | None = None) -> T:
        """Run the work in a thread and wait for it.

        Raise TimeoutError after the limit; the thread goes on.
        """
        return await asyncio.wait_for(asyncio.wrap_future(self.submit(work)), limit_s)
