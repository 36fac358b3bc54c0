"""A running task: the log thread, the dump threads, the queue between them and the sender, and the
schemas that they share.

All its parts live as long as the run. An error of any thread comes out of ``poll``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.core.dumps import Dump
from dblog.core.requested import Requests
from dblog.core.timeline import Position, Timeline
from dblog.core.watermark import Windows
from dblog.core.window_numbers import WindowNumbers
from dblog.model import Batch, OffsetMap, Table, TableId
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.contract import Progress, Server, TaskContext
from dblog.readers.dump.chunk_rows import ChunkRows
from dblog.readers.dump.chunknotes import ChunkNotes
from dblog.readers.dump.closed_windows import ClosedWindows
from dblog.readers.dump.dumping import Dumping, OwnDumpEnds, refuse_incomplete
from dblog.readers.dump.governing import Governing, TaskLoad
from dblog.readers.dump.marks import MarkExchange
from dblog.readers.dump.modes import Modes
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.order import RecordOrder
from dblog.readers.dump.request_checks import RequestChecks
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.encoders_ahead import EncodersAhead
from dblog.readers.log.history import SchemaHistory
from dblog.readers.log.logwatch import RowEstimates, Watch
from dblog.readers.log.removed_rows import RemovedRows
from dblog.readers.log.schemas import Schemas
from dblog.readers.log.stream import LogStream, OpenLog, StreamOptions
from dblog.readers.notifications import Notifications
from dblog.readers.options import ReaderOptions
from dblog.readers.queue import BlockingQueue
from dblog.readers.records import Records
from dblog.readers.retrying import Retrying
from dblog.readers.run.dumpdesk import DumpDesk
from dblog.readers.run.offset import WINDOWS, FoldedOffset, SourceOffset
from dblog.readers.run.output import LogOutput
from dblog.readers.run.task_metrics import TaskMetrics
from dblog.readers.run.unmatched import UnmatchedNames
from dblog.readers.signals.signal_file import SignalFile, SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopic, SignalTopicSettings
from dblog.readers.signals.signals import SignalDesk
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import TABLES_MAX, Tally
from dblog.readers.task_threads import TaskThreads

log = structlog.get_logger(__name__)

THREAD_ENDS_TIMEOUT_S = 10.0

LOST = "position lost"
"""Key of the standing warning about a lost position; the end of the dump withdraws it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Results of a start, from which a run begins."""

    progress: Progress
    timeline: Timeline
    dump: Dump | None
    dump_is_new: bool
    """True if no offset has this state of the dump."""
    joined: Mapping[TableId, tuple[int, Position]]
    expected: tuple[tuple[Table, Position], ...]
    reports: tuple[Any, ...]
    ends_after_dump: bool
    requests: Requests = field(default_factory=Requests)
    """Requested dumps."""
    requests_known: Requests = field(default_factory=Requests)
    """Requested dumps as far as the offset knows them."""
    windows: int = 0
    """Value of the offset for the numbering of windows."""
    log_end: Position | None = None
    """End of the log, read after all earlier runs had ended."""
    checked: tuple[str, ...] = ()
    """Warnings of the server's check."""
    recovery: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the recovery of the schemas."""


class Running:
    """Run of a connector's only task. ``begin`` starts the threads, ``stop`` ends them.

    ``tables_max`` is the number of tables and topics with metrics of their own. ``warnings``
    collects warnings for an operator; None discards them.
    """

    def __init__(
        self,
        *,
        server: Server,
        history: SchemaHistory,
        beginning: Beginning,
        options: ReaderOptions,
        records: Records,
        clock: Clock,
        tables_max: int = TABLES_MAX,
        warnings: StandingWarnings | None = None,
        signal_topic: SignalTopicSettings | None = None,
        signal_file: SignalFileSettings | None = None,
    ) -> None:
        self._warnings = warnings = warnings or StandingWarnings()
        self._beginning = beginning
        self._records = records
        self._history = history
        self.server = server
        self._run = run = _Run(server, beginning, options, records, clock, warnings, tables_max)
        self.queue, self.progress, self.windows = run.queue, run.progress, run.windows

        log_side = _LogSide(run, history)
        self.schemas = log_side.schemas
        self._source = log_side.source
        self._ahead = log_side.ahead

        self.order, removed = _order(run, log_side)
        open_log = OpenLog()
        self._exchange = exchange = _exchange(run, self.order, self.schemas, open_log)
        self.fold = SourceOffset(
            beginning.progress.copy(),
            dump=beginning.dump,
            unreported=len(beginning.reports),
            requests=beginning.requests,
            windows=beginning.windows,
            exchange=exchange,
            warnings=warnings,
        )
        self.progress.begin(beginning.dump, beginning.requests, known=beginning.requests_known, own_is_new=beginning.dump_is_new)

        dump_side = _DumpSide(run, log_side, exchange, self)
        self.estimates = dump_side.estimates
        self.dumping = dump_side.dumping
        self.signals = dump_side.signals
        self._channels: list[SignalTopic | SignalFile] = []
        if signal_topic is not None:
            self._channels.append(
                SignalTopic(signal_topic, desk=self.signals, progress=self.progress, stopped=run.stopped, warnings=warnings)
            )
        if signal_file is not None:
            self._channels.append(
                SignalFile(signal_file, desk=self.signals, progress=self.progress, stopped=run.stopped, warnings=warnings)
            )

        output = _output(run, log_side, dump_side, self.order, exchange, removed)
        self.stream = LogStream(
            self._source,
            beginning.progress,
            schemas=self.schemas,
            output=output,
            clock=clock,
            options=StreamOptions(
                heartbeat_interval_s=options.heartbeat_interval_s,
                skips_bad_events=options.skips_bad_events,
                skips_unreadable=options.skips_unreadable,
                retry_policy=options.retry_policy,
            ),
            log=open_log,
        )
        self._watcher = watcher = _Watcher(run, dump_side, self.stream, self.fold)
        self.desk = watcher.desk
        self._unmatched = UnmatchedNames(beginning.checked, named=options.named, schemas=self.schemas, warnings=warnings)
        self._numbers = TaskMetrics(
            stream=self.stream,
            queue=self.queue,
            progress=self.progress,
            windows=self.windows,
            tally=run.tally,
            schemas=self.schemas,
            watch=watcher.watch,
            estimates=self.estimates,
            governing=watcher.governing,
            signals=self.signals,
            desk=self.desk,
            queue_limits=(options.queue_records_max, options.queue_bytes_max),
            recovery=dict(beginning.recovery),
            tables_max=tables_max,
            clock=clock,
            stage=records.stage,
        )

    def begin(self) -> None:
        """Start the threads."""
        threads, watcher = self._run.threads, self._watcher
        threads.spawn("log", self.stream.run)
        if watcher.watches:
            threads.spawn("watch", watcher.watch.run)
        if watcher.governs:
            threads.spawn("governor", watcher.governing.run)
        self.signals.begin()
        self.dumping.start()
        for channel in self._channels:
            threads.spawn("signals", channel.run)
        dump = self._beginning.dump
        if self._beginning.dump_is_new:
            log.info("dump begins", tables=len(dump.tables) if dump else 0)

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Return finished batches; raise the first error of any thread."""
        self.dumping.report()
        return self.queue.poll(timeout_s=timeout_s, records_max=records_max, bytes_max=bytes_max)

    def commit(self, offset: OffsetMap) -> None:
        """Note that an offset of the fold is stored. # I1

        Table versions that no restart needs are dropped, and the server need not keep earlier log.
        The fold may be further on by now, so the stored state is read from the offset.
        """
        assert isinstance(offset, FoldedOffset), "the fold makes the offsets"
        self.schemas.committed(offset.sequence)
        self.desk.stored(offset.requests, dump_ended=offset.dump_ended)
        for channel in self._channels:
            channel.stored(offset.requests)
        if self._exchange is not None and isinstance(windows := offset.get(WINDOWS), int):
            self._exchange.stored(windows)
        self._source.confirm(offset)
        self.fold.stored()

    def stop(self) -> None:
        """End the threads and close the connections."""
        if self._run.stopped.is_set():
            return
        self._run.stopped.set()
        self._watcher.watch.stop()
        self._watcher.governing.stop()
        self.queue.close()
        self.progress.stop()
        self.stream.stop()
        self.dumping.stop()
        self._ahead.stop()
        self._run.threads.join(timeout_s=THREAD_ENDS_TIMEOUT_S)
        self.server.close()
        self._history.close()

    def take_topics_ahead(self) -> list[str]:
        """Return the topics that will be needed soon, since the last call."""
        coming = (self._records.topic_ahead(table) for table in self.windows.take_coming())
        return [topic for topic in coming if topic is not None]

    @property
    def waits_for(self) -> str | None:
        """Sentence that says why the log is not read; None while it is."""
        return self._run.retrying.waits or self.stream.waits

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name for the herder."""
        self._unmatched.look()
        return self._numbers.numbers()

    def own_dump_ended(self, dump: Dump | None) -> None:
        """Withdraw the warning about a lost position; with snapshot.mode=initial_only, end the
        reading of the log.
        """
        self._warnings.withdraw(LOST)
        if not self._beginning.ends_after_dump:
            return
        refuse_incomplete(dump)
        log.info("the dump is done and snapshot.mode=initial_only: the log is not followed any further")
        self.stream.stop()


class _Run:
    """Parts of a run that nearly all others share."""

    def __init__(
        self,
        server: Server,
        beginning: Beginning,
        options: ReaderOptions,
        records: Records,
        clock: Clock,
        warnings: StandingWarnings,
        tables_max: int,
    ) -> None:
        self.server = server
        self.beginning = beginning
        self.options = options
        self.records = records
        self.clock = clock
        self.warnings = warnings
        self.stopped = threading.Event()
        self.queue = BlockingQueue(records_max=options.queue_records_max, bytes_max=options.queue_bytes_max)
        self.threads = TaskThreads(self.queue)
        self.retrying = Retrying(stopped=self.stopped, policy=options.retry_policy, clock=clock)
        self.notifications = Notifications(records, channels=options.notification_channels)
        self.progress = DumpProgress(notifies=self.notifications.wanted)
        self.tally = Tally(clock, tables_max=tables_max)
        self.notes = ChunkNotes(self.progress, clock)
        self.closed: ClosedWindows[ChunkRead] = ClosedWindows()
        self.windows = OpenWindows(
            windows=Windows(run=options.run, keys_max=options.window_keys_max),
            closed=self.closed,
            progress=self.progress,
            notes=self.notes,
            clock=clock,
            warnings=warnings,
        )


class _LogSide:
    """The log, and the schemas of its tables."""

    def __init__(self, run: _Run, history: SchemaHistory) -> None:
        beginning, options, records = run.beginning, run.options, run.records
        left = beginning.dump.left if beginning.dump is not None else {}
        context = TaskContext(
            run=options.run,
            watermark_name=options.watermark_name,
            selection=options.selection,
            stopped=run.stopped,
            retrying=run.retrying,
            clock=run.clock,
            warnings=run.warnings,
            dumps=run.progress,
            joined=frozenset(table for table in beginning.joined if table in left),
            returned=frozenset(table for table, progress in left.items() if progress.waits),
        )
        log_schemas = run.server.schemas(beginning.timeline, context, epoch=beginning.progress.epoch)
        self.ahead = EncodersAhead(records)
        topics = records.topic_warnings(run.warnings)
        self.modes = Modes(records, topics)
        self.schemas = Schemas(
            timeline=beginning.timeline,
            history=history,
            log_schemas=log_schemas,
            options=options,
            records=records,
            retrying=run.retrying,
            left_out=self._passed_over,
            ahead=self.ahead,
            joins=0 if beginning.dump is None else beginning.dump.joins,
            topics=topics,
        )
        self.source = run.server.log(log_schemas, self.schemas.resolve, context)
        self.schemas.resume_parkings(beginning.progress.sequence)
        for joined, (_, position) in beginning.joined.items():
            self.schemas.ignore_before(joined, position)
        for table, position in beginning.expected:
            self.schemas.expect(table, position)

    def _passed_over(self, table: TableId) -> None:
        """Tell the log which rows are skipped. It is made with the schemas that call this."""
        self.source.passed_over(table)


class _DumpSide:
    """The dump threads, and those who order dumps from them."""

    def __init__(self, run: _Run, log_side: _LogSide, exchange: MarkExchange | None, task: OwnDumpEnds) -> None:
        options = run.options
        self.estimates = RowEstimates()
        self.dumping = Dumping(
            progress=run.progress,
            windows=run.windows,
            notes=run.notes,
            tally=run.tally,
            server=run.server,
            schemas=log_side.schemas,
            options=options,
            stopped=run.stopped,
            threads=run.threads,
            task=task,
            modes=log_side.modes,
            estimates=self.estimates,
            clock=run.clock,
            exchange=exchange,
            warnings=run.warnings,
        )
        self.checks = RequestChecks(
            progress=run.progress,
            schemas=log_side.schemas,
            estimates=self.estimates,
            server=run.server,
            modes=log_side.modes,
            ends_after_dump=run.beginning.ends_after_dump,
        )
        self.signals = SignalDesk(
            connector=options.connector,
            chunk_rows=options.signal_chunk_rows,
            filters=options.signal_filters,
            progress=run.progress,
            checks=self.checks,
            dumping=self.dumping,
            threads=run.threads,
            stopped=run.stopped,
            log_progress=run.beginning.progress,
            clock=run.clock,
        )


class _Watcher:
    """The threads that look at log and source, and the statuses made of what they see."""

    def __init__(self, run: _Run, dump_side: _DumpSide, stream: LogStream, fold: SourceOffset) -> None:
        options = run.options
        self.watches = options.watch_interval_s > 0
        self.watch = Watch(
            run.server,
            stream=stream,
            stored=fold.progress,
            progress=run.progress,
            estimates=dump_side.estimates,
            stopped=run.stopped,
            interval_s=options.watch_interval_s,
            clock=run.clock,
            warnings=run.warnings,
        )
        self.governs = self.watches or bool(options.dump_limits)
        self.governing = Governing(
            run.server,
            limits=options.dump_limits,
            load=TaskLoad(stream=stream, watch=self.watch, tally=run.tally, progress=run.progress),
            dumping=dump_side.dumping,
            stopped=run.stopped,
            clock=run.clock,
            warnings=run.warnings,
        )
        self.desk = DumpDesk(
            progress=run.progress,
            windows=run.windows,
            notes=run.notes,
            dumping=dump_side.dumping,
            checks=dump_side.checks,
            signals=dump_side.signals,
            estimates=dump_side.estimates,
            governing=self.governing,
            clock=run.clock,
        )


def _order(run: _Run, log_side: _LogSide) -> tuple[RecordOrder, RemovedRows]:
    """Return the order of log rows and chunk rows, and the rows that statements have removed."""
    removed = RemovedRows(connector=run.options.connector, schemas=log_side.schemas, warnings=run.warnings)
    chunk_rows = ChunkRows(
        closed=run.closed,
        windows=run.windows,
        progress=run.progress,
        notes=run.notes,
        schemas=log_side.schemas,
        records=run.records,
        log_source=log_side.source,
        retrying=run.retrying,
        removed=removed,
        warnings=run.warnings,
        tally=run.tally,
        run=run.options.run,
        clock=run.clock,
    )
    order = RecordOrder(
        queue=run.queue,
        windows=run.windows,
        closed=run.closed,
        chunk_rows=chunk_rows,
        progress=run.progress,
        tally=run.tally,
        notifications=run.notifications,
        retrying=run.retrying,
        clock=run.clock,
        stage=run.records.stage,
    )
    return order, removed


def _exchange(run: _Run, order: RecordOrder, schemas: Schemas, open_log: OpenLog) -> MarkExchange | None:
    """Return the source of marks in read-only mode; None if watermarks are written."""
    if not run.options.read_only:
        return None
    numbers = WindowNumbers(run.beginning.windows, run.beginning.log_end)
    return MarkExchange(order=order, windows=run.windows, schemas=schemas, log=open_log, numbers=numbers)


def _output(
    run: _Run, log_side: _LogSide, dump_side: _DumpSide, order: RecordOrder, exchange: MarkExchange | None, removed: RemovedRows
) -> LogOutput:
    """Return the destination of what the log contains."""
    return LogOutput(
        order=order,
        windows=run.windows,
        progress=run.progress,
        dumping=dump_side.dumping,
        records=run.records,
        schemas=log_side.schemas,
        reports=run.server,
        options=run.options,
        retrying=run.retrying,
        first=run.beginning.reports,
        began=run.beginning.progress.copy(),
        exchange=exchange,
        signals=dump_side.signals,
        removed=removed,
    )
