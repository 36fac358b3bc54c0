"""Consistent snapshots as the control table keeps them: their transactions and where they end.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Position = tuple[int, int]
"""Log position: two BIGINTs as in ``source.sequence`` (schemas/README.md)."""
LandedOffset = tuple[int, int]
"""Batch sequence and Kafka offset of a landed record of the transaction topic. It rises even when
the topic is recreated.
"""

NOWHERE: Position = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The boundary between records of a snapshot or earlier ones, and later records."""

    position: Position = NOWHERE
    transactions_to: LandedOffset = NOWHERE
    """Last record of the transaction topic that was taken into account."""
    open: tuple[str, ...] = ()
    """Transactions with rows below the position that are not in the snapshot."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Topic to the last batch sequence that was read. Records that landed later are in no snapshot
    yet, whatever their position.
    """


BEFORE_ALL = Frontier()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot, recorded before its first merge and the same for every attempt from then on."""

    number: int
    frontier: Frontier
    before: Frontier = BEFORE_ALL
    """Frontier of the snapshot before."""
    held: Mapping[str, Frontier] = field(default_factory=dict)
    """Topic of a formerly parked table to the frontier of the last snapshot that it is in."""
    left_out: tuple[str, ...] = ()
    """Topics whose tables were parked when it was chosen. They are not in it, even if they are
    resumed before it is published.
    """
    transaction: str | None = None
    ts_ms: int | None = None
    """Source's time of its last transaction, in milliseconds."""
    kafka_ms: int | None = None
    """Kafka timestamp of its last transaction. A dump row that was sent later may show later
    changes.
    """
    ended_ms: int | None = None
    """Kafka timestamp of the last END in it, even of a transaction without rows."""
    file: str | None = None
    pos: int | None = None
    lsn: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Topics with missing records of this snapshot's transactions, with the reason for waiving
    them.
    """

    def merged_before(self, topic: str) -> Frontier:
        """Return the frontier up to which the topic's records were merged before this snapshot."""
        return self.held.get(topic, self.before)
