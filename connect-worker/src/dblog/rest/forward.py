"""Forwards requests to the leader that only the leader can answer, as Kafka Connect's workers do.
One address for all workers then serves every request.

Both workers authenticate and authorize the caller. The Authorization header is forwarded, but never
from TLS to plain HTTP, and only to an address that ``rest/leaders.py`` allows. Only callers whom
the leader identifies in the same way are forwarded. A client certificate and a place on this
machine cannot be forwarded; such callers get this worker's own answer, 409 with the leader's URL. A
header marks a forwarded request, so that it is forwarded only once: if two workers take each other
for the leader, the second one answers 409.

The status of connectors is also requested from the leader, because only it knows what its tasks
report. If it does not answer in time, this worker answers from its own view.

The web page comes from the leader as well, but for its assets: a view falls back to this worker's
own in the same way.

The size of the leader's answer is bounded (``rest/bounded_answers.py``), because only its address
is known.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from http import HTTPStatus
from urllib.parse import parse_qs

import httpx
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.cluster.requests import RequestError
from dblog.config.listener_tls import ListenerTls
from dblog.errors import DblogError
from dblog.rest.api import LIVE_PATH, PAGE_ASSETS, REQUEST_LIMIT_S, Services, error, is_of_page
from dblog.rest.audit import HANDED_ON_FOR, note_handed_on
from dblog.rest.bounded_answers import AnswerRefusedError, bounded
from dblog.rest.identity import FORWARDED, PRINCIPAL, is_same_at_the_leader
from dblog.rest.leaders import WORKERS, fault_of
from dblog.trust import kind_of, trusting

_log = structlog.get_logger("dblog.rest")

_REACHED_S = 5.0
_ANSWERED_S = REQUEST_LIMIT_S + 5.0
_VIEW_S = 3.0
_WHOLE_S = _REACHED_S + _ANSWERED_S
"""Time limit for a whole answer, because the client's own limits start again with each byte."""
_RETRY_S = 5

_READING = frozenset({"GET", "HEAD"})
_ANY_WORKERS = re.compile(r"/connectors/[^/]+/(?:pause|resume|topics/reset|ddl/explain)")
"""Requests that any worker may answer: records that any worker may write, as in Connect, and
answers computed from the topics.
"""
_KNOWN_TO_LEADER = re.compile(r"/connectors/[^/]+/(?:dumps(?:/.*)?|log|events)")
"""Paths whose answers only the leader knows."""
_STATUS = re.compile(r"/connectors/[^/]+/(?:tasks/[^/]+/)?status")
_SENT = ("authorization", "content-type", "accept", "hx-request", "x-dblog-seen")
_ANSWERED = ("content-type", "location", "warning", "retry-after", "hx-trigger", "hx-redirect", "x-dblog-seen", "x-dblog-run")


