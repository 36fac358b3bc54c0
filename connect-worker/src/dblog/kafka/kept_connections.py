"""Sends HTTP requests over connections that are kept for a moment. An event loop in its own thread
serves them, and ends after a while without requests.

A new connection and loop for each request cost three times as much as the request, and a dump of a
thousand tables makes two thousand. httpx's blocking client is no alternative: its timeout starts
again with each byte, so a server that sends a byte now and then holds it forever.
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
"""Seconds without a request after which connections are closed. Servers keep idle connections
longer (uvicorn 5 s, Jetty 30 s); a request on one that the server is just closing would fail.
"""

Answer = TypeVar("Answer")


class KeptConnections:
    """The kept connections of one client. Safe for several threads.

    ``make`` creates the HTTP client that holds them. It is closed after ``KEPT_S`` without a
    request.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._serving: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._under_way = 0
        self._asked_s = 0.0
        """Time when the last request ended."""

    def ask(self, request: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Answer]]) -> Future[Answer]:
        """Start a request and return its future. Cancelling the future ends the request."""
        with self._lock:
            loop, client = self._serving = self._serving or self._begun()
            self._under_way += 1
            answer = asyncio.run_coroutine_threadsafe(request(client), loop)
        answer.add_done_callback(self._ended)  # without the lock: a finished future calls back at once
        return answer

    def _ended(self, _answer: Future[Any]) -> None:
        with self._lock:
            self._under_way -= 1
            self._asked_s = time.monotonic()

    def _begun(self) -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
        ready: Future[tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]] = Future()
        # The connector's name in log lines is a context variable, and a new thread starts without
        # any.
        threading.Thread(target=contextvars.copy_context().run, args=(self._run, ready), name="http", daemon=True).start()
        return ready.result()

    def _run(self, ready: Future[tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as e:  # the thread that started this one waits for the result
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
