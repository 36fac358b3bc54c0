"""The tasks of this worker: starts, stops and restarts their processes, and writes what they report
to the status topic.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.cluster.connectorwarnings import ConnectorWarnings
from dblog.cluster.decisions import Fail, Phase, TaskActual, after_death
from dblog.cluster.eventloop import RETRY_S, EventLoop
from dblog.cluster.journal import Journal
from dblog.cluster.localdumps import LocalDumps
from dblog.cluster.processes import Died, ProcessTable, TaskMessage
from dblog.cluster.records import State, Target, TaskId, TopicUse
from dblog.cluster.role import WorkerRole
from dblog.cluster.startorder import StartOrders
from dblog.cluster.statuswriter import StatusWriter
from dblog.cluster.stores import OffsetStore, StatusStore
from dblog.errors import DefiniteError, TransientError
from dblog.readers.standing_warnings import COUNT_MAX

_log = structlog.get_logger("dblog.cluster.herder")

_OFFSETS_READ_LIMIT_S = 10.0
_STABLE_S = 60.0
"""Run time after which a killed task counts as sound; its restarts count from one again."""


@dataclass(slots=True, eq=False)
class LocalTask:
    """A task on this worker."""

    id: TaskId
    config: Mapping[str, str]
    target: Target
    phase: Phase
    run: int | None = None
    """Number of its process in the process table. None without a process."""
    kills: int = 0
    started_s: float = 0.0
    hide: Callable[[str], str] = str
    state: State = State.UNASSIGNED
    metrics: dict[str, float] = field(default_factory=dict)
    reported_s: float | None = None
    """Wall-clock time in seconds when the metrics arrived."""
    waits: str | None = None
    """The reason why the task waits, as it last reported. None if it does not wait."""
    failure: str | None = None
    """The reason for the phase FAILED, with secrets hidden."""

    @property
    def has_process(self) -> bool:
        """True if a process has been started and has not ended."""
        return self.run is not None


class LocalTasks:
    """Tasks of this worker. Changed only in the herder's thread; any thread may read copies."""

    def __init__(
        self,
        *,
        processes: ProcessTable,
        start_orders: StartOrders,
        offsets: OffsetStore,
        statuses: StatusStore,
        status_writer: StatusWriter,
        role: WorkerRole,
        loop: EventLoop,
        clock: Clock,
        stop_limit_s: float,
        restart_max: int,
        tracks_topics: bool,
        dumps: LocalDumps | None = None,
        warnings: ConnectorWarnings,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal or Journal()
        self.startups = self.startup_failures = 0
        """Counts since this worker started."""
        self._processes = processes
        self._start_orders = start_orders
        self._offsets = offsets
        self._statuses = statuses
        self._status_writer = status_writer
        self._role = role
        self._loop = loop
        self._clock = clock
        self._stop_limit_s = stop_limit_s
        self._restart_max = restart_max
        self._tracks_topics = tracks_topics
        self._dumps = dumps
        self._warnings = warnings
        self.restarts: Counter[tuple[TaskId, str]] = Counter()
        """Restarts by task and reason, since this worker started."""
        self.failures: Counter[TaskId] = Counter()
        self._replaced: set[TaskId] = set()
        """Tasks that were stopped for another configuration."""
        self._tasks: dict[TaskId, LocalTask] = {}
        self._by_run: dict[int, LocalTask] = {}
        self._waiting_for_offsets: list[LocalTask] = []
        self._reading_offsets = False
        self._restarting: set[TaskId] = set()
        """Tasks whose status is RESTARTING until they run."""

    # What runs here.

    def get(self, task: TaskId) -> LocalTask | None:
        """Return a task that runs here, or None."""
        return self._tasks.get(task)

    def all(self) -> list[LocalTask]:
        """Return all tasks that run here, as a copy."""
        return list(self._tasks.values())

    def numbers(self, connector: str) -> set[int]:
        """Return the numbers of a connector's tasks that run here."""
        return {task.task for task in self._tasks if task.connector == connector}

    def actual(self) -> dict[TaskId, TaskActual]:
        """Return the tasks for the comparison with what is wanted."""
        return {task.id: TaskActual(config=task.config, target=task.target, phase=task.phase) for task in self._tasks.values()}

    def have_processes(self) -> bool:
        """Return True if any task has a process."""
        return any(task.run is not None for task in self._tasks.values())

    # Commands.

    def start(self, task: TaskId, config: Mapping[str, str], target: Target) -> None:
        """Start a task that does not run here, once its offsets have been read."""
        unit = LocalTask(task, config, target, Phase.WAITING)
        self._tasks[task] = unit
        if task in self._replaced:
            self._replaced.discard(task)
            self.restarts[task, "config"] += 1
        self._launch_with_offsets(unit)

    def stop(self, task: TaskId) -> None:
        """Stop a task that runs here, and forget it when its process has ended.

        If it is started again, it has another configuration.
        """
        self._replaced.add(task)
        self._stop(self._tasks[task])

    def retarget(self, task: TaskId, target: Target) -> None:
        """Pause or resume a task that runs here."""
        unit = self._tasks[task]
        unit.target = target
        if unit.run is not None:
            self._processes.send(unit.run, {"type": "pause" if target is Target.PAUSED else "resume"})

    def restart(self, task: TaskId) -> None:
        """Stop the task if it runs. The next reconcile starts it."""
        self.restarts[task, "requested"] += 1
        unit = self._tasks.get(task)
        if unit is not None and unit.phase is not Phase.STOPPING:
            self._stop(unit)
        self._loop.reconcile_soon()

    def restart_with_status(self, task: TaskId) -> None:
        """Set the status RESTARTING until the task runs, and restart it."""
        self._restarting.add(task)
        self.write_status(task, State.RESTARTING)
        self.restart(task)

    def set_level(self, name: str, level: str) -> None:
        """Set a logger's level in all processes. Any thread may call this."""
        for unit in self.all():
            if (run := unit.run) is not None:
                self._processes.send(run, {"type": "level", "logger": name, "level": level})

    def abandon(self) -> None:
        """Forget all tasks.

        The lease has ended their processes, or does so now. The next leader writes the states of
        the tasks.
        """
        self._restarting.clear()
        self._waiting_for_offsets.clear()
        self._warnings.abandon()
        if self._dumps is not None:
            self._dumps.abandon()
        for unit in self.all():
            if unit.run is None:
                del self._tasks[unit.id]
            else:
                unit.phase = Phase.STOPPING
                self._processes.stop(unit.run, limit_s=0.0)

    def stop_all(self) -> list[TaskId]:
        """Stop all tasks in order. Return those that were to run until now."""
        for unit in self.all():
            if unit.run is not None and unit.phase is not Phase.FAILED:
                unit.phase = Phase.STOPPING
                self._processes.stop(unit.run, limit_s=self._stop_limit_s)
        return [unit.id for unit in self._tasks.values() if unit.phase in (Phase.STOPPING, Phase.WAITING)]

    def write_status(self, task: TaskId, state: State, trace: str | None = None) -> None:
        """Write a task's state, also of one that does not run here."""
        unit = self._tasks.get(task)
        self._status_writer.write_task(task, state, trace, config=None if unit is None else unit.config)

    # Starting and stopping.

    def _launch_with_offsets(self, unit: LocalTask) -> None:
        """Start a task once its offsets have been read to the end: it must see what the last run
        stored.

        Reading waits for brokers, so it happens in its own thread. Tasks that come meanwhile share
        the next read.
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
                self._offsets.refresh(limit_s=_OFFSETS_READ_LIMIT_S)
            except TransientError as e:
                problem = e
            self._loop.post(lambda: self._take_offsets_read(units, problem))

        threading.Thread(target=read, name="offsets", daemon=True).start()

    def _take_offsets_read(self, units: list[LocalTask], problem: TransientError | None) -> None:
        self._reading_offsets = False
        wanted = [unit for unit in units if self._tasks.get(unit.id) is unit and unit.phase is Phase.WAITING]
        if problem is None:
            for unit in wanted:
                self._launch(unit)
        else:
            _log.warning(
                "the brokers do not answer; tasks wait", tasks=[str(u.id) for u in wanted], reason=str(problem), next_try_s=RETRY_S
            )
            self._waiting_for_offsets += wanted
        if self._waiting_for_offsets and not self._loop.stopping.is_set():
            self._reading_offsets = True
            self._loop.call_later(0.0 if problem is None else RETRY_S, self._read_offsets)

    def _launch(self, unit: LocalTask) -> None:
        """Start the process of a task whose offsets have just been read."""
        if unit.id in self._restarting:
            self._restarting.discard(unit.id)
        else:
            self.write_status(unit.id, State.UNASSIGNED)
        unit.state = State.UNASSIGNED
        unit.phase = Phase.ALIVE
        try:
            order = self._start_orders.build(unit.id, unit.config, unit.target, generation=self._role.generation)
        except DefiniteError as e:
            self._fail(unit, str(e))
            return
        unit.hide = order.hide
        unit.started_s = self._clock.monotonic_s()
        unit.run = self._processes.start(unit.id, order.message, hide=order.hide)
        self._by_run[unit.run] = unit
        if self._dumps is not None:
            self._dumps.begun(unit.id, unit.run, unit.hide)

    def _stop(self, unit: LocalTask) -> None:
        if unit.run is None:
            del self._tasks[unit.id]
            self._loop.reconcile_soon()
            return
        unit.phase = Phase.STOPPING
        self._processes.stop(unit.run, limit_s=self._stop_limit_s)

    def _fail(self, unit: LocalTask, trace: str) -> None:
        unit.phase = Phase.FAILED
        unit.state = State.FAILED
        self.startup_failures += 1
        self.failures[unit.id] += 1
        unit.failure = unit.hide(trace)
        self.write_status(unit.id, State.FAILED, unit.failure)
        if unit.run is not None:
            self._processes.stop(unit.run, limit_s=self._stop_limit_s)

    # Messages from processes.

    def take_message(self, received: TaskMessage) -> None:
        """Process a message of a task's process."""
        unit = self._by_run.get(received.run)
        if unit is None:
            return
        try:
            self._take(unit, received.run, received.message)
        except Exception as e:  # noqa: BLE001  any error concerns only one task
            # One child must not end the worker, and all other tasks with it.
            _log.error("a task's message cannot be handled; the task fails", **unit.id.fields, exc_info=e)
            if unit.phase is Phase.ALIVE:
                self._fail(
                    unit,
                    f"A message of the task could not be handled ({type(e).__name__}): a bug in dblog; the worker's log has its trace.",
                )

    def _take(self, unit: LocalTask, run: int, message: Mapping[str, Any]) -> None:
        match message:
            case {"type": "state", "state": str(state)} if unit.phase is Phase.ALIVE:
                self._take_state(unit, state, message.get("trace"))
            case {"type": "topic", "topic": str(topic)}:
                if self._tracks_topics:
                    use = TopicUse(topic=topic, connector=unit.id.connector, task=unit.id.task, discovered_ms=self._clock.now_us() // 1000)
                    self._statuses.note_topic(use)
            case {"type": "metrics", "values": dict(values)}:
                unit.reported_s = self._clock.now_us() / 1_000_000
                unit.metrics = {str(name): float(value) for name, value in values.items() if isinstance(value, int | float)}
            case {"type": "warnings", "warnings": list(texts)}:
                self._warnings.reported(unit.id.connector, unit.config, [unit.hide(str(text)) for text in texts[: COUNT_MAX + 1]])
            case {"type": "log", "lines": list(lines)}:
                self._journal.sent(unit.id.connector, lines, unit.hide)
            case {"type": "dumps" | "dump_checked"} if self._dumps is not None:
                self._dumps.take(run, message)

    def _take_state(self, unit: LocalTask, state: str, trace: object) -> None:
        match state:
            case "RUNNING" | "PAUSED" | "UNASSIGNED":
                waits = unit.hide(trace) if isinstance(trace, str) and trace else None
                if (State(state), waits) == (unit.state, unit.waits):
                    return
                if unit.state is State.UNASSIGNED and state != "UNASSIGNED":
                    self.startups += 1
                unit.state, unit.waits = State(state), waits
                self.write_status(unit.id, unit.state, waits)
            case "FAILED":
                self._fail(
                    unit, trace if isinstance(trace, str) and trace else "The task failed without giving a reason; see the worker's log."
                )

    def take_death(self, died: Died) -> None:
        """Note the end of a task's process."""
        unit = self._by_run.pop(died.run, None)
        if unit is None:
            return
        if self._dumps is not None:
            self._dumps.ended(died.run)
        unit.run = None
        unit.metrics = {}
        unit.waits = None
        match unit.phase:
            case Phase.STOPPING:
                self._tasks.pop(unit.id, None)
                self._loop.reconcile_soon()
            case Phase.ALIVE:
                self._fail_or_restart(unit, died)
            case Phase.WAITING | Phase.FAILED:
                pass

    def _fail_or_restart(self, unit: LocalTask, died: Died) -> None:
        sound = self._clock.monotonic_s() - unit.started_s >= _STABLE_S
        unit.kills = 1 if sound else unit.kills + 1
        outcome = after_death(
            unit.id,
            exit_code=died.exit_code,
            signal_number=died.signal_number,
            kills=unit.kills,
            restart_max=self._restart_max,
            chance=random.random(),  # noqa: S311  jitter
            last_output=died.last_output,
        )
        if isinstance(outcome, Fail):
            # A task logs its own reports, but it could not log this end.
            _log.error("task failed", **unit.id.fields, trace=unit.hide(outcome.trace))
            self._fail(unit, outcome.trace)
            return
        self.restarts[unit.id, "killed"] += 1
        _log.warning("task killed", **unit.id.fields, reason=unit.hide(outcome.reason))
        unit.phase = Phase.WAITING
        unit.state = State.RESTARTING
        self._restarting.add(unit.id)
        self.write_status(unit.id, State.RESTARTING, unit.hide(outcome.reason))
        self._loop.call_later(outcome.delay_s, lambda: self._relaunch(unit))

    def _relaunch(self, unit: LocalTask) -> None:
        if self._tasks.get(unit.id) is not unit or unit.phase is not Phase.WAITING or self._loop.stopping.is_set():
            return
        self._launch_with_offsets(unit)
