"""Writes the states of connectors and tasks to the status topic and to the log."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from dblog.cluster.records import State, Status, TaskId
from dblog.cluster.role import WorkerRole
from dblog.cluster.state import may_write
from dblog.cluster.stores import ConfigStore, StatusStore
from dblog.config.plugins import find_connector

_log = structlog.get_logger("dblog.cluster.herder")

_TRACE_CHARS_MAX = 60_000


class StatusWriter:
    """Writes statuses in this worker's name. Writes none while another worker leads."""

    def __init__(self, configs: ConfigStore, statuses: StatusStore, role: WorkerRole) -> None:
        self._configs = configs
        self._statuses = statuses
        self._role = role

    def write_connector(self, name: str, state: State, trace: str | None = None) -> None:
        """Write a connector's new state."""
        view = self._configs.view(name)
        status = self.status(state, trace, config=None if view is None else view.config)
        if self._role.leads and may_write(status, self._statuses.connector(name)):
            self._statuses.write_connector(name, status)
        _log.info("connector state", connector=name, state=state.value, **({"trace": trace} if trace else {}))

    def write_task(self, task: TaskId, state: State, trace: str | None = None, *, config: Mapping[str, str] | None) -> None:
        """Write a task's new state. ``config`` is None if the task does not run here."""
        status = self.status(state, trace, config=config)
        if self._role.leads and may_write(status, self._statuses.task(task)):
            self._statuses.write_task(task, status)
        # The code that found a FAILED has already logged its trace.
        reason = {"reason": trace} if trace and state is not State.FAILED else {}
        _log.info("task state", **task.fields, state=state.value, **reason)

    def status(self, state: State, trace: str | None = None, *, config: Mapping[str, str] | None = None) -> Status:
        """Return this worker's status. Its trace is cut to what fits a record."""
        if trace is not None:
            # A name in it may come from a database whose bytes are not valid UTF-8.
            trace = trace.encode(errors="backslashreplace").decode()
        if trace is not None and len(trace) > _TRACE_CHARS_MAX:
            trace = f"{trace[:_TRACE_CHARS_MAX]}... ({len(trace) - _TRACE_CHARS_MAX} characters more)"
        plugin = find_connector(config.get("connector.class")) if config is not None else None
        return Status(
            state=state,
            worker_id=self._role.worker_id,
            generation=self._role.generation,
            trace=trace,
            version=plugin.version if plugin is not None else None,
            run=self._role.run_id,
        )
