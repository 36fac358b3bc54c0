"""What has become of the chunks of each table, for those who watch a dump: how many were read again, and what proved the last one."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

from dblog.core.watermark import WatermarkPosition
from dblog.model import TableId

PROOFS_MAX = 1000
"""Tables whose last chunk is remembered, the newest: there may be tens of thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The last chunk of a table that was sent: its rows are those between these two watermarks."""

    low: WatermarkPosition
    high: WatermarkPosition
    at_us: int
    rows: int


class ChunkNotes:
    """One run's, by dump and table. Its owner holds a lock around each call."""

    def __init__(self) -> None:
        self._read_again: Counter[tuple[str, TableId]] = Counter()
        self._proofs: OrderedDict[tuple[str, TableId], Proof] = OrderedDict()

    def thrown_away(self, dump: str, table: TableId, chunks: int) -> None:
        """So many chunks are to be read again."""
        self._read_again[dump, table] += chunks

    def sent(self, dump: str, table: TableId, proof: Proof) -> None:
        """A chunk has been sent."""
        self._proofs[dump, table] = proof
        self._proofs.move_to_end((dump, table))
        if len(self._proofs) > PROOFS_MAX:
            self._proofs.popitem(last=False)

    def read_again(self, dump: str, table: TableId) -> int:
        """How many chunks of the table were read again."""
        return self._read_again[dump, table]

    def proof(self, dump: str, table: TableId) -> Proof | None:
        """Of the table's last chunk."""
        return self._proofs.get((dump, table))

    def forget(self, dump: str) -> None:
        """Nobody watches it any more."""
        for known in (self._read_again, self._proofs):
            for key in [key for key in known if key[0] == dump]:
                del known[key]
