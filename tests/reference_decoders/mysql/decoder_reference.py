"""The reference implementation of the extension's LogDecoder: the same items from the same bytes,
written for reading.

A binlog connection sends packets. Each has one event, or a part of an event longer than 16 MiB. The
events of a transaction lie between its GTID (and BEGIN) and its XID or COMMIT. The decoder follows
this frame to know where reading could continue after a restart, and returns rows of captured tables
as finished records. Tests use it as the oracle, and it reads what the fast decoder refuses.

Rule sources: MySQL internals "Binary Log Event", libs/mysql/binlog/event, MariaDB knowledge base
"Replication Protocol", Debezium's offset rules (BinlogOffsetContext).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Literal, TypeVar
from zlib import crc32

from dblog.codecs.rowplan import OLD_KEY_HEADER, MissingColumnsError, Op, RowEncoder
from dblog.codecs.transactions import TransactionBorder, TransactionCounts, TransactionOrder
from dblog.dialects.mysql.binlog import unpacking
from dblog.dialects.mysql.binlog.event_types import EventType
from dblog.dialects.mysql.binlog.items import (
    EOF_PACKET,
    ERR_PACKET,
    EVENT_BYTES_MAX,
    LOOK_AHEAD,
    LOOK_AHEAD_BYTES_MAX,
    IgnoredForNow,
    LogCounts,
    LogEvent,
    LogOffset,
    LogRows,
    RowsParked,
)
from dblog.dialects.mysql.binlog.row_image import leaves_values_out
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.binlog.undone import Undone
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError
from dblog.model import TableId

Part = TypeVar("Part")

_HEADER, _CHECKSUM, _PACKET_MAX = 19, 4, 0xFFFFFF
_ROWS: dict[int, tuple[int, Op]] = {
    EventType.WRITE_ROWS_V1: (1, "c"),
    EventType.UPDATE_ROWS_V1: (1, "u"),
    EventType.DELETE_ROWS_V1: (1, "d"),
    EventType.WRITE_ROWS: (2, "c"),
    EventType.UPDATE_ROWS: (2, "u"),
    EventType.DELETE_ROWS: (2, "d"),
}
_ROWS_COMPRESSED: dict[int, int] = {
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_LEFT_OUT = frozenset({EventType.TABLE_MAP, EventType.PARTIAL_UPDATE_ROWS, *_ROWS, *_ROWS_COMPRESSED})
"""Rows events and table maps. Leaving one out of a log loses its rows and nothing else."""
_UPDATES = frozenset({EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS})
_INFLATED_MAX = 1 << 22
"""Bytes unpacked from compressed events after which the caller gets control."""
_OF_NO_MEANING = frozenset(
    {
        EventType.STOP,
        EventType.PREVIOUS_GTIDS,
        EventType.TRANSACTION_CONTEXT,
        EventType.VIEW_CHANGE,
        EventType.MARIADB_BINLOG_CHECKPOINT,
        EventType.MARIADB_GTID_LIST,
    }
)
_OUTSIDE = frozenset(
    {
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
        EventType.ROTATE,
        EventType.FORMAT_DESCRIPTION,
        EventType.STOP,
    }
)
"""Events that are never inside a transaction."""
_HEARTBEATS = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_IN_USE, _ARTIFICIAL, _STANDALONE, _DUMMY_TABLE, _TAG_MAX = 0x01, 0x20, 1, 0xFFFFFF, 32
_GROUP_COMMIT_ID, _COMPLETED_XA = 2, 128
_START_ALTER, _ROLLBACK_ALTER = 2, 8
"""Extra flags of MariaDB's GTID event."""
_STATEMENTS = 1
"""A flag of MySQL's GTID event: the transaction may contain more than rows, so its rows may be
undone.
"""
_PREPARED_XA = 64
"""A flag of MariaDB's GTID event: an XA transaction. Its rows may be undone, so they come in items
of their own after this event.
"""
_LAST_TAGGED_FIELD = 11
_SILENCE_BYTES_MAX, _RANGES_MAX = 1 << 24, 4096
_TIME_BITS = 53
"""The most bits of a time in microseconds, so that nanoseconds fit 63 bits: until the year 2255."""
_POSITION_BITS = 40
"""The most bits of a position. Shifted by 23 for ``source.sequence`` (D7) it must fit 63 bits."""


@dataclass(slots=True)
class _Event:
    timestamp: int
    type_code: int
    server_id: int
    flags: int
    start: int
    next: int
    body: bytes
    low: int = -1
    """The second number of ``source.sequence`` of row 0 (D7)."""

    def __post_init__(self) -> None:
        if self.low < 0:
            self.low = self.start << 23


@dataclass(slots=True)
class _Table:
    """A table map without its table id, and the use of its rows."""

    body: bytes
    passed: bool = False
    encoder: RowEncoder | None = None
    parked: bool = False
    kept: bool = True
    """False to resolve the next table map of the same bytes again."""


@dataclass(slots=True)
class _Payload:
    """A compressed transaction that is being read: its place in the file, and the start of the next
    event in the unpacked bytes.
    """

    reader: unpacking.Payload
    start: int
    next: int
    buffer: bytes = b""
    inner_start: int = 0


@dataclass(slots=True)
class _Gtid:
    text: str
    key: tuple[str, str] | int
    number: int
    server_id: int = 0


