"""Identifies the caller of a request by a login, a token, a client certificate, the worker's own
task, or nothing, and knows the caller's roles.

A worker without any login serves every caller on its own machine, as Kafka Connect does. Callers
from elsewhere may only read what the read-only listener shows (``dblog.rest.without.login``). So a
worker file of Kafka Connect starts and runs its connectors, and opens nothing by mistake.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from dblog.clock import Clock, SystemClock
from dblog.config.followed import Followed
from dblog.config.login import WITHOUT_LOGIN, Logins, Refusal
from dblog.config.options import Settings
from dblog.config.properties import read_properties
from dblog.config.roles import EVERYTHING, OPERATING, READING, ROLES_FILE, Grants, Role, Roles, parse_roles
from dblog.errors import ConfigError, DefiniteError
from dblog.rest.connections import PEER
from dblog.rest.threads import Threads
from dblog.rest.tokens import Tokens

PRINCIPAL = "dblog.principal"
CERTIFICATES = "dblog.rest.login.certificates"
FORWARDED = "x-dblog-forwarded-by"
"""Header with the address of the standby that has forwarded a request. It proves nothing, and a
caller who sends it gets fewer rights.
"""
_HANDED_ON = (FORWARDED, "x-forwarded-for", "forwarded")
"""Headers of programs that forward requests, such as proxies."""

_KNOWN_S = 60.0
"""Seconds for which a correct login is not compared again. A slow hash for every request would let
callers overload the worker.
"""
_KNOWN_MAX = 1000
_AT_A_TIME = 2
"""Number of simultaneous slow comparisons; each takes a core."""
_BUSY = "Too many logins are compared at one time; try again"
_TOKENS_AT_A_TIME = 8
"""A limit of their own: tokens may wait for their issuer's keys, and passwords must not."""


class Way(StrEnum):
    """The way in which a caller was identified."""

    PASSWORD = "password"  # noqa: S105  a way
    TOKEN = "token"  # noqa: S105  a way
    CERTIFICATE = "certificate"
    TASK = "own task"
    OPEN = "no login"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and its roles."""

    name: str
    way: Way
    grants: Grants
    remedy: str = f"see {ROLES_FILE}"
    """Advice on how to give the caller more rights."""


TASK = Principal("own task", Way.TASK, OPERATING)
"""The worker's own task. It registers schemas and asks for them, and may delete none."""
_OF_MACHINE = Principal("anybody on this machine", Way.OPEN, EVERYTHING)
_ANYBODY = Principal("anybody", Way.OPEN, EVERYTHING)
_FROM_ELSEWHERE = Principal(
    "anybody from another machine",
    Way.OPEN,
    READING,
    f"this worker asks for no login, so clients on other machines may only read: configure a login, or add {WITHOUT_LOGIN}=all to the worker's file "
    "to let everybody in",
)
READER = Principal("anybody", Way.OPEN, READING, "this listener only reads")


def principal_of(request: HttpRequest) -> Principal:
    """Return the caller of a request."""
    found: Principal = request.scope[PRINCIPAL]
    return found


def is_same_at_the_leader(principal: Principal) -> bool:
    """Return True if the leader would identify this caller in the same way.

    A certificate or a place on this machine cannot be proved in a forwarded request.
    """
    return principal.way in (Way.PASSWORD, Way.TOKEN) or principal in (_ANYBODY, _FROM_ELSEWHERE)


def may(request: HttpRequest, role: Role, connector: str | None) -> bool:
    """Return True if the caller has the role for the connector."""
    return principal_of(request).grants.may(role, connector)


