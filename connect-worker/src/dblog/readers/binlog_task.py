"""The source task of the MySQL and MariaDB connectors: wiring and life of the log thread and the dump threads.

``start`` decides by readers/start.py, recovers the schema timeline (or reads it from the catalog, at a position that no DDL crossed), and lets the
threads run; ``poll`` takes finished batches off the queue; ``commit`` lets the timeline forget; ``stop`` ends the threads. An error of any thread comes
out of ``poll``.
"""

from __future__ import annotations

import contextvars
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.codecs.logitems import IgnoredForNow, LogEvent, LogOffset
from dblog.codecs.rowplan import RowEncoder
from dblog.config.options import Settings
from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, TruncateTable
from dblog.core.dumps import Dump, TableDump, dump_of
from dblog.core.governor import ChunkLimits
from dblog.core.selection import BUILTIN_DATABASES, Selection, name_matcher, named_parts
from dblog.core.timeline import JOINED, Database, Parked, Position, Timeline
from dblog.core.watermark import Windows
from dblog.dialects.mysql import sql
from dblog.dialects.mysql.catalog import read_databases, read_table
from dblog.dialects.mysql.dump import DumpConnection
from dblog.dialects.mysql.events import Query
from dblog.dialects.mysql.identity import FILE_BEGIN, KnownLog
from dblog.dialects.mysql.log import end_of_log
from dblog.dialects.mysql.offset import LogProgress, schema_position, sequence_of
from dblog.dialects.mysql.session import PositionLostError, Session, settings_of
from dblog.dialects.mysql.tablechanges import SchemaChange, initial_changes, schema_changes
from dblog.errors import DefiniteError, ServerChangedError, TransientError
from dblog.model import Batch, Headers, OffsetMap, Segment, Table, TableId
from dblog.readers.binlog_dialect import BinlogDialect, gtid_filter, rereads
from dblog.readers.chunk import ChunkReader
from dblog.readers.encoders import Encoders
from dblog.readers.history import SchemaHistory
from dblog.readers.interleaved import ChunkRead, Interleaver
from dblog.readers.lookahead import LookAhead
from dblog.readers.offset import UNTOLD, BinlogOffset
from dblog.readers.patience import Patience
from dblog.readers.prepared import UNKNOWN
from dblog.readers.queue import BlockingQueue
from dblog.readers.reread import Reread
from dblog.readers.schemas import Reading, SchemaDialect, Schemas
from dblog.readers.start import From, StartPlan, dumps, dumps_at_all, may_start_over, start_plan
from dblog.readers.stream import LogStream
from dblog.readers.takeover import take_over

log = structlog.get_logger(__name__)

CATALOG_TRIES_MAX = 20
"""Reads of the catalog until two agree: more DDL than that at the very start is worth waiting for, not guessing."""

HISTORY = "schema.history.internal"
DDL_FILTER = f"{HISTORY}.ddl.filter"

SECOND_READER = 0x4000_0000
"""Flipped in the server id of a second log connection."""

DUMP_REPORT_INTERVAL_S = 10.0

EPOCH_START_S = 1_704_067_200
"""2024-01-01: a fresh start takes the minutes since then as its epoch, so it sorts behind whatever an earlier life of the connector wrote (D7)."""


def epoch_of(position: Position) -> int:
    """The epoch of a position in the log."""
    return position[0] >> 32


