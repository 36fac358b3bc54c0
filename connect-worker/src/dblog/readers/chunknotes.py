"""What has become of the chunks of each table, for those who watch a dump: how many were read again, what proved the last one, and why none comes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

from dblog.core.watermark import WatermarkPosition
from dblog.model import TableId

PROOFS_MAX = 1000
"""Tables whose last chunk is remembered, the newest: there may be tens of thousands. Tables with a trouble as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The last chunk of a table that was sent: its rows are those between these two watermarks."""

    low: WatermarkPosition
    high: WatermarkPosition
    at_us: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a table's next chunk has not come so far."""

    reason: str
    tries: int = 0
    """How often its rows could not be read since the last time that some were."""
    since_s: float = 0.0
    """When that was so first."""


class ChunkNotes:
    """One run's, by dump and table. Its owner holds a lock around each call."""

    def __init__(self) -> None:
        self._read_again: Counter[tuple[str, TableId]] = Counter()
        self._proofs: OrderedDict[tuple[str, TableId], Proof] = OrderedDict()
        self._troubles: OrderedDict[tuple[str, TableId], Trouble] = OrderedDict()

    def thrown_away(self, dump: str, table: TableId, chunks: int) -> None:
        """So many chunks are to be read again."""
        self._read_again[dump, table] += chunks

    def sent(self, dump: str, table: TableId, proof: Proof) -> None:
        """A chunk has been sent."""
        self._proofs[dump, table] = proof
        self._proofs.move_to_end((dump, table))
        if len(self._proofs) > PROOFS_MAX:
            self._proofs.popitem(last=False)

    def waits(self, dump: str, table: TableId, reason: str) -> None:
        """The table's next chunk is to be tried again; a series of tries that failed at its rows ends, for it was something else."""
        self._note(dump, table, Trouble(reason=reason))

    def not_read(self, dump: str, table: TableId, reason: str, now_s: float) -> Trouble:
        """The same, and it is the reading of its rows that has failed."""
        known = self._troubles.get((dump, table))
        trouble = (
            Trouble(reason=reason, tries=1, since_s=now_s)
            if known is None or not known.tries
            else replace(known, reason=reason, tries=known.tries + 1)
        )
        self._note(dump, table, trouble)
        return trouble

    def read(self, dump: str, table: TableId) -> None:
        """Rows of the table have been read, whatever becomes of them."""
        self._troubles.pop((dump, table), None)

    def troubles(self, dump: str) -> dict[TableId, str]:
        """Why tables of the dump wait."""
        return {table: trouble.reason for (of, table), trouble in self._troubles.items() if of == dump}

    def _note(self, dump: str, table: TableId, trouble: Trouble) -> None:
        self._troubles[dump, table] = trouble
        self._troubles.move_to_end((dump, table))
        if len(self._troubles) > PROOFS_MAX:
            self._troubles.popitem(last=False)

    def read_again(self, dump: str, table: TableId) -> int:
        """How many chunks of the table were read again."""
        return self._read_again[dump, table]

    def proof(self, dump: str, table: TableId) -> Proof | None:
        """Of the table's last chunk."""
        return self._proofs.get((dump, table))

    def forget(self, dump: str) -> None:
        """Nobody watches it any more."""
        for known in (self._read_again, self._proofs, self._troubles):
            for key in [key for key in known if key[0] == dump]:
                del known[key]
