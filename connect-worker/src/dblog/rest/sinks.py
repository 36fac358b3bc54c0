"""``/sinks``: what sinks report of themselves and of the tables that the caller may see. Not in Kafka
Connect.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import RequestError, bad_request, not_found
from dblog.cluster.sinkstore import KnownSink, SinkView
from dblog.config.roles import Role
from dblog.errors import DefiniteError, TransientError
from dblog.rest.api import Answer, check, empty, ready, segment, services
from dblog.rest.identity import may

_OF_ALL = ("lake", "topics", "reason", "blocked", "work", "work_more", "tables", "parked")
"""Fields that may name tables, or count them; for callers who may see all connectors."""


def visible_topics(request: HttpRequest) -> frozenset[str] | None:
    """Return the topics of the connectors that the caller may see. None stands for all."""
    if may(request, Role.READER, None):
        return None
    herder = services(request).herder
    names = (name for name in herder.configs.connector_configs() if may(request, Role.READER, name))
    return frozenset(topic for name in names for topic in herder.statuses.topics(name))


def visible_sinks(view: SinkView, topics: frozenset[str] | None) -> list[KnownSink]:
    """Return the sinks with tables of these topics. None stands for all topics."""
    ids = None if topics is None else {each.sink for each in view.of_topics(topics)}
    return [each for each in view.sinks() if ids is None or each.id in ids]


async def listed(request: HttpRequest) -> Response:
    """Answer with the sinks that the caller may see."""
    await ready(request)
    view = services(request).sinks
    if view is None:
        raise not_found("This worker does not read the sinks' reports: dblog.sinks.topic is empty in its configuration")
    topics = visible_topics(request)
    return Answer({"fault": view.fault or None, "sinks": [_shown(each, all_=topics is None) for each in visible_sinks(view, topics)]})


def _shown(known: KnownSink, *, all_: bool) -> dict[str, Any]:
    now_s = time.time()
    report = {name: value for name, value in asdict(known.report).items() if all_ or name not in _OF_ALL}
    return {
        **report,
        "sink": known.id.name,
        "state_path": known.id.state_path,
        "state": known.word(now_s),
        "seen_ms": round(known.seen_s * 1000),
        "lag_s": known.lag_s(now_s),
    }


async def tables(request: HttpRequest) -> Response:
    """Answer with the tables of a sink that the caller may see."""
    await ready(request)
    view, name, state = services(request).sinks, segment(request, "sink"), request.query_params.get("state_path")
    topics = visible_topics(request)
    known = [] if view is None else visible_sinks(view, topics)
    found = next((each for each in known if each.id.name == name and state in (None, each.id.state_path)), None)
    if view is None or found is None:
        raise not_found(f"No sink {name[:200]} has reported with tables that you may see")
    wanted = [each for each in view.topics_of(found.id) if topics is None or each in topics]
    shown = [{"topic": each.topic, **asdict(each.table)} for each in view.of_topics(wanted) if each.sink == found.id]
    return Answer({"tables": shown})


async def forget(request: HttpRequest) -> Response:
    """Remove a sink that has ended from the topic, with its tables, and answer 204."""
    found = await ready(request)
    name, state = segment(request, "sink"), request.query_params.get("state_path")
    known = (
        []
        if found.sinks is None
        else [each for each in found.sinks.sinks() if each.id.name == name and state in (None, each.id.state_path)]
    )
    if found.sink_topic is None or not known:
        raise not_found(f"No sink {name[:200]} has reported")
    if len(known) > 1:
        raise bad_request(f"{len(known)} sinks are called {name[:200]}; name the one by state_path")
    topic, sink = found.sink_topic, known[0].id
    try:
        await check(request, lambda: topic.forget(sink))
    except DefiniteError as e:
        raise bad_request(str(e)) from e
    except TransientError as e:
        raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, str(e)) from e
    return empty(HTTPStatus.NO_CONTENT)


async def of_connector(request: HttpRequest) -> Response:
    """Answer with what sinks report of a connector's tables."""
    found = await ready(request)
    name = segment(request, "connector")
    if found.herder.configs.view(name) is None:
        raise not_found(f"Connector {name} not found")
    copies = [] if found.sinks is None else found.sinks.of_topics(found.herder.statuses.topics(name))
    return Answer({"tables": [{"topic": each.topic, "sink": each.sink.name, **asdict(each.table)} for each in copies]})


ROUTES = [
    Route("/sinks", listed, methods=["GET"]),
    Route("/sinks/{sink}", forget, methods=["DELETE"]),
    Route("/sinks/{sink}/tables", tables, methods=["GET"]),
    Route("/connectors/{connector}/lake", of_connector, methods=["GET"]),
]
