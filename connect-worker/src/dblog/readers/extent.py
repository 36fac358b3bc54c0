"""The part of a table that a dump reads: all of it for the connector's own, or as a
request says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dblog.codecs.fingerprint import ROWS_MAX
from dblog.core.chunk_size import ChunkLimits
from dblog.core.dumprequests import INITIAL, Mode, Scope, scope_of
from dblog.core.requested import RequestedDump
from dblog.core.table_dump import Key
from dblog.model import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Part of one table that one dump reads, with the pace and chunk size for it."""

    dump: str = INITIAL
    mode: Mode = Mode.ROWS
    scope: Scope = Scope.TABLE
    where: str | None = None
    """Condition that the table's rows have to fulfil; None for all rows."""
    keys: tuple[Key, ...] | None = None
    columns: tuple[str, ...] | None = None
    """Columns to send in addition to the key; None for all."""
    surrogate_key: str | None = None
    """Column that bounds its chunks; None for the table's key."""
    chunk_rows: int | None = None
    """Rows of every chunk; None to choose them by time and bytes."""
    delay_s: float = 0.0
    """Seconds to rest before each chunk."""

    @classmethod
    def own(cls, where: str | None, *, repairs: bool = False) -> Extent:
        """Return the extent of the connector's own dump.

        With ``repairs``, rows that the dump does not bring are to leave the lake. A dump with a
        condition never repairs.
        """
        if where is not None:
            return cls(where=where, scope=Scope.PREDICATE)
        return cls(mode=Mode.REPAIR if repairs else Mode.ROWS)

    @classmethod
    def of(cls, one: RequestedDump, table: TableId) -> Extent:
        """Return the extent of a requested dump as it is now: pace and sizes may change while it
        runs.
        """
        request = one.request
        where = request.predicate_of(str(table))
        return cls(
            dump=request.id,
            mode=request.mode,
            scope=scope_of(request, where),
            where=where,
            keys=request.keys,
            columns=request.columns,
            surrogate_key=request.surrogate_key,
            chunk_rows=request.chunk_rows,
            delay_s=request.delay_ms / 1000,
        )

    @property
    def chosen_by(self) -> tuple[str, str] | None:
        """Pair of (what chooses the rows, remedy if the server rejects that), for messages; None if
        all rows are read.
        """
        if self.keys is not None:
            return "the keys that were asked for", "request another dump with keys as the server prints them, or with a predicate"
        if self.where is None:
            return None
        if self.dump == INITIAL:
            return "the condition of its SELECT", "correct snapshot.select.statement.overrides, and request a dump of the table"
        return "the predicate", "request another dump with one that can be evaluated for every row"

    def limits(self, usual: ChunkLimits) -> ChunkLimits:
        """Return the limits of the dump's chunks of this table.

        A requested number of rows applies, except for three limits: the bytes of a chunk, windows
        that noted too many keys, and the fingerprints that fit a marker.
        """
        limits = usual
        if self.chunk_rows is not None:
            limits = replace(usual, rows_max=self.chunk_rows, rows_min=min(usual.rows_min, self.chunk_rows), time_s=math.inf)
        if self.mode is Mode.VERIFY and limits.rows_max > ROWS_MAX:
            limits = replace(limits, rows_max=ROWS_MAX, rows_min=min(limits.rows_min, ROWS_MAX))
        return limits
