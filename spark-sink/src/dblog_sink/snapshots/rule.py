"""Where the tables of a source may be shown together so that no transaction is half visible: the whole rule, as functions of what has landed. Pure.

The source's log is a line of transactions, in the order of the transaction topic. A snapshot ends after the last of them that is complete, and holds only
complete ones: a transaction is complete when its END has landed and, for each table that the sink keeps, as many different records of it have landed as the
END counts. An incomplete transaction blocks the snapshot. It is waived, with a reason that is logged, only where its records cannot come: before the sink's
own beginning, of a table that is parked, or where ``manifest.pass`` names it.

A record belongs to a snapshot by its log position: MySQL and MariaDB write one transaction after the other, and dblog's positions in PostgreSQL's log are
those of commits, so all positions up to the snapshot's are those of its transactions. Debezium's records of PostgreSQL do not show their commit, and
transactions interleave; the few that begin below the snapshot's position and are not in it are named
(``Frontier.open``). Each record is merged for one snapshot only: the frontier of the one before shows what was merged (``Frontier.sequences``).
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
    """What rows, BEGIN and END of one transaction have in common: PostgreSQL's is ``<txid>:<an LSN>``, which Debezium takes from each record; a GTID is the
    same everywhere.
    """
    match = _POSTGRES_ID.fullmatch(given)
    return given if match is None else match.group(1)


def prefix_of(topic: str) -> str:
    """The ``topic.prefix`` of the source whose transaction topic this is."""
    return topic.rpartition(".")[0]


def topic_of(collection: str, prefix: str) -> str:
    """The topic of a data collection (``db.table``), as Debezium names and sanitises it."""
    return _ILLEGAL.sub("_", f"{prefix}.{collection}" if prefix else collection)


# -- what blocks a snapshot -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """A transaction of which something has not landed. ``end`` None: its END has not, so nothing is known of its records."""

    id: str
    begin: LandedOffset | None
    end: LandedOffset | None
    missing: Mapping[str, int] = field(default_factory=dict)
    """Records that are not there, by topic."""

    @property
    def first(self) -> LandedOffset:
        """Its first record in the transaction topic: nothing from there on is in a snapshot while it blocks."""
        return min(at for at in (self.begin, self.end) if at is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known beside the landing table."""

    late: Mapping[str, str] = field(default_factory=dict)
    """Topics that the manifest does not know from their beginning, and of which no transaction was in a snapshot since: the reason (``state/notes.py``)."""
    read_to: Mapping[str, LandedOffset] = field(default_factory=dict)
    """By topic: up to this record of the transaction topic, whatever has not landed is not in Kafka either."""
    parked: Collection[str] = ()
    """The snapshot leaves them out, whatever becomes of them before it is published."""
    passed: Collection[str] = ()
    """Transactions that ``manifest.pass`` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``blocker``: the first transaction that blocks the snapshot, with its missing records; None: none does."""

    blocker: Incomplete | None = None
    waived: tuple[tuple[Incomplete, Mapping[str, str]], ...] = ()
    """Transactions that are incomplete and block nothing: by topic, why."""

    @property
    def barrier(self) -> LandedOffset | None:
        """The snapshot ends before it."""
        return None if self.blocker is None else self.blocker.first


def judge(found: Sequence[Incomplete], facts: Facts) -> Verdict:
    """Which of the incomplete transactions is the first to block."""
    waived: list[tuple[Incomplete, Mapping[str, str]]] = []
    for one in sorted(found, key=lambda one: one.first):
        reasons = {topic: reason for topic in one.missing if (reason := waiver(one, topic, facts)) is not None}
        left = {topic: count for topic, count in one.missing.items() if topic not in reasons}
        if left or (one.end is None and one.id not in facts.passed):
            return Verdict(blocker=replace(one, missing=left), waived=tuple(waived))
        waived.append((one, reasons))
    return Verdict(waived=tuple(waived))


