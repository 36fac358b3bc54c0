"""One task process: start, poll and send, commit, pause, stop, fail.

One thread (this one) polls the task's queue, produces, serves delivery callbacks and commits offsets, so the ledger needs no lock. Transient errors
start the task again from its committed offset, as long as ``core/retries.py`` allows; definite ones end it with FAILED and a trace. What is waited for is
reported beside the state.

An offset is committed at the start, on every ``offset.flush.interval.ms``, when a dump has moved (at most once a second, so that a kill repeats
little), on pause, on stop, and when the task fails; always only the acknowledged prefix. # I1

A stop is heeded only in the stretch in which records are sent (``stop.py``): in front of it and behind it the process ends where it is.

The offset at the start records where a first run begins, and is stored before its first record is sent: a run that is killed before any other offset
would otherwise begin again at a later position of the log, and a row that it had sent and that was deleted in between would stay for ever. # I3
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
from dblog.kafka.leaders import are_led
from dblog.kafka.producer import offset_writer, record_producer
from dblog.kafka.topics import TopicCreator
from dblog.model import Batch, Headers, OffsetMap, TableId
from dblog.observe.numbers import KAFKA_ERRORS, named, parted
from dblog.ports import OffsetFold
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.start import LOST_POSITION, may_start_over
from dblog.runtime.control import Control
from dblog.runtime.numbers import ProcessNumbers
from dblog.runtime.offsets import OffsetNotStoredError, OffsetWriter
from dblog.runtime.policy import failed_trace, trace_of
from dblog.runtime.sender import Sender
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
"""An idle task looks for delivery callbacks and control messages this often, unless poll.interval.ms is set."""

_IDLE_MAX_S = 0.5
"""Whatever poll.interval.ms is, Debezium's default of it: orders of the herder, heartbeats and offsets are due meanwhile, and a stop has a limit."""

SWITCH_INTERVAL_S = 0.0005
"""The sender waits at most about that long for the log thread to let go of the interpreter; Python's 5 ms are longer than a request to Kafka takes."""

POLL_BYTES_MAX = 512 * 1024
"""Of large rows: what is polled and what the sender has gathered before it fit into one request to Kafka."""

METRICS_INTERVAL_S = 1.0

CHECKS_MAX = 4
"""Requests for dumps that are checked at the same time."""

AWAY_REPORTED_S = 3.0
"""A broker that is chosen again is away for a moment; that is not worth a status."""

DUMP_FLUSH_INTERVAL_S = 1.0

LOSSES_MIN, LOSSES_S = 3, 60.0
"""At least this many runs in a row, over at least this many seconds, have to lose one position that each start has found there, before it counts as lost.
MySQL says "purged" also of a log file that it cannot open for a moment.
"""

SPANS_WAIT_S = 0.5
"""At the end of the process; a stop leaves it a second (runtime/stop.py)."""

TRACE_CHARS_MAX = 1_000_000
"""Of what is reported to the herder, which takes secrets out of it before it keeps the first 60 000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """What the herder sends at start."""

    connector: str
    task: int
    config: Mapping[str, str]
    worker: Mapping[str, str]
    offsets: list[dict[str, Any]]
    paused: bool = False
    generation: int = 0
    dumps: Sequence[DumpRequest] = ()
    """The dumps that are asked for and have not ended, oldest first."""
    warnings: StandingWarnings = field(default_factory=StandingWarnings)
    """Where a run raises what an operator has to know while the task runs."""


class Desk(Protocol):
    """Where a task that runs is asked about dumps."""

    def take(self, request: DumpRequest) -> None:
        """A new request, or one that has changed."""

    def forget(self, identity: str) -> None:
        """Its end has been noted."""

    def check(self, request: DumpRequest) -> Sequence[TableId]:
        """The tables of a request; DefiniteError where it cannot be carried out, TransientError where that cannot be found out. Asked from any thread."""

    def named(self, request: DumpRequest, name: str) -> Sequence[TableId]:
        """The tables of a request that have this name, in whatever case."""

    def statuses(self) -> list[dict[str, Any]]:
        """How each dump comes on."""

    def signal(self, signal: Signal) -> None:
        """A signal that came by REST."""


class SourceTask(Protocol):
    """The contract of a source: start, poll, commit, stop."""

    @property
    def partition(self) -> Mapping[str, str]:
        """The source partition of its offsets."""

    @property
    def fold(self) -> OffsetFold:
        """How far it has come; valid once started."""

    @property
    def context_headers(self) -> Headers:
        """Headers of every row record."""

    @property
    def desk(self) -> Desk | None:
        """Where it is asked about dumps; None before it has started, and of a task that dumps nothing on request."""

    def start(self, offset: OffsetMap | None) -> None:
        """Connect, check, recover, and let the readers run. Raises TransientError or DefiniteError."""

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Finished batches in order, [] when there is none in time; raises what a reader failed with."""

    def commit(self, offset: OffsetMap) -> None:
        """Note that this offset of the fold is stored: what is older may be forgotten. It is the very object that the fold gave."""

    def stop(self) -> None:
        """End the readers; may be called from any state, also twice."""

    def leave(self) -> None:
        """It was ordered to stop, and all is stored: give up what others keep for it, where it is configured so. It is stopped behind this in any case."""

    def metrics(self) -> dict[str, float]:
        """Numbers for the herder; ``lag_ms`` speaks of what has not been polled yet."""

    def take_topics_ahead(self) -> list[str]:
        """Topics whose first records come soon, since the last call: to be made meanwhile."""

    def waits_for(self) -> str | None:
        """What keeps the readers from going on, in a sentence; None while nothing does."""


