"""``/health/live`` and ``/health/ready``: what an orchestrator asks before it restarts a worker, or sends requests to it.

They part what ``/health`` answers in one. A worker that waits for its brokers must not be restarted, for a restart brings no broker back and ends what the
worker knows; and it must not be sent requests that it cannot carry out. So ``live`` depends on this process alone, and ``ready`` on its place in the group.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.routing import Route

from dblog.cluster.requests import Ping, RequestError
from dblog.rest.api import LIVE_PATH, READY_PATH, Answer, ask, services

_PING_LIMIT_S = 4.0
"""Less than the five seconds that a probe is usually given."""


async def live(_request: HttpRequest) -> Answer:
    """200 whenever the process turns its own loop: no broker, database or registry is asked, and no lock is taken.

    A thread of the worker that dies ends the process by itself, so the loop's answer is enough.
    """
    return Answer({"status": "live"})


async def ready(request: HttpRequest) -> Answer:
    """200 once this worker has joined its group, as leader or as standby, and its herder carries out requests; 503 with the reason.

    A group that shares its topics with another one is reported by ``/health`` alone: its users need this interface to mend that.
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
