"""``/connectors/{c}/topics``: the topics a connector has written to (KIP-558)."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import RequestError, ResetTopics
from dblog.rest.api import Answer, ask, empty, ready, segment


async def get(request: HttpRequest) -> Response:
    """Answer with the topics; an empty list for an unknown connector, as in Connect."""
    found = await ready(request)
    _require_tracking(found.worker.settings.boolean("topic.tracking.enable"))
    name = segment(request, "connector")
    return Answer({name: {"topics": found.herder.statuses.topics(name)}})


async def reset(request: HttpRequest) -> Response:
    """Forget the topics. They are noted again as records are written."""
    found = await ready(request)
    _require_tracking(found.worker.settings.boolean("topic.tracking.enable"))
    if not found.worker.settings.boolean("topic.tracking.allow.reset"):
        raise RequestError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")
    await ask(request, ResetTopics(segment(request, "connector")))
    return empty(HTTPStatus.ACCEPTED)


def _require_tracking(enabled: bool) -> None:  # noqa: FBT001  the one thing it is about
    if not enabled:
        raise RequestError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")


ROUTES = [
    Route("/connectors/{connector}/topics", get, methods=["GET"]),
    Route("/connectors/{connector}/topics/reset", reset, methods=["PUT"]),
]
