"""Reads many small tables between one pair of watermarks: one snapshot, one wait for the log, and the next tables are read meanwhile.

A table that is read range by range costs some twenty turns between us and the server, and a wait for the log; where tables are small that is nearly all that
they cost. So tables are taken many at a time: a window for each is announced, the low watermark is written, and each table is read whole in the snapshot that
shows it. What turns out to be larger, or cannot be read now, is left to be read alone (``chunk.ChunkReader``), and so is a table whose window was thrown
away: none is read in this way twice. # I2 I3

A snapshot keeps an ALTER of each table waiting that was read in it. So it is short: the server ends a SELECT that takes long, and no table is begun behind so
much time or so many bytes. The next tables are read while the log comes to the watermarks of those before, as far as ``windows_max`` allows. # I6
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from dblog.core.chunk_size import ChunkLimits
from dblog.core.watermark import Ticket
from dblog.errors import DefiniteError, ServerChangedError, TableChangedError, TransientError
from dblog.model import Table, TableId
from dblog.ports import DumpConnection
from dblog.readers.interleaved import ChunkRead, Interleaver

log = structlog.get_logger(__name__)

TABLES_MAX = 64
"""Between one pair of watermarks."""

ROWS_MAX = 2048
TABLE_BYTES_MAX = 1 << 20
"""A table with more is not small."""

BYTES_MAX = 4 << 20
"""Of all rows between one pair of watermarks: no table is begun behind them. # I6"""

SNAPSHOT_S = 0.5
"""No table is begun in a snapshot that is older."""

SELECT_S = 1.0
"""The server ends a SELECT that takes longer: its table is read alone."""


class TablesWaiting(Protocol):
    """Where tables come from (``dumping.Dumping``). Each that was taken is given back once."""

    def take_together(self, tables_max: int) -> list[TableId]:
        """Tables that have not been begun and are not left alone, for this reader only; none where fewer than two wait."""

    def put_back(self, table: TableId) -> None:
        """The reader is through with the table."""

    def leave_alone(self, tables: Iterable[TableId]) -> None:
        """Give these tables back: whoever takes one next reads it by itself."""


class Reads(Protocol):
    """How a dump thread reads (``chunk.ChunkReader``)."""

    def read_whole(self, connection: DumpConnection, version: Table, limits: ChunkLimits) -> ChunkRead | None:
        """All rows of a table in the snapshot that is open; None when there are more than the limits allow."""

    def behind_watermark(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], None]) -> None:
        """Write the low watermark, and ``read`` in a snapshot that is proved to lie behind it. # I2"""

    def mark_high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Write the high watermark."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A table as it was when it was chosen, and how often it had been reset by then."""

    version: Table
    resets: int


class SmallTables:
    """One dump thread's. ``table_of`` shows a table's version at the log's position; ``done`` hears of each table that has been read."""

    def __init__(
        self,
        *,
        waiting: TablesWaiting,
        reads: Reads,
        interleaver: Interleaver,
        table_of: Callable[[TableId], Table | None],
        prepare: Callable[[Table], None],
        limits: ChunkLimits,
        windows_max: int,
        done: Callable[[TableId], None],
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        """``rest``: ahead of each snapshot."""
        self._waiting = waiting
        self._reads = reads
        self._interleaver = interleaver
        self._table_of = table_of
        self._prepare = prepare
        self._limits = replace(limits, rows_max=min(limits.rows_max, ROWS_MAX), bytes_max=min(limits.bytes_max, TABLE_BYTES_MAX))
        self._windows_max = windows_max
        self._done = done
        self._rest = rest
        self._under_way: deque[dict[TableId, _Chosen]] = deque()
        """Tables that were read, by the pair of watermarks that they wait for; oldest first."""

    def read(self, connect: Callable[[], DumpConnection], ends: Callable[[], bool]) -> None:
        """Read tables together until fewer than two wait, and wait for their windows. After an error, which is the connection's, it may be called again."""
        while not ends():
            while len(self._under_way) >= self._windows_max:
                self._settle()
            self._rest()
            tables = self._waiting.take_together(TABLES_MAX)
            if tables:
                self._read(tables, connect)
            elif self._under_way:
                self._settle()
            else:
                return

    def _settle(self) -> None:
        """Wait for the windows that were opened first."""
        again = []
        for table, chosen in self._under_way.popleft().items():
            if self._interleaver.wait_done(table, resets=chosen.resets):
                self._done(table)
                self._waiting.put_back(table)
            else:
                again.append(table)
        self._waiting.leave_alone(again)

    def _read(self, tables: Sequence[TableId], connect: Callable[[], DumpConnection]) -> None:
        """Between one pair of watermarks, as many as a short snapshot holds; the others are given back."""
        read: dict[TableId, ChunkRead] = {}
        alone: set[TableId] = set()
        chosen: dict[TableId, _Chosen] = {}
        try:
            connection = connect()
            chosen = self._chosen(tables)
            tickets = self._interleaver.declare_together({table: known.resets for table, known in chosen.items()})
            alone.update(set(tables) - {ticket.table for ticket in tickets})
            if tickets:
                versions = [chosen[ticket.table].version for ticket in tickets]
                self._read_between(connection, tickets, lambda: self._read_each(connection, versions, read, alone), read)
        except BaseException:
            read.clear()
            raise
        finally:
            if read:
                self._under_way.append({table: chosen[table] for table in read})
            self._waiting.leave_alone(alone)
            for table in tables:
                if table not in read and table not in alone:
                    self._waiting.put_back(table)

    def _chosen(self, tables: Iterable[TableId]) -> dict[TableId, _Chosen]:
        """Those that may be read whole: with a key, and not begun."""
        chosen = {}
        for table in tables:
            resets = self._interleaver.settled(table)  # ahead of the version: a change in between is seen
            progress, version = self._interleaver.table_dump(table), self._table_of(table)
            if version is not None and version.key and progress is not None and not progress.started and not progress.ended:
                chosen[table] = _Chosen(version, resets)
                self._prepare(version)
        return chosen

    def _read_between(
        self, connection: DumpConnection, tickets: Sequence[Ticket], read_each: Callable[[], None], read: dict[TableId, ChunkRead]
    ) -> None:
        try:
            connection.limit_selects(SELECT_S)
            self._reads.behind_watermark(connection, tickets[0], read_each)
            connection.limit_selects(0)
            if self._interleaver.submit_together(tickets, read):
                self._reads.mark_high(connection, tickets[0])
        except BaseException as e:
            for ticket in tickets:
                self._interleaver.abandon(ticket, f"its chunk could not be read: {type(e).__name__}")
            raise

    def _read_each(
        self, connection: DumpConnection, versions: Iterable[Table], read: dict[TableId, ChunkRead], alone: set[TableId]
    ) -> None:
        until_s, size_bytes = time.monotonic() + SNAPSHOT_S, 0
        for version in versions:
            if time.monotonic() > until_s or size_bytes > BYTES_MAX:
                return
            alone.add(version.id)  # ahead of the reading: what breaks the connection breaks it for no other table twice
            try:
                found = self._reads.read_whole(connection, version, self._limits)
            except ServerChangedError:
                raise
            except (TableChangedError, DefiniteError) as e:
                log.info("a table is read by itself", table=str(version.id), reason=str(e))
            except TransientError as e:
                log.info("a table is read by itself", table=str(version.id), reason=str(e))
                return  # the snapshot's end shows whether the connection is lost
            else:
                if found is not None:
                    alone.discard(version.id)
                    read[version.id] = found
                    size_bytes += len(found.rows)
