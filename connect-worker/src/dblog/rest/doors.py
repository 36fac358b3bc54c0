"""The sockets that a worker listens on, with or without TLS.

They are bound before anything else is imported, so that a port in use is reported at once.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dblog.config.listeners import ADMIN_PREFIX, MAIN_PREFIX, Listener
from dblog.config.worker import WorkerConfig
from dblog.errors import DefiniteError

if TYPE_CHECKING:
    from dblog.config.listener_tls import ServerContext

WAITING_MAX = 256


@dataclass(frozen=True, slots=True)
class Door:
    """A bound listener."""

    listener: Listener
    socket: socket.socket
    context: ServerContext | None

    @property
    def is_open_beyond_this_machine(self) -> bool:
        """True if callers from other machines are served without a certificate."""
        return not self.listener.is_loopback and not (self.context is not None and self.context.requires_certificates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """All listeners of a worker."""

    main: tuple[Door, ...]
    admin: tuple[Door, ...]
    reading: tuple[Door, ...]
    own: Door | None
    """A loopback listener without TLS for the worker's own tasks, which have neither its
    authorities nor a certificate.
    """

    @property
    def open_beyond_this_machine(self) -> str:
        """Addresses of the listeners that serve other machines without a certificate."""
        return ",".join(door.listener.address for door in (*self.main, *self.admin) if door.is_open_beyond_this_machine)

    @property
    def contexts(self) -> tuple[ServerContext, ...]:
        """The TLS contexts, each once."""
        return tuple(dict.fromkeys(door.context for door in (*self.main, *self.admin, *self.reading) if door.context is not None))


def open_doors(worker: WorkerConfig) -> Doors:
    """Bind every listener. Raise ConfigError or DefiniteError naming the option at fault."""
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
    from dblog.config.listener_tls import ListenerTls, ServerContext  # noqa: PLC0415  only where there is TLS

    if prefix not in made:
        made[prefix] = ServerContext(ListenerTls.of(properties, prefix))
    return made[prefix]


def _opened(listener: Listener, option: str, context: ServerContext | None) -> Door:
    """Bind a listener. A port in use is reported at once; port 0 becomes the actual number."""
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    # The explicit protocol makes asyncio set TCP_NODELAY. Without it a body waits 40 ms for the
    # acknowledgement of its head.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((listener.host, listener.port))
        opened.listen(WAITING_MAX)
    except OSError as e:
        opened.close()
        raise DefiniteError(f"the listener {listener.address} cannot be opened ({e.strerror}); choose another address in {option}") from e
    opened.setblocking(False)
    return Door(listener.at_port(opened.getsockname()[1]), opened, context)