def waiver(one: Incomplete, topic: str, facts: Facts) -> str | None:
    """Why the topic's missing records of the transaction block nothing; None: they do. ``snapshots/measure.py`` has the same in SQL, for the many."""
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
    """What the next snapshot goes on from."""

    snapshot: Snapshot | None
    """The last one, None before the first."""
    number: int
    """Of the next."""
    held: Mapping[str, Frontier] = field(default_factory=dict)
    """Of tables that are parked, or were: up to where they are merged."""

    @property
    def frontier(self) -> Frontier:
        """Of the last snapshot."""
        return BEFORE_ALL if self.snapshot is None else self.snapshot.frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTransaction:
    """The transaction that a snapshot is named after: of those in it, the one whose rows come last."""

    id: str
    ts_ms: int | None
    kafka_ms: int | None
    file: str | None
    pos: int | None
    lsn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The complete transactions after the last snapshot, measured."""

    transactions_to: LandedOffset
    """The END of the last of them."""
    position: Position
    """Of their last row; NOWHERE: they have none."""
    last: LastTransaction | None
    interleaved: bool
    """They are of a log in which transactions interleave."""
    ended_ms: int | None = None
    """Kafka's time of the last of their ENDs."""


def behind(extent: Extent, previous: Previous, *, sequences: Mapping[str, int], missing: Mapping[str, str]) -> Snapshot:
    """The snapshot after these transactions. ``sequences``: by topic, the last batch sequence that was read; ``missing``: by topic, why records were waived.

    An END that the source sent again names no snapshot: then nothing of the log came between, and the snapshot keeps the name of the one before.
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
    """The snapshot without these transactions, which have rows below its position."""
    return replace(snapshot, frontier=replace(snapshot.frontier, open=transactions))


def named_as_before(snapshot: Snapshot, previous: Previous) -> Snapshot:
    """The snapshot under the name of the one before: nothing of the log came between."""
    last = previous.snapshot
    if last is None:
        return snapshot
    return replace(
        snapshot, transaction=last.transaction, ts_ms=last.ts_ms, kafka_ms=last.kafka_ms, file=last.file, pos=last.pos, lsn=last.lsn
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What has landed and belongs to no new transaction."""

    below: int
    """Records below the last snapshot's position that are not merged: dump rows, or rows of a table that was resumed."""
    logged: int
    """Changes above it."""
    dumped: int
    """Dump rows above it."""
    position: Position | None
    """Of the last of those."""
    transactions: bool
    """Whether the transaction topic has records that are in no snapshot."""


def without_transaction(found: Leftover, previous: Previous, *, blocked: bool, stale: bool) -> Literal["again", "at rest", "wait"]:
    """Whether there is a snapshot without a new transaction.

    ``again``: yes, for records that belong to the last one and came since, or because the last one is ``stale``: the versions that it names must not grow
    old, whatever blocks the next one. ``at rest``: yes, for dump rows, if the source rests, or they would wait for its next transaction; Kafka must show it.
    """
    if previous.snapshot is not None and (found.below or stale):
        return "again"
    if blocked or found.logged or not found.dumped or found.transactions:
        return "wait"
    return "at rest"


def extended(previous: Previous, sequences: Mapping[str, int], position: Position | None = None) -> Snapshot:
    """A snapshot without a new transaction, up to the position where one is given."""
    before = previous.frontier
    frontier = replace(before, sequences={**before.sequences, **sequences}, position=before.position if position is None else position)
    return named_as_before(Snapshot(number=previous.number, frontier=frontier, before=before, held=previous.held), previous)


@dataclass(frozen=True, slots=True)
class BlockedBy:
    """No snapshot: a transaction is incomplete."""

    transaction: Incomplete


@dataclass(frozen=True, slots=True)
class Quiet:
    """No snapshot: nothing came that a new one would show."""


Decision = Snapshot | BlockedBy | Quiet
