"""A client of OCI's distribution API 1.1: sends blobs and manifests, and reads them back.

What breaks is tried again, a blob from where it broke if the registry still has the beginning. A
login goes to the registry and to the token service that it names, both by TLS (or on the loopback
interface), and to nobody else: registries hand uploads over to stores of other companies.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
from stack.errors import StackError

from release.address import Address
from release.layout import INDEX, MANIFEST, PIECE_BYTES, Descriptor
from release.login import HELP, Login

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_OK, _CREATED, _ACCEPTED, _NO_CONTENT = 200, 201, 202, 204
_UNAUTHORIZED, _FORBIDDEN, _MISSING, _TOO_LARGE, _TOO_MANY = 401, 403, 404, 413, 429
_PASSING = frozenset({408, _TOO_MANY, 500, 502, 503, 504})
"""Answers after which another try may help."""
_BROKEN_UPLOAD = frozenset({_MISSING, 400, 416})
"""Answers of a registry that has given an upload up."""
_TRIES_MAX = 6
_WAIT_S_MAX = 60.0
_PIECE_AFTER_BREAK_BYTES = 16 << 20
"""Size of the pieces of an upload that broke: each that arrives need not be sent again."""
_TIMEOUT = httpx.Timeout(60.0, connect=15.0)
_SHOWN_MAX = 200
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Body = Callable[[], bytes | Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Pulled:
    """A manifest as the registry has it."""

    content: bytes
    media_type: str
    digest: str


class Registry:
    """One place of a registry, with a login; `with` closes its connections."""

    def __init__(
        self,
        address: Address,
        login: Login | None,
        *,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        log: Callable[[str], None] = print,
    ) -> None:
        self.address = address
        self._login = login
        self._wait = wait
        self._log = log
        self._tokens: dict[str, str] = {}
        self._client = httpx.Client(transport=transport, timeout=_TIMEOUT, headers={"User-Agent": "dblog-release"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._client.close()

    def has_blob(self, repository: str, digest: str) -> bool:
        """Return True if the repository has the blob."""
        answer = self._ask("HEAD", self._url(repository, "blobs", digest), repository, expected={_OK, _MISSING})
        return answer.status_code == _OK

    def push_blob(self, repository: str, file: Path, descriptor: Descriptor) -> bool:
        """Send a blob unless the repository has it. Return True if it was sent."""
        if self.has_blob(repository, descriptor.digest):
            return False
        piece_bytes = max(descriptor.size, 1)
        for attempt in range(1, _TRIES_MAX + 1):
            try:
                self._upload(repository, file, descriptor, piece_bytes)
                return True
            except _BrokenError as error:
                if attempt == _TRIES_MAX:
                    raise StackError(
                        f"the blob {descriptor.digest} of {self._name(repository)} broke {attempt} times: {error}."
                        " What has arrived stays; run make publish again"
                    ) from error
                self._pause(attempt, f"a blob of {self._name(repository)} broke ({error})")
                piece_bytes = _PIECE_AFTER_BREAK_BYTES
        raise AssertionError

    def _upload(self, repository: str, file: Path, descriptor: Descriptor, piece_bytes: int) -> None:
        """Send a blob in pieces and finish it. Raise _BrokenError if it has to begin again."""
        opened = self._ask(
            "POST", self._url(repository, "blobs", "uploads/"), repository, expected={_ACCEPTED}, headers={"Content-Length": "0"}
        )
        place = self._location(opened, repository)
        piece_bytes = max(piece_bytes, int(opened.headers.get("OCI-Chunk-Min-Length", 0)))
        sent, breaks = 0, 0
        while sent < descriptor.size:
            end = min(sent + piece_bytes, descriptor.size)
            headers = {"Content-Length": str(end - sent), "Content-Range": f"{sent}-{end - 1}", "Content-Type": "application/octet-stream"}
            try:
                answer = self._once("PATCH", place, repository, headers, _part(file, sent, end))
            except httpx.TransportError as error:
                breaks += 1
                if breaks > _TRIES_MAX:
                    raise _BrokenError(_reason(error)) from error
                self._pause(breaks, f"a connection broke ({_reason(error)})")
                place, sent = self._resumed(place, repository)
                piece_bytes = _PIECE_AFTER_BREAK_BYTES
                continue
            if answer.status_code != _ACCEPTED:
                self._raise_if_broken(answer)
                raise self._refusal(answer, f"sending a blob to {self._name(repository)}")
            place, sent = self._location(answer, repository), end
        try:
            answer = self._once("PUT", place.copy_merge_params({"digest": descriptor.digest}), repository, {"Content-Length": "0"}, b"")
        except httpx.TransportError as error:
            raise _BrokenError(_reason(error)) from error
        if answer.status_code not in {_CREATED, _NO_CONTENT}:
            self._raise_if_broken(answer)
            raise self._refusal(answer, f"finishing a blob of {self._name(repository)}")

    def _resumed(self, place: httpx.URL, repository: str) -> tuple[httpx.URL, int]:
        """Ask how much of an upload has arrived. Raise _BrokenError if the registry gave it up."""
        try:
            answer = self._once("GET", place, repository, {}, b"")
        except httpx.TransportError as error:
            raise _BrokenError(_reason(error)) from error
        arrived = re.fullmatch(r"(?:bytes=)?0-(\d+)", answer.headers.get("Range", ""))
        if answer.status_code != _NO_CONTENT or arrived is None:
            raise _BrokenError(f"the registry kept nothing of it, status {answer.status_code}")
        # A range cannot be empty: registries say 0-0 for nothing and for one byte. Such an upload begins
        # again.
        if arrived[1] == "0":
            raise _BrokenError("nothing of it has arrived")
        return self._location(answer, repository), int(arrived[1]) + 1

    @staticmethod
    def _raise_if_broken(answer: httpx.Response) -> None:
        if answer.status_code in _PASSING | _BROKEN_UPLOAD:
            raise _BrokenError(f"status {answer.status_code}{_errors(answer)}")

    def push_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> None:
        """Send a manifest or an index under a tag or its digest."""
        self._ask(
            "PUT",
            self._url(repository, "manifests", reference),
            repository,
            expected={_CREATED, _OK},
            headers={"Content-Type": media_type, "Content-Length": str(len(content))},
            body=content,
        )

    def manifest(self, repository: str, reference: str) -> Pulled | None:
        """Return a manifest or an index, or None if the repository has none under this tag or digest."""
        headers = {"Accept": f"{MANIFEST}, {INDEX}"}
        answer = self._ask("GET", self._url(repository, "manifests", reference), repository, expected={_OK, _MISSING}, headers=headers)
        if answer.status_code == _MISSING:
            return None
        return Pulled(answer.content, answer.headers.get("Content-Type", ""), answer.headers.get("Docker-Content-Digest", ""))

    def tags(self, repository: str) -> list[str]:
        """Return the first page of a repository's tags, which is all of a release's."""
        answer = self._ask("GET", self._url(repository, "tags", "list"), repository, expected={_OK, _MISSING})
        return sorted(answer.json().get("tags") or []) if answer.status_code == _OK else []

    def blob(self, repository: str, digest: str) -> bytes:
        """Return a small blob."""
        return self._ask("GET", self._url(repository, "blobs", digest), repository, expected={_OK}).content

    # ---- one request

    def _ask(
        self,
        method: str,
        url: httpx.URL,
        repository: str,
        *,
        expected: set[int],
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> httpx.Response:
        """Send a request, again while another try may help. Raise StackError if it is refused."""
        what = f"{method} {url.path}"
        for attempt in range(1, _TRIES_MAX + 1):
            try:
                answer = self._once(method, url, repository, headers or {}, body)
            except httpx.TransportError as error:
                if attempt == _TRIES_MAX:
                    raise StackError(
                        f"{self.address.host} does not answer {what}: {_reason(error)}. {_network_remedy(error, self.address)}"
                    ) from error
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise StackError(
                        f"{self.address.host} has a certificate that is not trusted here: {_reason(error)}. {_network_remedy(error, self.address)}"
                    ) from error
                self._pause(attempt, f"{self.address.host} does not answer ({_reason(error)})")
                continue
            if answer.status_code in expected:
                return answer
            if answer.status_code not in _PASSING or attempt == _TRIES_MAX:
                raise self._refusal(answer, what)
            self._pause(attempt, f"{self.address.host} answered {answer.status_code}", after_s=_retry_after_s(answer))
        raise AssertionError

    def _once(self, method: str, url: httpx.URL, repository: str, headers: Mapping[str, str], body: bytes | Body) -> httpx.Response:
        """Send a request once, and once more with a token if the registry wants one."""
        is_ours = url.host == httpx.URL(self.address.url).host and url.port == httpx.URL(self.address.url).port
        for may_log_in in (True, False):
            given = dict(headers)
            if is_ours and (authorization := self._tokens.get(repository)):
                given["Authorization"] = authorization
            content = body() if callable(body) else body
            answer = self._client.request(method, url, headers=given, content=content, follow_redirects=method in {"GET", "HEAD"})
            if answer.status_code != _UNAUTHORIZED or not may_log_in or not is_ours:
                return answer
            self._tokens[repository] = self._authorization(answer, repository)
        raise AssertionError

    def _authorization(self, answer: httpx.Response, repository: str) -> str:
        """Return the header that answers a registry's challenge (distribution specification, token authentication)."""
        challenge = answer.headers.get("WWW-Authenticate", "")
        kind = challenge.partition(" ")[0].lower()
        if kind == "basic":
            if self._login is None:
                raise StackError(f"{self.address.host} wants a login and there is none. {HELP}")
            return httpx.BasicAuth(self._login.user, self._login.password)._auth_header  # noqa: SLF001  its one way to the header
        if kind != "bearer":
            raise StackError(
                f"{self.address.host} wants a login of the kind {kind[:20]!r}, and basic and bearer are known. Name another registry"
            )
        asked = dict(_CHALLENGE.findall(challenge))
        realm = httpx.URL(asked.get("realm", ""))
        if realm.scheme != "https" and not (realm.scheme == "http" and realm.host in _LOOPBACK and self.address.is_plain):
            raise StackError(
                f"{self.address.host} sends logins to {realm.host or 'nowhere'} without TLS, which is refused. Have its operator mend that"
            )
        parameters = {"scope": f"repository:{self.address.repository(repository)}:pull,push"}
        if asked.get("service"):
            parameters["service"] = asked["service"]
        login = None if self._login is None else (self._login.user, self._login.password)
        try:
            given = self._client.get(realm.copy_merge_params(parameters), auth=login)
            token = given.json().get("token") or given.json().get("access_token") if given.status_code == _OK else None
        except (httpx.TransportError, ValueError, AttributeError) as error:
            raise StackError(
                f"{realm.host}, which gives tokens for {self.address.host}, does not answer ({type(error).__name__}). Try again later"
            ) from None
        if not token:
            wrong = "refuses this login" if self._login else "wants a login and there is none"
            raise StackError(f"{self.address.host} {wrong} (status {given.status_code}). {HELP}")
        return f"Bearer {token}"

    def _refusal(self, answer: httpx.Response, what: str) -> StackError:
        """Return the error for an answer, with its remedy."""
        remedy = {
            _UNAUTHORIZED: HELP,
            _FORBIDDEN: "This login may not do it: ask the registry's administrator for the right to push, or name another path",
            _MISSING: "The registry has no such place: look at REGISTRY, or create the repository if the registry does not by itself",
            _TOO_LARGE: "What stands in front of the registry takes no bodies of this size: have its limit raised",
            _TOO_MANY: "The registry limits requests: run make publish again later, it goes on with what is missing",
        }.get(answer.status_code, "Run make publish again, it goes on with what is missing; the registry's log may say more")
        return StackError(f"{self.address.host} refused: {what}: status {answer.status_code}{_errors(answer)}. {remedy}")

    def _pause(self, attempt: int, why: str, *, after_s: float | None = None) -> None:
        wait_s = min(float(2**attempt), _WAIT_S_MAX) if after_s is None else min(after_s, _WAIT_S_MAX)
        self._log(f"publish: {why}; again in {wait_s:g} s")
        self._wait(wait_s)

    def _location(self, answer: httpx.Response, repository: str) -> httpx.URL:
        """Return where an upload goes on, which may be another host."""
        place = answer.request.url.join(answer.headers.get("Location", ""))
        if "Location" not in answer.headers or (place.scheme != "https" and not self.address.is_plain):
            raise StackError(
                f"{self.address.host} names no place by TLS for an upload to {self._name(repository)}. Have its operator mend its address"
            )
        return place

    def _name(self, repository: str) -> str:
        return f"{self.address.name}/{repository}"

    def _url(self, repository: str, *parts: str) -> httpx.URL:
        return httpx.URL(self.address.url + "/".join((self.address.repository(repository), *parts)))


