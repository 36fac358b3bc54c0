"""Makes the page's routes from its declarations, and answers them.

A part that a script asks for again and again is answered with 204 while it is what the browser has:
the browser sends the digest of what it got last. An action takes the header that htmx adds, which a
page of another origin cannot send without being asked for (CORS); with the check of the origin, of
the body's type and of the role, that refuses requests that another page forges.
"""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from dblog.cluster.requests import RequestError
from dblog.config.roles import Role
from dblog.page.asked import Asked
from dblog.page.assets import Assets
from dblog.page.collecting import Fleet
from dblog.page.history import History
from dblog.page.rendering import Rendering
from dblog.page.tables import SchemaVersions
from dblog.page.views import ACTIONS, DATA, VIEWS, Action, Data, View, full
from dblog.rest.access import require
from dblog.rest.api import PAGE_ASSETS, services
from dblog.rest.identity import principal_of

SEEN = "x-dblog-seen"
"""Header with the digest of a part, in both directions."""
RUN = "x-dblog-run"
"""Header with the time at which this worker began, by which the page notices a restart."""
_DIGEST_BYTES = 9
_LIVE = "live"
_PACKED_FROM_BYTES = 1024


class Page:
    """The worker's web page."""

    def __init__(self, history: History, *, version: str, started_s: float) -> None:
        self._history = history
        self.fleet = Fleet(history)
        self._schema_versions = SchemaVersions()
        self._assets = Assets()
        self.headers = {RUN: f"{started_s:.0f}"}
        """Headers of every answer."""
        self._rendering = Rendering(asset=self._assets.url, version=version, started_s=started_s, role=Role)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of everything that ``views.py`` declares, and of the assets."""
        return [
            Route(f"{PAGE_ASSETS}{{file}}", self._assets.answer, methods=["GET"]),
            *(Route(full(each.path), _Data(each, self).answer, methods=["GET"]) for each in DATA),
            *(Route(full(each.path), _View(each, self).answer, methods=["GET"]) for each in VIEWS),
            *(Route(full(each.path), _Action(each, self).answer, methods=["POST"]) for each in ACTIONS),
        ]

    def asked(self, request: HttpRequest) -> Asked:
        return Asked(request, self._history, self.fleet, self._schema_versions)

    def values(self, asked: Asked, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a template's values, with those that all templates have."""
        herder = asked.services.herder
        role = herder.role
        return {
            "asked": asked,
            "caller": principal_of(asked.request),
            "now_s": time.time(),
            "worker_id": asked.services.worker.worker_id,
            "stands_by": role.waits_because() if not role.leads else "",
            "leader": role.leader.rstrip("/"),
            "notice": "",
            "active": "",
            **values,
        }

    def html(self, text: str, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
        return HTMLResponse(text, status, {**self.headers, **(headers or {})})

    def whole(self, asked: Asked, template: str, values: Mapping[str, Any], *, status: int = HTTPStatus.OK) -> Response:
        return self.html(self._rendering.page(template, self.values(asked, values)), status=status)

    def live(self, asked: Asked, template: str, values: Mapping[str, Any]) -> str:
        """Return the live block of a template."""
        return self._rendering.block(template, _LIVE, self.values(asked, values))

    def part(self, asked: Asked, template: str, values: Mapping[str, Any]) -> Response:
        """Return the live block of a template, or 204 if the browser has it."""
        text = self.live(asked, template, values)
        digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        if asked.request.headers.get(SEEN) == digest:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={**self.headers, SEEN: digest})
        answer = self.html(text, headers={SEEN: digest})
        packs = "gzip" in asked.request.headers.get("accept-encoding", "") and len(answer.body) > _PACKED_FROM_BYTES
        if packs:
            # Only a script of this page gets here, so no other page can measure what is packed with what.
            answer.body = gzip.compress(answer.body, 1)
            answer.headers["Content-Length"] = str(len(answer.body))
            answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Vary"] = "Accept-Encoding, HX-Request"
        return answer

    def refusal(self, asked: Asked, error: RequestError) -> Response:
        """Return a refusal: a page, or for a script the sentence alone."""
        if _is_script(asked.request):
            return Response(error.message, error.status, media_type="text/plain")
        values = {"status": int(error.status), "phrase": error.status.phrase, "message": error.message}
        return self.whole(asked, "error.html", values, status=error.status)

    def starting(self, asked: Asked) -> Response:
        """Return the page of a worker that does not serve requests yet."""
        stage = str(asked.services.herder.stage)
        if _is_script(asked.request):
            return Response(f"The worker is starting. {stage}", HTTPStatus.SERVICE_UNAVAILABLE, media_type="text/plain")
        return self.whole(asked, "starting.html", {"stage": stage}, status=HTTPStatus.SERVICE_UNAVAILABLE)


class _Data:
    def __init__(self, data: Data, page: Page) -> None:
        self._data = data
        self._page = page

    async def answer(self, request: HttpRequest) -> Response:
        asked = self._page.asked(request)
        try:
            _check(asked, self._data.role)
            return JSONResponse(await self._data.load(asked), headers=self._page.headers)
        except RequestError as e:
            return Response(e.message, e.status, media_type="text/plain")


class _View:
    def __init__(self, view: View, page: Page) -> None:
        self._view = view
        self._page = page

    async def answer(self, request: HttpRequest) -> Response:
        page, asked = self._page, self._page.asked(request)
        if not services(request).herder.ready.is_set():
            return page.starting(asked)
        try:
            _check(asked, self._view.role)
            values = await self._view.load(asked)
        except RequestError as e:
            return page.refusal(asked, e)
        if _is_script(request):
            return page.part(asked, self._view.template, values)
        return page.whole(asked, self._view.template, values)


class _Action:
    def __init__(self, action: Action, page: Page) -> None:
        self._action = action
        self._page = page

    async def answer(self, request: HttpRequest) -> Response:
        page, asked = self._page, self._page.asked(request)
        try:
            if not _is_script(request):
                raise RequestError(HTTPStatus.FORBIDDEN, "Only this page itself may request changes here; use the REST interface instead")
            _check(asked, self._action.role)
            values = await self._action.run(asked)
        except RequestError as e:
            return page.refusal(asked, e)
        headers = {name: str(values[key]) for name, key in (("HX-Redirect", "redirect"), ("HX-Trigger", "trigger")) if values.get(key)}
        asked.fleet.renew()
        return page.html(page.live(asked, self._action.template, values), headers=headers)


def _is_script(request: HttpRequest) -> bool:
    return request.headers.get("hx-request") == "true"


def _check(asked: Asked, role: Role) -> None:
    """Raise RequestError 403 if the caller lacks the role."""
    if "connector" in asked.request.path_params:
        require(asked.request, role, asked.segment("connector"))
    elif not asked.may_somewhere(role):
        name = principal_of(asked.request).name
        raise RequestError(HTTPStatus.FORBIDDEN, f"This takes the role {role.name.lower()}, which {name} does not have for any connector")
