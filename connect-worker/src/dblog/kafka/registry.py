"""A client of a Confluent-compatible schema registry: ids for schema texts, over HTTP.

Several URLs are tried in turn. A registry that is away, overloaded or broken raises TransientError
(trying again may help); a refusal raises DefiniteError with the subject and the registry's reason.
Ids never change, so answers are cached forever.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx

from dblog.abort import Abort
from dblog.codecs.compatibility import Level
from dblog.config.named_files import NamedFile, in_memory
from dblog.config.request_parts import check_request_parts, is_host
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.kafka.kept_connections import KeptConnections
from dblog.kafka.registry_answers import (
    TOGETHER_MAX,
    TOGETHER_PATH,
    NotARegistryError,
    error_code_of,
    id_of,
    ids_of,
    level_of,
    message_of,
    parse_answer,
    text_of,
    versions_of,
)
from dblog.observe.numbers import REGISTRY_REQUESTS
from dblog.trust import kind_of

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 30.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_URLS_MAX = 10
_VERSIONS_MAX = 1000
_VERSIONS_CHARS_MAX = 32 * 1024 * 1024
VERSIONS_S = 30.0
"""Time limit for reading all versions of a subject."""

_TOGETHER_CHARS_MAX = 500_000
"""Characters of the schemas in one request. The registry limits a request's size and duration."""
_KEPT_CHARS_MAX = 64 * 1024 * 1024
"""Most characters of the schemas whose ids are remembered."""

Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Made = TypeVar("Made")


