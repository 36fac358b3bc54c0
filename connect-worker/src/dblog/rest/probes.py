"""``/health/live`` and ``/health/ready``: an orchestrator asks the first before it restarts a
worker, and the second before it sends requests to it.

``/health`` gives both answers in one. A worker that waits for its brokers must not be restarted: a
restart brings no broker back and loses the worker's state. But it must not get requests that it
cannot carry out. So ``live`` depends only on this process, and ``ready`` on its role in the group.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.routing import Route

from dblog.cluster.requests import Ping, RequestError
from dblog.rest.api import LIVE_PATH, READY_PATH, Answer, ask, services

_PING_LIMIT_S = 4.0
"""Time limit of the herder's answer, below the five seconds that probes usually have."""


async def live(_request: HttpRequest) -> Answer:
    """Answer 200 as long as the process runs its event loop. Asks no broker, database or registry,
    and takes no lock.

    A thread of the worker that dies ends the process by itself, so the loop's answer is enough.
    """
    return Answer({"status": "live"})


async def ready(request: HttpRequest) -> Answer:
    """Answer 200 once this worker has joined its group and its herder carries out requests, else
    503 with the reason.

    A group that shares its topics with another one is reported only by ``/health``, because its
    users need this interface to fix that.
    """
    herder = services(request).herder
    if not herder.ready.is_set():
        return _not_ready(f"Worker is still starting up. {herder.stage}")
    role = herder.role
    reason = role.waits_because()
    if reason and not role.stands_by:
        return _not_ready(reason)
    try:
        await ask(request, Ping(), limit_s=_PING_LIMIT_S)
    except RequestError:
        return _not_ready(f"Worker was unable to handle a request in time. {herder.stage}")
    return Answer({"status": "ready", "role": "standby" if reason else "leader"})


def _not_ready(message: str) -> Answer:
    return Answer({"status": "not ready", "message": message}, status_code=HTTPStatus.SERVICE_UNAVAILABLE)


ROUTES = [Route(LIVE_PATH, live, methods=["GET"]), Route(READY_PATH, ready, methods=["GET"])]