class Identity:
    """Identifies the worker's users. Shared by its listeners."""

    def __init__(
        self,
        settings: Settings,
        *,
        logins: Logins | None = None,
        tokens: Tokens | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read the file of roles. Raise ConfigError if it cannot be used."""
        self._logins = logins
        self._tokens = tokens
        self._certificates = settings.boolean(CERTIFICATES) or (logins is None and tokens is None)
        self._open_to_all = settings.text(WITHOUT_LOGIN) == "all"
        self._clock = clock or SystemClock()
        self._known: dict[bytes, tuple[str, float]] = {}
        self._salt = secrets.token_bytes(32)
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self._threads = Threads("login", limit=_AT_A_TIME, busy=_BUSY)
        self._token_places = asyncio.Semaphore(_TOKENS_AT_A_TIME)
        self._token_threads = Threads("token", limit=_TOKENS_AT_A_TIME, busy=_BUSY)
        file = settings.text_or_none(ROLES_FILE)
        self._roles = Followed("the file of roles", (file,), lambda: _read_roles(file)) if file else None

    @property
    def asks(self) -> bool:
        """True if there is any login."""
        return self._logins is not None or self._tokens is not None

    @property
    def asks_for_tokens(self) -> bool:
        """True if tokens are accepted."""
        return self._tokens is not None

    @property
    def asks_for_passwords(self) -> bool:
        """True if passwords are accepted."""
        return self._logins is not None

    def refresh(self) -> None:
        """Reread the files of users and roles if they have changed.

        Do not call in the event loop's thread.
        """
        if self._logins is not None:
            self._logins.refresh()
        if self._roles is not None:
            self._roles.refresh()

    def without_header(self, scope: Scope) -> Principal | None:
        """Return the caller if the ``Authorization`` header is not needed to know it, else None."""
        peer = scope.get("state", {}).get(PEER)
        if peer and self._certificates:
            return Principal(peer, Way.CERTIFICATE, self._grants(peer))
        if self.asks:
            return None
        return _ANYBODY if self._open_to_all else _OF_MACHINE if _is_of_this_machine(scope) else _FROM_ELSEWHERE

    def known(self, given: str) -> Principal | None:
        """Return the user if this header had a correct password a short while ago, else None."""
        name, until_s = self._known.get(self._mark(given), ("", 0.0))
        return Principal(name, Way.PASSWORD, self._grants(name)) if name and self._clock.monotonic_s() < until_s else None

    @contextlib.asynccontextmanager
    async def turn(self, given: str) -> AsyncIterator[None]:
        """Wait for a place to compare a token or a password. Each kind has a few of its own."""
        async with self._token_places if self._is_token(given) else self._places:
            yield

    def _is_token(self, given: str) -> bool:
        return self._tokens is not None and given[:7].lower() == "bearer "

    async def compared(self, given: str) -> Principal | Refusal:
        """Return the owner of the login or token in the header, or the refusal.

        Call within ``turn``.
        """
        tokens, logins = self._tokens, self._logins
        if tokens is not None and self._is_token(given):
            bearer = await self._token_threads.call(lambda: tokens.bearer_of(given[7:].strip()))
            return bearer if isinstance(bearer, Refusal) else Principal(bearer.user, Way.TOKEN, self._grants(bearer.user, bearer.groups))
        if logins is None:
            return Refusal.UNREADABLE
        if not logins.is_slow:
            user = logins.user_of(given)
        else:
            mark = self._mark(given)
            user = await self._threads.call(lambda: logins.user_of(given))
            if not isinstance(user, Refusal):
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[mark] = (user, self._clock.monotonic_s() + _KNOWN_S)
        return user if isinstance(user, Refusal) else Principal(user, Way.PASSWORD, self._grants(user))

    def _grants(self, user: str, groups: tuple[str, ...] = ()) -> Grants:
        return EVERYTHING if self._roles is None else self._roles.value.of(user, groups)

    def _mark(self, given: str) -> bytes:
        """Return a digest of a header and of the users' version.

        The header itself is not stored.
        """
        version = 0 if self._logins is None else self._logins.version
        return hmac.digest(self._salt, f"{version}:{given}".encode(), hashlib.sha256)


def _read_roles(file: str) -> Roles:
    try:
        return parse_roles(read_properties(Path(file)), file=file)
    except ConfigError:
        raise
    except DefiniteError as e:
        raise ConfigError({ROLES_FILE: [str(e)]}) from e


def _is_of_this_machine(scope: Scope) -> bool:
    """Return True if the caller is on this machine: at a loopback address, or at the address it
    called.

    Requests that a standby or a proxy forwards never count as local.
    """
    headers = Headers(scope=scope)
    if any(name in headers for name in _HANDED_ON):
        return False
    host = (scope.get("client") or ("",))[0]
    server = (scope.get("server") or ("",))[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback) or host == server
