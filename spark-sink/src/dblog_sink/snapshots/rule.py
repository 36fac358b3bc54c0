"""Decides which transactions a snapshot shows, so that none is half visible. Pure.

The source's log is a sequence of transactions in the order of the transaction topic. A snapshot
ends after the last complete one and contains only complete ones. A transaction is complete when its
END has landed and, for each table that the sink keeps, as many different records as the END counts.
An incomplete transaction blocks the snapshot. It is waived, with a logged reason, only if its
records cannot come: those before the sink's own start, those of a parked table, and those of a
transaction that ``manifest.pass`` names.

A record belongs to a snapshot by its log position. MySQL and MariaDB write one transaction after
the other, and dblog's positions in PostgreSQL's log are those of commits. So all positions up to
the snapshot's belong to its transactions. Debezium's records of PostgreSQL do not show their
commit, and transactions interleave; the few that begin below the snapshot's position and are not in
it are named in ``Frontier.open``. Each record is merged for one snapshot only: the frontier of the
snapshot before shows what was merged (``Frontier.sequences``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dblog_sink.records.lsn_positions import lsn_of
from dblog_sink.state.snapshot import BEFORE_ALL, Frontier, LandedOffset, Position, Snapshot

_POSTGRES_ID = re.compile(r"(\d+):\d+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._\-]")


def transaction_id(given: str) -> str:
    """Return the part of a transaction id that rows, BEGIN and END have in common.

    PostgreSQL's id is ``<txid>:<an LSN>``, with Debezium taking the LSN from each record. A GTID is
    the same everywhere.
    """
    match = _POSTGRES_ID.fullmatch(given)
    return given if match is None else match.group(1)


def prefix_of(topic: str) -> str:
    """Return the ``topic.prefix`` of the source with this transaction topic."""
    return topic.rpartition(".")[0]


def topic_of(collection: str, prefix: str) -> str:
    """Return the topic of a data collection (``db.table``), as Debezium names and sanitizes it."""
    return _ILLEGAL.sub("_", f"{prefix}.{collection}" if prefix else collection)


# -- what blocks a snapshot -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """A transaction of which something has not landed.

    ``end`` is None if its END has not landed, so that nothing is known of its records.
    """

    id: str
    begin: LandedOffset | None
    end: LandedOffset | None
    missing: Mapping[str, int] = field(default_factory=dict)
    """Topic to the number of missing records."""

    @property
    def first(self) -> LandedOffset:
        """Offset of the transaction's first record in the transaction topic. While it blocks, no
        snapshot contains anything from there on.
        """
        return min(at for at in (self.begin, self.end) if at is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Known facts that are not in the landing table."""

    late: Mapping[str, str] = field(default_factory=dict)
    """Topic to reason, for topics that the manifest does not know from their beginning and that had
    no transaction in a snapshot since (``state/notes.py``).
    """
    read_to: Mapping[str, LandedOffset] = field(default_factory=dict)
    """Topic to an offset in the transaction topic. Records of transactions up to there that have
    not landed are not in Kafka either.
    """
    parked: Collection[str] = ()
    """Topics that the snapshot leaves out, whatever becomes of them before it is published."""
    passed: Collection[str] = ()
    """Ids of transactions that ``manifest.pass`` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of judging incomplete transactions.

    ``blocker`` is the first that blocks the snapshot, with its missing records; None if none does.
    """

    blocker: Incomplete | None = None
    waived: tuple[tuple[Incomplete, Mapping[str, str]], ...] = ()
    """Incomplete transactions that do not block, each with the reasons by topic."""

    @property
    def barrier(self) -> LandedOffset | None:
        """Offset before which the snapshot must end; None if nothing blocks it."""
        return None if self.blocker is None else self.blocker.first


def judge(found: Sequence[Incomplete], facts: Facts) -> Verdict:
    """Return the first incomplete transaction that blocks, and those waived before it."""
    waived: list[tuple[Incomplete, Mapping[str, str]]] = []
    for one in sorted(found, key=lambda one: one.first):
        reasons = {topic: reason for topic in one.missing if (reason := waiver(one, topic, facts)) is not None}
        left = {topic: count for topic, count in one.missing.items() if topic not in reasons}
        if left or (one.end is None and one.id not in facts.passed):
            return Verdict(blocker=replace(one, missing=left), waived=tuple(waived))
        waived.append((one, reasons))
    return Verdict(waived=tuple(waived))


def waiver(one: Incomplete, topic: str, facts: Facts) -> str | None:
    """Return why the topic's missing records of the transaction do not block, or None if they do.

    ``snapshots/measure.py`` has the same rule in SQL, for many transactions.
    """
    if one.id in facts.passed:
        return "manifest.pass names the transaction"
    if topic in facts.parked:
        return "the table is parked"
    if one.end is None or topic not in facts.read_to or one.end > facts.read_to[topic]:
        return None
    if one.begin is None:
        return "the transaction began before the sink's first record of the transaction topic"
    return facts.late.get(topic)


