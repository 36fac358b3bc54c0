"""Carries out the commands of ``decisions.py`` that turn what runs into what is wanted."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from dblog.cluster.decisions import (
    Command,
    RetargetConnector,
    RetargetTask,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    WriteTasks,
    decide,
    is_stray,
)
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.eventloop import RETRY_S, EventLoop
from dblog.cluster.localconnectors import LocalConnectors, make_tasks
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import State, TaskId
from dblog.cluster.state import ConnectorView
from dblog.cluster.statuswriter import StatusWriter
from dblog.cluster.stores import ConfigStore, StatusStore
from dblog.errors import DefiniteError, TransientError

_log = structlog.get_logger("dblog.cluster.herder")

_ROUNDS_MAX = 20


class Reconciler:
    """Runs in the herder's thread. Waits there only for the read-back of task configurations."""

    def __init__(
        self,
        configs: ConfigStore,
        statuses: StatusStore,
        *,
        status_writer: StatusWriter,
        connectors: LocalConnectors,
        tasks: LocalTasks,
        loop: EventLoop,
        dumps: DumpStore | None = None,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._status_writer = status_writer
        self._connectors = connectors
        self._tasks = tasks
        self._loop = loop
        self._dumps = dumps
        self._troubled: set[str] = set()
        """Connectors whose last write failed. Their commands come last."""

    def reconcile(self) -> None:
        """Carry out commands until none is left, then remove statuses of what no longer exists."""
        for _ in range(_ROUNDS_MAX):
            wanted = self._configs.views()
            self._troubled &= set(wanted)
            commands = decide(wanted, self._connectors.actual(), self._tasks.actual(), make_tasks)
            if not commands:
                break
            # A write that is refused for its size fails the connector for good. One that takes too
            # long comes last the next time. So neither blocks the others.
            for command in sorted(commands, key=lambda command: _connector_of(command) in self._troubled):
                name = _connector_of(command)
                try:
                    self._carry_out(command, wanted)
                except DefiniteError as e:
                    self._connectors.fail(name, f"The connector {name} cannot be run: {e}")
                except TransientError as e:
                    self._troubled.add(name)
                    _log.warning("the brokers do not answer; trying again", connector=name, reason=str(e), next_try_s=RETRY_S)
                    self._loop.call_later(RETRY_S, self._loop.reconcile_soon)
                    return
                else:
                    self._troubled.discard(name)
        else:
            raise AssertionError("the wanted and the running state stay different")
        self._remove_stray_statuses()

    def _carry_out(self, command: Command, wanted: Mapping[str, ConnectorView]) -> None:
        match command:
            case StartConnector(name):
                self._connectors.start(name)
            case RetargetConnector(name, target):
                self._connectors.retarget(name, target)
            case StopConnector(name):
                self._connectors.forget(name)
                if self._tasks.numbers(name):
                    self._status_writer.write_connector(name, State.UNASSIGNED)
            case WriteTasks(name, configs):
                self._configs.write_tasks(name, configs)
            case StartTask(task):
                view = wanted[task.connector]
                self._tasks.start(task, view.tasks[task.task], view.target)
            case StopTask(task):
                self._tasks.stop(task)
            case RetargetTask(task, target):
                self._tasks.retarget(task, target)

    def _remove_stray_statuses(self) -> None:
        """Remove statuses, used topics and dumps of what neither exists nor runs here any more."""
        views = self._configs.views()
        for name, numbers in self._statuses.known().items():
            view = views.get(name)
            running = self._tasks.numbers(name)
            for number in numbers - running:
                if is_stray(view, number):
                    self._statuses.write_task(TaskId(name, number), None)
            if is_stray(view, None) and not running:
                self._statuses.write_connector(name, None)
        for name in self._statuses.topic_users():
            if is_stray(views.get(name), None) and not self._tasks.numbers(name):
                self._statuses.drop_topics(name)
        if self._dumps is not None:
            self._dumps.tidy_later(exists=views.__contains__)


def _connector_of(command: Command) -> str:
    match command:
        case StartTask(task) | StopTask(task) | RetargetTask(task):
            return task.connector
        case _:
            return command.name
