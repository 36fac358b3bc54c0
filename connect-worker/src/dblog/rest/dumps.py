"""``/connectors/{c}/dumps``: dumps on demand are requested, listed, tuned, paused, resumed and
stopped. Not part of Connect.

``POST`` lets the task check the request on the database before it is stored, so an accepted dump
can begin. Every other request changes the stored dump, and the task follows. Only the leading
worker answers, also GETs, because it alone knows the progress of a dump.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.dumprequesthandler import NO_DUMPS
from dblog.cluster.dumpview import DETAILS, DumpView, fresh_status
from dblog.cluster.requests import (
    ChangeDump,
    CheckDump,
    FindTable,
    RequestError,
    SetDump,
    StartDump,
    bad_request,
    conflict,
    not_offered,
)
from dblog.cluster.role import REJOINS
from dblog.cluster.validation import limit_of
from dblog.config.roles import Role
from dblog.core.dumprequests import REQUEST_BYTES_MAX, DumpRequest, Wanted, parse_request
from dblog.errors import DefiniteError, TransientError
from dblog.rest.access import require
from dblog.rest.api import Answer, Services, ask, check, location, parsed, ready, segment
from dblog.rest.audit import note_fields
from dblog.rest.identity import may

ID_BYTES = 6
_BLANKS_BYTES = 64 * 1024
"""A body may contain blanks and line breaks, which the stored request does not have."""
_RETRY_S = 5
_FIND_S = 5.0
_TABLES_NOTED_MAX = 20
_NOTED = ("chunk_rows", "delay_ms", "parallelism", "priority")


async def create(request: HttpRequest) -> Response:
    """Answer 202 with the dump's details and Location, once the task has checked the request.

    400 for an impossible request; 404 for an unknown connector; 409 if it is stopped or failed, or
    if this worker does not lead; 503 if the task does not run yet; 504 if it does not answer in
    time.
    """
    data = await request.body()
    if len(data) > REQUEST_BYTES_MAX + _BLANKS_BYTES:
        raise bad_request(
            f"The request has {len(data)} bytes, and at most {REQUEST_BYTES_MAX} are allowed; ask for its keys or tables in several dumps"
        )
    body, name = parsed(data), segment(request, "connector")
    if isinstance(body, dict) and body.get("predicate"):
        # SQL that the database runs, so it needs the same role as a configuration.
        require(request, Role.ADMIN, name)
    found = await ready(request)
    asked = await check(request, lambda: _request(body, name))
    note_fields(request, dump=asked.id, mode=asked.mode.value, tables=list(asked.tables[:_TABLES_NOTED_MAX]))
    tables = await checked(request, found, asked)
    stored: DumpRequest = await ask(request, StartDump(asked))
    detail = {**stored.to_json(), "status": fresh_status(stored, tables)}
    headers = {"Location": f"{location(request, name)['Location']}/dumps/{quote(stored.id, safe='')}"}
    return Answer(shown(request, detail), status_code=HTTPStatus.ACCEPTED, headers=headers)


async def list_dumps(request: HttpRequest) -> Response:
    """Answer with all dumps of a connector in short, including its first dump."""
    view = await _view(request)
    return Answer({"dumps": view.listed(segment(request, "connector"))})


async def get(request: HttpRequest) -> Response:
    """Answer with one dump, its request and its tables.

    ``map=true`` adds each table's read ranges.
    """
    return await _detail(request, HTTPStatus.OK, maps=request.query_params.get("map") == "true")


async def change(request: HttpRequest) -> Response:
    """Change size, delay, parallelism or priority of a dump. Answer 200 with its details."""
    body = parsed(await request.body())
    await ready(request)
    name, dump = segment(request, "connector"), segment(request, "dump")
    if isinstance(body, dict):
        note_fields(request, set={field: body[field] for field in _NOTED if isinstance(body.get(field), int)})
    await ask(request, ChangeDump(name, dump, body))
    return await _detail(request, HTTPStatus.OK)


async def pause(request: HttpRequest) -> Response:
    """Pause a dump, or one of its tables. Answer 202 with the dump's details."""
    return await _set(request, Wanted.PAUSED)


