"""Decides how far the source may be committed: only the acknowledged prefix of all batches sent counts. # I1

Batches are entered in the order in which the task made them; acknowledgements arrive in any order. ``steps`` are opaque: what a batch
moves is the task's business. Source of the rule: Kafka Connect's SubmittedRecords (KAFKA-12226), per batch instead of per record.
"""

from __future__ import annotations

from collections import deque


class Entry:
    """One batch under way: how many of its records are still out."""

    __slots__ = ("outstanding", "records", "source_ts_us", "step")

    def __init__(self, step: object, outstanding: int, source_ts_us: int | None = None) -> None:
        self.step = step
        self.outstanding = self.records = outstanding
        self.source_ts_us = source_ts_us

    def acknowledge(self, records: int = 1) -> None:
        """That many of the batch's records are safely stored (or lawfully dropped)."""
        self.outstanding -= records
        if self.outstanding < 0:
            message = "more acknowledgements than records in a batch"
            raise AssertionError(message)


class Ledger:
    """All batches handed to the producer and not yet committed."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    @property
    def batches_total(self) -> int:
        """Batches entered whose step has not been taken."""
        return len(self._entries)

    @property
    def oldest_source_ts_us(self) -> int | None:
        """When the oldest change was made that is not acknowledged; None without one. Rows of a dump have no such time."""
        return next((entry.source_ts_us for entry in self._entries if entry.source_ts_us is not None and entry.outstanding), None)

    def enter(self, step: object, records: int, source_ts_us: int | None = None) -> Entry:
        """Note a batch before its first record is sent; an empty batch is acknowledged as it stands."""
        entry = Entry(step, records, source_ts_us)
        self._entries.append(entry)
        return entry

    def take_acknowledged(self) -> list[Entry]:
        """Remove the acknowledged prefix and return it, in order."""
        taken: list[Entry] = []
        while self._entries and self._entries[0].outstanding == 0:
            taken.append(self._entries.popleft())
        return taken

    def take_steps(self) -> list[object]:
        """The same, its steps alone."""
        return [entry.step for entry in self.take_acknowledged()]
