"""Random histories as the topics that users have: dblog's of a binlog and of PostgreSQL's log, Debezium's without ``sequence``, also after a failover,
PostgreSQL's, also with values that it leaves out, unwrapped, compacted.

What a kind promises decides in what order its records may come: rows with a position in any order at all, rows that follow their topic in its order, with
stretches that are sent again. What must come out is the same model for all (histories.py).
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import fastavro
from dblog.dialects.postgres.pgoutput.position import sequence_of
from sink.feed import Feed, universes
from sink.harness import Record, change
from sink.histories import (
    SECOND_PHASE_AT,
    TRUNCATE_AT,
    Event,
    Key,
    Universe,
    Version,
    appended,
    mirrored,
    resent,
    shuffled,
    unchanged,
    versions,
    windowed,
)
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

TOPIC = "p.shop.universes"
_COLUMNS: list[tuple[str, Any]] = [("universe", "int"), ("id", "int"), ("v", ["null", "string"])]
_EXTRA: tuple[str, Any] = ("extra", ["null", "string"])
_TS_MS = 1_700_000_000_000
_UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of topic. ``modes``: for which its rows are enough."""

    name: str
    modes: tuple[str, ...]
    ordered: bool = False
    """Its records follow each other as the source wrote them, or were sent again from some offset on."""
    truncates: bool = True
    compacted: bool = False
    once: bool = False
    """A list of changes has each of them once, though they are sent again."""


KINDS = (
    Kind(name="dblog", modes=("mirror", "history", "append"), once=True),
    Kind(name="debezium", modes=("mirror", "history", "append")),
    Kind(name="postgres", modes=("mirror", "history", "append")),
    Kind(name="toast", modes=("mirror", "history"), ordered=True, truncates=False),
    Kind(name="unwrapped", modes=("mirror",), ordered=True, truncates=False),
    Kind(name="compacted", modes=("mirror",), ordered=True, truncates=False, compacted=True),
    Kind(name="failover", modes=("mirror",), ordered=True, truncates=False),
)


