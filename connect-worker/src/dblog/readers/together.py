"""Reads many small tables between one pair of watermarks, so they share one snapshot and one wait
for the log.

A table that is read range by range costs about twenty round trips to the server and a wait for the
log, which is nearly the whole cost of a small table. So tables are taken many at a time: a window
is announced for each, the low watermark is written, and each table is read whole in the snapshot
that shows it. A table that proves larger, or cannot be read now, is left to be read on its own
(``chunk.ChunkReader``). So is a table whose window was discarded: none is read this way twice. # I2
I3

A snapshot blocks an ALTER of each table that was read in it, so it is kept short: the server ends a
long SELECT, and no further table is begun after a limit of time or bytes. The next tables are read
while the log approaches the watermarks of the previous ones, as far as ``windows_max`` allows. # I6
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
"""Maximum number of tables between one pair of watermarks."""

ROWS_MAX = 2048
TABLE_BYTES_MAX = 1 << 20
"""Maximum size of a small table's rows."""

BYTES_MAX = 4 << 20
"""Limit of all rows between one pair of watermarks, after which no table is begun. # I6"""

SNAPSHOT_S = 0.5
"""Age of a snapshot in seconds after which no table is begun in it."""

SELECT_S = 1.0
"""Seconds after which the server ends a SELECT; its table is then read on its own."""


class TablesWaiting(Protocol):
    """Source of the tables (``dumping.Dumping``). Each table that is taken is given back once."""

    def take_together(self, tables_max: int) -> list[TableId]:
        """Return tables for this reader only that are not begun and not left to be read on their
        own.

        Return [] if fewer than two wait.
        """

    def put_back(self, table: TableId) -> None:
        """Note that the reader has finished the table."""

    def leave_alone(self, tables: Iterable[TableId]) -> None:
        """Give these tables back, so that the next reader reads each one on its own."""


class Reads(Protocol):
    """Reading methods of a dump thread (``chunk.ChunkReader``)."""

    def read_whole(self, connection: DumpConnection, version: Table, limits: ChunkLimits) -> ChunkRead | None:
        """Return all rows of a table in the open snapshot; None if they exceed the limits."""

    def behind_watermark(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], None]) -> None:
        """Write the low watermark, and call ``read`` in a snapshot that provably shows it. # I2"""

    def mark_high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Write the high watermark."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A chosen table: its version, and its number of resets at that time."""

    version: Table
    resets: int


class SmallTables:
    """Reader of small tables in one dump thread.

    ``table_of`` returns a table's version at the log's position. ``prepare`` is called with each
    version before it is read, ``done`` for each table that has been read, ``rest`` before each
    snapshot.
    """

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
        """Tables that were read, grouped by the pair of watermarks that they wait for; oldest
        first.
        """

    def read(self, connect: Callable[[], DumpConnection], ends: Callable[[], bool]) -> None:
        """Read tables together until fewer than two wait, and wait for their windows.

        After an error of the connection it may be called again.
        """
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
        """Read as many of these tables as a short snapshot holds; give the others back."""
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
        """Return the tables that may be read whole: those with a key that are not begun."""
        chosen = {}
        for table in tables:
            resets = self._interleaver.settled(table)  # before the version, so that a change in between is noticed
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
            alone.add(version.id)  # before the read: a table that breaks the connection does so only once
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
