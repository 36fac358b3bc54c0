"""The binlog for the reader layer: bytes go through the decoder and become rows, statements,
watermarks and the consequences of XA transactions.

The decoder returns finished rows and, in order among them, every event that it does not handle
itself. Here each of those is known by name or stops the task: nothing is skipped silently. # I5

A new connection begins with the first bytes of the file, and with skipped events of the open
transaction. Neither is a position to return to, so their items do not move the offset. # I1
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import structlog

from dblog.codecs.rowplan import RowEncoder
from dblog.core.selection import Selection
from dblog.core.timeline import Position
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.items import LOOK_AHEAD, IgnoredForNow, LogEvent, LogOffset, RowsParked
from dblog.dialects.mysql.binlog.offset import POSITION_BITS, LogProgress, schema_position, sequence_of
from dblog.dialects.mysql.binlog.position import file_index
from dblog.dialects.mysql.binlog.signal_rows import signal_rows
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.task.connections import BytesAhead, Connections
from dblog.dialects.mysql.task.dialect import rereads
from dblog.dialects.mysql.task.endings import Endings
from dblog.dialects.mysql.task.lookahead import LogBytes
from dblog.dialects.mysql.task.moved_values import MovedValues
from dblog.dialects.mysql.task.old_keys import HoldingBack, OldKeys
from dblog.dialects.mysql.task.prepared import Begin, Ended, Prepared, RolledBack
from dblog.dialects.mysql.task.reread import Reread, counted
from dblog.dialects.mysql.task.schemas import BinlogSchemas
from dblog.dialects.mysql.task.undo_xa import CannotTakeBackError, UndoXa
from dblog.errors import BadRowsError, DefiniteError, TableChangedError
from dblog.model import OffsetMap, TableId
from dblog.readers.contract import Progress, TableResolver, TaskContext
from dblog.readers.items import Held, LogCounts, LogItem, LogRows, Moved, OnlyByDump, Signals, Statement, Unusable, Watermarks

log = structlog.get_logger(__name__)

HELD = "an XA transaction that changed it is prepared (XA RECOVER names it); it is dumped once that has ended by XA COMMIT or XA ROLLBACK"
TABLES_NAMED_MAX = 20


class BinlogLog:
    """The binlog of one task, over all connections. Implements ``readers.contract.LogSource``."""

    def __init__(self, connections: Connections, schemas: BinlogSchemas, resolve: TableResolver, context: TaskContext) -> None:
        self._connections = connections
        self._schemas = schemas
        self._resolve = resolve
        self._context = context
        self._prepared: Prepared | None = None
        self._reread = Reread(connections, context) if rereads(connections.settings) else None
        self._moved_values = MovedValues(connections.warnings)
        self._old_keys = OldKeys(connections.warnings)
        self._endings = Endings(connections, stopped=context.stopped)
        self._take_back = UndoXa(connections, self._endings, resolve, stopped=context.stopped, clock=context.clock)

    def open(self, at: Progress, *, unreadable: AbstractSet[Any]) -> BinlogReader:
        """Open a connection that continues at ``at``."""
        assert isinstance(at, LogProgress), "made by this dialect"
        if self._prepared is None:
            self._prepared = Prepared(at.prepared, complete=at.epoch > 0)
        self._old_keys.restart()
        left_out = frozenset(unreadable)
        self._schemas.leave_out(left_out)
        connection = self._connections.open_log(at)
        decoder = self._connections.decoder(
            lambda table_map, position: self._log_encoder(table_map, position, epoch=at.epoch),
            transactions=self._connections.settings.boolean("provide.transaction.metadata"),
        )
        decoder.start(
            at.file,
            at.pos,
            skip_events=at.skip_events,
            skip_rows=at.row,
            epoch=at.epoch,
            now_us=self._context.clock.now_us,
            unreadable=left_out,
            transaction=at.transaction,
        )
        gtids = None if at.gtids is None else at.gtids.text()
        log.info("reading the log", file=at.file, pos=at.pos, gtids=gtids, skip_events=at.skip_events)
        return BinlogReader(
            connection,
            decoder,
            at,
            schemas=self._schemas,
            prepared=self._prepared,
            connections=self._connections,
            reread=self._reread,
            selection=self._context.selection,
            signal_tables=self._connections.signal_tables,
            moved_values=self._moved_values,
            endings=self._endings,
            take_back=self._take_back,
            unreadable=left_out,
            ahead=self._connections.ahead,
        )

    def _log_encoder(self, table_map: bytes, position: LogOffset, *, epoch: int) -> RowEncoder | IgnoredForNow | RowsParked | None:
        found = self._resolve(table_map, schema_position(epoch=epoch, at=position), position)
        if found is None or isinstance(found, IgnoredForNow | RowsParked):
            return found
        return self._old_keys.encoder(found, rereads=self._reread is not None)

    def end(self, *, epoch: int) -> Position:
        """Return the current end of the server's log."""
        file, pos, _ = self._connections.live_session().current_position()
        return sequence_of(epoch=epoch, file=file, pos=pos)

    def passed_over(self, table: TableId) -> None:
        """Note that the table's rows are skipped. What an open XA transaction changes in it
        meanwhile must be dumped at the commit.
        """
        if self._prepared is not None:
            self._prepared.left_out(table)

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        """Return True: the watermark has proved it."""
        del shown, table, low
        return True

    def beat(self) -> None:
        """Do nothing: the source needs no heartbeat."""

    def confirm(self, offset: OffsetMap) -> None:
        """Do nothing: a server keeps its binlog by its own rules."""


