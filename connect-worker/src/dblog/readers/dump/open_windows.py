"""The windows that chunk threads have opened and the log has not closed: announced, read, held,
discarded, and read again.

The rules of windows are ``core/watermark.py``'s; here are the lock, the waiting, and the resets. A
reset sends a reader back to the frontier of its range. Each lane of a table counts its resets, so a
reader that looks away between two windows finds out. # I9

A chunk is read with one version of its table. If the log reaches another version before the high
watermark, the rows no longer fit the columns, so the window is discarded and read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import structlog

from dblog.clock import Clock
from dblog.core.table_dump import Key
from dblog.core.watermark import Closed, Discarded, Ticket, WatermarkPosition, Why, Windows
from dblog.model import Segment, TableId
from dblog.observe.numbers import named
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump.chunknotes import ChunkNotes, Proof
from dblog.readers.dump.closed_windows import ClosedWindows
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

COMING_MAX = 1000
"""Maximum number of tables remembered for ``take_coming``. The topic of a forgotten table is
created with its first record. # I6
"""


class OpenWindows:
    """Windows of one task. ``closed`` are those whose rows are on their way out.

    The progress's lock is held around every access to both.
    """

    def __init__(
        self,
        *,
        windows: Windows[ChunkRead],
        closed: ClosedWindows[ChunkRead],
        progress: DumpProgress,
        notes: ChunkNotes,
        clock: Clock,
        warnings: StandingWarnings,
    ) -> None:
        self._windows = windows
        self._closed = closed
        self._progress = progress
        self._changed = progress.changed
        self._notes = notes
        self._clock = clock
        self._warnings = warnings
        self._resets: dict[tuple[TableId, int | None], int] = {}
        """Number of resets by table and lane; lane None counts resets of all lanes."""
        self._shrink: set[tuple[TableId, int]] = set()
        self._held: frozenset[TableId] = frozenset()
        self._held_for = ""
        self._unproven: dict[tuple[TableId, int], int] = {}
        self._coming: deque[TableId] = deque(maxlen=COMING_MAX)

    # ---- chunk threads

    def declare(self, table: TableId, *, keyed: bool, resets: int, windows_max: int, lane: int = 0) -> Ticket | None:
        """Announce a window and return its ticket, waiting while ``windows_max`` windows of the
        lane are open.

        The first window whose rows are leaving does not count. Return None if the task stops, or
        the lane was reset since ``resets``, or the table is held or paused.
        """

        def refused() -> bool:
            return (
                self._progress.stopping or self._resets_of(table, lane) != resets or table in self._held or self._progress.is_paused(table)
            )

        with self._changed:
            self._changed.wait_for(
                lambda: refused() or self._windows.open_of(table, lane) + max(0, self._closed.of(table, lane) - 1) < windows_max
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
            if self._progress.stopping:
                return []
            return self._windows.declare_together(
                [table for table, resets in tables.items() if self._resets_of(table, 0) == resets and table not in self._held]
            )

    def tables_between(self, ticket: Ticket) -> tuple[TableId, ...]:
        """Return the tables whose windows share the ticket's watermarks."""
        with self._changed:
            return self._windows.tables_between(ticket)

    def submit(self, ticket: Ticket, chunk: ChunkRead) -> bool:
        """Submit the rows of a window.

        Return False if it was discarded meanwhile, so that its high watermark need not be written.
        """
        with self._changed:
            self._notes.read(chunk.extent.dump, chunk.table.id)
            return self._windows.submit(ticket.number, chunk, now_s=self._clock.monotonic_s())

    def submit_together(self, tickets: Iterable[Ticket], chunks: Mapping[TableId, ChunkRead]) -> bool:
        """Submit the rows of windows between one pair of watermarks; withdraw the windows without
        rows.

        Return False if all were discarded meanwhile or withdrawn.
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
            self._changed.wait_for(lambda: self._progress.stopping or table in self._held or not self._is_open(table, lane))
            return self._resets_of(table, lane)

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
                    self._progress.stopping
                    or self._resets_of(table, lane) != resets
                    or table in self._held
                    or self._progress.book.is_done(table, upto)
                    or not self._is_open(table, lane)
                )
            )
            return self._progress.book.is_done(table, upto)

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

    # ---- any thread

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

    def notes(self, identity: str, table: TableId) -> tuple[int, int, Proof | None]:
        """Return for a table of a dump: open chunks, chunks read again, and the proof of the last
        one sent.
        """
        with self._changed:
            is_read = self._progress.book.identity_of(table) == identity
            open_now = self._windows.open_in(table) + self._closed.of(table) if is_read else 0
            return open_now, self._notes.read_again(identity, table), self._notes.proof(identity, table)

    def rows_leave(self, identity: str) -> set[TableId]:
        """Return the tables of a dump with a closed window whose rows are not all sent.

        The state of the dump does not include these rows yet.
        """
        with self._changed:
            return {window.table for window in self._closed if window.rows.extent.dump == identity}

    def troubles(self, identity: str) -> dict[TableId, str]:
        """Return the reasons why tables of a dump wait for their next chunk, and the held tables of
        any dump.
        """
        with self._changed:
            return self._notes.troubles(identity) | dict.fromkeys(self._held, self._held_for)

    def numbers(self) -> dict[str, float]:
        """Return the numbers of windows, for metrics."""
        with self._changed:
            windows = self._windows
            return {
                "windows_open": float(windows.open_total),
                "window_keys": float(windows.keys_noted),
                "windows_closed_total": float(windows.closed_total),
                **{named("windows_discarded_total", why.value): float(count) for why, count in windows.discarded_total.items()},
            }

    # ---- the log thread

    @property
    def any_open(self) -> bool:
        """True if some window is open. The log thread may ask without the lock."""
        return self._windows.open_total > 0

    def watermark(self, token: str, at: WatermarkPosition) -> list[Closed[ChunkRead]]:
        """Take a watermark at the log's position. Return the windows that it closes, in order; they
        are among the closed ones now.
        """
        with self._changed:
            met = self._windows.watermark(token, at, now_ms=self._clock.now_us() // 1000, found=self._warnings.found_here)
            for window in met:
                if isinstance(window, Discarded):
                    self._discarded(window)
            closed = [window for window in met if isinstance(window, Closed)]
            self._closed.add(closed)
            return closed

    def note(self, segments: Iterable[Segment], lacking: Mapping[TableId, AbstractSet[bytes]]) -> None:
        """Drop the keys of log rows from open windows, and from rows that have not left.

        ``lacking`` are the keys of a table whose records lack values (``LogRows.lacking``).
        """
        with self._changed:
            for segment in segments:
                if segment.table is not None:
                    self._closed.note(segment.table, segment.keys)
                    for spoilt in self._windows.note(segment.table, segment.keys, lacking=lacking.get(segment.table, frozenset())):
                        self._discarded(spoilt)

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
            own = self._progress.own
            for table in tables - before:
                # A busy server prepares XA transactions all the time.
                if own is not None and table in own.left:
                    log.info("the table's dump waits", table=str(table), reason=reason)
                self._discarded(self._windows.table_changed(table, reason, why=Why.HELD))
            self._changed.notify_all()
            return bool(before - tables)

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Return True if a window submitted before ``submitted_before_s`` waits for its high
        watermark.
        """
        if not self.any_open:
            return False
        with self._changed:
            return self._windows.has_overdue(submitted_before_s)

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """Discard the windows submitted before ``submitted_before_s``, so that their ranges are
        read again.

        The log has been read to its end and does not contain their watermarks.
        """
        if self.any_open:
            with self._changed:
                for discarded in self._windows.overdue(submitted_before_s):
                    self._discarded(discarded)

    # ---- ranges that are read again

    def send_back(self, table: TableId, reason: str, *, lane: int | None = None) -> None:
        """Send the lane's reader back to its frontier, even between two windows; None means all
        readers of the table. The lane's windows are discarded already.
        """
        with self._changed:
            self._resets[table, lane] = self._resets.get((table, lane), 0) + 1
            log.info("chunk read again", table=str(table), reason=reason)
            self._changed.notify_all()

    def discard_table(self, table: TableId, reason: str) -> None:
        """Discard the table's windows and send its readers back, even between two windows."""
        with self._changed:
            self._windows.table_changed(table, reason)
            self.send_back(table, reason)

    def discard_tables(self, tables: Iterable[TableId], reason: str) -> None:
        """Discard the windows of several tables and send their readers back. The caller logs the
        tables, which may be thousands.
        """
        with self._changed:
            for table in tables:
                self._windows.table_changed(table, reason)
                self._resets[table, None] = self._resets.get((table, None), 0) + 1
            self._changed.notify_all()

    def discard_closed(self, closed: Closed[ChunkRead], reason: str, *, why: Why = Why.TABLE, smaller: bool = False) -> None:
        """Have the rows of a closed window read again, in smaller parts with ``smaller``.

        ``Windows`` no longer knows it, so the discarded window and the reset are counted here. The
        younger windows of its lane follow rows that were not sent, so they are discarded too.
        """
        table, lane = closed.table, closed.lane
        with self._changed:
            if smaller:
                self._shrink.add((table, lane))
            self._windows.discarded_total[why] += 1
            self._notes.thrown_away(closed.rows.extent.dump, table, 1)
            self.send_back(table, reason, lane=lane)
            self._discarded(self._windows.lane_spoilt(table, lane, "an older window of the table was discarded", why=why))

    def count_unproven(self, table: TableId, lane: int) -> None:
        """Count a chunk whose snapshot lacks a transaction that the log contains."""
        self._unproven[table, lane] = self._unproven.get((table, lane), 0) + 1

    def count_proven(self, table: TableId, lane: int) -> None:
        """Note a chunk whose snapshot lacks nothing, so a series of ``unproven`` ends."""
        self._unproven.pop((table, lane), None)

    def _discarded(self, discarded: Discarded | None) -> None:
        if discarded is None:
            return
        if discarded.smaller and discarded.lane is not None:
            self._shrink.add((discarded.table, discarded.lane))
        self._notes.thrown_away(self._progress.book.identity_of(discarded.table), discarded.table, len(discarded.numbers))
        self.send_back(discarded.table, discarded.reason, lane=discarded.lane)

    def _resets_of(self, table: TableId, lane: int) -> int:
        return self._resets.get((table, None), 0) + self._resets.get((table, lane), 0)

    def _is_open(self, table: TableId, lane: int) -> bool:
        """Return True if a window of the lane is open, or has closed with rows that have not left.

        The lock is held.
        """
        return self._windows.open_of(table, lane) > 0 or self._closed.of(table, lane) > 0
