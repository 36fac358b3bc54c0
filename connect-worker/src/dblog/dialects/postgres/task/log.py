"""Reads the log for the reader layer: copy messages become rows, changes of tables, watermarks and
signals.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import structlog

from dblog.config.log_confirmation import confirms_log
from dblog.core.timeline import FOUND_OUT, Position
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.postgres.pgoutput._fast import FastLogged, LogDecoder
from dblog.dialects.postgres.pgoutput.changes import MadeAgain, RelationChanged, Truncated
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset, SignalRow
from dblog.dialects.postgres.pgoutput.messages import Message, Relation, Truncate
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress, sequence_at
from dblog.dialects.postgres.pgoutput.position import lsn_text, sequence_of, wal_file
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.dialects.postgres.pgoutput.streamed import StreamedTransactions
from dblog.dialects.postgres.pgoutput.visibility import Snapshot
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.task.heartbeat import HeartbeatQuery
from dblog.dialects.postgres.task.joined import Joined
from dblog.dialects.postgres.task.logical_messages import LogicalMessages
from dblog.dialects.postgres.task.old_keys import OldKeys
from dblog.dialects.postgres.task.schemas import ASKED, PostgresSchemas
from dblog.dialects.postgres.task.unsent_values import UnsentValues
from dblog.dialects.postgres.wire.connect import PublicationMissingError
from dblog.dialects.postgres.wire.dump import WATERMARK_PREFIX
from dblog.dialects.postgres.wire.log import ConfirmedLsn, LogConnection
from dblog.errors import BadRowsError, ServerChangedError
from dblog.model import OffsetMap, TableId
from dblog.readers.contract import Progress, TableResolver, TaskContext
from dblog.readers.items import LogCounts, LogItem, LogRows, Moved, Signals, Statement, Unusable, Watermarks
from dblog.readers.start import may_start_over

log = structlog.get_logger(__name__)

_TOKENS = 2

_NOTHING = 0
"""InvalidXLogRecPtr. A status message with it leaves the slot where it is
(lsn.flush.mode=manual).
"""


class PostgresLog:
    """The log of one task, over all its connections. Implements ``readers.contract.LogSource``."""

    def __init__(
        self,
        connections: Connections,
        schemas: PostgresSchemas,
        resolve: TableResolver,
        context: TaskContext,
        *,
        signal_tables: frozenset[TableId],
    ) -> None:
        self._connections = connections
        self._schemas = schemas
        self._resolve = resolve
        self._context = context
        self._signal_tables = signal_tables
        self._messages = LogicalMessages(connections.settings, context.clock)
        statement = connections.settings.text_or_none("heartbeat.action.query")
        self._heartbeat = (
            None
            if statement is None
            else HeartbeatQuery(
                statement,
                connections,
                interval_s=connections.settings.integer("heartbeat.interval.ms") / 1000,
                warnings=context.warnings,
            )
        )
        self._unsent_values = UnsentValues(connections, context)
        self._joined = Joined(connections, context, schemas)
        self._confirms = confirms_log(connections.settings)
        self._confirmed: ConfirmedLsn | None = None
        self._reader: PostgresReader | None = None
        self._logged: FastLogged | None = None

    def open(self, at: Progress, *, unreadable: AbstractSet[Any]) -> PostgresReader:
        """Continue reading at ``at``."""
        assert isinstance(at, PostgresProgress), "made by this dialect"
        # Messages cannot be skipped by position: a stream is damaged on the way, not at rest.
        del unreadable
        if self._confirmed is None:
            self._confirmed = ConfirmedLsn(at.at.lsn if self._confirms else _NOTHING)
        if self._logged is None:
            self._logged = FastLogged(Snapshot.of(self._connections.live_session().transactions_in_doubt()))
        settings = self._connections.settings
        connection = self._connections.open_log(at, self._confirmed)
        decoder = LogDecoder(
            resolve=self._resolve,
            committed=self._logged,
            database=at.database,
            records_max=min(1000, settings.integer("max.batch.size")),
            signal_tables=self._signal_tables,
            transactions=settings.boolean("provide.transaction.metadata"),
            fill=self._unsent_values,
            complete=self._unsent_values.complete,
            settle=OldKeys(self._unsent_values),
        )
        decoder.start(at.at, epoch=at.epoch, now_us=self._context.clock.now_us)
        log.info("reading the log", lsn=lsn_text(at.at.lsn), slot=self._connections.slot, skip_changes=at.at.event)
        self._reader = PostgresReader(
            connection,
            decoder,
            self._connections,
            StreamedTransactions(tempfile.TemporaryFile) if self._connections.streams else None,
            schemas=self._schemas,
            messages=self._messages,
            joined=self._joined,
            at=at.at,
            epoch=at.epoch,
            timeline=at.timeline,
            database=at.database,
            starts_over=may_start_over(settings.text("snapshot.mode")),
        )
        return self._reader

    def end(self, *, epoch: int) -> Position:
        """Return the position where the server's log ends now."""
        return sequence_of(epoch=epoch, lsn=self._connections.live_session().log_end())

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        """Return True if the snapshot shows everything that the log has of the table before
        ``low``, by the transactions that this run has read.
        """
        assert isinstance(shown, Snapshot), "made by this dialect"
        assert self._logged is not None, "windows open with the log's first connection"
        return self._logged.shows(shown, self._schemas.number_of(table), low)

    def passed_over(self, table: TableId) -> None:
        """Do nothing: a transaction comes when it commits, so nothing has to be remembered."""

    def beat(self) -> None:
        """Run heartbeat.action.query."""
        if self._heartbeat is not None:
            self._heartbeat.beat()

    def confirm(self, offset: OffsetMap) -> None:
        """Let the server drop the log before the stored position. # I1"""
        lsn = offset.get("lsn_commit")
        if self._confirms and self._confirmed is not None and isinstance(lsn, int) and lsn > self._confirmed.lsn:
            self._confirmed.lsn = lsn