class Topic:
    """The records of one kind, in either of the two schemas."""

    def __init__(self, kind: Kind, registry: RegistryServer, *, keyed: bool, gtids: bool, commits: bool = False) -> None:
        """``commits``: positions are those of PostgreSQL's commits, as dblog writes them."""
        key = ("universe", "id") if keyed else ()
        self.kind = kind
        self._commits = commits
        connector = "postgresql" if commits or kind.name in ("postgres", "toast") else "mysql"
        self._feed = Feed(registry, key=key)
        self._old, self.table = (
            TableSchema(topic=TOPIC, columns=columns, key=key, connector=connector, registry=registry)
            for columns in (_COLUMNS, [*_COLUMNS, _EXTRA])
        )
        self._registry = registry
        self._gtids = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "5c0c0b0e-71ca-11e1-9e33-c80aa9429562") if gtids else None

    def records(self, event: Event, dice: random.Random) -> list[Record]:
        """What the connector writes for an event."""
        if self.kind.name in ("postgres", "toast"):
            return [self._postgres(event)]
        if self._commits:
            return [self._committed(event)]
        if self.kind.name == "unwrapped":
            return [self._unwrapped(event)]
        if self.kind.name == "failover":
            return [self._failed_over(event)]
        if self.kind.compacted:
            record = self._feed.record(event, sequenced=False)
            return [record, replace(record, value=None)] if event.op == "d" else [record]
        return [self._feed.record(event, sequenced=self.kind.name == "dblog")]

    def truncate(self, partition: int) -> Record:
        """The row for a TRUNCATE between the two phases."""
        if self.kind.name == "postgres":
            value = self._old.value_bytes("t", lsn=8 * (TRUNCATE_AT << 23), ts_ms=_TS_MS + TRUNCATE_AT)
            return Record(topic=TOPIC, key=None, value=value, partition=partition)
        if self._commits:
            numbers = sequence_of(epoch=1, lsn=TRUNCATE_AT << 3)
            value = self._old.value_bytes("t", lsn=8, sequence=numbers, ts_ms=_TS_MS + TRUNCATE_AT)
            return Record(topic=TOPIC, key=None, value=value, partition=partition)
        if self.kind.name == "dblog":
            return self._feed.truncate(partition)
        value = self._feed.old.value_bytes("t", pos=TRUNCATE_AT, ts_ms=_TS_MS + TRUNCATE_AT)
        return Record(topic=TOPIC, key=None, value=value, partition=partition)

    def _row(self, event: Event) -> dict[str, Any]:
        row = {"universe": event.key[0], "id": event.key[1], "v": event.value}
        return row | {"extra": event.extra} if event.altered else row

    def _postgres(self, event: Event) -> Record:
        """Each row has an LSN of its own, a multiple of eight as each record of the server's log has; those of an incremental snapshot have none. A large value
        that did not change is not in the log.
        """
        table = self.table if event.altered else self._old
        row = self._row(event) | ({"v": _UNAVAILABLE} if event.unavailable else {})
        value = table.value_bytes(
            event.op,
            before=row if event.op == "d" else None,
            after=None if event.op == "d" else row,
            lsn=None if event.op == "r" else 8 * ((event.at << 23) + event.number),
            ts_ms=event.ts_ms,
        )
        return Record(topic=TOPIC, key=table.key_bytes(row), value=value, partition=event.partition)

    def _committed(self, event: Event) -> Record:
        """Where a row was written shows nothing: here the later the earlier. A dumped row has no LSN."""
        table = self.table if event.altered else self._old
        row = self._row(event)
        value = table.value_bytes(
            event.op,
            before=row if event.op == "d" else None,
            after=None if event.op == "d" else row,
            lsn=None if event.op == "r" else (1 << 40) - 8 * event.at,
            sequence=sequence_of(epoch=1, lsn=event.at << 3, number=event.number),
            ts_ms=event.ts_ms,
        )
        return Record(topic=TOPIC, key=table.key_bytes(row), value=value, partition=event.partition)

    def _failed_over(self, event: Event) -> Record:
        """Debezium's record; the second phase is read from another server, whose log has lower file numbers.

        A dumped row has the position at which the log is being read.
        """
        at = event.step if event.op == "r" else event.at
        second = at >= SECOND_PHASE_AT
        table = self.table if event.altered else self._old
        return change(
            table,
            event.op,
            self._row(event),
            at=at,
            row_number=event.number,
            file=2 if second else 9,
            server=2 if second else 1,
            gtid=None if self._gtids is None else f"{self._gtids[second]}:{at}",
            partition=event.partition,
            ts_ms=_TS_MS + at,
        )

    def _unwrapped(self, event: Event) -> Record:
        """ExtractNewRecordState with ``__op`` added, deletes as null values."""
        fields = [{"name": name, "type": kind} for name, kind in [*_COLUMNS, *([_EXTRA] if event.altered else [])]]
        fields.append({"name": "__op", "type": ["null", "string"]})
        schema = {"type": "record", "name": "Value", "namespace": TOPIC, "fields": fields, "connect.name": f"{TOPIC}.Value"}
        row = self._row(event)
        key = self._old.key_bytes(row)
        if event.op == "d":
            return Record(topic=TOPIC, key=key, value=None, partition=event.partition)
        out = io.BytesIO()
        out.write(b"\0" + self._registry.register(json.dumps(schema)).to_bytes(4, "big"))
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row | {"__op": event.op})
        return Record(topic=TOPIC, key=key, value=out.getvalue(), partition=event.partition)


