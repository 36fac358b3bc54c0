"""A request for a view: the caller and its roles, and the way to the REST resources.

An action of the page is a request to a resource of the REST interface, sent within this process
with the caller's own login. So the same checks, limits and audit lines apply, a standby hands it on
to the leader, and the page can do nothing that the interface refuses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.types import Message, Scope

from dblog.cluster.requests import RequestError, bad_request
from dblog.config.roles import Role
from dblog.page.collecting import Fleet
from dblog.page.history import History
from dblog.rest.api import PAGE_PATH, Services, parsed, segment, services
from dblog.rest.identity import may, principal_of

_NUMBERS_MAX = 9
_DROPPED = (b"content-length", b"content-type", b"transfer-encoding", b"accept", b"accept-encoding", b"if-none-match")


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a REST resource."""

    status: int
    body: Any
    """The parsed JSON, or None for an empty body."""
    headers: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """True if the request was carried out."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def message(self) -> str:
        """The resource's sentence about a refusal."""
        return str(self.body.get("message") or "") if isinstance(self.body, dict) else ""


class Versions(Protocol):
    """Finds the newest version of each topic's schema (``page/tables.py``)."""

    async def newest(self, asked: Asked, topics: Iterable[str]) -> dict[str, int]:
        """Return the newest version by topic."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for a view or an action."""

    request: HttpRequest
    history: History
    fleet: Fleet
    schema_versions: Versions

    @property
    def services(self) -> Services:
        """The objects that the REST resources work with."""
        return services(self.request)

    def segment(self, name: str) -> str:
        """Return a decoded segment of the path."""
        return segment(self.request, name)

    def query(self, name: str) -> str:
        """Return a parameter of the query, or an empty text."""
        return self.request.query_params.get(name, "")

    def number(self, name: str, default: int = 1) -> int:
        """Return a whole number of the query, or the default for anything else."""
        text = self.query(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBERS_MAX else default

    def may(self, role: Role, connector: str | None = None) -> bool:
        """Return True if the caller has the role for the connector, or for all."""
        return may(self.request, role, connector)

    def may_somewhere(self, role: Role) -> bool:
        """Return True if the caller has the role for any connector."""
        return principal_of(self.request).grants.may_somewhere(role)

    async def fields(self) -> dict[str, Any]:
        """Return the fields of a form, which the page's script sends as JSON."""
        body = parsed(await self.request.body() or b"{}")
        if not isinstance(body, dict):
            raise bad_request("The page's forms send a JSON object; load the page again")
        return body

    async def call(self, method: str, path: str, body: object = None, *, query: str = "") -> Answered:
        """Send a request to a REST resource with the caller's login, and return the answer."""
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = [each for each in self.request.scope["headers"] if each[0] not in _DROPPED]
        headers += [(b"accept", b"application/json"), (b"content-length", str(len(content)).encode())]
        headers += [(b"content-type", b"application/json")] if content else []
        scope: Scope = {
            **{
                name: value
                for name, value in self.request.scope.items()
                if name not in ("endpoint", "path_params", "route", "router", "app")
            },
            "method": method,
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": headers,
        }
        found = _Collected(content)
        # A task of its own, because a worker that stops answers each waiting request by its task.
        await asyncio.create_task(self.request.app(scope, found.receive, found.send))
        return found.answered()


def connector_path(name: str, rest: str = "") -> str:
    """Return the path of a connector's resource."""
    return f"/connectors/{quote(name, safe='')}{rest}"


def page_path(name: str, rest: str = "") -> str:
    """Return the address of a connector's view."""
    return f"{PAGE_PATH}{connector_path(name, rest)}"


def refused(answer: Answered) -> RequestError:
    """Return the refusal of a REST resource as an error, for the caller to see."""
    return RequestError(answer.status, answer.message or f"The worker answered {answer.status} {HTTPStatus(answer.status).phrase}")


class _Collected:
    """The two ends of a request within the process."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._is_sent = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def receive(self) -> Message:
        if self._is_sent:
            return {"type": "http.disconnect"}
        self._is_sent = True
        return {"type": "http.request", "body": self._content, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self._body += message.get("body", b"")

    def answered(self) -> Answered:
        try:
            body = json.loads(self._body) if self._body else None
        except ValueError:
            body = {"message": bytes(self._body[:1000]).decode("utf-8", "replace")}
        return Answered(self._status, body, self._headers)
