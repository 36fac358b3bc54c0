"""Where dblog meets something that has two implementations (a server and its fake, a source's offset and a test's).

Every ``DumpConnection``, and with it every ``Watermarks``, passes tests/contracts/dump_connection.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dblog.model import OffsetMap, Table, TableId


class OffsetFold(Protocol):
    """How far a source has come, as the fold of the steps of acknowledged batches. # I1"""

    def advance(self, step: object) -> None:
        """Take one batch's step; steps arrive in the order of the batches."""

    def offset(self) -> OffsetMap:
        """The offset to store now. The task's ``commit`` gets the very object back, maybe after further steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """The rows of one chunk as the server sent them: row packets with their headers, not decoded yet."""

    rows: bytes
    row_count: int
    last_key: tuple[Any, ...] | None
    """Key values of the last row, as parameters of the next SELECT; None when there was no row or the table has no key."""


class Watermarks(Protocol):
    """Rows of the watermark table: written for the log, read by the snapshot that has to prove itself. # I2"""

    def write_watermark(self, name: str, token: str) -> None:
        """Commit the token to the watermark row ``name``, in a transaction of its own; returns when it is committed."""

    def read_watermark(self, name: str) -> str | None:
        """The token that the snapshot sees in row ``name``."""


class LogPositions(Protocol):
    """Positions of the log in place of written watermarks (``read.only=true``): nothing is written to the source. # I2"""

    def begin_snapshot_behind(self, low: Any) -> bool:
        """Start a consistent snapshot that is proved to show everything that a reader of the log has brought up to ``low``, its progress between two
        transactions. False: it cannot be proved now, and no snapshot is open.
        """

    def log_end(self) -> Any:
        """A mark, for ``Progress.has_come_to``, behind everything that any snapshot can have shown until now."""


class DumpConnection(Watermarks, LogPositions, Protocol):
    """The connection(s) a chunk reader works with: watermarks are committed on their own, chunks are read in a snapshot."""

    def begin_snapshot(self) -> None:
        """Start a consistent snapshot."""

    def snapshot_shown(self) -> Any:
        """What the open snapshot shows, for ``readers.contract.LogSource.shows``; None where a snapshot that shows a watermark shows all that the log has
        in front of it.
        """

    def select(
        self, statement: str, parameters: Sequence[Any], *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        """Run one SELECT inside the snapshot; rows beyond ``bytes_max`` (0: no limit) are let go, at least one is kept.

        ``key``: which columns are the key, for ``last_key``. ``table``: named with its GRANT where the account may not read it.
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
        """Ask, in the same snapshot, what the form of the rows just selected behind ``after`` leaves open; the rows with the answers in.

        ``keys``: the rows are those of these keys, wherever they stand. ``where``: they were selected with this condition.
        """

    def limit_selects(self, limit_s: float) -> None:
        """From now on a SELECT that takes longer ends with TransientError, and the snapshot goes on; 0: as long as it likes."""

    def end_snapshot(self) -> None:
        """End the snapshot."""

    def close(self) -> None:
        """Close the connections, also from another thread, also in the middle of a SELECT."""
