"""Brings log rows and chunk rows into one order: the order in which everything leaves the task.

The log thread submits what the log contains (``rows``, ``watermark``, ``table_changed``). Chunk
threads announce windows and submit what they have read (``declare``, ``submit``). The rules are in
core/watermark.py; the lock, the waiting and the batches are here. The log thread encodes chunk rows
after their window has closed: only then is the position of the low watermark known, which every
dump row carries. They leave in parts, with rows of the log between the parts (``leaving.py``). # I2

A chunk is read with one version of its table. If the log reaches another version before the high
watermark, the rows no longer fit the columns, so the window is discarded and read again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.codecs import marker
from dblog.codecs.fingerprint import verified_schemas
from dblog.codecs.plan import RowContext, distinguishes_rows
from dblog.codecs.rowplan import RowEncoder
from dblog.core.dumprequests import INITIAL, DumpRequest, Mode, Scope
from dblog.core.dumps import Dump, Key, TableDump
from dblog.core.notices import Notice, of_own, of_request
from dblog.core.pressure import FREE, Pace
from dblog.core.requested import STOPPED, End, RequestedDump, Requests
from dblog.core.timeline import Position
from dblog.core.watermark import Closed, Discarded, Ticket, WatermarkPosition, Why, Windows
from dblog.model import Batch, Segment, Table, TableId
from dblog.observe.numbers import named
from dblog.readers.chunknotes import ChunkNotes, Proof, Trouble
from dblog.readers.extent import Extent
from dblog.readers.leaving import Encoded, Leaving, LeavingWindow
from dblog.readers.queue import BlockingQueue
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import Tally
from dblog.transforms.stage import Passed

log = structlog.get_logger(__name__)

CHUNK_BATCH_RECORDS = 1000
"""Maximum number of chunk rows in a batch; of large rows, ``CHUNK_BATCH_BYTES`` is the limit.
Larger batches cost time in the producer (measured: 12 to 15 % at 20 000), and a row of the log
waits for the batches that are in the queue before it.
"""

CHUNK_BATCH_BYTES = 256 * 1024

CHUNK_PARTS_AHEAD = 3
"""Number of chunk parts that the queue may hold when another one enters. With one, the sender
sometimes waits for the log thread (a third fewer records per second); with more, a row of the log
waits longer.
"""

COMING_MAX = 1000
"""Maximum number of tables remembered for ``take_coming``. The topic of a forgotten table is
created with its first record. # I6
"""

STUCK_TRIES_MAX = 100
"""Maximum number of windows over the same rows, if the message key does not distinguish rows or the
log leaves out values. A table that changed in each of them will not rest, so its dump fails.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Effect of one batch on the offset: log offsets up to the batch, in order, and changed dump
    states.
    """

    log_offsets: tuple[Any, ...]
    dump: Dump | None = None
    requests: Requests | None = None

    @property
    def moves_dump(self) -> bool:
        """True if the step changes the offset's state of dumps."""
        return self.dump is not None or self.requests is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRead:
    """A chunk as its reader submits it: raw rows, their key range, and the table version of the
    SELECT.
    """

    table: Table
    rows: bytes
    row_count: int
    after: Key | None
    upto: Key | None
    """End of the range (after, upto]: the key of the last row, or the end of the reader's range if
    ``final``.
    """
    final: bool
    inside: bool = False
    """True if the reader's range ends before the table's end. With ``final``, other ranges of the
    table remain, or were read before.
    """
    begins: bool = False
    """True for the table's first chunk: its snapshot has shown ``greatest``, the key where the dump
    ends.
    """
    greatest: Key | None = None
    extent: Extent = field(default_factory=Extent)
    """Dump that the chunk is read for, and what that dump covers."""
    encoder: RowEncoder | None = None
    """Encoder of rows in a shape other than the table's own; None for the table's own."""
    fault: str | None = None
    """Reason why the range cannot be trusted. It counts only when the window closes, because only
    the log can show if the table was changed during the read.
    """
    shown: Any = None
    """Value from which the log thread can prove what the chunk's snapshot shows; None if the
    watermark alone proves it.
    """
    surrogate: tuple[str, ...] | None = None
    """Columns of the range's ends, if they are not the table's key (``core/surrogate.py``)."""

    @property
    def by(self) -> tuple[str, ...]:
        """Columns of the range's ends; empty for a table that is read as a whole."""
        return self.table.key if self.surrogate is None else self.surrogate


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMarker:
    """Facts about a closed window (D6), which the task turns into a record of the marker topic."""

    chunk_id: str
    table: TableId
    topic: str
    after: Key | None
    upto: Key | None
    final: bool
    low: WatermarkPosition
    high: WatermarkPosition
    rows_read: int
    rows_dropped: int
    digest: int
    dump: str = marker.INITIAL_DUMP
    mode: str = marker.ROWS
    begins: bool = False
    """True for the table's first chunk in this dump, also after a restart of the table. No other
    chunk of the table has an earlier low watermark.
    """
    scope: str = marker.WHOLE_TABLE
    fingerprints: bytes | None = None
    """Fingerprints of the rows, for a dump that sends no rows."""
    schemas: tuple[str, str] | None = None
    """Schemas of the fingerprints: of keys, and of rows."""
    opened_ms: int | None = None
    """Time when the log thread met the low watermark; later changes were sent after that."""
    own_left: bool | None = None
    """True if the connector's own dump has not finished the table; None for a chunk of that dump
    itself.
    """
    rows_passed: int | None = None
    """Number of rows that the transforms have let through; None without transforms."""


