"""JSON bodies that several REST resources answer with. Pure; the order of keys is Connect's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.cluster.records import State, Status
from dblog.cluster.state import ConnectorView
from dblog.config.plugins import find_connector

UNDEFINED = "undefined"


def connector_type(config: Mapping[str, str] | None) -> str:
    """Return ``source``, or ``unknown`` for a deleted connector or a class this worker lacks."""
    plugin = find_connector(config.get("connector.class")) if config is not None else None
    return "unknown" if plugin is None else plugin.type


def info_answer(view: ConnectorView) -> dict[str, Any]:
    """Return a connector's info."""
    return {
        "name": view.name,
        "config": dict(view.config),
        "tasks": [{"connector": view.name, "task": number} for number in range(len(view.tasks))],
        "type": connector_type(view.config),
    }


def status_answer(
    name: str,
    connector: Status,
    tasks: Mapping[int, Status],
    type_name: str,
    metrics: Mapping[int, Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """Return a connector's status with the statuses of its tasks by number.

    A task that reports a dump in its ``metrics`` has a field for it, which Connect does not have.
    """
    reported = metrics or {}
    return {
        "name": name,
        "connector": state_answer(connector),
        "tasks": [
            {"id": number, **state_answer(status), **dump_answer(reported.get(number, {}))} for number, status in sorted(tasks.items())
        ],
        "type": type_name,
    }


def dump_answer(metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return the progress of a task's dump. Empty for a task without one."""
    if "dump_tables_total" not in metrics:
        return {}
    counts = {name: int(metrics.get(f"dump_{name}", 0)) for name in ("tables_done", "tables_total")}
    return {"dump": {"running": bool(metrics.get("dump_running")), **counts, "rows": int(metrics.get("dump_rows_total", 0))}}


def state_answer(status: Status) -> dict[str, Any]:
    """Return the status of a connector or a task.

    An undefined version and an empty trace are left out.
    """
    answer: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version != UNDEFINED:
        answer["version"] = status.version
    if status.trace:
        answer["trace"] = status.trace
    return answer


def unassigned(worker_id: str, generation: int) -> Status:
    """Return the status of a connector or task that exists and has not been started yet."""
    return Status(state=State.UNASSIGNED, worker_id=worker_id, generation=generation)
