"""What a dump reads of a table: all of it for the connector's own, or what a request names, at the pace that it names."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dblog.core.dumprequests import INITIAL, Mode, Scope, predicates, scope_of
from dblog.core.dumps import Key
from dblog.core.governor import ChunkLimits
from dblog.core.requested import RequestedDump
from dblog.model import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Of one table for one dump."""

    dump: str = INITIAL
    mode: Mode = Mode.ROWS
    scope: Scope = Scope.TABLE
    where: str | None = None
    """A condition on its rows."""
    keys: tuple[Key, ...] | None = None
    chunk_rows: int | None = None
    """Rows of every chunk; None: by time and bytes."""
    delay_s: float = 0.0
    """Rest ahead of each chunk."""

    @classmethod
    def of(cls, one: RequestedDump | None, table: TableId) -> Extent:
        """As it is now: pace and sizes change while a dump runs."""
        if one is None:
            return cls()
        request = one.request
        where = predicates(request)(str(table)) if request.predicate else None
        return cls(
            dump=request.id,
            mode=request.mode,
            scope=scope_of(request, where),
            where=where,
            keys=request.keys,
            chunk_rows=request.chunk_rows,
            delay_s=request.delay_ms / 1000,
        )

    def limits(self, usual: ChunkLimits) -> ChunkLimits:
        """The bounds of its chunks. A size that was asked for is kept to, but for the bytes that a chunk may have, and for windows that noted too many keys."""
        if self.chunk_rows is None:
            return usual
        return replace(usual, rows_max=self.chunk_rows, rows_min=min(usual.rows_min, self.chunk_rows), time_s=math.inf)