class PostgresReader:
    """A reader of one log connection. Implements ``readers.contract.LogReader``."""

    def __init__(
        self,
        connection: LogConnection,
        decoder: Any,
        connections: Connections,
        streamed: StreamedTransactions | None,
        *,
        schemas: PostgresSchemas,
        messages: LogicalMessages,
        joined: Joined,
        at: LogOffset,
        epoch: int,
        timeline: int,
        database: str,
        starts_over: bool,
    ) -> None:
        """Start at the decoder's offset. ``starts_over`` is True if the connector may dump again
        when the log cannot be read.
        """
        self._connection = connection
        self._decoder = decoder
        self._connections = connections
        self._streamed = streamed
        self._schemas = schemas
        self._messages = messages
        self._joined = joined
        self._at = at
        self._epoch = epoch
        self._resumed = sequence_at(at, epoch=epoch)
        self._timeline = timeline
        self._database = database
        self._starts_over = starts_over
        self._received = b""

    @property
    def is_silent(self) -> bool:
        """True if the server's keepalives are overdue."""
        return self._connection.is_silent

    @property
    def counts(self) -> LogCounts:
        """Counts of everything decoded since the reader was opened."""
        counts: LogCounts = self._decoder.counts
        return counts

    def receive(self, timeout_s: float) -> int:
        """Return the number of bytes of the log that have arrived. Keepalives count as 0: they only
        move the position and show that nothing more exists.
        """
        self._connections.close_idle_session()
        # Offsets must have the timeline that is read.
        if self._connections.moved_on is not None:
            raise self._connections.changed(self._connections.moved_on)
        try:
            data = self._connection.receive(timeout_s)
        except PublicationMissingError as e:
            if not self._starts_over:
                raise
            message = f"{e}; the connector starts again"
            raise ServerChangedError(message) from e
        if data and _only_keepalives(data):
            self._decoder.feed(data)
            return 0
        self._received = data
        return len(data)

    def items(self) -> Iterator[LogItem]:
        """Yield the items in the bytes that have arrived."""
        yield from self._held()  # before a watermark that would close a window
        data, self._received = self._received, b""
        for piece in (data,) if self._streamed is None else self._streamed.take(data):
            yield from self._feed(piece)
            # The decoder stops after a message that may change how the next ones are read.
            while self._decoder.held:
                yield from self._feed(b"")

    def flush(self) -> Iterator[LogItem]:
        """Yield the rows that were held back, then changes of tables that nothing in the log
        shows.
        """
        yield from self._decoded(self._decoder.flush())
        yield from self._found_out()
        yield from self._held()

    def _held(self) -> Iterator[LogItem]:
        joining, self._schemas.joining = self._schemas.joining, set()
        returning, self._schemas.returning = self._schemas.returning, set()
        if joining or returning:
            self._joined.add(joining, returning=returning)
        yield from self._joined.held(self._at.lsn)

    def forget_tables(self) -> None:
        """Ask for the encoder of each table again."""
        self._decoder.forget_tables()

    def wake(self) -> None:
        """End a wait for more of the log."""
        self._connection.wake()

    def close(self) -> None:
        """Confirm to the server what is stored, and close the connection."""
        self._connection.close()
        if self._streamed is not None:
            self._streamed.close()

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
        for item in decoded:
            self._at = item.position
            if isinstance(item, LogRows):
                yield item
            else:
                yield from self._event(item)

    def _event(self, event: LogEvent) -> Iterator[LogItem]:
        match event.message:
            case Relation() as relation:
                changed = self._schemas.changed(relation, self._sequence(event), resumed=self._resumed)
                if changed is not None:
                    yield self._statement(event, changed)
                    yield from self._held()
            case Truncate(relations):
                tables = tuple(table for number in relations if (table := self._schemas.numbers.get(number)) is not None)
                if tables:
                    yield self._statement(event, Truncated(tables))
                else:
                    yield Moved(position=event.position)
            case SignalRow(texts, fault):
                rows = () if fault is not None else (texts,)
                yield Signals(rows=rows, at=self._watermark_position(event), position=event.position, fault=fault)
            case Message(_, _, prefix, content) as message:
                token = _watermark_of(prefix, content)
                if token is not None:
                    yield Watermarks(rows=(token,), at=self._watermark_position(event), position=event.position)
                elif self._messages.includes(prefix):
                    yield self._messages.record(message, self._context(event), event.position)
                else:
                    yield Moved(position=event.position)

    def _sequence(self, event: LogEvent) -> Position:
        return sequence_of(epoch=self._epoch, lsn=event.commit_lsn, number=event.number)

    def _watermark_position(self, event: LogEvent) -> WatermarkPosition:
        high, low = self._sequence(event)
        return WatermarkPosition(
            file=wal_file(self._timeline, event.commit_lsn), pos=event.commit_lsn, sequence_high=high, sequence_low=low
        )

    def _context(self, event: LogEvent) -> PostgresContext:
        high, low = self._sequence(event)
        return PostgresContext(
            database=self._database,
            xid=event.xid or None,
            lsn=event.lsn,
            source_ts_us=event.ts_us,
            now_us=event.ts_us,
            sequence_high=high,
            sequence_low=low,
        )

    def _found_out(self) -> Iterator[LogItem]:
        """Yield the changes of tables that nothing in the log shows."""
        at = self._at
        high, low = sequence_of(epoch=self._epoch, lsn=at.lsn)
        found = self._schemas.found_out(at, (high, low))
        if found is not None:
            yield Statement(
                statement=found,
                text="",
                database="",
                valid_from=(high, low),
                position=at,
                begin=at,
                note={"lsn": lsn_text(at.lsn), FOUND_OUT: True},
                where=lsn_text(at.lsn),
                source=PostgresContext(
                    database=self._database, lsn=at.lsn, source_ts_us=at.ts_us, now_us=at.ts_us, sequence_high=high, sequence_low=low
                ),
            )

    def _statement(self, event: LogEvent, change: RelationChanged | MadeAgain | Truncated) -> Statement:
        high, low = self._sequence(event)
        return Statement(
            statement=change,
            text="",
            database="",
            valid_from=(high, low),
            position=event.position,
            begin=event.position,
            note=_note_of(event, change),
            where=lsn_text(event.lsn),
            source=self._context(event),
        )


def _note_of(event: LogEvent, change: RelationChanged | MadeAgain | Truncated) -> dict[str, object]:
    note: dict[str, object] = {"lsn": lsn_text(event.lsn)}
    if isinstance(change, RelationChanged) and change.asked is not None:
        note[ASKED] = list(change.asked)
    return note


def _only_keepalives(data: bytes) -> bool:
    """Return True if the messages contain nothing of the log. Each message follows its length."""
    at = 0
    while at < len(data):
        if data[at + 4 : at + 5] != b"k":
            return False
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return True


def _watermark_of(prefix: str, content: bytes) -> tuple[str, str] | None:
    """Return (name, token) of a message that is a watermark. Return None for any other, since
    others may use the prefix too.
    """
    if prefix != WATERMARK_PREFIX:
        return None
    try:
        found = json.loads(content)
    except ValueError:
        return None
    if isinstance(found, list) and len(found) == _TOKENS and all(isinstance(text, str) for text in found):
        return found[0], found[1]
    return None
