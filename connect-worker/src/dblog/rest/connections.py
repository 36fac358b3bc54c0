"""uvicorn's HTTP/1.1 protocol with the limits that it lacks: on the number of connections and on
the time that a client may hold one.

uvicorn waits forever for the rest of a request's head, and closes a connection only after all of an
answer was taken. A client that sends a byte now and then, or takes nothing, would hold its
connection and the answer forever; enough of them would use up the worker's file descriptors.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Container, Mapping
from http import HTTPStatus
from typing import Any

import h11
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from dblog.rest.addresses import client_of
from dblog.rest.api import PROBE_PATHS, error

_log = structlog.get_logger("dblog.rest")

PEER = "dblog.peer"
"""Key in a request's state, for the name in the client's verified certificate."""
CONNECTIONS_MAX = 512
ADDRESS_CONNECTIONS_MAX = 64
"""Connections of one address, unless it is this machine's or a proxy's."""
SPARE_MAX = 64
"""Connections beyond these limits, for probes: too many must not get the worker restarted."""
ADDRESS_SPARE_MAX = 8
SPARE_HEAD_S = 2.0
HEAD_S = 10.0
"""Time from a connection's or a request's first byte to the end of its head."""
ANSWER_S = 30.0
"""Time for a client to take the next piece of an answer that is larger than the buffers."""
ANSWER_PIECE_BYTES = 64 * 1024
CLOSE_S = 10.0
"""Time that the rest of an answer may wait for its client when the connection is to be closed."""


class BoundedProtocol(H11Protocol):
    """One connection of a client."""

    proxies: Container[str] = ()
    address = ""
    is_spare = False
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection.

        A connection beyond the limits is served only if its request is a probe. Beyond the limits
        for such connections it gets 503 at once.
        """
        super().connection_made(transport)
        if (peer := _name_in(transport.get_extra_info("peercert"))) is not None:
            self.app_state = {**self.app_state, PEER: peer}
        self.address = client_of(self.client[0]) if self.client else ""
        if self._is_beyond():
            self.is_spare = True
            self.app = ProbesAlone(self.app)
            spare = [other for other in self.connections if isinstance(other, BoundedProtocol) and other.is_spare]
            if len(spare) > SPARE_MAX or sum(other.address == self.address for other in spare) > ADDRESS_SPARE_MAX:
                self._refuse(503, CROWDED, ("retry-after", "1"))
                return
        self._watch()

    def _is_beyond(self) -> bool:
        """Return True if there are too many connections in total or from this address."""
        served = [other for other in self.connections if isinstance(other, BoundedProtocol) and not other.is_spare]
        if len(served) > CONNECTIONS_MAX:
            return True
        alike = sum(other.address == self.address for other in served)
        return alike > ADDRESS_CONNECTIONS_MAX and not _is_loopback(self.address) and self.address not in self.proxies

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, because the client has gone."""
        self._stop_watching()
        self._unset_answer_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on bytes. The time limit for a request's head holds even if they trickle in."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        """Start the time limit for taking an answer: the buffers are full."""
        super().pause_writing()
        self._unset_answer_timer()
        self._await_taken()

    def resume_writing(self) -> None:
        """End the time limit: the client has taken some of the answer."""
        super().resume_writing()
        self._unset_answer_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection. Data that the client does not take in time is dropped."""
        super().timeout_keep_alive_handler()
        self._abort_later()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 with the interface's error body to bytes that are not HTTP."""
        self._refuse(400, msg)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(SPARE_HEAD_S if self.is_spare else HEAD_S, self._head_is_late)

    def _stop_watching(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _unset_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _await_taken(self) -> None:
        """Limit the time for the next piece of an answer.

        One write is one buffer, however large, so asyncio reports nothing until nearly all of it is
        taken.
        """
        left_max = self.transport.get_write_buffer_size() - ANSWER_PIECE_BYTES
        self._answer_timer = self.loop.call_later(ANSWER_S, self._abort_unless_taken, left_max)

    def _abort_unless_taken(self, left_max: int) -> None:
        self._answer_timer = None
        if self.transport.get_write_buffer_size() > left_max:
            self.transport.abort()
        else:
            self._await_taken()

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._unset_keepalive_if_required()
            if self.is_spare:
                self._refuse(503, CROWDED, ("retry-after", "1"))
                return
            self.transport.close()
            self._abort_later()

    def _abort_later(self) -> None:
        self.loop.call_later(CLOSE_S, self.transport.abort)

    def _refuse(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        body = json.dumps({"error_code": status, "message": message}).encode()
        head = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"), *headers]
        try:
            for event in (h11.Response(status_code=status, headers=head), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer is already under way
            _log.debug("connection closed in the middle of an answer")
        self.transport.close()
        self._abort_later()


CROWDED = f"This worker serves {CONNECTIONS_MAX} connections at a time, and {ADDRESS_CONNECTIONS_MAX} of one address; try again"


class ProbesAlone:
    """Answers probes, and everything else with 503, and closes the connection after each answer.

    For connections beyond the limits.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def ending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        if scope["path"] in PROBE_PATHS:
            await self._app(scope, receive, ending)
            return
        answer = error(HTTPStatus.SERVICE_UNAVAILABLE, CROWDED)
        answer.headers["Retry-After"] = "1"
        await answer(scope, receive, ending)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _name_in(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name, or else the first name, of a verified certificate.

    None without one.
    """
    if not certificate:
        return None
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    return next((text for kind, text in parts if kind == "commonName"), None) or next(
        (text for _, text in certificate.get("subjectAltName", ())), ""
    )
