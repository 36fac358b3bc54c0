"""Decides how far the source may be committed: only the acknowledged prefix of all batches sent counts. # I1

Batches are entered in the order in which the task made them; acknowledgements arrive in any order. ``steps`` are opaque: what a batch
moves is the task's business. Source of the rule: Kafka Connect's SubmittedRecords (KAFKA-12226), per batch instead of per record.
"""

from __future__ import annotations

from collections import deque


class Entry:
    """One batch under way: how many of its records are still out."""

    __slots__ = ("outstanding", "step")

    def __init__(self, step: object, outstanding: int) -> None:
        self.step = step
        self.outstanding = outstanding

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

    def enter(self, step: object, records: int) -> Entry:
        """Note a batch before its first record is sent; an empty batch is acknowledged as it stands."""
        entry = Entry(step, records)
        self._entries.append(entry)
        return entry

    def take_steps(self) -> list[object]:
        """Remove the acknowledged prefix and return its steps, in order."""
        steps: list[object] = []
        while self._entries and self._entries[0].outstanding == 0:
            steps.append(self._entries.popleft().step)
        return steps
