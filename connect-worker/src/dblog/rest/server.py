"""The HTTP servers behind a worker's listeners, and what is looked at while they serve: files of certificates, users and roles."""

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
"""From a connection's first byte to the end of its TLS handshake."""
LOOK_S = 5.0
"""How often the files of certificates are looked at."""


class Server(uvicorn.Server):
    """Serves one application at one door. It leaves signals to the worker, whose tasks are stopped before its interface goes."""

    def __init__(self, app: ASGIApp, door: Door, *, proxies: Proxies | None = None) -> None:
        """``proxies``: whose X-Forwarded-For is believed; None: nobody's."""
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
        """None of them."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  uvicorn's method
        """As uvicorn does for a socket that is bound, and with a limit for handshakes: whoever does not end one must not hold a connection for long."""
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
    """What follows files."""

    def refresh(self) -> None:
        """Look at them; it may take long."""


async def follow(followed: Sequence[Refreshed]) -> None:
    """Have them look at their files now and then, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        for each in followed:
            try:
                await asyncio.to_thread(each.refresh)
            except Exception as e:  # noqa: BLE001  what was read before goes on
                _log.error("files of the rest interface could not be looked at", exc_info=e)
