"""Writes an audit line for each request that changes or tries to change something or checks a
configuration: the user, the client's address, the request and its outcome.

The logger is ``dblog.audit``. For a configuration the line has the added, changed and removed keys
with their new values, without secrets. Task processes register schemas by the thousand and are left
out.

A request that a standby forwards has two lines. The standby's names the leader; the leader's has
the keys, the standby's address as the client, and the standby's own claims: its address and its
client's. Any caller could make the same claims, so they have field names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.config.secret_values import shown_name
from dblog.rest.access import without_secrets
from dblog.rest.api import is_of_page
from dblog.rest.identity import FORWARDED, PRINCIPAL, Principal, Way

_log = structlog.get_logger("dblog.audit")

HANDED_ON_FOR = "x-dblog-forwarded-for"
"""Header with the address of the client whose request a standby forwards."""
_NOTED = "dblog.audit"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKING = re.compile(r"/connector-plugins/.*|/connectors/[^/]+/ddl/explain|/subjects/[^/]+|/compatibility/.*")
"""Paths whose POST and PUT requests change nothing."""
_CHECKING = re.compile(r"/connector-plugins/[^/]+/config/validate|/connectors/[^/]+/ddl/explain")
"""Paths whose requests connect to hosts that a configuration names, with placeholders resolved."""
_CONNECTOR = re.compile(r"/connectors/([^/]+)(?:/.*)?")
_KEYS_MAX = 100
_VALUE_CHARS_MAX = 200


class Audit:
    """Writes the audit lines."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is None or principal.way is Way.TASK or not _changes(scope):
            await self._app(scope, receive, send)
            return
        noted: dict[str, Any] = {}
        status = 0

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app({**scope, _NOTED: noted}, receive, heard)
        finally:
            kind = "check" if _CHECKING.fullmatch(scope["path"]) else "change"
            match = _CONNECTOR.fullmatch(scope["path"])
            about = {"connector": unquote(match[1])} if match else {}
            _log.info(
                kind if 200 <= status < 300 else f"{kind} refused",  # noqa: PLR2004  HTTP's
                user=principal.name,
                way=principal.way.value,
                client=str((scope.get("client") or ("?",))[0]),
                method=scope["method"],
                path=scope["path"],
                status=status or None,
                **(about | _told(scope) | noted),
            )


def _told(scope: Scope) -> dict[str, str]:
    """Return the claims of a standby about a request that it forwards."""
    given = Headers(scope=scope)
    said = {"handed_on_by": FORWARDED, "handed_on_for": HANDED_ON_FOR}
    return {field: given[name][:_VALUE_CHARS_MAX] for field, name in said.items() if FORWARDED in given and name in given}


def note_handed_on(scope: Scope, leader: str) -> None:
    """Name, in the audit line, the leader that answered. The leader's own line has the keys."""
    if (noted := scope.get(_NOTED)) is not None:
        noted["handed_on_to"] = leader


def _changes(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] not in _READING
        and not is_of_page(scope["path"])  # an action of the page is a request to a resource, which has the line
        and not (scope["method"] in ("POST", "PUT") and _ASKING.fullmatch(scope["path"]) and not _CHECKING.fullmatch(scope["path"]))
    )


def note(request: HttpRequest, connector: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    """Add the changes that a request makes to a configuration to its audit line."""
    noted = request.scope.get(_NOTED)
    if noted is None:
        return
    old = before or {}
    changed = [name for name in after if old.get(name) != after[name]][:_KEYS_MAX]
    kind = {"connector.class": after.get("connector.class", "")}  # decides which keys are passwords
    noted["connector"] = connector
    noted["set"] = {}
    for name in changed:
        shown = without_secrets({**kind, name: after[name]})
        noted["set"] |= {
            key: text[:_VALUE_CHARS_MAX] for key, text in shown.items() if name == "connector.class" or key != "connector.class"
        }
    noted["removed"] = sorted(map(shown_name, [name for name in old if name not in after][:_KEYS_MAX]))


def note_fields(request: HttpRequest, **fields: Any) -> None:
    """Add fields to a request's audit line. They must not contain secrets or values of rows."""
    if (noted := request.scope.get(_NOTED)) is not None:
        noted |= fields


def note_checked(request: HttpRequest, config: Mapping[str, str | None]) -> None:
    """Add a checked connector's name, and its database hosts as written, to the audit line."""
    told = {"connector": "name", "host": "database.hostname", "dump_host": "dblog.dump.hostname"}
    note_fields(request, **{field: text[:_VALUE_CHARS_MAX] for field, key in told.items() if (text := config.get(key))})
