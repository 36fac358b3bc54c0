"""What all resources share: reading bodies, asking the herder within its limit, answers and errors in Connect's shape.

Connect's rules are in Kafka's documentation, Kafka Connect, REST API. Where Connect answers 500 to a client's mistake (malformed JSON, a nested value) this
interface answers 400 with the same body shape.
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
from dblog.cluster.validation import Validator
from dblog.config.worker import WorkerConfig
from dblog.rest.bodies import BadBodyError, parse_body
from dblog.rest.threads import Threads

T = TypeVar("T")

CONNECT_PATHS = ("/connectors", "/connector-plugins", "/admin")
"""Beginnings of the paths that are Connect's; the others are the registry's, or ours."""
HEALTH_PATH, LIVE_PATH, READY_PATH = "/health", "/health/live", "/health/ready"
PROBE_PATHS = frozenset({HEALTH_PATH, LIVE_PATH, READY_PATH})
"""Asked by probes, which have no login and know a worker by its address alone."""
_ASK_AGAIN_S = 0.02
REQUEST_LIMIT_S = 90.0
"""Connect's limit for a request; a check of a configuration counts as one."""


class Checks(Threads):
    """Threads for checks of configurations, which may wait for their databases for as long as those like."""

    def __init__(self, *, limit: int = 16) -> None:
        super().__init__(
            "check", limit=limit, busy=f"{limit} checks of other configurations still wait for their databases; try again later"
        )


@dataclass(frozen=True, slots=True)
class Services:
    """What the resources work with."""

    worker: WorkerConfig
    herder: Herder
    validator: Validator
    checks: Checks
    metrics: Callable[[], bytes]
    commit: str


class Answer(JSONResponse):
    """JSON as Connect writes it: compact, UTF-8."""

    def render(self, content: Any) -> bytes:
        """The bytes. What JSON has no form for (NaN in an offset that another program wrote) becomes null."""
        try:
            return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except ValueError:
            finite = json.loads(json.dumps(content), parse_constant=lambda _name: None)
            return json.dumps(finite, ensure_ascii=False, separators=(",", ":")).encode()


def services(request: HttpRequest) -> Services:
    """The services of the application that serves this request."""
    found: Services = request.app.state.services
    return found


def segment(request: HttpRequest, name: str) -> str:
    """A path segment, percent-decoded after routing, so that an encoded slash stays inside a name."""
    return unquote(request.path_params[name])


def flag(request: HttpRequest, name: str) -> bool:
    """A boolean of the query: ``true`` in any case, else false."""
    return request.query_params.get(name, "").lower() == "true"


def error(status: int, message: str) -> Answer:
    """Connect's error body."""
    return Answer({"error_code": int(status), "message": message}, status_code=int(status))


def empty(status: HTTPStatus, *, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body."""
    return Response(status_code=status, headers=headers)


async def json_body(request: HttpRequest) -> Any:
    """The body as JSON; numbers keep the text they came with."""
    return parsed(await request.body(), numbers_as_text=True)


def parsed(data: bytes, *, numbers_as_text: bool = False) -> Any:
    """The JSON of a body, or Connect's 400."""
    try:
        return parse_body(data, numbers_as_text=numbers_as_text)
    except BadBodyError as e:
        raise bad_request(str(e)) from e


def config_map(body: object, *, what: str = "The request body") -> dict[str, str | None]:
    """A flat map of strings; numbers and booleans become their text, nulls stay."""
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
    """The services, once the worker has read its topics; a view that is read earlier would be wrong."""
    found = services(request)
    herder = found.herder
    if not await is_set(herder.ready, limit_s=REQUEST_LIMIT_S):
        raise RequestError(500, f"Request timed out. {herder.stage}")
    return found


async def is_set(event: threading.Event, *, limit_s: float) -> bool:
    """Whether the event is set within the limit; asked now and then, since a thread that waits would hold up the end of the worker."""
    deadline_s = time.monotonic() + limit_s
    while not event.is_set():
        if time.monotonic() >= deadline_s:
            return False
        await asyncio.sleep(_ASK_AGAIN_S)
    return True


async def ask(request: HttpRequest, asked: Request, *, limit_s: float = REQUEST_LIMIT_S) -> Any:
    """Hand a request to the herder and wait for its answer."""
    herder = services(request).herder
    future = herder.submit(asked)
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), limit_s)
    except TimeoutError as e:
        raise RequestError(500, f"Request timed out. {herder.stage}") from e


async def check(request: HttpRequest, work: Callable[[], T]) -> T:
    """Run what may wait for a database, outside the event loop and the herder."""
    found = services(request)
    try:
        return await found.checks.call(work, limit_s=REQUEST_LIMIT_S)
    except TimeoutError as e:
        raise RequestError(
            500, "Request timed out. The worker is currently validating the connector configuration against its database"
        ) from e


def location(request: HttpRequest, name: str) -> dict[str, str]:
    """The Location of a new connector: absolute, as the client reached us."""
    host = request.headers.get("host") or services(request).worker.worker_id
    return {"Location": f"{request.url.scheme}://{host}/connectors/{quote(name, safe='')}"}
