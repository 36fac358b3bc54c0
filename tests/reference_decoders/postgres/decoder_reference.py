"""Turns copy messages of a replication connection into finished rows and messages that need a
decision: the reference implementation.

Pure: it never blocks and does no I/O. Rows gather in batches. A message that may change how the
next ones are read comes out by itself, in order: a TRUNCATE, or a Relation, even one equal to the
last of its number, since the server repeats it after something has happened to the table. The
decoder stops after such a message until it is fed again.

A transaction that an earlier connection has taken in part comes again from its beginning, in the
same order. Its changes are skipped up to the last one that was taken. That one is recognized by
where it was written, because another publication gives more changes, or fewer. # I1
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import OLD_KEY_HEADER, Op, RowEncoder
from dblog.codecs.transactions import TransactionBorder, TransactionCounts, TransactionOrder
from dblog.core.moved_keys import is_enforced_by_row
from dblog.core.timeline import Position
from dblog.dialects.postgres.pgoutput import messages
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset, SignalRow
from dblog.dialects.postgres.pgoutput.messages import Relation
from dblog.dialects.postgres.pgoutput.position import lsn_text, sequence_of
from dblog.dialects.postgres.pgoutput.row_image import UNCHANGED, images, lacks_values
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError
from dblog.model import Headers, TableId
from dblog.readers.items import IgnoredForNow, LogCounts, LogRows, RowsParked

Resolve = Callable[[Relation, Position, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None]

_OPS: dict[bytes, Op] = {b"I": "c", b"U": "u", b"D": "d"}
_SIGNAL_COLUMNS = 3
_ROW_HEADER = 5
"""Length of a row message's header: a letter and the number of a table."""
_Message = TypeVar("_Message")


@dataclass(slots=True)
class _Table:
    """The treatment of a table's rows."""

    relation: Relation
    encoder: RowEncoder | None = None
    parked: bool = False
    asked: bool = False


