"""Asks for a login in front of everything but ``/health`` and what is below it, when the worker has users.

A worker's own tasks use its schema registry: they have a token of this worker's run, which opens nothing else.
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

from dblog.config.login import Logins, Refusal
from dblog.rest.api import CONNECT_PATHS, PROBE_PATHS, error

_log = structlog.get_logger("dblog.rest")

_LOGGED_AGAIN_S = 10.0


class Login:
    """401 for whoever is nobody."""

    def __init__(self, app: ASGIApp, *, logins: Logins | None, own_token: str) -> None:
        self._app = app
        self._logins = logins
        self._own = f"Bearer {own_token}" if own_token else ""
        self._refused: Counter[Refusal] = Counter()
        self._logged_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBE_PATHS or (refusal := self._refusal(scope)) is None:
            await self._app(scope, receive, send)
            return
        self._log(scope, refusal)
        await _unauthorized(scope)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        given = Headers(scope=scope).get("authorization", "")
        if self._own and not _of_connect(scope) and hmac.compare_digest(given.encode(), self._own.encode()):
            return None
        return Refusal.NO_SUCH_USER if self._logins is None else self._logins.refusal(given)

    def _log(self, scope: Scope, refusal: Refusal) -> None:
        """Now and then, with how many for which reason: whoever tries passwords must not fill the log. A stranger gives the name that was tried, it may be a
        password by mistake, and it is not shown.
        """
        self._refused[refusal] += 1
        now_s = time.monotonic()
        if not self._logged_s or now_s - self._logged_s >= _LOGGED_AGAIN_S:
            self._logged_s = now_s
            reasons = ", ".join(f"{reason.value}: {self._refused[reason]}" for reason in Refusal if self._refused[reason])
            client = (scope.get("client") or ("?",))[0]
            _log.warning("logins refused", last_client=client, since_last_line=self._refused.total(), reasons=reasons)
            self._refused.clear()


def _unauthorized(scope: Scope) -> Response:
    """Connect's filter answers in plain text; the registry's clients want JSON."""
    asks = {"WWW-Authenticate": 'Basic realm="dblog"'}
    if _of_connect(scope):
        return PlainTextResponse("User cannot access the resource.", HTTPStatus.UNAUTHORIZED, asks)
    answer = error(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.")
    answer.headers.update(asks)
    return answer


def _of_connect(scope: Scope) -> bool:
    path: str = scope["path"]
    return path in ("/", "/metrics") or path.startswith(CONNECT_PATHS)
