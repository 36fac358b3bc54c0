"""Where the tables of a source may be cut so that no transaction is half visible: the whole rule, as functions of what has landed.

The source's log is a line of transactions, in the order of the transaction topic. A cut stands behind the last of them that is complete, and
has only complete ones before it: complete when its END has landed and, for each table that the sink keeps, as many different
records of it have landed as the END counts (debezium.md 1.7; delta-sink.md 5.5). What is not complete holds the cut back. It is forgiven, with a
reason that is told, only where its records cannot come: before the sink's own beginning, of a table that is parked, or where a person said so.

A record belongs to a cut by its position: MySQL and MariaDB write one transaction after the other, so all positions up to the cut's are those of
its transactions. In PostgreSQL's log they interleave; the few that were begun below the cut's position and are not in it are named (``open``).
Each record is merged by one cut only: the line of the cut before tells what was merged (``Line.lots``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Position = tuple[int, int]
"""D7's two numbers."""
Place = tuple[int, int]
"""Where a record of the transaction topic stands: lot and offset. It rises even when the topic is made anew."""

NOWHERE: Position = (-1, -1)
EXPIRED = "its records had expired in Kafka before the sink's first record of the topic"
APPLIED = "its records were applied before there was a manifest"
_POSTGRES_ID = re.compile(r"(\d+):\d+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._\-]")


def transaction_id(given: str) -> str:
    """What rows, BEGIN and END of one transaction have in common: PostgreSQL's is ``<txid>:<lsn of the record>``, a GTID is the same everywhere."""
    match = _POSTGRES_ID.fullmatch(given)
    return given if match is None else match.group(1)


def prefix_of(topic: str) -> str:
    """The ``topic.prefix`` of the source whose transaction topic this is."""
    return topic.rpartition(".")[0]


def topic_of(collection: str, prefix: str) -> str:
    """The topic of a data collection (``db.table``), as Debezium names and sanitises it."""
    return _ILLEGAL.sub("_", f"{prefix}.{collection}" if prefix else collection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What divides records into those of a cut and of cuts before it, and those after it."""

    position: Position = NOWHERE
    place: Place = NOWHERE
    open: tuple[str, ...] = ()
    """Transactions with rows below the position that are not in the cut."""
    lots: Mapping[str, int] = field(default_factory=dict)
    """By topic, the last lot that was looked at: what landed later was in no cut, whatever its position."""

    def note(self) -> dict[str, Any]:
        """As JSON."""
        return {"position": list(self.position), "place": list(self.place), "open": list(self.open), "lots": dict(self.lots)}

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> Line:
        """From JSON."""
        return cls(position=_pair(note["position"]), place=_pair(note["place"]), open=tuple(note["open"]), lots=dict(note["lots"]))


BEFORE_ALL = Line()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One cut: chosen once, noted before the first merge, and from then on the same for every attempt."""

    number: int
    line: Line
    before: Line = BEFORE_ALL
    """Of the cut before."""
    held: Mapping[str, Line] = field(default_factory=dict)
    """Of tables that were parked: the last cut that they are in."""
    transaction: str | None = None
    ts_ms: int | None = None
    """The source's time of its end."""
    kafka_ms: int | None = None
    """Kafka's time of its end: a dump row that was sent later may show what came after the cut."""
    file: str | None = None
    pos: int | None = None
    lsn: int | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Topics of which records of this cut's transactions are missing, and why that was forgiven."""

    def merged_before(self, topic: str) -> Line:
        """The line up to which the topic's records were merged before this cut."""
        return self.held.get(topic, self.before)

    def note(self) -> dict[str, Any]:
        """As JSON, for the control table."""
        return {
            "number": self.number,
            "line": self.line.note(),
            "before": self.before.note(),
            "held": {topic: line.note() for topic, line in self.held.items()},
            "transaction": self.transaction,
            "ts_ms": self.ts_ms,
            "kafka_ms": self.kafka_ms,
            "file": self.file,
            "pos": self.pos,
            "lsn": self.lsn,
            "lacking": dict(self.lacking),
        }

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> Cut:
        """From JSON."""
        lines = {"line": Line.of(note["line"]), "before": Line.of(note["before"])}
        return cls(**{**note, **lines, "held": {topic: Line.of(one) for topic, one in note["held"].items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """A transaction of which something has not landed. ``end`` None: its END, and then nothing is known of its records."""

    id: str
    begin: Place | None
    end: Place | None
    missing: Mapping[str, int] = field(default_factory=dict)
    """Records that are not there, by topic."""

    @property
    def place(self) -> Place:
        """Its first word: nothing from there on is in a cut while it holds."""
        return min(place for place in (self.begin, self.end) if place is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known beside the landing table."""

    late: Mapping[str, str] = field(default_factory=dict)
    """Topics that the cuts do not know from their beginning, ``EXPIRED`` or ``APPLIED``, and of which no transaction was in a cut since."""
    forgiven: Mapping[str, Place] = field(default_factory=dict)
    """By topic: up to this place of the transaction topic, whatever has not landed is not in Kafka either."""
    parked: Collection[str] = ()
    passed: Collection[str] = ()
    """Transactions that manifest.pass names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``blocker``: the first transaction that holds the cut back, with what of it is waited for; None: none does."""

    blocker: Incomplete | None = None
    forgiven: tuple[tuple[Incomplete, Mapping[str, str]], ...] = ()
    """Transactions that are not complete and hold nothing back: by topic, why."""

    @property
    def barrier(self) -> Place | None:
        """The cut lies before it."""
        return None if self.blocker is None else self.blocker.place


def judged(found: Sequence[Incomplete], facts: Facts) -> Verdict:
    """Which of the incomplete transactions is the first to hold the cut back."""
    forgiven: list[tuple[Incomplete, Mapping[str, str]]] = []
    for one in sorted(found, key=lambda one: one.place):
        reasons = {topic: reason for topic in one.missing if (reason := _forgiven(one, topic, facts)) is not None}
        left = {topic: count for topic, count in one.missing.items() if topic not in reasons}
        if left or (one.end is None and one.id not in facts.passed):
            return Verdict(blocker=replace(one, missing=left), forgiven=tuple(forgiven))
        forgiven.append((one, reasons))
    return Verdict(forgiven=tuple(forgiven))


def _forgiven(one: Incomplete, topic: str, facts: Facts) -> str | None:
    if one.id in facts.passed:
        return "manifest.pass names the transaction"
    if topic in facts.parked:
        return "the table is parked"
    if one.end is None or topic not in facts.forgiven or one.end > facts.forgiven[topic]:
        return None
    if one.begin is None:
        return "the transaction began before the sink's first record of the transaction topic"
    return facts.late.get(topic)


def _pair(given: Sequence[int]) -> tuple[int, int]:
    return int(given[0]), int(given[1])
