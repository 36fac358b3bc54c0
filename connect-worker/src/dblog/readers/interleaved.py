"""Brings log rows and chunk rows into one order: the order in which everything leaves the task.

The log thread submits what the log holds (``rows``, ``watermark``, ``table_changed``), chunk threads announce windows and submit what they have read
(``declare``, ``submit``). Rules are core/watermark.py's; here are the lock, the waiting, and the batches. Chunk rows are encoded when their window
has closed, on the log thread: only then is the position of the low watermark known, which every dump row carries. They leave in parts, with rows of the
log in between (``leaving.py``). # I2

A chunk was read with one version of its table. If the log, on its way to the high watermark, has come to another version, the rows do not fit the
columns any more: the window is discarded and read again.
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

log = structlog.get_logger(__name__)

CHUNK_BATCH_RECORDS = 1000
"""Chunk rows enter the queue in batches of this size: larger ones cost time in the producer (measured: 12 to 15 % at 20 000), and a row of the log waits
behind those that are in the queue. Of large rows there are fewer, as many as ``CHUNK_BATCH_BYTES`` have."""

CHUNK_BATCH_BYTES = 256 * 1024

CHUNK_PARTS_AHEAD = 3
"""Parts of chunks enter the queue while it holds no more than so many: with one the sender waits for the log thread now and then (a third fewer records a
second), with more a row of the log waits longer.
"""

COMING_MAX = 1000
"""Tables that are remembered as coming; the topic of one that is forgotten is made with its first record. # I6"""

STUCK_TRIES_MAX = 100
"""Windows over the same rows of a table whose message key does not distinguish rows, or whose log leaves out values: with a change in each of so many it will
not rest, and its dump fails.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one batch moves: the offsets of the log items up to it, in order, and the dump's state when it has changed."""

    log_offsets: tuple[Any, ...]
    dump: Dump | None = None
    requests: Requests | None = None

    @property
    def moves_dump(self) -> bool:
        """Whether it changes what the offset has of dumps."""
        return self.dump is not None or self.requests is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRead:
    """A chunk as its reader submits it: raw rows, the range they cover, and the table version they were selected with."""

    table: Table
    rows: bytes
    row_count: int
    after: Key | None
    upto: Key | None
    """The range is (after, upto]; ``upto`` is the last row's key, or the end of the reader's range when ``final``."""
    final: bool
    inside: bool = False
    """The reader's range ends in front of the table's end: with ``final``, others are left of the table, or were read before."""
    begins: bool = False
    """The table's first chunk: its snapshot has shown ``greatest``, the key up to which the table is dumped."""
    greatest: Key | None = None
    extent: Extent = field(default_factory=Extent)
    """For which dump it is read, and what that covers."""
    encoder: RowEncoder | None = None
    """Of rows of another shape than the table's own; None where they have that."""
    fault: str | None = None
    """Why the range cannot be trusted. Only the log can show whether the table was changed under the reader, so it counts when the window closes."""
    shown: Any = None
    """What its snapshot showed, where the watermark alone does not prove it."""
    surrogate: tuple[str, ...] | None = None
    """The columns that the range's ends are values of, where they are not the table's key (``core/surrogate.py``)."""

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that the range's ends are values of; none of a table that is read in one."""
        return self.table.key if self.surrogate is None else self.surrogate


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMarker:
    """What a closed window leaves behind (D6); the task turns it into a record of the marker topic."""

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
    """The table's first chunk in this dump, also when the table is begun again; no other chunk of it has an earlier low watermark."""
    scope: str = marker.WHOLE_TABLE
    fingerprints: bytes | None = None
    """Of the rows of a dump that sends none."""
    schemas: tuple[str, str] | None = None
    """With which those are made: of keys, and of rows."""
    opened_ms: int | None = None
    """When the log thread met the low watermark: what changes inside the window was sent since."""
    own_left: bool | None = None
    """Of a dump that was asked for: whether the connector's own one has the table's rows still to read."""


