"""The herder: carries out what users ask and keeps what runs equal to what is wanted.

One thread owns all of it. A request writes to the config topic and is answered once its records have been read back; what follows from
those records, also from records of other workers, happens in ``_reconcile``, which compares views with what runs here (``decisions``).
Nothing in this thread waits for a database or a task: processes answer by events, slow checks run elsewhere. GETs never come here; they
read the stores.

Only the worker that leads its group (``kafka/group.py``) runs connectors and writes what became of them; the others follow the topics, answer GETs, and
wait. What a worker believed while it led is dropped when it leads no longer, and read anew when it does again. # I7
"""

from __future__ import annotations

import heapq
import queue
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.cluster.answers import connector_type, info_answer, status_answer, unassigned
from dblog.cluster.decisions import (
    Command,
    ConnectorActual,
    Fail,
    Phase,
    RestartPlan,
    RetargetConnector,
    RetargetTask,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    TaskActual,
    WriteTasks,
    after_death,
    decide,
    is_stray,
    plan_restart,
)
from dblog.cluster.processes import Died, ProcessEvent, ProcessTable, Said
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import (
    NUMBER_MAX,
    ConfigRecord,
    ConnectorStatusRecord,
    LoggerRecord,
    RestartRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TaskId,
    TaskStatusRecord,
    TopicUse,
    TopicUseRecord,
    logger_record,
    restart_record,
    task_record,
)
from dblog.cluster.requests import (
    STALE,
    AlterOffsets,
    DeleteConnector,
    Ping,
    PutConnector,
    Request,
    RequestError,
    ResetOffsets,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetClusterLevel,
    SetTarget,
    bad_request,
    conflict,
    not_found,
)
from dblog.cluster.state import ConnectorView, may_write
from dblog.cluster.stores import WRITE_LIMIT_S, ConfigStore, MakeLog, OffsetStore, StatusStore
from dblog.cluster.validation import connector_of, hider
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.config.providers import Provider, resolve
from dblog.config.secrets import secrets_of
from dblog.config.worker import WorkerConfig
from dblog.core.backoff import Backoff
from dblog.errors import ConfigError, DblogError, DefiniteError, TransientError
from dblog.kafka.group import Membership
from dblog.kafka.log import CompactedLog, TopicReplacedError
from dblog.observe.hidden import Hidden

_log = structlog.get_logger("dblog.cluster.herder")

_OFFSETS_READ_LIMIT_S = 10.0
_OPEN_LIMIT_S = 30.0
_TAKE_OVER_LIMIT_S = 10.0
_REVOKED_LIMIT_S = 30.0
_ROLE_ASKED_S = 0.02
_RECONCILE_ROUNDS_MAX = 20
_RETRY_S = 1.0
_RECORD_BYTES_MAX = 1_000_000
"""librdkafka's message.max.bytes, when the worker's producers are not given another."""
_RECORD_OVERHEAD_BYTES = 512
_TRACE_CHARS_MAX = 60_000
_STABLE_S = 60.0
"""A task that ran this long before it was killed counts as sound: its restarts are counted anew."""
_START_BACKOFF = Backoff(first_s=0.5, max_s=15.0)


@dataclass(frozen=True, slots=True)
class Stage:
    """What the herder does, or last did, for the text of a request that timed out."""

    what: str
    began_us: int
    ended_us: int | None = None

    def __str__(self) -> str:
        if self.ended_us is None:
            return f"The worker is currently {self.what}, which began at {_iso(self.began_us)}"
        times = f"which began at {_iso(self.began_us)} and completed at {_iso(self.ended_us)}"
        return f"The last operation the worker completed was {self.what}, {times}"


@dataclass(slots=True, eq=False)
class _Task:
    """A task on this worker."""

    id: TaskId
    config: Mapping[str, str]
    target: Target
    phase: Phase
    run: int | None = None
    kills: int = 0
    started_s: float = 0.0
    hide: Callable[[str], str] = str
    state: State = State.UNASSIGNED
    metrics: dict[str, float] = field(default_factory=dict)
    waits: str | None = None
    """What it waits for while it is not FAILED, as it reported last."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What runs on this worker, for metrics and the health of it: a copy."""

    connectors: dict[str, State]
    tasks: dict[TaskId, State]
    metrics: dict[TaskId, dict[str, float]]
    task_classes: dict[TaskId, Mapping[str, str]]
    kills: dict[TaskId, int]


