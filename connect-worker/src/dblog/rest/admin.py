"""``/``, ``/health``, ``/metrics`` and ``/admin/loggers`` (KIP-495, KIP-976)."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import Ping, RequestError, SetClusterLevel, bad_request, not_found
from dblog.config.plugins import CONNECT_VERSION
from dblog.observe.logs import LEVELS, TABLE
from dblog.rest.api import HEALTH_PATH, Answer, ask, empty, json_body, ready, segment, services

_HEALTH_LIMIT_S = 10.0


async def root(request: HttpRequest) -> Response:
    """Answer with exactly Connect's three keys."""
    found = services(request)
    return Answer({"version": CONNECT_VERSION, "commit": found.commit, "kafka_cluster_id": found.herder.cluster_id})


async def health(request: HttpRequest) -> Response:
    """Answer whether the herder's thread handles requests. Failed connectors do not count.

    A standby is as healthy as a follower of Connect; otherwise a liveness probe would kill it
    before it is needed. Its message names the leader.
    """
    herder = services(request).herder
    if not herder.ready.is_set():
        return _health(HTTPStatus.SERVICE_UNAVAILABLE, "starting", f"Worker is still starting up. {herder.stage}")
    if herder.role.broken:
        return _health(HTTPStatus.SERVICE_UNAVAILABLE, "unhealthy", herder.role.broken)
    if herder.role.leads and herder.role.rival:
        return _health(HTTPStatus.SERVICE_UNAVAILABLE, "unhealthy", herder.role.rival)
    reason = herder.role.waits_because()
    if reason and not herder.role.stands_by:
        return _health(HTTPStatus.SERVICE_UNAVAILABLE, "starting", reason)
    try:
        await ask(request, Ping(), limit_s=_HEALTH_LIMIT_S)
    except RequestError:
        text = "Worker was unable to handle this request and may be unable to handle other requests."
        return _health(HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", f"{text} {herder.stage}")
    return _health(HTTPStatus.OK, "healthy", reason or "Worker has completed startup and is ready to handle requests.")


def _health(code: HTTPStatus, status: str, message: str) -> Answer:
    return Answer({"status": status, "message": message}, status_code=code)


async def metrics(request: HttpRequest) -> Response:
    """Answer with Prometheus text, rendered in a thread because it is long for many connectors."""
    return Response(await asyncio.to_thread(services(request).metrics), media_type="text/plain; version=0.0.4; charset=utf-8")


async def list_loggers(_request: HttpRequest) -> Response:
    """Answer with every known logger and its level."""
    return Answer({name: {"level": level, "last_modified": modified_ms} for name, (level, modified_ms) in TABLE.all().items()})


async def get_logger(request: HttpRequest) -> Response:
    """Answer with one logger's level."""
    name = segment(request, "logger")
    found = TABLE.get(name)
    if found is None:
        raise not_found(f"Logger {name} not found.")
    return Answer({"level": found[0], "last_modified": found[1]})


async def set_logger(request: HttpRequest) -> Response:
    """Set a level. Answer 200 with the loggers changed here, or 204 if set on all workers."""
    body = await json_body(request)
    level = body.get("level") if isinstance(body, dict) else None
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if str(level).upper() not in LEVELS:
        raise not_found(f"invalid log level '{level}'. There are {', '.join(LEVELS)}.")
    name, wanted = segment(request, "logger"), str(level).upper()
    if TABLE.get(name) is None:
        raise not_found(f"Logger {name} not found. {_of_java(name)}GET /admin/loggers lists them.")
    if request.query_params.get("scope", "worker").lower() == "cluster":
        await ready(request)
        await ask(request, SetClusterLevel(name, wanted))
        return empty(HTTPStatus.NO_CONTENT)
    return Answer(services(request).herder.set_level(name, wanted))


_IN_JAVA = {
    "io.debezium": "dblog.readers, dblog.dialects",
    "com.github.shyiko.mysql.binlog": "dblog.dialects",
    "org.apache.kafka.connect": "dblog.cluster, dblog.runtime, dblog.rest",
    "org.apache.kafka": "dblog.kafka",
}
"""This program's loggers that correspond to those of Kafka Connect and Debezium.

Levels set for the Java names are not applied: ``org.apache.kafka=ERROR``, which silences a JVM's
clients, would hide this worker's own messages.
"""


def _of_java(name: str) -> str:
    ours = next((ours for prefix, ours in _IN_JAVA.items() if f"{name}.".startswith(f"{prefix}.")), None)
    return f"What Kafka Connect and Debezium log there has the loggers {ours}. " if ours else ""


ROUTES = [
    Route("/", root, methods=["GET"]),
    Route(HEALTH_PATH, health, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
LOGGER_ROUTES = [
    Route("/admin/loggers", list_loggers, methods=["GET"]),
    Route("/admin/loggers/{logger}", get_logger, methods=["GET"]),
    Route("/admin/loggers/{logger}", set_logger, methods=["PUT"]),
]
