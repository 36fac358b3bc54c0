"""Logs in at a server that anybody may have named, and that may not be a PostgreSQL server.

Until a login is complete, a server may send settings and notices without end, and libpq stores
them. So libpq is run step by step (PostgreSQL manual, 34.1, PQconnectPoll), which gives access to
the socket and to the number of bytes received. For psycopg2 a connection made this way stays
asynchronous, so each statement needs ``wait``.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ

from dblog.dialects.postgres.wire.answers import ANSWERS, Answer
from dblog.dialects.postgres.wire.encodings import NO_ENCODING
from dblog.errors import DefiniteError

LOGIN_BYTES_MAX = 1 << 20
"""Limit of the bytes received during a login; certificates and settings take some ten thousand."""


def log_in(arguments: Mapping[str, Any], *, address: str) -> Any:
    """Return an open connection. Raise psycopg2.Error if none can be made, and DefiniteError for a
    server that sends too much. ``connect_timeout`` applies to each address.
    """
    connection = _at_any_address(arguments, address=address)
    if connection.get_parameter_status("server_encoding") == NO_ENCODING != arguments.get("client_encoding"):
        connection.close()
        return _at_any_address({**arguments, "client_encoding": NO_ENCODING}, address=address)
    return connection


def wait(connection: Any) -> None:
    """Wait until the running statement has been answered."""
    while (state := connection.poll()) != POLL_OK:
        _ready(connection.fileno(), state, None)


def _at_any_address(arguments: Mapping[str, Any], *, address: str) -> Any:
    """Try the addresses of the host one after the other, as libpq does itself, until one answers in
    time.
    """
    failed: psycopg2.Error | None = None
    for number in _addresses(str(arguments["host"]), int(arguments["port"])):
        try:
            return _at({**arguments, "hostaddr": number}, address=address)
        except psycopg2.OperationalError as e:
            failed = e
    raise failed or psycopg2.OperationalError("could not translate host name: no address")


def _addresses(host: str, port: int) -> Iterator[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as e:
        message = f"could not translate host name: {e.strerror}"
        raise psycopg2.OperationalError(message) from e
    return iter(dict.fromkeys(str(entry[4][0]) for entry in found))


def _at(arguments: Mapping[str, Any], *, address: str) -> Any:
    until_s = time.monotonic() + float(arguments["connect_timeout"])
    connection = psycopg2.connect(**arguments, async_=1)
    # A server without TLS, or with another login method, gets a second socket.
    watched: dict[int, Answer] = {}
    try:
        with ExitStack() as looks:
            while (state := connection.poll()) != POLL_OK:
                descriptor = connection.fileno()
                if descriptor not in watched:
                    watched[descriptor] = answer = Answer(descriptor, bytes_max=LOGIN_BYTES_MAX, budget=None)
                    looks.enter_context(ANSWERS.watched(answer))
                _ready(descriptor, state, until_s)
    except BaseException as e:
        connection.close()
        if isinstance(e, psycopg2.Error) and any(answer.is_too_long for answer in watched.values()):
            raise _too_much(address) from e
        raise
    if any(answer.is_too_long for answer in watched.values()):
        connection.close()
        raise _too_much(address)
    return connection


def _ready(descriptor: int, state: int, until_s: float | None) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN if state == POLL_READ else select.POLLOUT)
    left_ms = None if until_s is None else max(0.0, (until_s - time.monotonic()) * 1000)
    if not poller.poll(left_ms):
        message = "timeout expired"
        raise psycopg2.OperationalError(message)


def _too_much(address: str) -> DefiniteError:
    return DefiniteError(
        f"the program that answers at {address} is not a PostgreSQL server: it sends more than {LOGIN_BYTES_MAX >> 20} MiB before anybody has logged in; check "
        "database.hostname and database.port"
    )
