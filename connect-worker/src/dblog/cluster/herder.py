"""The herder: carries out users' requests and keeps what runs equal to what is wanted.

One thread owns all of it. The worker's knowledge is in the stores of the topics (``stores``), in
its role in the group (``role``), and in what runs here (``localconnectors``, ``localtasks``).
``decisions`` decides what to do; the ``reconciler`` and the ``handler`` of requests do it. Nothing
in this thread waits for a database or a task: processes answer by events, and slow checks run
elsewhere. GETs never come here; they read the stores.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.cluster.connectorwarnings import ConnectorWarnings
from dblog.cluster.decisions import is_stray
from dblog.cluster.dumprecords import DumpKey
from dblog.cluster.dumprequesthandler import DumpRequests
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.dumpview import DumpView
from dblog.cluster.eventloop import EventLoop
from dblog.cluster.handler import RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, RequestHandler
from dblog.cluster.journal import Journal
from dblog.cluster.localconnectors import LocalConnectors
from dblog.cluster.localdumps import LocalDumps
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.processes import ProcessEvent, ProcessTable, TaskMessage
from dblog.cluster.program import TaskProgram
from dblog.cluster.reconciler import Reconciler
from dblog.cluster.records import (
    ConfigRecord,
    ConnectorRecord,
    ConnectorStatusRecord,
    LoggerRecord,
    RestartRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TaskStatusRecord,
    TopicUse,
    TopicUseRecord,
)
from dblog.cluster.requests import Request
from dblog.cluster.restarts import Restarts
from dblog.cluster.role import WorkerRole
from dblog.cluster.stage import Stage, describe
from dblog.cluster.startorder import StartOrders
from dblog.cluster.statusview import StatusView
from dblog.cluster.statuswriter import StatusWriter
from dblog.cluster.stores import ConfigStore, MakeLog, OffsetStore, StatusStore, start_logs, stop_logs
from dblog.config.providers import Provider
from dblog.config.worker import WorkerConfig, dumps_topic
from dblog.core.backoff import Backoff
from dblog.errors import TransientError
from dblog.kafka.group import Membership
from dblog.kafka.log import CompactedLog, TopicReplacedError
from dblog.observe.logs import LevelTable

_log = structlog.get_logger("dblog.cluster.herder")

_OPEN_LIMIT_S = 30.0
_REVOKED_LIMIT_S = 30.0
_ROLE_ASKED_S = 0.02
_START_BACKOFF = Backoff(first_s=0.5, max_s=15.0)


class Herder:
    """The worker's part in the cluster.

    ``start`` returns at once; ``ready`` is set when requests are accepted.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        *,
        make_log: MakeLog,
        membership: Membership,
        prepare: Callable[[threading.Event], str],
        task_program: TaskProgram,
        providers: Mapping[str, Provider],
        hidden: Mapping[str, str] | None = None,
        clock: Clock,
        levels: LevelTable,
        on_fatal: Callable[[BaseException], None],
        properties: Mapping[str, str] | None = None,
        further_logs: Sequence[CompactedLog] = (),
    ) -> None:
        """Create the herder.

        ``hidden`` maps secrets of the worker's own file to what is shown instead. ``further_logs``
        are topics that others open and close, and without which this worker is of no use.
        """
        settings = worker.settings
        self.worker = worker
        self.loop = EventLoop(clock)
        self.configs = ConfigStore(settings.text("config.storage.topic"), make_log, on_change=self._on_config_record)
        self.statuses = StatusStore(settings.text("status.storage.topic"), make_log, on_change=self._on_status_record)
        self.offsets = OffsetStore(settings.text("offset.storage.topic"), make_log)
        message_bytes_max = int(worker.client_settings("producer").get("message.max.bytes", RECORD_BYTES_MAX))
        self.dumps: DumpStore | None = None
        if topic := dumps_topic(settings):
            self.dumps = DumpStore(
                topic, make_log, on_change=self._on_dump_record, record_bytes_max=message_bytes_max - RECORD_OVERHEAD_BYTES
            )
        self.journal = Journal(exists=self.configs.has)
        self.ready = threading.Event()
        self.cluster_id = ""
        self.stage = Stage("starting up", clock.now_us())
        self._own_logs = (self.configs.log, self.statuses.log, self.offsets.log, *(() if self.dumps is None else (self.dumps.log,)))
        self._followed = (*self._own_logs, *further_logs)
        self._membership = membership
        self._prepare = prepare
        self._clock = clock
        self._levels = levels
        self._on_fatal = on_fatal
        self._stop_limit_s = settings.integer("task.shutdown.graceful.timeout.ms") / 1000
        self.role = WorkerRole(
            membership,
            worker_id=worker.worker_id,
            advertised_url=worker.advertised_url,
            configs=self.configs,
            statuses=self.statuses,
            offsets=self.offsets,
            loop=self.loop,
            clock=clock,
            dumps=self.dumps,
        )
        self.processes = ProcessTable(program=task_program, on_event=self._on_process_event, leased=True)
        self.status_writer = StatusWriter(self.configs, self.statuses, self.role)
        self.connectors = LocalConnectors(self.configs, self.status_writer, providers=providers, hidden=hidden or {})
        self.local_dumps: LocalDumps | None = None
        if self.dumps is not None:
            self.local_dumps = LocalDumps(self.dumps, self.processes, self.role, clock)
        self.warnings = ConnectorWarnings(self.configs, providers=providers, statuses=self.statuses)
        self.tasks = LocalTasks(
            processes=self.processes,
            start_orders=StartOrders(
                self.offsets,
                providers=providers,
                hidden=hidden or {},
                properties=dict(properties if properties is not None else settings.originals),
                advertised_url=worker.advertised_url,
                levels=levels,
                dumps=self.dumps,
            ),
            offsets=self.offsets,
            statuses=self.statuses,
            status_writer=self.status_writer,
            role=self.role,
            loop=self.loop,
            clock=clock,
            stop_limit_s=self._stop_limit_s,
            restart_max=settings.integer("dblog.task.restart.max"),
            tracks_topics=settings.boolean("topic.tracking.enable"),
            dumps=self.local_dumps,
            warnings=self.warnings,
            journal=self.journal,
        )
        self.status_view = StatusView(
            self.configs, self.statuses, role=self.role, connectors=self.connectors, tasks=self.tasks, warnings=self.warnings
        )
        self.dump_view: DumpView | None = None
        if self.dumps is not None and self.local_dumps is not None:
            self.dump_view = DumpView(self.dumps, self.local_dumps, configs=self.configs, tasks=self.tasks)
        self._restarts = Restarts(self.statuses, connectors=self.connectors, tasks=self.tasks, loop=self.loop)
        self._reconciler = Reconciler(
            self.configs,
            self.statuses,
            status_writer=self.status_writer,
            connectors=self.connectors,
            tasks=self.tasks,
            loop=self.loop,
            dumps=self.dumps,
        )
        self._handler = RequestHandler(
            configs=self.configs,
            statuses=self.statuses,
            offsets=self.offsets,
            role=self.role,
            tasks=self.tasks,
            restarts=self._restarts,
            loop=self.loop,
            message_bytes_max=message_bytes_max,
            dumps=None
            if self.dumps is None or self.local_dumps is None
            else DumpRequests(self.dumps, self.local_dumps, configs=self.configs, tasks=self.tasks),
        )
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)

    # Methods for other threads.

    def start(self) -> None:
        """Start the herder's thread, which waits for the brokers."""
        self._thread.start()

    def submit(self, request: Request) -> Future[Any]:
        """Submit a request. The returned future gives the answer, or raises RequestError."""
        future: Future[Any] = Future()

        def carry_out() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._answer(request))
            except Exception as e:  # noqa: BLE001  the caller gets any error
                future.set_exception(e)

        self.loop.post(carry_out)
        return future

    def stop(self) -> None:
        """Stop all tasks within their limit, write their states to the status topic, and end."""
        self.loop.stop()
        if self._thread.is_alive():
            self._thread.join(self._stop_limit_s + 20.0)
        self.processes.close()
        # Last, because leaving the group tells the next leader that nothing runs here any more.
        self._membership.close()

    def set_level(self, name: str, level: str) -> list[str]:
        """Set a logger's level here and in all tasks of this worker.

        Return the changed names, or an empty list for a logger that does not exist.
        """
        changed = self._levels.set(name, level)
        if changed:
            self.tasks.set_level(name, level)
        return changed

    def records_skipped(self) -> dict[str, int]:
        """Return the number of unreadable records of each topic since this worker started."""
        return {log.topic: log.skipped for log in self._own_logs}

    def _on_config_record(self, record: ConfigRecord) -> None:
        self.warnings.config_changed()
        if isinstance(record, ConnectorRecord) and record.properties is None:
            self.warnings.forget(record.name)
            self.journal.forget(record.name)
        self.loop.post(lambda: self._take_config_record(record))

    def _on_status_record(self, record: StatusRecord) -> None:
        # A status is read back after it was written. Without this check, the status of something
        # deleted meanwhile would stay until another change.
        match record:
            case ConnectorStatusRecord(name, Status()):
                stray = is_stray(self.configs.view(name), None)
            case TaskStatusRecord(task, Status() as status):
                stray = is_stray(self.configs.view(task.connector), task.task)
                if self.role.is_rivals(status):
                    self.loop.post(lambda: self.role.note_rival(task, status))
            case TopicUseRecord(_, name, TopicUse()):
                stray = is_stray(self.configs.view(name), None)
            case _:
                stray = False
        if stray:
            self.loop.post(self.loop.reconcile_soon)

    def _on_dump_record(self, key: DumpKey) -> None:
        self.loop.post(lambda: self._take_dump_record(key))

    def _on_process_event(self, event: ProcessEvent) -> None:
        self.loop.post(lambda: self.take_process_event(event))

    # Methods of the herder's thread.

    def _run(self) -> None:
        try:
            self._open()
            self._find_role()
            while not self.loop.stopping.is_set():
                self.turn()
            self._shut_down()
        except BaseException as e:  # noqa: BLE001  any error ends the worker, with its reason
            if not self.loop.stopping.is_set():
                self._on_fatal(e)
        finally:
            stop_logs(self._own_logs)

    def _open(self) -> None:
        failures = 0
        joined = False
        while not self.loop.stopping.is_set():
            try:
                self.cluster_id = self._prepare(self.loop.stopping)
                if self.loop.stopping.is_set():
                    return
                if not joined:
                    joined = True
                    # The group's topic exists now. Joining and reading take their time in parallel.
                    self._membership.start(
                        on_change=lambda: self.loop.post(self._follow_membership),
                        on_lease=self.processes.lease,
                        on_revoked=self._on_revoked,
                    )
                start_logs(self._own_logs, limit_s=_OPEN_LIMIT_S)
            except TransientError as e:
                if self.loop.stopping.is_set():
                    return
                failures += 1
                wait_s = _START_BACKOFF.delay_s(failures, chance=random.random())  # noqa: S311  jitter
                _log.warning("the worker cannot start yet; trying again", reason=str(e), next_try_s=round(wait_s, 1))
                self.loop.stopping.wait(wait_s)
            else:
                break

    def _on_revoked(self) -> None:
        if not self.processes.end_all(limit_s=_REVOKED_LIMIT_S):
            _log.error("tasks were killed and still have not ended", limit_s=_REVOKED_LIMIT_S)

    def _find_role(self) -> None:
        """Wait until it is decided who leads. Requests wait as well."""
        self.stage = Stage(f"joining the group {self.role.group}", self._clock.now_us())
        while not self.loop.stopping.is_set() and not self.role.known:
            self.loop.stopping.wait(_ROLE_ASKED_S)
        self._follow_membership()
        if self.loop.stopping.is_set():
            return
        self.ready.set()
        _log.info(
            "worker ready",
            worker_id=self.worker.worker_id,
            connectors=len(self.configs.names()),
            generation=self.role.generation,
            leads=self.role.leads,
            **({} if self.role.leads else {"reason": self.role.waits_because()}),
        )

    def turn(self) -> None:
        """Process everything that has arrived, then reconcile once for all of it."""
        self.loop.run_due()
        self._follow_membership()
        self._check_topics()
        self.loop.run_posted()
        if not self.loop.stopping.is_set() and self.loop.take_reconcile() and self.role.leads:
            self._reconciler.reconcile()

    def _answer(self, request: Request) -> Any:
        began_us = self._clock.now_us()
        self.stage = Stage(describe(request), began_us)
        try:
            return self._handler.answer(request)
        finally:
            self.stage = Stage(describe(request), began_us, self._clock.now_us())

    def _take_config_record(self, record: ConfigRecord) -> None:
        match record:
            case RestartRecord(name, include_tasks, only_failed):
                if self.configs.view(name) is not None and self.role.leads:
                    self._restarts.carry_out(self._restarts.plan(name, include_tasks=include_tasks, only_failed=only_failed))
            case LoggerRecord(namespace, level):
                if not self.set_level(namespace, level):
                    _log.info(
                        "logger record skipped: this worker has no such logger or level", namespace=namespace[:200], wanted=level[:200]
                    )
            case _:
                self.loop.reconcile_soon()

    def _take_dump_record(self, key: DumpKey) -> None:
        if self.dumps is None or self.local_dumps is None:
            return
        self.local_dumps.changed(key)
        if self.role.leads and self.dumps.is_untidy(exists=lambda name: self.configs.view(name) is not None):
            self.loop.reconcile_soon()

    def take_process_event(self, event: ProcessEvent) -> None:
        """Process a message of a task's process, or its end."""
        if isinstance(event, TaskMessage):
            self.tasks.take_message(event)
        else:
            # The deaths may arrive here before the news that the lease has ended.
            self._follow_membership()
            self.tasks.take_death(event)

    # The lead.

    def _follow_membership(self) -> None:
        """Take over or step down as the membership demands."""
        if self.role.must_step_down():
            self._step_down()
        if not self.loop.stopping.is_set() and self.role.may_take_over():
            self.role.take_over()

    def _check_topics(self) -> None:
        """Stop working if a topic was replaced.

        Raise TransientError if one is no longer followed.
        """
        for log in self._followed:
            if isinstance(log.ended, TopicReplacedError):
                self._stop_working(str(log.ended))
            elif log.ended is not None:
                raise TransientError(f"the topic {log.topic} is no longer followed: {log.ended}")

    def _stop_working(self, reason: str) -> None:
        """Stop all work and write nothing more: the topics no longer hold what was requested."""
        if self.role.broken:
            return
        self.role.abandon(reason)
        _log.error("this worker stops working", reason=reason)
        if self.role.runs_connectors:
            self._step_down()

    def _step_down(self) -> None:
        """Forget what ran here.

        The lease has ended its processes, or does so now. The next leader writes the states of the
        tasks.
        """
        self.role.step_down()
        # Unacknowledged statuses would arrive after those of the next leader.
        self.statuses.log.abandon()
        if self.dumps is not None:
            self.dumps.abandon()
        self.connectors.abandon()
        self.tasks.abandon()
        _log.warning(
            "this worker runs no connectors now", group=self.role.group, reason=self.role.waits_because() or "it joins its group again"
        )

    # The end.

    def _shut_down(self) -> None:
        """Stop every task in order. The process table kills tasks that exceed their limit."""
        self.stage = Stage("shutting down", self._clock.now_us())
        stopped = self.tasks.stop_all()
        deadline_s = time.monotonic() + self._stop_limit_s + 5.0
        while self.tasks.have_processes() and time.monotonic() < deadline_s:
            self.loop.run_next(timeout_s=0.1)
        if not self.ready.is_set() or not self.role.leads:
            return
        for task in stopped:
            if self.configs.view(task.connector) is None:
                # Deleted a moment ago, so there is nothing left to be unassigned.
                self.statuses.write_task(task, None)
                self.statuses.write_connector(task.connector, None)
            else:
                self.tasks.write_status(task, State.UNASSIGNED)
        for name, actual in self.connectors.actual().items():
            if not actual.failed and actual.target is not Target.STOPPED:
                self.status_writer.write_connector(name, State.UNASSIGNED)
        self.statuses.log.flush(limit_s=5.0)
        if self.dumps is not None:
            self.dumps.log.flush(limit_s=5.0)
        _log.info("worker stopped")
