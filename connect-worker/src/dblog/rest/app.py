"""The application: all resources on one listener, with Connect's rules for paths, types and errors
(Kafka's documentation, REST API).
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.cluster.requests import RequestError
from dblog.config.options import split_list
from dblog.config.origins import AllowedOrigins
from dblog.config.response_headers import ResponseHeaders
from dblog.errors import DblogError
from dblog.rest import admin, connectors, ddl, dumps, journal, offsets, plugins, probes, signals, sinks, tasks, topics, versions
from dblog.rest.access import Access
from dblog.rest.api import Services, error
from dblog.rest.audit import Audit
from dblog.rest.cors import Cors
from dblog.rest.forward import Forward
from dblog.rest.guard import Answers, Bodies, Origins, Types
from dblog.rest.hosts import Hosts, cluster_suffixes
from dblog.rest.identity import PRINCIPAL, READER, Identity
from dblog.rest.limits import Limits, Writes
from dblog.rest.login import Login
from dblog.rest.pageheaders import PageHeaders
from dblog.rest.readonly import reading_routes
from dblog.rest.waiting import Waiting

_log = structlog.get_logger("dblog.rest")


class Part(Enum):
    """The set of routes that a listener serves."""

    ALL = "all"
    ADMIN = "admin"
    READING = "reading"
    OWN = "own"
    """Routes for the worker's own tasks, which their token alone opens."""


def build_app(
    services: Services,
    *,
    waiting: Waiting,
    part: Part = Part.ALL,
    registry_routes: Sequence[BaseRoute] = (),
    page_routes: Sequence[BaseRoute] = (),
    identity: Identity,
    limits: Limits,
) -> Starlette:
    """Return the ASGI application of one listener.

    ``identity`` decides who is let in. The read-only listener asks nobody.
    """
    settings = services.worker.settings
    routes: list[BaseRoute] = [
        *admin.ROUTES,
        *probes.ROUTES,
        *connectors.ROUTES,
        *versions.ROUTES,
        *journal.ROUTES,
        *sinks.ROUTES,
        *tasks.ROUTES,
        *offsets.ROUTES,
        *topics.ROUTES,
        *ddl.ROUTES,
        *dumps.ROUTES,
        *signals.ROUTES,
        *plugins.ROUTES,
    ]
    if services.worker.admin_listeners is None:
        routes += admin.LOGGER_ROUTES
    match part:
        case Part.ALL:
            routes += (*registry_routes, *page_routes)
        case Part.ADMIN:
            routes = [*admin.LOGGER_ROUTES]
        case Part.READING:
            routes = reading_routes(routes, registry_routes)
        case Part.OWN:
            routes = [*registry_routes]
    origins = AllowedOrigins.of(settings.text("access.control.allow.origin"))
    hosts = _hosts(services, part, identity)
    middleware = [Middleware(PageHeaders), Middleware(Answers), Middleware(_Paths), Middleware(Origins, hosts=hosts, origins=origins)]
    if part is Part.READING:
        middleware.append(Middleware(_Anybody))
    else:
        own_token = services.worker.own_registry.token
        middleware += [
            Middleware(Login, identity=None if part is Part.OWN else identity, own_token=own_token, failures=limits.logins),
            Middleware(Writes, buckets=limits.writes),
            Middleware(Audit),
            Middleware(Access),
        ]
    middleware += [Middleware(Types), Middleware(Bodies)]
    if part is Part.ALL:
        middleware.append(Middleware(Forward, services=services))
    if origins:
        middleware.insert(0, Middleware(Cors, origins=origins, methods=split_list(settings.text("access.control.allow.methods"))))
    middleware.insert(0, Middleware(waiting.around))
    app = Starlette(
        routes=[*routes, _Options(routes)],
        middleware=middleware,
        exception_handlers={
            HTTPException: _on_http_error,
            RequestError: on_request_error,
            ClientDisconnect: _on_disconnect,
            DblogError: _on_error,
            Exception: _on_error,
        },
    )
    app.router.redirect_slashes = False
    # Outside of everything else, because Starlette answers unexpected errors outside its own
    # middleware.
    configured = ResponseHeaders.of(settings.text("response.http.headers.config"))
    app.middleware_stack = _Headers(app.build_middleware_stack(), configured=configured)
    app.state.services = services
    return app