class ReferenceLogDecoder:
    """A decoder in plain Python. ``_fast.pyi`` has the contract of each method."""

    def __init__(
        self,
        *,
        flavor: Literal["mysql", "mariadb"],
        resolve: Callable[[bytes, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None],
        checksum: bool = True,
        records_max: int = 1000,
        bytes_max: int = 1 << 20,
        pass_through: AbstractSet[tuple[str, str]] = frozenset(),
        keep_query: bool = False,
        gtid_included: Callable[[str], bool] | None = None,
        gives_partial: bool = False,
        spool: Callable[[], BinaryIO] | None = None,
        transactions: bool = False,
        event_bytes_max: int = EVENT_BYTES_MAX,
        look_ahead_bytes_max: int = LOOK_AHEAD_BYTES_MAX,
        ends: bool = False,
    ) -> None:
        self._event_bytes_max = event_bytes_max
        self._look_ahead_bytes_max = look_ahead_bytes_max
        self._ends = ends
        self._transactions = transactions
        self._mariadb = flavor == "mariadb"
        self._resolve = resolve
        self._checksum_at_start = checksum
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._pass_through = pass_through
        self._keep_query = keep_query
        self._gtid_included = gtid_included
        self._gives_partial = gives_partial
        del spool  # the reference keeps everything in memory
        self.counts = LogCounts()
        self._tables: dict[bytes, _Table] = {}
        self._by_id: dict[int, _Table] = {}
        self.start("", 4, now_us=lambda: 0)

    def start(
        self,
        file: str,
        pos: int,
        *,
        skip_events: int = 0,
        skip_rows: int = 0,
        epoch: int = 0,
        now_us: Callable[[], int],
        unreadable: AbstractSet[tuple[str, int]] = frozenset(),
        transaction: TransactionCounts | None = None,
    ) -> None:
        self._unreadable = unreadable
        self._resumed = transaction
        self._counts: TransactionCounts | None = None
        self._lacking: dict[TableId, set[bytes]] = {}
        self._total = 0
        self._ended = False
        self._borders: list[TransactionBorder] = []
        self._kind = 0
        self._buffer = b""
        self._stopped = False
        self._payload: _Payload | None = None
        self._packed = False
        self._inflated = 0
        self._leave_out = False
        self._looking = self._asked = self._off = self._void = False
        self._look_at = 0
        self._undone: Undone | None = None
        self._checksum = self._checksum_at_start
        self._epoch = epoch
        self._now_us = now_us
        self._now = 0
        self._file = file
        self._event_end = self._transaction = pos
        self._event_count = 0
        self._in_transaction = self._opened = False
        self._first_transaction = True
        self._skip_events, self._skip_rows = skip_events, skip_rows
        self._last: tuple[int, int] = (0, 0)
        self._gtid: _Gtid | None = None
        self._commit_us = 0
        self._thread: int | None = None
        self._query: str | None = None
        self._delta: list[list[Any]] = []
        self._items: list[LogRows | LogEvent] = []
        self._segments: list[tuple[RowEncoder, list[bytes | None], list[bytes | None], dict[int, Any]]] = []
        self._records = self._bytes = self._silent = 0
        self._source_ts_us: int | None = None
        self._moved = False

    def forget_tables(self) -> None:
        self._tables.clear()
        self._by_id.clear()

    def leave_out(self) -> None:
        self._leave_out = True

    def told(self, undone: Sequence[tuple[int, int]]) -> None:
        self._undone = Undone(self._transaction, undone) if undone else None
        self._looking = self._asked = False

    def count(self, encoder: RowEncoder, records: int) -> TransactionCounts | None:
        if self._counts is None:
            return None
        name = str(encoder.plan.table.id)
        if records:
            self._counts.tables[name] = self._counts.tables.get(name, 0) + records
            self._total += records
        return self._counts.copy()

    @property
    def held(self) -> bool:
        return self._stopped and not self._asked and (self._payload is not None or bool(self._buffer))

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        self._now = self._now_us()
        self._stopped = False
        self._buffer += data
        try:
            while not self._stopped:
                if self._payload is not None:
                    self._packed_event(self._payload)
                    continue
                if self._looking:
                    if not self._look():
                        break
                    continue
                packet = self._next_packet()
                if packet is None:
                    break
                payload, end = packet
                self._packet(payload)
                self._buffer = self._buffer[end:]
        except BaseException:
            self._stopped = True
            self._emit_batch()
            if not self._items:
                raise
        if self._off:
            self._buffer = b""
        return self._taken()

    def flush(self) -> list[LogRows | LogEvent]:
        self._emit_batch(always=self._moved)
        return self._taken()

    def _taken(self) -> list[LogRows | LogEvent]:
        items, self._items = self._items, []
        return items

    def _next_packet(self) -> tuple[bytes, int] | None:
        """Return the next whole payload and the offset after it in the buffer; None if it has not
        arrived.
        """
        parts, at, total = [], 0, 0
        while at + 4 <= len(self._buffer):
            length = int.from_bytes(self._buffer[at : at + 3], "little")
            total += length
            if total > self._event_bytes_max:
                self._kind = 0
                raise self._damaged(f"an event of more than {self._event_bytes_max} bytes")
            if at + 4 + length > len(self._buffer):
                return None
            parts.append(self._buffer[at + 4 : at + 4 + length])
            at += 4 + length
            if length < _PACKET_MAX:
                return b"".join(parts), at
        return None

    # --- the search for the end of the open transaction -------------------------------------------

    def _look_ahead(self) -> None:
        """Handle no further event before the end of the transaction is known."""
        self._looking = not self._ends
        self._look_at = 0
        self._undone = None

    def _look(self) -> bool:
        """Look for the transaction's end in the buffer; return whether its events may be handled."""
        data = self._buffer
        while len(data) - self._look_at >= 4:
            size = _int(data[self._look_at : self._look_at + 3])
            if size == _PACKET_MAX:
                self._ask()
                return False
            end = self._look_at + 4 + size
            if end > len(data):
                break
            payload = data[self._look_at + 4 : end]
            if payload[:1] != b"\0":
                # The connection ends here, so nothing more of the transaction is known.
                self._packet(payload)
                self._off = True
                return False
            if self._ends_with(payload[1:]):
                self._looking = False
                return True
            self._look_at = end
            if self._look_at > self._look_ahead_bytes_max:
                self._ask()
                return False
        if len(data) > self._look_ahead_bytes_max:
            self._ask()
        return False

    def _ask(self) -> None:
        self._put_packet(LOOK_AHEAD, b"")
        self._asked = True

    def _ends_with(self, raw: bytes) -> bool:
        if len(raw) < _HEADER:
            self._kind = 0
            raise self._damaged("an event shorter than its header")
        match raw[4]:
            case EventType.XID | EventType.XA_PREPARE:
                self._require_sound(raw)
                return True
            case EventType.TRANSACTION_PAYLOAD:
                return True
            case code if code in _OUTSIDE:
                if self._looked_at_is_sound():
                    self._undone = Undone(self._transaction)
                    self._undone.cut()
                return True
            case EventType.QUERY:
                return self._ends_with_query(raw, packed=False)
            case EventType.MARIADB_QUERY_COMPRESSED if self._mariadb:
                return self._ends_with_query(raw, packed=True)
            case _:
                return False

    def _ends_with_query(self, raw: bytes, *, packed: bool) -> bool:
        self._require_sound(raw)
        body = raw[_HEADER : len(raw) - (_CHECKSUM if self._checksum else 0)]
        skip = 13 + _int(body[11:13]) + body[8] + 1 if len(body) >= 13 else 0
        if not 0 < skip <= len(body):
            raise self._damaged("a query event that is too short")
        text = self._sound_part(lambda: unpacking.inflated(body[skip:])) if packed else body[skip:]
        if not self._in_transaction and not self._look_at:
            return not text[:40].upper().startswith((b"BEGIN", b"XA START", b"XA BEGIN"))
        log_pos, flags = _int(raw[13:17]), _int(raw[17:19])
        _, start = self._place(log_pos, flags, len(raw))
        undone = self._undone or Undone(self._transaction)
        ended = self._sound_part(lambda: undone.statement(text, start))
        self._undone = undone
        return ended

    def _require_sound(self, raw: bytes) -> None:
        self._kind = raw[4]
        if self._checksum and (len(raw) < _HEADER + _CHECKSUM or not _sound(raw, raw[4], _int(raw[17:19]))):
            raise self._damaged(f"an event of type {raw[4]} whose checksum is wrong")

    def _looked_at_is_sound(self) -> bool:
        """Return whether no damaged event can have hidden an earlier end. A damaged one is reported
        later, when it is handled.
        """
        at = 0
        while self._checksum and at < self._look_at:
            size = _int(self._buffer[at : at + 3])
            raw = self._buffer[at + 5 : at + 4 + size]
            if len(raw) < _HEADER + _CHECKSUM or not _sound(raw, raw[4], _int(raw[17:19])):
                return False
            at += 4 + size
        return True

    # --- packets and events -----------------------------------------------------------------------

    def _packet(self, payload: bytes) -> None:
        if not payload:
            raise self._damaged("an empty packet")
        if payload[0] == 0xFF or (payload[0] == 0xFE and len(payload) < 9):
            self._put_packet(ERR_PACKET if payload[0] == 0xFF else EOF_PACKET, payload)
            return
        if payload[0] != 0:
            raise self._damaged(f"a packet of kind {payload[0]} in the stream of events")
        raw = payload[1:]
        self._kind = 0
        if self._unreadable and len(raw) >= _HEADER and raw[4] in _LEFT_OUT and (self._file, self._event_end) in self._unreadable:
            self._pass_unreadable(raw)
            self.counts.bytes += len(raw)
        else:
            event = self._event(raw)
            self._handle(event)
            self.counts.bytes += 0 if event.type_code in _HEARTBEATS else len(raw)
        self._silent += len(raw)
        if self._silent > _SILENCE_BYTES_MAX or len(self._delta) >= _RANGES_MAX - 2:
            self._emit_batch(always=True)

    def _pass_unreadable(self, raw: bytes) -> None:
        """Skip an unreadable event, and forget all table maps if it is a table map.

        Its header may be damaged, so its end is computed from its size.
        """
        if raw[4] == EventType.TABLE_MAP:
            self._by_id.clear()
        self._inside(_Event(_int(raw[:4]), raw[4], _int(raw[5:9]), 0, self._event_end, self._event_end + len(raw), b""))

    def _event(self, raw: bytes) -> _Event:
        size = len(raw)
        if size < _HEADER:
            raise self._damaged("an event shorter than its header")
        type_code, length, log_pos = raw[4], _int(raw[9:13]), _int(raw[13:17])
        flags = _int(raw[17:19])
        if length != size:
            raise self._damaged(f"an event of {size} bytes that claims {length}")
        self._kind = type_code
        checked = self._checksum
        if type_code == EventType.FORMAT_DESCRIPTION:
            if size < _HEADER + 57 + 5:
                raise self._damaged("a format description that is too short")
            checked = raw[size - 5] == 1
        elif type_code == EventType.ROTATE and flags & _ARTIFICIAL:
            checked = size >= _HEADER + _CHECKSUM and _sound(raw, type_code, flags)
        if checked:
            if size < _HEADER + _CHECKSUM:
                raise self._damaged("an event without room for its checksum")
            if not _sound(raw, type_code, flags):
                raise self._damaged(f"an event of type {type_code} whose checksum is wrong")
        body = raw[_HEADER : size - _CHECKSUM] if checked or type_code == EventType.FORMAT_DESCRIPTION else raw[_HEADER:]
        after, start = self._place(log_pos, flags, size)
        return _Event(_int(raw[:4]), type_code, _int(raw[5:9]), flags, start, after, body)

    def _place(self, log_pos: int, flags: int, size: int) -> tuple[int, int]:
        """Return the positions after and at the beginning of an event."""
        start = after = self._event_end
        if log_pos and not flags & _ARTIFICIAL:
            after = (self._event_end & ~0xFFFFFFFF) | log_pos
            # The header's field has 32 bits, but a file may be longer.
            if after + 0x80000000 < self._event_end:
                after += 1 << 32
            start = after - size
        return after, start

    def _handle(self, e: _Event) -> None:
        match e.type_code:
            case EventType.TABLE_MAP:
                self._table_map(e)
                self._inside(e)
            case code if code in _ROWS:
                self._rows(e, *_ROWS[code])
            case EventType.PARTIAL_UPDATE_ROWS if not self._mariadb:
                self._rows(e, 3, "u")
            case EventType.QUERY:
                self._query_event(e)
            case EventType.XID:
                self._finish(e)
                self.counts.commits += 1
                self._emit_if_full()
                if self._ends:
                    self._emit_batch()
                    self._put_event(e, None, 0)
                    self._stopped = True
            case EventType.GTID | EventType.ANONYMOUS_GTID if not self._mariadb:
                self._gtid_event(e)
            case EventType.GTID_TAGGED if not self._mariadb:
                self._tagged_gtid_event(e)
            case EventType.MARIADB_GTID if self._mariadb:
                self._mariadb_gtid_event(e)
            case EventType.ROTATE:
                self._rotate(e)
            case EventType.FORMAT_DESCRIPTION:
                self._format_description(e)
            case code if code in _HEARTBEATS:
                pass
            case EventType.ROWS_QUERY | EventType.MARIADB_ANNOTATE_ROWS:
                if self._keep_query:
                    text = e.body[1:] if e.type_code == EventType.ROWS_QUERY else e.body
                    self._query = text.decode("utf-8", "replace")
                self._inside(e)
            case code if code in _OF_NO_MEANING:
                self._inside(e)
            case EventType.TRANSACTION_PAYLOAD:
                self._unpack(e)
            case EventType.MARIADB_QUERY_COMPRESSED if self._mariadb:
                self._inflate_query(e)
            case code if code in _ROWS_COMPRESSED and self._mariadb:
                self._inflate_rows(e)
            case EventType.XA_PREPARE:
                self._count_end(e)
                self._emit_batch()
                gtid, time_us = self._gtid_text(), self._time_of(e)
                self._finish(e)
                self._put_event(e, gtid, time_us)
                self._stopped = True
            case _ if self._sent_before():
                self._inside(e)
            case _:
                self._emit_batch()
                gtid, time_us = self._gtid_text(), self._time_of(e)
                self._inside(e)
                self._put_event(e, gtid, time_us)
                self._stopped = True

    def _sent_before(self) -> bool:
        """Return whether the next event of the open transaction was returned before the restart."""
        return self._first_transaction and self._in_transaction and self._event_count < self._skip_events

    def _excluded(self) -> bool:
        """Return whether the open transaction comes from an excluded source (gtid.source.includes)."""
        if self._gtid_included is None or self._gtid is None:
            return False
        source = f"{self._gtid.key}-{self._gtid.server_id}" if isinstance(self._gtid.key, int) else self._gtid.key[0]
        return not self._gtid_included(source)

    def _pass(self, e: _Event) -> None:
        self._event_end = e.next
        self._last = e.timestamp, e.server_id
        self._moved = True

    def _inside(self, e: _Event) -> None:
        """Note that an event passed which neither begins nor ends a transaction."""
        self._pass(e)
        if self._in_transaction:
            self._event_count += 1
        elif not self._opened:
            self._transaction = self._event_end

    def _begin(self, e: _Event) -> None:
        if not self._opened:
            self._transaction = e.start
        self._pass(e)
        self._in_transaction = True
        self._event_count = 1
        self._counts = None

    def _begin_counts(self, e: _Event) -> None:
        """Count the records that follow. Report the transaction's BEGIN, unless that was before the
        restart.
        """
        if not self._transactions:
            return
        name = self._gtid_text() or f"file={self._file},pos={e.start}"
        resumed = self._resumed if self._first_transaction and self._skip_events else None
        self._ended = False
        if resumed is not None and resumed.id == name:
            self._counts = resumed.copy()
            self._total = sum(resumed.tables.values())
            return
        self._counts, self._total = TransactionCounts(name), 0
        self._put_border(TransactionBorder(name, self._time_of(e)))
        self._emit_if_full()

    def _count_end(self, e: _Event) -> None:
        """Report the transaction's END, before the event that ends it is passed. The counts stay
        until then, because an item may be cut in between.
        """
        if self._counts is not None and not self._ended:
            self._ended = True
            self._put_border(TransactionBorder(self._counts.id, self._time_of(e), dict(self._counts.tables)))

    def _put_border(self, border: TransactionBorder) -> None:
        self._borders.append(border)
        self._records += 1
        self._source_ts_us = border.ts_us

    def _finish(self, e: _Event) -> None:
        """Note that the transaction ends with this event."""
        self._count_end(e)
        self._counts = None
        self._pass(e)
        if self._gtid is not None:
            self._note_finished(self._gtid)
        self._gtid = self._thread = self._query = None
        self._commit_us = self._event_count = 0
        self._in_transaction = self._opened = self._first_transaction = self._packed = False
        self._undone = None
        self._transaction = self._event_end

    def _note_finished(self, gtid: _Gtid) -> None:
        if self._mariadb:
            for known in self._delta:
                if known[0] == gtid.key:
                    known[1:] = gtid.server_id, gtid.number
                    return
            self._delta.append([gtid.key, gtid.server_id, gtid.number])
        elif self._delta and self._delta[-1][0] == gtid.key and self._delta[-1][2] + 1 == gtid.number:
            self._delta[-1][2] = gtid.number
        else:
            self._delta.append([gtid.key, gtid.number, gtid.number])

    # --- kinds of events --------------------------------------------------------------------------

    def _format_description(self, e: _Event) -> None:
        algorithm = e.body[-1]
        if algorithm not in (0, 1, 255):
            raise self._damaged(f"checksums of kind {algorithm}; run SET GLOBAL binlog_checksum=CRC32 on the source")
        self._checksum = algorithm == 1
        self._inside(e)

    def _rotate(self, e: _Event) -> None:
        if len(e.body) < 9:
            raise self._damaged("a rotate event that is too short")
        if _int(e.body[:8]) >> _POSITION_BITS:
            raise self._damaged("a rotate event to an impossible position")
        pos, name = _int(e.body[:8]), e.body[8:].rstrip(b"\0").decode("utf-8", "replace")
        if name == self._file and e.flags & _ARTIFICIAL:
            if not self._in_transaction and not self._opened:
                self._event_end = self._transaction = pos
            return
        if self._file:
            self._emit_batch()
        self._file, self._event_end = name, pos
        self._moved = True
        if self._in_transaction:  # the server crashed: no transaction continues in another file
            self._first_transaction = False
        self._in_transaction = self._opened = self._packed = False
        self._gtid = self._thread = self._query = self._counts = self._undone = None
        self._commit_us = self._event_count = 0
        self._transaction = pos
        e.start = e.next = pos
        self._put_event(e, None, e.timestamp * 1_000_000)

    def _query_event(self, e: _Event) -> None:
        if len(e.body) < 13:
            raise self._damaged("a query event that is too short")
        skip = 13 + _int(e.body[11:13]) + e.body[8] + 1
        if skip > len(e.body):
            raise self._damaged("a query event that is too short")
        text = e.body[skip:]
        if self._void:  # the first half of an ALTER, or one that failed
            self._finish(e)
            return
        if text == b"BEGIN":
            self._begin(e)
            self._thread = None if self._mariadb else _int(e.body[:4])
            self._begin_counts(e)
            return
        word = text[:40].upper().strip()
        if word == b"COMMIT" and not self._ends:
            self._finish(e)
            self.counts.commits += 1
            self._emit_if_full()
            return
        if self._in_transaction and word.startswith((b"SAVEPOINT ", b"RELEASE SAVEPOINT ")) and not self._ends:
            self._inside(e)
            return
        if self._sent_before() and word != b"ROLLBACK":
            self._inside(e)
            return
        if word == b"ROLLBACK" or word.startswith((b"XA COMMIT", b"XA ROLLBACK")):
            self._count_end(e)
        self._emit_batch()
        gtid, time_us = self._gtid_text(), self._time_of(e)
        if word.startswith((b"XA START", b"XA BEGIN")) and not self._in_transaction:
            self._begin(e)
        elif word.startswith((b"XA COMMIT", b"XA ROLLBACK")):
            self._finish(e)
        elif self._in_transaction and word not in (b"ROLLBACK", b"COMMIT"):
            self._inside(e)
        else:
            self._finish(e)
            self.counts.rollbacks += word == b"ROLLBACK"
        self._put_event(e, gtid, time_us, thread=self._thread)
        self._stopped = True

    def _open(self, e: _Event, commit_us: int, gtid: _Gtid | None) -> None:
        if commit_us >> _TIME_BITS:
            raise self._damaged("an impossible commit time")
        self._gtid = gtid
        self._commit_us = commit_us
        self._transaction = e.start
        self._pass(e)
        self._opened = True
        self._in_transaction = self._packed = False
        self._event_count = 0
        self._counts = self._undone = None
        self._void = False

    def _gtid_event(self, e: _Event) -> None:
        if len(e.body) < 25:
            raise self._damaged("a GTID event that is too short")
        commit = 0
        if len(e.body) >= 49 and e.body[25] == 2:
            commit = _int(e.body[42:49])
            if commit >> 55:
                commit = _int(e.body[49:56]) if len(e.body) >= 56 else 0
        number = _signed(_int(e.body[17:25]))
        self._open(e, commit, _mysql_gtid(e.body[1:17], "", number) if e.type_code == EventType.GTID else None)
        if e.body[0] & _STATEMENTS:
            self._look_ahead()

    def _tagged_gtid_event(self, e: _Event) -> None:
        reader = _Varlen(e.body, lambda: self._damaged("a tagged GTID event that is too short"))
        reader.integer()
        size, last_field = reader.integer(), reader.integer()
        if size > len(e.body):
            raise self._damaged("a tagged GTID event that is too short")
        reader.end = size
        sid: bytes | None = None
        tag, number, immediate, original, flags = b"", -1, 0, 0, 0
        while reader.at < reader.end:
            field = reader.integer()
            if field == 1:
                sid = bytes(reader.integer() & 0xFF for _ in range(16))
            elif field == 3:
                length = reader.integer()
                if length > _TAG_MAX or reader.at + length > reader.end:
                    raise self._damaged("a GTID tag that is too long")
                tag = reader.take(length)
            elif field <= _LAST_TAGGED_FIELD:
                value = reader.integer()
                if field == 0:
                    flags = value
                elif field == 2:
                    number = value >> 1
                elif field == 6:
                    immediate = value
                elif field == 7:
                    original = value
            elif field <= last_field:
                raise self._damaged(f"a tagged GTID event with the unknown field {field}")
            else:
                break
        if sid is None or number < 0:
            raise self._damaged("a tagged GTID event without GTID")
        if not tag.isascii():
            raise self._damaged("a GTID tag that is no tag")
        self._open(e, original or immediate, _mysql_gtid(sid, tag.decode("ascii"), number))
        if flags & _STATEMENTS:
            self._look_ahead()

    def _mariadb_gtid_event(self, e: _Event) -> None:
        if len(e.body) < 13:
            raise self._damaged("a GTID event that is too short")
        number, domain = _int(e.body[:8]), _int(e.body[8:12])
        if e.body[12] & _PREPARED_XA:
            self._emit_batch()
        self._open(e, 0, _Gtid(f"{domain}-{e.server_id}-{number}", domain, _signed(number), e.server_id))
        self._void = bool(_mariadb_extra_flags(e.body) & (_START_ALTER | _ROLLBACK_ALTER))
        if not e.body[12] & _STANDALONE:
            self._in_transaction = True
            self._event_count = 1
            self._begin_counts(e)
            self._look_ahead()
        if e.body[12] & _PREPARED_XA:
            self._emit_batch()
            self._put_event(e, self._gtid_text(), self._time_of(e))
            self._stopped = True

    # --- compressed parts -------------------------------------------------------------------------

    def _unpack(self, e: _Event) -> None:
        if self._payload is not None:
            raise self._damaged("a compressed transaction inside another one")
        payload = self._sound_part(lambda: unpacking.Payload(e.body))
        self._pass(e)
        self._payload = _Payload(payload, e.start, e.next)
        self._packed = True

    def _packed_event(self, payload: _Payload) -> None:
        """Handle one event of the compressed transaction, or its end; see the compiled decoder."""
        if not self._unpacked(payload, _HEADER):
            if payload.buffer:
                raise self._damaged("a compressed transaction that ends inside an event")
            self._payload = None
            return
        size = _int(payload.buffer[9:13])
        if size > self._event_bytes_max:
            raise self._damaged(f"an event of more than {self._event_bytes_max} bytes")
        if size < _HEADER or not self._unpacked(payload, size):
            raise self._damaged("a compressed transaction that ends inside an event")
        raw = payload.buffer[:size]
        if raw[4] in unpacking.NEVER_PACKED:
            raise self._damaged(f"an event of type {raw[4]} inside a compressed transaction")
        low = (payload.start << 23) + payload.inner_start
        self._handle(_Event(_int(raw[:4]), raw[4], _int(raw[5:9]), _int(raw[17:19]), payload.start, payload.next, raw[_HEADER:], low))
        payload.buffer = payload.buffer[size:]
        payload.inner_start += size
        self._silent += size
        if self._silent > _SILENCE_BYTES_MAX:
            self._emit_batch(always=True)

    def _unpacked(self, payload: _Payload, size: int) -> bool:
        """Fill the buffer with this many bytes of the compressed transaction; return False at
        its end.
        """
        while len(payload.buffer) < size:
            piece = self._sound_part(payload.reader.read)
            if not piece:
                return False
            payload.buffer += piece
        return True

    def _inflate_query(self, e: _Event) -> None:
        if len(e.body) < 13:
            raise self._damaged("a query event that is too short")
        self._inflate(e, EventType.QUERY, 13 + _int(e.body[11:13]) + e.body[8] + 1)

    def _inflate_rows(self, e: _Event) -> None:
        if len(e.body) < 10:
            raise self._damaged("a rows event that is too short")
        type_code = _ROWS_COMPRESSED[e.type_code]
        at = 8 if type_code < 30 else 8 + max(_int(e.body[8:10]), 2)
        table = self._by_id.get(_int(e.body[:6]))
        if table is None or (table.encoder is None and not table.passed) or self._sent_before():
            self._handle(replace(e, type_code=type_code))  # its rows are not read
            return
        if at >= len(e.body):
            raise self._damaged("a rows event that is too short")
        columns, at = e.body[at], at + 1
        if columns >= 0xFB:
            width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(columns, 0)
            if not width or at + width > len(e.body):
                raise self._damaged("a rows event that is too short")
            columns, at = _int(e.body[at : at + width]), at + width
        if columns > len(e.body) * 8:
            raise self._damaged("a rows event that is too short")
        self._inflate(e, type_code, at + (2 if type_code in _UPDATES else 1) * ((columns + 7) // 8))

    def _inflate(self, e: _Event, type_code: int, head: int) -> None:
        if head > len(e.body):
            raise self._damaged("a compressed event that is too short")
        body = e.body[:head] + self._sound_part(lambda: unpacking.inflated(e.body[head:]))
        self._handle(replace(e, type_code=type_code, body=body))
        self._inflated += len(body)
        if self._inflated >= _INFLATED_MAX:
            self._inflated = 0
            self._stopped = True

    def _sound_part(self, read: Callable[[], Part]) -> Part:
        try:
            return read()
        except ValueError as error:
            raise self._damaged(str(error)) from error

    # --- tables and rows --------------------------------------------------------------------------

    def _table_map(self, e: _Event) -> None:
        if len(e.body) < 8:
            raise self._damaged("a table map that is too short")
        key = e.body[6:]
        table = self._tables.get(key)
        if table is None:
            table = self._new_table(e, key)
            if table.kept:
                self._tables[key] = table
        self._by_id[_int(e.body[:6])] = table

    def _new_table(self, e: _Event, key: bytes) -> _Table:
        at, names = 8, []
        for _ in range(2):
            if at >= len(e.body) or at + e.body[at] + 2 > len(e.body):
                raise self._damaged("a table map that is too short")
            names.append(e.body[at + 1 : at + 1 + e.body[at]].decode("utf-8", "replace"))
            at += e.body[at] + 2
        if (names[0], names[1]) in self._pass_through:
            return _Table(key, passed=True)
        try:
            encoder = self._resolve(e.body, self._offset())
            if isinstance(encoder, IgnoredForNow):
                return _Table(key, kept=False)
            if isinstance(encoder, RowsParked):
                return _Table(key, parked=True)
            if encoder is not None:
                encoder.check_table_map(e.body)
        except DefiniteError as error:
            raise self._located(error, e) from error
        return _Table(key, encoder=encoder)

    def _rows(self, e: _Event, version: int, op: Op) -> None:
        if len(e.body) < 8:
            raise self._damaged("a rows event that is too short")
        table_id = _int(e.body[:6])
        table = self._by_id.get(table_id)
        if table is None:
            if table_id == _DUMMY_TABLE:
                self._inside(e)
                return
            raise self._damaged(f"rows of table number {table_id} without its table map")
        silent = sent = self._sent_before()
        if self._excluded() and not table.passed:
            silent = True
            self.counts.other_sources += not sent
        skip = 0
        if self._first_transaction and self._in_transaction and self._event_count == self._skip_events:
            skip = self._skip_rows
        if self._undone is not None and self._undone.covers(e.start):
            self._inside(e)
            return
        if table.passed and not silent:
            self._pass_on(e, table)
            return
        if sent and (note := getattr(table.encoder, "note", None)) is not None:
            note(op, e.body, version, self._file, self._transaction)
        if table.encoder is None or silent or self._leave_out:
            self._leave_out = self._leave_out and (table.encoder is None or silent)
            self._inside(e)
            self.counts.parked += table.parked and not silent
            self.counts.other_tables += table.encoder is None and not table.parked and not silent
            return
        try:
            self._encode(e, table.encoder, version, op, skip)
        except MissingColumnsError as error:
            if not self._gives_partial:
                raise self._bad_rows(error, e) from error
            self._pass_on(e, table)
            # The reader reports how many records it makes of them.
            self._stopped = self._payload is not None or self._transactions
            return
        except DefiniteError as error:
            raise self._bad_rows(error, e) from error
        self._inside(e)
        self._emit_if_full()

    def _emit_if_full(self) -> None:
        if self._records >= self._records_max or self._bytes >= self._bytes_max:
            self._emit_batch()

    def _pass_on(self, e: _Event, table: _Table) -> None:
        """Return rows as an event that the reader handles itself."""
        self._emit_batch()
        gtid, time_us = self._gtid_text(), self._time_of(e)
        self._inside(e)
        self._put_event(e, gtid, time_us, table=table)

    def _encode(self, e: _Event, encoder: RowEncoder, version: int, op: Op, skip: int) -> None:
        context = BinlogContext(
            file=self._file,
            pos=e.start,
            server_id=e.server_id,
            source_ts_us=self._time_of(e),
            now_us=self._now,
            sequence_high=self._sequence_high(),
            sequence_low=e.low,
            gtid=self._gtid_text(),
            thread=self._thread,
            query=self._query,
            transaction=self._order_of(encoder),
            begin=self._transaction,
        )
        keys, values, headers = encoder.encode_rows(op, e.body, context, version=version, skip_rows=skip)
        moved = 0  # a changed key makes a delete and a create
        if "d" not in encoder.plan.skipped_operations:
            moved = sum(header[0][0] == OLD_KEY_HEADER for header in headers.values())
        self._count_rows(op, sum(value is not None for value in values) - moved)
        self.counts.skipped_operations += not keys and op in encoder.plan.skipped_operations
        if not keys:
            return
        segment = next((s for s in reversed(self._segments) if s[0].plan.topic == encoder.plan.topic), None)
        # A topic's rows never overtake those of another table in it. # I2
        if segment is None or segment[0] is not encoder:
            self._segments.append((encoder, [], [], {}))
            segment = self._segments[-1]
        segment[3].update({len(segment[1]) + index: header for index, header in headers.items()})
        segment[1].extend(keys)
        segment[2].extend(values)
        self.count(encoder, sum(value is not None for value in values))
        if op == "u" and leaves_values_out(encoder.plan, e.body, version=version):
            self._lacking.setdefault(encoder.plan.table.id, set()).update(key for key in keys if key is not None)
        self._records += len(keys)
        self._bytes += sum(len(part) for part in (*keys, *values) if part is not None)
        self._source_ts_us = context.source_ts_us

    def _count_rows(self, op: Op, rows: int) -> None:
        self.counts.created += rows if op == "c" else 0
        self.counts.updated += rows if op == "u" else 0
        self.counts.deleted += rows if op == "d" else 0

    def _order_of(self, encoder: RowEncoder) -> TransactionOrder | None:
        if self._counts is None:
            return None
        return TransactionOrder(self._counts.id, self._total, self._counts.tables.get(str(encoder.plan.table.id), 0))

    # --- items ------------------------------------------------------------------------------------

    def _emit_batch(self, *, always: bool = False) -> None:
        if not self._records and not always:
            return
        self._items.append(
            LogRows(
                segments=self._segments,
                records=self._records,
                bytes=self._bytes,
                source_ts_us=self._source_ts_us if self._records else None,
                position=self._offset(with_delta=True),
                borders=tuple(self._borders),
                lacking=self._lacking,
            )
        )
        self._borders, self._lacking = [], {}
        self._segments = []
        self._records = self._bytes = 0
        if self._payload is not None:
            # A few bytes of a compressed transaction may hold any number of rows: one item at a
            # time.
            self._stopped = True

    def _put_event(self, e: _Event, gtid: str | None, time_us: int, *, table: _Table | None = None, thread: int | None = None) -> None:
        self._items.append(
            LogEvent(
                type_code=e.type_code,
                timestamp_s=e.timestamp,
                server_id=e.server_id,
                body=e.body,
                file=self._file,
                start_pos=e.start,
                next_pos=e.next,
                position=self._offset(with_delta=True),
                gtid=gtid,
                source_ts_us=time_us,
                sequence_high=self._sequence_high(),
                sequence_low=e.low,
                table=None if table is None else e.body[:6] + table.body,
                flags=e.flags,
                thread=self._thread if table is not None and table.encoder is not None else thread,
                transaction=None if table is None or table.encoder is None else self._order_of(table.encoder),
                encoder=None if table is None else table.encoder,
            )
        )

    def _put_packet(self, type_code: int, payload: bytes) -> None:
        self._emit_batch()
        self._items.append(
            LogEvent(
                type_code=type_code,
                timestamp_s=0,
                server_id=0,
                body=payload,
                file=self._file,
                start_pos=self._event_end,
                next_pos=self._event_end,
                position=self._offset(with_delta=True),
                gtid=self._gtid_text(),
                sequence_high=self._sequence_high(),
                sequence_low=self._event_end << 23,
            )
        )
        self._stopped = True

    def _offset(self, *, with_delta: bool = False) -> LogOffset:
        delta: list[Any] = []
        if with_delta:
            delta = [tuple(d) if self._mariadb else (*d[0], *d[1:]) for d in self._delta]
            self._delta = []
            self._silent = 0
            self._moved = False
        return LogOffset(
            file=self._file,
            pos=self._transaction,
            event=0 if self._packed else self._event_count,
            packed_event=self._event_count if self._packed else 0,
            ts_sec=self._last[0],
            server_id=self._last[1],
            in_transaction=self._in_transaction,
            transaction=None if self._counts is None else self._counts.copy(),
            gtids_delta=delta,
        )

    def _gtid_text(self) -> str | None:
        return None if self._gtid is None else self._gtid.text

    def _time_of(self, e: _Event) -> int:
        return self._commit_us or e.timestamp * 1_000_000

    def _sequence_high(self) -> int:
        digits = self._file.rpartition(".")[2]
        return self._epoch << 32 | (int(digits) if digits.isdecimal() and len(digits) < 10 else 0)

    def _damaged(self, what: str) -> DamagedLogError:
        at = self._event_end if self._payload is None else self._payload.start
        return DamagedLogError(
            f"the log at {self._file or 'its start'}:{at} holds {what}; check the log with mysqlbinlog --verify-binlog-checksum, "
            "and where it is damaged reset the connector's offsets: its tables are dumped again",
            event_at=(self._file, at) if self._payload is None and self._kind in _LEFT_OUT else None,
        )

    def _located(self, error: DefiniteError, e: _Event) -> DefiniteError:
        return DefiniteError(f"{error} (event at {self._file}:{e.start})")

    def _bad_rows(self, error: DefiniteError, e: _Event) -> BadRowsError:
        return BadRowsError(f"{error} (event at {self._file}:{e.start})")


class _Varlen:
    """A reader of integers of MySQL's serialization library. The trailing ones of the first byte
    are the number of bytes that follow.
    """

    def __init__(self, raw: bytes, too_short: Callable[[], DefiniteError]) -> None:
        self._raw = raw
        self._too_short = too_short
        self.at = 0
        self.end = len(raw)

    def integer(self) -> int:
        if self.at >= self.end:
            raise self._too_short()
        first = self._raw[self.at]
        more = 0
        while more < 8 and first >> more & 1:
            more += 1
        raw = self.take(1 + more)
        return _int(raw[1:]) if more == 8 else _int(raw) >> (more + 1)

    def take(self, length: int) -> bytes:
        if self.at + length > self.end:
            raise self._too_short()
        self.at += length
        return self._raw[self.at - length : self.at]


def _int(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _mariadb_extra_flags(body: bytes) -> int:
    """Return the extra flags, which follow the fields announced by the first flags."""
    flags, at = body[12], 13
    if flags & _GROUP_COMMIT_ID:
        at += 8
    if flags & (_PREPARED_XA | _COMPLETED_XA) and at + 6 <= len(body):
        at += 6 + sum(body[at + 4 : at + 6])
    return body[at] if at < len(body) else 0


def _mysql_gtid(sid: bytes, tag: str, number: int) -> _Gtid:
    digits = sid.hex()
    uuid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return _Gtid(f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}", (uuid, tag), number)


def _sound(raw: bytes, type_code: int, flags: int) -> bool:
    """Return whether the CRC32 at the end fits. A log file that was open when read has a flag set
    that the checksum does not cover.
    """
    want = _int(raw[-_CHECKSUM:])
    if crc32(raw[:-_CHECKSUM]) == want:
        return True
    return (
        type_code == EventType.FORMAT_DESCRIPTION
        and bool(flags & _IN_USE)
        and crc32(raw[:17] + bytes([raw[17] & 0xFE]) + raw[18:-_CHECKSUM]) == want
    )
