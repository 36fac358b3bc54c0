"""Answers 503 to requests that are still unanswered when the worker stops, because nothing will
answer them.

The server would wait for them, and then cut them off with traces in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.rest.api import error


class Waiting:
    """The unanswered requests of all listeners. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Answer all waiting requests, and all later ones, with 503."""
        self._ended.set()
        for task in self._tasks:
            task.cancel()

    def around(self, app: ASGIApp) -> Callable[[Scope, Receive, Send], Any]:
        """Return the outermost middleware."""

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            task = asyncio.current_task()
            if scope["type"] != "http" or task is None:
                await app(scope, receive, send)
                return

            async def begun_send(message: Message) -> None:
                # An answer that has begun is no longer tracked: its client gets the rest, within
                # the server's own limit.
                self._tasks.discard(task)
                await send(message)

            if not self._ended.is_set():
                self._tasks.add(task)
                try:
                    await app(scope, receive, begun_send)
                except asyncio.CancelledError:
                    if not self._ended.is_set() or task not in self._tasks:
                        raise
                    task.uncancel()
                else:
                    return
                finally:
                    self._tasks.discard(task)
            await error(HTTPStatus.SERVICE_UNAVAILABLE, "The worker has stopped before it could answer; ask again when it runs")(
                scope, receive, send
            )

        return answered
