"""A client of a Confluent-compatible schema registry: ids for schema texts, over HTTP.

Several URLs are tried in turn. A registry that is away, overloaded or broken gives TransientError (trying again may help); a refusal gives
DefiniteError with the subject and the registry's own reason. Ids never change, so answers are kept for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx

from dblog.abort import Abort
from dblog.config.named_files import NamedFile, in_memory
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError, TransientError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 30.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_ERROR_CODE_MAX = 99_999
_URLS_MAX = 10
_VERSIONS_MAX = 1000
_VERSIONS_CHARS_MAX = 32 * 1024 * 1024
_VERSIONS_S = 30.0
"""For all versions of a subject."""

_REFUSED = object()
"""A 404 is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """Where a registry is and how to log in. Secrets stay out of ``repr``."""

    urls: tuple[str, ...]
    """Without user information."""
    login: tuple[str, str] | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: NamedFile | None = None
    certificate_file: NamedFile | None = None
    key_password: str = field(default="", repr=False)
    proxy: str | None = None
    trusted: bool = False
    """Whether its words may be shown: those of the worker's own. What a foreign address answers is not for whoever named it."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], *, option_prefix: str, own: OwnRegistry | None) -> Self:
        """From a converter's settings (prefix already cut); ``own`` is the worker's own registry, used when none is named.

        Raises ConfigError naming the full option.
        """
        given = settings.get("schema.registry.url") or (own.url if own is not None else None)
        if not given:
            raise ConfigError({f"{option_prefix}schema.registry.url": ["is required by the Avro converter"]})
        listed = [u.strip().rstrip("/") for u in given.split(",") if u.strip()]
        if len(listed) > _URLS_MAX:
            raise ConfigError({f"{option_prefix}schema.registry.url": [f"lists {len(listed)} URLs; {_URLS_MAX} can be tried in turn"]})
        urls, from_url = _without_logins(listed, option_prefix)
        source = settings.get("basic.auth.credentials.source", "URL").upper()
        login: tuple[str, str] | None
        match source:
            case "URL":
                login = from_url
            case "USER_INFO":
                user, colon, password = settings.get(
                    "basic.auth.user.info", settings.get("schema.registry.basic.auth.user.info", "")
                ).partition(":")
                if not colon:
                    raise ConfigError({f"{option_prefix}basic.auth.user.info": ["has not the form user:password"]})
                login = (user, password)
            case _:
                raise ConfigError({f"{option_prefix}basic.auth.credentials.source": [f"{source} is not supported; use URL or USER_INFO"]})
        proxy = f"http://{settings['proxy.host']}:{settings.get('proxy.port', '80')}" if settings.get("proxy.host") else None
        # Through a proxy of the connector's choice anybody answers, and anybody reads the token.
        trusted = own is not None and urls == (own.url,) and proxy is None
        token = settings.get("bearer.auth.token")
        return cls(
            urls=urls,
            login=login,
            token=own.token if trusted and own is not None and login is None and not token else token,
            headers={k.removeprefix("request.header."): v for k, v in settings.items() if k.startswith("request.header.")},
            ca_file=_pem(settings, "truststore", option_prefix),
            certificate_file=_pem(settings, "keystore", option_prefix),
            key_password=settings.get("schema.registry.ssl.key.password", ""),
            trusted=trusted,
            proxy=proxy,
        )


def _without_logins(urls: Sequence[str], option_prefix: str) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    bare = []
    login: tuple[str, str] | None = None
    for url in urls:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise ConfigError({f"{option_prefix}schema.registry.url": ["has not the form http://host:port"]})
        if parts.username is not None:
            login = (unquote(parts.username), unquote(parts.password or ""))
        bare.append(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))
    return tuple(bare), login


def _pem(settings: Mapping[str, str], store: str, option_prefix: str) -> NamedFile | None:
    location = settings.get(f"schema.registry.ssl.{store}.location")
    if location is None:
        return None
    if settings.get(f"schema.registry.ssl.{store}.type", "JKS").upper() != "PEM":
        option = f"{option_prefix}schema.registry.ssl.{store}.type"
        raise ConfigError({option: ["only PEM is supported; convert the store with keytool and openssl and set the type to PEM"]})
    content = "certificates" if store == "truststore" else "a private key and its certificate"
    return NamedFile(f"{option_prefix}schema.registry.ssl.{store}.location", location, f"PEM with {content}")


def _tls(access: RegistryAccess) -> ssl.SSLContext:
    """With the files of the configuration. ConfigError names the one that cannot be used."""
    if access.ca_file is None:
        context = ssl.create_default_context()
    else:
        certificates = access.ca_file.read().decode("ascii", "replace")
        if not certificates.strip():  # an empty text would stand for the machine's own authorities
            raise access.ca_file.unusable("it is empty")
        try:
            context = ssl.create_default_context(cadata=certificates)
        except (ssl.SSLError, ValueError) as e:
            raise access.ca_file.unusable(f"its certificates cannot be read: {e}") from None
    if access.certificate_file:
        try:
            with in_memory(access.certificate_file.read()) as path:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(path, password=access.key_password)
        except (ssl.SSLError, ValueError) as e:
            raise access.certificate_file.unusable(
                f"its key does not open with schema.registry.ssl.key.password, or does not fit its certificate: {e}"
            ) from None
    return context


class RegistryClient:
    """One registry. Safe for several threads."""

    def __init__(self, access: RegistryAccess, *, transport: httpx.BaseTransport | None = None, timeout_s: float = TIMEOUT_S) -> None:
        headers = {"Content-Type": CONTENT_TYPE, "Accept": f"{CONTENT_TYPE}, application/json", **access.headers}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        # Reading the machine's certificates takes longer than a request; without TLS they are not asked.
        verify: ssl.SSLContext | bool = any(url.startswith("https:") for url in access.urls)
        if access.ca_file or access.certificate_file:
            verify = _tls(access)
        self._urls = list(access.urls)
        self._arguments: dict[str, Any] = {
            "auth": access.login,
            "headers": headers,
            "transport": transport,
            "verify": verify,
            "proxy": access.proxy,
            "trust_env": False,  # a proxy of the environment is not for a registry on this machine; proxy.host says otherwise
        }
        self._timeout_s = timeout_s
        self._trusted = access.trusted
        self._client = httpx.Client(**self._arguments, timeout=timeout_s)
        self._ids: dict[tuple[str, str, bool], int] = {}
        self._texts: dict[int, str] = {}

    def close(self) -> None:
        """Give up the connections."""
        self._client.close()

    def cut_by(self, abort: Abort, *, limit_s: float) -> None:
        """Wait for no byte longer than ``limit_s``, and have ``abort`` cut the connections that are made from now on."""
        self._timeout_s = min(self._timeout_s, limit_s)
        self._client.timeout = httpx.Timeout(self._timeout_s)

        def note(event: str, info: Mapping[str, Any]) -> None:
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                abort.on(partial(_shut_down, info["return_value"].get_extra_info("socket")))

        def watch(request: httpx.Request) -> None:
            request.extensions["trace"] = note

        self._client.event_hooks = {"request": [watch]}

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it is, without logins."""
        return tuple(self._urls)

    def ask_whether_there(self, *, limit_s: float) -> None:
        """One small question to each URL until one answers; TransientError when none does, DefiniteError when the login is refused.

        ``limit_s`` is for all of them: each may take its share of what the ones before have left.
        """
        reasons = []
        until_s = time.monotonic() + limit_s
        for number, url in enumerate(self._urls):
            share_s = max(0.0, until_s - time.monotonic()) / (len(self._urls) - number)
            try:
                status = asyncio.run(self._status_of(f"{url}/schemas/types", limit_s=share_s))
            except (httpx.HTTPError, TimeoutError) as e:
                reasons.append(f"{url}: {type(e).__name__}")
                continue
            if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise DefiniteError(f"the schema registry {url} refuses the login of this converter (HTTP {status})")
            if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return
            reasons.append(f"{url}: HTTP {status}")
        raise TransientError(f"no schema registry answers ({'; '.join(reasons)})")

    async def _status_of(self, url: str, *, limit_s: float) -> int:
        """The status of an answer whose body is not read. Not by the other client: it waits for each byte anew, and a byte now and then holds it for ever."""
        async with (
            asyncio.timeout(limit_s),
            httpx.AsyncClient(**self._arguments, timeout=limit_s) as client,
            client.stream("GET", url) as response,
        ):
            return response.status_code

    def register(self, subject: str, text: str, *, normalize: bool = False) -> int:
        """The id of the schema under ``subject``, registered if it is new. 409 (not compatible) and 422 (not valid) are DefiniteErrors."""
        return self._id("POST", f"/subjects/{_segment(subject)}/versions", subject, text, normalize=normalize)

    def lookup(self, subject: str, text: str, *, normalize: bool = False) -> int:
        """The id of a schema that must be registered under ``subject`` already."""
        return self._id("POST", f"/subjects/{_segment(subject)}", subject, text, normalize=normalize)

    def latest(self, subject: str) -> tuple[int, str]:
        """Id and text of the subject's newest version."""
        answer = self._call("GET", f"/subjects/{_segment(subject)}/versions/latest", subject)
        return int(answer["id"]), str(answer["schema"])

    def versions(self, subject: str) -> list[str]:
        """The texts of all versions of a subject, oldest first; none of a subject that is not known yet.

        DefiniteError for more or larger ones than a subject has, TransientError when they take too long.
        """
        until_s = time.monotonic() + _VERSIONS_S
        path = f"/subjects/{_segment(subject)}/versions"
        numbers = self._answer("GET", path, subject, missing=[])
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise DefiniteError(f"{self._urls[0]} does not answer like a schema registry; check schema.registry.url")
        if len(numbers) > _VERSIONS_MAX:
            raise DefiniteError(f"subject {subject} has {len(numbers)} versions in the schema registry; {_VERSIONS_MAX} can be read")
        texts: list[str] = []
        chars = 0
        for number in numbers:
            text = self._call("GET", f"{path}/{number}", subject).get("schema")
            if not isinstance(text, str):
                raise DefiniteError(f"{self._urls[0]} does not answer like a schema registry; check schema.registry.url")
            texts.append(text)
            chars += len(text)
            if chars > _VERSIONS_CHARS_MAX:
                raise DefiniteError(
                    f"the versions of subject {subject} in the schema registry are larger than can be read; delete old ones"
                )
            if time.monotonic() > until_s:
                raise TransientError(
                    f"the schema registry took longer than {_VERSIONS_S:.0f} s to answer with the versions of subject {subject}"
                )
        return texts

    def level(self, subject: str) -> str:
        """The compatibility that a new version of the subject must keep."""
        answer = self._answer("GET", f"/config/{_segment(subject)}", subject, missing=None)
        if not isinstance(answer, dict):
            answer = self._call("GET", "/config", subject)
        return str(answer["compatibilityLevel"])

    def schema(self, schema_id: int) -> str:
        """The text of a schema."""
        text = self._texts.get(schema_id)
        if text is None:
            text = str(self._call("GET", f"/schemas/ids/{schema_id}", f"schema id {schema_id}")["schema"])
            self._texts[schema_id] = text
        return text

    def _id(self, method: str, path: str, subject: str, text: str, *, normalize: bool) -> int:
        cached = self._ids.get((path, text, normalize))
        if cached is None:
            query = "?normalize=true" if normalize else ""
            cached = int(self._call(method, path + query, subject, body={"schema": text})["id"])
            self._ids[(path, text, normalize)] = cached
        return cached

    def _call(self, method: str, path: str, subject: str, *, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One request that an object answers."""
        answer = self._answer(method, path, subject, body=body)
        if not isinstance(answer, dict):
            raise DefiniteError(f"{self._urls[0]} does not answer like a schema registry; check schema.registry.url")
        return answer

    def _answer(self, method: str, path: str, subject: str, *, body: Mapping[str, Any] | None = None, missing: Any = _REFUSED) -> Any:
        """One request; the next URL when one is away. The URL that answered stays first. ``missing``: the answer instead of a 404."""
        failure: Exception | None = None
        reason = ""
        for url in list(self._urls):
            try:
                response = self._request(method, url, path, body)
            except httpx.HTTPError as e:
                failure, reason = e, f"{url}: {type(e).__name__}"
                self._urls.append(self._urls.pop(0))
                continue
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                failure, reason = None, f"{url}: HTTP {response.status_code}{self._words(response)}"
                self._urls.append(self._urls.pop(0))
                continue
            if response.status_code == HTTPStatus.NOT_FOUND and missing is not _REFUSED:
                return missing
            if not response.is_success:
                raise _refusal(response.status_code, f"HTTP {response.status_code}{self._words(response)}", subject, url)
            try:
                return response.json()
            except ValueError as e:
                raise DefiniteError(f"{url} does not answer like a schema registry; check schema.registry.url") from e
        raise TransientError(f"schema registry not available for {subject} ({reason})") from failure

    def _request(self, method: str, url: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """An answer of bounded size, in bounded time. Redirects are not followed."""
        until_s = time.monotonic() + self._timeout_s
        data = bytearray()
        with self._client.stream(method, url + path, json=body) as response:
            for piece in response.iter_bytes():
                data += piece
                if len(data) > _ANSWER_BYTES_MAX:
                    raise DefiniteError(f"{url} does not answer like a schema registry: its answer is too large; check schema.registry.url")
                if time.monotonic() > until_s:
                    raise httpx.ReadTimeout("the answer takes too long")
        return httpx.Response(response.status_code, content=bytes(data))

    def _words(self, response: httpx.Response) -> str:
        """The number that Confluent's registry gives its errors, and the words of the worker's own."""
        try:
            answer = response.json()
        except ValueError:
            return ""
        if not isinstance(answer, dict):
            return ""
        code, message = answer.get("error_code"), answer.get("message")
        number = f", error {code}" if isinstance(code, int) and 0 <= code <= _ERROR_CODE_MAX else ""
        return number + (f": {message}" if self._trusted and isinstance(message, str) else "")


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _segment(subject: str) -> str:
    return quote(subject, safe="")


def _refusal(status: int, reason: str, subject: str, url: str) -> DefiniteError:
    match status:
        case HTTPStatus.CONFLICT:
            return DefiniteError(
                f"the schema registry refuses the new schema of subject {subject}: not compatible with the earlier version ({reason}); "
                f"change the table compatibly, or set the subject's compatibility to NONE (PUT {url}/config/{_segment(subject)})"
            )
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return DefiniteError(f"the schema registry calls the schema of subject {subject} invalid: {reason}")
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return DefiniteError(
                f"the schema registry {url} refuses access to subject {subject} ({reason}); "
                "check basic.auth.credentials.source and basic.auth.user.info of the converter"
            )
        case HTTPStatus.NOT_FOUND:
            return DefiniteError(
                f"the schema registry {url} does not know {subject} ({reason}); register the schema, or set auto.register.schemas=true, "
                "or correct schema.registry.url"
            )
        case _:
            return DefiniteError(f"the schema registry {url} refuses {subject}: {reason}")
