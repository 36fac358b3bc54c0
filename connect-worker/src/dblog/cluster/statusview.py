"""Statuses of connectors and tasks for GETs and metrics, copied without the herder's thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dblog.cluster.answers import connector_type, status_answer, unassigned
from dblog.cluster.connectorwarnings import ConnectorWarnings
from dblog.cluster.decisions import Phase
from dblog.cluster.localconnectors import LocalConnectors
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import State, Status, TaskId
from dblog.cluster.role import REJOINS, WorkerRole
from dblog.cluster.state import ConnectorView
from dblog.cluster.stores import ConfigStore, StatusStore
from dblog.config.plugins import Plugin, find_connector

_RUNS = (State.RUNNING, State.PAUSED, State.RESTARTING)
"""States of what runs or is about to run."""
_NO_PROCESS = "No process runs the task at the moment: the worker that leads its group is about to start it."


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of what runs on this worker, for its metrics and its health."""

    connectors: dict[str, State]
    tasks: dict[TaskId, State]
    metrics: dict[TaskId, dict[str, float]]
    task_classes: dict[TaskId, Mapping[str, str]]
    kills: dict[TaskId, int]
    reported_s: dict[TaskId, float | None]
    restarts: dict[TaskId, dict[str, int]]
    failures: dict[TaskId, int]
    configured: dict[str, int]
    """All connectors of the group, each with its configured number of tasks."""
    plugins: dict[str, Plugin | None]
    """The plugin of each connector. None for a class that this worker lacks."""
    warnings: dict[str, int]
    """Number of warnings, without ordinary ones, of each connector that runs here."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The newest report of a task that this worker runs."""

    numbers: Mapping[str, float]
    reported_s: float | None
    """Wall-clock time of the report in seconds, or None before the first one."""
    waits: str | None
    """The reason why the task waits, or None if it does not wait."""
    restarts: Mapping[str, int]
    """Number of restarts since this worker began, by reason."""


class StatusView:
    """The status topic's view, completed with what only the worker that runs a task knows."""

    def __init__(
        self,
        configs: ConfigStore,
        statuses: StatusStore,
        *,
        role: WorkerRole,
        connectors: LocalConnectors,
        tasks: LocalTasks,
        warnings: ConnectorWarnings,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._role = role
        self._connectors = connectors
        self._tasks = tasks
        self._warnings = warnings

    def connector_status(self, name: str) -> dict[str, Any] | None:
        """Return the status of a connector and its tasks, or None if nothing is known.

        ``warnings`` is a field that Connect does not have.
        """
        view = self._configs.view(name)
        connector = self._statuses.connector(name)
        tasks = {number: self._as_it_is(TaskId(name, number), status) for number, status in self._statuses.tasks(name).items()}
        if view is None and connector is None:
            return None
        if connector is not None:
            connector = self._without_lead(connector)
        if connector is None:
            # The moment between the configuration and the first status.
            connector = unassigned(self._role.worker_id, self._role.generation)
        found = {number: self._tasks.get(TaskId(name, number)) for number in tasks}
        metrics = {number: task.metrics for number, task in found.items() if task is not None}
        answer = status_answer(name, connector, tasks, connector_type(view.config if view is not None else None), metrics)
        return {**answer, "warnings": list(self._warnings.of(name))}

    def task_status(self, task: TaskId) -> Status | None:
        """Return the newest status of a task, or None if nothing is known."""
        status = self._statuses.task(task)
        return None if status is None else self._as_it_is(task, status)

    def _as_it_is(self, task: TaskId, status: Status) -> Status:
        """Return the status with what this worker knows itself.

        The status topic misses it while Kafka is away.
        """
        status = self._without_lead(status)
        unit = self._tasks.get(task)
        if unit is not None and unit.phase is Phase.FAILED and status.state is not State.FAILED:
            return replace(status, state=State.FAILED, trace=unit.failure)
        if self._role.leads and status.state in (State.RUNNING, State.PAUSED) and (unit is None or not unit.has_process):
            return replace(status, state=State.UNASSIGNED, trace=_NO_PROCESS)
        if unit is None or not unit.waits or unit.state is not status.state:
            return status
        return replace(status, trace=unit.waits)

    def _without_lead(self, status: Status) -> Status:
        """Return this worker's statuses as UNASSIGNED without the lead: nothing runs here then."""
        if self._role.leads or status.run != self._role.run_id or status.state not in _RUNS:
            return status
        return replace(status, state=State.UNASSIGNED, trace=self._role.waits_because() or REJOINS)

    def snapshot(self) -> Snapshot:
        """Return a copy of what runs here."""
        tasks = self._tasks.all()
        views = self._configs.views()
        restarts: dict[TaskId, dict[str, int]] = {task.id: {} for task in tasks}
        for (task_id, reason), count in list(self._tasks.restarts.items()):
            if task_id in restarts:
                restarts[task_id][reason] = count
        connectors = self._connectors.states()
        lost = self._lost(views)
        connectors |= {task.connector: State.UNASSIGNED for task in lost if task.connector not in connectors}
        return Snapshot(
            connectors=connectors,
            tasks=dict.fromkeys(lost, State.UNASSIGNED) | {task.id: task.state for task in tasks},
            metrics={task: {} for task in lost} | {task.id: task.metrics for task in tasks},
            task_classes=lost | {task.id: task.config for task in tasks},
            kills=dict.fromkeys(lost, 0) | {task.id: task.kills for task in tasks},
            reported_s=dict.fromkeys(lost) | {task.id: task.reported_s for task in tasks},
            restarts={task: {} for task in lost} | restarts,
            failures={task: self._tasks.failures[task] for task in [*lost, *(task.id for task in tasks)]},
            configured={name: len(view.tasks) for name, view in views.items()},
            plugins={name: find_connector(view.config.get("connector.class")) for name, view in views.items()},
            warnings={name: self._warnings.count(name) for name in connectors},
        )

    def _lost(self, views: Mapping[str, ConnectorView]) -> dict[TaskId, Mapping[str, str]]:
        """Return the tasks that ran here until the lead was lost, with their configurations, while
        no leader is known.

        No other worker reports numbers of them, and without numbers there is no alert.
        """
        if self._role.leads or self._role.leader:
            return {}
        return {
            task: config
            for name, view in views.items()
            for number, config in enumerate(view.tasks)
            if (status := self._statuses.task(task := TaskId(name, number))) is not None
            and status.run == self._role.run_id
            and status.state in _RUNS
        }

    def reports(self) -> dict[TaskId, TaskReport]:
        """Return the newest reports of the tasks on this worker. Cheaper than ``snapshot``."""
        restarts: dict[TaskId, dict[str, int]] = {}
        for (task_id, reason), count in list(self._tasks.restarts.items()):
            restarts.setdefault(task_id, {})[reason] = count
        return {task.id: TaskReport(task.metrics, task.reported_s, task.waits, restarts.get(task.id, {})) for task in self._tasks.all()}

    def warnings_of(self, name: str) -> int:
        """Return the number of a connector's warnings that need attention."""
        return self._warnings.count(name)

    def configurations(self) -> dict[str, Mapping[str, str]]:
        """Return the configurations of connectors with tasks here."""
        return {task.id.connector: task.config for task in self._tasks.all()}

    def startup_counts(self) -> dict[str, int]:
        """Return the numbers of successful and failed starts since this worker started."""
        return {
            "connector-startup-success": self._connectors.startups,
            "connector-startup-failure": self._connectors.startup_failures,
            "task-startup-success": self._tasks.startups,
            "task-startup-failure": self._tasks.startup_failures,
        }
