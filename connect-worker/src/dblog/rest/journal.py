"""``/connectors/{c}/log`` and ``/connectors/{c}/events``: the newest log lines of a connector, and its
timeline. Not in Kafka Connect.
"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dblog.cluster.journal import KINDS
from dblog.cluster.requests import bad_request, not_found
from dblog.observe.lines import Line
from dblog.rest.api import Answer, ready, segment

LEVELS = ("debug", "info", "warning", "error")
LIMIT = 500
_LIMIT_MAX = 5000


async def log(request: HttpRequest) -> Response:
    """Answer with the newest lines, oldest first; as text with ``format=text``."""
    lines = await lines_of(request, segment(request, "connector"))
    if request.query_params.get("format") == "text":
        text = "".join(f"{each.at} {each.level.upper():7} {each.text} [{each.logger}]\n" for each in lines)
        return PlainTextResponse(text, headers={"Content-Disposition": 'attachment; filename="connector.log"'})
    return Answer([asdict(each) for each in lines])


async def lines_of(request: HttpRequest, name: str) -> list[Line]:
    """Return the lines that the query's ``level``, ``q`` and ``lines`` select. Raise RequestError."""
    found = await ready(request)
    if found.herder.configs.view(name) is None:
        raise not_found(f"Connector {name} not found")
    level, limit = request.query_params.get("level", ""), request.query_params.get("lines", str(LIMIT))
    if level and level not in LEVELS:
        raise bad_request(f"There is no level {level[:20]}; there are {', '.join(LEVELS)}")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= _LIMIT_MAX):
        raise bad_request(f"lines must be a whole number from 1 to {_LIMIT_MAX}")
    return found.herder.journal.lines.of(name, level=level, search=request.query_params.get("q", ""), limit=int(limit))


async def events(request: HttpRequest) -> Response:
    """Answer with the newest events, newest first."""
    found = await ready(request)
    name, kind = segment(request, "connector"), request.query_params.get("kind", "")
    if found.herder.configs.view(name) is None:
        raise not_found(f"Connector {name} not found")
    if kind and kind not in (*KINDS, "warning"):
        raise bad_request(f"There is no kind {kind[:20]} of events; there are {', '.join((*KINDS, 'warning'))}")
    return Answer([{"kind": each, **asdict(line)} for each, line in found.herder.journal.events(name, kind=kind)])


ROUTES = [
    Route("/connectors/{connector}/log", log, methods=["GET"]),
    Route("/connectors/{connector}/events", events, methods=["GET"]),
]