async def resume(request: HttpRequest) -> Response:
    """Resume a dump, or one of its tables. Answer 202 with the dump's details."""
    return await _set(request, Wanted.RUNNING)


async def stop(request: HttpRequest) -> Response:
    """Stop a dump, or one of its tables, for good. Answer 202 with the dump's details."""
    return await _set(request, Wanted.STOPPED)


async def _set(request: HttpRequest, wanted: Wanted) -> Response:
    await ready(request)
    name, dump = segment(request, "connector"), segment(request, "dump")
    table = segment(request, "table") if "table" in request.path_params else None
    found = None if table is None else await _found(request, FindTable(name, dump, table))
    await ask(request, SetDump(name, dump, wanted, table, found))
    return await _detail(request, HTTPStatus.ACCEPTED)


async def _found(request: HttpRequest, asked: FindTable) -> tuple[str, ...] | None:
    """Return the names of the dump's tables that match this one.

    Return None if the task need not be asked or does not answer; the name then stays as given.
    """
    future: Future[list[str]] | None = await ask(request, asked)
    if future is None:
        return None
    try:
        found: list[str] = await asyncio.wait_for(asyncio.wrap_future(future), _FIND_S)
    except (TimeoutError, TransientError, RequestError):
        return None
    return tuple(found)


def _request(body: object, name: str) -> DumpRequest:
    try:
        return parse_request(body, id=secrets.token_hex(ID_BYTES), connector=name, created_ms=int(time.time() * 1000), requested_by="rest")
    except DefiniteError as e:
        raise bad_request(str(e)) from e


async def checked(request: HttpRequest, found: Services, asked: DumpRequest) -> list[str]:
    """Return the tables that the task would dump, as found on the server."""
    future: Future[list[str]] = await ask(request, CheckDump(asked))
    view = found.herder.configs.view(asked.connector)
    limit_s = limit_of(view.config if view is not None else {})
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), limit_s)
    except TimeoutError as e:
        raise RequestError(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"The task of connector {asked.connector} has not checked the request within {limit_s:g} s (connection.validation.timeout.ms), and nothing is "
            f"dumped; GET /connectors/{asked.connector}/status shows what it waits for",
            retry_after_s=_RETRY_S,
        ) from e
    except TransientError as e:
        raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, str(e), retry_after_s=_RETRY_S) from e


async def _view(request: HttpRequest) -> DumpView:
    herder = (await ready(request)).herder
    if herder.dump_view is None:
        raise not_offered(NO_DUMPS)
    if not herder.role.leads:
        raise conflict(herder.role.waits_because() or REJOINS)
    return herder.dump_view


async def _detail(request: HttpRequest, status: HTTPStatus, *, maps: bool = False) -> Response:
    view = await _view(request)
    return Answer(shown(request, view.detail(segment(request, "connector"), segment(request, "dump"), maps=maps)), status_code=status)


def shown(request: HttpRequest, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dump as the caller may see it. SQL and keys of rows are only for operators."""
    if may(request, Role.OPERATOR, str(detail["connector"])):
        return dict(detail)
    return {name: value for name, value in detail.items() if name not in DETAILS}


_ONE = "/connectors/{connector}/dumps/{dump}"
ROUTES = [
    Route("/connectors/{connector}/dumps", list_dumps, methods=["GET"]),
    Route("/connectors/{connector}/dumps", create, methods=["POST"]),
    Route(_ONE, get, methods=["GET"]),
    Route(_ONE, change, methods=["PATCH"]),
    *(
        Route(f"{part}/{verb.__name__}", verb, methods=["POST"])
        for part in (_ONE, f"{_ONE}/tables/{{table}}")
        for verb in (pause, resume, stop)
    ),
]
