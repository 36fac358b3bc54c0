"""The rereading of rows from the table, for events of the log that lack columns
(dblog.row.image.missing=reread), on connections of its own.

A log reader can see an event before a SELECT on the server can see its change. So a watermark is
committed after the event's bytes have arrived, and the rows are read in a snapshot that shows this
watermark. Commits become visible in the order of the log, so the snapshot has the change, or a
later one. One watermark serves everything that had arrived before it. # I2

A row is then as it was at its event, or newer. Newer changes follow in the log, so the state at the
end of the log is right. # I3

The table may have been altered since. In the snapshot's transaction, whose SELECT locks the table's
definition, it is compared with the definition at the event. If names and types differ, the rows are
left out and the table has to be dumped again. So a value never comes from another column. # I4
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from dblog.codecs.rowplan import NEW_KEY_HEADER, OLD_KEY_HEADER, ReadOp, Records, RowEncoder
from dblog.codecs.transactions import TransactionOrder
from dblog.dialects.idle_session import SESSION_IDLE_S
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.items import LogEvent
from dblog.dialects.mysql.binlog.minimal_images import Key, Minimal, read_minimal, slices
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.catalog import sql
from dblog.errors import BadRowsError, DefiniteError, TableChangedError
from dblog.model import Column, Headers, Table, TableId
from dblog.ports import DumpConnection
from dblog.readers.contract import TaskContext
from dblog.readers.dump.proof import read_behind_watermark

KEYS_MAX = 128
"""The most keys of one SELECT."""

BYTES_MAX = 8 << 20
"""Bytes that are read before they are sent. If more than one row exceeds them, the keys are read
again in halves. # I6
"""

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})


@dataclass(slots=True, eq=False)
class _Slice:
    """Some keys of one event. ``rows``: their packets once read, None before; ``changed``: the
    table was altered since.
    """

    encoder: RowEncoder
    op: ReadOp
    keys: tuple[Key, ...]
    moved: bool
    rows: bytes | None = None
    changed: bool = False


@dataclass(slots=True, eq=False)
class _Work:
    """An event that lacks columns: the part that the log shows, and the rows to read."""

    minimal: Minimal
    slices: list[_Slice] = field(default_factory=list)


class Tables(Protocol):
    """The tables of the task's server, as they are now."""

    def open_chunks(self) -> DumpConnection:
        """Open connections for rows and watermarks."""

    def table_now(self, table: TableId) -> Table | None:
        """Return the table's current definition, or None if it is gone."""