class Course:
    """One seed's records in batches, and what a table of each mode must hold behind them."""

    def __init__(self, kind: Kind, mode: str, seed: int, registry: RegistryServer, *, count: int, batches: int) -> None:
        dice = random.Random(f"course {seed}")
        self.mode, self.kind = mode, kind
        commits = kind.name == "dblog" and mode == "mirror" and random.Random(f"server {seed}").random() < 0.5
        self.topic = Topic(kind, registry, keyed=mode != "append", gtids=dice.random() < 0.5, commits=commits)
        self._clock = dice.choice([None, random.Random(f"clock {seed}")])
        self.truncated = mode != "append" and kind.truncates and dice.random() < 0.5
        made = universes(dice, truncated=self.truncated, count=count)
        if mode == "history" or kind.name in ("postgres", "toast", "failover"):
            made = [windowed(one, truncated=self.truncated) for one in made]
        if kind.name == "toast":
            made = [unchanged(one, dice) for one in made]
        if mode == "history" and kind.name in ("postgres", "toast"):  # a dump row without a position does not show when it was read
            made = [Universe(one.number, one.rows, [event for event in one.events if event.op != "r"]) for one in made]
        in_order = kind.ordered or mode == "append"
        self.universes = made
        self._events = resent(made, dice) if in_order else shuffled(made, dice)
        self.batches = self._divided(dice, batches)
        self._offsets = Counter[int]()
        for record in (record for batch in self.batches for record in batch):  # a compacted topic has fewer records than offsets
            self._offsets[record.partition] = max(self._offsets[record.partition], (record.offset or 0) + 1)

    @property
    def expected(self) -> dict[Key, tuple[str, str | None]] | set[Version] | Counter[Any]:
        """By mode, the source's rows, all versions of them, or all changes."""
        if self.mode == "mirror":
            return mirrored(self.universes)
        if self.mode == "history":
            return versions(self.universes, truncated=self.truncated)
        counts = appended(self._events)
        if self.kind.name != "postgres":
            return counts
        without_positions: Counter[Any] = Counter()
        for (op, key, value, at, number), n in counts.items():
            without_positions[(op, key, value, *((0, 0) if op == "r" else (at, number)))] += n
        return without_positions

    def dumped_again(self, dice: random.Random) -> list[Record]:
        """Every row as a new dump reads it, behind all that was written."""
        at = 1 << 27
        events = [
            Event("r", (one.number, key), value, at, one.number, at, extra, altered=True)
            for one in self.universes
            for key, (value, extra) in one.rows.items()
        ]
        return self.with_offsets([record for event in events for record in self.topic.records(event, dice)], behind=True)

    def with_offsets(self, records: Sequence[Record], *, behind: bool = False) -> list[Record]:
        """The records with offsets that rise by partition."""
        offsets = self._offsets if behind else Counter[int]()
        found = []
        for record in records:
            found.append(replace(record, offset=offsets[record.partition], at=self._when() or record.at))
            offsets[record.partition] += 1
        return found

    def _when(self) -> datetime | None:
        """When Kafka got a record: in half the seeds any time at all, for the clocks of producers are not the sink's, nor each other's."""
        return None if self._clock is None else datetime.fromtimestamp(self._clock.randrange(1, 4_000_000_000), UTC)

    def _divided(self, dice: random.Random, batches: int) -> list[list[Record]]:
        records = [record for event in self._events for record in self.topic.records(event, dice)]
        if self.truncated:
            for partition in (0, 1):
                records.insert(dice.randrange(len(records) + 1), self.topic.truncate(partition))
        records = self.with_offsets(records)
        bounds = sorted(dice.randrange(len(records) + 1) for _ in range(batches - 1))
        made = [records[low:high] for low, high in zip([0, *bounds], [*bounds, len(records)], strict=True)]
        return [made[0], *_compacted(made[1:], dice)] if self.kind.compacted else made


def _compacted(batches: list[list[Record]], dice: random.Random) -> list[list[Record]]:
    """The batches when Kafka has compacted the topic up to some offset.

    Of each key the last record alone is left below it; of a deleted one that is the null value.
    """
    line = [record for batch in batches for record in batch]
    last = {(record.partition, record.key): record.offset for record in line}
    clean = {partition: dice.randrange(len(line) + 1) for partition in {record.partition for record in line}}

    def stays(record: Record) -> bool:
        return (record.offset or 0) >= clean[record.partition] or last[record.partition, record.key] == record.offset

    return [[record for record in batch if stays(record)] for batch in batches]