class ReferenceLogDecoder:
    """The reference implementation of ``LogDecoder``; _fast.pyi explains the parameters."""

    def __init__(
        self,
        *,
        resolve: Resolve,
        committed: Callable[[int, int, frozenset[int]], None],
        database: str,
        records_max: int = 1000,
        bytes_max: int = 1 << 20,
        signal_tables: AbstractSet[TableId] = frozenset(),
        transactions: bool = False,
        fill: Callable[[TablePlan, bytes, int], bytes] | None = None,
        complete: Callable[[TablePlan, bytes, int], bytes | None] | None = None,
        settle: Callable[..., list[tuple[Op, bytes]]] | None = None,
    ) -> None:
        self._fill = fill
        self._complete = complete
        self._settle = settle
        self._resolve = resolve
        self._committed = committed
        self._database = database
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._signal_tables = signal_tables
        self._transactions = transactions
        self._relations: dict[int, _Table] = {}
        self.counts = LogCounts()
        self._data = b""
        self._pending: list[tuple[int, int]] = []
        self._pending_at = 0
        self._out: list[LogRows | LogEvent] = []
        self._segments: list[tuple[RowEncoder, list[bytes | None], list[bytes | None], dict[int, Headers]]] = []
        self._records = self._bytes = 0
        self._borders: list[TransactionBorder] = []
        self._lacking: dict[TableId, set[bytes]] = {}
        self._moved = self._stopped = self._leave_out = False
        self._source_ts_us = 0

    def start(self, at: LogOffset, *, epoch: int, now_us: Callable[[], int]) -> None:
        """Begin at an offset, as after connecting. The changes of its open transaction that were
        taken before give nothing.
        """
        self._lsn, self._epoch, self._now_us = at.lsn, epoch, now_us
        self._skip_commit, self._skip, self._skip_to = at.commit_lsn, at.event, (at.change_lsn, at.change)
        self._counted_before = at.transaction
        self._commit_lsn = self._event = self._xid = self._ts_us = 0
        self._change = (0, 0)
        self._origin: messages.Origin | None = None
        self._changed: set[int] = set()
        self._counts: TransactionCounts | None = None
        self._kind = ""

    @property
    def held(self) -> bool:
        """True if the last call stopped early and ``feed(b"")`` would continue."""
        return self._pending_at < len(self._pending)

    def forget_tables(self) -> None:
        """Ask for the encoder of each table again."""
        for table in self._relations.values():
            table.encoder, table.asked, table.parked = None, False, False

    def leave_out(self) -> None:
        """Skip the next row of a captured table: the one that raised BadRowsError."""
        self._leave_out = True

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        """Take more messages and return what is finished. The error of a message that cannot be
        handled is raised once nothing precedes it.
        """
        if data:
            self._data = self._data[self._pending[self._pending_at][0] - messages.HEADER.size :] + data if self.held else data
            self._pending, self._pending_at = list(messages.copy_messages(self._data)), 0
        self._out, self._stopped = [], False
        self._now = self._now_us()
        while self.held and not self._stopped:
            start, end = self._pending[self._pending_at]
            try:
                self._copy_message(start, end)
            except Exception:
                if not self._out and not self._records:
                    raise
                self._emit_batch()  # the next call reads the message again
                break
            self._pending_at += 1
        return self._out

    def flush(self) -> list[LogRows | LogEvent]:
        """Return everything that is pending; an item without segments if only the position has
        moved.
        """
        self._out = []
        if self._records or self._moved or self._borders:
            self._emit_batch(always=True)
        return self._out

    # ---- messages

    def _copy_message(self, start: int, end: int) -> None:
        data = self._data[start:end]
        match data[:1]:
            case b"w":
                if len(data) <= messages.XLOG_DATA.size:
                    raise self._damaged("a message without content")
                _, lsn, _, _ = messages.XLOG_DATA.unpack_from(data)
                self._message(data[messages.XLOG_DATA.size :], lsn)
                self.counts.bytes += len(data) - messages.XLOG_DATA.size
            case b"k":
                if len(data) < messages.KEEPALIVE.size:
                    raise self._damaged("a message that is cut off")
                _, lsn, _, _ = messages.KEEPALIVE.unpack_from(data)
                if not self._commit_lsn and lsn > self._lsn:
                    # Everything that ended before this LSN has been sent.
                    self._lsn, self._moved = lsn, True
                    self._skip = self._skip if lsn <= self._skip_commit else 0
            case _:
                raise self._damaged("a copy message of an unknown kind")

    def _message(self, data: bytes, lsn: int) -> None:
        letter = data[:1]
        match letter:
            case b"B":
                self._begin(self._read(messages.read_begin, data))
            case b"C":
                self._commit(self._read(messages.read_commit, data))
            case b"I" | b"U" | b"D":
                if len(data) < _ROW_HEADER:
                    raise self._damaged("a message that is cut off")
                self._row(_OPS[letter], int.from_bytes(data[1:_ROW_HEADER]), data[_ROW_HEADER:], lsn)
            case b"R":
                self._relation(self._read(messages.read_relation, data), lsn)
            case b"T":
                self._truncate(self._read(messages.read_truncate, data), lsn)
            case b"M":
                self._emitted(self._read(messages.read_message, data), lsn)
            case b"O":
                self._origin = self._read(messages.read_origin, data)
            case b"Y":
                pass  # the name of a type, which the catalog has too
            case _:
                raise self._damaged(f"a message of the unknown kind {letter!r}")

    def _read(self, read: Callable[[bytes, int], _Message], data: bytes) -> _Message:
        """Return the content after a message's letter."""
        try:
            return read(data, 1)
        except (ValueError, IndexError, struct.error) as e:
            raise self._damaged("a message that is cut off") from e

    def _begin(self, begin: messages.Begin) -> None:
        self._commit_lsn, self._xid, self._ts_us = begin.commit_lsn, begin.xid, begin.ts_us
        self._event, self._change, self._origin = 0, (0, 0), None
        self._changed = set()
        if begin.commit_lsn != self._skip_commit:
            self._skip = 0
        self._counts = None
        if self._transactions:
            self._counts = TransactionCounts(f"{begin.xid}:{begin.commit_lsn}")
            if self._skip and self._counted_before is not None:
                self._counts = self._counted_before.copy()
            elif not self._skip:
                self._borders.append(TransactionBorder(self._counts.id, begin.ts_us))

    def _commit(self, commit: messages.Commit) -> None:
        if not self._commit_lsn:
            raise self._damaged("a commit without a transaction")
        self._committed(self._xid, self._commit_lsn, frozenset(self._changed))
        if self._counts is not None:
            self._borders.append(TransactionBorder(self._counts.id, commit.ts_us, dict(self._counts.tables)))
        self._lsn, self._moved = commit.end_lsn, True
        self._commit_lsn = self._skip = self._event = 0
        self._counts = None
        self.counts.commits += 1
        self._source_ts_us = commit.ts_us

    def _relation(self, relation: Relation, lsn: int) -> None:
        known = self._relations.get(relation.number)
        if known is None or known.relation != relation:
            self._relations[relation.number] = _Table(relation)
        self._event_out(relation, lsn, taken=False)

    def _truncate(self, truncate: messages.Truncate, lsn: int) -> None:
        self._changed.update(truncate.relations)
        if self._was_taken(lsn):
            self._take(lsn)
            return
        self._kind = "TRUNCATE"
        self._event_out(truncate, lsn, taken=True)

    def _emitted(self, message: messages.Message, lsn: int) -> None:
        if not message.transactional and not self._commit_lsn:
            self._emit_batch()
            self._kind = "MESSAGE"
            position = self._offset() if self._skip else LogOffset(lsn=self._lsn, kind="MESSAGE")
            self._out.append(
                LogEvent(message=message, lsn=lsn, commit_lsn=lsn, number=1, xid=0, ts_us=self._source_ts_us, position=position)
            )
            return
        if self._was_taken(lsn):
            self._take(lsn)
            return
        self._kind = "MESSAGE"
        self._event_out(message, lsn, taken=True)

    def _numbered(self, lsn: int) -> tuple[int, int]:
        """Return the identity of a change in its transaction: the LSN at which it was written, and
        its number there. One record of the server's log may hold several rows.
        """
        return lsn, self._change[1] + 1 if lsn == self._change[0] else 1

    def _was_taken(self, lsn: int) -> bool:
        """Return True if an earlier connection has taken the transaction's next change, which was
        written at ``lsn``. Changes of a transaction come in the order of these LSNs.
        """
        if not self._skip:
            return False
        if self._numbered(lsn) <= self._skip_to if self._skip_to[0] else self._event < self._skip:
            return True
        # The last change that was taken is not published any more.
        self._event, self._change, self._skip = self._skip, self._skip_to, 0
        return False

    def _take(self, lsn: int) -> None:
        """Count a change of the transaction. Numbers continue after those given before, and none is
        given twice. # I2
        """
        self._change = self._numbered(lsn)
        self._event += 1
        if not self._skip:
            return
        if self._change == self._skip_to or (not self._skip_to[0] and self._event == self._skip):
            self._event, self._skip = self._skip, 0
        else:
            self._event = min(self._event, self._skip - 1)

    def _event_out(self, message: Relation | messages.Truncate | messages.Message | SignalRow, lsn: int, *, taken: bool) -> None:
        """Emit a message by itself, after the rows that precede it. ``taken`` is True if it counts
        as a change.
        """
        self._emit_batch()
        number = self._event + 1
        if taken:
            self._take(lsn)
        self._out.append(
            LogEvent(
                message=message,
                lsn=lsn or self._commit_lsn,  # a Relation message has no LSN
                commit_lsn=self._commit_lsn or self._lsn,
                number=number,
                xid=self._xid,
                ts_us=self._ts_us,
                position=self._offset(),
            )
        )
        self._stopped = not isinstance(message, messages.Message)

    # ---- rows

    def _row(self, op: Op, number: int, body: bytes, lsn: int) -> None:
        if not self._commit_lsn:
            raise self._damaged("a row outside of a transaction")
        table = self._relations.get(number)
        if table is None:
            raise self._damaged(f"a row of table number {number} without its Relation message")
        was_taken = self._was_taken(lsn)
        if not table.asked:
            self._ask(table)
        encoder = table.encoder
        self._changed.add(number)
        if was_taken or encoder is None or self._leave_out:
            self._leave_out = self._leave_out and (was_taken or encoder is None)
            if was_taken and encoder is not None:
                self._settled(op, encoder, body, taken=True)
            if not was_taken and encoder is None and TableId(table.relation.schema, table.relation.name) in self._signal_tables:
                self._signal(op, table, body, lsn)
                return
            self._take(lsn)
            if not was_taken and encoder is None:
                self.counts.parked += table.parked
                self.counts.other_tables += not table.parked
                self._moved = True
            return
        try:
            for op_sent, body_sent in self._settled(op, encoder, body, taken=False):
                self._encode(op_sent, encoder, body_sent, lsn)
        except BadRowsError:
            raise
        except DefiniteError as e:
            message = f"{e} (transaction {self._xid}, committed at {lsn_text(self._commit_lsn)})"
            raise BadRowsError(message) from e
        self._take(lsn)
        self._moved = True
        if self._records >= self._records_max or self._bytes >= self._bytes_max:
            self._emit_batch()

    def _settled(self, op: Op, encoder: RowEncoder, body: bytes, *, taken: bool) -> list[tuple[Op, bytes]]:
        """Return the changes to send instead of one."""
        if self._settle is None or is_enforced_by_row(encoder.plan):
            return [(op, body)]
        return self._settle(encoder.plan, op, body, self._xid, self._commit_lsn, self._event + 1, taken=taken)

    def _ask(self, table: _Table) -> None:
        position = sequence_of(epoch=self._epoch, lsn=self._commit_lsn, number=self._event + 1)
        encoder = self._resolve(table.relation, position, self._offset())
        table.asked = not isinstance(encoder, IgnoredForNow)
        table.parked = isinstance(encoder, RowsParked)
        table.encoder = None if isinstance(encoder, IgnoredForNow | RowsParked) else encoder

    def _signal(self, op: Op, table: _Table, body: bytes, lsn: int) -> None:
        _, after, _ = images(op, body)
        if op != "c" or after is None:
            self._take(lsn)
            return
        fault = None
        texts: list[str | None] = [None] * _SIGNAL_COLUMNS
        if len(after) < _SIGNAL_COLUMNS:
            fault = f"{table.relation.schema}.{table.relation.name} is no signal table: it needs three columns of text, id, type and data"
        else:
            texts = [None if field is None or field is UNCHANGED else field.decode("utf-8", "replace") for field in after[:_SIGNAL_COLUMNS]]
        self._event_out(SignalRow((texts[0], texts[1], texts[2]), fault), lsn, taken=True)

    def _encode(self, op: Op, encoder: RowEncoder, body: bytes, lsn: int) -> None:
        if self._fill is not None and op == "u" and body[:1] == b"K":
            body = self._fill(encoder.plan, body, self._xid)
        lacks = op == "u" and lacks_values(encoder.plan, body)
        if lacks and self._complete is not None and (complete := self._complete(encoder.plan, body, self._xid)) is not None:
            body, lacks = complete, False
        high, low = sequence_of(epoch=self._epoch, lsn=self._commit_lsn, number=self._event + 1)
        context = PostgresContext(
            database=self._database,
            xid=self._xid,
            lsn=lsn,
            origin=None if self._origin is None else self._origin.name,
            origin_lsn=None if self._origin is None else self._origin.lsn,
            source_ts_us=self._ts_us,
            now_us=self._now,
            sequence_high=high,
            sequence_low=low,
            transaction=self._order_of(encoder),
        )
        keys, values, headers = encoder.encode_rows(op, body, context)
        if keys and lacks and (key := keys[-1]) is not None:
            self._lacking.setdefault(encoder.plan.table.id, set()).add(key)
        self._kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[op]
        self._count(op, encoder, keys, values, headers)
        if not keys:
            return
        segment = next((s for s in reversed(self._segments) if s[0].plan.topic == encoder.plan.topic), None)
        # Rows of a topic never overtake those of another table in it. # I2
        if segment is None or segment[0] is not encoder:
            self._segments.append((encoder, [], [], {}))
            segment = self._segments[-1]
        segment[3].update({len(segment[1]) + index: header for index, header in headers.items()})
        segment[1].extend(keys)
        segment[2].extend(values)
        self._records += len(keys)
        self._bytes += sum(len(part) for part in (*keys, *values) if part is not None)

    def _order_of(self, encoder: RowEncoder) -> TransactionOrder | None:
        if self._counts is None:
            return None
        tables = self._counts.tables
        return TransactionOrder(self._counts.id, sum(tables.values()), tables.get(str(encoder.plan.table.id), 0))

    def _count(
        self, op: Op, encoder: RowEncoder, keys: list[bytes | None], values: list[bytes | None], headers: dict[int, Headers]
    ) -> None:
        records = sum(value is not None for value in values)
        if self._counts is not None and records:
            table = str(encoder.plan.table.id)
            self._counts.tables[table] = self._counts.tables.get(table, 0) + records
        rows = records
        if "d" not in encoder.plan.skipped_operations:  # a changed key gives a delete and a create
            rows -= sum(header[0][0] == OLD_KEY_HEADER for header in headers.values())
        if not keys:
            skipped = op in encoder.plan.skipped_operations
            self.counts.skipped_operations += skipped
            self.counts.unchanged += not skipped
        elif op == "c":
            self.counts.created += rows
        elif op == "u":
            self.counts.updated += rows
        else:
            self.counts.deleted += rows

    # ---- output

    def _offset(self) -> LogOffset:
        if self._skip:  # no new change has come yet of the transaction that was taken in part
            return LogOffset(
                lsn=self._lsn,
                commit_lsn=self._skip_commit,
                event=self._skip,
                change_lsn=self._skip_to[0],
                change=self._skip_to[1],
                xid=self._xid,
                ts_us=self._ts_us,
                kind=self._kind,
                transaction=None if self._counted_before is None else self._counted_before.copy(),
            )
        open_ = self._commit_lsn and self._event
        return LogOffset(
            lsn=self._lsn,
            commit_lsn=self._commit_lsn if open_ else 0,
            event=self._event if open_ else 0,
            change_lsn=self._change[0] if open_ else 0,
            change=self._change[1] if open_ else 0,
            xid=self._xid,
            ts_us=self._ts_us,
            kind=self._kind,
            transaction=None if self._counts is None or not open_ else self._counts.copy(),
        )

    def _emit_batch(self, *, always: bool = False) -> None:
        if not self._records and not self._borders and not always:
            return
        self._out.append(
            LogRows(
                segments=self._segments,
                records=self._records + len(self._borders),
                bytes=self._bytes,
                source_ts_us=self._ts_us or None,
                position=self._offset(),
                borders=tuple(self._borders),
                lacking=self._lacking,
            )
        )
        self._segments, self._borders, self._lacking = [], [], {}
        self._records = self._bytes = 0
        self._moved = False

    def _damaged(self, what: str) -> DamagedLogError:
        return DamagedLogError(f"the server sent {what}, behind {lsn_text(self._lsn)}")
