"""Limits how often a client may do what costs others something: try passwords, change things."""

from __future__ import annotations

import math
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dblog.clock import Clock, SystemClock
from dblog.config.options import Settings
from dblog.rest.addresses import client_of
from dblog.rest.api import CONNECT_PATHS, error
from dblog.rest.identity import FORWARDED, PRINCIPAL

_CLIENTS_MAX = 10_000


LOGINS = "dblog.rest.login.failures.per.minute"
WRITES = "dblog.rest.writes.per.minute"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Buckets:
    """A token bucket for each client: full at first, refilled at a rate per minute."""

    def __init__(self, *, per_minute: int, clock: Clock) -> None:
        """Set the rate. ``per_minute`` 0 means no limit."""
        self._per_minute = per_minute
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """The tokens left to each client, with the time of that count."""

    def wait_s(self, client: str) -> int:
        """Return the whole seconds until the client may go on, 0 for at once.

        Does not take a token.
        """
        if not self._per_minute:
            return 0
        left = self._now(client)
        return 0 if left >= 1 else max(1, math.ceil((1 - left) * 60 / self._per_minute))

    def take(self, client: str) -> None:
        """Take a token from the client."""
        if not self._per_minute:
            return
        left = self._now(client)
        if len(self._left) >= _CLIENTS_MAX and client not in self._left:
            # Full buckets can be dropped, because a new one is full too. If none is full, the
            # oldest is dropped.
            now_s = self._clock.monotonic_s()
            full = [
                other
                for other, (left_then, then_s) in self._left.items()
                if left_then + (now_s - then_s) * self._per_minute / 60 >= self._per_minute
            ]
            for other in full or [next(iter(self._left))]:
                del self._left[other]
        self._left[client] = (max(0.0, left - 1), self._clock.monotonic_s())

    def give_back(self, client: str) -> None:
        """Return a token that was taken for what turned out to be harmless."""
        if self._per_minute:
            self._left[client] = (min(float(self._per_minute), self._now(client) + 1), self._clock.monotonic_s())

    def _now(self, client: str) -> float:
        left, then_s = self._left.get(client, (float(self._per_minute), self._clock.monotonic_s()))
        return min(float(self._per_minute), left + (self._clock.monotonic_s() - then_s) * self._per_minute / 60)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that all listeners share."""

    logins: Buckets
    writes: Buckets

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return the limits of the worker's file."""
        logins, writes = (Buckets(per_minute=settings.integer(name), clock=SystemClock()) for name in (LOGINS, WRITES))
        return cls(logins, writes)


class Writes:
    """Answers 429 to a client that changes or checks more than its share.

    Schemas are not counted: a source of many tables registers thousands at its start. A standby
    counts its own clients by their addresses. At the leader all forwarded requests come from one
    address, so each user behind it is counted separately.
    """

    def __init__(self, app: ASGIApp, *, buckets: Buckets) -> None:
        self._app = app
        self._buckets = buckets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _READING and scope["path"].startswith(CONNECT_PATHS):
            client = _writer(scope)
            if wait_s := self._buckets.wait_s(client):
                answer = error(HTTPStatus.TOO_MANY_REQUESTS, f"Too many changes from this address; see {WRITES}")
                answer.headers["Retry-After"] = str(wait_s)
                await answer(scope, receive, send)
                return
            self._buckets.take(client)
        await self._app(scope, receive, send)


def _writer(scope: Scope) -> str:
    """Return the key of a client: its address, and for a forwarded request also the user, whose
    login was checked here.
    """
    client = client_of(str((scope.get("client") or ("?",))[0]))
    return f"{client} {scope[PRINCIPAL].name}" if FORWARDED in Headers(scope=scope) else client
