"""Decides how far the source may be committed: up to the first batch, in order, that is not fully
acknowledged. # I1

Batches are entered in the order in which the task creates them; acknowledgements arrive in any
order. A batch's ``step`` is opaque here: the task knows what the batch moves. Source of the rule:
Kafka Connect's SubmittedRecords (KAFKA-12226), per batch instead of per record.
"""

from __future__ import annotations

from collections import deque


class Entry:
    """A batch that was sent; ``outstanding`` is the number of its records that are not acknowledged
    yet.
    """

    __slots__ = ("outstanding", "records", "source_ts_us", "step")

    def __init__(self, step: object, outstanding: int, source_ts_us: int | None = None) -> None:
        self.step = step
        self.outstanding = self.records = outstanding
        self.source_ts_us = source_ts_us

    def acknowledge(self, records: int = 1) -> None:
        """Count this many of the batch's records as safely stored, or as dropped on purpose."""
        self.outstanding -= records
        if self.outstanding < 0:
            message = "more acknowledgements than records in a batch"
            raise AssertionError(message)


class Ledger:
    """All batches that were given to the producer and are not committed yet."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    @property
    def batches_total(self) -> int:
        """Number of batches that were entered and not yet removed."""
        return len(self._entries)

    @property
    def oldest_source_ts_us(self) -> int | None:
        """Source time, in microseconds, of the oldest change that is not acknowledged; None if
        there is none. Rows of a dump have no such time.
        """
        return next((entry.source_ts_us for entry in self._entries if entry.source_ts_us is not None and entry.outstanding), None)

    def enter(self, step: object, records: int, source_ts_us: int | None = None) -> Entry:
        """Enter a batch before its first record is sent. An empty batch counts as acknowledged."""
        entry = Entry(step, records, source_ts_us)
        self._entries.append(entry)
        return entry

    def take_acknowledged(self) -> list[Entry]:
        """Remove the acknowledged batches at the front and return them, in order."""
        taken: list[Entry] = []
        while self._entries and self._entries[0].outstanding == 0:
            taken.append(self._entries.popleft())
        return taken

    def take_steps(self) -> list[object]:
        """Remove the acknowledged batches at the front and return their steps, in order."""
        return [entry.step for entry in self.take_acknowledged()]
