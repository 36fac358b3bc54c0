"""The worker's REST interface, as a client of it: logs in, and turns every answer that is no success into a sentence.

Requests go to the address that the user has named, whichever worker it leads to: a standby hands on what only the leader can answer. So the leader's own
address need not be reached from here, which behind a port-forward or a proxy it is not. Callers that a standby cannot hand on (``rest/forward.py``) get 409
with the leader's address, and what follows goes there. A password never goes from an address with TLS to one without.
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
"""More than the worker takes for its own limit of a request, in which it checks a configuration."""
LOGIN_VARIABLE = "DBLOG_REST_LOGIN"

_STANDBY = re.compile(r"\bstandby: (https?://\S+) runs\b")


_WARNING = re.compile(r'\b(199|299) dblog "((?:[^"\\]|\\.)*)"')
"""One of a worker's Warning header: 299 for a doubt, 199 for an ordinary remark."""
_DOUBT = "299"
_REMEDY = "start one, or name the address of another with --url"


class RefusedError(DblogError):
    """The worker understood, and refuses; the text is the worker's."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def read_login(path: Path | None, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password: of a folder with the files username and password (as Kubernetes mounts them), of a file or the environment user:password.

    None without any of them; DefiniteError, without the text, where one is there and of another form.
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
        raise DefiniteError(f"the login in {path} is no text in UTF-8") from e


def _pair(text: str, where: str) -> tuple[str, str] | None:
    user, colon, password = text.partition(":")
    if text and not (user and colon):
        raise DefiniteError(f"{where} has no user and colon in front of the password; write it as user:password")
    return (user, password) if text else None


class Interface:
    """One round's conversation with a group of workers. Close it after each round: the next one begins again at the address that was named."""

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
        """Return where requests go now."""
        return self._base

    @property
    def leader(self) -> str:
        """Return the address that the leader advertises, as the worker's health named it; this worker's own where it leads itself."""
        return self._leader or self._base

    def require_ready(self) -> None:
        """Raise TransientError while the worker is not ready, or nobody leads its group."""
        health = self._send("GET", "/health", None)
        self._leader = _leader_in(_message(health))
        if health.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise TransientError(f"the worker at {self._base} is not ready: {_message(health)}")

    def get(self, path: str) -> Any:
        """The answer's JSON."""
        return self._ask("GET", path)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Any other request; the answer's JSON."""
        return self._ask(method, path, body)

    def create(self, config: Mapping[str, str], state: str | None) -> None:
        """Create a connector."""
        body = {"name": config["name"], "config": dict(config), **({"initial_state": state.upper()} if state else {})}
        self._ask("POST", "/connectors", body)

    def put_config(self, config: Mapping[str, str]) -> None:
        """Replace a connector's configuration."""
        self._ask("PUT", f"{_of(config['name'])}/config", dict(config))

    def put_state(self, name: str, verb: str) -> None:
        """``resume``, ``pause`` or ``stop``."""
        self._ask("PUT", f"{_of(name)}/{verb}")

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets stay."""
        self._ask("DELETE", _of(name))

    def restart_failed(self, name: str) -> None:
        """Start a connector again, and those of its tasks that have failed."""
        self._ask("POST", f"{_of(name)}/restart?includeTasks=true&onlyFailed=true")

    def validate(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with a configuration, by its fields; empty if nothing."""
        answer = self._ask("PUT", f"/connector-plugins/{quote(config.get('connector.class', ''), safe='')}/config/validate", dict(config))
        found: dict[str, list[str]] = {}
        for item in answer.get("configs", []):
            value = item.get("value", {})
            if value.get("errors"):
                found.setdefault(str(value.get("name")), []).extend(map(str, value["errors"]))
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the last answer has warned of: doubts and ordinary remarks."""
        return tuple(text for _, text in self._warned())

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the last answer has put in doubt, without remarks that many a sound configuration gets."""
        return tuple(text for code, text in self._warned() if code == _DOUBT)

    @property
    def ordinary(self) -> tuple[str, ...]:
        """Return the last answer's remarks that many a sound configuration gets. The worker may have cut their ends."""
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
        if urlsplit(self._url).scheme == "https" and urlsplit(leader).scheme != "https":
            raise DefiniteError(f"the leader advertises {leader}, without TLS, and a login must not go there from {self._url}")
        self._base = leader
        return True


def _leader_in(message: str) -> str:
    """Return the leader's address where a standby names it; else an empty text."""
    found = _STANDBY.search(message)
    return found[1].rstrip("/") if found else ""


def _of(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code} {response.reason_phrase}"
