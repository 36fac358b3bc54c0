"""Events of random histories as Kafka records, and a table's content beside what the model expects: what tests and kill campaign share."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from dblog_sink.records.lsn_positions import lsn_of
from pyspark.sql import functions as F  # noqa: N812
from sink.harness import Record, Sink, change
from sink.histories import (
    TRUNCATE_AT,
    Event,
    Universe,
    Version,
    appended,
    divided,
    mirrored,
    resent,
    shuffled,
    universe,
    versions,
    windowed,
)
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

MODES = ("mirror", "history", "append")


class Feed:
    """Events as Kafka records of one table in two versions; offsets rise by partition."""

    def __init__(self, registry: RegistryServer, *, key: tuple[str, ...] = ("universe", "id")) -> None:
        columns = [("universe", "int"), ("id", "int"), ("v", ["null", "string"])]
        self.old = TableSchema(topic="p.shop.universes", columns=columns, key=key, registry=registry)
        self.new = TableSchema(topic="p.shop.universes", columns=[*columns, ("extra", ["null", "string"])], key=key, registry=registry)

    def record(self, event: Event, *, sequenced: bool) -> Record:
        row = {"universe": event.key[0], "id": event.key[1], "v": event.value}
        table = self.new if event.altered else self.old
        if event.altered:
            row["extra"] = event.extra
        return change(
            table, event.op, row, at=event.at, row_number=event.number, sequenced=sequenced, partition=event.partition, ts_ms=event.ts_ms
        )

    def truncate(self, partition: int, *, sequenced: bool = True) -> Record:
        sequence = (1, TRUNCATE_AT << 23) if sequenced else None
        value = self.old.value_bytes("t", pos=TRUNCATE_AT, sequence=sequence, ts_ms=1_700_000_000_000 + TRUNCATE_AT)
        return Record(topic=self.old.topic, key=None, value=value, partition=partition)

    def unreadable(self) -> Record:
        return Record(topic=self.old.topic, key=None, value=b"\0\0\0\x27\x0fno schema")


def universes(dice: random.Random, *, truncated: bool, count: int) -> list[Universe]:
    return [universe(number, dice, truncated=truncated, altered=True) for number in range(count)]


def batches_of(
    feed: Feed, events: list[Event], dice: random.Random, *, truncated: bool, count: int, sequenced: bool | None = None
) -> list[list[Record]]:
    """Return consecutive batches of records; the truncate is somewhere among them, a second time too.

    ``sequenced`` None: each partition has one writer, dblog or Debezium in turn. Records of both in one partition are a
    hand-over: there the order in the topic counts, which these batches do not have (``records/source_epochs.py``). With a truncate all partitions have
    the same writer: after dblog's records a partition is at another log than one that has Debezium's alone, so the truncate could not be ordered.
    """
    parted = divided(events, count, dice)
    # As many draws as events: what follows keeps its meaning by seed.
    draws = [dice.random() < 0.5 for _ in events] if sequenced is None else [sequenced]
    first = draws[0]

    def by_dblog(partition: int) -> bool:
        return first ^ (sequenced is None and not truncated and partition % 2 == 1)

    batches = [[feed.record(event, sequenced=by_dblog(event.partition)) for event in batch] for batch in parted]
    if truncated:
        for partition, batch in ((0, batches[1]), (1, batches[-1])):
            batch.append(feed.truncate(partition, sequenced=by_dblog(partition)))
    return batches


def with_offsets(batches: list[list[Record]]) -> list[list[Record]]:
    """The records with their offsets: in each partition they rise from batch to batch."""
    offsets: Counter[int] = Counter()
    for batch in batches:
        for n, record in enumerate(batch):
            batch[n] = replace(record, offset=offsets[record.partition])
            offsets[record.partition] += 1
    return batches


def history_rows(sink: Sink, table: TableSchema) -> set[Version]:
    ms = {name: (F.unix_millis(F.col(name))) for name in ("_dblog_from", "_dblog_to")}
    frame = sink.read(table)
    extra = F.col("extra") if "extra" in frame.columns else F.lit(None)
    found = frame.select(
        "universe",
        "id",
        "v",
        extra.alias("extra"),
        "_dblog_op",
        "_dblog_current",
        "_dblog_seq1",
        "_dblog_seq2",
        "_dblog_to_seq1",
        "_dblog_to_seq2",
        *(column.alias(name) for name, column in ms.items()),
    ).collect()

    rows = [
        Version(
            (row["universe"], row["id"]),
            _place(table, row["_dblog_seq1"], row["_dblog_seq2"]) or (0, 0),
            _place(table, row["_dblog_to_seq1"], row["_dblog_to_seq2"]),
            row["_dblog_op"],
            row["v"],
            row["extra"],
            row["_dblog_from"],
            row["_dblog_to"],
        )
        for row in found
    ]
    assert len(set(rows)) == len(rows), "a version is in the table twice"
    assert all(row["_dblog_current"] == (row["_dblog_to_seq2"] is None) for row in found)
    return set(rows)


def mirror_rows(sink: Sink, table: TableSchema) -> dict[tuple[int, int], tuple[str, str | None]]:
    rows = [(one["universe"], one["id"], one["v"], one.get("extra")) for one in sink.rows(table)]
    assert len({row[:2] for row in rows}) == len(rows), "a key is in the table twice"
    return {row[:2]: row[2:] for row in rows}


def append_rows(sink: Sink, table: TableSchema) -> Counter:
    rows = sink.read(table).select("_dblog_op", "universe", "id", "v", "_dblog_seq1", "_dblog_seq2").collect()
    return Counter((row[0], (row[1], row[2]), row[3], *(_place(table, row[4], row[5]) or (0, 0))) for row in rows if row[0] != "b")


def _place(table: TableSchema, seq1: int, seq2: int | None) -> tuple[int, int] | None:
    """Return the step of the history, and the number in it, that a row's position stands for; PostgreSQL's are multiples of eight (topics.py)."""
    if seq2 is None:
        return None
    at = lsn_of((seq1, seq2)) // 8 if table.connector == "postgresql" else seq2
    return at >> 23, at & (1 << 23) - 1


def difference(found: Iterable, expected: Iterable, seed: int) -> str:
    here, there = set(found), set(expected)
    not_expected, missing = (sorted(rows, key=repr)[:4] for rows in (here - there, there - here))
    return f"seed {seed}: not expected {not_expected}; missing {missing}"


class Trial:
    """One seed in one mode: the batches, and what must come out of them."""

    def __init__(
        self, mode: str, seed: int, feed: Feed, *, count: int, batches: int, truncated: bool | None = None, unreadable: bool = False
    ) -> None:
        dice = self.dice = random.Random(seed)
        self.mode, self.seed, self.feed = mode, seed, feed
        truncated = (mode != "append" and dice.random() < 0.5) if truncated is None else truncated
        made = universes(dice, truncated=truncated, count=count)
        if mode == "history":  # a mirror is right without windows too; a history needs them
            made = [windowed(one, truncated=truncated) for one in made]
        events = resent(made, dice) if mode == "append" else shuffled(made, dice)
        self.batches = batches_of(feed, events, dice, truncated=truncated, count=batches, sequenced=True if mode == "append" else None)
        if unreadable:
            self.batches[1].append(feed.unreadable())
        with_offsets(self.batches)
        expected: dict[str, Callable[[], Any]] = {
            "mirror": lambda: mirrored(made),
            "history": lambda: versions(made, truncated=truncated),
            "append": lambda: appended(events),
        }
        self.expected = expected[mode]()
        if mode == "history":
            now = {version.key: (version.value, version.extra) for version in self.expected if version.end is None}
            assert now == mirrored(made), "the model contradicts the source"

    @property
    def settings(self) -> dict[str, str]:
        return {"table.all.match": ".*", "table.all.mode": self.mode}

    def check(self, sink: Sink) -> None:
        """The table holds what the model expects."""
        read: dict[str, Callable[[Sink, TableSchema], Any]] = {"mirror": mirror_rows, "history": history_rows, "append": append_rows}
        found = read[self.mode](sink, self.feed.new)
        if found != self.expected:
            items = [set(side) if isinstance(side, set) else set(side.items()) for side in (found, self.expected)]
            raise AssertionError(difference(*items, self.seed))
