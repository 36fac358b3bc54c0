"""Identifies the caller before every resource except ``/health`` and paths below it. Refuses
unknown callers, and callers who try too often.

A worker's own tasks use its schema registry with a token of this run of the worker, which opens
nothing else.
"""

from __future__ import annotations

import hmac
import time
from collections import Counter
from http import HTTPStatus

import structlog
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dblog.clock import SystemClock
from dblog.cluster.requests import RequestError
from dblog.config.login import Refusal
from dblog.rest.addresses import client_of
from dblog.rest.api import CONNECT_PATHS, PROBE_PATHS, error, is_of_page
from dblog.rest.identity import PRINCIPAL, TASK, Identity, Principal
from dblog.rest.limits import Buckets

_log = structlog.get_logger("dblog.rest")

_LOGGED_AGAIN_S = 10.0
_PAGE_PASSWORDS = "This page takes a login of the worker's REST interface. Load it again, and give user and password."
_PAGE_TOKENS = (
    "This worker takes tokens alone, which a browser does not send by itself: reach this page through a proxy that adds the token, or configure users as well "
    "(dblog.rest.users.file)."
)


class Login:
    """Answers 401 to an unknown caller, and 429 after too many wrong logins."""

    def __init__(self, app: ASGIApp, *, identity: Identity | None, own_token: str, failures: Buckets | None = None) -> None:
        """Create the middleware. With ``identity`` None only the worker's own tasks are let in."""
        self._app = app
        self._identity = identity
        self._failures = failures or Buckets(per_minute=0, clock=SystemClock())
        self._own = f"Bearer {own_token}" if own_token else ""
        self._refused: Counter[Refusal] = Counter()
        self._logged_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBE_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            found = await self._found(scope)
        except RequestError as e:
            busy = error(e.status, e.message)
            busy.headers["Retry-After"] = str(e.retry_after_s or 1)
            await busy(scope, receive, send)
            return
        if isinstance(found, Principal):
            await self._app({**scope, PRINCIPAL: found}, receive, send)
            return
        if isinstance(found, Refusal):
            self._log(scope, found)
            answer = self._unauthorized(scope)
        else:
            answer = error(HTTPStatus.TOO_MANY_REQUESTS, "Too many logins from this address were wrong; try again later")
            answer.headers["Retry-After"] = str(found)
        await answer(scope, receive, send)

    async def _found(self, scope: Scope) -> Principal | Refusal | int:
        """Return the caller, a refusal, or the seconds until the client may try again."""
        given = Headers(scope=scope).get("authorization", "")
        if (
            self._own
            and not _of_connect(scope)
            and not is_of_page(scope["path"])
            and hmac.compare_digest(given.encode(), self._own.encode())
        ):
            return TASK
        if self._identity is None:
            return Refusal.NO_SUCH_USER
        if not given or not self._identity.asks:
            return self._identity.without_header(scope) or Refusal.NONE_GIVEN
        # A correct login must work even if another client at the same address, behind a proxy,
        # guesses.
        if (known := self._identity.known(given)) is not None:
            return known
        async with self._identity.turn(given):
            return self._identity.known(given) or await self._compared(self._identity, given, client_of(_host(scope)))

    async def _compared(self, identity: Identity, given: str, client: str) -> Principal | Refusal | int:
        """Compare a login within its turn.

        It counts as wrong from the start of the comparison, because others of the same address wait
        for theirs meanwhile.
        """
        if wait_s := self._failures.wait_s(client):
            return wait_s
        self._failures.take(client)
        found = await identity.compared(given)
        if isinstance(found, Principal):
            self._failures.give_back(client)
        return found

    def _log(self, scope: Scope, refusal: Refusal) -> None:
        """Log refused logins from time to time, counted by reason, so that guessing cannot fill the
        log.

        The name that was tried is not logged: a stranger chose it, and it may be a password by
        mistake.
        """
        self._refused[refusal] += 1
        now_s = time.monotonic()
        if not self._logged_s or now_s - self._logged_s >= _LOGGED_AGAIN_S:
            self._logged_s = now_s
            reasons = ", ".join(f"{reason.value}: {self._refused[reason]}" for reason in Refusal if self._refused[reason])
            _log.warning("logins refused", last_client=_host(scope), since_last_line=self._refused.total(), reasons=reasons)
            self._refused.clear()

    def _unauthorized(self, scope: Scope) -> Response:
        """Return the 401 answer: plain text as from Connect's filter, JSON for registry clients."""
        passwords = self._identity is None or self._identity.asks_for_passwords
        asks = {
            "WWW-Authenticate": ", ".join(
                way for way, taken in (('Basic realm="dblog"', passwords), ('Bearer realm="dblog"', not passwords)) if taken
            )
        }
        if _of_connect(scope):
            return PlainTextResponse("User cannot access the resource.", HTTPStatus.UNAUTHORIZED, asks)
        if is_of_page(scope["path"]):
            return PlainTextResponse(_PAGE_PASSWORDS if passwords else _PAGE_TOKENS, HTTPStatus.UNAUTHORIZED, asks)
        answer = error(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.")
        answer.headers.update(asks)
        return answer


def _host(scope: Scope) -> str:
    return str((scope.get("client") or ("?",))[0])


def _of_connect(scope: Scope) -> bool:
    path: str = scope["path"]
    return path in ("/", "/metrics") or path.startswith(CONNECT_PATHS)
