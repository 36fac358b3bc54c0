"""What has landed is merged wholly and once, wherever the process ends meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from dblog_sink.batches.landing import Landing
from dblog_sink.delta.merge import Txn
from dblog_sink.errors import DefiniteError
from delta.tables import DeltaTable
from pyspark.sql import Row
from pyspark.sql.classic.dataframe import DataFrame
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

LAND_EVERYTHING = {"trigger.interval.s": "0", "merge.rows.min": "1000000"}


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


def row(key: int, name: str) -> dict:
    return {"id": key, "name": name}


@pytest.mark.long
@pytest.mark.parametrize("at", ["tombstones_written", "merged"])
def test_a_merge_of_several_batches_that_was_broken_off_before_or_behind_its_rows_is_done_wholly(
    sink: Sink, registry: RegistryServer, at: str
) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    sink.settings |= LAND_EVERYTHING | {"rewrite.rows.max": "0"}
    sink.batch(*(change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2, 3)))

    def kill(step: str) -> None:
        if step == at:
            raise Kill(step)

    sink.restarted().reached = kill
    sink.land(change(items, "u", row(1, "b"), at=200))
    sink.land(change(items, "d", row(2, "a"), at=210), change(items, "c", row(4, "c"), at=220))
    with pytest.raises(Kill):
        sink.drain()

    sink.killed().reached = lambda _: None
    sink.batch(change(items, "c", row(5, "d"), at=300))

    assert sink.rows(items) == [row(1, "b"), row(3, "a"), row(4, "c"), row(5, "d")]


def test_what_has_landed_before_a_start_is_as_old_as_it_is_by_a_clock_that_nobody_sets(sink: Sink, registry: RegistryServer) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    sink.settings |= LAND_EVERYTHING
    began_s = time.time()
    sink.land(change(items, "c", row(1, "a"), at=100))

    landing = Landing(sink.spark, str(sink.folder / "lake/_dblog/landing"), keep_h=24, reached=lambda _: None)

    (landed,) = landing.waiting({}, now_s=50.0)[items.topic]

    assert 50.0 - (time.time() - began_s + 1) <= landed.at_s <= 50.0, "whole seconds of Delta's column are cut"


def appended(registry: RegistryServer) -> tuple[TableSchema, list[Record]]:
    """A table without a key, and three inserts into it."""
    table = TableSchema(topic="p.shop.log", columns=[("v", "int")], key=(), registry=registry)
    values = [table.value_bytes("c", after={"v": n}, pos=n, sequence=(1, n << 23)) for n in (1, 2, 3)]
    return table, [Record(topic=table.topic, key=None, value=value, offset=n) for n, value in enumerate(values)]


@pytest.mark.long
def test_a_repeated_batch_of_a_list_of_changes_does_not_overtake_what_has_landed(sink: Sink, registry: RegistryServer) -> None:
    table, (first, second, third) = appended(registry)
    sink.settings |= LAND_EVERYTHING
    sink.land(first)
    sink.land(second)

    # The next process does not know whether batch 2 was tried before.
    sink.killed().repeat(2, [third])

    assert [one["v"] for one in sink.rows(table, order="v")] == [1, 2, 3]


@pytest.mark.long
def test_a_list_of_changes_that_was_moved_away_is_filled_from_the_beginning(sink: Sink, registry: RegistryServer) -> None:
    table, records = appended(registry)
    sink.batch(*records)
    sink.restarted().remove(sink.path(table))
    sink.query_id = "second"

    sink.repeat(0, records[:1])
    sink.repeat(1, records[1:])
    sink.repeat(2, [replace(records[1], offset=9)])  # sent again by the source

    assert [one["v"] for one in sink.rows(table, order="v")] == [1, 2, 3]


@pytest.mark.long
def test_a_repeated_batch_may_land_a_table_that_it_was_about_to_apply(sink: Sink, registry: RegistryServer) -> None:
    waits, works = (
        TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
        for name in ("waits", "works")
    )
    sink.batch(change(waits, "c", row(1, "a"), at=1), change(works, "c", row(1, "a"), at=1))
    sink.restarted().settings |= LAND_EVERYTHING
    sink.land(change(waits, "c", row(2, "a"), at=2))

    def kill(step: str) -> None:
        if step == "landed":
            raise Kill(step)

    # What waits goes on landing, the other table is to be applied: the process ends between the two.
    sink.restarted().settings["trigger.interval.s"] = "1000"
    sink.reached = kill
    records = [replace(change(waits, "c", row(3, "a"), at=3), offset=2), replace(change(works, "c", row(2, "a"), at=2), offset=1)]
    with pytest.raises(Kill):
        sink.repeat(2, records)
    sink.killed().reached = lambda _: None
    sink.settings |= LAND_EVERYTHING

    sink.repeat(2, records)

    assert sink.rows(waits) == [row(1, "a"), row(2, "a"), row(3, "a")]
    assert sink.rows(works) == [row(1, "a"), row(2, "a")]


@pytest.mark.long
def test_what_waits_is_merged_when_the_source_rests(sink: Sink, registry: RegistryServer) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    sink.settings |= LAND_EVERYTHING | {"merge.age.max.s": "86400"}
    quiet_s: list[float] = []
    sink.reached = lambda step: quiet_s.append(sink.book.quiet_s()) if step == "landed" else None
    sink.batch(change(items, "c", row(1, "a"), at=1))
    by_batches = sink.pipeline.by_batches
    by_batches.policy = replace(by_batches.policy, patience=1e6)  # by its age it is merged tomorrow
    sink.pipeline.scheduler.start()

    sink.land(change(items, "c", row(2, "b"), at=2))
    rests_since_s = time.monotonic()

    while sink.rows(items) != [row(1, "a"), row(2, "b")]:
        assert time.monotonic() < rests_since_s + 60
        time.sleep(0.1)
    assert quiet_s == [0.0, 0.0], "while a batch is written the source is not quiet"


def test_what_is_merged_and_old_is_dropped_and_what_waits_stays(sink: Sink, registry: RegistryServer) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    sink.settings |= LAND_EVERYTHING | {"landing.keep.h": "0"}

    def landed() -> set[int]:
        return {one["sequence"] for one in sink.spark.read.format("delta").load(str(sink.folder / "lake/_dblog/landing")).collect()}

    sink.land(change(items, "c", row(1, "a"), at=1))
    sink.batch_id = 300  # of the next group of batches
    sink.land(change(items, "c", row(2, "a"), at=2))
    assert landed() == {0, 300}

    sink.drain()
    sink.batch_id = 600
    sink.batch(change(items, "c", row(3, "a"), at=3))

    assert landed() == {600}
    assert sink.rows(items) == [row(1, "a"), row(2, "a"), row(3, "a")]


@pytest.mark.long
def test_a_table_that_is_parked_for_long_keeps_no_rows_of_the_others(sink: Sink, registry: RegistryServer) -> None:
    parked, works = (
        TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
        for name in ("parked", "works")
    )
    sink.settings |= {**LAND_EVERYTHING, "landing.keep.h": "0", "rewrite.rows.max": "0"}
    sink.land(change(parked, "c", row(1, "a"), at=1), change(works, "c", row(1, "a"), at=1))
    sink.drain()
    sink.book.park(parked.topic, "a person asked for it")
    for n in (2, 3):
        sink.land(change(parked, "c", row(n, "a"), at=n), change(works, "c", row(n, "a"), at=n))
        sink.drain()
        sink.batch_id += 256

    def landed() -> dict[str, int]:
        rows = sink.spark.read.format("delta").load(f"{sink.base}/_dblog/landing").groupBy("topic").count().collect()
        return {one["topic"]: one["count"] for one in rows}

    sink.land(change(works, "c", row(4, "a"), at=4))
    sink.drain()

    assert landed() == {parked.topic: 3, works.topic: 1}
    sink.restarted().book.unpark(parked.topic)
    sink.drain()
    assert sink.rows(parked) == [row(n, "a") for n in (1, 2, 3)]
    assert sink.rows(works) == [row(n, "a") for n in (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("made_before", [False, True], ids=["", "by an earlier version"])
def test_what_lands_after_control_table_and_checkpoint_were_lost_is_not_taken_for_what_was_merged_before(
    sink: Sink, registry: RegistryServer, made_before: bool
) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    sink.settings |= LAND_EVERYTHING
    sink.batch(change(items, "c", row(1, "a"), at=100))
    sink.restarted().query_id = "second"
    sink.batch(change(items, "c", row(2, "a"), at=110))
    sink.restarted()
    landing = str(sink.folder / "lake/_dblog/landing")
    DeltaTable.forPath(sink.spark, landing).delete()  # all of it was merged, and has expired
    if made_before:
        sink.spark.sql(f"ALTER TABLE delta.`{landing}` UNSET TBLPROPERTIES IF EXISTS ('dblog.checkpoint.epoch')")
    sink.lose("control")
    sink.query_id, sink.batch_id = "third", 0

    sink.batch(change(items, "c", row(3, "a"), at=120))

    assert sink.rows(items) == [row(1, "a"), row(2, "a"), row(3, "a")]


def test_after_a_restart_only_what_waits_is_brought_to_the_driver(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, parked = (
        TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
        for name in ("items", "parked")
    )
    sink.settings |= LAND_EVERYTHING
    landing = Landing(sink.spark, str(sink.folder / "landing"), keep_h=24, reached=lambda _: None)
    for sequence in range(4):
        records = [change(table, "c", row(sequence, "a"), at=100 + sequence) for table in (items, parked)]
        landing.append(sink.frame(records), [items.topic, parked.topic], sequence=sequence, query_id="q", rows=2, txn=Txn("a", sequence))
    brought = []
    collect = DataFrame.collect

    def counted(frame: DataFrame) -> list[Row]:
        found = collect(frame)
        brought.extend(found)
        return found

    monkeypatch.setattr(DataFrame, "collect", counted)
    waiting = landing.waiting({items.topic: 2}, now_s=0.0)

    assert {topic: [one.sequence for one in batches] for topic, batches in waiting.items()} == {
        items.topic: [3],
        parked.topic: [0, 1, 2, 3],
    }
    assert len(brought) == 5
