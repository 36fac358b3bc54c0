"""The HTTP servers of a worker's listeners, and the loop that rereads files of certificates, users
and roles while they serve.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import structlog
import uvicorn
from starlette.types import ASGIApp

from dblog.config.proxies import Proxies
from dblog.rest.connections import BoundedProtocol
from dblog.rest.doors import WAITING_MAX, Door

_log = structlog.get_logger("dblog.rest")

HANDSHAKE_S = 10.0
"""Time from a connection's first byte to the end of its TLS handshake."""
LOOK_S = 5.0
"""Interval at which the files are checked."""


class Server(uvicorn.Server):
    """Serves one application at one listener.

    Leaves signals to the worker, which stops its tasks before its interface.
    """

    def __init__(self, app: ASGIApp, door: Door, *, proxies: Proxies | None = None) -> None:
        """Create the server. ``proxies`` may set X-Forwarded-For; with None nobody may."""
        self._proxies = proxies or Proxies(())
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=2,
                server_header=False,
                proxy_headers=bool(self._proxies.texts),
                forwarded_allow_ips=list(self._proxies.texts),
            )
        )
        self._door = door

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave all signals to the worker."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  uvicorn's method
        """Start like uvicorn on a bound socket, but with a time limit for TLS handshakes.

        A client that never completes its handshake must not hold a connection for long.
        """
        door = self._door

        def protocol() -> asyncio.Protocol:
            made = BoundedProtocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
            made.proxies = self._proxies
            return made

        context: ssl.SSLContext | None = door.context
        limit_s = None if context is None else HANDSHAKE_S
        server = await asyncio.get_running_loop().create_server(
            protocol, sock=door.socket, ssl=context, ssl_handshake_timeout=limit_s, backlog=WAITING_MAX
        )
        self.servers = [server]
        self.started = True


class Refreshed(Protocol):
    """An object that follows files."""

    def refresh(self) -> None:
        """Check the files and reread them. May take long."""


async def follow(followed: Sequence[Refreshed]) -> None:
    """Let each object check its files at intervals, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        for each in followed:
            try:
                await asyncio.to_thread(each.refresh)
            except Exception as e:  # noqa: BLE001  the former content stays in use
                _log.error("files of the rest interface could not be looked at", exc_info=e)