class LoginRefusedError(DefiniteError):
    """The registry answers, but refuses this login, or requires one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """A registry's URLs and login. Secrets stay out of ``repr``."""

    urls: tuple[str, ...]
    """URLs without user information."""
    login: tuple[str, str] | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: NamedFile | None = None
    certificate_file: NamedFile | None = None
    key_password: str = field(default="", repr=False)
    proxy: str | None = None
    trusted: bool = False
    """True for the worker's own registry, whose error messages may be shown. The answer of a
    foreign address must not be shown to the user who named it.
    """

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], *, option_prefix: str, own: OwnRegistry | None) -> Self:
        """Return where the registry is and how to log in, from a converter's settings without
        prefix.

        ``own`` is the worker's own registry, used if the settings name none. Raise ConfigError
        naming the full option.
        """
        given = settings.get("schema.registry.url") or (own.url if own is not None else None)
        if not given:
            raise ConfigError({f"{option_prefix}schema.registry.url": ["is required by the Avro converter"]})
        listed = [u.strip().rstrip("/") for u in given.split(",") if u.strip()]
        if len(listed) > _URLS_MAX:
            raise ConfigError({f"{option_prefix}schema.registry.url": [f"lists {len(listed)} URLs; {_URLS_MAX} can be tried in turn"]})
        urls, from_url = _without_logins(listed, option_prefix)
        source = settings.get("basic.auth.credentials.source", "URL").upper()
        if errors := check_request_parts(settings, option_prefix):
            raise ConfigError(errors)
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
        # Behind a proxy of the connector's choice, any server may answer and read the token.
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
    wrong = ConfigError({f"{option_prefix}schema.registry.url": ["has not the form http://host:port"]})
    if not urls:
        raise wrong
    bare = []
    login: tuple[str, str] | None = None
    for url in urls:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and is_host(parts.hostname or "") and parts.port != 0
            # Two parsers must agree on the host, so that the host that is checked is the one that
            # is asked.
            known = known and httpx.URL(url).raw_host.decode("ascii").strip("[]").lower() == parts.hostname
        except (ValueError, httpx.InvalidURL):
            known = False
        if not known:
            raise wrong
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
    """Return a TLS context with the configured files.

    Raise ConfigError naming an unusable file.
    """
    if access.ca_file is None:
        context = ssl.create_default_context()
    else:
        certificates = access.ca_file.read().decode("ascii", "replace")
        if not certificates.strip():  # an empty text would mean the machine's own authorities
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
    """The client of one registry. Safe for several threads."""

    def __init__(self, access: RegistryAccess, *, transport: httpx.AsyncBaseTransport | None = None, timeout_s: float = TIMEOUT_S) -> None:
        # Compressed answers can grow without limit when decompressed.
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Accept": f"{CONTENT_TYPE}, application/json",
            "Accept-Encoding": "identity",
            **access.headers,
        }
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        # Loading the machine's certificates takes longer than a request, so it is skipped without
        # TLS.
        secured = access.ca_file or access.certificate_file or any(url.startswith("https:") for url in access.urls)
        verify: ssl.SSLContext | bool = _tls(access) if secured else False
        self.access = access
        self._urls = list(access.urls)
        self._connections = KeptConnections(
            partial(
                httpx.AsyncClient,
                auth=access.login,
                headers=headers,
                transport=transport,
                verify=verify,
                proxy=access.proxy,
                # the environment's proxy is not meant for a registry on this machine; proxy.host
                # overrides that
                trust_env=False,
            )
        )
        self._timeout_s = timeout_s
        self._trusted = access.trusted
        self._cut: Abort | None = None
        self._ids: dict[tuple[str, str, bool], int] = {}
        self._kept_chars = 0
        self._texts: dict[int, str] = {}

    def cut_by(self, abort: Abort, *, limit_s: float) -> None:
        """Limit each wait for an answer to ``limit_s``. ``abort`` ends all waits."""
        self._timeout_s = min(self._timeout_s, limit_s)
        self._cut = abort

    @property
    def urls(self) -> tuple[str, ...]:
        """The registry's URLs, without logins."""
        return tuple(self._urls)

    def ask_whether_there(self, *, limit_s: float) -> None:
        """Send a small request to each URL until one answers.

        ``limit_s`` is for all of them; each gets its share of the time that is left. Raises
        TransientError if none answers, LoginRefusedError if the login is refused.
        """
        reasons = []
        until_s = time.monotonic() + limit_s
        for number, url in enumerate(self._urls):
            share_s = max(0.0, until_s - time.monotonic()) / (len(self._urls) - number)
            try:
                status = self._request("GET", f"{url}/schemas/types", limit_s=share_s, with_body=False).status_code
            except httpx.HTTPError as e:
                reasons.append(f"{url}: {kind_of(e)}")
                continue
            if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise LoginRefusedError(f"the schema registry {url} refuses the login of this converter (HTTP {status})")
            if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return
            reasons.append(f"{url}: HTTP {status}")
        raise TransientError(f"no schema registry answers ({'; '.join(reasons)})")

    def register(self, subject: str, text: str, *, normalize: bool = False) -> int:
        """Return the id of the schema under ``subject``. Register the schema if it is new.

        Raise DefiniteError for HTTP 409 (not compatible) and 422 (not valid).
        """
        return self._id("POST", _versions_path(subject), subject, text, normalize=normalize)

    @property
    def registers_together(self) -> bool:
        """True if one request can register several schemas. Only the worker's own registry can."""
        return self._trusted

    def register_together(self, schemas: Sequence[tuple[str, str]], *, normalize: bool = False) -> list[int | None]:
        """Return the ids of schemas, given as pairs of subject and text. Register those that are
        new.

        The id of a refused schema is None; ``register`` gives the reason. If the request fails,
        schemas that were registered before the failure stay, and ``register`` finds them.
        """
        ids = [self._ids.get((_versions_path(subject), text, normalize)) for subject, text in schemas]
        wanted = [number for number, known in enumerate(ids) if known is None]
        for some in _portions(wanted, [len(text) for _, text in schemas]):
            body = [{"subject": schemas[number][0], "schema": schemas[number][1]} for number in some]
            found = self._call("POST", TOGETHER_PATH, schemas[some[0]][0], partial(ids_of, count=len(some)), body=body)
            for number, schema_id in zip(some, found, strict=True):
                ids[number] = schema_id
                if schema_id is not None:
                    subject, text = schemas[number]
                    self._keep(_versions_path(subject), text, schema_id, normalize=normalize)
        return ids

    def lookup(self, subject: str, text: str, *, normalize: bool = False) -> int:
        """Return the id of a schema that is already registered under ``subject``."""
        return self._id("POST", f"/subjects/{_segment(subject)}", subject, text, normalize=normalize)

    def latest(self, subject: str) -> tuple[int, str]:
        """Return id and text of the subject's newest version."""
        return self._call("GET", f"/subjects/{_segment(subject)}/versions/latest", subject, lambda answer: (id_of(answer), text_of(answer)))

    def versions(self, subject: str) -> list[str]:
        """Return the texts of all versions of a subject, oldest first. Empty for an unknown
        subject.

        Raise DefiniteError for too many or too large versions, TransientError if they take too
        long.
        """
        until_s = time.monotonic() + VERSIONS_S
        path = _versions_path(subject)
        numbers = self._call_or_none("GET", path, subject, versions_of) or []
        if len(numbers) > _VERSIONS_MAX:
            raise DefiniteError(f"subject {subject} has {len(numbers)} versions in the schema registry; {_VERSIONS_MAX} can be read")
        texts: list[str] = []
        chars = 0
        for number in numbers:
            texts.append(self._call("GET", f"{path}/{number}", subject, text_of))
            chars += len(texts[-1])
            if chars > _VERSIONS_CHARS_MAX:
                raise DefiniteError(
                    f"the versions of subject {subject} in the schema registry are larger than can be read; delete old ones"
                )
            if time.monotonic() > until_s:
                raise TransientError(
                    f"the schema registry took longer than {VERSIONS_S:.0f} s to answer with the versions of subject {subject}"
                )
        return texts

    def level(self, subject: str) -> Level:
        """Return the compatibility level that a new version of the subject must keep."""
        own = self._call_or_none("GET", f"/config/{_segment(subject)}", subject, level_of)
        return own if own is not None else self._call("GET", "/config", subject, level_of)

    def schema(self, schema_id: int) -> str:
        """Return the text of a schema."""
        text = self._texts.get(schema_id)
        if text is None:
            text = self._call("GET", f"/schemas/ids/{schema_id}", f"schema id {schema_id}", text_of)
            self._texts[schema_id] = text
        return text

    def _id(self, method: str, path: str, subject: str, text: str, *, normalize: bool) -> int:
        cached = self._ids.get((path, text, normalize))
        if cached is None:
            query = "?normalize=true" if normalize else ""
            cached = self._call(method, path + query, subject, id_of, body={"schema": text})
            self._keep(path, text, cached, normalize=normalize)
        return cached

    def _keep(self, path: str, text: str, schema_id: int, *, normalize: bool) -> None:
        """Remember the id of a schema. Those of before are asked for again once the texts are too
        long together: schemas of payloads never end.
        """
        self._kept_chars += len(text)
        if self._kept_chars > _KEPT_CHARS_MAX:
            self._ids.clear()
            self._kept_chars = len(text)
        self._ids[(path, text, normalize)] = schema_id

    def _call(self, method: str, path: str, subject: str, read: Callable[[Any], Made], *, body: Body | None = None) -> Made:
        """Send one request and return the answer as ``read`` gives it. A 404 is an error."""
        made = self._call_or_none(method, path, subject, read, body=body, missing=False)
        if made is None:
            raise AssertionError("an answer that is there is read as something")
        return made

    def _call_or_none(
        self,
        method: str,
        path: str,
        subject: str,
        read: Callable[[Any], Made],
        *,
        body: Body | None = None,
        missing: bool = True,
    ) -> Made | None:
        """Send one request, to the next URL if one is away. The URL that answered stays first.

        With ``missing``, a 404 returns None instead of raising.
        """
        failure: Exception | None = None
        reason = ""
        for url in list(self._urls):
            try:
                response = self._request(method, url + path, body, limit_s=self._timeout_s)
            except httpx.HTTPError as e:
                REGISTRY_REQUESTS.add("failed")
                failure, reason = e, f"{url}: {kind_of(e)}"
                self._urls.append(self._urls.pop(0))
                continue
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                failure, reason = None, f"{url}: HTTP {response.status_code}{self._words(response)}"
                REGISTRY_REQUESTS.add("failed")
                self._urls.append(self._urls.pop(0))
                continue
            if response.status_code == HTTPStatus.NOT_FOUND and missing:
                REGISTRY_REQUESTS.add("ok")
                return None
            REGISTRY_REQUESTS.add("ok" if response.is_success else "failed")
            if not response.is_success:
                raise _refusal(response.status_code, f"HTTP {response.status_code}{self._words(response)}", subject, url)
            try:
                return read(parse_answer(response.content))
            except NotARegistryError:
                raise DefiniteError(f"{url} does not answer like a schema registry; check schema.registry.url") from None
        raise TransientError(f"schema registry not available for {subject} ({reason})") from failure

    def _request(self, method: str, url: str, body: Body | None = None, *, limit_s: float, with_body: bool = True) -> httpx.Response:
        """Return an answer of bounded size in bounded time. Redirects are not followed.

        A server may close a kept connection just as a request arrives. The request is then sent a
        second time, which is safe because all of them may be repeated.
        """
        for last in (False, True):
            answer = self._connections.ask(lambda client: self._answered(client, method, url, body, limit_s=limit_s, with_body=with_body))
            forget = None if self._cut is None else self._cut.on(lambda answer=answer: _cancel(answer))  # type: ignore[misc]
            try:
                return answer.result()
            except TimeoutError as e:
                raise httpx.ReadTimeout(f"no answer within {limit_s:g} s") from e
            except CancelledError as e:
                raise httpx.ReadTimeout("nobody waits for the answer any more") from e
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if last:
                    raise
            finally:
                if forget is not None:
                    forget()
        raise AssertionError("the last try returns or raises")

    async def _answered(
        self, client: httpx.AsyncClient, method: str, url: str, body: Body | None, *, limit_s: float, with_body: bool
    ) -> httpx.Response:
        data = bytearray()
        async with asyncio.timeout(limit_s), client.stream(method, url, json=body, timeout=limit_s) as response:
            if with_body and response.headers.get("content-encoding", "identity").lower() != "identity":
                raise DefiniteError(f"{url} does not answer like a schema registry: its answer is packed; check schema.registry.url")
            if with_body:
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > _ANSWER_BYTES_MAX:
                        raise DefiniteError(
                            f"{url} does not answer like a schema registry: its answer is too large; check schema.registry.url"
                        )
        return httpx.Response(response.status_code, content=bytes(data))

    def _words(self, response: httpx.Response) -> str:
        """Return the registry's error code, and the message if it is the worker's own registry."""
        code = error_code_of(response.content)
        message = message_of(response.content) if self._trusted else None
        return ("" if code is None else f", error {code}") + ("" if message is None else f": {message}")


def _cancel(answer: Future[Any]) -> None:
    answer.cancel()


def _segment(subject: str) -> str:
    return quote(subject, safe="")


def _versions_path(subject: str) -> str:
    return f"/subjects/{_segment(subject)}/versions"


def _portions(numbers: Iterable[int], chars: Sequence[int]) -> Iterator[list[int]]:
    """Split into portions that fit one request.

    A schema above the limit gets a request of its own.
    """
    some: list[int] = []
    size = 0
    for number in numbers:
        if some and (len(some) >= TOGETHER_MAX or size + chars[number] > _TOGETHER_CHARS_MAX):
            yield some
            some, size = [], 0
        some.append(number)
        size += chars[number]
    if some:
        yield some


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
