"""How long and how many clients may hold a connection: uvicorn's HTTP/1.1 protocol with the limits that it lacks.

uvicorn waits for ever for the rest of a request's head, and closes a connection only after all of an answer was taken. A client that sends one byte now
and then, or takes none, would hold its connection and the answer for ever, and enough of them all of the worker's file descriptors.
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
"""In a request's state: the name in the certificate that its client has shown, which the listener's authorities have signed."""
CONNECTIONS_MAX = 512
ADDRESS_CONNECTIONS_MAX = 64
"""Of one address, unless it is this machine's or a proxy's."""
SPARE_MAX = 64
"""Connections beyond these limits, for probes alone: whoever opens many must not have the worker restarted."""
ADDRESS_SPARE_MAX = 8
SPARE_HEAD_S = 2.0
HEAD_S = 10.0
"""From a connection's or a request's first byte to the end of its head."""
ANSWER_S = 30.0
"""How long a client may take for the next piece of an answer that is larger than the buffers."""
ANSWER_PIECE_BYTES = 64 * 1024
CLOSE_S = 10.0
"""How long the rest of an answer may wait for its client once the connection is to be closed."""


class BoundedProtocol(H11Protocol):
    """One connection of a client."""

    proxies: Container[str] = ()
    address = ""
    is_spare = False
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection. One beyond the limits is asked for its request, and served if that is a probe; with too many of them it gets 503 at once."""
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
        """Tell whether there are too many connections, or too many of the address."""
        served = [other for other in self.connections if isinstance(other, BoundedProtocol) and not other.is_spare]
        if len(served) > CONNECTIONS_MAX:
            return True
        alike = sum(other.address == self.address for other in served)
        return alike > ADDRESS_CONNECTIONS_MAX and not _is_loopback(self.address) and self.address not in self.proxies

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_watching()
        self._unset_answer_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The head of a request may take so long, whatever trickles in."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        """The buffers are full of an answer."""
        super().pause_writing()
        self._unset_answer_timer()
        self._await_taken()

    def resume_writing(self) -> None:
        """The client has taken some of it."""
        super().resume_writing()
        self._unset_answer_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; what its client has not taken by then is dropped."""
        super().timeout_keep_alive_handler()
        self._abort_later()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets the interface's error body too."""
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
        """What is written at once is one buffer, however large, so asyncio reports nothing until nearly all of it has been taken."""
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
        except h11.LocalProtocolError:  # an answer is under way already
            _log.debug("connection closed in the middle of an answer")
        self.transport.close()
        self._abort_later()


CROWDED = f"This worker serves {CONNECTIONS_MAX} connections at a time, and {ADDRESS_CONNECTIONS_MAX} of one address; try again"


class ProbesAlone:
    """Answers probes, and everything else with 503: for connections beyond the limits. Each ends with its answer."""

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
    """The common name, or the first name that there is, of a certificate that was checked; None without one."""
    if not certificate:
        return None
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    return next((text for kind, text in parts if kind == "commonName"), None) or next(
        (text for _, text in certificate.get("subjectAltName", ())), ""
    )
