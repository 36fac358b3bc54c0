"""Answers the REST interface's requests in the herder's thread.

A request writes to a topic and is answered once its records have been read back. The reconciler
acts on those records, and on records of other workers. Nothing here waits for a database or a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from dblog.cluster.answers import connector_type, info_answer, status_answer, unassigned
from dblog.cluster.dumprequesthandler import NO_DUMPS, DumpRequests
from dblog.cluster.eventloop import EventLoop
from dblog.cluster.localconnectors import make_tasks
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import State, Status, Target, TaskId, logger_record, restart_record, task_record
from dblog.cluster.requests import (
    STALE,
    AlterOffsets,
    ChangeDump,
    CheckDump,
    DeleteConnector,
    FindTable,
    Ping,
    PutConnector,
    Request,
    RequestError,
    ResetOffsets,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SendSignal,
    SetClusterLevel,
    SetDump,
    SetTarget,
    StartDump,
    bad_request,
    conflict,
    not_found,
    not_offered,
)
from dblog.cluster.restarts import Restarts
from dblog.cluster.role import REJOINS, WorkerRole
from dblog.cluster.state import ConnectorView
from dblog.cluster.stores import WRITE_LIMIT_S, ConfigStore, OffsetStore, StatusStore
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.log import TopicReplacedError

_log = structlog.get_logger("dblog.cluster.herder")

RECORD_BYTES_MAX = 1_000_000
"""Default of librdkafka's message.max.bytes."""
RECORD_OVERHEAD_BYTES = 512


