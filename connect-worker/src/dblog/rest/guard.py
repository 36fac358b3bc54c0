"""Checks for every request (size and time of its body, its type, its Host header, its origin), and
bounds for every answer.

A browser sends a form or plain text to any address without asking, so any page can send requests in
the user's name (CSRF). A request that changes something must therefore declare a JSON body, which a
page of another origin can do only after asking (CORS), and must not come from a page that is not
allowed. Names that an attacker points at the worker's address (DNS rebinding) are refused, because
only the worker's own names are accepted (hosts.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.cluster.requests import RequestError
from dblog.config.origins import AllowedOrigins
from dblog.rest.api import CONNECT_PATHS, PROBE_PATHS, error
from dblog.rest.bodies import BODY_BYTES_MAX
from dblog.rest.hosts import Hosts

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REGISTRY_TYPES = frozenset(
    {"application/json", "application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry+json", "application/octet-stream"}
)
"""Content types of Confluent's registry. A page of another origin must ask before it sends one."""

BODY_S = 30.0
"""Time from a body's first byte to its last."""
BODIES_BYTES_MAX = 32 * 1024 * 1024
"""Total size of the bodies held at one time."""


class Bodies:
    """Bounds the size and the time of a request's body, and the total size of all bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > BODY_BYTES_MAX):  # noqa: PLR2004  int() has a limit of its own
            # The connection stays open and the body is dropped: a client that is cut off while
            # sending would not see the answer.
            await error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)(scope, receive, send)
            return
        own_bytes = 0
        began_s: float | None = None
        now_s = asyncio.get_running_loop().time

        async def bounded_receive() -> Message:
            nonlocal own_bytes, began_s
            began_s = now_s() if began_s is None else began_s
            try:
                async with asyncio.timeout(max(0.0, began_s + BODY_S - now_s())):
                    message = await receive()
            except TimeoutError as e:
                raise RequestError(408, f"The request body did not arrive within {BODY_S:g} s") from e
            size = len(message.get("body", b""))
            own_bytes += size
            self._held_bytes += size
            if own_bytes > BODY_BYTES_MAX:
                raise RequestError(413, _TOO_LARGE)
            if size and self._held_bytes > BODIES_BYTES_MAX:
                raise RequestError(503, "Too many requests with large bodies at one time; try again", retry_after_s=1)
            return message

        try:
            await self._app(scope, bounded_receive, send)
        finally:
            self._held_bytes -= own_bytes


_TOO_LARGE = f"The request body is larger than {BODY_BYTES_MAX // 1024 // 1024} MiB"


ANSWERS_BYTES_MAX = 32 * 1024 * 1024
"""Total size of one listener's large answers that their clients have not taken yet."""
_SMALL_BYTES = 64 * 1024
"""Smaller answers fit the connection's own buffer. They are not counted and never refused."""


class Answers:
    """Bounds the total bytes of answers under way, so that clients who take nothing cannot fill
    memory.

    An answer is passed on in pieces, each when its connection's buffer has room, so the counted
    bytes are those in memory. An answer larger than the bound is sent alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        refused = False

        async def bounded_send(message: Message) -> None:
            nonlocal start, refused
            if refused:
                return
            if message["type"] == "http.response.start":
                # Held back, because the body decides whether the answer is refused.
                start = message
                return
            body = message.get("body", b"")
            counted_bytes = len(body) if len(body) > _SMALL_BYTES else 0
            if start is not None and counted_bytes and self._held_bytes and self._held_bytes + counted_bytes > ANSWERS_BYTES_MAX:
                refused = True
                answer = error(HTTPStatus.SERVICE_UNAVAILABLE, "Too many large answers are under way at one time; try again")
                answer.headers["Retry-After"] = "1"
                await answer(scope, receive, send)
                return
            self._held_bytes += counted_bytes
            try:
                if start is not None:
                    head, start = start, None
                    await send(head)
                sent_bytes = 0
                while len(body) - sent_bytes > _SMALL_BYTES:
                    await send({"type": "http.response.body", "body": body[sent_bytes : sent_bytes + _SMALL_BYTES], "more_body": True})
                    sent_bytes += _SMALL_BYTES
                await send({**message, "body": body[sent_bytes:]})
            finally:
                self._held_bytes -= counted_bytes

        await self._app(scope, receive, bounded_send)


class Origins:
    """Answers 421 to other hosts' names, and 403 to changes requested by pages of other origins."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts | None, origins: AllowedOrigins) -> None:
        """Create the middleware. ``hosts`` None accepts every name."""
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refused := self._refused(scope, Headers(scope=scope))) is not None:
            await error(*refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        probe = scope["path"] in PROBE_PATHS  # probes use the address of the pod
        if self._hosts is not None and not probe and not self._hosts.takes(scope, host):
            return HTTPStatus.MISDIRECTED_REQUEST, "This worker does not go by the name of the Host header; see dblog.rest.allowed.hosts"
        if scope["method"] in _READING or self._origins.every:
            return None
        origin = headers.get("origin")
        if origin is None:
            foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        else:
            foreign = not self._origins.allows(origin) and urlsplit(origin).netloc.lower() != host
        if foreign:
            return HTTPStatus.FORBIDDEN, "A page of another origin may not change anything here; see access.control.allow.origin"
        return None


class Types:
    """Answers 415 to a body that is not declared as JSON, and on Connect's own paths 406 to a
    client that accepts no JSON.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (status := self._refused(scope)) is not None:
            remedy = ": send Content-Type: application/json" if status is HTTPStatus.UNSUPPORTED_MEDIA_TYPE else ""
            await error(status, f"HTTP {status.value} {status.phrase}{remedy}")(scope, receive, send)
            return
        await self._app(scope, receive, send)

    @staticmethod
    def _refused(scope: Scope) -> HTTPStatus | None:
        headers = Headers(scope=scope)
        of_connect = scope["path"] == "/" or scope["path"].startswith(CONNECT_PATHS)
        if of_connect:
            accepted = [item.partition(";")[0].strip().lower() for item in headers.get("accept", "*/*").split(",")]
            if not any(item in ("*/*", "application/*", "application/json", "*", "") for item in accepted):
                return HTTPStatus.NOT_ACCEPTABLE
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if scope["method"] not in _READING and has_body:
            given = headers.get("content-type", "").partition(";")[0].strip().lower()
            known = given == "application/json" or given.endswith("+json") if of_connect else given in _REGISTRY_TYPES
            if not known:
                return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        return None