class Interleaver:
    """Meeting point of one task's log and chunks.

    ``encoder_of`` returns a table's encoder at the log's position (log thread only).
    ``chunk_context`` is ``RowPlans.chunk_context``, ``shows`` is ``LogSource.shows``. ``notify``
    makes records of notices (log thread only); None makes none. ``repaired`` is called for each
    table that a whole dump in mode repair has read to its end (log thread only). ``warnings``
    records where such a dump begins. ``transform`` passes records through the connector's chain of
    transforms (log thread only); None if there is none.
    """

    def __init__(
        self,
        *,
        windows: Windows[ChunkRead],
        queue: BlockingQueue,
        clock: Clock,
        encoder_of: Callable[[TableId], RowEncoder | None],
        chunk_context: Callable[[WatermarkPosition, int], RowContext],
        marker_segment: Callable[[ChunkMarker], Segment | None],
        run: str,
        tally: Tally | None = None,
        notify: Callable[[list[Notice]], list[Segment]] | None = None,
        shows: Callable[[Any, TableId, Position], bool] = lambda _shown, _table, _low: True,
        repaired: Callable[[str, TableId], None] = lambda _dump, _table: None,
        warnings: StandingWarnings | None = None,
        transform: Callable[[list[Segment]], Passed] | None = None,
    ) -> None:
        self._repaired = repaired
        self._transform = transform
        self._warnings = warnings or StandingWarnings()
        self._leaving: Leaving[ChunkRead] = Leaving()
        self._leaving_since_s = 0.0
        self._log_is_ahead = False
        """True if rows of the log have left since the last chunk part."""
        self._notify = notify
        self._notices: list[Notice] = []
        self.tally = tally or Tally(clock)
        self._windows = windows
        self._queue = queue
        self._clock = clock
        self._encoder_of = encoder_of
        self._chunk_context = chunk_context
        self._shows = shows
        self._marker_segment = marker_segment
        self._run = run
        self._changed = threading.Condition()
        self._stopping = False
        self.pace = FREE
        self._dump: Dump | None = None
        self._requests = Requests()
        self._read_for: dict[TableId, str] = {}
        """Requested dump by table that is read for it; other tables are read for the connector's
        own dump.
        """
        self._dump_moved = self._requests_moved = False
        self._log_offsets: list[Any] = []
        self._resets: dict[tuple[TableId, int | None], int] = {}
        """Number of resets by table and lane; lane None counts resets of all lanes."""
        self._shrink: set[tuple[TableId, int]] = set()
        self._held: frozenset[TableId] = frozenset()
        self._held_for = ""
        self._coming: deque[TableId] = deque(maxlen=COMING_MAX)
        self._notes = ChunkNotes()
        self._stuck: dict[tuple[TableId, int], tuple[Key | None, int]] = {}
        """Range start and number of tries, by table and lane, of chunks that are read again and
        again because their rows keep changing.
        """
        self._unproven: dict[tuple[TableId, int], int] = {}

    # ---- the dump's state

    @property
    def dump(self) -> Dump | None:
        """Connector's own dump, running or finished; None before the first one."""
        with self._changed:
            return self._dump

    @property
    def requests(self) -> Requests:
        """Requested dumps."""
        with self._changed:
            return self._requests

    @property
    def dump_moved(self) -> bool:
        """True if no batch has carried the newest state of dumps yet.

        An empty table is done without any row.
        """
        return self._dump_moved or self._requests_moved

    def begin(self, dump: Dump | None, requests: Requests, *, known: Requests, dump_is_new: bool) -> None:
        """Set the state of dumps at the start. ``known`` is the state in the offset, so the rest is
        news.
        """
        with self._changed:
            self._dump, self._requests = dump, known
            if dump_is_new and self._notify is not None:
                self._notices += of_own(None, dump)
            self._dump_moved = dump is not None
            self._set_requests(requests)
            self._requests_moved = True

    def notes(self, identity: str, table: TableId) -> tuple[int, int, Proof | None]:
        """Return for a table of a dump: open chunks, chunks read again, and the proof of the last
        one sent.
        """
        with self._changed:
            is_read = self._read_for.get(table, INITIAL) == identity
            open_now = self._windows.open_in(table) + self._leaving.of(table) if is_read else 0
            return open_now, self._notes.read_again(identity, table), self._notes.proof(identity, table)

    def rows_leave(self, identity: str) -> set[TableId]:
        """Return the tables of a dump with a closed window whose rows are not all sent.

        The state of the dump does not include these rows yet.
        """
        with self._changed:
            return {closed.table for closed in self._leaving.closed() if closed.rows.extent.dump == identity}

    def waits(self, table: TableId, reason: str) -> None:
        """Note the reason why the table's next chunk has to be tried again."""
        with self._changed:
            self._notes.waits(self._read_for.get(table, INITIAL), table, reason)

    def not_read(self, table: TableId, reason: str) -> Trouble:
        """Note that the rows of the table's next chunk could not be read; return the series of
        failures.
        """
        with self._changed:
            return self._notes.not_read(self._read_for.get(table, INITIAL), table, reason, self._clock.monotonic_s())

    def not_tried(self, table: TableId) -> None:
        """Clear the table's failure count, because its next chunk is not wanted now."""
        with self._changed:
            self._notes.read(self._read_for.get(table, INITIAL), table)

    def troubles(self, identity: str) -> dict[TableId, str]:
        """Return the reasons why tables of a dump wait for their next chunk, and the held tables of
        any dump.
        """
        with self._changed:
            return self._notes.troubles(identity) | dict.fromkeys(self._held, self._held_for)

    def forget_notes(self, identity: str) -> None:
        """Forget the notes on a dump that nobody watches any more."""
        with self._changed:
            self._notes.forget(identity)

    def change_requests(self, change: Callable[[Requests], Requests]) -> None:
        """Replace the state of the requested dumps; the next batch carries it into the offset."""
        with self._changed:
            self._set_requests(change(self._requests))
            self._changed.notify_all()

    def change_all(self, change: Callable[[Dump], Dump]) -> None:
        """Apply ``change`` to the connector's own dump and to every requested dump."""
        with self._changed:
            if self._dump is not None and (changed := change(self._dump)) is not self._dump:
                self._set_dump(changed)
            self._set_requests(self._requests.all_changed(change))
            self._changed.notify_all()

    def read_for(self, table: TableId, identity: str) -> None:
        """Assign a table to the dump that it is read for from now on.

        Call it while no reader reads the table and none of its windows is open.
        """
        with self._changed:
            if identity == INITIAL:
                self._read_for.pop(table, None)
            else:
                self._read_for[table] = identity

    def request_of(self, table: TableId) -> RequestedDump | None:
        """Return the requested dump that the table is read for; None for the connector's own."""
        with self._changed:
            return self._requests.get(self._read_for.get(table, INITIAL))

    def moves_rows(self, table: TableId) -> bool:
        """Return True if an update can move a row of the table past all chunks of an unfinished
        dump.

        The chunks of such a dump are bounded by a column other than the key, or a condition chooses
        their rows. Between two windows, a row may move from a range that is still to be read into
        one that was read, or start to fulfil the condition there. Then no chunk contains it.
        """
        with self._changed:
            own = None if self._dump is None else self._dump.left.get(table)
            return (own is not None and own.chosen) or any(True for _ in self._moving(table))

    def _moving(self, table: TableId) -> Iterator[RequestedDump]:
        """Yield the requested dumps whose chunks an update can move a row past. The
        lock is held.
        """
        for one in self._requests:
            request = one.request
            if one.end is None and table in one.dump.left and (request.surrogate_key is not None or request.predicate_of(str(table))):
                yield one

    def dump_of(self, table: TableId) -> tuple[str, Dump | None]:
        """Return the identity and the state of the dump that the table is read for.

        The state is None if the dump is already forgotten.
        """
        with self._changed:
            return self._read_for.get(table, INITIAL), self._dump_for(table)

    def change_table(self, table: TableId, change: Callable[[Dump], Dump]) -> None:
        """Change the state of the dump that the table is read for."""
        with self._changed:
            self._change_of(self._read_for.get(table, INITIAL), table, change)
            self._changed.notify_all()

    def is_paused(self, table: TableId) -> bool:
        """Return True if all dumps are held, or the table's dump, or the table in it, is paused or
        stopped.

        A dump that has ended may be forgotten while its last SELECT runs. Its reader must not go on
        as if it read for the connector's own dump.
        """
        with self._changed:
            identity = self._read_for.get(table, INITIAL)
            one = self._requests.get(identity)
        if one is None:
            return self.pace.held or identity != INITIAL
        return self.pace.held or not one.reads(table)

    def set_pace(self, pace: Pace) -> None:
        """Set how hard dumps may read from now on."""
        with self._changed:
            self.pace = pace
            self._changed.notify_all()

    def rest(self, table: TableId, rest_s: float) -> bool:
        """Wait before a window of the table. Return False if the request that it is read for has
        changed.

        The rest that the request asks for may have changed with it.
        """
        with self._changed:
            one = self.request_of(table)
            before = None if one is None else one.request

            def changed() -> bool:
                now = self.request_of(table)
                return self._stopping or self.pace.held or (None if now is None else now.request) is not before

            return not self._changed.wait_for(changed, timeout=rest_s)

    def change_dump(self, change: Callable[[Dump | None], Dump | None]) -> None:
        """Replace the state of the connector's own dump; the next batch carries it into
        the offset.
        """
        with self._changed:
            self._set_dump(change(self._dump))
            self._changed.notify_all()

    def table_dump(self, table: TableId) -> TableDump | None:
        """Return the table's progress in the dump that it is read for; None if it is not in that
        dump.
        """
        with self._changed:
            dump = self._dump_for(table)
        return None if dump is None else dump.table(table)

    def window_numbers(self) -> dict[str, float]:
        """Return the numbers of windows, for metrics."""
        with self._changed:
            windows = self._windows
            return {
                "windows_open": float(windows.open_total),
                "window_keys": float(windows.keys_noted),
                "windows_closed_total": float(windows.closed_total),
                **{named("windows_discarded_total", why.value): float(count) for why, count in windows.discarded_total.items()},
            }

    # ---- chunk threads

    def declare(self, table: TableId, *, keyed: bool, resets: int, windows_max: int, lane: int = 0) -> Ticket | None:
        """Announce a window and return its ticket, waiting while ``windows_max`` windows of the
        lane are open.

        The first window whose rows are leaving does not count. Return None if the task stops, or
        the lane was reset since ``resets``, or the table is held or paused.
        """

        def refused() -> bool:
            return self._stopping or self._resets_of(table, lane) != resets or table in self._held or self.is_paused(table)

        with self._changed:
            self._changed.wait_for(
                lambda: refused() or self._windows.open_of(table, lane) + max(0, self._leaving.of(table, lane) - 1) < windows_max
            )
            if refused():
                return None
            return self._windows.declare(table, keyed=keyed, lane=lane)

    def declare_together(self, tables: Mapping[TableId, int]) -> list[Ticket]:
        """Announce a window for each of these tables between one pair of watermarks; return the
        tickets.

        ``tables`` maps each table to its number of resets when its reader looked. Tables that were
        reset since, or are held, get no window.
        """
        with self._changed:
            if self._stopping:
                return []
            return self._windows.declare_together(
                [table for table, resets in tables.items() if self._resets_of(table, 0) == resets and table not in self._held]
            )

    def tables_between(self, ticket: Ticket) -> tuple[TableId, ...]:
        """Return the tables whose windows share the ticket's watermarks."""
        with self._changed:
            return self._windows.tables_between(ticket)

    def submit_together(self, tickets: Iterable[Ticket], chunks: Mapping[TableId, ChunkRead]) -> bool:
        """Submit the rows of windows between one pair of watermarks; abandon the windows without
        rows.

        Return False if all were discarded meanwhile or abandoned.
        """
        now_s = self._clock.monotonic_s()
        waits = False
        with self._changed:
            for ticket in tickets:
                if ticket.table in chunks:
                    waits |= self._windows.submit(ticket.number, chunks[ticket.table], now_s=now_s)
                    if chunks[ticket.table].row_count:
                        self._coming.append(ticket.table)
                else:
                    self._windows.release(ticket.number)
        return waits

    def submit(self, ticket: Ticket, chunk: ChunkRead) -> bool:
        """Submit the rows of a window.

        Return False if it was discarded meanwhile, so that its high watermark need not be written.
        """
        with self._changed:
            self._notes.read(chunk.extent.dump, chunk.table.id)
            return self._windows.submit(ticket.number, chunk, now_s=self._clock.monotonic_s())

    def take_coming(self) -> list[TableId]:
        """Return the tables, noted since the last call, whose first rows will be sent soon.

        Their topics can be created meanwhile.
        """
        if not self._coming:
            return []
        with self._changed:
            coming = list(self._coming)
            self._coming.clear()
            return coming

    def abandon(self, ticket: Ticket, reason: str) -> None:
        """Discard a window whose SELECT failed. The reader starts again at the frontier."""
        with self._changed:
            self._discarded(self._windows.discard(ticket.number, reason))

    def unproven(self, table: TableId, lane: int = 0) -> int:
        """Return how many consecutive chunks of the lane lacked a transaction that the log
        contains.

        The log thread counts them.
        """
        return self._unproven.get((table, lane), 0)

    def resets(self, table: TableId, lane: int = 0) -> int:
        """Return how often windows of the lane were discarded. A reader that sees the number rise
        goes back to its frontier.
        """
        with self._changed:
            return self._resets_of(table, lane)

    def settled(self, table: TableId, lane: int = 0) -> int:
        """Wait until no window of the lane is open, then return ``resets``.

        The frontier has then reached the end of everything that was read. A reader that starts from
        an earlier frontier reads rows twice, and the table's chunk markers overlap. # I9
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or table in self._held or not self._is_open(table, lane))
            return self._resets_of(table, lane)

    def is_held(self, table: TableId) -> bool:
        """Return True if no window of the table may be opened for now, so its reader takes another
        table.
        """
        return table in self._held

    def take_shrink(self, table: TableId, lane: int = 0) -> bool:
        """Return True if a window overflowed since the last call, so that the next chunk should be
        smaller.
        """
        with self._changed:
            shrink = (table, lane) in self._shrink
            self._shrink.discard((table, lane))
            return shrink

    def wait_done(self, table: TableId, *, resets: int, lane: int = 0, upto: Key | None = None) -> bool:
        """Wait until the lane's last window has closed, or the table's dump has failed; return True
        then.

        The last window's range ends at ``upto``; None means the table's only range. Return False if
        a window was discarded, if none is open and more is to be read (after a short pause of the
        dump), or if the task stops.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._stopping
                    or self._resets_of(table, lane) != resets
                    or table in self._held
                    or self._is_done(table, upto)
                    or not self._is_open(table, lane)
                )
            )
            return self._is_done(table, upto)

    def fail_dump(self, table: TableId, fault: str) -> None:
        """End the table with an error in the dump that it is read for; its other tables
        continue.
        """
        with self._changed:
            identity = self._read_for.get(table, INITIAL)
        self._fail(identity, table, fault)

    def _fail(self, identity: str, table: TableId, fault: str) -> None:
        log.error("the table cannot be dumped", table=str(table), reason=fault)
        with self._changed:
            self._change_of(identity, table, lambda d: d.given_up(table, fault))
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop for good, and wake every waiting thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    @property
    def stopping(self) -> bool:
        """True once ``stop`` was called."""
        return self._stopping

    # ---- the log thread

    def moved(self, log_offset: object) -> None:
        """Note the offset that the log has reached, for each item in order; the next batch carries
        it.
        """
        self._log_offsets.append(log_offset)

    def rows(
        self,
        segments: list[Segment],
        *,
        records: int,
        size_bytes: int,
        source_ts_us: int | None,
        lacking: Mapping[TableId, AbstractSet[bytes]] = MappingProxyType({}),
    ) -> None:
        """Drop the keys of these log rows from open windows, and send the rows. ``lacking``:
        ``LogRows.lacking``.
        """
        if self._leaving and any(
            s.table is not None and (self._leaving.is_full(s.table, len(s.keys)) or (s.table in lacking and self._leaving.of(s.table)))
            for s in segments
        ):
            # The chunk rows leave before these rows, so their batches must not carry the offsets of
            # these rows. # I1
            self._log_offsets, offsets = [], self._log_offsets
            self.send_all_chunk_rows()
            self._log_offsets = offsets
        for table in lacking:
            self._fail_passed_over(table)
        if self._windows.open_total or self._leaving:
            self._log_is_ahead = bool(self._leaving)
            with self._changed:
                for segment in segments:
                    if segment.table is not None:
                        self._leaving.note(segment.table, segment.keys)
                        for spoilt in self._windows.note(segment.table, segment.keys, lacking=lacking.get(segment.table, frozenset())):
                            self._discarded(spoilt)
        self._put(segments, records, size_bytes, source_ts_us)

    def table_changed(self, table: TableId, reason: str) -> None:
        """Discard the table's windows after DDL at the log's position; their ranges are
        read again.
        """
        with self._changed:
            self._discarded(self._windows.table_changed(table, reason))

    def hold(self, tables: frozenset[TableId], reason: str) -> bool:
        """Replace the set of held tables: discard their windows and refuse new ones.

        Return True if some table is released.
        """
        with self._changed:
            before, self._held, self._held_for = self._held, tables, reason
            for table in tables - before:
                # A busy server prepares XA transactions all the time.
                if self._dump is not None and table in self._dump.left:
                    log.info("the table's dump waits", table=str(table), reason=reason)
                self._discarded(self._windows.table_changed(table, reason, why=Why.HELD))
            self._changed.notify_all()
            return bool(before - tables)

    def read_again(self, table: TableId, reason: str, change: Callable[[Dump | None], Dump | None]) -> None:
        """Restart the table in the connector's own dump, with the state that ``change`` returns.

        Its readers go back to the beginning, even between two windows.
        """
        with self._changed:
            self._thrown_back(table, reason)
            self._set_dump(change(self._dump))

    def read_all_again(self, tables: Iterable[TableId], reason: str, change: Callable[[Dump | None], Dump]) -> None:
        """Restart several tables in the connector's own dump at once. The caller logs the tables,
        which may be thousands.
        """
        with self._changed:
            for table in tables:
                self._windows.table_changed(table, reason)
                self._resets[table, None] = self._resets.get((table, None), 0) + 1
            self._changed.notify_all()
            self._set_dump(change(self._dump))

    def dropped(self, table: TableId) -> None:
        """Note that the table is gone from the source.

        The connector's own dump has nothing left to read of it. Requested dumps end it with an
        error, since its rows did not come.
        """
        with self._changed:
            if self._dump is not None and (changed := self._dump.dropped(table)) is not self._dump:
                self._set_dump(changed)
            self._set_requests(self._requests.all_changed(lambda d: d.given_up(table, f"{table} was dropped") if table in d.left else d))
            self._changed.notify_all()

    def not_known(self, table: TableId) -> None:
        """End a table whose schema is unknown at the log's position: it was dropped, or
        is parked.
        """
        if self.request_of(table) is None:
            self.change_table(table, lambda d: d.dropped(table))
        else:
            message = (
                f"{table} is not known where the log stands: it was dropped, or its schema could not be followed (the log has the reason)"
            )
            self.change_table(table, lambda d: d.given_up(table, message) if table in d.left else d)

    def begin_again(
        self, table: TableId, reason: str, *, only: Callable[[DumpRequest], bool] | None = None, own_repair: bool = False
    ) -> None:
        """Restart the table in every dump that has begun and not finished it.

        Its readers go back to the beginning, even between two windows. ``only`` limits this to
        dumps with certain requests; ``own_repair`` adds the connector's own dump if that repairs
        the table. A list of keys has its own order, so reading it continues as long as the keys are
        valid.
        """

        def again(dump: Dump) -> Dump:
            progress = dump.table(table)
            return dump.restarted(table) if progress is not None and progress.started and not progress.ended else dump

        with self._changed:
            requested = [
                one.request.id
                for one in self._requests
                if one.end is None and one.request.keys is None and (only is None or only(one.request)) and again(one.dump) is not one.dump
            ]
            own = self._dump
            if own is not None and not (only is None or (own_repair and own.repairs_table(table))):
                own = None
            if only is not None and not requested and (own is None or again(own) is own):
                return
            self._thrown_back(table, reason)
            if own is not None and (changed := again(own)) is not own:
                self._set_dump(changed)
            for identity in requested:
                self._set_requests(self._requests.changed(identity, again))

    def rename_of_requests(self, pairs: Sequence[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]) -> None:
        """Apply the renames of one statement to the requested dumps.

        If a name now belongs to another table, its reader goes back to the beginning, even if none
        of its windows is open.
        """
        with self._changed:
            before = self._requests
            self._set_requests(before.all_renamed(pairs, wanted))
            for table in dict.fromkeys(chain.from_iterable(pairs)):
                known, now = before.get(self._read_for.get(table, INITIAL)), self._requests.get(self._read_for.get(table, INITIAL))
                if known is not None and now is not None and known.dump.table(table) != now.dump.table(table):
                    self._thrown_back(table, "another table has its name")
            self._changed.notify_all()

    def watermark(self, token: str, at: WatermarkPosition) -> None:
        """Take a watermark at the log's position. The rows of the windows that it closes start to
        leave.
        """
        with self._changed:
            met = self._windows.watermark(token, at, now_ms=self._clock.now_us() // 1000, found=self._warnings.found_here)
            for window in met:
                if isinstance(window, Discarded):
                    self._discarded(window)
            closed = [window for window in met if isinstance(window, Closed)]
            if not self._leaving:
                self._leaving_since_s, self._log_is_ahead = self._clock.monotonic_s(), False
            self._leaving.add(closed)
        if any(self._leaves_whole(window) for window in closed):
            self.send_all_chunk_rows()
        elif closed:
            self.send_chunk_rows()

    def _leaves_whole(self, closed: Closed[ChunkRead]) -> bool:
        """Return True if log keys cannot show which of the window's rows have changed.

        Then no log row may come between its rows.
        """
        encoder = self._encoder_of(closed.table)
        return not closed.rows.table.key or (encoder is not None and not distinguishes_rows(encoder.plan))

    @property
    def chunk_rows_wait(self) -> bool:
        """True while rows of closed windows have not left."""
        return bool(self._leaving)

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Send rows of closed windows while the queue holds few; return True if some were sent.

        If none has left for ``waited_max_s`` although rows of the log have, send one part's worth
        whatever the queue holds.
        """
        sent = False
        if waited_max_s is not None and self._log_is_ahead and self._clock.monotonic_s() - self._leaving_since_s >= waited_max_s:
            self._log_is_ahead = False
            records, size_bytes = self._part_records, self._part_bytes
            while self._leaving and records > 0 and size_bytes > 0:
                more_records, more_bytes = self._send_part()
                records, size_bytes, sent = records - more_records, size_bytes - more_bytes, True
        while self._leaving and self._has_room():
            self._send_part()
            sent = True
        return sent

    def send_all_chunk_rows(self) -> None:
        """Send all rows of closed windows, because the next item may contradict them."""
        while self._leaving:
            self._send_part()

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Return True if a window submitted before ``submitted_before_s`` waits for its high
        watermark.
        """
        if not self._windows.open_total:
            return False
        with self._changed:
            return self._windows.has_overdue(submitted_before_s)

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """Discard the windows submitted before ``submitted_before_s``, so that their ranges are
        read again.

        The log has been read to its end and does not contain their watermarks.
        """
        if self._windows.open_total:
            with self._changed:
                for discarded in self._windows.overdue(submitted_before_s):
                    self._discarded(discarded)

    def extra(self, segments: list[Segment]) -> None:
        """Send records that are not rows (heartbeats, schema changes), or only a new offset."""
        size_bytes = sum(len(k or b"") + len(v or b"") for s in segments for k, v in zip(s.keys, s.values, strict=True))
        self._put(segments, sum(len(s.values) for s in segments), size_bytes, None)

    def _has_room(self) -> bool:
        """Return True if another part delays neither a row of the log nor the log
        thread for long.
        """
        records = min(CHUNK_BATCH_RECORDS * CHUNK_PARTS_AHEAD, self._queue.records_max - self._part_records)
        size_bytes = CHUNK_BATCH_BYTES * CHUNK_PARTS_AHEAD
        if self._queue.bytes_max:
            size_bytes = min(size_bytes, self._queue.bytes_max - self._part_bytes)
        return self._queue.records_total <= records and self._queue.bytes_total <= size_bytes

    @property
    def _part_records(self) -> int:
        return max(1, min(CHUNK_BATCH_RECORDS, self._queue.records_max // 2))

    @property
    def _part_bytes(self) -> int:
        return max(1, min(CHUNK_BATCH_BYTES, self._queue.bytes_max // 2)) if self._queue.bytes_max else CHUNK_BATCH_BYTES

    def _send_part(self) -> tuple[int, int]:
        """Send one part of the first window; with its last part the dump advances.

        Return the numbers of records and bytes that were sent.
        """
        self._leaving_since_s = self._clock.monotonic_s()
        window = self._leaving.first
        records = self._encoded(window) if self._may_go_on(window) else None
        if records is None:
            self._end_first()
            return 0, 0
        keys, values = records.part(window.left_out, records_max=self._part_records, bytes_max=self._part_bytes)
        size_bytes = 0
        if keys:
            segment = Segment(records.topic, keys, values, window.closed.table, schemas=records.unwritten_schemas)
            size_bytes = sum(len(k) for k in keys if k) + sum(len(v) for v in values if v)
            passed = self._put([segment], len(keys), size_bytes, None)
            records.passed += sum(len(one.values) for one in passed if one.table is not None)
        if records.is_out:
            self._moves_on(window, records)
        return len(keys), size_bytes

    def _end_first(self) -> None:
        with self._changed:
            self._leaving.end_first()
            self._changed.notify_all()

    def _may_go_on(self, window: LeavingWindow[ChunkRead]) -> bool:
        """Return True if the window's rows may still leave; otherwise discard them.

        They may not if the dump was stopped or the table restarted, since the SELECT or between
        parts.
        """
        if self._goes_on(window.closed.rows):
            return True
        self._left_behind(window.closed)
        return False

    def _encoded(self, window: LeavingWindow[ChunkRead]) -> Encoded | None:
        """Return the window's rows as records, or None if they must not leave."""
        if window.records is not None:
            return window.records
        closed = window.closed
        chunk = closed.rows
        encoder = self._encoder_of(closed.table)
        if encoder is None or encoder.plan.table != chunk.table:
            self._thrown_away(closed, f"the columns of {closed.table} changed between its SELECT and its high watermark")
            return None
        low = closed.low
        if chunk.shown is not None and not self._shows(chunk.shown, closed.table, (low.sequence_high, low.sequence_low)):
            self.tally.proof_retried()
            self._unproven[closed.table, closed.lane] = self._unproven.get((closed.table, closed.lane), 0) + 1
            self._thrown_away(
                closed, f"the snapshot of a chunk of {closed.table} lacks a transaction that the log has before its low watermark"
            )
            return None
        if chunk.fault is not None:
            self._fail(chunk.extent.dump, closed.table, chunk.fault)
            return None
        now_us = self._clock.now_us()
        context = self._chunk_context(closed.low, now_us)
        records = Encoded(encoder.plan.topic, unwritten_schemas=encoder.plan.unwritten_schemas)
        by_key = distinguishes_rows(encoder.plan)
        if chunk.extent.mode is Mode.VERIFY:
            records.fingerprints, records.dropped, records.digest = encoder.fingerprint_chunk(chunk.rows, window.left_out)
            records.schemas = verified_schemas(encoder.plan)
        else:
            rows = chunk.encoder or encoder
            records.rows, records.end_of_rows = chunk.rows, rows.end_of_rows
            records.encode = lambda part, noted: rows.encode_chunk(part, context, noted)
            if not by_key:
                records.make(window.left_out)
            elif closed.lacking:
                records.make(window.left_out - closed.lacking)
                if not closed.lacking.isdisjoint(records.keys):
                    self._lacking_again(chunk, closed.lane)
                    return None
        if records.dropped and not by_key:
            self._mixed_up_again(chunk, closed.lane)
            return None
        self._stuck.pop((closed.table, closed.lane), None)
        self._unproven.pop((closed.table, closed.lane), None)
        window.records = records
        return records

    def _moves_on(self, window: LeavingWindow[ChunkRead], records: Encoded) -> None:
        """Advance the dump after all rows of a window, and send the marker.

        If the chunk is no longer what its dump needs next, discard it instead.
        """
        closed, chunk = window.closed, window.closed.rows
        by_list = chunk.extent.keys is not None  # their range counts keys of the list
        made = ChunkMarker(
            chunk_id=f"{self._run}/{closed.number}",
            table=closed.table,
            topic=records.topic,
            after=None if by_list else chunk.after,
            upto=None if by_list else chunk.upto,
            final=chunk.final and not chunk.inside,
            low=closed.low,
            high=closed.high,
            rows_read=chunk.row_count,
            rows_dropped=records.dropped,
            digest=records.digest,
            dump=chunk.extent.dump,
            mode=chunk.extent.mode.value,
            begins=chunk.begins or not chunk.by,
            scope=chunk.extent.scope.value,
            fingerprints=records.fingerprints,
            schemas=records.schemas,
            opened_ms=closed.opened_ms,
            own_left=None if chunk.extent.dump == INITIAL else self._is_left(closed.table),
            rows_passed=None if records.unwritten_schemas is None else records.passed,
        )
        with self._changed:
            self._leaving.end_first()
            moves = self._is_next(chunk)
            if moves:
                proof = Proof(low=closed.low, high=closed.high, at_us=self._clock.now_us(), rows=chunk.row_count)
                self._notes.sent(chunk.extent.dump, closed.table, proof)
                self._change_of(chunk.extent.dump, closed.table, lambda dump: _advanced(dump, chunk))
            self._changed.notify_all()
        if not moves:
            self._left_behind(closed)
            return
        self.tally.chunk(dropped=records.dropped)
        if chunk.extent.mode is Mode.REPAIR and chunk.extent.scope is Scope.TABLE:
            if made.begins:
                self._warnings.repair_begins(chunk.extent.dump, closed.table, closed.found_before)
            if self._is_read(chunk):
                self._repaired(chunk.extent.dump, closed.table)
        segment_of_marker = self._marker_segment(made)
        self.extra([] if segment_of_marker is None else [segment_of_marker])

    def _is_read(self, chunk: ChunkRead) -> bool:
        """Return True if the chunk's dump has read its table to the end."""
        one = self.requests.get(chunk.extent.dump)
        dump = self.dump if one is None else one.dump
        progress = None if dump is None else dump.table(chunk.table.id)
        return progress is not None and progress.done

    def _is_left(self, table: TableId) -> bool:
        """Return True if the connector's own dump has rows of the table still to read."""
        progress = None if (dump := self.dump) is None else dump.table(table)
        return progress is not None and not progress.done  # a failed table is read by the next run

    def _left_behind(self, closed: Closed[ChunkRead]) -> None:
        self._thrown_away(closed, f"the dump of {closed.table} has begun again, or ended, since its SELECT")

    def _thrown_away(self, closed: Closed[ChunkRead], reason: str) -> None:
        """Discard a closed window. ``Windows`` no longer knows it, so the reset is counted here."""
        with self._changed:
            self._windows.discarded_total[Why.TABLE] += 1
            self._notes.thrown_away(closed.rows.extent.dump, closed.table, 1)
            self._reset(closed.table, closed.lane, reason)
            self._discarded(self._windows.lane_spoilt(closed.table, closed.lane, "an older window of the table was discarded"))

    def _goes_on(self, chunk: ChunkRead) -> bool:
        """Return True if the chunk is what its dump needs next.

        A chunk that was read before its table was restarted is not. # I9
        """
        with self._changed:
            return self._is_next(chunk)

    def _is_next(self, chunk: ChunkRead) -> bool:
        """Return True if the chunk is what its dump needs next. The lock is held."""
        one = self._requests.get(chunk.extent.dump)
        if chunk.extent.dump != INITIAL and (one is None or one.end is End.STOPPED):
            return False
        dump = self._dump if one is None else one.dump
        progress = None if dump is None else dump.table(chunk.table.id)
        if progress is not None and progress.fault == STOPPED:
            return False
        return progress is None or not chunk.by or progress.goes_on(chunk.after, begins=chunk.begins)

    def _fail_passed_over(self, table: TableId) -> None:
        """End the table in requested dumps whose chunks may miss a row with values that the log
        lacks.

        Nothing else would send these values.
        """
        with self._changed:
            moving = [one.request for one in self._moving(table) if one.request.surrogate_key is not None]
        for request in moving:
            self._fail(
                request.id,
                table,
                f"a change of {table} leaves out large values of a row, which may have moved past all chunks, because these are read by "
                f"{request.surrogate_key}; have the log hold whole rows (REPLICA IDENTITY FULL, binlog_row_image=FULL) and request the dump again, or request "
                "it without surrogate_key",
            )

    def _mixed_up_again(self, chunk: ChunkRead, lane: int) -> None:
        """Read the chunk again, in smaller parts, because a change in the window has a row's
        message key.

        The change may be of that row or of another one. The number of tries is limited.
        """
        self._smaller_again(
            chunk,
            lane,
            "a change inside the window has the message key of a row, and message.key.columns does not distinguish rows",
            "message.key.columns gives several rows one message key, so rows cannot be distinguished from changes; have message.key.columns name "
            f"{', '.join(chunk.table.key)} too, or leave the table out of it, or restart the task while the table rests",
            why=Why.MESSAGE_KEY,
        )

    def _lacking_again(self, chunk: ChunkRead, lane: int) -> None:
        """Read the chunk again, in smaller parts, because the log changed a row but lacks some of
        its values.
        """
        self._smaller_again(
            chunk,
            lane,
            "a change inside the window leaves out large values of a row that it has not changed",
            "the log leaves out large values that a change leaves alone, so only the dump has them; have the log hold whole rows (REPLICA IDENTITY FULL, "
            "binlog_row_image=FULL), or restart the task while the table rests",
            why=Why.LACKING,
        )

    def _smaller_again(self, chunk: ChunkRead, lane: int, reason: str, in_the_end: str, *, why: Why) -> None:
        """Read the chunk again, in smaller parts; after ``STUCK_TRIES_MAX`` windows
        fail the dump.
        """
        table = chunk.table.id
        after, tries = self._stuck.get((table, lane), (None, 0))
        tries = tries + 1 if after == chunk.after else 1
        self._stuck[table, lane] = chunk.after, tries
        if tries >= STUCK_TRIES_MAX:
            self._fail(chunk.extent.dump, table, f"{table} changed inside each of {tries} windows over the same rows, and {in_the_end}")
            return
        with self._changed:
            self._shrink.add((table, lane))
            self._reset(table, lane, reason)
            self._windows.discarded_total[why] += 1
            self._notes.thrown_away(chunk.extent.dump, table, 1)
            self._discarded(self._windows.lane_spoilt(table, lane, "an older window of the table was discarded", why=why))

    def _put(self, segments: list[Segment], records: int, size_bytes: int, source_ts_us: int | None) -> list[Segment]:
        """Queue records as one batch, after the chain of transforms if there is one. Return what is
        queued.
        """
        dump, requests = None, None
        if self.dump_moved:
            with self._changed:
                dump = self._dump if self._dump_moved else None
                requests = self._requests if self._requests_moved else None
                self._dump_moved = self._requests_moved = False
                notices, self._notices = self._notices, []
            if notices and self._notify is not None:
                made = self._notify(notices)
                segments = [*segments, *made]
                records += len(made)
                size_bytes += sum(len(part) for segment in made for part in (*segment.keys, *segment.values) if part is not None)
        if self._transform is not None and segments:
            passed = self._transform(segments)
            segments, records, size_bytes = passed.segments, passed.records, passed.size_bytes
        log_offsets, self._log_offsets = tuple(self._log_offsets), []
        step = Step(log_offsets=log_offsets, dump=dump, requests=requests)
        if records:
            self.tally.batch(segments, source_ts_us)
        self._queue.put(Batch(segments, step, records, size_bytes, source_ts_us))
        return segments

    def _set_dump(self, dump: Dump | None, table: TableId | None = None) -> None:
        """Set the state of the connector's own dump. ``table`` is given if only its progress
        changes.
        """
        if dump is not None and dump.ended and self._dump is not None and not self._dump.ended:
            log.info("dump done", rows=dump.rows, tables=len(dump.tables), failed=[str(t.table) for t in dump.failed])
        if self._notify is not None:
            self._notices += of_own(self._dump, dump, table)
        self._dump = dump
        self._dump_moved = True

    def _set_requests(self, requests: Requests, table: TableId | None = None) -> None:
        before = self._requests
        if requests is before:
            return
        for identity, one in requests.by_id.items():
            known = before.get(identity)
            if one.end is not None and known is not None and known.end is None:
                _log_end(one)
        if self._notify is not None:
            self._notices += [
                notice
                for identity, one in requests.by_id.items()
                if one is not before.get(identity)
                for notice in of_request(before.get(identity), one, table)
            ]
        self._requests = requests
        self._requests_moved = True

    def _change_of(self, identity: str, table: TableId, change: Callable[[Dump], Dump]) -> None:
        """Change a table's progress in one of the dumps. The lock is held."""
        if identity != INITIAL:
            self._set_requests(self._requests.changed(identity, change), table)
        elif self._dump is not None:
            self._set_dump(change(self._dump), table)

    def _dump_for(self, table: TableId) -> Dump | None:
        """Return the dump that the table is read for. The lock is held."""
        identity = self._read_for.get(table, INITIAL)
        if identity == INITIAL:
            return self._dump
        one = self._requests.get(identity)
        return None if one is None else one.dump

    def _discarded(self, discarded: Discarded | None) -> None:
        if discarded is None:
            return
        if discarded.smaller and discarded.lane is not None:
            self._shrink.add((discarded.table, discarded.lane))
        self._notes.thrown_away(self._read_for.get(discarded.table, INITIAL), discarded.table, len(discarded.numbers))
        self._reset(discarded.table, discarded.lane, discarded.reason)

    def _thrown_back(self, table: TableId, reason: str) -> None:
        """Discard the table's windows and send its readers back to their frontiers, even between
        two windows.

        The lock is held.
        """
        self._windows.table_changed(table, reason)
        self._reset(table, None, reason)

    def _reset(self, table: TableId, lane: int | None, reason: str) -> None:
        """Send the lane's reader back to its frontier; None: all readers of the table. The lock is
        held.
        """
        self._resets[table, lane] = self._resets.get((table, lane), 0) + 1
        log.info("chunk read again", table=str(table), reason=reason)
        self._changed.notify_all()

    def _resets_of(self, table: TableId, lane: int) -> int:
        return self._resets.get((table, None), 0) + self._resets.get((table, lane), 0)

    def _is_open(self, table: TableId, lane: int) -> bool:
        """Return True if a window of the lane is open or has not advanced the frontier. The lock is
        held.
        """
        return self._windows.open_of(table, lane) > 0 or self._leaving.of(table, lane) > 0

    def _is_done(self, table: TableId, upto: Key | None) -> bool:
        dump = self._dump_for(table)
        progress = None if dump is None else dump.table(table)
        return progress is None or progress.ended or (upto is not None and progress.range_to(upto) is None)


def _log_end(one: RequestedDump) -> None:
    dump = one.dump
    log.info(
        "requested dump ended",
        dump=one.request.id,
        state=one.end,
        rows=dump.rows,
        tables_done=dump.tables_done,
        tables_total=dump.tables_total,
        failed=one.tables_failed,
    )


def _advanced(dump: Dump, chunk: ChunkRead) -> Dump:
    """Return the dump after a window of it has closed."""
    table = chunk.table.id
    if dump.table(table) is None:
        return dump
    if chunk.begins:
        dump = dump.started(table, key=chunk.by, upto=chunk.greatest)
    return dump.advanced(table, behind=chunk.after, after=chunk.upto, rows=chunk.row_count, done=chunk.final).weighed(
        table, len(chunk.rows)
    )