def _hosts(services: Services, part: Part, identity: Identity) -> Hosts | None:
    """Return the names that clients may use for this listener, or None for any.

    Tasks call by loopback, or by the worker's own name; the token keeps others from their listener.
    The read-only listener is called by addresses of pods and names of services, and shows everybody
    what a page of another origin could read.
    """
    if part not in (Part.ALL, Part.ADMIN):
        return None
    listed = services.worker.settings.items_of("dblog.rest.allowed.hosts")
    advertised = services.worker.advertised_host
    return Hosts(listed, own=(advertised, socket.gethostname()), identity=identity, namespaces=cluster_suffixes())


async def _on_http_error(_request: HttpRequest, raised: Exception) -> Response:
    if not isinstance(raised, HTTPException):
        raise raised
    answer = error(raised.status_code, f"HTTP {raised.status_code} {HTTPStatus(raised.status_code).phrase}")
    for name, value in (raised.headers or {}).items():
        answer.headers[name] = value
    return answer


async def on_request_error(_request: HttpRequest, raised: Exception) -> Response:
    """Return the answer to a refused request, with Retry-After if the time is known."""
    if not isinstance(raised, RequestError):
        raise raised
    answer = error(raised.status, raised.message)
    if raised.retry_after_s is not None:
        answer.headers["Retry-After"] = str(raised.retry_after_s)
    return answer


async def _on_disconnect(request: HttpRequest, _raised: Exception) -> Response:
    _log.info("client went away before its request was complete", method=request.method)
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _on_error(request: HttpRequest, raised: Exception) -> Response:
    """Answer 500. An unexpected exception's text may contain secrets, so only the log gets it.

    The client gets a number that finds the log line.
    """
    number = secrets.token_hex(4)
    _log.error("request failed", method=request.method, path=request.url.path, number=number, exc_info=raised)
    if isinstance(raised, DblogError):
        return error(HTTPStatus.INTERNAL_SERVER_ERROR, str(raised))
    return error(HTTPStatus.INTERNAL_SERVER_ERROR, f"A fault of dblog: the worker's log has it under the number {number}. Please report it")


class _Anybody:
    """Lets every caller read. The listener's routes are its only limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, PRINCIPAL: READER}, receive, send)


class _Headers:
    """Adds the configured response headers, and forbids browsers to guess a body's type."""

    def __init__(self, app: ASGIApp, *, configured: ResponseHeaders) -> None:
        self._app = app
        self._configured = configured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                names = {name.lower() for name, _ in own}
                message = {**message, "headers": own + [each for each in self._configured.at(time.time()) if each[0] not in names]}
            await send(message)

        await self._app(scope, receive, headed)


class _Paths:
    """Routes by the encoded path, so that names may contain ``%2F``. Removes a trailing slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode()
            path = raw.decode("ascii", "replace").partition("?")[0]
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


class _Options(BaseRoute):
    """Answers OPTIONS on every known path with 200 and Allow."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return a full match for OPTIONS on a path that some route knows."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and self._allowed(scope):
            return Match.FULL, {}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the allowed methods."""
        allowed = ",".join(sorted({*self._allowed(scope), "OPTIONS"}))
        await Response(status_code=HTTPStatus.OK, headers={"Allow": allowed})(scope, receive, send)

    def url_path_for(self, name: str, /, **_path_params: Any) -> Any:
        """Raise LookupError: this route has no path of its own."""
        raise LookupError(name)

    def _allowed(self, scope: Scope) -> set[str]:
        allowed: set[str] = set()
        for route in self._routes:
            if route.matches(scope)[0] is not Match.NONE:
                allowed |= set(getattr(route, "methods", None) or ())
        return allowed