class Interleaver:
    """One task's meeting point of log and chunks. ``encoder_of`` gives the encoder of a table at the log's position (log thread only)."""

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
    ) -> None:
        """``chunk_context`` is ``RowPlans.chunk_context``, ``shows`` is ``LogSource.shows``. ``notify`` makes the records of notices (log thread only);
        None: nobody is notified. ``repaired`` is called with a whole dump in mode repair and each table that it has read to its end (log thread only).
        ``warnings``: they hear where such a dump begins. None: nobody reads them.
        """
        self._repaired = repaired
        self._warnings = warnings or StandingWarnings()
        self._leaving: Leaving[ChunkRead] = Leaving()
        self._leaving_since_s = 0.0
        self._log_is_ahead = False
        """Whether rows of the log have gone out since the last part did."""
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
        """The requested dump that a table is read for; the others are read for the connector's own."""
        self._dump_moved = self._requests_moved = False
        self._log_offsets: list[Any] = []
        self._resets: dict[tuple[TableId, int | None], int] = {}
        """By table and lane; None: of all its lanes."""
        self._shrink: set[tuple[TableId, int]] = set()
        self._held: frozenset[TableId] = frozenset()
        self._held_for = ""
        self._coming: deque[TableId] = deque(maxlen=COMING_MAX)
        self._notes = ChunkNotes()
        self._stuck: dict[tuple[TableId, int], tuple[Key | None, int]] = {}
        """Where each lane's chunks have got stuck, and how often: changes did not go together with rows of theirs."""
        self._unproven: dict[tuple[TableId, int], int] = {}

    # ---- the dump's state

    @property
    def dump(self) -> Dump | None:
        """The connector's own dump under way or finished last; None before the first."""
        with self._changed:
            return self._dump

    @property
    def requests(self) -> Requests:
        """The dumps that were asked for."""
        with self._changed:
            return self._requests

    @property
    def dump_moved(self) -> bool:
        """Whether no batch has carried the newest state yet (an empty table is done without any row)."""
        return self._dump_moved or self._requests_moved

    def begin(self, dump: Dump | None, requests: Requests, *, known: Requests, dump_is_new: bool) -> None:
        """What is known of dumps at the start; ``known``: as far as the offset knows it, so that the rest is news."""
        with self._changed:
            self._dump, self._requests = dump, known
            if dump_is_new and self._notify is not None:
                self._notices += of_own(None, dump)
            self._dump_moved = dump is not None
            self._set_requests(requests)
            self._requests_moved = True

    def notes(self, identity: str, table: TableId) -> tuple[int, int, Proof | None]:
        """Of a table in a dump: chunks that are open, chunks that were read again, and the last one that was sent."""
        with self._changed:
            is_read = self._read_for.get(table, INITIAL) == identity
            open_now = self._windows.open_in(table) + self._leaving.of(table) if is_read else 0
            return open_now, self._notes.read_again(identity, table), self._notes.proof(identity, table)

    def rows_leave(self, identity: str) -> set[TableId]:
        """The tables of a dump of which a window has closed whose rows are not all sent, so that its state does not show them yet."""
        with self._changed:
            return {closed.table for closed in self._leaving.closed() if closed.rows.extent.dump == identity}

    def waits(self, table: TableId, reason: str) -> None:
        """The table's next chunk is to be tried again, for that reason."""
        with self._changed:
            self._notes.waits(self._read_for.get(table, INITIAL), table, reason)

    def not_read(self, table: TableId, reason: str) -> Trouble:
        """The same, and it is the reading of its rows that has failed: how often that was so in a row."""
        with self._changed:
            return self._notes.not_read(self._read_for.get(table, INITIAL), table, reason, self._clock.monotonic_s())

    def not_tried(self, table: TableId) -> None:
        """The table's next chunk is not wanted now: a series of tries that failed ends."""
        with self._changed:
            self._notes.read(self._read_for.get(table, INITIAL), table)

    def troubles(self, identity: str) -> dict[TableId, str]:
        """Why tables of a dump wait for their next chunk; beside them those that are held, of any dump."""
        with self._changed:
            return self._notes.troubles(identity) | dict.fromkeys(self._held, self._held_for)

    def forget_notes(self, identity: str) -> None:
        """Nobody watches the dump any more."""
        with self._changed:
            self._notes.forget(identity)

    def change_requests(self, change: Callable[[Requests], Requests]) -> None:
        """Replace what is known of the dumps that were asked for; the next batch carries it into the offset."""
        with self._changed:
            self._set_requests(change(self._requests))
            self._changed.notify_all()

    def change_all(self, change: Callable[[Dump], Dump]) -> None:
        """What the log shows of tables means the same for every dump."""
        with self._changed:
            if self._dump is not None and (changed := change(self._dump)) is not self._dump:
                self._set_dump(changed)
            self._set_requests(self._requests.all_changed(change))
            self._changed.notify_all()

    def read_for(self, table: TableId, identity: str) -> None:
        """Have the table read for a dump from now on. Nobody reads it meanwhile, and none of its windows is open."""
        with self._changed:
            if identity == INITIAL:
                self._read_for.pop(table, None)
            else:
                self._read_for[table] = identity

    def request_of(self, table: TableId) -> RequestedDump | None:
        """The requested dump that the table is read for; None for the connector's own."""
        with self._changed:
            return self._requests.get(self._read_for.get(table, INITIAL))

    def moves_rows(self, table: TableId) -> bool:
        """Return whether an update can take a row of the table past all chunks of a dump that has not ended.

        The chunks of such a dump are bounded by a column other than the key, or a condition chooses their rows. A row that moves between two windows from a
        range that is still to be read to one that was read, or that starts to fulfil the condition there, is in no chunk.
        """
        with self._changed:
            own = None if self._dump is None else self._dump.left.get(table)
            return (own is not None and own.chosen) or any(True for _ in self._moving(table))

    def _moving(self, table: TableId) -> Iterator[RequestedDump]:
        """Yield the requested dumps of which an update can take a row past all chunks. The lock is held."""
        for one in self._requests:
            request = one.request
            if one.end is None and table in one.dump.left and (request.surrogate_key is not None or request.predicate_of(str(table))):
                yield one

    def dump_of(self, table: TableId) -> tuple[str, Dump | None]:
        """The dump that the table is read for, by its name; None where it is forgotten already."""
        with self._changed:
            return self._read_for.get(table, INITIAL), self._dump_for(table)

    def change_table(self, table: TableId, change: Callable[[Dump], Dump]) -> None:
        """Change the dump that the table is read for."""
        with self._changed:
            self._change_of(self._read_for.get(table, INITIAL), table, change)
            self._changed.notify_all()

    def is_paused(self, table: TableId) -> bool:
        """Whether all dumps are held, or the dump that the table is read for, or the table in it, is to rest, or has been stopped.

        One that has ended may be forgotten while its last SELECT runs; whoever reads for it then must not go on as if for the connector's own.
        """
        with self._changed:
            identity = self._read_for.get(table, INITIAL)
            one = self._requests.get(identity)
        if one is None:
            return self.pace.held or identity != INITIAL
        return self.pace.held or not one.reads(table)

    def set_pace(self, pace: Pace) -> None:
        """How hard dumps may read from now on."""
        with self._changed:
            self.pace = pace
            self._changed.notify_all()

    def rest(self, table: TableId, rest_s: float) -> bool:
        """Rest ahead of a window of the table. False: the request that it is read for, and with it the rest, is another one now."""
        with self._changed:
            one = self.request_of(table)
            before = None if one is None else one.request

            def changed() -> bool:
                now = self.request_of(table)
                return self._stopping or self.pace.held or (None if now is None else now.request) is not before

            return not self._changed.wait_for(changed, timeout=rest_s)

    def change_dump(self, change: Callable[[Dump | None], Dump | None]) -> None:
        """Replace the state of the connector's own dump; the next batch carries it into the offset."""
        with self._changed:
            self._set_dump(change(self._dump))
            self._changed.notify_all()

    def table_dump(self, table: TableId) -> TableDump | None:
        """One table's progress in the dump that it is read for."""
        with self._changed:
            dump = self._dump_for(table)
        return None if dump is None else dump.table(table)

    def window_numbers(self) -> dict[str, float]:
        """How the windows are, for metrics."""
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
        """Announce a window. Waits while ``windows_max`` of the lane are open, where the first one whose rows leave is not counted. None: stopping, or the
        lane was reset since ``resets``, or is held.
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
        """Announce a window of each of these tables between one pair of watermarks; by table how often it had been reset when its reader looked. Those that
        were reset since, or are held, are left out.
        """
        with self._changed:
            if self._stopping:
                return []
            return self._windows.declare_together(
                [table for table, resets in tables.items() if self._resets_of(table, 0) == resets and table not in self._held]
            )

    def tables_between(self, ticket: Ticket) -> tuple[TableId, ...]:
        """The tables whose windows share the ticket's watermarks."""
        with self._changed:
            return self._windows.tables_between(ticket)

    def submit_together(self, tickets: Iterable[Ticket], chunks: Mapping[TableId, ChunkRead]) -> bool:
        """Give windows between one pair of watermarks their rows; those that have none are given up. False: all were discarded meanwhile, or given up."""
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
        """Give a window its rows. False: it was discarded meanwhile; its high watermark need not be written."""
        with self._changed:
            self._notes.read(chunk.extent.dump, chunk.table.id)
            return self._windows.submit(ticket.number, chunk, now_s=self._clock.monotonic_s())

    def take_coming(self) -> list[TableId]:
        """Tables whose first rows will be sent soon, since the last call: there is time to make their topics."""
        if not self._coming:
            return []
        with self._changed:
            coming = list(self._coming)
            self._coming.clear()
            return coming

    def abandon(self, ticket: Ticket, reason: str) -> None:
        """The SELECT failed: throw the window away; the reader starts again at the frontier."""
        with self._changed:
            self._discarded(self._windows.discard(ticket.number, reason))

    def unproven(self, table: TableId, lane: int = 0) -> int:
        """How many chunks of the lane, one after the other, lacked a transaction that the log has. The log thread counts them."""
        return self._unproven.get((table, lane), 0)

    def resets(self, table: TableId, lane: int = 0) -> int:
        """How often windows of the lane were thrown away; a reader that sees it rise goes back to its frontier."""
        with self._changed:
            return self._resets_of(table, lane)

    def settled(self, table: TableId, lane: int = 0) -> int:
        """Wait until no window of the lane is open, and return the same: then its frontier has come to the end of all that was read. Who begins again
        at an earlier one reads rows twice, and the table's chunk markers overlap. # I9
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or table in self._held or not self._is_open(table, lane))
            return self._resets_of(table, lane)

    def is_held(self, table: TableId) -> bool:
        """Whether no window of the table may be opened for now: its reader takes another table."""
        return table in self._held

    def take_shrink(self, table: TableId, lane: int = 0) -> bool:
        """Whether a window overflowed since the last call: the next chunk should be smaller."""
        with self._changed:
            shrink = (table, lane) in self._shrink
            self._shrink.discard((table, lane))
            return shrink

    def wait_done(self, table: TableId, *, resets: int, lane: int = 0, upto: Key | None = None) -> bool:
        """Wait until the last window of the lane has closed, whose range ends at ``upto`` (None: the table's only one), or the table's dump has failed. False:
        a window was discarded, or none is open and more is to be read (the dump was paused for a moment), or the task stops.
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
        """The table cannot be dumped: the dump that it is read for ends with an error, the others go on."""
        with self._changed:
            identity = self._read_for.get(table, INITIAL)
        self._fail(identity, table, fault)

    def _fail(self, identity: str, table: TableId, fault: str) -> None:
        log.error("the table cannot be dumped", table=str(table), reason=fault)
        with self._changed:
            self._change_of(identity, table, lambda d: d.given_up(table, fault))
            self._changed.notify_all()

    def stop(self) -> None:
        """Wake every waiting thread for good."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    @property
    def stopping(self) -> bool:
        """True once ``stop`` was called."""
        return self._stopping

    # ---- the log thread

    def moved(self, log_offset: object) -> None:
        """The log has come to this offset (each item's, in order); the next batch carries it."""
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
        """Log rows, in log order: drop their keys from open windows, and send them. ``lacking``: ``LogRows.lacking``."""
        if self._leaving and any(
            s.table is not None and (self._leaving.is_full(s.table, len(s.keys)) or (s.table in lacking and self._leaving.of(s.table)))
            for s in segments
        ):
            # They leave ahead of these rows, and no offset behind these rows may be stored before these rows are. # I1
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
        """DDL on a table, at the log's position: its windows are read again."""
        with self._changed:
            self._discarded(self._windows.table_changed(table, reason))

    def hold(self, tables: frozenset[TableId], reason: str) -> bool:
        """Open no window of these tables, and of no others but these, until the next call. True: some tables are held no longer."""
        with self._changed:
            before, self._held, self._held_for = self._held, tables, reason
            for table in tables - before:
                if self._dump is not None and table in self._dump.left:  # a busy server prepares XA transactions all the time
                    log.info("the table's dump waits", table=str(table), reason=reason)
                self._discarded(self._windows.table_changed(table, reason, why=Why.HELD))
            self._changed.notify_all()
            return bool(before - tables)

    def read_again(self, table: TableId, reason: str, change: Callable[[Dump | None], Dump | None]) -> None:
        """Begin the table's dump again, with the state that ``change`` gives; whoever reads the table goes back to its beginning, between two windows too."""
        with self._changed:
            self._thrown_back(table, reason)
            self._set_dump(change(self._dump))

    def read_all_again(self, tables: Iterable[TableId], reason: str, change: Callable[[Dump | None], Dump]) -> None:
        """Begin the dumps of several tables again, in one step. The caller logs the tables, which may be thousands."""
        with self._changed:
            for table in tables:
                self._windows.table_changed(table, reason)
                self._resets[table, None] = self._resets.get((table, None), 0) + 1
            self._changed.notify_all()
            self._set_dump(change(self._dump))

    def dropped(self, table: TableId) -> None:
        """The table is gone from the source. The connector's own dump has nothing left to read of it; who asked for its rows is told that they did not come."""
        with self._changed:
            if self._dump is not None and (changed := self._dump.dropped(table)) is not self._dump:
                self._set_dump(changed)
            self._set_requests(self._requests.all_changed(lambda d: d.given_up(table, f"{table} was dropped") if table in d.left else d))
            self._changed.notify_all()

    def not_known(self, table: TableId) -> None:
        """The same of a table that is read now and whose schema is not known where the log stands: it was dropped, or it is parked."""
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
        """In every dump that has begun the table and not ended it; whoever reads it goes back to its beginning, between two windows too. ``only``: in
        dumps alone whose requests it holds for. A list of keys is read in its own order, and goes on if they still are keys.
        ``own_repair``: beside these in the connector's own dump, where that repairs the table.
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
        """One statement's renames in the dumps that were asked for. Whoever reads for one of them what another table's name is now goes back to its
        beginning, though no window of it may be open.
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
        """A watermark, at the log's position; behind a high watermark the rows of its windows leave, as the queue has room for them."""
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
        """Whether no key of the log tells which of its rows have changed: then nothing of the log may come between them."""
        encoder = self._encoder_of(closed.table)
        return not closed.rows.table.key or (encoder is not None and not distinguishes_rows(encoder.plan))

    @property
    def chunk_rows_wait(self) -> bool:
        """Whether rows of closed windows are still to leave."""
        return bool(self._leaving)

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Have rows of closed windows leave while the queue holds few. ``waited_max_s``: where none has left for so long beside rows of the log, as many as
        one part has leave whatever the queue holds. Whether some have left.
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
        """Have all rows of closed windows leave: what comes next may say something else of them."""
        while self._leaving:
            self._send_part()

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Whether a window that was submitted before that moment still waits for its high watermark."""
        if not self._windows.open_total:
            return False
        with self._changed:
            return self._windows.has_overdue(submitted_before_s)

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """The log has been read to its end and lacks the watermarks of windows that were submitted before that moment: their ranges are read again."""
        if self._windows.open_total:
            with self._changed:
                for discarded in self._windows.overdue(submitted_before_s):
                    self._discarded(discarded)

    def extra(self, segments: list[Segment]) -> None:
        """Records that are no rows (heartbeat, schema change), or none at all when only the offset moves."""
        size_bytes = sum(len(k or b"") + len(v or b"") for s in segments for k, v in zip(s.keys, s.values, strict=True))
        self._put(segments, sum(len(s.values) for s in segments), size_bytes, None)

    def _has_room(self) -> bool:
        """Whether a part more neither makes a row of the log wait for long nor the log thread for the sender."""
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
        """One part of the window whose turn it is; with the last one the dump moves on. How many records and bytes have left."""
        self._leaving_since_s = self._clock.monotonic_s()
        window = self._leaving.first
        records = self._encoded(window) if self._may_go_on(window) else None
        if records is None:
            self._end_first()
            return 0, 0
        keys, values = records.part(window.left_out, records_max=self._part_records, bytes_max=self._part_bytes)
        size_bytes = 0
        if keys:
            segment = Segment(records.topic, keys, values, window.closed.table)
            size_bytes = sum(len(k) for k in keys if k) + sum(len(v) for v in values if v)
            self._put([segment], len(keys), size_bytes, None)
        if records.is_out:
            self._moves_on(window, records)
        return len(keys), size_bytes

    def _end_first(self) -> None:
        with self._changed:
            self._leaving.end_first()
            self._changed.notify_all()

    def _may_go_on(self, window: LeavingWindow[ChunkRead]) -> bool:
        """False: its dump was stopped, or another reader of the table has begun it again, since the SELECT or while rows left; the rest is thrown away."""
        if self._goes_on(window.closed.rows):
            return True
        self._left_behind(window.closed)
        return False

    def _encoded(self, window: LeavingWindow[ChunkRead]) -> Encoded | None:
        """Its rows as records, or how they become so; None where they are not to leave."""
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
                closed, f"the snapshot of a chunk of {closed.table} lacks a transaction that the log has in front of its low watermark"
            )
            return None
        if chunk.fault is not None:
            self._fail(chunk.extent.dump, closed.table, chunk.fault)
            return None
        now_us = self._clock.now_us()
        context = self._chunk_context(closed.low, now_us)
        records = Encoded(encoder.plan.topic)
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
        """All its rows are out: the dump moves on, and the marker follows, if the chunk still is what its dump lacks next."""
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
        """Return whether the chunk's dump has read its table to the end."""
        one = self.requests.get(chunk.extent.dump)
        dump = self.dump if one is None else one.dump
        progress = None if dump is None else dump.table(chunk.table.id)
        return progress is not None and progress.done

    def _is_left(self, table: TableId) -> bool:
        """Whether the connector's own dump has rows of the table still to read."""
        progress = None if (dump := self.dump) is None else dump.table(table)
        return progress is not None and not progress.done  # one that has failed is read by the next run

    def _left_behind(self, closed: Closed[ChunkRead]) -> None:
        self._thrown_away(closed, f"the dump of {closed.table} has begun again, or ended, since its SELECT")

    def _thrown_away(self, closed: Closed[ChunkRead], reason: str) -> None:
        """A window whose rows may not be sent is forgotten already, so the reset is counted here."""
        with self._changed:
            self._windows.discarded_total[Why.TABLE] += 1
            self._notes.thrown_away(closed.rows.extent.dump, closed.table, 1)
            self._reset(closed.table, closed.lane, reason)
            self._discarded(self._windows.lane_spoilt(closed.table, closed.lane, "an older window of the table was discarded"))

    def _goes_on(self, chunk: ChunkRead) -> bool:
        """Whether the chunk is what its dump lacks next. One that was read before the dump of its table began again is not. # I9"""
        with self._changed:
            return self._is_next(chunk)

    def _is_next(self, chunk: ChunkRead) -> bool:
        """The lock is held."""
        one = self._requests.get(chunk.extent.dump)
        if chunk.extent.dump != INITIAL and (one is None or one.end is End.STOPPED):
            return False
        dump = self._dump if one is None else one.dump
        progress = None if dump is None else dump.table(chunk.table.id)
        if progress is not None and progress.fault == STOPPED:
            return False
        return progress is None or not chunk.by or progress.goes_on(chunk.after, begins=chunk.begins)

    def _fail_passed_over(self, table: TableId) -> None:
        """End the requested dumps whose chunks may lack a row of which the log has not all values: nobody would send these."""
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
        """Changes inside the window have the message key of chunk rows, which may be theirs or others': the chunk is read again, smaller, but not for ever."""
        self._smaller_again(
            chunk,
            lane,
            "a change inside the window has the message key of a row, and message.key.columns does not distinguish rows",
            "message.key.columns gives several rows one message key, so rows cannot be distinguished from changes; have message.key.columns name "
            f"{', '.join(chunk.table.key)} too, or leave the table out of it, or restart the task while the table rests",
            why=Why.MESSAGE_KEY,
        )

    def _lacking_again(self, chunk: ChunkRead, lane: int) -> None:
        """The log has changed a row of the chunk, and does not have all of its values: the same."""
        self._smaller_again(
            chunk,
            lane,
            "a change inside the window leaves out large values of a row that it has not changed",
            "the log leaves out large values that a change leaves alone, so only the dump has them; have the log hold whole rows (REPLICA IDENTITY FULL, "
            "binlog_row_image=FULL), or restart the task while the table rests",
            why=Why.LACKING,
        )

    def _smaller_again(self, chunk: ChunkRead, lane: int, reason: str, in_the_end: str, *, why: Why) -> None:
        """A change inside the window does not go together with a row of the chunk, which is read again, smaller. After so many windows the dump fails."""
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

    def _put(self, segments: list[Segment], records: int, size_bytes: int, source_ts_us: int | None) -> None:
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
        log_offsets, self._log_offsets = tuple(self._log_offsets), []
        step = Step(log_offsets=log_offsets, dump=dump, requests=requests)
        if records:
            self.tally.batch(segments, source_ts_us)
        self._queue.put(Batch(segments, step, records, size_bytes, source_ts_us))

    def _set_dump(self, dump: Dump | None, table: TableId | None = None) -> None:
        """``table``: nothing but this table's progress changes."""
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
        """The dump that the table is read for. The lock is held."""
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
        """Its windows are thrown away, and whoever reads it goes back to its frontier, between two windows too. The lock is held."""
        self._windows.table_changed(table, reason)
        self._reset(table, None, reason)

    def _reset(self, table: TableId, lane: int | None, reason: str) -> None:
        """Have the lane's reader (None: all readers of the table) go back to its frontier. The lock is held."""
        self._resets[table, lane] = self._resets.get((table, lane), 0) + 1
        log.info("chunk read again", table=str(table), reason=reason)
        self._changed.notify_all()

    def _resets_of(self, table: TableId, lane: int) -> int:
        return self._resets.get((table, None), 0) + self._resets.get((table, lane), 0)

    def _is_open(self, table: TableId, lane: int) -> bool:
        """Whether a window of the lane is open, or has not moved the frontier yet. The lock is held."""
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
    """The dump behind a window of its that has closed."""
    table = chunk.table.id
    if dump.table(table) is None:
        return dump
    if chunk.begins:
        dump = dump.started(table, key=chunk.by, upto=chunk.greatest)
    return dump.advanced(table, behind=chunk.after, after=chunk.upto, rows=chunk.row_count, done=chunk.final).weighed(
        table, len(chunk.rows)
    )