class Reread:
    """The reader of one task, used on the log thread; other threads may call ``close``."""

    def __init__(self, tables: Tables, context: TaskContext) -> None:
        self._tables = tables
        self._retrying = context.retrying
        self._name = f"{context.watermark_name}/read"
        self._run = context.run
        self._stopped = context.stopped
        self._clock = context.clock
        self._connection: DumpConnection | None = None
        self._used_s = 0.0
        self._number = 0
        self._token: str | None = None
        self._expected: dict[int, _Work | DefiniteError] = {}

    def received(self) -> None:
        """Note that more of the log has arrived, for which the last watermark is no proof."""
        self._token = None

    def close_idle(self) -> None:
        """Close the connections if nothing was read for a while. The next rows that lack columns
        open them again.
        """
        if self._connection is not None and time.monotonic() - self._used_s >= SESSION_IDLE_S:
            self.close()

    def expect(self, found: Iterable[LogEvent]) -> None:
        """Announce the next events, in order, so that their rows can be read together."""
        self._expected = {}
        for event in found:
            try:
                self._expected[id(event)] = _work_of(event)
            except DefiniteError as e:
                self._expected[id(event)] = e

    def records(self, event: LogEvent, *, read: bool) -> Iterator[Records]:
        """Yield the event's records, in parts that may be sent one by one; ``read`` False leaves
        out rows that only the table has.

        Raise BadRowsError if the event cannot be used, and TableChangedError at the end if the
        table was altered since and must be dumped again.
        """
        work = self._expected.pop(id(event))
        if isinstance(work, DefiniteError):
            message = f"{work} (event at {event.file}:{event.start_pos})"
            raise BadRowsError(message) from work
        encoder = event.encoder
        assert encoder is not None, "only events that lack columns are read again"
        sent = 0
        if work.minimal.gone is not None:
            gone = encoder.encode_rows("d", work.minimal.gone, self._context(event, first=0, sent=sent), version=2)
            sent += counted(gone[1])
            yield gone
        headers: dict[bytes | None, Headers] = {}
        if work.minimal.moved is not None:
            deletes, headers = self._moved(event, encoder, work.minimal)
            sent += counted(deletes[1])
            yield deletes
        changed, first = False, work.minimal.rows
        while read and work.slices:
            if work.slices[0].rows is None and not work.slices[0].changed:
                self._retrying(lambda: self._read(work))
                continue
            part = work.slices.pop(0)
            changed = changed or part.changed
            if part.rows:
                keys, values, _, _ = encoder.encode_chunk(part.rows, self._context(event, first=first, sent=sent), frozenset(), part.op)
                first += len(keys)
                sent += len(keys)
                yield keys, values, {i: headers[key] for i, key in enumerate(keys) if part.moved and key in headers}
        if changed:
            message = f"{encoder.plan.table.id} has been altered since the event at {event.file}:{event.start_pos}, whose rows lack columns"
            raise TableChangedError(message)

    def close(self) -> None:
        """Close the connection, from any thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _moved(self, event: LogEvent, encoder: RowEncoder, minimal: Minimal) -> tuple[Records, dict[bytes | None, Headers]]:
        """Return the deletes of rows whose key has changed, and the headers of the rows that follow
        for them, by their new key.

        If transactions are counted, rows are encoded one by one: the discarded creates would leave
        gaps.
        """
        assert minimal.moved is not None
        if event.transaction is None:
            return _parted(encoder.encode_rows("u", minimal.moved, self._context(event, first=0, sent=0), version=2))
        out: Records = ([], [], {})
        new: dict[bytes | None, Headers] = {}
        for number, end in enumerate(minimal.moved_ends):
            context = self._context(event, first=0, sent=number)
            (keys, values, headers), more = _parted(encoder.encode_rows("u", minimal.moved[:end], context, version=2, skip_rows=number))
            out[2].update({len(out[0]) + index: header for index, header in headers.items()})
            out[0].extend(keys)
            out[1].extend(values)
            new |= more
        return out, new

    def _context(self, event: LogEvent, *, first: int, sent: int) -> BinlogContext:
        """Return the context of records. ``first`` is the row's number in its event; ``sent`` is
        the number of the event's records that are counted already.
        """
        order = event.transaction
        return BinlogContext(
            file=event.file,
            pos=event.start_pos,
            server_id=event.server_id,
            source_ts_us=event.source_ts_us or event.timestamp_s * 1_000_000,
            now_us=self._clock.now_us(),
            sequence_high=event.sequence_high,
            sequence_low=event.sequence_low + first,
            gtid=event.gtid,
            thread=event.thread,
            transaction=None if order is None else TransactionOrder(order.id, order.total + sent, order.of_table + sent),
        )

    def _read(self, now: _Work) -> None:
        """Read the rows of this event, and those of the next ones as far as they fit."""
        try:
            self._read_together([now, *(work for work in self._expected.values() if isinstance(work, _Work))])
        except BaseException:
            self.close()
            raise

    def _read_together(self, works: list[_Work]) -> None:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._tables.open_chunks()
        self._used_s = time.monotonic()
        if self._token is None:
            self._number += 1
            token = f"{self._run}-read/{self._number}/now"
            connection.write_watermark(self._name, token)
            self._token = token
        read_behind_watermark(
            connection,
            lambda: self._read_slices(connection, works),
            watermark=self._name,
            token=self._token,
            wanted_for="to read rows again",
            stopped=self._stopped,
        )

    def _read_slices(self, connection: DumpConnection, works: list[_Work]) -> None:
        fits: dict[int, bool] = {}
        size_bytes = 0
        for work in works:
            at = 0
            while at < len(work.slices) and size_bytes < BYTES_MAX:
                part = work.slices[at]
                at += 1
                if part.rows is not None or part.changed:
                    continue
                halves = self._read_slice(connection, part, fits)
                if halves:
                    work.slices[at - 1 : at] = halves
                    at -= 1
                size_bytes += len(part.rows or b"")

    def _read_slice(self, connection: DumpConnection, part: _Slice, fits: dict[int, bool]) -> list[_Slice]:
        """Read one slice. If its rows are too many, return the two slices to read instead."""
        table = part.encoder.plan.table
        # A few different lengths only, so that few statements are prepared.
        padding = (1 << (len(part.keys) - 1).bit_length()) - len(part.keys)
        keys = part.keys + part.keys[-1:] * padding
        text, parameters = sql.rows_by_key(table, keys)
        try:
            found = connection.select(text, parameters, bytes_max=BYTES_MAX, table=table.id)
        except TableChangedError:
            part.changed = True
            return []
        if id(part.encoder) not in fits:
            fits[id(part.encoder)] = same_columns(table, self._tables.table_now(table.id))
        if not fits[id(part.encoder)]:
            part.changed = True
        elif len(found.rows) > BYTES_MAX and len(part.keys) > 1:
            middle = len(part.keys) // 2
            return [_Slice(part.encoder, part.op, keys, part.moved) for keys in (part.keys[:middle], part.keys[middle:])]
        else:
            part.rows = connection.complete(found, table, None, keys=keys).rows
        return []


def same_columns(then: Table, now: Table | None) -> bool:
    """Return whether every column of a table version still exists with its name and type; further
    columns may have been added.
    """
    if now is None:
        return False
    pairs = [(column, now.column(column.name)) for column in then.columns if not column.hidden]
    return all(other is not None and _shape(column) == _shape(other) and _same_members(column, other) for column, other in pairs)


def _shape(column: Column) -> tuple[object, ...]:
    width = None if column.type in _INTEGERS else column.length
    return (column.type, column.unsigned, width, column.scale, column.charset, column.generated)


def _same_members(then: Column, now: Column) -> bool:
    """Return whether both have the same members. The catalog shows a question mark for a character
    that it cannot show; the log's metadata has the character.
    """
    return len(then.members) == len(now.members) and all(
        one == other or "?" in other for one, other in zip(then.members, now.members, strict=True)
    )


def _work_of(event: LogEvent) -> _Work:
    encoder = event.encoder
    assert encoder is not None, "only events that lack columns are read again"
    version, op = events.rows_kind(event.type_code)
    minimal = read_minimal(encoder.plan, op, event.body, version=version)
    if op in encoder.plan.skipped_operations:
        return _Work(Minimal(op=minimal.op, rows=minimal.rows))
    moved = [_Slice(encoder, "c", keys, moved=True) for keys in slices(minimal.read_moved, KEYS_MAX)]
    return _Work(minimal, [*moved, *(_Slice(encoder, minimal.op, keys, moved=False) for keys in slices(minimal.read, KEYS_MAX))])


def counted(values: Iterable[bytes | None]) -> int:
    """Return the number of records that count in their transaction: all except tombstones."""
    return sum(value is not None for value in values)


def _parted(records: Records) -> tuple[Records, dict[bytes | None, Headers]]:
    """Return the deletes of changed keys, and the headers of their creates, which are left out."""
    keys, values, headers = records
    out: Records = ([], [], {})
    new: dict[bytes | None, Headers] = {}
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        names = {name for name, _ in headers.get(index, [])}
        if NEW_KEY_HEADER in names:
            out[2][len(out[0])] = headers[index]
            out[0].append(key)
            out[1].append(value)
        elif OLD_KEY_HEADER in names:
            new[key] = headers[index]
    return out, new