class Herder:
    """The worker's part in the cluster; ``start`` returns at once, ``ready`` is set when requests are taken."""

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
        set_level: Callable[[str, str], list[str]],
        levels: Callable[[], Mapping[str, str]],
        on_fatal: Callable[[BaseException], None],
        properties: Mapping[str, str] | None = None,
        further_logs: Sequence[CompactedLog] = (),
    ) -> None:
        """``hidden``: secrets of the worker's own file, and what is shown instead. ``further_logs``: topics that others open and close, and without which
        this worker is of no use either.
        """
        settings = worker.settings
        self.worker = worker
        self.configs = ConfigStore(settings.text("config.storage.topic"), make_log, on_change=self._on_config_record)
        self.statuses = StatusStore(settings.text("status.storage.topic"), make_log, on_change=self._on_status_record)
        self.offsets = OffsetStore(settings.text("offset.storage.topic"), make_log)
        self.ready = threading.Event()
        self.cluster_id = ""
        self.generation = 1
        self.stage = Stage("starting up", clock.now_us())
        self._followed = (self.configs.log, self.statuses.log, self.offsets.log, *further_logs)
        self._membership = membership
        self._term: int | None = None
        """The membership's term in which this worker runs connectors; None while it does not."""
        self._take_over_at_s = 0.0
        self.broken = ""
        """Why this worker does nothing any more: one of its topics is another one. It stays, so that its health can say so."""
        self._run_id = uuid.uuid4().hex
        self._led_term = self._led_generation = 0
        """The last ones in which this worker ran connectors; 0 before the first."""
        self.rival = ""
        """That another worker, of no group of ours, runs the same connectors at the same time; empty while none is seen."""
        self._properties = dict(properties if properties is not None else settings.originals)
        self._prepare = prepare
        self._providers = providers
        self._hidden = dict(hidden or {})
        self._clock = clock
        self._set_level = set_level
        self._levels = levels
        self._on_fatal = on_fatal
        self._stop_limit_s = settings.integer("task.shutdown.graceful.timeout.ms") / 1000
        self._restart_max = settings.integer("dblog.task.restart.max")
        self._record_bytes_max = (
            int(worker.client_settings("producer").get("message.max.bytes", _RECORD_BYTES_MAX)) - _RECORD_OVERHEAD_BYTES
        )
        self._tracks_topics = settings.boolean("topic.tracking.enable")
        self._connectors: dict[str, ConnectorActual] = {}
        self._tasks: dict[TaskId, _Task] = {}
        self._by_run: dict[int, _Task] = {}
        self._waiting_for_offsets: list[_Task] = []
        self._reading_offsets = False
        self._troubled: set[str] = set()
        """Connectors whose last write failed; theirs come last."""
        self._restarting: set[TaskId] = set()
        """Tasks whose status says RESTARTING until they run."""
        self._mailbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_numbers = count()
        self._dirty = False
        self._stopping = threading.Event()
        self._counts = {
            "connector-startup-success": 0,
            "connector-startup-failure": 0,
            "task-startup-success": 0,
            "task-startup-failure": 0,
        }
        self._processes = ProcessTable(program=task_program, on_event=self._on_process_event, leased=True)
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)

    # Called from other threads.

    def start(self) -> None:
        """Begin; brokers are waited for in the herder's thread."""
        self._thread.start()

    def submit(self, request: Request) -> Future[Any]:
        """Hand a request over; the future gives the answer, or a ``RequestError``."""
        future: Future[Any] = Future()

        def carry_out() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._handle(request))
            except TopicReplacedError as e:
                self._touch()
                future.set_exception(RequestError(503, str(e)))
            except TransientError as e:
                _log.warning("request failed", request=type(request).__name__, reason=str(e))
                future.set_exception(RequestError(500, _write_failure(request)))
            except DefiniteError as e:
                future.set_exception(bad_request(str(e)))
            except Exception as e:  # noqa: BLE001  the caller gets it, whatever it is
                future.set_exception(e)

        self._mailbox.put(carry_out)
        return future

    def stop(self) -> None:
        """Stop all tasks within their limit, say so in the status topic, and end."""
        self._stopping.set()
        self._mailbox.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join(self._stop_limit_s + 20.0)
        self._processes.close()
        # Last: whoever leads next is told that nothing runs here any more.
        self._membership.close()

    @property
    def leads(self) -> bool:
        """Whether this worker runs the group's connectors."""
        return self._term is not None and self._leads_in(self._term)

    @property
    def stands_by(self) -> bool:
        """Whether another worker of the group runs the connectors, and this one waits in order."""
        standing = self._membership.standing
        return not standing.leads and not standing.problem and bool(standing.leader)

    def waits_because(self) -> str:
        """Why this worker runs no connectors, in a sentence for users; empty when it does, or will in a moment."""
        if self.broken:
            return self.broken
        standing = self._membership.standing
        group = self._membership.group
        if standing.leads:
            return ""
        if standing.problem:
            return f"This worker cannot join the group {group} (group.id): {standing.problem}. {standing.remedy or _remedy_of(standing.problem)}"
        if standing.leader:
            same = standing.leader == self.worker.advertised_url
            return (
                f"This worker is a standby: {standing.leader} runs the connectors of the group {group} (group.id). It takes over when that "
                f"worker has stopped, or has been silent for {standing.silence_s:g} s (session.timeout.ms)."
            ) + (" Both workers advertise the same address: give each its own rest.advertised.host.name." if same else "")
        if standing.term:
            return (
                f"This worker has lost the lead of the group {group} (group.id) and has stopped its tasks, for no broker has heard of it in "
                f"time. They go on from their offsets when the brokers answer."
            )
        return ""

    def status_of(self, name: str) -> dict[str, Any] | None:
        """STATUS from the views, None when nothing is known."""
        view = self.configs.view(name)
        connector = self.statuses.connector(name)
        tasks = {number: self._with_reason(TaskId(name, number), status) for number, status in self.statuses.tasks(name).items()}
        if view is None and connector is None:
            return None
        if connector is None:
            # The moment between the configuration and the first status.
            connector = unassigned(self.worker.worker_id, self.generation)
        found = {number: self._tasks.get(TaskId(name, number)) for number in tasks}
        metrics = {number: task.metrics for number, task in found.items() if task is not None}
        return status_answer(name, connector, tasks, connector_type(view.config if view is not None else None), metrics)

    def task_status(self, task: TaskId) -> Status | None:
        """The newest status of a task, None when nothing is known."""
        status = self.statuses.task(task)
        return None if status is None else self._with_reason(task, status)

    def _with_reason(self, task: TaskId, status: Status) -> Status:
        """With what a task of this worker waits for: when that is Kafka, the status topic does not get it."""
        unit = self._tasks.get(task)
        if unit is None or not unit.waits or unit.state is not status.state:
            return status
        return replace(status, trace=unit.waits)

    def set_level(self, name: str, level: str) -> list[str]:
        """Set a logger's level here and in all tasks of this worker; the names changed, none for a logger that does not exist."""
        changed = self._set_level(name, level)
        if changed:
            for unit in list(self._tasks.values()):
                if (run := unit.run) is not None:
                    self._processes.send(run, {"type": "level", "logger": name, "level": level})
        return changed

    def snapshot(self) -> Snapshot:
        """What runs here, copied without waiting for the herder's thread."""
        tasks = list(self._tasks.values())
        connectors = {name: State.FAILED if actual.failed else _state_of(actual.target) for name, actual in list(self._connectors.items())}
        return Snapshot(
            connectors=connectors,
            tasks={task.id: task.state for task in tasks},
            metrics={task.id: task.metrics for task in tasks},
            task_classes={task.id: task.config for task in tasks},
            kills={task.id: task.kills for task in tasks},
        )

    def startup_counts(self) -> dict[str, int]:
        """How many starts went well or badly since this worker began."""
        return dict(self._counts)

    def records_skipped(self) -> dict[str, int]:
        """How many records of each topic could not be read since this worker began."""
        return {log.topic: log.skipped for log in (self.configs.log, self.statuses.log, self.offsets.log)}

    def process_ids(self) -> dict[TaskId, int]:
        """The tasks' processes."""
        return self._processes.pids()

    def _on_config_record(self, record: ConfigRecord) -> None:
        self._mailbox.put(lambda: self._heed(record))

    def _on_status_record(self, record: StatusRecord) -> None:
        # A status is read back after it was put: one of what was deleted meanwhile would otherwise stay when nothing else happens.
        match record:
            case ConnectorStatusRecord(name, Status()):
                stray = is_stray(self.configs.view(name), None)
            case TaskStatusRecord(task, Status() as status):
                stray = is_stray(self.configs.view(task.connector), task.task)
                if self._is_rivals(status):
                    self._mailbox.put(lambda: self._note_rival(task, status))
            case TopicUseRecord(_, name, TopicUse()):
                stray = is_stray(self.configs.view(name), None)
            case _:
                stray = False
        if stray:
            self._mailbox.put(self._touch)

    def _is_rivals(self, status: Status) -> bool:
        """Whether a worker outside of our group wrote it: in the group nobody else leads, and whoever led before wrote an older generation. RUNNING alone
        counts, for what a leader was writing when it was killed may arrive late.
        """
        return self._is_others(status) and status.state is State.RUNNING and status.generation >= self.generation and self.leads

    def _is_others(self, status: Status) -> bool:
        """Whether another worker wrote it, or another run of this one. The address alone does not tell: without ``listeners`` it is the same on every
        machine.
        """
        return status.run != self._run_id if status.run else status.worker_id != self.worker.worker_id

    def _on_process_event(self, event: ProcessEvent) -> None:
        self._mailbox.put(lambda: self._on_said(event) if isinstance(event, Said) else self._on_died(event))

    # The herder's thread.

    def _run(self) -> None:
        try:
            self._open()
            self._find_role()
            while not self._stopping.is_set():
                self._turn()
            self._shut_down()
        except BaseException as e:  # noqa: BLE001  whatever it is ends the worker, with its reason
            if not self._stopping.is_set():
                self._on_fatal(e)
        finally:
            # Side by side: each waits for its own last poll.
            ends = [threading.Thread(target=store.log.stop) for store in (self.configs, self.statuses, self.offsets)]
            for end in ends:
                end.start()
            for end in ends:
                end.join()

    def _open(self) -> None:
        failures = 0
        joined = False
        while not self._stopping.is_set():
            try:
                self.cluster_id = self._prepare(self._stopping)
                if self._stopping.is_set():
                    return
                if not joined:
                    joined = True
                    # Its topic exists now; joining and reading take their time side by side.
                    self._membership.start(
                        on_change=self._on_membership,
                        on_lease=self._processes.lease,
                        on_revoked=self._on_revoked,
                    )
                self._read_backlogs()
            except TransientError as e:
                if self._stopping.is_set():
                    return
                failures += 1
                wait_s = _START_BACKOFF.delay_s(failures, chance=random.random())  # noqa: S311  jitter
                _log.warning("the worker cannot start yet; trying again", reason=str(e), next_try_s=round(wait_s, 1))
                self._stopping.wait(wait_s)
            else:
                break

    def _find_role(self) -> None:
        """Wait until it is decided who leads; whoever asks anything waits with us."""
        self.stage = Stage(f"joining the group {self._membership.group}", self._clock.now_us())
        while not self._stopping.is_set() and not self._membership.standing.known:
            self._stopping.wait(_ROLE_ASKED_S)
        self._check_lead()
        if self._stopping.is_set():
            return
        self.ready.set()
        _log.info(
            "worker ready",
            worker_id=self.worker.worker_id,
            connectors=len(self.configs.names()),
            generation=self.generation,
            leads=self.leads,
            **({} if self.leads else {"reason": self.waits_because()}),
        )

    # Leading.

    def _on_revoked(self) -> None:
        if not self._processes.end_all(limit_s=_REVOKED_LIMIT_S):
            _log.error("tasks were killed and still have not ended", limit_s=_REVOKED_LIMIT_S)

    def _on_membership(self) -> None:
        self._mailbox.put(self._check_lead)

    def _leads_in(self, term: int) -> bool:
        standing = self._membership.standing
        return standing.leads and standing.term == term

    def _check_lead(self) -> None:
        """Make what runs here follow the membership."""
        if self._term is not None and not self._leads_in(self._term):
            self._step_down()
        may_try = not self._stopping.is_set() and not self.broken and self._clock.monotonic_s() >= self._take_over_at_s
        if self._term is None and may_try and self._membership.standing.leads:
            self._take_over()

    def _give_up(self, reason: str) -> None:
        """Stop what runs here and write nothing more: what the topics say now is not what was asked for."""
        if self.broken:
            return
        self.broken = reason
        _log.error("this worker stops working", reason=reason)
        if self._term is not None:
            self._step_down()

    def _note_rival(self, task: TaskId, status: Status) -> None:
        """Say it once; what runs goes on, for who of the two is meant cannot be known here."""
        if not self.leads or self.rival:
            return
        group = self._membership.group
        same = status.worker_id == self.worker.worker_id
        also = " (this worker's own address: give each its own rest.advertised.host.name)" if same else ""
        self.rival = (
            f"The worker {status.worker_id}{also} runs task {task} too, and does not belong to the group {group} (group.id) of this worker: two groups use the "
            f"topics {self.configs.log.topic}, {self.offsets.log.topic} and {self.statuses.log.topic}, so every connector runs twice. Stop the workers of "
            f"one group, give them the same group.id or storage topics of their own, then restart those that stay."
        )
        _log.error("another group of workers uses this worker's topics", reason=self.rival)

    def _take_over(self) -> None:
        """Run the connectors, from what the topics say now: another worker may have written to them a moment ago."""
        term = self._membership.standing.term
        try:
            for store in (self.configs, self.statuses):
                store.log.read_to_end(limit_s=_TAKE_OVER_LIMIT_S)
        except TransientError as e:
            _log.warning("the topics cannot be read to their ends; trying again", reason=str(e), next_try_s=_RETRY_S)
            # Every turn asks whether to lead: what failed a moment ago is not tried in each of them.
            self._take_over_at_s = self._clock.monotonic_s() + _RETRY_S
            self._later(_RETRY_S, lambda: None)
            return
        if not self._leads_in(term):
            return
        unseen = self._ran_meanwhile() if self._led_term == term - 1 and self._membership.standing.again else None
        self.generation = self._led_generation = min(self.statuses.generation_max() + 1, NUMBER_MAX)
        self._term = self._led_term = term
        self.rival = ""
        if unseen is not None:
            self._note_rival(*unseen)
        self._touch()
        _log.info("this worker runs the connectors", group=self._membership.group, generation=self.generation)

    def _ran_meanwhile(self) -> tuple[TaskId, Status] | None:
        """A task that somebody has begun to run since this worker led, when nobody of its group could: what runs on writes no more statuses."""
        for name, numbers in self.statuses.known().items():
            for number in numbers:
                status = self.statuses.task(TaskId(name, number))
                if status is not None and status.state is State.RUNNING and status.generation > self._led_generation:
                    return TaskId(name, number), status
        return None

    def _step_down(self) -> None:
        """Forget what ran here. The lease has ended its processes, or does so now; what became of the tasks is said by the next leader."""
        self._term = None
        # What the brokers have not taken yet would arrive behind the words of the next leader.
        self.statuses.log.abandon()
        self._connectors.clear()
        self._restarting.clear()
        self._waiting_for_offsets.clear()
        for unit in list(self._tasks.values()):
            if unit.run is None:
                del self._tasks[unit.id]
            else:
                unit.phase = Phase.STOPPING
                self._processes.stop(unit.run, limit_s=0.0)
        _log.warning(
            "this worker runs no connectors now", group=self._membership.group, reason=self.waits_because() or "it joins its group again"
        )

    def _read_backlogs(self) -> None:
        failures: list[BaseException] = []

        def read(log_start: Callable[[], None]) -> None:
            try:
                log_start()
            except BaseException as e:  # noqa: BLE001  handed to the herder's thread
                failures.append(e)

        logs = [store.log for store in (self.configs, self.statuses, self.offsets) if not store.log.is_open]
        threads = [threading.Thread(target=read, args=(lambda log=log: log.start(limit_s=_OPEN_LIMIT_S),)) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def _turn(self) -> None:
        """Take what has come, then reconcile once for all of it."""
        self._take_due()
        self._check_lead()
        for log in self._followed:
            if isinstance(log.ended, TopicReplacedError):
                self._give_up(str(log.ended))
            elif log.ended is not None:
                raise TransientError(f"the topic {log.topic} is no longer followed: {log.ended}")
        timeout_s = 5.0
        if self._dirty:
            timeout_s = 0.0
        elif self._timers:
            timeout_s = max(0.0, self._timers[0][0] - self._clock.monotonic_s())
        try:
            self._mailbox.get(timeout=timeout_s)() if timeout_s else self._mailbox.get_nowait()()
            while True:
                self._mailbox.get_nowait()()
        except queue.Empty:
            pass
        if self._dirty and not self._stopping.is_set():
            self._dirty = False
            if self.leads:
                self._reconcile()

    def _take_due(self) -> None:
        now_s = self._clock.monotonic_s()  # what falls due meanwhile has its turn after the requests that wait
        while self._timers and self._timers[0][0] <= now_s:
            heapq.heappop(self._timers)[2]()

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self._clock.monotonic_s() + delay_s, next(self._timer_numbers), action))

    def _touch(self) -> None:
        self._dirty = True

    # Requests.

    def _handle(self, request: Request) -> Any:
        began_us = self._clock.now_us()
        self.stage = Stage(_described(request), began_us)
        try:
            if self.broken and not isinstance(request, Ping):
                raise RequestError(503, self.broken)
            if _for_leader(request) and not self.leads:
                raise conflict(self.waits_because() or _REJOINS)
            match request:
                case PutConnector():
                    return self._put(request)
                case DeleteConnector(name):
                    self._required(name, "Connector {} not found")
                    self.configs.delete(name)
                case SetTarget(name, target):
                    return self._set_target(name, target)
                case RestartConnector():
                    return self._restart(request)
                case RestartTask(task):
                    return self._restart_task(task)
                case AlterOffsets(name, changes):
                    self._require_stopped(name)
                    self.offsets.write(name, changes, limit_s=WRITE_LIMIT_S)
                case ResetOffsets(name):
                    self._require_stopped(name)
                    self.offsets.refresh(limit_s=WRITE_LIMIT_S)
                    self.offsets.write(name, [(partition, None) for partition, _ in self.offsets.of(name)], limit_s=WRITE_LIMIT_S)
                case ResetTopics(name):
                    self.statuses.forget_topics(name, limit_s=WRITE_LIMIT_S)
                case SetClusterLevel(namespace, level):
                    self.configs.write([logger_record(namespace, level)])
                case Ping():
                    pass
            return None
        finally:
            self.stage = Stage(_described(request), began_us, self._clock.now_us())

    def _put(self, request: PutConnector) -> tuple[bool, dict[str, Any]]:
        """Whether the connector is new, and its INFO."""
        view = self.configs.view(request.name)
        if request.only_new and view is not None:
            raise conflict(f"Connector {request.name} already exists")
        if request.expected is not None and (view is None or dict(view.config) != dict(request.expected)):
            raise conflict(STALE)
        # An unchanged configuration is not written again: Connect would restart the connector for nothing.
        if view is None or dict(view.config) != dict(request.config):
            self._require_size(request.name, request.config)
            self.configs.write_connector(request.name, request.config, target=request.target if view is None else None)
        written = self.configs.view(request.name)
        if written is None:
            raise conflict(STALE)
        return view is None, info_answer(written)

    def _require_size(self, name: str, config: Mapping[str, str]) -> None:
        """Refuse what can be stored as a connector's record and not as its task's, which is larger: it would never start."""
        tasks = _make_tasks(ConnectorView(name=name, config=config, target=Target.STARTED, tasks=(), consistent=True)) or [dict(config)]
        size = sum(len(part or b"") for part in task_record(TaskId(name, 0), tasks[0]))
        if size > self._record_bytes_max:
            raise bad_request(
                f"The configuration of connector {name} takes {size} bytes as the record of its task, and a record of the topic "
                f"{self.configs.log.topic} may have {self._record_bytes_max}; shorten it (patterns instead of long lists), or raise "
                "producer.max.request.size in the worker's configuration and max.message.bytes of the topic"
            )

    def _set_target(self, name: str, target: Target) -> None:
        view = self._required(name, "Unknown connector {}")
        if target is Target.STOPPED and (view.tasks or not view.consistent):
            self.configs.write_tasks(name, [])
        self.configs.write_target(name, target)

    def _restart(self, request: RestartConnector) -> dict[str, Any] | None:
        """None: the connector has been restarted; else STATUS with what will be."""
        self._required(request.name, "Unknown connector: {}")
        if not request.include_tasks and not request.only_failed:
            self._forget_connector(request.name)
            if (reason := self._start_connector(request.name)) is not None:
                raise RequestError(500, f"Failed to start connector: {request.name}: {reason}")
            self._touch()
            return None
        plan = self._plan(request.name, include_tasks=request.include_tasks, only_failed=request.only_failed)
        status = self.statuses.connector(request.name) or unassigned(self.worker.worker_id, self.generation)
        tasks = self.statuses.tasks(request.name)
        self.configs.write([restart_record(request.name, include_tasks=request.include_tasks, only_failed=request.only_failed)])
        view = self.configs.view(request.name)
        shown = {number: _restarting(task) if number in plan.tasks else task for number, task in tasks.items()}
        return status_answer(
            request.name,
            _restarting(status) if plan.connector else status,
            shown,
            connector_type(view.config if view is not None else None),
        )

    def _restart_task(self, task: TaskId) -> None:
        view = self._required(task.connector, "Unknown connector: {}")
        if task.task >= len(view.tasks):
            raise not_found(f"Unknown task: {task}")
        self._begin_again(task)

    def _required(self, name: str, text: str) -> ConnectorView:
        view = self.configs.view(name)
        if view is None:
            raise not_found(text.format(name))
        return view

    def _require_stopped(self, name: str) -> None:
        view = self._required(name, "Connector {} not found")
        running = any(task.connector == name for task in self._tasks)
        if view.target is not Target.STOPPED or view.tasks or running:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
                f"connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )

    # Records of the config topic.

    def _heed(self, record: ConfigRecord) -> None:
        match record:
            case RestartRecord(name, include_tasks, only_failed):
                if self.configs.view(name) is not None and self.leads:
                    self._carry_out_restart(self._plan(name, include_tasks=include_tasks, only_failed=only_failed))
            case LoggerRecord(namespace, level):
                if not self.set_level(namespace, level):
                    _log.info(
                        "logger record skipped: this worker has no such logger or level", namespace=namespace[:200], wanted=level[:200]
                    )
            case _:
                self._touch()

    def _plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan:
        return plan_restart(
            name,
            connector=self.statuses.connector(name),
            tasks=self.statuses.tasks(name),
            include_tasks=include_tasks,
            only_failed=only_failed,
        )

    def _carry_out_restart(self, plan: RestartPlan) -> None:
        if plan.connector:
            self._say_connector(plan.name, State.RESTARTING)
            self._forget_connector(plan.name)
        for number in plan.tasks:
            task = TaskId(plan.name, number)
            self._restarting.add(task)
            self._say_task(task, State.RESTARTING)
            self._begin_again(task)
        self._touch()

    # Wanted against actual.

    def _reconcile(self) -> None:
        for _ in range(_RECONCILE_ROUNDS_MAX):
            wanted = self.configs.views()
            self._troubled &= set(wanted)
            commands = decide(wanted, self._connectors, self._actual_tasks(), _make_tasks)
            if not commands:
                break
            # A write that is refused for its size is refused for ever; one that takes too long comes last the next time. Neither keeps the others waiting.
            for command in sorted(commands, key=lambda command: _connector_of(command) in self._troubled):
                name = _connector_of(command)
                try:
                    self._carry_out(command, wanted)
                except DefiniteError as e:
                    self._refuse_connector(name, f"The connector {name} cannot be run: {e}")
                except TransientError as e:
                    self._troubled.add(name)
                    _log.warning("the brokers do not answer; trying again", connector=name, reason=str(e), next_try_s=_RETRY_S)
                    self._later(_RETRY_S, self._touch)
                    return
                else:
                    self._troubled.discard(name)
        else:
            raise AssertionError("wanted and actual do not come together")
        self._sweep_statuses()

    def _refuse_connector(self, name: str, trace: str) -> None:
        actual = self._connectors[name]
        self._connectors[name] = ConnectorActual(config=actual.config, target=actual.target, failed=True)
        self._say_connector(name, State.FAILED, trace)

    def _actual_tasks(self) -> dict[TaskId, TaskActual]:
        return {task.id: TaskActual(config=task.config, target=task.target, phase=task.phase) for task in self._tasks.values()}

    def _carry_out(self, command: Command, wanted: Mapping[str, ConnectorView]) -> None:
        match command:
            case StartConnector(name):
                self._start_connector(name)
            case RetargetConnector(name, target):
                self._retarget_connector(name, target)
            case StopConnector(name):
                self._forget_connector(name)
                if any(task.connector == name for task in self._tasks):
                    self._say_connector(name, State.UNASSIGNED)
            case WriteTasks(name, configs):
                self.configs.write_tasks(name, configs)
            case StartTask(task):
                view = wanted[task.connector]
                unit = _Task(task, view.tasks[task.task], view.target, Phase.WAITING)
                self._tasks[task] = unit
                self._launch_with_offsets(unit)
            case StopTask(task):
                self._stop_task(self._tasks[task])
            case RetargetTask(task, target):
                unit = self._tasks[task]
                unit.target = target
                if unit.run is not None:
                    self._processes.send(unit.run, {"type": "pause" if target is Target.PAUSED else "resume"})

    def _start_connector(self, name: str) -> str | None:
        """Why it has failed; None where it has not."""
        view = self.configs.view(name)
        if view is None:
            return None
        trace = None
        if view.target is Target.STOPPED:
            self._say_connector(name, State.STOPPED)
        else:
            trace = self._why_not(view)
            failed = trace is not None
            self._counts["connector-startup-failure" if failed else "connector-startup-success"] += 1
            self._say_connector(name, State.FAILED if failed else _state_of(view.target), trace)
        self._connectors[name] = ConnectorActual(config=view.config, target=view.target, failed=trace is not None)
        return trace

    def _why_not(self, view: ConnectorView) -> str | None:
        """Why the connector cannot run, in words for its status; None if it can."""
        try:
            plugin = connector_of(view.config)
            resolution = resolve(view.config, self._providers)
            if resolution.errors:
                raise ConfigError(resolution.errors)
            hide = hider(resolution, view.config, plugin, of_worker=self._hidden)
            try:
                parse_connector(plugin.options, resolution.values)
            except DblogError as e:
                return hide(f"The configuration of connector {view.name} cannot be used: {e}")
        except DblogError as e:
            return f"The configuration of connector {view.name} cannot be used: {e}"
        return None

    def _retarget_connector(self, name: str, target: Target) -> None:
        actual = self._connectors[name]
        if actual.failed and target is not Target.STOPPED:
            # FAILED stays FAILED; the target is remembered for the restart.
            self._connectors[name] = ConnectorActual(config=actual.config, target=target, failed=True)
            return
        self._start_connector(name)

    def _forget_connector(self, name: str) -> None:
        self._connectors.pop(name, None)

    def _sweep_statuses(self) -> None:
        """Remove the status, and the topics in use, of what no longer exists, once it no longer runs here."""
        views = self.configs.views()
        for name, numbers in self.statuses.known().items():
            view = views.get(name)
            running = {task.task for task in self._tasks if task.connector == name}
            for number in numbers - running:
                if is_stray(view, number):
                    self.statuses.write_task(TaskId(name, number), None)
            if is_stray(view, None) and not running:
                self.statuses.write_connector(name, None)
        for name in self.statuses.topic_users():
            if is_stray(views.get(name), None) and not any(task.connector == name for task in self._tasks):
                self.statuses.drop_topics(name)

    # Tasks.

    def _launch_with_offsets(self, unit: _Task) -> None:
        """Start a task once its offsets have been read to the end: it must see what the last one stored.

        The reading waits for brokers, so it happens in a thread of its own; tasks that come meanwhile share the next one.
        """
        self._waiting_for_offsets.append(unit)
        if not self._reading_offsets:
            self._read_offsets()

    def _read_offsets(self) -> None:
        self._reading_offsets = True
        units, self._waiting_for_offsets = self._waiting_for_offsets, []

        def read() -> None:
            problem: TransientError | None = None
            try:
                self.offsets.refresh(limit_s=_OFFSETS_READ_LIMIT_S)
            except TransientError as e:
                problem = e
            self._mailbox.put(lambda: self._offsets_read(units, problem))

        threading.Thread(target=read, name="offsets", daemon=True).start()

    def _offsets_read(self, units: list[_Task], problem: TransientError | None) -> None:
        self._reading_offsets = False
        wanted = [unit for unit in units if self._tasks.get(unit.id) is unit and unit.phase is Phase.WAITING]
        if problem is None:
            for unit in wanted:
                self._launch(unit)
        else:
            _log.warning(
                "the brokers do not answer; tasks wait", tasks=[str(u.id) for u in wanted], reason=str(problem), next_try_s=_RETRY_S
            )
            self._waiting_for_offsets += wanted
        if self._waiting_for_offsets and not self._stopping.is_set():
            self._reading_offsets = True
            self._later(0.0 if problem is None else _RETRY_S, self._read_offsets)

    def _launch(self, unit: _Task) -> None:
        """Start the process of a task; its offsets have just been read."""
        if unit.id in self._restarting:
            self._restarting.discard(unit.id)
        else:
            self._say_task(unit.id, State.UNASSIGNED)
        unit.state = State.UNASSIGNED
        unit.phase = Phase.ALIVE
        plugin = find_connector(unit.config.get("connector.class"))
        resolution = resolve(unit.config, self._providers)
        if plugin is None or resolution.errors:
            reason = str(ConfigError(resolution.errors)) if resolution.errors else f"unknown class {unit.config.get('connector.class')}"
            self._fail(unit, f"The configuration of task {unit.id} cannot be used: {reason}")
            return
        hidden = self._hidden | secrets_of(resolution, unit.config, plugin.options)
        unit.hide = Hidden(hidden).out_of
        unit.started_s = self._clock.monotonic_s()
        unit.run = self._processes.start(
            unit.id,
            {
                "type": "start",
                "connector": unit.id.connector,
                "task": unit.id.task,
                "config": resolution.values,
                "hidden": hidden,
                "worker": self._properties,
                "worker_url": self.worker.advertised_url,
                "offsets": [{"partition": partition, "offset": offset} for partition, offset in self.offsets.of(unit.id.connector)],
                "target": unit.target.value,
                "generation": self.generation,
                "levels": self._levels(),
            },
            hide=unit.hide,
        )
        self._by_run[unit.run] = unit

    def _stop_task(self, unit: _Task) -> None:
        if unit.run is None:
            del self._tasks[unit.id]
            self._touch()
            return
        unit.phase = Phase.STOPPING
        self._processes.stop(unit.run, limit_s=self._stop_limit_s)

    def _begin_again(self, task: TaskId) -> None:
        """Stop the task if it runs; the next reconcile starts it."""
        unit = self._tasks.get(task)
        if unit is not None and unit.phase is not Phase.STOPPING:
            self._stop_task(unit)
        self._touch()

    def _fail(self, unit: _Task, trace: str) -> None:
        unit.phase = Phase.FAILED
        unit.state = State.FAILED
        self._counts["task-startup-failure"] += 1
        self._say_task(unit.id, State.FAILED, unit.hide(trace))

    def _on_said(self, said: Said) -> None:
        unit = self._by_run.get(said.run)
        if unit is None:
            return
        try:
            self._take_message(unit, said.message)
        except Exception as e:  # noqa: BLE001  whatever it is, it is one task's
            # One child must not end the worker, and all the others with it.
            _log.error("a task's message cannot be handled; the task fails", task=str(unit.id), exc_info=e)
            if unit.phase is Phase.ALIVE:
                self._fail(
                    unit,
                    f"A message of the task could not be handled ({type(e).__name__}): a bug in dblog; the worker's log has its trace.",
                )
                if unit.run is not None:
                    self._processes.stop(unit.run, limit_s=self._stop_limit_s)

    def _take_message(self, unit: _Task, message: Mapping[str, Any]) -> None:
        match message:
            case {"type": "state", "state": str(state)} if unit.phase is Phase.ALIVE:
                self._on_state(unit, state, message.get("trace"))
            case {"type": "topic", "topic": str(topic)}:
                if self._tracks_topics:
                    use = TopicUse(topic=topic, connector=unit.id.connector, task=unit.id.task, discovered_ms=self._clock.now_us() // 1000)
                    self.statuses.note_topic(use)
            case {"type": "metrics", "values": dict(values)}:
                unit.metrics = {str(name): float(value) for name, value in values.items() if isinstance(value, int | float)}

    def _on_state(self, unit: _Task, state: str, trace: object) -> None:
        match state:
            case "RUNNING" | "PAUSED" | "UNASSIGNED":
                waits = unit.hide(trace) if isinstance(trace, str) and trace else None
                if (State(state), waits) == (unit.state, unit.waits):
                    return
                if unit.state is State.UNASSIGNED and state != "UNASSIGNED":
                    self._counts["task-startup-success"] += 1
                unit.state, unit.waits = State(state), waits
                self._say_task(unit.id, unit.state, waits)
            case "FAILED":
                self._fail(
                    unit, trace if isinstance(trace, str) and trace else "The task failed without giving a reason; see the worker's log."
                )
                if unit.run is not None:
                    self._processes.stop(unit.run, limit_s=self._stop_limit_s)

    def _on_died(self, died: Died) -> None:
        unit = self._by_run.pop(died.run, None)
        if unit is None:
            return
        # The end of the lease may be known here by its deaths first.
        self._check_lead()
        unit.run = None
        unit.metrics = {}
        unit.waits = None
        match unit.phase:
            case Phase.STOPPING:
                self._tasks.pop(unit.id, None)
                self._touch()
            case Phase.ALIVE:
                self._after_death(unit, died)
            case Phase.WAITING | Phase.FAILED:
                pass

    def _after_death(self, unit: _Task, died: Died) -> None:
        sound = self._clock.monotonic_s() - unit.started_s >= _STABLE_S
        unit.kills = 1 if sound else unit.kills + 1
        outcome = after_death(
            unit.id,
            exit_code=died.exit_code,
            signal_number=died.signal_number,
            kills=unit.kills,
            restart_max=self._restart_max,
            chance=random.random(),  # noqa: S311  jitter
            last_words=died.last_words,
        )
        if isinstance(outcome, Fail):
            # What a task reports it has logged itself; this end it could not.
            _log.error("task failed", task=str(unit.id), trace=unit.hide(outcome.trace))
            self._fail(unit, outcome.trace)
            return
        _log.warning("task killed", task=str(unit.id), reason=unit.hide(outcome.reason))
        unit.phase = Phase.WAITING
        unit.state = State.RESTARTING
        self._restarting.add(unit.id)
        self._say_task(unit.id, State.RESTARTING, unit.hide(outcome.reason))
        self._later(outcome.delay_s, lambda: self._relaunch(unit))

    def _relaunch(self, unit: _Task) -> None:
        if self._tasks.get(unit.id) is not unit or unit.phase is not Phase.WAITING or self._stopping.is_set():
            return
        self._launch_with_offsets(unit)

    # Status topic.

    def _say_connector(self, name: str, state: State, trace: str | None = None) -> None:
        view = self.configs.view(name)
        plugin = find_connector(view.config.get("connector.class")) if view is not None else None
        status = self._status(state, trace, plugin.version if plugin is not None else None)
        if self.leads and may_write(status, self.statuses.connector(name)):
            self.statuses.write_connector(name, status)
        _log.info("connector state", connector=name, state=state.value, **({"trace": trace} if trace else {}))

    def _say_task(self, task: TaskId, state: State, trace: str | None = None) -> None:
        unit = self._tasks.get(task)
        plugin = find_connector(unit.config.get("connector.class")) if unit is not None else None
        status = self._status(state, trace, plugin.version if plugin is not None else None)
        if self.leads and may_write(status, self.statuses.task(task)):
            self.statuses.write_task(task, status)
        # A trace of FAILED has been logged by whoever found it.
        reason = {"reason": trace} if trace and state is not State.FAILED else {}
        _log.info("task state", task=str(task), state=state.value, **reason)

    def _status(self, state: State, trace: str | None, version: str | None) -> Status:
        if trace is not None:
            # A name in it may be a database's bytes that are no UTF-8.
            trace = trace.encode(errors="backslashreplace").decode()
        if trace is not None and len(trace) > _TRACE_CHARS_MAX:
            trace = f"{trace[:_TRACE_CHARS_MAX]}... ({len(trace) - _TRACE_CHARS_MAX} characters more)"
        worker_id, generation = self.worker.worker_id, self.generation
        return Status(state=state, worker_id=worker_id, generation=generation, trace=trace, version=version, run=self._run_id)

    # End.

    def _shut_down(self) -> None:
        """Stop every task in order; whatever outlives its limit is killed by the process table."""
        self.stage = Stage("shutting down", self._clock.now_us())
        for unit in list(self._tasks.values()):
            if unit.run is not None and unit.phase is not Phase.FAILED:
                unit.phase = Phase.STOPPING
                self._processes.stop(unit.run, limit_s=self._stop_limit_s)
        stopped = [unit.id for unit in self._tasks.values() if unit.phase in (Phase.STOPPING, Phase.WAITING)]
        deadline_s = time.monotonic() + self._stop_limit_s + 5.0
        while any(unit.run is not None for unit in self._tasks.values()) and time.monotonic() < deadline_s:
            try:
                self._mailbox.get(timeout=0.1)()
            except queue.Empty:
                continue
        if not self.ready.is_set() or not self.leads:
            return
        for task in stopped:
            if self.configs.view(task.connector) is None:
                # Deleted a moment ago: there is nothing left to be unassigned.
                self.statuses.write_task(task, None)
                self.statuses.write_connector(task.connector, None)
            else:
                self._say_task(task, State.UNASSIGNED)
        for name, actual in self._connectors.items():
            if not actual.failed and actual.target is not Target.STOPPED:
                self._say_connector(name, State.UNASSIGNED)
        self.statuses.log.flush(limit_s=5.0)
        _log.info("worker stopped")


_REJOINS = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway. The workers of this group are "
    "finding out which of them runs its connectors; try again"
)


