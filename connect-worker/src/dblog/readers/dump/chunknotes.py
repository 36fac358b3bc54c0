"""Notes on the chunks of each table for people who watch a dump: chunks that were read again, the
proof of the last one, and why none comes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

from dblog.clock import Clock
from dblog.core.watermark import WatermarkPosition
from dblog.model import TableId
from dblog.readers.dump_progress import DumpProgress

PROOFS_MAX = 1000
"""Maximum number of tables whose last chunk, or trouble, is remembered, newest first. There may be
tens of thousands of tables.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Proof of a table's last sent chunk: its rows were read between these two watermarks."""

    low: WatermarkPosition
    high: WatermarkPosition
    at_us: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Reason why a table's next chunk has not come."""

    reason: str
    tries: int = 0
    """Number of failures to read the rows of the chunk since the last success."""
    since_s: float = 0.0
    """Time of the first of these failures, by the monotonic clock."""


class ChunkNotes:
    """Notes of one run by dump and table. Any thread may call it."""

    def __init__(self, progress: DumpProgress, clock: Clock) -> None:
        self._progress = progress
        self._lock = progress.changed
        self._clock = clock
        self._read_again: Counter[tuple[str, TableId]] = Counter()
        self._proofs: OrderedDict[tuple[str, TableId], Proof] = OrderedDict()
        self._troubles: OrderedDict[tuple[str, TableId], Trouble] = OrderedDict()

    # ---- the reader of a table

    def waits(self, table: TableId, reason: str) -> None:
        """Note why the table's next chunk has to be tried again.

        The cause is not its rows, so a series of failures to read them ends.
        """
        with self._lock:
            self._note(self._progress.book.identity_of(table), table, Trouble(reason=reason))

    def not_read(self, table: TableId, reason: str) -> Trouble:
        """Note that the rows of the table's next chunk could not be read; return the series of
        failures.
        """
        with self._lock:
            dump = self._progress.book.identity_of(table)
            known = self._troubles.get((dump, table))
            trouble = (
                Trouble(reason=reason, tries=1, since_s=self._clock.monotonic_s())
                if known is None or not known.tries
                else replace(known, reason=reason, tries=known.tries + 1)
            )
            self._note(dump, table, trouble)
            return trouble

    def not_tried(self, table: TableId) -> None:
        """Clear the table's failure count, because its next chunk is not wanted now."""
        with self._lock:
            self.read(self._progress.book.identity_of(table), table)

    def read(self, dump: str, table: TableId) -> None:
        """Note that rows of the table have been read: a series of failures ends."""
        with self._lock:
            self._troubles.pop((dump, table), None)

    # ---- windows

    def thrown_away(self, dump: str, table: TableId, chunks: int) -> None:
        """Count chunks that have to be read again."""
        with self._lock:
            self._read_again[dump, table] += chunks

    def sent(self, dump: str, table: TableId, proof: Proof) -> None:
        """Note the proof of a chunk that was sent."""
        with self._lock:
            self._proofs[dump, table] = proof
            self._proofs.move_to_end((dump, table))
            if len(self._proofs) > PROOFS_MAX:
                self._proofs.popitem(last=False)

    # ---- people

    def troubles(self, dump: str) -> dict[TableId, str]:
        """Return the reasons why tables of the dump wait."""
        with self._lock:
            return {table: trouble.reason for (of, table), trouble in self._troubles.items() if of == dump}

    def read_again(self, dump: str, table: TableId) -> int:
        """Return the number of chunks of the table that were read again."""
        with self._lock:
            return self._read_again[dump, table]

    def proof(self, dump: str, table: TableId) -> Proof | None:
        """Return the proof of the table's last chunk, or None."""
        with self._lock:
            return self._proofs.get((dump, table))

    def forget(self, dump: str) -> None:
        """Forget all notes on a dump that nobody watches any more."""
        with self._lock:
            for known in (self._read_again, self._proofs, self._troubles):
                for key in [key for key in known if key[0] == dump]:
                    del known[key]

    def _note(self, dump: str, table: TableId, trouble: Trouble) -> None:
        self._troubles[dump, table] = trouble
        self._troubles.move_to_end((dump, table))
        if len(self._troubles) > PROOFS_MAX:
            self._troubles.popitem(last=False)
