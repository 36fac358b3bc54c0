"""Interfaces with two implementations: a server and its fake, a source's offset and a test's.

Every ``DumpConnection``, and with it every ``Watermarks``, passes
tests/contracts/dump_connection.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dblog.model import OffsetMap, Table, TableId


class OffsetFold(Protocol):
    """Progress of a source: the sum of the steps of all acknowledged batches. # I1"""

    def advance(self, step: object) -> None:
        """Take the step of one batch; steps arrive in the order of the batches."""

    def offset(self) -> OffsetMap:
        """Return the offset to store now.

        The task's ``commit`` gets the same object back, possibly after further steps.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """Rows of one chunk as the server sent them: row packets with their headers, not decoded."""

    rows: bytes
    row_count: int
    last_key: tuple[Any, ...] | None
    """Key values of the last row, to be the parameters of the next SELECT. None if there is no row
    or no key.
    """


class Watermarks(Protocol):
    """Access to the watermark table. Rows are written for the log, and read to prove a snapshot.
    # I2
    """

    def write_watermark(self, name: str, token: str) -> None:
        """Commit the token to the watermark row ``name`` in a transaction of its own,
        then return.
        """

    def read_watermark(self, name: str) -> str | None:
        """Return the token that the snapshot shows in row ``name``."""


class LogPositions(Protocol):
    """Log positions instead of written watermarks (``read.only=true``): nothing is written to the
    source. # I2
    """

    def begin_snapshot_behind(self, low: Any) -> bool:
        """Start a consistent snapshot that provably shows everything in the log up to ``low``.

        ``low`` is the progress of the log's reader between two transactions. Return False, with no
        snapshot open, if that cannot be proved now.
        """

    def log_end(self) -> Any:
        """Return a mark for ``Progress.has_come_to``, after everything that any snapshot can have
        shown.
        """


class DumpConnection(Watermarks, LogPositions, Protocol):
    """Connections of a chunk reader: one commits watermarks, the other reads chunks in
    a snapshot.
    """

    def begin_snapshot(self) -> None:
        """Start a consistent snapshot."""

    def snapshot_shown(self) -> Any:
        """Return what the open snapshot shows, as a value for ``readers.contract.LogSource.shows``.

        Return None if a snapshot that shows a watermark shows everything that the log has before
        it.
        """

    def select(
        self, statement: str, parameters: Sequence[Any], *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        """Run one SELECT in the snapshot. Rows beyond ``bytes_max`` are dropped, but one is always
        kept.

        ``bytes_max`` 0 means no limit. ``key`` holds the indexes of the key columns, for
        ``last_key``. An error about missing privileges names ``table`` and its GRANT.
        """

    def complete(
        self,
        chunk: ChunkRows,
        table: Table,
        after: Sequence[Any] | None,
        *,
        keys: Sequence[Sequence[Any]] | None = None,
        where: str | None = None,
    ) -> ChunkRows:
        """Complete rows just selected after ``after``, by further questions in the same snapshot.

        The server's row format may leave something open; return the rows with the answers filled
        in. ``keys`` are the keys of the rows, if they were selected by key; ``where`` is the
        condition of the SELECT.
        """

    def limit_selects(self, limit_s: float) -> None:
        """Limit later SELECTs: one that takes longer raises TransientError and the snapshot stays
        open.

        0 means no limit.
        """

    def end_snapshot(self) -> None:
        """End the snapshot."""

    def close(self) -> None:
        """Close the connections. Another thread may call it, even during a SELECT."""
