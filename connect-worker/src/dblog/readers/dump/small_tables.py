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
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.sharing import Shares
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.schemas import Schemas

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


class TableReader(Protocol):
    """Dump thread as this module needs it (``chunk.ChunkReader``)."""

    def connected(self) -> DumpConnection:
        """Return the reader's connection, opening one if there is none."""

    def ends(self) -> bool:
        """Return True if the reader or its task stops."""

    def rest(self) -> None:
        """Wait as the pace of dumps asks before a snapshot."""

    def report_table(self, table: TableId) -> None:
        """Log that the table has been dumped."""

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
    """Reader of small tables in one dump thread, ``reader``. ``shares`` hands out the tables."""

    def __init__(
        self,
        number: int,
        *,
        shares: Shares,
        reader: TableReader,
        progress: DumpProgress,
        windows: OpenWindows,
        schemas: Schemas,
        limits: ChunkLimits,
        windows_max: int,
    ) -> None:
        self._number = number
        self._shares = shares
        self._reader = reader
        self._progress = progress
        self._windows = windows
        self._schemas = schemas
        self._limits = replace(limits, rows_max=min(limits.rows_max, ROWS_MAX), bytes_max=min(limits.bytes_max, TABLE_BYTES_MAX))
        self._windows_max = windows_max
        self._under_way: deque[dict[TableId, _Chosen]] = deque()
        """Tables that were read, grouped by the pair of watermarks that they wait for; oldest
        first.
        """

    def read(self) -> None:
        """Read tables together until fewer than two wait, and wait for their windows.

        After an error of the connection it may be called again.
        """
        while not self._reader.ends():
            while len(self._under_way) >= self._windows_max:
                self._settle()
            self._reader.rest()
            tables = self._shares.take_together(self._number, TABLES_MAX)
            if tables:
                self._read(tables)
            elif self._under_way:
                self._settle()
            else:
                return

    def _settle(self) -> None:
        """Wait for the windows that were opened first."""
        again = []
        for table, chosen in self._under_way.popleft().items():
            if self._windows.wait_done(table, resets=chosen.resets):
                self._reader.report_table(table)
                self._put_back([table])
            else:
                again.append(table)
        self._leave_alone(again)

    def _read(self, tables: Sequence[TableId]) -> None:
        """Read as many of these tables as a short snapshot holds; give the others back."""
        read: dict[TableId, ChunkRead] = {}
        alone: set[TableId] = set()
        chosen: dict[TableId, _Chosen] = {}
        try:
            connection = self._reader.connected()
            chosen = self._chosen(tables)
            tickets = self._windows.declare_together({table: known.resets for table, known in chosen.items()})
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
            self._leave_alone(alone)
            self._put_back([table for table in tables if table not in read and table not in alone])

    def _put_back(self, tables: Iterable[TableId]) -> None:
        self._shares.give_back_together(self._number, tables, alone=False)

    def _leave_alone(self, tables: Iterable[TableId]) -> None:
        self._shares.give_back_together(self._number, tables, alone=True)

    def _chosen(self, tables: Iterable[TableId]) -> dict[TableId, _Chosen]:
        """Return the tables that may be read whole: those with a key that are not begun."""
        chosen = {}
        for table in tables:
            resets = self._windows.settled(table)  # before the version, so that a change in between is noticed
            progress, version = self._progress.table(table), self._schemas.table(table)
            if version is not None and version.key and progress is not None and not progress.started and not progress.ended:
                chosen[table] = _Chosen(version, resets)
                self._schemas.prepare(version)
        return chosen

    def _read_between(
        self, connection: DumpConnection, tickets: Sequence[Ticket], read_each: Callable[[], None], read: dict[TableId, ChunkRead]
    ) -> None:
        try:
            connection.limit_selects(SELECT_S)
            self._reader.behind_watermark(connection, tickets[0], read_each)
            connection.limit_selects(0)
            if self._windows.submit_together(tickets, read):
                self._reader.mark_high(connection, tickets[0])
        except BaseException as e:
            for ticket in tickets:
                self._windows.abandon(ticket, f"its chunk could not be read: {type(e).__name__}")
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
                found = self._reader.read_whole(connection, version, self._limits)
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
