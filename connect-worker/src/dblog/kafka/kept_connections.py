"""Asks over HTTP on connections that are kept for a moment: by an event loop in a thread of its own, which ends when nobody has asked for a while.

A connection and a loop for each request cost three times as much as the request, and a dump of a thousand tables makes two thousand of them. Not by httpx's
blocking client: that waits for each byte again, and a byte now and then holds it for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx

KEPT_S = 2.0
"""Without a request. Servers keep an idle connection longer (uvicorn 5 s, Jetty 30 s): one that they close just now would fail the next request."""

Answer = TypeVar("Answer")


class KeptConnections:
    """One client's. ``make`` makes the client that keeps them; it is closed when nobody has asked for ``KEPT_S``. Safe for several threads."""

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._serving: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._under_way = 0
        self._asked_s = 0.0
        """When the last request ended."""

    def ask(self, request: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Answer]]) -> Future[Answer]:
        """Have the request made. Whoever cancels the answer has the request end."""
        with self._lock:
            loop, client = self._serving = self._serving or self._begun()
            self._under_way += 1
            answer = asyncio.run_coroutine_threadsafe(request(client), loop)
        answer.add_done_callback(self._ended)  # not with the lock: one that has ended already calls at once
        return answer

    def _ended(self, _answer: Future[Any]) -> None:
        with self._lock:
            self._under_way -= 1
            self._asked_s = time.monotonic()

    def _begun(self) -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
        ready: Future[tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]] = Future()
        # The connector's name in log lines is a context variable, and a new thread begins with none.
        threading.Thread(target=contextvars.copy_context().run, args=(self._run, ready), name="http", daemon=True).start()
        return ready.result()

    def _run(self, ready: Future[tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as e:  # whoever has begun it waits for it
            if ready.done():
                raise
            ready.set_exception(e)

    async def _serve(self, ready: Future[tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]]) -> None:
        async with self._make() as client:
            ready.set_result((asyncio.get_running_loop(), client))
            while True:
                await asyncio.sleep(KEPT_S)
                with self._lock:
                    if not self._under_way and time.monotonic() - self._asked_s >= KEPT_S:
                        self._serving = None
                        return
