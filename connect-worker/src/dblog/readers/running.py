"""A running task: the log thread, the dump threads, the queue between them and the sender, and the
schemas that they share.

All its parts live as long as the run. An error of any thread comes out of ``poll``.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.core.dumps import Dump, dump_of
from dblog.core.lograce import AT_END_BYTES
from dblog.core.openings import Openings
from dblog.core.pressure import Limit
from dblog.core.requested import Requests
from dblog.core.timeline import Position, Timeline
from dblog.core.watermark import Ticket, Windows
from dblog.model import Batch, OffsetMap, Table, TableId
from dblog.readers.chunk import Particulars
from dblog.readers.contract import Progress, Server, TaskContext
from dblog.readers.dumpdesk import DumpDesk
from dblog.readers.dumping import Dumping, refuse_incomplete
from dblog.readers.encoders_ahead import EncodersAhead
from dblog.readers.governing import Governing
from dblog.readers.history import SchemaHistory
from dblog.readers.interleaved import ChunkRead, Interleaver
from dblog.readers.logwatch import Watch
from dblog.readers.marks import MarkExchange, WrittenMarks
from dblog.readers.modes import Modes
from dblog.readers.notifications import Notifications
from dblog.readers.numbers import RunningNumbers
from dblog.readers.offset import WINDOWS, FoldedOffset, SourceOffset
from dblog.readers.options import ReaderOptions
from dblog.readers.output import LogOutput
from dblog.readers.patience import Patience
from dblog.readers.queue import BlockingQueue
from dblog.readers.records import Records
from dblog.readers.removed_rows import RemovedRows
from dblog.readers.schemas import Schemas
from dblog.readers.signal_file import SignalFile, SignalFileSettings
from dblog.readers.signal_topic import SignalTopic, SignalTopicSettings
from dblog.readers.signals import SignalDesk
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.stream import LogStream, StreamOptions
from dblog.readers.tally import TABLES_MAX, Tally
from dblog.readers.unmatched import UnmatchedNames

log = structlog.get_logger(__name__)

THREAD_ENDS_TIMEOUT_S = 10.0

LOST = "position lost"
"""Key of the standing warning about a lost position; the end of the dump withdraws it."""


def key_of_check(text: str) -> str:
    """Return the key of the standing warning for a text of the server's check."""
    return f"server: {text}"


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
        progress = beginning.progress
        self.server = server
        self._history = history
        self._beginning = beginning
        self._clock = clock
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self.queue = BlockingQueue(records_max=options.queue_records_max, bytes_max=options.queue_bytes_max)
        self._patience = patience = Patience(stopped=self._stopped, policy=options.retry_policy, clock=clock)
        left = beginning.dump.left if beginning.dump is not None else {}
        context = TaskContext(
            run=options.run,
            watermark_name=options.watermark_name,
            includes=options.selection.includes,
            stopped=self._stopped,
            patience=patience,
            clock=clock,
            warnings=warnings,
            moves_rows=self._moves_rows,
            joined=frozenset(table for table in beginning.joined if table in left),
            returned=frozenset(table for table, progress in left.items() if progress.waits),
        )
        log_schemas = server.schemas(beginning.timeline, context, epoch=progress.epoch)
        self._ahead = EncodersAhead(records.encoders, together=records.registered_together)
        self._records = records
        topics = records.topic_warnings(warnings)
        modes = Modes(records, topics)
        self.schemas = Schemas(
            timeline=beginning.timeline,
            history=history,
            log_schemas=log_schemas,
            includes=options.selection.includes,
            build_encoder=lambda table: patience(lambda: records.encoder(table)),
            filtered=options.is_filtered,
            dumps=options.dump.dumps,
            goes_on=options.dump.goes_on,
            patience=patience,
            left_out=self._passed_over,
            ahead=self._ahead,
            dumps_new=options.dump.dumps_new,
            joins=0 if beginning.dump is None else beginning.dump.joins,
            topics=topics,
        )
        self._source = server.log(log_schemas, self.schemas.resolve, context)
        self.schemas.resume_parkings(progress.sequence)
        for joined, (_, position) in beginning.joined.items():
            self.schemas.ignore_before(joined, position)
        for table, position in beginning.expected:
            self.schemas.expect(table, position)
        removed = RemovedRows(connector=options.connector, schemas=self.schemas, warnings=warnings)
        notifications = Notifications(records, channels=options.notification_channels)
        windows: Windows[ChunkRead] = Windows(run=options.run, keys_max=options.window_keys_max)
        self.interleaver = Interleaver(
            windows=windows,
            queue=self.queue,
            clock=clock,
            encoder_of=self.schemas.encoder,
            chunk_context=records.chunk_context,
            shows=self._source.shows,
            marker_segment=lambda made: patience(lambda: records.marker(made)),
            run=options.run,
            tally=Tally(clock, tables_max=tables_max),
            notify=(lambda notices: patience(lambda: notifications.segments(notices))) if notifications.wanted else None,
            repaired=removed.repaired,
            warnings=warnings,
            transform=None if (stage := records.stage) is None else lambda segments: patience(lambda: stage.passed(segments)),
        )
        openings = Openings(beginning.windows, beginning.log_end)
        exchange = self._exchange = (
            MarkExchange(self.interleaver.watermark, self._opens_further_on, openings) if options.read_only else None
        )
        self.interleaver.begin(beginning.dump, beginning.requests, known=beginning.requests_known, dump_is_new=beginning.dump_is_new)
        self.dumping = Dumping(
            interleaver=self.interleaver,
            chunks=server,
            schemas=self.schemas,
            options=options,
            stopped=self._stopped,
            spawn=self._spawn,
            done=self._dump_done,
            clock=clock,
            particulars=Particulars(
                encoder_for=lambda table, extent: modes.encoder(table, extent.mode, extent.columns),
                can_be_repaired=modes.can_be_repaired,
                own_condition=server.own_condition,
                check_keys=server.check_keys,
                check_surrogate=lambda table, column: server.check_surrogate([table], column),
                check_condition=lambda table, where: server.check_conditions([(table, where)]),
            ),
            marks=WrittenMarks if exchange is None else exchange.marks,
            estimates=lambda: self._watch.estimates,
            warnings=warnings,
        )
        self.fold = SourceOffset(
            progress.copy(),
            dump=beginning.dump,
            unreported=len(beginning.reports),
            requests=beginning.requests,
            windows=(lambda: beginning.windows) if exchange is None else exchange.to_store,
            warnings=warnings,
        )
        self._watches = options.watch_interval_s > 0
        self._watch = Watch(
            server,
            read=lambda: self.stream.progress,
            stored=self.fold.progress,
            dump=self._left_to_dump,
            read_bytes=lambda: self.stream.counts().bytes,
            stopped=self._stopped,
            interval_s=options.watch_interval_s,
            clock=clock,
            warnings=warnings,
        )
        self._governs = self._watches or bool(options.dump_limits)
        self._governing = Governing(
            server,
            limits=options.dump_limits,
            here=self._measured_here,
            log_left_s=lambda: None if self._watch.race is None else self._watch.race.left_s,
            dumps=self._reads_dumps,
            pace=self.dumping.pace,
            stopped=self._stopped,
            clock=clock,
            warnings=warnings,
        )
        self.desk = DumpDesk(
            interleaver=self.interleaver,
            dumping=self.dumping,
            captured=self.schemas.captured,
            table_of=self.schemas.table,
            estimates=lambda: self._watch.estimates,
            learn=self._watch.learn,
            server=server,
            modes=modes,
            governor=self._governing.status,
            ends_after_dump=beginning.ends_after_dump,
            clock=clock,
        )
        self.signals = SignalDesk(
            connector=options.connector,
            chunk_rows=options.signal_chunk_rows,
            filters=options.signal_filters,
            interleaver=self.interleaver,
            tables_of=self.desk.tables_of,
            check=self.desk.check,
            start_readers=self.dumping.start_readers,
            spawn=self._spawn,
            stopped=self._stopped,
            position=lambda: str(self.stream.progress),
            clock=clock,
        )
        self.desk.signals = self.signals
        self._channels: list[SignalTopic | SignalFile] = []
        if signal_topic is not None:
            self._channels.append(
                SignalTopic(signal_topic, desk=self.signals, interleaver=self.interleaver, stopped=self._stopped, warnings=warnings)
            )
        if signal_file is not None:
            self._channels.append(
                SignalFile(signal_file, desk=self.signals, interleaver=self.interleaver, stopped=self._stopped, warnings=warnings)
            )
        output = LogOutput(
            interleaver=self.interleaver,
            dumping=self.dumping,
            records=records,
            schemas=self.schemas,
            reports=server,
            options=options,
            patience=patience,
            first=beginning.reports,
            began=progress.copy(),
            exchange=exchange,
            signals=self.signals,
            removed=removed,
        )
        self.stream = LogStream(
            self._source,
            progress,
            schemas=self.schemas,
            output=output,
            clock=clock,
            options=StreamOptions(
                heartbeat_interval_s=options.heartbeat_interval_s,
                skips_bad_events=options.skips_bad_events,
                skips_unreadable=options.skips_unreadable,
                retry_policy=options.retry_policy,
            ),
        )
        self._unmatched = UnmatchedNames(
            beginning.checked, key_of=key_of_check, named=options.named, schemas=self.schemas, warnings=warnings
        )
        if exchange is not None:
            exchange.wake = self.stream.wake
        self._numbers = RunningNumbers(
            stream=self.stream,
            queue=self.queue,
            interleaver=self.interleaver,
            schemas=self.schemas,
            watch=self._watch,
            governing=self._governing,
            signals=self.signals,
            eta_error=self.desk.eta_error,
            queue_limits=(options.queue_records_max, options.queue_bytes_max),
            recovery=dict(beginning.recovery),
            tables_max=tables_max,
            clock=clock,
            stage=records.stage,
        )

    def begin(self) -> None:
        """Start the threads."""
        self._spawn("log", self.stream.run)
        if self._watches:
            self._spawn("watch", self._watch.run)
        if self._governs:
            self._spawn("governor", self._governing.run)
        self.signals.begin()
        self.dumping.start()
        for channel in self._channels:
            self._spawn("signals", channel.run)
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
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._watch.stop()
        self._governing.stop()
        self.queue.close()
        self.interleaver.stop()
        self.stream.stop()
        self.dumping.stop()
        self._ahead.stop()
        for thread in self._threads:
            thread.join(timeout=THREAD_ENDS_TIMEOUT_S)
        self.server.close()
        self._history.close()

    def take_topics_ahead(self) -> list[str]:
        """Return the topics that will be needed soon, since the last call."""
        coming = (self._records.topic_ahead(table) for table in self.interleaver.take_coming())
        return [topic for topic in coming if topic is not None]

    @property
    def waits_for(self) -> str | None:
        """Sentence that says why the log is not read; None while it is."""
        return self._patience.waits or self.stream.waits

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name for the herder."""
        self._unmatched.look()
        return self._numbers.numbers()

    def _left_to_dump(self) -> Dump | None:
        """Return a dump of all tables that some dump still has to read."""
        own, requests = self.interleaver.dump, self.interleaver.requests
        if not requests.by_id:
            return own
        return dump_of("", {table: None for dump in (own, *(one.dump for one in requests)) if dump is not None for table in dump.left})

    def _reads_dumps(self) -> bool:
        """Return True if there is something to read for a dump now, if the source can bear it."""
        own, requests = self.interleaver.dump, self.interleaver.requests
        return (own is not None and not own.ended) or any(one.runs for one in requests)

    def _measured_here(self) -> dict[Limit, float]:
        """Return the measurements that the task itself makes.

        A log that has been read except for a small rest is not late, whatever the clocks say.
        """
        watched, p95_ms = self._watch.state, self.interleaver.tally.select_p95_ms()
        at_end = watched is not None and watched[0].behind_bytes < AT_END_BYTES
        out = {Limit.LOG_LAG: 0.0 if at_end else self.stream.behind_ms()}
        if (race := self._watch.race) is not None:
            out[Limit.LOG_RACE] = race.near
        return out if p95_ms is None else {**out, Limit.STATEMENT_P95: p95_ms}

    def _opens_further_on(self, ticket: Ticket, position: Position) -> bool:
        """Return True if a window opened at this position would miss rows of its table.

        Rows of the table are ignored up to a later position, or a dump was ordered to bring them up
        to one.
        """
        tables = self.interleaver.tables_between(ticket)
        return any(self.schemas.passes_over(table, position) or self.stream.dumps_behind(table, position) for table in tables)

    def _moves_rows(self, table: TableId) -> bool:
        """Return True if an update may move a row of the table past all chunks of a dump.

        It is a method because the log that receives it is created before the interleaver.
        """
        return self.interleaver.moves_rows(table)

    def _passed_over(self, table: TableId) -> None:
        self._source.passed_over(table)

    def _dump_done(self, dump: Dump | None) -> None:
        self._warnings.withdraw(LOST)
        if not self._beginning.ends_after_dump:
            return
        refuse_incomplete(dump)
        log.info("the dump is done and snapshot.mode=initial_only: the log is not followed any further")
        self.stream.stop()

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as e:  # noqa: BLE001 - whatever ends a thread must end the task
                self.queue.fail(e)

        # The connector's name in log lines is a context variable, which a new thread does not
        # inherit.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(guarded,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
