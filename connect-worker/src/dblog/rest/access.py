"""Decides which role a request needs, from its method and path and before its body is read.

A request on no list needs the role admin for everything.
"""

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
from dblog.rest.api import PROBE_PATHS, error, is_of_page
from dblog.rest.identity import PRINCIPAL, Principal, may, principal_of
from dblog.runtime.policy import ONCE_GONE

SECRETS = "dblog.rest.config.secrets"


@dataclass(frozen=True, slots=True)
class Need:
    """The role that a request needs."""

    role: Role
    connector: str | None = None
    somewhere: bool = False
    """True if the role for any one connector is enough. The resource itself then leaves out what
    the caller may not see.
    """


_CONNECTOR = re.compile(r"/connectors/(?P<connector>[^/]+)(?P<rest>/.*)?")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPERATING = re.compile(
    r"/(?:pause|resume|stop|restart|tasks/[^/]+/restart|topics/reset|ddl/explain|signals|dumps(?:/[^/]+(?:/(?:tables/[^/]+/)?(?:pause|resume|stop))?)?)"
)
"""Paths that need the role operator. Dumps and signals with SQL need more (``rest/dumps.py``)."""
_LOGS = ("/log", "/events")
"""Paths that operators alone read, because a trace of an unexpected error may quote a row."""
_CONFIGURATIONS = ("", "/config", "/tasks")
_LOOKING_UP = re.compile(r"/subjects/[^/]+|/compatibility/.*")
"""POST requests to the registry that only read."""
_REGISTERING = re.compile(rf"/subjects/[^/]+/versions|{re.escape(TOGETHER_PATH)}")


def need(method: str, path: str, query: str = "") -> Need:
    """Return the role that a request needs."""
    reads = method in _READING
    if match := _CONNECTOR.fullmatch(path):
        name, rest = unquote(match["connector"]), match["rest"] or ""
        if reads:
            if rest in _LOGS:
                return Need(Role.OPERATOR, name)
            return Need(Role.VIEWER if rest in _CONFIGURATIONS or rest.startswith("/config/") else Role.READER, name)
        return Need(Role.OPERATOR if _OPERATING.fullmatch(rest) else Role.ADMIN, name)
    if path == "/connectors":
        if reads:
            return Need(Role.VIEWER if "info" in parse_qs(query).get("expand", ()) else Role.READER, somewhere=True)
        return Need(Role.ADMIN, somewhere=True)  # the name is in the body
    if path.startswith("/connector-plugins"):
        # A check connects to the hosts that the configuration names, with its placeholders
        # resolved.
        return Need(Role.READER if reads else Role.ADMIN, somewhere=True)
    if is_of_page(path):
        # A view declares the role that it takes itself, and an action is a request to a resource of
        # this list.
        return Need(Role.READER, somewhere=True)
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
    """Answers 403 to a caller who lacks the role."""

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
    """Raise RequestError 403 if the caller lacks the role.

    For requests with the connector in the body.
    """
    if not may(request, role, connector):
        raise RequestError(HTTPStatus.FORBIDDEN, _refusal(principal_of(request), Need(role, connector)))


def _refusal(principal: Principal, wanted: Need) -> str:
    where = f" of the connector {wanted.connector}" if wanted.connector is not None else "" if wanted.somewhere else " of all connectors"
    return f"This takes the role {wanted.role.name.lower()}{where}, which {principal.name} does not have; {principal.remedy}"


async def shown_config(request: HttpRequest, connector: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration as the caller may see it.

    An administrator gets the stored configuration, as in Kafka Connect, if
    dblog.rest.config.secrets allows it. All others get it without secrets.
    """
    settings = request.app.state.services.worker.settings
    if may(request, Role.ADMIN, connector) and settings.text(SECRETS) == "admin":
        return dict(config)
    # In a thread: names are compared with those of passwords, and a configuration may have 50 000.
    return await asyncio.to_thread(without_secrets, config)


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with its secrets hidden. Placeholders are not secrets and stay."""
    return {shown_name(name): text for name, text in shown_values(config).items()}


def shown_values(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with the secrets of its values hidden, by the keys as they are stored.

    A key may hold a secret itself; ``shown_name`` hides it.
    """
    plugin = find_connector(config.get("connector.class"))
    secret = secret_keys(plugin.options if plugin is not None else (), config)
    return {name: _shown(name, text, is_secret=name in secret) for name, text in config.items()}


def _shown(name: str, text: str, *, is_secret: bool) -> str:
    if not is_secret or not text:
        return shown_value(name, text)
    return text if _is_placeholder(text) else HIDDEN


def _is_placeholder(text: str) -> bool:
    return [(0, len(text))] == list(placeholders_in(text))


def shown_trace(request: HttpRequest, connector: str, trace: str) -> str:
    """Return a task's trace as the caller may see it.

    Operators see all of it. Others see no Python trace, with the texts of its exceptions: nobody
    foresaw these, and one of them may quote a row.
    """
    lines = trace.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
    if begin == len(lines) or may(request, Role.OPERATOR, connector):
        return trace
    return "\n".join([*lines[:begin], *(line for line in lines[begin:] if line.startswith(ONCE_GONE))])