# -- the decision ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The state from which the next snapshot continues."""

    snapshot: Snapshot | None
    """Last snapshot, None before the first."""
    number: int
    """Number of the next snapshot."""
    held: Mapping[str, Frontier] = field(default_factory=dict)
    """Topic of a table that is or was parked to the frontier up to which it is merged."""

    @property
    def frontier(self) -> Frontier:
        """Frontier of the last snapshot."""
        return BEFORE_ALL if self.snapshot is None else self.snapshot.frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTransaction:
    """The transaction that names a snapshot: the one in it whose rows come last."""

    id: str
    ts_ms: int | None
    kafka_ms: int | None
    file: str | None
    pos: int | None
    lsn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The complete transactions after the last snapshot."""

    transactions_to: LandedOffset
    """Offset of their last END."""
    position: Position
    """Position of their last row; NOWHERE if they have no rows."""
    last: LastTransaction | None
    interleaved: bool
    """True if their log interleaves transactions."""
    ended_ms: int | None = None
    """Kafka timestamp of their last END, in milliseconds."""


def behind(extent: Extent, previous: Previous, *, sequences: Mapping[str, int], missing: Mapping[str, str]) -> Snapshot:
    """Return the snapshot after these transactions.

    ``sequences`` has the last batch sequence read of each topic; ``missing`` has topics with waived
    records, with the reason. If the source only sent an END again, nothing new of the log came, and
    the snapshot keeps the name of the one before.
    """
    before = previous.frontier
    position = max(before.position, extent.position)
    snapshot = Snapshot(
        number=previous.number,
        frontier=Frontier(position=position, transactions_to=extent.transactions_to, sequences={**before.sequences, **sequences}),
        before=before,
        held=previous.held,
        missing=missing,
        ended_ms=extent.ended_ms,
    )
    last = extent.last
    if last is None or (not extent.interleaved and extent.position <= before.position):
        return named_as_before(snapshot, previous)
    lsn = None if last.lsn is None else lsn_of(position)  # of all rows, so that it rises from snapshot to snapshot
    return replace(snapshot, transaction=last.id, ts_ms=last.ts_ms, kafka_ms=last.kafka_ms, file=last.file, pos=last.pos, lsn=lsn)


def leaving_open(snapshot: Snapshot, transactions: tuple[str, ...]) -> Snapshot:
    """Return the snapshot without these transactions, which have rows below its position."""
    return replace(snapshot, frontier=replace(snapshot.frontier, open=transactions))


def named_as_before(snapshot: Snapshot, previous: Previous) -> Snapshot:
    """Return the snapshot named like the one before, because nothing of the log came between."""
    last = previous.snapshot
    if last is None:
        return snapshot
    return replace(
        snapshot, transaction=last.transaction, ts_ms=last.ts_ms, kafka_ms=last.kafka_ms, file=last.file, pos=last.pos, lsn=last.lsn
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """The numbers of landed records that belong to no new transaction."""

    below: int
    """Number of unmerged records below the last snapshot's position: dump rows, or rows of a table
    that was resumed.
    """
    logged: int
    """Number of changes above the last snapshot's position."""
    dumped: int
    """Number of dump rows above the last snapshot's position."""
    position: Position | None
    """Position of the last of these dump rows."""
    transactions: bool
    """True if the transaction topic has records that are in no snapshot."""


def without_transaction(found: Leftover, previous: Previous, *, blocked: bool, stale: bool) -> Literal["again", "at rest", "wait"]:
    """Decide whether a snapshot is made without a new transaction.

    ``again`` makes one for records that belong to the last snapshot and came since, or because the
    last one is ``stale``: the versions that it names must not become too old, whatever blocks the
    next one. ``at rest`` makes one for dump rows if Kafka shows that the source is idle; otherwise
    they would wait for its next transaction. ``wait`` makes none.
    """
    if previous.snapshot is not None and (found.below or stale):
        return "again"
    if blocked or found.logged or not found.dumped or found.transactions:
        return "wait"
    return "at rest"


def extended(previous: Previous, sequences: Mapping[str, int], position: Position | None = None) -> Snapshot:
    """Return a snapshot without a new transaction, up to ``position`` if one is given."""
    before = previous.frontier
    frontier = replace(before, sequences={**before.sequences, **sequences}, position=before.position if position is None else position)
    return named_as_before(Snapshot(number=previous.number, frontier=frontier, before=before, held=previous.held), previous)


@dataclass(frozen=True, slots=True)
class BlockedBy:
    """The decision that an incomplete transaction prevents a snapshot."""

    transaction: Incomplete


@dataclass(frozen=True, slots=True)
class Quiet:
    """The decision that there is nothing new for a snapshot to show."""


Decision = Snapshot | BlockedBy | Quiet
