"""Client of the worker's REST API: logs in, and turns every failure into a sentence.

Requests go to the address that the user named, whichever worker it leads to; a standby forwards
what only the leader can answer. So the leader's own address need not be reachable from here, and
through a port-forward or a proxy it is not. Requests that a standby cannot forward
(``rest/forward.py``) get 409 with the leader's address, and later requests go there, unless there
is a login. A standby forwards a login itself, and refuses only what it must not send there: the
leader's address comes from the brokers, and anyone who answers as one of them can name any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.trust import trusting, unreached

TIMEOUT_S = 100.0
"""Seconds to wait for an answer: more than the worker's own limit for checking a configuration."""
LOGIN_VARIABLE = "DBLOG_REST_LOGIN"

_STANDBY = re.compile(r"\bstandby: (https?://\S+) runs\b")


_WARNING = re.compile(r'\b(199|299) dblog "((?:[^"\\]|\\.)*)"')
"""A warning in the worker's Warning header: code 299 is a doubt, 199 an ordinary remark."""
_DOUBT = "299"
_REMEDY = "start one, or name the address of another with --url"


class RefusedError(DblogError):
    """A refusal by the worker, with its status and message."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def read_login(path: Path | None, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password, or None if no login is given.

    ``path`` is a folder with the files username and password (as Kubernetes mounts them) or a file
    with ``user:password``; without it the environment variable is read. Raise DefiniteError, which
    does not quote the text, if the login has another form.
    """
    if path is None:
        return _pair(environment.get(LOGIN_VARIABLE, ""), f"the environment variable {LOGIN_VARIABLE}")
    try:
        if path.is_dir():
            user, password = ((path / name).read_text(encoding="utf-8").rstrip("\r\n") for name in ("username", "password"))
            return user, password
        return _pair(path.read_text(encoding="utf-8").strip(), f"the file {path}")
    except OSError as e:
        raise DefiniteError(
            f"the login cannot be read: {e.filename}: {e.strerror}; name a folder with username and password, or a file"
        ) from e
    except UnicodeDecodeError as e:
        raise DefiniteError(f"the login in {path} is not UTF-8 text") from e


def _pair(text: str, where: str) -> tuple[str, str] | None:
    user, colon, password = text.partition(":")
    if text and not (user and colon):
        raise DefiniteError(f"{where} has no user name and colon before the password; write it as user:password")
    return (user, password) if text else None