class RequestHandler:
    """Handles one request at a time, in their order."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        offsets: OffsetStore,
        role: WorkerRole,
        tasks: LocalTasks,
        restarts: Restarts,
        loop: EventLoop,
        message_bytes_max: int,
        dumps: DumpRequests | None = None,
    ) -> None:
        """Create the handler.

        ``message_bytes_max`` is the limit of the worker's producers. ``dumps`` None refuses
        requests for dumps.
        """
        self._configs = configs
        self._statuses = statuses
        self._offsets = offsets
        self._role = role
        self._tasks = tasks
        self._restarts = restarts
        self._loop = loop
        self._dumps = dumps
        self._record_bytes_max = message_bytes_max - RECORD_OVERHEAD_BYTES

    def answer(self, request: Request) -> Any:
        """Return the answer's body. Raise RequestError if the request is refused or fails."""
        try:
            return self._carry_out(request)
        except TopicReplacedError as e:
            self._loop.reconcile_soon()
            raise RequestError(503, str(e)) from e
        except TransientError as e:
            _log.warning("request failed", request=type(request).__name__, reason=str(e))
            raise RequestError(500, _write_failure(request)) from e
        except DefiniteError as e:
            raise bad_request(str(e)) from e

    def _carry_out(self, request: Request) -> Any:
        if self._role.broken and not isinstance(request, Ping):
            raise RequestError(503, self._role.broken)
        if _for_leader(request) and not self._role.leads:
            raise conflict(self._role.waits_because() or REJOINS)
        match request:
            case PutConnector():
                return self._put(request)
            case DeleteConnector(name):
                self._required(name, "Connector {} not found")
                self._configs.delete(name)
                if self._dumps is not None:
                    self._dumps.connector_deleted(name)
            case SetTarget(name, target):
                self._set_target(name, target)
            case RestartConnector():
                return self._restart(request)
            case RestartTask(task):
                self._restart_task(task)
            case AlterOffsets(name, changes):
                self._require_stopped(name)
                self._offsets.write(name, changes, limit_s=WRITE_LIMIT_S)
                self._offsets_changed(name)
                _log.info("offsets altered by request", connector=name, partitions=len(changes))
            case ResetOffsets(name):
                self._require_stopped(name)
                self._offsets.refresh(limit_s=WRITE_LIMIT_S)
                former = list(self._offsets.of(name))
                self._offsets.write(name, [(partition, None) for partition, _ in former], limit_s=WRITE_LIMIT_S)
                self._offsets_changed(name)
                _log.info("offsets reset by request", connector=name, partitions=len(former))
            case ResetTopics(name):
                self._statuses.forget_topics(name, limit_s=WRITE_LIMIT_S)
            case CheckDump() | StartDump() | ChangeDump() | FindTable() | SetDump() | SendSignal():
                if self._dumps is None:
                    raise not_offered(NO_DUMPS)
                return self._dumps.answer(request)
            case SetClusterLevel(namespace, level):
                self._configs.write([logger_record(namespace, level)])
            case Ping():
                pass
        return None

    def _offsets_changed(self, name: str) -> None:
        if self._dumps is not None:
            self._dumps.offsets_changed(name)

    def _put(self, request: PutConnector) -> tuple[bool, dict[str, Any]]:
        """Store a connector's configuration. Return whether the connector is new, and its info."""
        view = self._configs.view(request.name)
        if request.only_new and view is not None:
            raise conflict(f"Connector {request.name} already exists")
        if request.expected is not None and (view is None or dict(view.config) != dict(request.expected)):
            raise conflict(STALE)
        # An unchanged configuration is not written again: Connect would restart the connector for
        # nothing.
        if view is None or dict(view.config) != dict(request.config):
            self._require_size(request.name, request.config)
            self._configs.write_connector(request.name, request.config, target=request.target if view is None else None)
        written = self._configs.view(request.name)
        if written is None:
            raise conflict(STALE)
        return view is None, info_answer(written)

    def _require_size(self, name: str, config: Mapping[str, str]) -> None:
        """Refuse a configuration that fits a connector's record but not its task's, which is
        larger. The connector would never start.
        """
        tasks = make_tasks(ConnectorView(name=name, config=config, target=Target.STARTED, tasks=(), consistent=True)) or [dict(config)]
        size = sum(len(part or b"") for part in task_record(TaskId(name, 0), tasks[0]))
        if size > self._record_bytes_max:
            raise bad_request(
                f"The configuration of connector {name} takes {size} bytes as the record of its task, and a record of the topic "
                f"{self._configs.log.topic} may have {self._record_bytes_max}; shorten it (patterns instead of long lists), or raise "
                "producer.max.request.size in the worker's configuration and max.message.bytes of the topic"
            )

    def _set_target(self, name: str, target: Target) -> None:
        view = self._required(name, "Unknown connector {}")
        if target is Target.STOPPED and (view.tasks or not view.consistent):
            self._configs.write_tasks(name, [])
        self._configs.write_target(name, target)

    def _restart(self, request: RestartConnector) -> dict[str, Any] | None:
        """Restart a connector. Return the status to come, or None if no task was included."""
        name, include_tasks, only_failed = request.name, request.include_tasks, request.only_failed
        self._required(name, "Unknown connector: {}")
        if not include_tasks and not only_failed:
            if (reason := self._restarts.restart_connector(name)) is not None:
                raise RequestError(500, f"Failed to start connector: {name}: {reason}")
            return None
        plan = self._restarts.plan(name, include_tasks=include_tasks, only_failed=only_failed)
        status = self._statuses.connector(name) or unassigned(self._role.worker_id, self._role.generation)
        tasks = self._statuses.tasks(name)
        self._configs.write([restart_record(name, include_tasks=include_tasks, only_failed=only_failed)])
        view = self._configs.view(name)
        shown = {number: _restarting(task) if number in plan.tasks else task for number, task in tasks.items()}
        return status_answer(
            name,
            _restarting(status) if plan.connector else status,
            shown,
            connector_type(view.config if view is not None else None),
        )

    def _restart_task(self, task: TaskId) -> None:
        view = self._required(task.connector, "Unknown connector: {}")
        if task.task >= len(view.tasks):
            raise not_found(f"Unknown task: {task}")
        self._restarts.restart_task(task)

    def _required(self, name: str, text: str) -> ConnectorView:
        view = self._configs.view(name)
        if view is None:
            raise not_found(text.format(name))
        return view

    def _require_stopped(self, name: str) -> None:
        view = self._required(name, "Connector {} not found")
        if view.target is not Target.STOPPED or view.tasks or self._tasks.numbers(name):
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
                f"connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )


def _for_leader(request: Request) -> bool:
    """Return True if only the leading worker may carry out the request.

    The others are records that any worker may write, as in Connect.
    """
    match request:
        case SetTarget(_, target):
            return target is Target.STOPPED
        case ResetTopics() | SetClusterLevel() | Ping():
            return False
        case _:
            return True


def _restarting(status: Status) -> Status:
    return Status(state=State.RESTARTING, worker_id=status.worker_id, generation=status.generation, version=status.version)


def _write_failure(request: Request) -> str:
    if isinstance(request, DeleteConnector):
        return "Error removing connector configuration from Kafka"
    if isinstance(request, CheckDump | StartDump | ChangeDump | SetDump):
        return "Error writing the request of a dump to Kafka"
    if isinstance(request, AlterOffsets | ResetOffsets):
        return "Error writing connector offsets to Kafka"
    return "Error writing connector configuration to Kafka"