TaskFactory = Callable[[StartOrder], SourceTask]


@dataclass(slots=True)
class _Run:
    """One run of a task between a start and an error or stop; ``traces`` None: it is not traced."""

    task: SourceTask
    sender: Sender
    writer: OffsetWriter
    topics: TopicCreator
    traces: StepTraces | None
    unacknowledged: Unacknowledged
    unstored: Unstored
    warnings: StandingWarnings
    ledger: Ledger = field(default_factory=Ledger)
    dump_moved: bool = False
    moved: bool = False
    flushed_at_s: float = 0.0
    acknowledged_at_s: float = 0.0


class Supervisor:
    """Runs one task by the herder's orders until it has to stop or fails."""

    def __init__(self, control: Control, factory: TaskFactory) -> None:
        self._control = control
        self._stop = control.stop
        self._factory = factory
        self._paused = False
        self._metrics_at_s = 0.0
        self._numbers = ProcessNumbers(flush_interval_s=60.0)
        self._brokers_away: str | None = None
        self._sending_since: tuple[float, OffsetMap] | None = None
        """Since when the current run sends, and the offset that it began with."""
        self._lost_at: OffsetMap | None = None
        """The position at which the last run found it lost, None before any did; ``_losses``: how many runs in a row, since ``_lost_since_s``."""
        self._losses = 0
        self._lost_since_s = 0.0
        self._has_run = False
        self._reported: tuple[str, str | None] | None = None
        self._traces: Traces | None = None
        self._requests: dict[str, DumpRequest] = {}
        self._dumps_reported: list[dict[str, Any]] | None = None
        self._warnings = StandingWarnings()
        """Those of the run that runs, or of the last one while the next one starts."""
        self._warnings_reported: tuple[str, ...] = ()
        self._checks = threading.BoundedSemaphore(CHECKS_MAX)

    def run(self) -> int:
        """Exit status 0 after an orderly stop, 1 after FAILED."""
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
        self._numbers = ProcessNumbers(flush_interval_s=_flush_interval_s(order))
        plugin = find_connector(order.config.get("connector.class"))
        # Here, so that it is logged once, however often the task tries to start.
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
                    retries.succeeded()  # a new trouble, not the old one
                chance = random.random()  # noqa: S311 - jitter, no secret
                if e.losses:  # they have their own end, and what limits retries would come before it
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
        """Whether the last run stored a further offset, or at least sent for a while: a start that takes long is no success."""
        if self._sending_since is None:
            return False
        since_s, first = self._sending_since
        further = {key: value for key, value in (offset or {}).items() if key != LOST_POSITION} != first
        return further or now_s - since_s > max(60.0, (policy.timeout_s or 0.0) / 2)

    def _run_once(self, order: StartOrder, offset: OffsetMap | None) -> OffsetMap | None:
        """One run; returns the last stored offset after an orderly stop, raises _RestartError carrying it after a transient error."""
        worker = read_worker_config(order.worker)
        # Asked again: policy and hosts may be others than when the connector was posted, and the config topic has other writers.
        refused = check_connector_clients(order.config, override_policy(worker.settings))
        refused |= check_hosts(order.config, worker.settings.items_of("dblog.connector.allowed.hosts"))
        if refused:
            raise ConfigError(refused)
        requests = sorted(self._requests.values(), key=lambda request: (request.created_ms, request.id))
        # A start that failed may have been wrong about what is lost: only what a run has found goes on. # I5
        warnings = self._warnings.of_next_run() if self._has_run else StandingWarnings()
        order = replace(order, dumps=requests, warnings=warnings)
        if not self._has_run:
            self._warnings = order.warnings
        task = self._factory(order)
        run: _Run | None = None
        stored = offset
        try:
            run = self._open(order, worker, task)
            with self._reporting_start():
                task.start(offset)
            stored = self._store_start(run, offset)
            self._has_run = True
            self._warnings = order.warnings
            self._report_warnings(started=True)
            self._sending_since = time.monotonic(), stored
            self._report_state(None)
            _calm_the_collector()
            with self._stop.heeded():
                stored = self._send_until_stopped(order, run, stored)
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
        """Report numbers while the task starts, which may take minutes, and may hang."""
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

    def _send_until_stopped(self, order: StartOrder, run: _Run, stored: OffsetMap) -> OffsetMap:
        """Poll, send and commit until it has to stop; raises what ends this run earlier, once what is acknowledged of it is stored."""
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
                stored = self._check_offsets(run) or stored
                now_s = time.monotonic()
                due_s = DUMP_FLUSH_INTERVAL_S if run.dump_moved else flush_interval_s
                if run.moved and now_s - run.flushed_at_s >= min(due_s, flush_interval_s):
                    stored = self._commit(run) or stored
                if now_s - self._metrics_at_s >= METRICS_INTERVAL_S:
                    self._metrics_at_s = now_s
                    self._send_metrics(run)
                    self._report_dumps(run)
                    self._report_state(self._away(run) or run.unstored.waits or run.task.waits_for())
            stored = self._last_commit(run) or stored
            self._report_dumps(run)  # a dump is done once that is stored
            return stored
        except Exception as e:
            stored = self._last_commit_quietly(run) or stored
            if isinstance(e, TransientError):
                raise _RestartError(e, stored) from e
            if isinstance(e, PositionLostError):
                again = self._lost(e, stored, starts_over=may_start_over(order.config.get("snapshot.mode") or ""))
                if again is not None:
                    raise again from e
            raise

    def _lost(self, error: PositionLostError, stored: OffsetMap, *, starts_over: bool) -> _RestartError | None:
        """Return the restart after a loss that showed while the task ran. The next start asks the server by itself whether the position is lost. Where it
        finds nothing and the loss comes again, from the same position, it is told. None where ``snapshot.mode`` does not start over: then the task fails.
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
        with files_in_memory(beside(worker.client_settings("producer"), overrides)) as settings:
            try:
                producer = record_producer(client_id, settings, task.context_headers)
            except KafkaException as e:
                message = f"the producer cannot be made: {e.args[0].str()}; correct producer.override.*, or producer.* of the worker"
                raise DefiniteError(message) from e
        creates = order.worker.get("topic.creation.enable", "true").lower() == "true"
        admin_settings = beside(worker.client_settings("admin"), connector_client(order.config, "admin.override."))
        topics = TopicCreator(
            topic_rules(order.config) if creates else (),
            admin_settings,
            stopped=self._stop.ordered,
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
            tolerate=order.config.get("errors.tolerance", "none").strip().lower() == "all",
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
        offsets_led = partial(are_led, worker.client_settings("admin"))
        return _Run(
            task,
            sender,
            writer,
            topics,
            self._step_traces(order, worker),
            Unacknowledged(partial(are_led, admin_settings)),
            Unstored(topic, Unacknowledged(offsets_led, none="no offset")),
            order.warnings,
        )

    def _step_traces(self, order: StartOrder, worker: WorkerConfig) -> StepTraces | None:
        """Of one run; None where nobody asks for traces. The packages are an extra, so they are imported here."""
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
        """Store where this run begins, unless that is the stored offset; TransientError when Kafka does not take it, and nothing has been sent then."""
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
        if written:
            self._numbers.committed(time.monotonic() - began_s, ok=True)
            run.task.commit(offset)

    def _commit(self, run: _Run) -> OffsetMap | None:
        offset = run.task.fold.offset()
        run.flushed_at_s = time.monotonic()
        try:
            self._store(run, offset)
        except TransientError as e:
            if isinstance(e, OffsetNotStoredError):
                run.unstored.failed(e)
            log.warning("offset flush failed, trying again at the next interval", reason=str(e))
            return None
        run.moved = run.dump_moved = False
        return offset

    def _check_offsets(self, run: _Run) -> OffsetMap | None:
        """Return an offset that was stored later than it was waited for; TransientError when the producer of offsets has stalled."""
        if run.unstored.waits is None:
            return None
        late = run.writer.stored_late()
        if late is not None:
            run.unstored.stored()
            run.task.commit(late)
        run.unstored.check()
        return late

    def _last_commit(self, run: _Run) -> OffsetMap | None:
        """What has been sent is waited for, then committed."""
        run.sender.flush(5.0)
        self._acknowledged(run)
        return self._commit(run) if run.moved else None

    def _last_commit_quietly(self, run: _Run) -> OffsetMap | None:
        try:
            run.sender.flush(5.0)
        except DblogError as e:
            log.warning("not all that was sent is acknowledged; a restart repeats some records", reason=str(e))
        self._acknowledged(run)  # what stands in front of the first record that failed is committed all the same
        try:
            return self._commit(run) if run.moved else None
        except DblogError as e:
            log.warning("the last offsets could not be committed; a restart repeats some records", reason=str(e))
            return None

    def _away(self, run: _Run) -> str | None:
        """That the brokers have acknowledged nothing for a while, if they should have."""
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
        """A message about dumps, as far as it is one. ``desk`` None: the task does not run now; its next start gets the requests."""
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
        """Keep a request for this and later runs; None for an older revision of one that is known."""
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
        """Answer which tables of a dump have a name."""
        if desk is None:
            self._answer(call, (503, "the task does not run now"))
            return
        try:
            self._answer(call, None, desk.named(request_from_json(given), name))
        except DefiniteError as e:
            self._answer(call, (400, str(e)))

    def _check_request(self, call: object, given: object, desk: Desk | None) -> None:
        """Answer whether a request could be carried out, from a thread of its own: databases answer when they like."""
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
        """Report how the dumps come on, when that is another than was reported last."""
        desk = run.task.desk
        statuses = [] if desk is None else desk.statuses()
        if statuses != self._dumps_reported:  # the first list also where it is empty: the herder waits for it
            self._dumps_reported = statuses
            self._control.send({"type": "dumps", "dumps": statuses})

    def _wait(self, delay_s: float) -> None:
        """Wait, but not when it has to stop."""
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
            log.warning("Kafka is away; records wait in the queue", reason=reason)
        self._brokers_away = reason

    def _send_metrics(self, run: _Run | None) -> None:
        """Report the numbers of the run, or those of the process alone while there is none."""
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
            # Which topics have numbers of their own is decided where they are read: two lists of the first hundred would differ.
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
        self._report_warnings()

    def _report_warnings(self, *, started: bool = False) -> None:
        """Report the warnings that stand, when they are others than were reported last, and once when the task has started: also that there is none."""
        # A name in them may be a server's bytes that are no UTF-8.
        texts = tuple(text.encode(errors="backslashreplace").decode() for text in self._warnings.texts())
        if started or texts != self._warnings_reported:
            self._warnings_reported = texts
            self._control.send({"type": "warnings", "warnings": texts})

    def _report_state(self, waits: str | None) -> None:
        """The state of a task that runs, with what it waits for, when either is another than was reported last."""
        state = "PAUSED" if self._paused else "RUNNING" if self._has_run else "UNASSIGNED"
        if (state, waits) != self._reported:
            self._reported = state, waits
            self._state(state, waits)

    def _state(self, state: str, trace: str | None = None) -> None:
        if trace is not None:
            # A name in it may be a server's bytes that are no UTF-8, and a list of names may be long.
            trace = trace[:TRACE_CHARS_MAX].encode(errors="backslashreplace").decode()
        self._control.send({"type": "state", "state": state, "trace": trace})


class _RestartError(Exception):
    """A transient error, with the offset to start again from. ``losses``: how often that position has been lost by now, 0 for other errors."""

    def __init__(self, error: TransientError, offset: OffsetMap | None, *, losses: int = 0) -> None:
        super().__init__(str(error))
        self.error = error
        self.offset = offset
        self.losses = losses


def why_away(error: KafkaError, known: str | None) -> str | None:
    """Why the brokers are away after an error of a client; ``known`` is why they were before it, None while they were not."""
    if error.code() not in _BROKERS_AWAY:
        return known
    if known is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  it follows the reason, and has none
        return known
    return explained(error.str()) or error.str()


def _calm_the_collector() -> None:
    """Modules and schemas stay: the cyclic collector need not walk them again with every few hundred batches (4 % of the time in a catch-up)."""
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
    """How long a poll waits for a first record while nothing else is to be done: poll.interval.ms, where it is set."""
    return min(_milliseconds(order.config, "poll.interval.ms", 0) / 1000 or POLL_TIMEOUT_S, _IDLE_MAX_S)


def _flush_interval_s(order: StartOrder) -> float:
    return _milliseconds(order.worker, "offset.flush.interval.ms", 60_000) / 1000


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name)
    return default if value in {None, ""} else int(str(value))


def main(control: Control, factory: TaskFactory | None = None) -> int:
    """The entry of ``dblog task``: run the task that the herder orders over the channel."""
    if factory is None:
        from dblog.dialects.tasks import source_task  # noqa: PLC0415 - tests run the supervisor with a task of their own

        factory = source_task
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return Supervisor(control, factory).run()
