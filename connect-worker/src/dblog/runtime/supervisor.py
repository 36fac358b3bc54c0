"""The task process: start, poll and send, commit, pause, stop, fail.

A single thread polls the task's queue, produces, serves delivery callbacks and commits offsets, so
the ledger needs no lock. A transient error restarts the task from its committed offset, as often as
``core/retries.py`` allows; a definite one ends it with FAILED and a trace. The reported state
includes the reason why the task waits.

An offset is committed at the start, at every ``offset.flush.interval.ms``, when a dump has moved
(at most once a second, so that a kill repeats little), on pause, on stop, and when the task fails.
It only ever covers the acknowledged prefix. # I1

A stop lets a task finish in order only while it sends records (``stop.py``); before and after that
the process exits at once.

The offset of the start records the position where a first run begins, and is stored before the
first record is sent. Otherwise a run killed before its next offset would start again at a later
position of the log, and a row that was sent, then deleted in between, would stay forever. # I3
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException

from dblog.config.clients import beside, check_connector_clients, connector_client
from dblog.config.hosts import check_hosts
from dblog.config.insecure_choices import described, insecure_choices
from dblog.config.named_files import files_in_memory
from dblog.config.overrides import override_policy
from dblog.config.plugins import find_connector
from dblog.config.topic_creation import topic_rules
from dblog.config.tracing import is_traced
from dblog.config.worker import WorkerConfig, own_topics, read_worker_config
from dblog.core.dumprequests import DumpRequest, request_from_json
from dblog.core.ledger import Ledger
from dblog.core.requested import NoRoomError, NoTableError
from dblog.core.retries import Retries, RetryPolicy, gave_up
from dblog.core.signals import Signal
from dblog.errors import ConfigError, DblogError, DefiniteError, PositionLostError, TransientError
from dblog.kafka.failures import explained
from dblog.kafka.leaders import Leaders
from dblog.kafka.producer import offset_writer, record_producer
from dblog.kafka.topics import TopicCreator
from dblog.model import Batch, Headers, OffsetMap, TableId
from dblog.observe.numbers import KAFKA_ERRORS, named, parted
from dblog.ports import OffsetFold
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.start import LOST_POSITION, may_start_over
from dblog.runtime.control import Control
from dblog.runtime.offsets import OffsetNotStoredError, OffsetWriter
from dblog.runtime.policy import failed_trace, trace_of
from dblog.runtime.process_metrics import ProcessMetrics
from dblog.runtime.sender import Sender
from dblog.runtime.too_large import RequestRefusedError, Requests, requests_of, small_requests_warning, with_requests
from dblog.runtime.unacknowledged import Unacknowledged
from dblog.runtime.unstored import Unstored

if TYPE_CHECKING:
    from dblog.observe.traces import Traces
    from dblog.runtime.step_traces import StepTraces

log = structlog.get_logger(__name__)

_BROKERS_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's local codes are spelled so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError._AUTHENTICATION,  # noqa: SLF001
    }
)

POLL_TIMEOUT_S = 0.02
"""Interval in which an idle task looks for delivery callbacks and control messages, unless
poll.interval.ms is set.
"""

_IDLE_MAX_S = 0.5
"""Upper limit of poll.interval.ms, equal to Debezium's default. The herder's messages, heartbeats
and offsets are due in the meantime, and a stop has a time limit.
"""

SWITCH_INTERVAL_S = 0.0005
"""Longest time, about, that the sender waits for the log thread to release the interpreter.
Python's default of 5 ms is longer than a request to Kafka takes.
"""

POLL_BYTES_MAX = 512 * 1024
"""Byte limit of one poll, which matters for large rows. One request to Kafka can hold a poll and
the records that the sender has gathered before it.
"""

METRICS_INTERVAL_S = 1.0

SMALL_REQUESTS = "requests are small"
CHECKS_MAX = 4
"""Maximum number of dump requests that are checked at the same time."""

AWAY_REPORTED_S = 3.0
"""Seconds without acknowledgement after which the status says that Kafka is away. A new leader
takes a moment, which is not worth reporting.
"""

DUMP_FLUSH_INTERVAL_S = 1.0

LOSSES_MIN, LOSSES_S = 3, 60.0
"""Number of consecutive runs, and the seconds over which they must be spread, that have to lose one
position that each start found intact, before the position counts as lost. MySQL also reports
"purged" for a log file that it cannot open for a moment.
"""

SPANS_WAIT_S = 0.5
"""Seconds to send the last spans at the end of the process; a stop leaves one second for it
(``runtime/stop.py``).
"""

TRACE_CHARS_MAX = 1_000_000
"""Maximum length of a trace sent to the herder, which removes secrets before it keeps the first
60000 characters.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Message with which the herder starts the task."""

    connector: str
    task: int
    config: Mapping[str, str]
    worker: Mapping[str, str]
    offsets: list[dict[str, Any]]
    paused: bool = False
    generation: int = 0
    dumps: Sequence[DumpRequest] = ()
    """Requested dumps that have not ended, oldest first."""
    warnings: StandingWarnings = field(default_factory=StandingWarnings)
    """Warnings that a run raises for the operator, shown while the task runs."""


class Desk(Protocol):
    """Access to a running task's dumps."""

    def take(self, request: DumpRequest) -> None:
        """Take a new or changed request."""

    def forget(self, identity: str) -> None:
        """Forget a request: the herder has recorded its end."""

    def check(self, request: DumpRequest) -> Sequence[TableId]:
        """Return the tables of a request. Any thread may call it.

        Raise DefiniteError if the request cannot be carried out, TransientError if that cannot be
        checked now.
        """

    def named(self, request: DumpRequest, name: str) -> Sequence[TableId]:
        """Return the tables of a request with this name, ignoring case."""

    def statuses(self) -> list[dict[str, Any]]:
        """Return the state of each dump, as JSON objects."""

    def signal(self, signal: Signal) -> None:
        """Take a signal that was sent by REST."""


