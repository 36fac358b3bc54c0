"""``/connectors/{c}/tasks``: configurations, status, restart, and the internal calls between
workers (Kafka's documentation, REST API).
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.answers import state_answer, unassigned
from dblog.cluster.records import TaskId
from dblog.cluster.requests import RequestError, RestartTask, bad_request, not_found
from dblog.rest.access import shown_config, shown_trace
from dblog.rest.api import Answer, ask, empty, ready, segment

_DIGITS_MAX = 9


async def list_tasks(request: HttpRequest) -> Response:
    """Answer with the stored task configurations, as the caller may see them."""
    found = await ready(request)
    name = segment(request, "connector")
    view = found.herder.configs.view(name)
    if view is None:
        raise not_found(f"Connector {name} not found")
    shown = [await shown_config(request, name, config) for config in view.tasks]
    return Answer([{"id": {"connector": name, "task": number}, "config": config} for number, config in enumerate(shown)])


async def task_status(request: HttpRequest) -> Response:
    """Answer with one task's status."""
    found = await ready(request)
    task = _task_id(request)
    status = found.herder.status_view.task_status(task)
    if status is None:
        view = found.herder.configs.view(task.connector)
        if view is None or task.task >= len(view.tasks):
            raise not_found(f"No status found for task {task}")
        status = unassigned(found.worker.worker_id, found.herder.role.generation)
    answer = state_answer(status)
    if "trace" in answer:
        answer["trace"] = shown_trace(request, task.connector, answer["trace"])
    return Answer({"id": task.task, **answer})


async def restart_task(request: HttpRequest) -> Response:
    """Restart one task and answer 204."""
    await ready(request)
    await ask(request, RestartTask(_task_id(request)))
    return empty(HTTPStatus.NO_CONTENT)


def _task_id(request: HttpRequest) -> TaskId:
    number = request.path_params["task"]
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        raise not_found("HTTP 404 Not Found")
    return TaskId(segment(request, "connector"), int(number))


async def internal(request: HttpRequest) -> Response:
    """Refuse calls between JVM workers.

    They need a signature of the session key, which nobody has here.
    """
    if not request.headers.get("x-connect-authorization") or not request.headers.get("x-connect-request-signature-algorithm"):
        raise bad_request("Internal request missing required signature")
    raise RequestError(HTTPStatus.FORBIDDEN, "Internal request contained invalid signature.")


ROUTES = [
    Route("/connectors/{connector}/tasks", list_tasks, methods=["GET"]),
    Route("/connectors/{connector}/tasks", internal, methods=["POST"]),
    Route("/connectors/{connector}/fence", internal, methods=["PUT"]),
    Route("/connectors/{connector}/tasks/{task}/status", task_status, methods=["GET"]),
    Route("/connectors/{connector}/tasks/{task}/restart", restart_task, methods=["POST"]),
]
