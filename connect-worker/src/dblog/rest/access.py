"""Which role a request takes, decided from its method and path before anything of it is read. What is on no list takes an administrator of everything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Receive, Scope, Send

from dblog.cluster.requests import RequestError
from dblog.config.options import HIDDEN
from dblog.config.plugins import find_connector
from dblog.config.providers import placeholders_in
from dblog.config.roles import Role
from dblog.config.secret_values import secret_keys, shown_name, shown_value
from dblog.kafka.registry_answers import TOGETHER_PATH
from dblog.rest.api import PROBE_PATHS, error
from dblog.rest.identity import PRINCIPAL, Principal, may, principal_of

SECRETS = "dblog.rest.config.secrets"


@dataclass(frozen=True, slots=True)
class Need:
    """What a request takes."""

    role: Role
    connector: str | None = None
    somewhere: bool = False
    """The role for any connector does; the resource itself leaves out what is not for who asks."""


_CONNECTOR = re.compile(r"/connectors/(?P<connector>[^/]+)(?P<rest>/.*)?")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPERATING = re.compile(
    r"/(?:pause|resume|stop|restart|tasks/[^/]+/restart|topics/reset|ddl/explain|signals|dumps(?:/[^/]+(?:/(?:tables/[^/]+/)?(?:pause|resume|stop))?)?)"
)
"""A request for a dump that has SQL in it takes more, see ``rest/dumps.py``, and so does a signal."""
_CONFIGURATIONS = ("", "/config", "/tasks")
_LOOKING_UP = re.compile(r"/subjects/[^/]+|/compatibility/.*")
"""POST requests of a registry that only ask."""
_REGISTERING = re.compile(rf"/subjects/[^/]+/versions|{re.escape(TOGETHER_PATH)}")


def need(method: str, path: str, query: str = "") -> Need:
    """What the request takes."""
    reads = method in _READING
    if match := _CONNECTOR.fullmatch(path):
        name, rest = unquote(match["connector"]), match["rest"] or ""
        if reads:
            return Need(Role.VIEWER if rest in _CONFIGURATIONS else Role.READER, name)
        return Need(Role.OPERATOR if _OPERATING.fullmatch(rest) else Role.ADMIN, name)
    if path == "/connectors":
        if reads:
            return Need(Role.VIEWER if "info" in parse_qs(query).get("expand", ()) else Role.READER, somewhere=True)
        return Need(Role.ADMIN, somewhere=True)  # the name is in the body
    if path.startswith("/connector-plugins"):
        # A check connects to what the configuration names, with what its placeholders stand for.
        return Need(Role.READER if reads else Role.ADMIN, somewhere=True)
    if path.startswith("/admin"):
        return Need(Role.VIEWER if reads else Role.ADMIN)
    if reads:
        return Need(Role.READER, somewhere=True)
    if method == "POST" and _REGISTERING.fullmatch(path):
        return Need(Role.OPERATOR)
    if method == "POST" and _LOOKING_UP.fullmatch(path):
        return Need(Role.READER, somewhere=True)
    return Need(Role.ADMIN)


class Access:
    """403 for whoever lacks the role."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBE_PATHS:
            wanted = need(scope["method"], scope["path"], scope.get("query_string", b"").decode("ascii", "replace"))
            principal: Principal = scope[PRINCIPAL]
            grants = principal.grants
            if not (grants.may_somewhere(wanted.role) if wanted.somewhere else grants.may(wanted.role, wanted.connector)):
                await error(HTTPStatus.FORBIDDEN, _refusal(principal, wanted))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def require(request: HttpRequest, role: Role, connector: str) -> None:
    """The same where the connector's name is in the body."""
    if not may(request, role, connector):
        raise RequestError(HTTPStatus.FORBIDDEN, _refusal(principal_of(request), Need(role, connector)))


def _refusal(principal: Principal, wanted: Need) -> str:
    where = f" of the connector {wanted.connector}" if wanted.connector is not None else "" if wanted.somewhere else " of all connectors"
    return f"This takes the role {wanted.role.name.lower()}{where}, which {principal.name} does not have; {principal.remedy}"


async def shown_config(request: HttpRequest, connector: str, config: Mapping[str, str]) -> dict[str, str]:
    """A configuration as whoever asks may see it: as it is stored for an administrator, as Kafka Connect shows it, and without what is secret for others."""
    settings = request.app.state.services.worker.settings
    if may(request, Role.ADMIN, connector) and settings.text(SECRETS) == "admin":
        return dict(config)
    # In a thread: names are compared with those of passwords, and a configuration may have 50 000.
    return await asyncio.to_thread(without_secrets, config)


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """A configuration whose secrets are hidden; placeholders, which are none, stay."""
    plugin = find_connector(config.get("connector.class"))
    secret = secret_keys(plugin.options if plugin is not None else (), config)
    return {shown_name(name): _shown(name, text, is_secret=name in secret) for name, text in config.items()}


def _shown(name: str, text: str, *, is_secret: bool) -> str:
    if not is_secret or not text:
        return shown_value(name, text)
    return text if _is_placeholder(text) else HIDDEN


def _is_placeholder(text: str) -> bool:
    return [(0, len(text))] == list(placeholders_in(text))


def shown_trace(request: HttpRequest, connector: str, trace: str) -> str:
    """A task's trace; the places in the worker's code, which a fault of ours shows, are for an operator."""
    if may(request, Role.OPERATOR, connector):
        return trace
    lines = trace.splitlines()
    return "\n".join(line for line in lines if not line.startswith((" ", "Traceback ")))