def _for_leader(request: Request) -> bool:
    """Whether only the worker that runs the connectors may carry it out; the rest is a record that any worker may write, as in Connect."""
    match request:
        case SetTarget(_, target):
            return target is Target.STOPPED
        case ResetTopics() | SetClusterLevel() | Ping():
            return False
        case _:
            return True


def _connector_of(command: Command) -> str:
    match command:
        case StartTask(task) | StopTask(task) | RetargetTask(task):
            return task.connector
        case _:
            return command.name


def _remedy_of(problem: str) -> str:
    known = {
        "authorization": "Grant the worker's principal READ on the group.",
        "inconsistent group protocol": "Another program is in this group (a cluster of JVM workers?): stop it, or give this worker a group.id of its own.",
        "session timeout": "Choose a session.timeout.ms within the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms.",
    }
    return next((remedy for part, remedy in known.items() if part in problem.lower()), "It tries again until it can.")


def _make_tasks(view: ConnectorView) -> list[dict[str, str]] | None:
    """One task for a log, with the connector's configuration and Connect's ``task.class``; None for a class this worker lacks."""
    plugin = find_connector(view.config.get("connector.class"))
    return None if plugin is None else [{**view.config, "task.class": plugin.task_class}]


def _state_of(target: Target) -> State:
    return {Target.STARTED: State.RUNNING, Target.PAUSED: State.PAUSED, Target.STOPPED: State.STOPPED}[target]


def _restarting(status: Status) -> Status:
    return Status(state=State.RESTARTING, worker_id=status.worker_id, generation=status.generation, version=status.version)


def _described(request: Request) -> str:
    match request:
        case PutConnector(name=name):
            return f"writing the configuration of connector {name}"
        case DeleteConnector(name):
            return f"removing connector {name}"
        case SetTarget(name, target):
            return f"setting the target state of connector {name} to {target.value}"
        case RestartConnector(name=name):
            return f"restarting connector {name}"
        case RestartTask(task):
            return f"restarting task {task}"
        case AlterOffsets(name) | ResetOffsets(name):
            return f"changing the offsets of connector {name}"
        case ResetTopics(name):
            return f"resetting the topics of connector {name}"
        case SetClusterLevel(namespace):
            return f"setting the level of logger {namespace}"
        case Ping():
            return "performing a health check"


def _write_failure(request: Request) -> str:
    if isinstance(request, DeleteConnector):
        return "Error removing connector configuration from Kafka"
    if isinstance(request, AlterOffsets | ResetOffsets):
        return "Error writing connector offsets to Kafka"
    return "Error writing connector configuration to Kafka"


def _iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat().replace("+00:00", "Z")