class BinlogTask:
    """One connector's only task. Implements the supervisor's ``SourceTask``."""

    def __init__(
        self,
        *,
        connector: str,
        settings: Settings,
        dialect: BinlogDialect,
        encoders: Encoders,
        history_of: Callable[[], SchemaHistory],
        clock: Clock,
    ) -> None:
        self._connector = connector
        self._settings = settings
        self._dialect = dialect
        self._encoders = encoders
        self._history_of = history_of
        self._clock = clock
        self._prefix = settings.text("topic.prefix")
        self._marks = sql.parse_table_name(settings.text("dblog.watermark.table"))
        self._selection = Selection.from_settings(settings.originals, never=frozenset({self._marks}))
        self._mode = settings.text("snapshot.mode")
        self._mark_name = f"{self._prefix}/{connector}"
        self._run = uuid.uuid4().hex[:12]
        self._queue = BlockingQueue(
            records_max=settings.integer("max.queue.size"), bytes_max=settings.integer("max.queue.size.in.bytes") or (64 << 20)
        )
        self._session: Session | None = None
        self._history: SchemaHistory | None = None
        self._schemas: Schemas | None = None
        self._stream: LogStream | None = None
        self._patience: Patience | None = None
        self._interleaver: Interleaver | None = None
        self._chunk_readers: dict[int, ChunkReader] = {}
        self._threads: list[threading.Thread] = []
        self._taken: set[TableId] = set()
        self._take_lock = threading.Lock()
        self._end_told = False
        self._ends_after_dump = False
        self._filtered = name_matcher(settings.originals.get(DDL_FILTER), option=DDL_FILTER) or (lambda _: False)
        self._found: list[SchemaChange] = []
        self._goes_on = any(
            settings.text(f"{what}.handling.mode") != "fail" for what in ("inconsistent.schema", "event.processing.failure")
        )
        self._dumps = dumps(self._mode, settings.originals.get("snapshot.include.collection.list"))
        self._redumps = settings.text("dblog.ddl.redump") == "changed" and dumps_at_all(self._mode)
        self._stopped = threading.Event()
        self._joined: dict[TableId, tuple[int, Position]] = {}
        self._expected: list[tuple[Table, Position]] = []
        self._dump_report_due_s = clock.monotonic_s() + DUMP_REPORT_INTERVAL_S
        self.partition: Mapping[str, str] = {"server": self._prefix}
        self.fold = BinlogOffset(LogProgress(flavor=dialect.name, file="", pos=4, gtids=None), dump=None)
        self.context_headers: Headers = encoders.context_headers

    # ---- the contract

    def start(self, offset: OffsetMap | None) -> None:
        """Connect, check, recover, run. Raises what the database, Kafka or the configuration make impossible."""
        session = self._session = self._dialect.connect(settings_of(self._settings), again=offset is not None)
        self._name_marks(session)
        history = self._history = self._history_of()
        plan = start_plan(self._mode, offset)
        reads_chunks = plan.new_dump or plan.dumps_new_tables or (plan.dump is not None and not plan.dump.done)
        self._check(session, marks=self._marks if reads_chunks or rereads(self._settings) else None)
        if plan.log_from is From.OFFSET:
            assert offset is not None, "only a stored offset makes this plan"
            try:
                progress, timeline = self._resume(session, history, offset, joins=0 if plan.dump is None else plan.dump.joins)
            except PositionLostError as e:
                if not may_start_over(self._mode):
                    raise
                log.warning("the stored position is lost, dumping anew", mode=self._mode, reason=str(e))
                plan = start_plan("when_needed", None)
                progress, timeline = self._fresh(
                    session, history, plan, epoch_above=LogProgress.of_offset(offset, flavor=self._dialect.name).epoch
                )
        else:
            above = 0 if offset is None else LogProgress.of_offset(offset, flavor=self._dialect.name).epoch
            progress, timeline = self._fresh(session, history, plan, epoch_above=above)
        dump = None if plan.dump is None else plan.dump.only(self._selection.includes)
        if plan.new_dump:
            dump = dump_of(self._run, self._dumped(t.id for t in timeline.captured_tables()))
        elif plan.dumps_new_tables:
            known = 0 if dump is None else dump.joins
            if added := self._dumped(table for table, (number, _) in self._joined.items() if number > known):
                log.info("tables that were new or parked are dumped", count=len(added), tables=[str(t) for t in added[:20]])
                dump = (dump or dump_of(self._run, ())).with_new(added)
        if dump is not None and plan.dumps_new_tables:
            dump = replace(dump, joins=max([dump.joins, *(number for number, _ in self._joined.values())]))
        self._ends_after_dump = plan.ends_after_dump
        self._run_threads(session, history, progress, timeline, dump, dump_is_news=dump != plan.dump)

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Finished batches; raises the first error of any thread."""
        self._report_dump()
        return self._queue.poll(timeout_s=timeout_s, records_max=records_max, bytes_max=bytes_max)

    def commit(self, offset: OffsetMap) -> None:
        """The offset is stored: versions of tables that no restart needs may go. Pruning waits for the log thread's own next statement."""
        del offset
        if self._schemas is not None:
            self._schemas.committed(self.fold.sequence)

    def stop(self) -> None:
        """End the threads and close the connections."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._queue.close()
        if self._interleaver is not None:
            self._interleaver.stop()
        if self._stream is not None:
            self._stream.stop()
        with self._take_lock:
            readers = list(self._chunk_readers.values())
        for reader in readers:
            reader.stop()
        for thread in self._threads:
            thread.join(timeout=10)
        if self._session is not None:
            self._session.close()
        if self._history is not None:
            self._history.close()

    def _report_dump(self) -> None:
        """One line now and then while a dump runs: a first dump takes hours where tables are large."""
        now_s = self._clock.monotonic_s()
        if now_s < self._dump_report_due_s:
            return
        self._dump_report_due_s = now_s + DUMP_REPORT_INTERVAL_S
        dump = None if self._interleaver is None else self._interleaver.dump
        if dump is None or dump.ended:
            return
        log.info("dump runs", tables_done=dump.tables_done, tables_total=dump.tables_total, rows=dump.rows)

    def waits_for(self) -> str | None:
        """What keeps the log from being read, None while nothing does."""
        patience, stream = self._patience, self._stream
        return (patience.waits if patience is not None else None) or (stream.waits if stream is not None else None)

    def _age_ms(self, source_ts_us: int | None) -> float:
        return 0.0 if source_ts_us is None else max(0.0, (self._clock.now_us() - source_ts_us) / 1000)

    def metrics(self) -> dict[str, float]:
        """Numbers for the herder: the log's place, lag, queue, and the dump's progress."""
        out: dict[str, float] = {"queue_records": float(self._queue.records_total), "queue_bytes": float(self._queue.bytes_total)}
        stream, interleaver = self._stream, self._interleaver
        if stream is not None:
            out["connected"] = float(stream.connected)
            out["log_pos"] = float(stream.place[1])
            out["log_reconnects_total"] = float(stream.reconnects_total)
            out["log_records_total"] = float(stream.records_total)
            out["log_events_skipped_total"] = float(stream.skipped_total + (self._schemas.passed_over_total if self._schemas else 0))
            out["lag_ms"] = max(stream.lag_ms(), self._age_ms(self._queue.oldest_source_ts_us))
        if self._schemas is not None:
            out["tables_parked"] = float(len(self._schemas.parked))
        dump = None if interleaver is None else interleaver.dump
        if dump is not None:
            out["dump_tables_total"] = float(dump.tables_total)
            out["dump_tables_done"] = float(dump.tables_done)
            out["dump_tables_failed"] = float(len(dump.failed))
            out["dump_rows_total"] = float(dump.rows)
            out["dump_running"] = float(not dump.ended)
        return out

    # ---- start

    def _name_marks(self, session: Session) -> None:
        """The watermark table by the name that the log has: a server that keeps names in lower case logs it so, however the option has it."""
        if session.facts.lower_case_table_names == 1:
            self._marks = TableId(self._marks.database.lower(), self._marks.name.lower())
            self._selection = Selection.from_settings(self._settings.originals, never=frozenset({self._marks}))

    def _check(self, session: Session, *, marks: TableId | None) -> None:
        tables = session.read_catalog(self._selection.includes)
        server_id = self._settings.integer("database.server.id")
        named = named_parts(self._settings.originals)
        for warning in session.check(server_id=server_id, tables=tables, marks=marks, rereads=rereads(self._settings), named=named):
            log.warning("server setting", warning=warning)

    def _fresh(self, session: Session, history: SchemaHistory, plan: StartPlan, *, epoch_above: int) -> tuple[LogProgress, Timeline]:
        """Position and schemas of now, and a history that starts with them. At the oldest log the schemas of now say nothing of then: its statements and
        metadata tell them, and what they leave open is so from now on, if no statement in between touches it. # I4
        """
        old = self._new_timeline()
        history.recover(old)
        epoch = self._next_epoch(max(epoch_above, epoch_of(old.newest)))
        before, file, pos, gtids = self._positioned_catalog(session)
        read_at = sequence_of(epoch=epoch, file=file, pos=pos)
        if plan.log_from is From.OLDEST:
            file, pos, gtids = session.log_files()[0].name, 4, session.purged_gtids()
            self._expected = [(table, read_at) for table in before]
        progress = self._progress(session, file=file, pos=pos, gtids=gtids, epoch=epoch)
        timeline = self._new_timeline()
        for defaults in read_databases(session.execute):
            timeline.databases[defaults.name] = Database(defaults.charset, defaults.collation)
        for table in before if plan.log_from is From.NOW else ():
            timeline.put(table, progress.sequence, note={"file": file, "pos": pos})
        gone = [t for t in old.tables() if not timeline.versions(t)]
        history.save(timeline, [*timeline.tables(), *gone], databases={*timeline.databases, *old.databases})
        history.begin_epoch(timeline, progress.sequence)
        if not before:
            log.warning("no table matches the include lists yet; tables that are created later are captured")
        log.info("schemas read", tables=len(before), file=file, pos=pos)
        self._found = self._found_at_start(session)
        return progress, timeline

    def _found_at_start(self, session: Session) -> list[SchemaChange]:
        """What the schema-change topic says of a first start. A table whose text may not be read is left out: nothing depends on it."""
        if not self._settings.boolean("include.schema.changes"):
            return []
        texts = []
        for table in session.read_catalog(self._told):
            try:
                texts.append((table, session.show_create(table.id)))
            except DefiniteError as e:
                log.warning("a table is left out of the schema-change topic", table=str(table.id), reason=str(e))
        defaults = {d.name: (d.charset, d.collation) for d in read_databases(session.execute)}
        server = (session.facts.charset, session.facts.collation)
        return initial_changes(texts, defaults, server=server, comments=self._settings.boolean("include.schema.comments"))

    def _told(self, table: TableId) -> bool:
        """Whether the schema-change topic is told of a table: of every table of the server, unless the store.only options narrow it."""
        if table == self._marks or table.database.lower() in BUILTIN_DATABASES:
            return False
        if self._settings.boolean(f"{HISTORY}.store.only.captured.tables.ddl"):
            return self._selection.includes(table)
        return self._told_database(table.database)

    def _told_database(self, database: str) -> bool:
        only = any(self._settings.boolean(f"{HISTORY}.store.only.captured.{what}.ddl") for what in ("tables", "databases"))
        return self._selection.includes_database(database) or not (only or database == self._marks.database)

    def _positioned_catalog(self, session: Session) -> tuple[list[Table], str, int, str]:
        """The captured tables, and a position of the log at which they were so: read before it and after it alike."""
        for _ in range(CATALOG_TRIES_MAX):
            before = session.read_catalog(self._selection.includes)
            file, pos, gtids = session.current_position()
            if before == session.read_catalog(self._selection.includes):
                return before, file, pos, gtids
        message = "tables keep being altered while the connector starts; it starts once they are left alone for a moment"
        raise TransientError(message)

    def _resume(self, session: Session, history: SchemaHistory, offset: OffsetMap, *, joins: int) -> tuple[LogProgress, Timeline]:
        """Go on at a stored offset; tables that the connector does not know yet join now.

        A table that joined an earlier life counts as new once more: that life may have been killed after the history had the table and before the
        offset had its dump. Where the offset has it, nothing is dumped twice. Schemas that a first life had no time to tell are told as they are now; what
        has changed them since is in the log, and told behind them.
        """
        progress = LogProgress.of_offset(offset, flavor=self._dialect.name)
        place, unknown_epoch = (progress.file, progress.pos), progress.epoch == 0
        followed = self._follow_server(session, progress)
        self._pass_over_unwanted(session, progress)
        session.check_position(file=progress.file, pos=progress.pos, gtids=None if progress.gtids is None else progress.gtids.text())
        timeline = self._new_timeline()
        if not history.recover(timeline) and not timeline.databases and not self._take_over(session, history, timeline, offset):
            topic = self._settings.text_or_none("schema.history.internal.kafka.topic")
            message = (
                f"the schema history topic {topic} has no record of {self._prefix}, so rows logged since "
                "the stored offset cannot be decoded safely; restore the topic, or reset the connector's offsets to dump anew"
            )
            raise PositionLostError(message)
        newest_epoch = epoch_of(timeline.newest)
        epoch_before = progress.epoch or newest_epoch
        committed = sequence_of(epoch=epoch_before, file=place[0], pos=place[1])
        history.prune(timeline, committed)  # a table that is left out now must join anew when it comes back, however this run ends
        now, file, pos, _ = self._positioned_catalog(session)
        before = {table.id: timeline.current_table(table.id) for table in now}
        begins = followed or unknown_epoch or progress.epoch < newest_epoch
        if begins:
            progress.epoch = self._next_epoch(max(epoch_before, newest_epoch))
        joined = self._progress(session, file=file, pos=pos, gtids=None, epoch=progress.epoch).sequence
        if begins:
            # The log has the statements behind the offset once more, at places of a new epoch; rows in front of them come with the schema of before.
            history.save(timeline, timeline.forget_behind(committed, awaited_until=joined))
        if unknown_epoch:
            progress.prepared = progress.prepared or UNKNOWN
        number = max([joins, *(earlier for earlier, _ in timeline.joined().values())]) + 1
        if unknown_epoch and epoch_before:
            history.save(timeline, self._doubt(timeline, now, before, progress.sequence))
        if begins:
            # Behind all that is taken back or doubted: a life that is killed before this does it again.
            history.begin_epoch(timeline, progress.sequence)
        new_tables, parked = [], timeline.in_state(Parked)
        # Ahead of the history, which would not name them parked any more.
        self._dumped_or_done_without(table.id for table in now if table.id in parked)
        for table in now:
            note: dict[str, object] = {"file": file, "pos": pos}
            if not timeline.versions(table.id) and not self._dumps(table.id):
                self._expected.append((table, joined))  # followed from the stored offset, not from here: nothing else brings its rows
            elif not timeline.versions(table.id):
                timeline.put(table, joined, note={**note, JOINED: number})
                new_tables.append(table.id)
            elif table.id in parked:
                # The log may not come to the parking's end any more, for it stands there: then it joins, and is dumped by the number of the joining.
                timeline.put(table, joined, note={**note, JOINED: number} if joined <= progress.sequence else note)
        if new_tables or parked:
            history.save(timeline, [*new_tables, *parked])
        self._joined = timeline.joined()
        if offset.get(UNTOLD):
            self._found = self._found_at_start(session)
        return progress, timeline

    def _take_over(self, session: Session, history: SchemaHistory, timeline: Timeline, offset: OffsetMap) -> int:
        """Begin our own history with what Debezium's says at the offset; how many of its records were taken."""
        parse = self._dialect.text_parser(session.facts, timeline)
        taken = take_over(history.others(), timeline, server=history.server, offset=offset, parse=parse)
        if taken:
            for defaults in read_databases(session.execute):
                timeline.databases.setdefault(defaults.name, Database(defaults.charset, defaults.collation))
            history.save_all(timeline)
            log.info("Debezium's schema history taken over", records=taken, tables=len(timeline.tables()))
        return taken

    def _follow_server(self, session: Session, progress: LogProgress) -> bool:
        """Another server's log than the one that the offset's file names belong to: only GTIDs carry over, and the epoch has to rise (D7). Whether it is so.

        The place is then the begin of the new log, in front of every row that can come, whatever of it the GTIDs have behind them.
        """
        by_gtids = bool(progress.gtids) and session.facts.uses_gtids
        other_server = progress.server is not None and progress.server != session.identity
        reason = (
            session.why_other_log(self._known(progress)) if by_gtids or other_server else None
        )  # else the check of the file says it better
        if reason is not None:
            if not by_gtids:
                lacks = "it does not use them (gtid_mode)" if progress.gtids else "the offset has no GTIDs"
                message = (
                    f"the server at {session.settings.address} is not the one that wrote the stored offset ({reason}), and only GTIDs would tell where to go "
                    f"on: {lacks}; point the connector at the old server, or reset its offsets to dump anew"
                )
                raise PositionLostError(message)
            log.warning("another server answers; going on by GTIDs", was=progress.server, now=session.identity, reason=reason)
            progress.file, progress.pos = session.log_files()[0].name, FILE_BEGIN
            progress.event = progress.packed_event = progress.row = 0
            progress.transaction = None
        progress.server = session.identity
        return reason is not None

    def _next_epoch(self, above: int) -> int:
        """An epoch that sorts behind all that the connector wrote before: behind the one that is known, and what earlier lives had of the clock (D7)."""
        return max(above + 1, (self._clock.now_us() // 1_000_000 - EPOCH_START_S) // 60)

    def _doubt(self, timeline: Timeline, now: list[Table], before: Mapping[TableId, Table | None], at: Position) -> list[TableId]:
        """The offset is not of our own writing: a person has set it, or Debezium has come on in between and has kept the DDL to itself. A table that the server
        has otherwise than we have ever had it (``before``: also behind the offset, from where its statements come again) was altered where nobody looked.
        It is parked, and dumped where the catalog was read; where nothing dumps it its schema is read when its first row comes, if no statement touches
        it from there on. # I4
        """
        why = "the stored offset was not written by this connector, and the table is not what it was"
        found = [t.id for t in now if timeline.current_table(t.id) is not None and before[t.id] not in (None, t)]
        for table in found:
            if self._dumps(table):
                timeline.park(table, at, why)
            else:
                timeline.mark_stale(table, at, why)
        return found

    def _known(self, at: LogProgress) -> KnownLog:
        """The log that a place belongs to. MariaDB is asked for our place's GTIDs; those of an offset that does not name its server may be of anywhere."""
        compares = self._dialect.name == "mariadb" and at.server is not None and bool(at.gtids)
        return KnownLog(
            server=at.server,
            file=at.file,
            pos=at.pos,
            gtids=at.gtids.text() if compares and at.gtids is not None else None,
            all_sources=gtid_filter(self._settings) is None,
        )

    def _pass_over_unwanted(self, session: Session, progress: LogProgress) -> None:
        """Purged transactions of sources that are not wanted count as read: the server refuses a reader that lacks any purged one."""
        wanted = gtid_filter(self._settings)
        if wanted is None or progress.gtids is None or not progress.gtids:
            return
        progress.pass_over(session.purged_gtids(), wanted)

    def _progress(self, session: Session, *, file: str, pos: int, gtids: str | None, epoch: int) -> LogProgress:
        return LogProgress(
            flavor=self._dialect.name,
            file=file,
            pos=pos,
            gtids=gtids if session.facts.uses_gtids else None,
            server=session.identity,
            epoch=epoch,
        )

    def _new_timeline(self) -> Timeline:
        return Timeline(captured=self._selection.includes)

    def _dumped(self, tables: Iterable[TableId]) -> list[TableId]:
        return [t for t in tables if self._dumps(t)]

    # ---- run

    def _run_threads(
        self,
        session: Session,
        history: SchemaHistory,
        progress: LogProgress,
        timeline: Timeline,
        dump: Dump | None,
        *,
        dump_is_news: bool,
    ) -> None:
        charsets = self._dialect.charsets(session)
        limit_ms = self._settings.integer("dblog.retry.timeout.ms")
        patience = self._patience = Patience(stopped=self._stopped, limit_s=None if limit_ms < 0 else limit_ms / 1000, clock=self._clock)
        parse = self._dialect.statement_parser(session.facts, timeline)

        def text_of(query: Query) -> str:
            return self._dialect.statement_text(query, charsets)

        ahead = LookAhead(
            open_log=lambda file, pos: self._open_second_log(session, file, pos),
            new_decoder=lambda: self._dialect.decoder(lambda _map, _place: None, self._marks, self._settings),
            parse=lambda query, position: parse(query, text_of(query), position),
            text_of=text_of,
            end_of_log=lambda code, body, where: end_of_log(code, body, session.settings, where),
            stopped=self._stopped.is_set,
            epoch=progress.epoch,
        )
        schemas = self._schemas = Schemas(
            timeline=timeline,
            history=history,
            dialect=SchemaDialect(
                read_table_map=lambda body: self._dialect.read_table_map(body, charsets),
                text_of=text_of,
                parse_statement=parse,
                rewritten=self._dialect.rewritten,
                row_change=lambda query, text: self._dialect.row_change(query, text, session.facts.version),
                read_table=lambda table, position, place: self._read_table(table, position, place, ahead),
            ),
            includes=self._selection.includes,
            build_encoder=lambda table: patience(lambda: self._encoders.encoder(table)),
            filtered=self._filtered,
            dumps=self._dumps,
            goes_on=self._goes_on,
            patience=patience,
            left_out=self._left_out,
        )
        schemas.resume_parkings(progress.sequence)

        def resolve(table_map: bytes, place: LogOffset) -> RowEncoder | IgnoredForNow | None:
            return schemas.resolve(table_map, schema_position(epoch=progress.epoch, place=place), place)

        for table, (_, position) in self._joined.items():
            schemas.ignore_before(table, position)
        for expected, position in self._expected:
            schemas.expect(expected, position)
        windows: Windows[ChunkRead] = Windows(run=self._run, keys_max=self._settings.integer("dblog.window.keys.max"))
        interleaver = self._interleaver = Interleaver(
            windows=windows,
            queue=self._queue,
            clock=self._clock,
            encoder_of=schemas.encoder,
            marker_segment=lambda made: patience(lambda: self._encoders.marker(made)),
            run=self._run,
        )
        if dump is not None:
            state = dump
            interleaver.change_dump(lambda _: state)
        self.fold = BinlogOffset(
            progress.copy(),
            dump=dump,
            untold=len(self._found),
        )
        began = progress.copy()
        heartbeat_s = self._settings.integer("heartbeat.interval.ms") / 1000
        self._stream = LogStream(
            open_log=lambda at: self._open_log(session, at),
            new_decoder=lambda: self._dialect.decoder(
                resolve, self._marks, self._settings, transactions=self._settings.boolean("provide.transaction.metadata")
            ),
            end_of_log=lambda code, body, where: end_of_log(code, body, session.settings, where),
            progress=progress,
            schemas=schemas,
            interleaver=interleaver,
            mark_name=f"{self._mark_name}/",
            statement_records=lambda *statement: patience(lambda: self._statement_records(*statement)),
            border_records=lambda borders: patience(lambda: self._encoders.borders(borders)),
            heartbeat=(lambda: patience(self._encoders.heartbeat)) if heartbeat_s else None,
            heartbeat_interval_s=heartbeat_s,
            clock=self._clock,
            on_tables_changed=self._tables_changed,
            on_tables_back=self._tables_back,
            dump_again=self._must_dump_again,
            reread=self._new_reread(patience) if rereads(self._settings) else None,
            tables_released=self._start_chunk_readers,
            server_place=lambda: self._catalog_session().current_position()[:2],
            first=(patience(lambda change=change: self._encoders.first_schema(began, change)) for change in self._found),  # type: ignore[misc]
            skips_bad_events=self._settings.text("event.processing.failure.handling.mode") != "fail",
            skips_unreadable=self._settings.text("event.deserialization.failure.handling.mode") != "fail",
        )
        self._thread("log", self._stream.run)
        self._start_dump()
        if dump_is_news:
            log.info("dump begins", tables=len(dump.tables) if dump else 0)

    def _statement_records(self, event: LogEvent, query: Query, text: str, changes: tuple[Change, ...]) -> list[Segment]:
        """What one DDL statement leaves in the schema-change topic, and in the topics of truncated tables."""
        assert self._schemas is not None
        records = [
            record
            for change in changes
            if isinstance(change, TruncateTable) and (encoder := self._schemas.encoder(change.id)) is not None
            if (record := self._encoders.truncated(event, encoder)) is not None
        ]
        if self._settings.boolean("include.schema.changes") and not self._filtered(text):
            told = schema_changes(
                changes,
                text,
                default_database=query.database,
                after=self._schemas.table,
                captured=self._told,
                database=self._told_database,
                comments=self._settings.boolean("include.schema.comments"),
            )
            records += [self._encoders.schema_change(event, change) for change in told]
        return records

    def _open_log(self, session: Session, at: LogProgress) -> Any:
        return session.open_log(
            server_id=self._settings.integer("database.server.id"),
            file=at.file,
            pos=at.pos,
            gtids=None if at.gtids is None else at.gtids.text(),
            known=self._known(at),
        )

    def _open_second_log(self, session: Session, file: str, pos: int) -> Any:
        """Beside the task's own log connection, so with another server id: the server ends the older of two with one id."""
        server_id = self._settings.integer("database.server.id") ^ SECOND_READER
        known = KnownLog(server=session.identity, file=file, pos=pos)
        return session.open_log(server_id=server_id, file=file, pos=pos, gtids=None, known=known)

    def _read_table(self, table: TableId, position: Position, place: LogOffset, ahead: LookAhead) -> Reading:
        """The table as the server has it now, with the log between there and now looked through; read before and after, as at the start."""
        for _ in range(CATALOG_TRIES_MAX):
            session = self._catalog_session()
            before = session.read_catalog(lambda other: other == table)
            session.require_readable(table)
            file, pos, _ = session.current_position()
            end = sequence_of(epoch=position[0] >> 32, file=file, pos=pos)
            touched = ahead.touches(table, place, position, end)
            if before == session.read_catalog(lambda other: other == table):
                return Reading(table=next(iter(before), None), position=end, touched=touched)
        message = f"{table} keeps being altered while its schema is read"
        raise TransientError(message)

    def _catalog_session(self) -> Session:
        """The session for questions of the log thread; opened again when the server has dropped it while it was idle."""
        assert self._session is not None, "asked only while the task runs"
        try:
            self._session.query("SELECT 1")
        except TransientError:
            server = self._session.identity
            self._session.close()
            self._session = self._dialect.connect(settings_of(self._settings), again=True)
            if self._session.identity != server:
                message = f"another server answers at {self._session.settings.address} now; the connector starts again"
                raise ServerChangedError(message) from None
        return self._session

    def _start_dump(self) -> None:
        assert self._interleaver is not None
        dump = self._interleaver.dump
        if dump is None or dump.ended:
            self._dump_ended()
            return
        self._start_chunk_readers()

    def _start_chunk_readers(self) -> None:
        """As many as the option allows and tables wait; those that run already count."""
        assert self._interleaver is not None
        assert self._schemas is not None
        limits = ChunkLimits(rows_max=self._settings.integer("dblog.chunk.rows"), bytes_max=self._settings.integer("dblog.chunk.bytes.max"))
        assert self._session is not None, "the readers run beside the log"
        settings, server = settings_of(self._settings), self._session.identity
        with self._take_lock:
            if self._stopped.is_set():
                return
            dump = self._interleaver.dump
            free = [n for n in range(self._settings.integer("dblog.dump.threads")) if n not in self._chunk_readers]
            waiting = filter(self._waits, () if dump is None else dump.left.values())
            for number, _ in zip(free, waiting, strict=False):
                self._end_told = False
                reader = self._chunk_readers[number] = ChunkReader(
                    connect=lambda: DumpConnection.open(settings, self._marks, server=server),
                    sql=sql,
                    interleaver=self._interleaver,
                    next_table=lambda number=number: self._next_table(number),  # type: ignore[misc]
                    put_back=self._put_back,
                    table_of=self._schemas.table,
                    mark_name=f"{self._mark_name}/{number}",
                    limits=limits,
                )
                self._thread(f"dump-{number}", lambda reader=reader: self._read_chunks(reader))  # type: ignore[misc]

    def _read_chunks(self, reader: ChunkReader) -> None:
        reader.run()
        assert self._interleaver is not None
        dump = self._interleaver.dump
        if dump is None or not dump.ended or self._stopped.is_set():
            return
        with self._take_lock:
            told, self._end_told = self._end_told, True
        if not told:
            log.info("dump done", rows=dump.rows, tables=len(dump.tables), failed=[str(t.table) for t in dump.failed])
            self._dump_ended()

    def _dump_ended(self) -> None:
        dump = None if self._interleaver is None else self._interleaver.dump
        if self._ends_after_dump and dump is not None and (failed := dump.failed):
            message = f"snapshot.mode=initial_only, and {len(failed)} tables could not be dumped; the first: {failed[0].fault}"
            raise DefiniteError(message)
        if self._ends_after_dump and self._stream is not None:
            log.info("the dump is done and snapshot.mode=initial_only: the log is not followed any further")
            self._stream.stop()

    def _waits(self, progress: TableDump) -> bool:
        """Whether a reader may take the table. The lock is held."""
        assert self._interleaver is not None
        return not (progress.ended or progress.table in self._taken or self._interleaver.is_held(progress.table))

    def _put_back(self, table: TableId) -> None:
        """The reader is through with the table, or it is held: who lets go of it starts a reader again. A reader that puts a table back asks for another one,
        so a table that is dumped again while its reader is on the way here is read by it, and never by two.
        """
        with self._take_lock:
            self._taken.discard(table)

    def _next_table(self, number: int) -> TableId | None:
        """A table of the dump that no other thread has taken; without one the reader of that number is no more."""
        assert self._interleaver is not None
        with self._take_lock:
            dump = self._interleaver.dump
            for progress in () if dump is None else dump.left.values():
                if self._waits(progress):
                    self._taken.add(progress.table)
                    return progress.table
            self._chunk_readers.pop(number, None)
        return None

    def _tables_changed(self, changes: Iterable[Change], rewritten: Mapping[TableId, str]) -> None:
        """What DDL means for a dump under way: a table that is gone is done, a renamed one is read under its new name, a rewritten one again."""
        assert self._interleaver is not None
        if self._interleaver.dump is not None:
            self._follow_in_dump(changes)
        if rewritten and self._redumps:
            self._dump_again(rewritten)

    def _tables_back(self, tables: Mapping[TableId, str]) -> None:
        """Tables whose rows were passed over until now can be told again. The dump that brings these rows is no matter of taste. # I3"""
        self._dump_again({table: tables[table] for table in self._dumped_or_done_without(tables)})

    def _new_reread(self, patience: Patience) -> Reread:
        assert self._session is not None, "made once the task is connected"
        settings, server = settings_of(self._settings), self._session.identity
        return Reread(
            connect=lambda: DumpConnection.open(settings, self._marks, server=server),
            table_now=lambda table: read_table(self._catalog_session().execute, table),
            patience=patience,
            mark_name=self._mark_name,
            run=self._run,
            stopped=self._stopped,
            clock=self._clock,
        )

    def _must_dump_again(self, tables: Iterable[TableId] | None, why: str) -> None:
        """Rows that only a dump can bring, of these tables or (None) of any captured one; DefiniteError where the configuration dumps none. # I3"""
        assert self._schemas is not None
        wanted = self._schemas.captured() if tables is None else list(tables)
        self._refuse_left_out(wanted, why)
        self._dump_again(dict.fromkeys(wanted, why))

    def _refuse_left_out(self, tables: Iterable[TableId], why: str) -> None:
        left_out = sorted(str(t) for t in tables if not self._dumps(t))
        if left_out:
            message = (
                f"{why}; only a dump of {', '.join(left_out[:20])} brings them, which snapshot.mode={self._mode} or "
                "snapshot.include.collection.list leave out: reset the connector's offsets and dump, or set "
                "event.processing.failure.handling.mode=warn to go on without these rows"
            )
            raise DefiniteError(message)

    def _dumped_or_done_without(self, parked: Iterable[TableId]) -> list[TableId]:
        """Those of tables that were parked whose rows a dump brings. The others' rows are lost: DefiniteError unless that is wished. # I3"""
        tables = list(parked)
        if not self._goes_on:
            self._refuse_left_out(tables, "rows were passed over while their table was parked")
        return self._dumped(tables)

    def _dump_again(self, rewritten: Mapping[TableId, str]) -> None:
        """Dump tables whose old rows have changed without events; the next batch carries the dump's new state into the offset. # I3"""
        assert self._interleaver is not None
        assert self._schemas is not None
        for table in self._dumped(t for t in rewritten if self._schemas.table(t) is not None):
            log.info("the table is dumped again", table=str(table), reason=rewritten[table])
            self._interleaver.read_again(
                table,
                "its rows were rewritten",
                lambda d, t=table: (d or dump_of(self._run, ())).with_tables([t]).restarted(t),  # type: ignore[misc]
            )
        self._start_chunk_readers()

    def _follow_in_dump(self, changes: Iterable[Change]) -> None:
        assert self._interleaver is not None
        for change in changes:
            match change:
                case DropTable(ids):
                    for table in ids:
                        self._interleaver.change_dump(lambda d, t=table: None if d is None else d.dropped(t))  # type: ignore[misc]
                case CreateTable(table) if not change.with_rows:
                    self._interleaver.change_dump(lambda d, t=table.id: None if d is None else d.created(t))  # type: ignore[misc]
                case RenameTable(pairs):
                    self._renamed(pairs)
                case AlterTable(old, table) if table.id != old:
                    self._renamed(((old, table.id),))
                case _:
                    pass

    def _renamed(self, pairs: Iterable[tuple[TableId, TableId]]) -> None:
        """Whatever dblog.ddl.redump says: a dump that has begun is brought to its end, under the names that the tables have now."""
        assert self._interleaver is not None
        dump = self._interleaver.dump
        if dump is None:
            return
        pairs = tuple(pairs)
        _, again = dump.renamed(pairs, self._is_dumped)
        self._interleaver.change_dump(lambda d: None if d is None else d.renamed(pairs, self._is_dumped)[0])
        for table in again:
            self._interleaver.read_again(table, "another table has its name", lambda d, t=table: None if d is None else d.restarted(t))  # type: ignore[misc]
        if again:
            self._start_chunk_readers()

    def _left_out(self, table: TableId) -> None:
        assert self._stream is not None, "only the log thread asks for encoders of table maps"
        self._stream.left_out(table)

    def _is_dumped(self, table: TableId) -> bool:
        return self._selection.includes(table) and self._dumps(table)

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as e:  # noqa: BLE001 - whatever ends a thread must end the task
                self._queue.fail(e)

        # The connector's name in log lines is a context variable, and a new thread begins with none.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(guarded,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
