"""The records that undo a prepared XA transaction, made when the log has its XA ROLLBACK.

A second log connection reads the transaction from its beginning to its XA PREPARE. The inverse of
each event is sent at the position of the XA ROLLBACK, the last event first. Until that position the
transaction held the locks of its rows, so nobody else changed them, and the row that the log shows
before a change is the current row again. A later change of a row comes after the XA ROLLBACK in the
log. So folding the records by key gives the table, without reading it. # I2 I3

Up to BYTES_MAX of events wait in memory, because the first one is needed last. # I6

CannotTakeBackError is raised if there are more, if the log is purged or of another server, if its
images lack the rows before a change, or if a table's schema has changed. Then only a dump helps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from dblog.clock import Clock
from dblog.codecs.rowplan import PartialImageError, RowEncoder
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.event_types import EventType
from dblog.dialects.mysql.binlog.inverse_rows import inverse_rows
from dblog.dialects.mysql.binlog.items import LOOK_AHEAD, IgnoredForNow, LogEvent, LogOffset, RowsParked
from dblog.dialects.mysql.binlog.offset import schema_position
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.task.endings import Endings
from dblog.dialects.mysql.task.lookahead import SILENCE_MAX_S, SecondLogs
from dblog.dialects.mysql.task.prepared import RolledBack, xid_of_event
from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId
from dblog.readers.contract import TableResolver
from dblog.readers.items import LogRows

BYTES_MAX = 1 << 24
ROWS_MAX = 1_000_000
"""The most rows that are undone, so that each has a number at the position of the XA ROLLBACK,
where ``source.sequence`` has room for eight million.
"""


READ_BYTES_MAX = 1 << 28
"""The most bytes of log that are read, including rows of other tables. The task's log waits
meanwhile.
"""

_TOO_LONG = f"it has more than {BYTES_MAX >> 20} MiB of rows of captured tables in the log, or {READ_BYTES_MAX >> 20} MiB in all"


class CannotTakeBackError(DefiniteError):
    """An error with the reason why the log alone cannot undo the transaction."""


class UndoXa:
    """The undoing of transactions for one task, used by its log thread. It ends once ``stopped`` is
    set.
    """

    def __init__(self, logs: SecondLogs, endings: Endings, resolve: TableResolver, *, stopped: threading.Event, clock: Clock) -> None:
        self._logs = logs
        self._endings = endings
        self._resolve = resolve
        self._stopped = stopped
        self._clock = clock

    def records(self, rolled: RolledBack, tables: AbstractSet[TableId], at: LogEvent, *, epoch: int) -> Iterator[LogRows]:
        """Yield the records of these tables, in the order to send them; ``at`` is the XA ROLLBACK.
        Raise CannotTakeBackError, perhaps after some records.
        """
        begin = rolled.begin
        if begin is None or begin.epoch != epoch:
            raise CannotTakeBackError("its rows were read on another server, or by an earlier version")
        try:
            found = self._read(begin.file, begin.pos, rolled.xid, tables)
            encoders = self._encoders(found, at.position, epoch=epoch)
            first = 0
            while found:
                event = found.pop()
                encoder = encoders[_map_of(event)]
                version, op = events.rows_kind(event.type_code)
                inverse, body, rows = inverse_rows(encoder.plan, op, event.body, version=version)
                if first + rows > ROWS_MAX:
                    raise CannotTakeBackError(f"it has changed more than {ROWS_MAX} rows")
                keys, values, headers = encoder.encode_rows(inverse, body, self._context(at, first=first), version=2)
                first += rows
                yield LogRows(
                    segments=[(encoder, keys, values, headers)],
                    records=len(keys),
                    bytes=sum(len(part) for part in (*keys, *values) if part is not None),
                    source_ts_us=at.source_ts_us or None,
                    position=at.position,
                    moves=False,
                )
        except CannotTakeBackError:
            raise
        except PartialImageError as e:
            raise CannotTakeBackError("the log does not have all columns of the rows that it has changed (binlog_row_image)") from e
        except DefiniteError as e:
            raise CannotTakeBackError(str(e)) from e

    def _context(self, at: LogEvent, *, first: int) -> BinlogContext:
        return BinlogContext(
            file=at.file,
            pos=at.start_pos,
            server_id=at.server_id,
            source_ts_us=at.source_ts_us or at.timestamp_s * 1_000_000,
            now_us=self._clock.now_us(),
            sequence_high=at.sequence_high,
            sequence_low=at.sequence_low + first,
            gtid=at.gtid,
            thread=at.thread,
        )

    def _encoders(self, found: list[LogEvent], position: LogOffset, *, epoch: int) -> dict[bytes, RowEncoder]:
        """Return the encoder of each table map. A table that a prepared transaction has changed
        cannot be altered, so today's schema is that of its rows; any other is an error.
        """
        encoders: dict[bytes, RowEncoder] = {}
        for event in found:
            if _map_of(event) in encoders:
                continue
            assert event.table is not None, "rows come with their table map"
            encoder = self._resolve(event.table, schema_position(epoch=epoch, at=position), position)
            if encoder is None or isinstance(encoder, IgnoredForNow | RowsParked):
                raise CannotTakeBackError("the schema of a table that it has changed is not known")
            encoder.check_table_map(event.table)
            if not encoder.plan.skipped_operations.isdisjoint("cud"):
                raise CannotTakeBackError("skipped.operations leaves out records that would take rows back")
            encoders[_map_of(event)] = encoder
        return encoders

    def _read(self, file: str, pos: int, xid: str, tables: AbstractSet[TableId]) -> list[LogEvent]:
        """Return the transaction's rows events of these tables, in the order of the log."""
        asked, found = self._read_to_its_end(file, pos, xid, tables, None)
        # only after closing this connection: the server ends the older of two with one id
        if asked is not None:
            _, found = self._read_to_its_end(file, pos, xid, tables, self._endings.undone(asked, frozenset()))
        return found

    def _read_to_its_end(
        self, file: str, pos: int, xid: str, tables: AbstractSet[TableId], undone: Sequence[tuple[int, int]] | None
    ) -> tuple[LogOffset | None, list[LogEvent]]:
        """Return (None, the rows events). If the decoder asks which parts the transaction itself
        undoes, and ``undone`` is None, return (the position of the question, []).
        """
        connection = self._logs.open_second_log(file, pos)
        try:
            decoder = self._logs.rows_decoder(tables)
            decoder.start(file, pos, now_us=lambda: 0)
            found: list[LogEvent] = []
            size_bytes = read_bytes = 0
            heard_s = time.monotonic()
            while True:
                data = connection.recv(0.2)
                read_bytes += len(data)
                items = decoder.feed(data) if data else []
                while True:
                    for event in items:
                        if not isinstance(event, LogEvent):
                            continue
                        if event.type_code == LOOK_AHEAD:
                            if undone is None:
                                return event.position, []
                            decoder.told(undone)
                        elif event.type_code in events.ROWS_TYPES:
                            found.append(event)
                            size_bytes += len(event.body)
                        elif self._ends(event, file, pos, xid):
                            return None, found
                    if size_bytes > BYTES_MAX or read_bytes > READ_BYTES_MAX:
                        raise CannotTakeBackError(_TOO_LONG)
                    if not decoder.held:
                        break
                    items = decoder.feed(b"")
                if data:
                    heard_s = time.monotonic()
                if self._stopped.is_set() or time.monotonic() - heard_s > SILENCE_MAX_S:
                    message = f"the XA transaction that begins at {file}:{pos} could not be read again to its XA PREPARE"
                    raise TransientError(message)
        finally:
            connection.close()

    def _ends(self, event: LogEvent, file: str, pos: int, xid: str) -> bool:
        if event.type_code < 0:
            raise self._logs.end_of_log(event.type_code, event.body, f"{file}:{pos}")
        if event.type_code == EventType.XA_PREPARE and xid_of_event(event.body) == xid:
            return True
        if event.file != file or event.type_code == EventType.XA_PREPARE:
            raise CannotTakeBackError("another transaction is at its place in the log")
        return False


def _map_of(event: LogEvent) -> bytes:
    """Return the table map without its table id."""
    assert event.table is not None, "rows come with their table map"
    return event.table[6:]
