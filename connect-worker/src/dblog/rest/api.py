"""Helpers shared by all resources: reading bodies, asking the herder within its limit, answers and
errors in Connect's shape.

Connect's rules are in Kafka's documentation, Kafka Connect, REST API. Where Connect answers 500 to
a client's mistake (malformed JSON, a nested value), this interface answers 400 with the same body
shape.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from dblog.cluster.herder import Herder
from dblog.cluster.requests import Request, RequestError, bad_request
from dblog.cluster.sinkstore import SinkTopic, SinkView
from dblog.cluster.validation import Validator
from dblog.config.worker import WorkerConfig
from dblog.rest.bodies import BadBodyError, parse_body
from dblog.rest.threads import Threads

T = TypeVar("T")

CONNECT_PATHS = ("/connectors", "/connector-plugins", "/admin")
"""Prefixes of Connect's own paths. All others are the registry's or specific to dblog."""
HEALTH_PATH, LIVE_PATH, READY_PATH = "/health", "/health/live", "/health/ready"
PROBE_PATHS = frozenset({HEALTH_PATH, LIVE_PATH, READY_PATH})
"""Paths for probes, which have no login and know a worker only by its address."""
PAGE_PATH = "/ui"
"""The worker's web page, and the prefix of all its views, parts, actions and assets."""
PAGE_ASSETS = f"{PAGE_PATH}/assets/"
_ASK_AGAIN_S = 0.02
REQUEST_LIMIT_S = 90.0
"""Connect's limit for a request. A check of a configuration counts as one request."""


class Checks(Threads):
    """Threads for checks of configurations. A check may wait for its database without a limit."""

    def __init__(self, *, limit: int = 16) -> None:
        super().__init__(
            "check", limit=limit, busy=f"{limit} checks of other configurations still wait for their databases; try again later"
        )


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that the resources work with."""

    worker: WorkerConfig
    herder: Herder
    validator: Validator
    checks: Checks
    metrics: Callable[[], bytes]
    commit: str
    sink_topic: SinkTopic | None = None
    """Follows the topic of the reports, and removes sinks from it. None where the worker does not read it."""
    sinks: SinkView | None = None
    """The reports of sinks. None where the worker does not read it."""


class Answer(JSONResponse):
    """JSON as Connect writes it: compact, in UTF-8."""

    def render(self, content: Any) -> bytes:
        """Return the body's bytes.

        NaN, which JSON cannot express, becomes null; another program's offset may contain it.
        """
        try:
            return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except ValueError:
            finite = json.loads(json.dumps(content), parse_constant=lambda _name: None)
            return json.dumps(finite, ensure_ascii=False, separators=(",", ":")).encode()


def is_of_page(path: str) -> bool:
    """Return True for paths of the web page."""
    return path == PAGE_PATH or path.startswith(f"{PAGE_PATH}/")


def services(request: HttpRequest) -> Services:
    """Return the services of the application that serves this request."""
    found: Services = request.app.state.services
    return found


def segment(request: HttpRequest, name: str) -> str:
    """Return a path segment.

    It is percent-decoded after routing, so that a name may contain a slash.
    """
    return unquote(request.path_params[name])


def flag(request: HttpRequest, name: str) -> bool:
    """Return a boolean of the query: True for ``true`` in any case, else False."""
    return request.query_params.get(name, "").lower() == "true"


def error(status: int, message: str) -> Answer:
    """Return Connect's error answer."""
    return Answer({"error_code": int(status), "message": message}, status_code=int(status))


def empty(status: HTTPStatus, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status, headers=headers)


async def json_body(request: HttpRequest) -> Any:
    """Return the body as JSON. Numbers keep their original text."""
    return parsed(await request.body(), numbers_as_text=True)


def parsed(data: bytes, *, numbers_as_text: bool = False) -> Any:
    """Return the JSON of a body. Raise Connect's 400 if it is not valid."""
    try:
        return parse_body(data, numbers_as_text=numbers_as_text)
    except BadBodyError as e:
        raise bad_request(str(e)) from e


def config_map(body: object, *, what: str = "The request body") -> dict[str, str | None]:
    """Return a flat map of strings. Numbers and booleans become text; nulls stay."""
    if not isinstance(body, dict):
        raise bad_request(f"{what} must be a JSON object of configuration keys and values")
    config: dict[str, str | None] = {}
    for name, value in body.items():
        if isinstance(value, dict | list):
            raise bad_request(
                f"The value of configuration {name} must be a string, not a JSON {'object' if isinstance(value, dict) else 'array'}"
            )
        config[name] = value if value is None else ("true" if value else "false") if isinstance(value, bool) else str(value)
    return config


async def ready(request: HttpRequest) -> Services:
    """Return the services, once the worker has read its topics. An earlier view would be wrong."""
    found = services(request)
    herder = found.herder
    if not await is_set(herder.ready, limit_s=REQUEST_LIMIT_S):
        raise RequestError(500, f"Request timed out. {herder.stage}")
    return found


async def is_set(event: threading.Event, *, limit_s: float) -> bool:
    """Return True if the event is set within the limit.

    Polls the event, because a waiting thread would delay the end of the worker.
    """
    deadline_s = time.monotonic() + limit_s
    while not event.is_set():
        if time.monotonic() >= deadline_s:
            return False
        await asyncio.sleep(_ASK_AGAIN_S)
    return True


async def ask(request: HttpRequest, asked: Request, *, limit_s: float = REQUEST_LIMIT_S) -> Any:
    """Send a request to the herder and return its answer.

    Raise RequestError 500 after the limit.
    """
    herder = services(request).herder
    future = herder.submit(asked)
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), limit_s)
    except TimeoutError as e:
        raise RequestError(500, f"Request timed out. {herder.stage}") from e


async def check(request: HttpRequest, work: Callable[[], T]) -> T:
    """Run work that may wait for a database, outside the event loop and the herder."""
    found = services(request)
    try:
        return await found.checks.call(work, limit_s=REQUEST_LIMIT_S)
    except TimeoutError as e:
        raise RequestError(
            500, "Request timed out. The worker is currently validating the connector configuration against its database"
        ) from e


def location(request: HttpRequest, name: str) -> dict[str, str]:
    """Return a new connector's Location header: absolute, with the host that the client used."""
    host = request.headers.get("host") or services(request).worker.worker_id
    return {"Location": f"{request.url.scheme}://{host}/connectors/{quote(name, safe='')}"}