class _BrokenError(Exception):
    """An upload that has to begin again."""


def _part(file: Path, start: int, end: int) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the bytes of a file from `start` to `end`."""

    def read() -> Iterator[bytes]:
        with file.open("rb") as opened:
            opened.seek(start)
            left = end - start
            while left > 0 and (piece := opened.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                yield piece

    return read


def _errors(answer: httpx.Response) -> str:
    """Return the codes and messages of a registry's refusal, printable and short."""
    try:
        listed: list[Mapping[str, Any]] = json.loads(answer.content)["errors"]
        text = "; ".join(f"{each.get('code')}: {each.get('message')}" for each in listed)
    except (ValueError, KeyError, TypeError, AttributeError, httpx.ResponseNotRead):
        return ""
    return f" ({''.join(sign if sign.isprintable() else '?' for sign in text)[:_SHOWN_MAX]})"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after_s(answer: httpx.Response) -> float | None:
    given = answer.headers.get("Retry-After", "")
    return float(given) if given.isdigit() else None


def _network_remedy(error: Exception, address: Address) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "Name the file of its authority in SSL_CERT_FILE"
    if address.is_plain:
        return "Look whether the registry runs; on the loopback interface it is asked without TLS, unless REGISTRY begins with https://"
    return "Look at the network and at HTTPS_PROXY, and whether REGISTRY is right; run make publish again, it goes on with what is missing"
