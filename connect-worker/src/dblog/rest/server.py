"""The sockets that a worker listens on, with or without TLS, and the HTTP servers behind them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
import uvicorn
from starlette.types import ASGIApp

from dblog.config.listener_tls import ADMIN_PREFIX, MAIN_PREFIX, ListenerTls, ServerContext
from dblog.config.listeners import Listener
from dblog.config.worker import WorkerConfig
from dblog.errors import DefiniteError
from dblog.rest.connections import BoundedProtocol

_log = structlog.get_logger("dblog.rest")

HANDSHAKE_S = 10.0
"""From a connection's first byte to the end of its TLS handshake."""
LOOK_S = 5.0
"""How often the files of certificates are looked at."""
_WAITING_MAX = 256


@dataclass(frozen=True, slots=True)
class Door:
    """One listener, bound."""

    listener: Listener
    socket: socket.socket
    context: ServerContext | None

    @property
    def is_open_beyond_this_machine(self) -> bool:
        """Whether whoever reaches it from elsewhere is served without showing a certificate."""
        return not self.listener.is_loopback and not (self.context is not None and self.context.requires_certificates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """All listeners of a worker."""

    main: tuple[Door, ...]
    admin: tuple[Door, ...]
    reading: tuple[Door, ...]
    own: Door | None
    """For the worker's own tasks, which reach its registry without TLS on loopback: they have neither its authorities nor a certificate."""

    @property
    def contexts(self) -> tuple[ServerContext, ...]:
        """Those of TLS, each once."""
        return tuple(dict.fromkeys(door.context for door in (*self.main, *self.admin, *self.reading) if door.context is not None))


def open_doors(worker: WorkerConfig) -> Doors:
    """Bind every listener; ConfigError or DefiniteError names the key at fault."""
    properties = worker.settings.originals
    contexts: dict[str, ServerContext] = {}

    def opened(listeners: tuple[Listener, ...], option: str, prefix: str = MAIN_PREFIX) -> tuple[Door, ...]:
        return tuple(_opened(listener, option, _context(listener, properties, prefix, contexts)) for listener in listeners)

    return Doors(
        main=opened(worker.listeners, "listeners"),
        admin=opened(worker.admin_listeners or (), "admin.listeners", ADMIN_PREFIX),
        reading=opened((worker.readonly_listener,) if worker.readonly_listener else (), "dblog.rest.readonly.listener"),
        own=_opened(Listener("http", "127.0.0.1", 0), "listeners", None) if worker.advertised_scheme == "https" else None,
    )


def _context(listener: Listener, properties: Mapping[str, str], prefix: str, made: dict[str, ServerContext]) -> ServerContext | None:
    if not listener.secure:
        return None
    if prefix not in made:
        made[prefix] = ServerContext(ListenerTls.of(properties, prefix))
    return made[prefix]


def _opened(listener: Listener, option: str, context: ServerContext | None) -> Door:
    """Bind first: a port in use is reported at once, and port 0 becomes a number that others can use."""
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) where it sees the protocol: else a body waits 40 ms for the confirmation of its head.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((listener.host, listener.port))
        opened.listen(_WAITING_MAX)
    except OSError as e:
        opened.close()
        raise DefiniteError(f"the listener {listener.address} cannot be opened ({e.strerror}); choose another address in {option}") from e
    opened.setblocking(False)
    return Door(listener.at_port(opened.getsockname()[1]), opened, context)


class Server(uvicorn.Server):
    """Serves one application at one door. It leaves signals to the worker, whose tasks are stopped before its interface goes."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
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
            return BoundedProtocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

        context: ssl.SSLContext | None = door.context
        limit_s = None if context is None else HANDSHAKE_S
        server = await asyncio.get_running_loop().create_server(
            protocol, sock=door.socket, ssl=context, ssl_handshake_timeout=limit_s, backlog=_WAITING_MAX
        )
        self.servers = [server]
        self.started = True


async def follow_certificates(doors: Doors) -> None:
    """Look at their files now and then, until cancelled."""
    while doors.contexts:
        await asyncio.sleep(LOOK_S)
        for context in doors.contexts:
            try:
                await asyncio.to_thread(context.refresh)
            except Exception as e:  # noqa: BLE001  a renewed certificate must not end what serves with the former one
                _log.error("the listeners' certificate could not be looked at", exc_info=e)