class SourceTask(Protocol):
    """Contract of a source task: start, poll, commit, stop."""

    @property
    def partition(self) -> Mapping[str, str]:
        """Source partition of the task's offsets, such as ``{"server": "<topic.prefix>"}``."""

    @property
    def fold(self) -> OffsetFold:
        """Fold of the task's steps into an offset; valid after ``start``."""

    @property
    def context_headers(self) -> Headers:
        """Headers of every row record."""

    @property
    def desk(self) -> Desk | None:
        """Access to the task's dumps; None before ``start`` and for a task without
        requested dumps.
        """

    def start(self, offset: OffsetMap | None) -> None:
        """Connect, check, recover, and start the readers. Raise TransientError or DefiniteError."""

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Return finished batches in order, [] if none is finished in time. Raise a
        reader's error.
        """

    def commit(self, offset: OffsetMap) -> None:
        """Note that this offset is stored, so the source may forget what is older.

        ``offset`` is the same object that the fold returned.
        """

    def stop(self) -> None:
        """End the readers. May be called in any state, and twice."""

    def leave(self) -> None:
        """Release what the server keeps for this task, if configured so.

        Called after an ordered stop once everything is stored; ``stop`` follows in any case.
        """

    def metrics(self) -> dict[str, float]:
        """Return metrics by name for the herder; ``lag_ms`` covers what has not been polled yet."""

    def take_topics_ahead(self) -> list[str]:
        """Return the topics that will be needed soon, since the last call, so that they can be
        created.
        """

    def waits_for(self) -> str | None:
        """Return a sentence that says what the readers wait for; None while they proceed."""


TaskFactory = Callable[[StartOrder], SourceTask]


@dataclass(slots=True)
class _Run:
    """Run of a task, from a start to an error or stop; ``traces`` is None if it is not traced."""

    task: SourceTask
    sender: Sender
    writer: OffsetWriter
    topics: TopicCreator
    traces: StepTraces | None
    unacknowledged: Unacknowledged
    unstored: Unstored
    warnings: StandingWarnings
    stored: OffsetMap = field(default_factory=dict)
    """The last offset that Kafka has confirmed. The next run begins here: PostgreSQL's slot has moved
    up to it and gives nothing older.
    """
    ledger: Ledger = field(default_factory=Ledger)
    dump_moved: bool = False
    moved: bool = False
    flushed_at_s: float = 0.0
    acknowledged_at_s: float = 0.0


class Supervisor:
    """Runner of one task: obeys the herder's messages until the task has to stop or fails."""

    def __init__(self, control: Control, factory: TaskFactory) -> None:
        self._control = control
        self._stop = control.stop
        self._factory = factory
        self._paused = False
        self._metrics_at_s = 0.0
        self._numbers = ProcessMetrics(flush_interval_s=60.0)
        self._brokers_away: str | None = None
        self._sending_since: tuple[float, OffsetMap] | None = None
        """Time since which the current run sends, and the offset that it began with; None before
        that.
        """
        self._lost_at: OffsetMap | None = None
        """Position that the last run lost; None before a loss. ``_losses`` counts the consecutive
        runs that lost it, since ``_lost_since_s``.
        """
        self._losses = 0
        self._lost_since_s = 0.0
        self._has_run = False
        self._reported: tuple[str, str | None] | None = None
        self._traces: Traces | None = None
        self._requests: dict[str, DumpRequest] = {}
        self._dumps_reported: list[dict[str, Any]] | None = None
        self._warnings = StandingWarnings()
        """Warnings of the current run, or of the last one while the next run starts."""
        self._warnings_reported: tuple[str, ...] = ()
        self._checks = threading.BoundedSemaphore(CHECKS_MAX)
        self._request_sizes = Requests.ANY
        self._small_requests: str | None = None
        """Reason why requests to Kafka are small from now on; None while they are not."""

    def run(self) -> int:
        """Run the task. Return the exit status: 0 after an orderly stop, 1 after FAILED."""
        first = self._control.take(None)
        if first is None or first.get("type") == "stop":
            return 0
        order = StartOrder(
            connector=first["connector"],
            task=first["task"],
            config=first["config"],
            worker=first["worker"],
            offsets=first["offsets"],
            paused=first.get("target") == "PAUSED",
            generation=first.get("generation", 0),
        )
        for given in first.get("dumps") or ():
            self._note_request(given)
        structlog.contextvars.bind_contextvars(connector=order.connector, task=order.task)
        self._paused = order.paused
        self._numbers = ProcessMetrics(flush_interval_s=_flush_interval_s(order))
        plugin = find_connector(order.config.get("connector.class"))
        # Logged here, so that it appears once, however often the task tries to start.
        if insecure := insecure_choices(plugin.options if plugin is not None else (), order.config):
            log.warning("insecure choices in the connector's configuration", choices=described(insecure))
        try:
            self._run_with_retries(order)
        except Exception as e:  # noqa: BLE001 - the edge of the task: every error becomes its state
            self._numbers.failed(e, retriable=False)
            self._send_metrics(None)
            log.error("task failed", reason=trace_of(e))
            self._state("FAILED", failed_trace(e, order.connector))
            return 1
        finally:
            if self._traces is not None:
                self._traces.close(SPANS_WAIT_S)
        self._state("STOPPED")
        return 0

    def _run_with_retries(self, order: StartOrder) -> None:
        policy = RetryPolicy.of(order.config)
        retries = Retries(policy)
        offset = _own_offset(order)
        while not self._stop.ordered():
            self._sending_since = None
            try:
                offset = self._run_once(order, offset)
            except _RestartError as e:
                if self._stop.ordered():
                    return
                offset, error = e.offset, e.error
                self._numbers.failed(error, retriable=True)
                now_s = time.monotonic()
                if self._has_run_well(e.offset, now_s, policy):
                    retries.succeeded()  # so this error begins a new series
                chance = random.random()  # noqa: S311 - jitter, no secret
                # It happens twice at most, because each next run sends smaller requests.
                if isinstance(error, RequestRefusedError):
                    self._small_requests, self._request_sizes = str(error), error.next_requests
                    failures, delay_s = 1, 0.0
                # Losses have a limit of their own; the limit of the retries would end the task
                # before it.
                elif e.losses:
                    failures, delay_s = e.losses, policy.delay_s(e.losses, chance=chance)
                else:
                    delay_s = retries.failed(error, now_s=now_s, chance=chance)
                    failures = retries.failures
                log.warning("task tries again", reason=str(error), failures=failures, delay_s=round(delay_s, 2))
                self._report_state(f"trying again: {error}")
                self._wait(delay_s)
            else:
                return

    def _has_run_well(self, offset: OffsetMap | None, now_s: float, policy: RetryPolicy) -> bool:
        """Return True if the last run stored a later offset, or sent for a while.

        A start that took long does not count as success.
        """
        if self._sending_since is None:
            return False
        since_s, first = self._sending_since
        further = {key: value for key, value in (offset or {}).items() if key != LOST_POSITION} != first
        return further or now_s - since_s > max(60.0, (policy.timeout_s or 0.0) / 2)

    def _run_once(self, order: StartOrder, offset: OffsetMap | None) -> OffsetMap | None:
        """Run the task once. Return the last stored offset after an orderly stop.

        Raise _RestartError, which carries that offset, after a transient error.
        """
        worker = read_worker_config(order.worker)
        # Checked at each run: policy and hosts may have changed since the connector was posted, and
        # others may write to the config topic.
        refused = check_connector_clients(order.config, override_policy(worker.settings))
        refused |= check_hosts(order.config, worker.settings.items_of("dblog.connector.allowed.hosts"))
        if refused:
            raise ConfigError(refused)
        requests = sorted(self._requests.values(), key=lambda request: (request.created_ms, request.id))
        # A start that failed may have been wrong about what is lost, so only warnings of a run that
        # started are kept. # I5
        warnings = self._warnings.of_next_run() if self._has_run else StandingWarnings()
        order = replace(order, dumps=requests, warnings=warnings)
        if not self._has_run:
            self._warnings = order.warnings
        if self._small_requests is not None:
            warnings.raise_warning(SMALL_REQUESTS, small_requests_warning(self._small_requests))
        task = self._factory(order)
        run: _Run | None = None
        stored = offset
        try:
            run = self._open(order, worker, task)
            with self._reporting_start():
                task.start(offset)
            stored = run.stored = self._store_start(run, offset)
            self._has_run = True
            self._warnings = order.warnings
            self._report_warnings(started=True)
            self._sending_since = time.monotonic(), stored
            self._report_state(None)
            _calm_the_collector()
            with self._stop.heeded():
                stored = self._send_until_stopped(order, run)
                task.leave()
                return stored
        except TransientError as e:
            raise _RestartError(e, stored) from e
        finally:
            task.stop()
            if run is not None:
                run.sender.close()
                run.writer.close()
                if run.traces is not None:
                    run.traces.close()

    @contextlib.contextmanager
    def _reporting_start(self) -> Iterator[None]:
        """Report metrics while the task starts, which may take minutes or hang."""
        ended = threading.Event()

        def report() -> None:
            while not ended.wait(METRICS_INTERVAL_S):
                self._send_metrics(None)

        reporter = threading.Thread(target=report, name="start", daemon=True)
        ok = False
        self._numbers.start_begins()
        reporter.start()
        try:
            yield
            ok = True
        finally:
            ended.set()
            reporter.join()
            self._numbers.start_ended(ok=ok)

    def _send_until_stopped(self, order: StartOrder, run: _Run) -> OffsetMap:
        """Poll, send and commit until the task has to stop. Return the last stored offset.

        If an error ends the run earlier, store the offset of what is acknowledged, then raise the
        error.
        """
        try:
            run.flushed_at_s = run.acknowledged_at_s = time.monotonic()
            flush_interval_s = _flush_interval_s(order)
            self._numbers.run_begins()
            records_max = int(order.config.get("max.batch.size") or 2048)
            away_max_s = RetryPolicy.of(order.config).timeout_s
            idle_s = _idle_s(order)
            while not self._stop.ordered():
                self._orders(run)
                run.topics.begin(run.task.take_topics_ahead())
                if self._paused or run.sender.busy:
                    run.sender.serve(POLL_TIMEOUT_S)
                else:
                    timeout_s = 0.0 if run.sender.waits else idle_s
                    began_s = time.monotonic()
                    polled = run.task.poll(timeout_s=timeout_s, records_max=records_max, bytes_max=POLL_BYTES_MAX)
                    if polled:
                        self._numbers.polled(polled, time.monotonic() - began_s)
                    headers = run.traces.polled(polled) if run.traces is not None and polled else None
                    run.sender.send_all(
                        [(batch, run.ledger.enter(batch.step, batch.records_total, batch.source_ts_us)) for batch in polled], headers
                    )
                    if not polled:
                        run.sender.serve(POLL_TIMEOUT_S if run.sender.waits else 0)
                self._acknowledged(run)
                self._check_brokers(run, away_max_s)
                self._check_offsets(run)
                now_s = time.monotonic()
                due_s = DUMP_FLUSH_INTERVAL_S if run.dump_moved else flush_interval_s
                if run.moved and now_s - run.flushed_at_s >= min(due_s, flush_interval_s):
                    self._commit(run)
                if now_s - self._metrics_at_s >= METRICS_INTERVAL_S:
                    self._metrics_at_s = now_s
                    self._send_metrics(run)
                    self._report_dumps(run)
                    self._report_state(self._away(run) or run.unstored.waits or run.task.waits_for())
            self._last_commit(run)
            self._report_dumps(run)  # after the commit: only then a dump is done
            return run.stored
        except Exception as e:
            self._last_commit_quietly(run)
            if isinstance(e, TransientError):
                raise _RestartError(e, run.stored) from e
            if isinstance(e, PositionLostError):
                again = self._lost(e, run.stored, starts_over=may_start_over(order.config.get("snapshot.mode") or ""))
                if again is not None:
                    raise again from e
            raise

    def _lost(self, error: PositionLostError, stored: OffsetMap, *, starts_over: bool) -> _RestartError | None:
        """Return the restart after a position was lost while the task ran, or None if the task has
        to fail.

        The next start checks on the server whether the position is lost. If it finds the position
        intact and the same loss repeats often enough, the following start is given the loss as a
        fact. Return None then if ``snapshot.mode`` does not allow starting over.
        """
        at = {key: value for key, value in stored.items() if not key.startswith("dblog_")}
        if at != self._lost_at:
            self._lost_at, self._losses, self._lost_since_s = at, 0, time.monotonic()
        self._losses += 1
        if self._losses < LOSSES_MIN or time.monotonic() - self._lost_since_s < LOSSES_S:
            then = "all is dumped again if it is lost" if starts_over else "the task fails if it is lost"
            return _RestartError(TransientError(f"{error}; the position is checked, and {then}"), stored, losses=self._losses)
        self._lost_at = None
        if not starts_over:
            return None
        return _RestartError(TransientError(f"{error}; all is dumped again"), {**stored, LOST_POSITION: str(error)}, losses=self._losses)

    def _open(self, order: StartOrder, worker: WorkerConfig, task: SourceTask) -> _Run:
        client_id = f"connector-producer-{order.connector}-{order.task}"
        overrides = connector_client(order.config, "producer.override.")
        tolerate = order.config.get("errors.tolerance", "none").strip().lower() == "all"
        with files_in_memory(beside(worker.client_settings("producer"), overrides)) as settings:
            settings = with_requests(settings, self._request_sizes)  # noqa: PLW2901 - the same, changed
            try:
                producer = record_producer(client_id, settings, task.context_headers)
                requests = requests_of(settings)
            except KafkaException as e:
                message = f"the producer cannot be made: {e.args[0].str()}; correct producer.override.*, or producer.* of the worker"
                raise DefiniteError(message) from e
        creates = order.worker.get("topic.creation.enable", "true").lower() == "true"
        admin_settings = beside(worker.client_settings("admin"), connector_client(order.config, "admin.override."))
        topics = TopicCreator(
            topic_rules(order.config) if creates else (),
            admin_settings,
            stop=self._stop,
            worker_topics=own_topics(worker.settings),
        )

        def ensure_topics(new: Collection[str]) -> None:
            topics.ensure(new)
            for topic in new:
                self._control.send({"type": "topic", "topic": topic})

        sender = Sender(
            producer,
            context_headers=task.context_headers,
            ensure_topics=ensure_topics,
            on_error=self._on_kafka_error,
            stop=self._stop,
            tolerate=tolerate,
            requests=requests,
        )
        topic = order.config.get("offsets.storage.topic") or order.worker["offset.storage.topic"]
        workers = worker.client_settings("producer")
        writer = OffsetWriter(
            offset_writer(topic, f"{client_id}-offsets", workers, error_cb=self._on_kafka_error),
            connector=order.connector,
            partition=task.partition,
            timeout_s=_milliseconds(order.worker, "offset.flush.timeout.ms", 5_000) / 1000,
            stop=self._stop,
        )
        return _Run(
            task,
            sender,
            writer,
            topics,
            self._step_traces(order, worker),
            Unacknowledged(Leaders(admin_settings)),
            Unstored(topic, Unacknowledged(Leaders(worker.client_settings("admin")), none="no offset")),
            order.warnings,
        )

    def _step_traces(self, order: StartOrder, worker: WorkerConfig) -> StepTraces | None:
        """Return the traces of one run; None if tracing is off.

        The imports are inside, because the packages are an optional extra.
        """
        if not is_traced(order.config, worker.settings):
            return None
        from dblog.observe.traces import Traces  # noqa: PLC0415
        from dblog.runtime.step_traces import StepTraces  # noqa: PLC0415

        if self._traces is None:
            self._traces = Traces(service="dblog-worker", instance=f"{order.connector}/{order.task}")
        attributes: dict[str, str | int] = {"dblog.connector": order.connector, "dblog.task": order.task}
        if (plugin := find_connector(order.config.get("connector.class"))) is not None:
            attributes["db.system"] = attributes["db.system.name"] = plugin.system
        return StepTraces(self._traces.tracer, attributes)

    def _acknowledged(self, run: _Run) -> None:
        entries = run.ledger.take_acknowledged()
        if not entries:
            return
        self._numbers.acknowledged(entries)
        run.acknowledged_at_s = time.monotonic()
        self._brokers_away = None
        for entry in entries:
            run.task.fold.advance(entry.step)
            run.dump_moved = run.dump_moved or getattr(entry.step, "moves_dump", False)
        if run.traces is not None:
            run.traces.acknowledged(len(entries), run.task.fold)
        run.moved = True

    def _store_start(self, run: _Run, offset: OffsetMap | None) -> OffsetMap:
        """Store the offset where this run begins, unless it is stored already, and return it.

        Raise TransientError if Kafka does not store it; nothing has been sent then.
        """
        start = run.task.fold.offset()
        if start != offset:
            self._store(run, start)
        return start

    def _store(self, run: _Run, offset: OffsetMap) -> None:
        began_s = time.monotonic()
        try:
            written = run.writer.write(offset)
        except TransientError:
            self._numbers.committed(time.monotonic() - began_s, ok=False)
            raise
        self._numbers.nothing_to_commit()
        run.unstored.stored()
        run.stored = offset
        if written:
            self._numbers.committed(time.monotonic() - began_s, ok=True)
            run.task.commit(offset)

    def _commit(self, run: _Run) -> None:
        offset = run.task.fold.offset()
        run.flushed_at_s = time.monotonic()
        try:
            self._store(run, offset)
        except TransientError as e:
            if isinstance(e, OffsetNotStoredError):
                run.unstored.failed(e)
            log.warning("offset flush failed, trying again at the next interval", reason=str(e))
            return
        run.moved = run.dump_moved = False

    def _check_offsets(self, run: _Run) -> None:
        """Take the confirmation of an offset that arrived late.

        Raise TransientError if the producer of offsets has stalled.
        """
        if run.unstored.waits is None:
            return
        late = run.writer.stored_late()
        if late is not None:
            run.unstored.stored()
            run.stored = late
            run.task.commit(late)
        run.unstored.check()

    def _last_commit(self, run: _Run) -> None:
        """Wait until everything sent is acknowledged, then commit."""
        run.sender.flush(5.0)
        self._acknowledged(run)
        if run.moved:
            self._commit(run)

    def _last_commit_quietly(self, run: _Run) -> None:
        try:
            run.sender.flush(5.0)
        except DblogError as e:
            log.warning("not all that was sent is acknowledged; a restart repeats some records", reason=str(e))
        # The records before the first one that failed are committed all the same.
        self._acknowledged(run)
        try:
            if run.moved:
                self._commit(run)
        except DblogError as e:
            log.warning("the last offsets could not be committed; a restart repeats some records", reason=str(e))

    def _away(self, run: _Run) -> str | None:
        """Return a sentence if Kafka has acknowledged nothing for a while although records wait,
        else None.
        """
        if self._brokers_away is None or not run.ledger.batches_total or time.monotonic() - run.acknowledged_at_s < AWAY_REPORTED_S:
            return None
        return f"Kafka acknowledges nothing ({self._brokers_away}); records wait, and no offset moves"

    def _check_brokers(self, run: _Run, away_max_s: float | None) -> None:
        if not run.ledger.batches_total:
            run.acknowledged_at_s = time.monotonic()
            return
        waited_s = time.monotonic() - run.acknowledged_at_s
        if away_max_s is not None and waited_s > away_max_s and self._brokers_away is not None:
            message = (
                f"Kafka has acknowledged nothing for {waited_s:.0f} s ({self._brokers_away}); {run.sender.outstanding} records wait; "
                "check bootstrap.servers and the brokers, then restart the task: it goes on from its committed offset"
            )
            raise gave_up(TransientError(message), tries=1, waited_s=waited_s, limit=f"dblog.retry.timeout.ms={away_max_s * 1000:.0f}")
        run.unacknowledged.check(0.0 if self._brokers_away is not None else waited_s, run.sender.topics_under_way)

    def _orders(self, run: _Run) -> None:
        while (message := self._control.take(0)) is not None:
            match message.get("type"):
                case "pause" if not self._paused:
                    self._paused = True
                    self._last_commit_quietly(run)
                    self._report_dumps(run)
                    self._report_state(None)
                case "resume" if self._paused:
                    self._paused = False
                    self._report_state(None)
                case _:
                    self._dump_order(message, run.task.desk)

    def _dump_order(self, message: dict[str, Any], desk: Desk | None) -> None:
        """Handle a message about dumps or signals; ignore any other.

        ``desk`` is None while the task does not run; the next start gets the requests.
        """
        match message:
            case {"type": "dump", "request": request}:
                noted = self._note_request(request)
                if noted is not None and desk is not None:
                    desk.take(noted)
            case {"type": "dump_forget", "id": str(identity)}:
                self._requests.pop(identity, None)
                if desk is not None:
                    desk.forget(identity)
            case {"type": "signal", "id": str(identity), "kind": str(kind), "data": str(data), "source": str(source)}:
                if desk is None:
                    log.warning("a signal is left out", reason="the task does not run now")
                else:
                    desk.signal(Signal(identity, kind, data, source))
            case {"type": "dump_check", "call": call, "request": request}:
                self._check_request(call, request, desk)
            case {"type": "dump_table", "call": call, "request": request, "table": str(name)}:
                self._find_table(call, request, name, desk)
            case _:
                pass

    def _note_request(self, given: object) -> DumpRequest | None:
        """Keep a dump request for this and later runs, and return it.

        Return None if the request is invalid or a newer revision of it is known.
        """
        try:
            request = request_from_json(given)
        except DefiniteError as e:
            log.error("a request for a dump is left out", reason=str(e))
            return None
        known = self._requests.get(request.id)
        if known is not None and known.revision > request.revision:
            return None
        self._requests[request.id] = request
        return request

    def _answer(self, call: object, error: tuple[int, str] | None, tables: Sequence[TableId] = ()) -> None:
        told = None if error is None else {"status": error[0], "message": error[1].encode(errors="backslashreplace").decode()}
        self._control.send({"type": "dump_checked", "call": call, "error": told, "tables": [str(table) for table in tables]})

    def _find_table(self, call: object, given: object, name: str, desk: Desk | None) -> None:
        """Answer a ``dump_table`` message with the tables of a dump that have this name."""
        if desk is None:
            self._answer(call, (503, "the task does not run now"))
            return
        try:
            self._answer(call, None, desk.named(request_from_json(given), name))
        except DefiniteError as e:
            self._answer(call, (400, str(e)))

    def _check_request(self, call: object, given: object, desk: Desk | None) -> None:
        """Answer whether a request can be carried out. A thread asks the database, which may take
        long.
        """
        answer = partial(self._answer, call)

        def check() -> None:
            assert desk is not None, "looked at before"
            try:
                answer(None, desk.check(request_from_json(given)))
            except NoTableError as e:
                answer((404, str(e)))
            except NoRoomError as e:
                answer((409, str(e)))
            except DefiniteError as e:
                answer((400, str(e)))
            except TransientError as e:
                answer((503, f"the request cannot be checked now: {e}"))
            except Exception as e:
                log.exception("the check of a request for a dump failed")
                answer((500, f"the check failed: {type(e).__name__}"))
            finally:
                self._checks.release()

        if desk is None:
            answer(
                (
                    503,
                    "the task does not run now, so the request cannot be checked; GET the connector's status for the reason, and try again",
                )
            )
        elif not self._checks.acquire(blocking=False):
            answer((503, f"{CHECKS_MAX} checks of other requests still wait for the database; try again later"))
        else:
            threading.Thread(target=contextvars.copy_context().run, args=(check,), name="dump-check", daemon=True).start()

    def _report_dumps(self, run: _Run) -> None:
        """Report the states of the dumps if they have changed since the last report."""
        desk = run.task.desk
        statuses = [] if desk is None else desk.statuses()
        # The first list is sent even if it is empty: the herder waits for it.
        if statuses != self._dumps_reported:
            self._dumps_reported = statuses
            self._control.send({"type": "dumps", "dumps": statuses})

    def _wait(self, delay_s: float) -> None:
        """Wait for ``delay_s``, or until the task has to stop, handling messages meanwhile."""
        until_s = time.monotonic() + delay_s
        while not self._stop.ordered() and (left_s := until_s - time.monotonic()) > 0:
            self._send_metrics(None)
            message = self._control.take(min(left_s, METRICS_INTERVAL_S))
            match message and message.get("type"):
                case "pause" | "resume" as order:
                    self._paused = order == "pause"
                    self._report_state(self._reported[1] if self._reported is not None else None)
                case _ if message is not None:
                    self._dump_order(message, None)
                case _:
                    pass

    def _on_kafka_error(self, error: KafkaError) -> None:
        KAFKA_ERRORS.add(error.name())
        reason = why_away(error, self._brokers_away)
        if self._brokers_away is None and reason is not None:
            log.warning("no broker answers; records wait in the queue", reason=reason)
        self._brokers_away = reason

    def _send_metrics(self, run: _Run | None) -> None:
        """Report the metrics of the run, or only those of the process if ``run`` is None."""
        of_run: dict[str, float] = {"paused": float(self._paused), "kafka_away": float(self._brokers_away is not None)}
        if self._traces is not None:
            of_run |= self._traces.numbers()
        if run is not None:
            of_run |= run.task.metrics()
            oldest_us = run.ledger.oldest_source_ts_us
            if oldest_us is not None:
                of_run["lag_ms"] = max(of_run.get("lag_ms", 0.0), (time.time_ns() // 1000 - oldest_us) / 1000)
            of_run |= {
                "records_sent_total": float(run.sender.records_total),
                "bytes_sent_total": float(run.sender.bytes_total),
                "records_outstanding": float(run.sender.outstanding),
                "send_failures_total": float(run.sender.failures_total),
                named("events_skipped_total", "refused"): float(run.sender.failures_total),
            }
            # Take the topics that the reader counts separately: choosing a first hundred again here
            # could give another list.
            read_of = {parted(flat, 1)[1][0] for flat in of_run if flat.startswith("topic_records_total|")}
            for topic, count in run.sender.acknowledged_of(read_of).items():
                of_run[named("topic_records_acknowledged_total", topic)] = float(count)
        values = self._numbers.numbers(
            of_run,
            paused=self._paused,
            waits_for_kafka=run is not None and run.ledger.batches_total > 0,
            starting=run is None,
        )
        self._control.send({"type": "metrics", "values": values})
        self._control.send_lines()
        self._report_warnings()

    def _report_warnings(self, *, started: bool = False) -> None:
        """Report the standing warnings if they have changed, and after each start even if there are
        none.
        """
        # A name in a warning may be bytes of the server that are not UTF-8.
        texts = tuple(text.encode(errors="backslashreplace").decode() for text in self._warnings.texts())
        if started or texts != self._warnings_reported:
            self._warnings_reported = texts
            self._control.send({"type": "warnings", "warnings": texts})

    def _report_state(self, waits: str | None) -> None:
        """Report the state of a running task and what it waits for, if either has changed."""
        state = "PAUSED" if self._paused else "RUNNING" if self._has_run else "UNASSIGNED"
        if (state, waits) != self._reported:
            self._reported = state, waits
            self._state(state, waits)

    def _state(self, state: str, trace: str | None = None) -> None:
        if trace is not None:
            # A name in the trace may be bytes of the server that are not UTF-8, and lists of names
            # may be long.
            trace = trace[:TRACE_CHARS_MAX].encode(errors="backslashreplace").decode()
        self._control.send_lines()  # those that led here, before the process may end
        self._control.send({"type": "state", "state": state, "trace": trace})


class _RestartError(Exception):
    """A transient error, with the offset to restart from.

    ``losses`` is the number of times that this position has been lost, 0 for other errors.
    """

    def __init__(self, error: TransientError, offset: OffsetMap | None, *, losses: int = 0) -> None:
        super().__init__(str(error))
        self.error = error
        self.offset = offset
        self.losses = losses


def why_away(error: KafkaError, known: str | None) -> str | None:
    """Return the reason why the brokers are away after a client's error, None while they are not.

    ``known`` is the reason before this error.
    """
    if error.code() not in _BROKERS_AWAY:
        return known
    if known is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  it follows the reason, and has none
        return known
    return explained(error.str()) or error.str()


def _calm_the_collector() -> None:
    """Make the cyclic garbage collector run rarely and skip modules and schemas.

    Otherwise it would walk them at every few hundred batches (4 % of the time in a catch-up).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _own_offset(order: StartOrder) -> OffsetMap | None:
    prefix = order.config.get("topic.prefix")
    for entry in order.offsets:
        if entry["partition"].get("server") == prefix and entry["offset"] is not None:
            offset: OffsetMap = entry["offset"]
            return offset
    return None


def _idle_s(order: StartOrder) -> float:
    """Return the seconds that a poll waits for a first record: poll.interval.ms if set, with a
    limit.
    """
    return min(_milliseconds(order.config, "poll.interval.ms", 0) / 1000 or POLL_TIMEOUT_S, _IDLE_MAX_S)


def _flush_interval_s(order: StartOrder) -> float:
    return _milliseconds(order.worker, "offset.flush.interval.ms", 60_000) / 1000


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name)
    return default if value in {None, ""} else int(str(value))


def main(control: Control, factory: TaskFactory | None = None) -> int:
    """Run the task that the herder orders over the channel: the entry point of ``dblog task``."""
    if factory is None:
        from dblog.dialects.tasks import source_task  # noqa: PLC0415 - tests run the supervisor with a task of their own

        factory = source_task
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return Supervisor(control, factory).run()