class Forward:
    """Middleware between the checks of requests and the resources."""

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self._app = app
        self._services = services
        self._own_url = services.worker.advertised_url
        self._listed = services.worker.settings.items_of(WORKERS)
        self._refused = ""
        """The refused leader's address that was logged last."""
        self._wants_certificates = ListenerTls.of(services.worker.settings.originals).requires_certificates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leader = self._leader(scope)
        if leader is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await _body(receive)
        except RequestError as e:
            await error(e.status, e.message)(scope, receive, send)
            return
        answer = await self._answer_of(leader, scope, body)
        if answer is None:
            await self._app(scope, _again(body, receive), send)
        else:
            await answer(scope, receive, send)

    def _leader(self, scope: Scope) -> str | None:
        """Return the leader's URL if the request goes there, or None if this worker answers."""
        if scope["type"] != "http" or not (_is_leaders(scope) or _is_view(scope)):
            return None
        herder = self._services.herder
        leader = herder.role.leader.rstrip("/")
        if not herder.ready.is_set() or herder.role.leads or not herder.role.stands_by or leader == self._own_url:
            return None
        if not is_same_at_the_leader(scope[PRINCIPAL]):
            return None
        if leader.startswith("https://") and self._wants_certificates:
            # the leader has the same settings and wants a certificate; this worker has no client
            # certificate
            return None
        if FORWARDED in Headers(scope=scope) or (scope["scheme"] == "https" and not leader.startswith("https://")):
            return None
        return leader if self._takes(leader) else None

    def _takes(self, leader: str) -> bool:
        """Return True if the leader's address may get logins. Log once if it may not."""
        fault = fault_of(leader, own_url=self._own_url, listed=self._listed)
        if fault is not None and leader != self._refused:
            _log.warning(
                "requests are not handed on to the leader that the group names",
                leader=leader,
                reason=fault,
                remedy=f"see whether a worker of this group is there; if so, let its listener have TLS as this one's, and list it in {WORKERS}",
            )
        self._refused = leader if fault is not None else ""
        return fault is None

    async def _answer_of(self, leader: str, scope: Scope, body: bytes) -> Response | None:
        """Return the leader's answer, or None if this worker has to answer itself."""
        given = Headers(scope=scope)
        query = scope.get("query_string", b"").decode("ascii", "replace")
        view = _is_view(scope)
        try:
            limits = httpx.Timeout(_VIEW_S if view else _ANSWERED_S, connect=_VIEW_S if view else _REACHED_S)
            trusts = await asyncio.to_thread(self._trusted) if leader.startswith("https://") else False
            async with (
                asyncio.timeout(_VIEW_S if view else _WHOLE_S),
                httpx.AsyncClient(verify=trusts, timeout=limits, trust_env=False, follow_redirects=False) as client,
            ):
                if trusts and not view and not await _lets_in(client, leader):
                    _log.warning("a request is not handed on: the leader ends the TLS connections of this standby", leader=leader)
                    return None
                request = client.build_request(
                    scope["method"],
                    f"{leader}{scope['path']}{'?' if query else ''}{query}",
                    content=body,
                    headers={
                        **{name: given[name] for name in _SENT if name in given},
                        FORWARDED: self._own_url,
                        HANDED_ON_FOR: str((scope.get("client") or ("?",))[0]),
                    },
                )
                found, content = await bounded(client, request)
        except (httpx.HTTPError, httpx.InvalidURL, DblogError, ssl.SSLError, OSError) as e:
            if view:
                return None
            _log.warning("a request could not be handed on to the leader", leader=leader, reason=_said(e), method=scope["method"])
            return _unreached(leader, e)
        if found.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and "authorization" not in given:
            return None  # the leader has other settings and asks for a login
        if view and not found.is_success:
            return None
        note_handed_on(scope, leader)
        answer = Response(content, status_code=found.status_code)
        for name in _ANSWERED:
            if name in found.headers:
                answer.headers[name] = found.headers[name]
        if found.headers.get("location", "").startswith(leader) and "host" in given:
            answer.headers["location"] = f"{scope['scheme']}://{given['host']}{found.headers['location'].removeprefix(leader)}"
        return answer

    def _trusted(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the machine's authorities, the listeners' authorities,
        and this worker's own certificate. Workers share a certificate or its issuer.
        """
        context = trusting(None)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        for pem in ListenerTls.of(self._services.worker.settings.originals).certificates():
            context.load_verify_locations(cadata=pem)
        return context


async def _lets_in(client: httpx.AsyncClient, leader: str) -> bool:
    """Return True if the leader serves this worker, on the connection that the request uses next.

    Under TLS 1.3 a leader that wants a certificate closes the connection only after this side has
    sent something. If that were the request, nobody could tell whether it was carried out. Raises
    ConnectTimeout if the leader is silent.
    """
    try:
        await bounded(client, client.build_request("GET", f"{leader}{LIVE_PATH}", timeout=_REACHED_S))
    except httpx.ReadTimeout as e:
        raise httpx.ConnectTimeout(str(e)) from e
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        return False
    return True


def _is_leaders(scope: Scope) -> bool:
    path: str = scope["path"]
    if is_of_page(path):
        return scope["method"] not in (*_READING, "OPTIONS")
    if path != "/connectors" and not path.startswith("/connectors/"):
        return False
    if scope["method"] in _READING:
        return bool(_KNOWN_TO_LEADER.fullmatch(path))
    return scope["method"] != "OPTIONS" and not _ANY_WORKERS.fullmatch(path)


def _is_view(scope: Scope) -> bool:
    if scope["method"] != "GET":
        return False
    if is_of_page(scope["path"]):
        return not scope["path"].startswith(PAGE_ASSETS)
    listed = scope["path"] == "/connectors" and "status" in parse_qs(scope.get("query_string", b"").decode("ascii", "replace")).get(
        "expand", ()
    )
    return listed or bool(_STATUS.fullmatch(scope["path"]))


def _unreached(leader: str, reason: Exception) -> Response:
    if isinstance(reason, httpx.ConnectError | httpx.ConnectTimeout | DblogError | ssl.SSLError):
        answer = error(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"The worker at {leader} leads the group, and this standby does not reach it ({kind_of(reason)}); try again",
        )
    else:
        answer = error(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f"IO Error trying to forward REST request: {_said(reason)}; it is not known whether the worker at {leader} has carried the request out",
        )
    answer.headers["Retry-After"] = str(_RETRY_S)
    return answer


def _said(reason: Exception) -> str:
    return str(reason) if isinstance(reason, AnswerRefusedError) else kind_of(reason)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""  # the client has gone
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that delivers the body, which was already read, a second time."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