class BinlogReader:
    """A reader of one log connection. Implements ``readers.contract.LogReader``."""

    def __init__(
        self,
        connection: LogBytes,
        decoder: Any,
        at: LogProgress,
        *,
        schemas: BinlogSchemas,
        prepared: Prepared,
        connections: Connections,
        reread: Reread | None,
        selection: Selection,
        signal_tables: frozenset[TableId],
        moved_values: MovedValues,
        endings: Endings,
        take_back: UndoXa,
        unreadable: AbstractSet[tuple[str, int]],
        ahead: BytesAhead,
    ) -> None:
        self._signal_tables = signal_tables
        self._connection = connection
        self._decoder = decoder
        self._at = at
        self._schemas = schemas
        self._prepared = prepared
        self._connections = connections
        self._reread = reread
        self._selection = selection
        self._moved_values = moved_values
        self._endings = endings
        self._take_back = take_back
        self._unreadable = unreadable
        self._ahead = ahead
        self._ahead_before = ahead.total
        self._received = b""
        self._resumes = True
        self._begins = True

    @property
    def is_silent(self) -> bool:
        """True if the server's heartbeats are overdue."""
        return self._connection.is_silent

    @property
    def counts(self) -> LogCounts:
        """Counts since the connection was opened. They include bytes read ahead by a second
        connection, since for hours there may be no others.
        """
        counts: LogCounts = self._decoder.counts
        return replace(counts, bytes=counts.bytes + self._ahead.total - self._ahead_before)

    def receive(self, timeout_s: float) -> int:
        """Receive more of the log; return the number of bytes."""
        self._connections.close_idle_session()
        self._received = self._connection.recv(timeout_s)
        if self._reread is not None:
            if self._received:
                self._reread.received()
            self._reread.close_idle()
        return len(self._received)

    def items(self) -> Iterator[LogItem]:
        """Yield the items in the bytes that arrived."""
        if self._begins:
            self._begins = False
            yield self._held()
        data, self._received = self._received, b""
        yield from self._feed(data)
        # The decoder stops after an event that may change how the next ones are read.
        while self._decoder.held:
            yield from self._feed(b"")

    def flush(self) -> Iterator[LogItem]:
        """Yield the rows that were held back."""
        yield from self._decoded(self._decoder.flush())

    def forget_tables(self) -> None:
        """Make each table map be looked up again."""
        self._decoder.forget_tables()

    def wake(self) -> None:
        """End a wait for more of the log."""
        self._connection.wake()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        if self._reread is not None:
            self._reread.close()

    def _feed(self, data: bytes) -> Iterator[LogItem]:
        warnings = self._connections.warnings
        found = warnings.found
        try:
            decoded = self._decoder.feed(data)
        except BadRowsError as e:
            yield Unusable(error=e, decoded=False)
            self._decoder.leave_out()
            return
        warnings.found_ahead(since=found)
        yield from self._decoded(decoded)
        warnings.found_ahead(since=warnings.found)

    def _decoded(self, decoded: list[LogRows | LogEvent]) -> Iterator[LogItem]:
        partial = [item for item in decoded if isinstance(item, LogEvent) and item.encoder is not None]
        for event in partial:
            if isinstance(event.encoder, HoldingBack):
                # Deletes of an event whose rows are read again come before its rows.
                event.encoder = event.encoder.inner
        if partial and self._reread is not None:
            self._reread.expect(partial)
        for item in decoded:
            if isinstance(item, LogEvent):
                yield from self._event(item)
                continue
            item.moves = self._is_new(item.position)
            if item.lacking:
                self._moved_values.note(item)
            if item.records:
                for encoder, *_ in item.segments:
                    self._prepared.rows(encoder.plan.table.id)
            self._note_prepared(item.position)
            yield item
            if item.moves and not item.position.in_transaction:
                self._prepared.outside()

    def _is_new(self, position: LogOffset) -> bool:
        """Return whether the item moves the offset. Items of a new connection do not until it is
        past the end of the last one.
        """
        if self._resumes:
            at = self._at
            if position.gtids_delta:
                # A transaction has ended. If its GTID were lost, the server would send it again,
                # after newer ones.
                behind = False
            elif position.in_transaction:
                same = at.gtids is not None or (position.file, position.pos) == (at.file, at.pos)
                behind = same and position.event + position.packed_event <= at.skip_events
            elif at.gtids is None:
                behind = position.file == at.file and position.pos <= at.pos
            else:
                # A new connection begins at an earlier position. A file that ends before ours is
                # read all the same: on an idle server nothing else shows that we are past it.
                behind = at.skip_events > 0 or not _is_later(position, at)
            if behind:
                return False
            self._resumes = False
        return True

    def _note_prepared(self, position: LogOffset) -> None:
        """Write the open XA transactions into the offset, whose position has not been sent yet."""
        text = self._prepared.take_changed()
        if text is not None:
            position.prepared = text

    # ---- events

    def _event(self, event: LogEvent) -> Iterator[LogItem]:
        if event.encoder is not None:
            # Before the position is passed, because they go out in parts.
            yield from self._partial_rows(event, event.encoder)
        moves = self._is_new(event.position)
        where = f"{event.file}:{event.start_pos}"
        found: Statement | Watermarks | Signals | None = None
        match event.type_code:
            case events.EventType.QUERY:
                query = events.read_query(event.body)
                text = self._schemas.text_of(query)
                ended = yield from self._xa_statement(event, text, where)
                found = None if ended else self._statement(event, query, text, where)
            case _ if event.encoder is not None:
                pass
            case events.EventType.MARIADB_GTID:
                self._prepared.begin(self._begin_of(event))
                self.forget_tables()  # so that each table map of the transaction is looked up
            case code if code in events.ROWS_TYPES:
                found = self._own_rows(event)
            case events.EventType.XA_PREPARE:
                yield from self._xa_ended(self._prepared.prepare(event.body), where)
                yield self._held()
            case code if code == LOOK_AHEAD:
                self._decoder.told(self._endings.undone(event.position, self._unreadable))
            case code if code < 0:
                raise self._connections.end_of_log(code, event.body, where)
            case code if code not in {events.EventType.ROTATE, events.EventType.FORMAT_DESCRIPTION}:
                problem = events.unsupported(code, file=event.file, pos=event.start_pos, flags=event.flags)
                if problem is not None:
                    raise problem
        if moves:
            if not event.position.in_transaction:
                self._prepared.outside()
            self._note_prepared(event.position)
        if found is not None:
            found.moves = moves
            yield found
        elif moves:
            yield Moved(position=event.position)

    def _own_rows(self, event: LogEvent) -> Watermarks | Signals:
        assert event.table is not None, "pass-through rows come with their table map"
        table_map = events.read_table_map(event.table)
        at = WatermarkPosition(
            file=event.file, pos=event.start_pos, sequence_high=event.sequence_high, sequence_low=event.sequence_low, gtid=event.gtid
        )
        if table_map.table in self._signal_tables:
            try:
                return Signals(rows=tuple(signal_rows(event.type_code, event.body, table_map)), at=at, position=event.position)
            except DefiniteError as e:
                return Signals(rows=(), at=at, position=event.position, fault=str(e))
        rows = events.watermark_rows(event.type_code, event.body, table_map)
        return Watermarks(rows=tuple(rows), at=at, position=event.position)

    def _statement(self, event: LogEvent, query: events.Query, text: str, where: str) -> Statement:
        if event.position.in_transaction:
            valid_from = schema_position(epoch=self._at.epoch, at=event.position)
        else:
            valid_from = (event.sequence_high, event.next_pos << POSITION_BITS)
        return Statement(
            statement=query,
            text=text,
            database=query.database,
            valid_from=valid_from,
            position=event.position,
            begin=LogOffset(file=event.file, pos=event.next_pos),
            note={"file": event.file, "pos": event.next_pos},
            where=where,
            source=_source_of(event),
        )

    # ---- rows that lack columns

    def _partial_rows(self, event: LogEvent, encoder: RowEncoder) -> Iterator[LogItem]:
        """Yield what the log shows of the rows, then what the table has. Inside an XA transaction
        nothing can be read yet.
        """
        assert self._reread is not None, "the decoder gives such events only where they are read again"
        table = encoder.plan.table.id
        self._prepared.rows(table)
        if self._prepared.is_open:
            self._prepared.unread(table)
        records = 0
        try:
            for keys, values, headers in self._reread.records(event, read=not self._prepared.is_open):
                records += counted(values)
                if keys:
                    yield LogRows(
                        segments=[(encoder, keys, values, headers)],
                        records=len(keys),
                        bytes=sum(len(part) for part in (*keys, *values) if part is not None),
                        source_ts_us=event.source_ts_us or None,
                        position=event.position,
                        moves=False,
                    )
        except TableChangedError as e:
            yield OnlyByDump(tables=[table], reason=str(e), behind=(event.sequence_high, event.next_pos << POSITION_BITS))
        except BadRowsError as e:
            yield Unusable(error=e)
        if event.transaction is not None:
            event.position.transaction = self._decoder.count(encoder, records)

    # ---- XA

    def _held(self) -> Held:
        """Return the tables for which no window may be opened until their XA transaction has ended.
        A chunk would show their prepared rows as they were before. # I2
        """
        return Held(tables=self._prepared.tables, reason=HELD)

    def _xa_statement(self, event: LogEvent, text: str, where: str) -> Generator[LogItem, None, bool]:
        """Handle a statement if it is one of XA; return whether it is (the generator's return
        value).
        """
        ended = self._prepared.statement(text, at=self._begin_of(event))
        if self._prepared.is_open:
            self.forget_tables()  # so that each table map of the transaction is looked up
        if ended is None:
            return False
        if isinstance(ended, RolledBack):
            yield from self._taken_back(ended, event, where)
            # Not earlier: if the connection is lost before, it begins with this statement again.
            self._prepared.forget(ended.xid)
        else:
            yield from self._xa_ended(ended, where)
        yield self._held()
        return True

    def _begin_of(self, event: LogEvent) -> Begin:
        return Begin(self._at.epoch, event.position.file, event.position.pos)

    def _taken_back(self, rolled: RolledBack, event: LogEvent, where: str) -> Iterator[LogItem]:
        """Yield the inverse of rows that were sent. If the log does not have it, yield a dump of
        their tables that repairs them. # I3
        """
        tables = None if rolled.tables is None else frozenset(table for table in rolled.tables if self._selection.includes(table))
        if tables is None:
            why = "it was prepared before the connector began to read, so its changes are unknown"
        elif not tables:
            return
        else:
            try:
                yield from self._take_back.records(rolled, tables, event, epoch=self._at.epoch)
            except CannotTakeBackError as e:
                why = str(e)
            else:
                log.info("rows of an XA transaction are taken back", position=where, tables=sorted(map(str, tables)))
                return
        first = sorted(map(str, tables or ()))[:TABLES_NAMED_MAX]
        more = "" if tables is None or len(tables) == len(first) else f" and {len(tables) - len(first)} more"
        named = "any captured table" if tables is None else f"{', '.join(first)}{more}"
        reason = (
            f"the log holds an XA ROLLBACK at {where} of rows of {named} that were sent when they were prepared, and the log alone "
            f"cannot take them back: {why}; a dump with the mode repair takes such rows out of the lake: dblog dumps start CONNECTOR TABLE --mode repair; "
            "in the topics a row that the transaction had inserted stays"
        )
        yield OnlyByDump(tables=tables, reason=reason, repairs=True)

    def _xa_ended(self, ended: Ended, where: str) -> Iterator[LogItem]:
        """Yield the consequences of the end of a prepared transaction: its tables may be dumped
        again, and rows that nobody has sent come by a dump.
        """
        if ended.unread:
            yield OnlyByDump(tables=ended.unread, reason=f"an XA transaction was committed at {where} whose rows in the log lack columns")
        if left_out := {table for table in ended.left_out if self._selection.includes(table)}:
            names = ", ".join(sorted(map(str, left_out)))
            reason = f"an XA transaction was committed at {where}, prepared while rows of {names} were not followed"
            yield OnlyByDump(tables=left_out, reason=reason)
        if ended.unknown is not None:
            reason = (
                f"the XA transaction {ended.unknown} was committed at {where}, prepared before the connector's first position, "
                "with rows that no dump could see"
            )
            yield OnlyByDump(tables=None, reason=reason)


def _is_later(position: LogOffset, at: LogProgress) -> bool:
    """Return whether a position is after another one of the same log; False if their file names do
    not compare.
    """
    name, _, _ = position.file.rpartition(".")
    if name != at.file.rpartition(".")[0]:
        return False
    return (file_index(position.file), position.pos) > (file_index(at.file), at.pos)


def _source_of(event: LogEvent) -> BinlogContext:
    ts_us = event.source_ts_us or event.timestamp_s * 1_000_000
    return BinlogContext(
        file=event.file,
        pos=event.start_pos,
        server_id=event.server_id,
        source_ts_us=ts_us,
        now_us=ts_us,
        sequence_high=event.sequence_high,
        sequence_low=event.sequence_low,
        gtid=event.gtid,
        thread=event.thread,
    )
