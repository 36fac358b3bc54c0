"""A consistent snapshot as the control table keeps it: which transactions it holds, and where it ends in what has landed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Position = tuple[int, int]
"""A log position: two BIGINTs, as in ``source.sequence`` (schemas/README.md)."""
LandedOffset = tuple[int, int]
"""Where a record of the transaction topic landed: batch sequence and Kafka offset. It rises even when the topic is recreated."""

NOWHERE: Position = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Divides records into those of a snapshot or an earlier one, and those after it."""

    position: Position = NOWHERE
    transactions_to: LandedOffset = NOWHERE
    """The last record of the transaction topic that was taken into account."""
    open: tuple[str, ...] = ()
    """Transactions with rows below the position that are not in the snapshot."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """By topic, the last batch sequence that was read: what landed later is in no snapshot yet, whatever its position."""


BEFORE_ALL = Frontier()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot: chosen once, recorded before the first merge, and from then on the same for every attempt."""

    number: int
    frontier: Frontier
    before: Frontier = BEFORE_ALL
    """Of the snapshot before."""
    held: Mapping[str, Frontier] = field(default_factory=dict)
    """Of tables that were parked: the last snapshot that they are in."""
    left_out: tuple[str, ...] = ()
    """Topics whose tables were parked when it was chosen: they are not in it, though they may be resumed before it is published."""
    transaction: str | None = None
    ts_ms: int | None = None
    """The source's time of its end."""
    kafka_ms: int | None = None
    """Kafka's time of its end: a dump row that was sent later may show what came after the snapshot."""
    ended_ms: int | None = None
    """Kafka's time of the last END in it, also of a transaction of which no row came."""
    file: str | None = None
    pos: int | None = None
    lsn: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Topics of which records of this snapshot's transactions are missing, and why that was waived."""

    def merged_before(self, topic: str) -> Frontier:
        """Up to where the topic's records were merged before this snapshot."""
        return self.held.get(topic, self.before)