class Interface:
    """Requests of one round to a group of workers.

    Close it after each round: the next round starts again at the address that the user named.
    """

    def __init__(self, url: str, *, login: tuple[str, str] | None, authorities: Path | None = None) -> None:
        self._url = self._base = url.rstrip("/")
        self._client = httpx.Client(auth=login, timeout=TIMEOUT_S, verify=trusting(authorities), trust_env=False, follow_redirects=False)
        self._has_login = login is not None
        self._warning = ""
        self._leader = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def address(self) -> str:
        """Address that requests go to now."""
        return self._base

    @property
    def leader(self) -> str:
        """Address that the leader advertises, as the worker's health named it; the worker's own
        address if it leads itself.
        """
        return self._leader or self._base

    def require_ready(self) -> None:
        """Raise TransientError while the worker is not ready, or its group has no leader."""
        health = self._send("GET", "/health", None)
        self._leader = _leader_in(_message(health))
        if health.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise TransientError(f"the worker at {self._base} is not ready: {_message(health)}")

    def get(self, path: str) -> Any:
        """Return the JSON of the answer to a GET request."""
        return self._ask("GET", path)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Send any other request and return the JSON of the answer."""
        return self._ask(method, path, body)

    def create(self, config: Mapping[str, str], state: str | None) -> None:
        """Create a connector, in this state if one is given."""
        body = {"name": config["name"], "config": dict(config), **({"initial_state": state.upper()} if state else {})}
        self._ask("POST", "/connectors", body)

    def put_config(self, config: Mapping[str, str]) -> None:
        """Replace a connector's configuration."""
        self._ask("PUT", f"{_of(config['name'])}/config", dict(config))

    def put_state(self, name: str, verb: str) -> None:
        """Send ``resume``, ``pause`` or ``stop`` to a connector."""
        self._ask("PUT", f"{_of(name)}/{verb}")

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets stay."""
        self._ask("DELETE", _of(name))

    def restart_failed(self, name: str) -> None:
        """Restart a connector and those of its tasks that have failed."""
        self._ask("POST", f"{_of(name)}/restart?includeTasks=true&onlyFailed=true")

    def validate(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the errors of a configuration by field; empty if it is valid."""
        answer = self._ask("PUT", f"/connector-plugins/{quote(config.get('connector.class', ''), safe='')}/config/validate", dict(config))
        found: dict[str, list[str]] = {}
        for item in answer.get("configs", []):
            value = item.get("value", {})
            if value.get("errors"):
                found.setdefault(str(value.get("name")), []).extend(map(str, value["errors"]))
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts of all warnings in the last answer, doubts and ordinary remarks."""
        return tuple(text for _, text in self._warned())

    @property
    def doubts(self) -> tuple[str, ...]:
        """Texts of the last answer's doubts, without remarks that sound configurations also get."""
        return tuple(text for code, text in self._warned() if code == _DOUBT)

    @property
    def ordinary(self) -> tuple[str, ...]:
        """Texts of the last answer's remarks that sound configurations also get; the worker may
        have cut their ends.
        """
        return tuple(text for code, text in self._warned() if code != _DOUBT)

    def _warned(self) -> list[tuple[str, str]]:
        return [(code, re.sub(r"\\(.)", r"\1", text)) for code, text in _WARNING.findall(self._warning)]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        response = self._send(method, path, body)
        if response.status_code == HTTPStatus.CONFLICT and self._follow(_message(response)):
            response = self._send(method, path, body)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            wrong = "refuses this login" if self._has_login else "wants a login"
            raise DefiniteError(f"the worker at {self._base} {wrong}; give one with --login, or user:password in {LOGIN_VARIABLE}")
        self._warning = response.headers.get("warning", "")
        if not response.is_success:
            raise RefusedError(response.status_code, _message(response))
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as e:
            raise DefiniteError(f"{self._base} does not answer like Kafka Connect; name a worker with --url") from e

    def _send(self, method: str, path: str, body: object) -> httpx.Response:
        try:
            return self._client.request(method, f"{self._base}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            gone, self._base = self._base, self._url
            named = gone == self._url
            raise TransientError(unreached("worker", gone, e, _REMEDY if named else "") + ("" if named else self._only_there(gone))) from e

    def _only_there(self, leader: str) -> str:
        return (
            f"; the worker at {self._url} is a standby that can hand on only requests with a login, so this one has to reach the leader's own address: give a "
            f"login with --login, or an address with --url that leads to {leader}"
        )

    def _follow(self, message: str) -> bool:
        leader = _leader_in(message)
        if not leader or leader == self._base:
            return False
        if self._has_login:
            raise TransientError(
                f"the worker at {self._base} is a standby that does not hand this request on to {leader}, the leader that its group names, and a login goes to "
                "no address that an answer names; the standby's log has the reason. Try again, or name the leader with --url if it is a worker of this group"
            )
        if urlsplit(self._url).scheme == "https" and urlsplit(leader).scheme != "https":
            raise DefiniteError(f"the leader advertises {leader}, without TLS, and what is sent to {self._url} must not go there")
        self._base = leader
        return True


def _leader_in(message: str) -> str:
    """Return the leader's address if the message of a standby names it, else an empty text."""
    found = _STANDBY.search(message)
    return found[1].rstrip("/") if found else ""


def _of(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code} {response.reason_phrase}"
