"""Restarts of connectors and tasks, as Connect does them (KIP-745)."""

from __future__ import annotations

from dblog.cluster.decisions import RestartPlan, plan_restart
from dblog.cluster.eventloop import EventLoop
from dblog.cluster.localconnectors import LocalConnectors
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import TaskId
from dblog.cluster.stores import StatusStore


class Restarts:
    """Carries out restarts, for requests and for the restart records of any worker."""

    def __init__(self, statuses: StatusStore, *, connectors: LocalConnectors, tasks: LocalTasks, loop: EventLoop) -> None:
        self._statuses = statuses
        self._connectors = connectors
        self._tasks = tasks
        self._loop = loop

    def plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan:
        """Return what a restart would include now."""
        return plan_restart(
            name,
            connector=self._statuses.connector(name),
            tasks=self._statuses.tasks(name),
            include_tasks=include_tasks,
            only_failed=only_failed,
        )

    def carry_out(self, plan: RestartPlan) -> None:
        """Restart what is planned."""
        if plan.connector:
            self._connectors.restart_with_status(plan.name)
        for number in plan.tasks:
            self._tasks.restart_with_status(TaskId(plan.name, number))
        self._loop.reconcile_soon()

    def restart_connector(self, name: str) -> str | None:
        """Restart the connector alone, at once. Return the reason if it failed, else None."""
        self._connectors.forget(name)
        trace = self._connectors.start(name)
        if trace is None:
            self._loop.reconcile_soon()
        return trace

    def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        self._tasks.restart(task)
