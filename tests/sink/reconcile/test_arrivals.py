"""What chunk markers count is compared with what arrived, over batches, restarts and repetitions (I9)."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dblog_sink.observe.metrics import Metrics
from dblog_sink.reconcile import arrivals
from dblog_sink.reconcile.chunk_ledger import Loss
from pyspark.sql import SparkSession
from sink.harness import Record, Sink, change
from sink.job import Job
from stack import Kafka
from support.chunk_markers import chunk_marker, in_avro, in_json
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

MARKERS = "__dblog-chunks.p"
PAST = {"p.shop.items": {0: 1000}}


@pytest.fixture
def items(registry: RegistryServer, sink: Sink) -> TableSchema:
    sink.settings |= {"chunks.wait.s": "0", "topics.pattern": r"p\..*"}
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("v", ["null", "string"])], registry=registry)


def dumped(items: TableSchema, *keys: int, at: int) -> list[Record]:
    return [change(items, "r", {"id": key, "v": "dumped"}, at=at, sequenced=True) for key in keys]


def marker(items: TableSchema, chunk_id: str, *, at: int, read: int, dropped: int = 0, **facts: Any) -> Record:
    made = chunk_marker(items.topic, chunk_id=chunk_id, low=(1, at << 23), read=read, dropped=dropped, **facts)
    return Record(topic=MARKERS, key=None, value=in_avro(items.registry, made))


def outcome(sink: Sink, read_to: dict[str, dict[int, int]] = PAST) -> list[tuple[str, str, int]]:
    return sorted((one.marker.chunk_id, one.result, one.missing) for one in sink.pipeline.arrivals.look(read_to))


def test_chunks_are_judged_over_batches_and_kills_and_every_row_counts_once(sink: Sink, items: TableSchema) -> None:
    first = dumped(items, 1, 2, 3, at=100)
    sink.batch(*first)
    sink.killed()
    sink.batch_id = 0
    sink.batch(*(replace(record, offset=n) for n, record in enumerate(first)))  # the batch is repeated
    sink.batch(
        marker(items, "whole", at=100, read=5, dropped=2),
        marker(items, "short", at=200, read=4),
        *dumped(items, 4, 5, at=200),
        change(items, "c", {"id": 9, "v": "incremental"}, at=300),
    )
    assert outcome(sink, {"p.shop.items": {0: 5}}) == [("whole", "complete", 0)]
    sink.killed()

    sink.batch(*dumped(items, 6, at=200), marker(items, "short", at=200, read=4))
    assert outcome(sink) == [("short", "short", 1)]
    assert outcome(sink.killed()) == []
    sink.batch(marker(items, "whole", at=100, read=5, dropped=2), marker(items, "short", at=200, read=4))  # written twice by the worker
    assert outcome(sink) == []
    sink.batch(*dumped(items, 7, at=200))

    assert outcome(sink.killed()) == [("short", "late", 1)]
    assert outcome(sink.killed()) == []
    assert [row["id"] for row in sink.rows(items)] == [1, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.long
def test_of_a_connector_with_transforms_the_rows_count_that_these_let_through(sink: Sink, items: TableSchema) -> None:
    sink.batch(
        *dumped(items, 1, at=100),
        marker(items, "all dropped", at=50, read=3, rows_passed=0),
        marker(items, "some dropped", at=100, read=4, dropped=1, rows_passed=1),
        marker(items, "short", at=200, read=4, rows_passed=2),
    )

    assert outcome(sink) == [("all dropped", "complete", 0), ("short", "short", 2), ("some dropped", "complete", 0)]


@pytest.mark.long
def test_everything_sent_again_to_a_new_checkpoint_changes_no_count(sink: Sink, items: TableSchema) -> None:
    records = [*dumped(items, 1, 2, at=100), marker(items, "short", at=100, read=3)]
    sink.batch(*records)
    sink.restarted()
    sink.query_id, sink.batch_id = "second", 0

    sink.batch(*(replace(record, offset=offset) for record, offset in zip(records, (0, 1, 0), strict=True)))

    assert outcome(sink) == [("short", "short", 1)]


@pytest.mark.long
def test_dumped_rows_of_postgresql_are_applied_whatever_their_sequence_lacks(sink: Sink, items: TableSchema) -> None:
    table = replace(items, connector="postgresql")
    sequences = ((None, 1), (1, None), (None, None))
    records = [
        Record(
            topic=table.topic,
            key=table.key_bytes({"id": key}),
            value=table.value_bytes("r", after={"id": key, "v": "dumped"}, sequence=sequence),
        )
        for key, sequence in enumerate(sequences)
    ]

    sink.batch(*records)

    assert [row["id"] for row in sink.rows(table)] == [0, 1, 2]
    assert sink.quarantined() == []


@pytest.mark.long
def test_rows_in_quarantine_have_arrived(sink: Sink, items: TableSchema) -> None:
    good, broken, foreign = dumped(items, 1, 2, 3, at=100)
    broken = replace(broken, key=b"junk!")  # its position can be read nevertheless
    foreign = replace(foreign, value=b"\0\0\0\x27\x0f" + (foreign.value or b"")[5:])

    sink.batch(good, broken, foreign, marker(items, "a", at=100, read=3))

    assert len(sink.quarantined()) == 2
    assert [(one.result, one.unreadable) for one in sink.pipeline.arrivals.look(PAST)] == [("complete", 1)]


@pytest.mark.long
def test_a_shortfall_of_a_compacted_topic_proves_nothing(sink: Sink, items: TableSchema) -> None:
    sink.compacted.add(items.topic)

    sink.batch(*dumped(items, 1, at=100), marker(items, "a", at=100, read=2))

    assert outcome(sink) == [("a", "unproven", 1)]


@pytest.mark.long
def test_markers_of_topics_that_are_not_read_and_of_dumps_that_send_no_rows_are_not_judged(sink: Sink, items: TableSchema) -> None:
    foreign = TableSchema(topic="q.shop.items", columns=items.columns, registry=items.registry)
    of_older_worker = chunk_marker(items.topic, chunk_id="b", low=(1, 100 << 23), read=1)

    sink.batch(
        *dumped(items, 1, at=100),
        marker(foreign, "a", at=100, read=2),
        marker(items, "compared", at=100, read=7, mode="verify", dump="d1"),
        Record(topic=MARKERS, key=None, value=in_avro(items.registry, of_older_worker, without=("dump", "mode", "begins", "scope"))),
    )

    assert outcome(sink, {"q.shop.items": {0: 1000}} | PAST) == [("b", "complete", 0)]


def test_a_dump_of_one_key_leaves_the_first_state_of_its_table_as_it_was_also_after_a_restart(sink: Sink, items: TableSchema) -> None:
    def incomplete(upto: int) -> list[str]:
        return list(sink.pipeline.arrivals.dumps_incomplete((1, upto << 23)).values())

    def repaired(since: int) -> list[str]:
        return list(sink.pipeline.arrivals.dumped_since({items.topic: Loss(since, (1, 349 << 23))}, (1, 400 << 23)) or ())

    sink.batch(
        *dumped(items, 1, at=100),
        marker(items, "a", at=100, read=1, dump="d1", scope="keys", begins=True, final=True),
        marker(items, "whole", at=350, read=0, dump="d2", low_ts_ms=7, begins=True, final=True),
    )
    assert repaired(6) == [], "it is not judged yet"
    outcome(sink)

    for restarted in (False, True):
        if restarted:
            sink.killed()
        assert (incomplete(400), repaired(6), repaired(7)) == ([], [items.topic], [])
    own = {"read": 0, "dump": "initial", "scope": "predicate"}  # of a table whose SELECT is overridden
    sink.batch(
        marker(items, "b", at=200, begins=True, upto="[3]", **own),
        marker(items, "d", at=250, after="[6]", final=True, **own),  # of another reader
        marker(items, "c", at=300, after="[3]", upto="[6]", **own),
    )
    assert incomplete(299) == ["its first dump has not ended"]
    assert incomplete(300) == []
    sink.killed()
    assert incomplete(299) == ["its first dump has not ended"]
    assert incomplete(300) == []


@pytest.mark.long
def test_what_is_not_settled_outlives_the_counts_and_what_was_found_does_too(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All counts are too old as soon as they are judged."""
    monkeypatch.setattr(arrivals, "_COMPACT_EVERY", 0)
    sink.settings["chunks.keep.h"] = "0"
    path = f"{sink.base}/_dblog/chunks"

    def incomplete() -> list[str]:
        return list(sink.pipeline.arrivals.dumps_incomplete((1, 400 << 23)).values())

    def kept() -> list[str]:
        rows = sink.spark.read.format("delta").load(path).where("kind IN ('marker', 'judged', 'arrived', 'late')")
        return sorted({row["chunk_id"] or f"at {row['seq2'] >> 23}" for row in rows.collect()})

    sink.batch(
        *dumped(items, 1, at=100),
        marker(items, "a", at=100, read=1, begins=True, upto="[1]"),
        *dumped(items, 2, at=200),
        marker(items, "b", at=200, read=2, after="[1]", upto="[5]"),
    )
    assert outcome(sink) == [("a", "complete", 0), ("b", "short", 1)]
    assert kept() == ["a", "at 100", "at 200", "b"], "the dump does not cover its table yet"

    sink.killed()
    sink.batch(marker(items, "c", at=300, read=0, after="[5]", final=True))
    assert outcome(sink) == [("c", "complete", 0)]
    for _ in range(2):
        assert kept() == ["at 200", "b"]
        assert incomplete() == ["rows of a dump did not arrive; dump the table again"]
        sink.killed()
    assert list(sink.pipeline.arrivals.dumped_since({items.topic: Loss(0)}, (1, 400 << 23)) or ()) == []

    sink.batch(marker(items, "again", at=350, read=0, dump="d2", begins=True, final=True))
    assert outcome(sink) == [("again", "complete", 0)]
    sink.killed()
    sink.batch(marker(items, "more", at=360, read=0, dump="d3", scope="keys"))
    assert outcome(sink) == [("more", "complete", 0)]

    assert kept() == []
    assert incomplete() == []
    assert list(sink.pipeline.arrivals.dumped_since({items.topic: Loss(0)}, (1, 400 << 23)) or ()) == [items.topic]


@pytest.mark.long
def test_a_dump_of_which_a_record_is_in_quarantine_repairs_nothing_until_it_is_gone(sink: Sink, items: TableSchema) -> None:
    def repaired() -> list[str]:
        return list(sink.pipeline.arrivals.dumped_since({items.topic: Loss(0)}, (1, 400 << 23)) or ())

    good, broken = dumped(items, 1, 2, at=100)
    broken = replace(broken, key=b"junk!")  # its position can be read nevertheless
    now_ms = round(time.time() * 1000)
    facts = {"begins": True, "final": True, "low_ts_ms": now_ms, "ts_ms": now_ms}
    sink.batch(good, replace(broken, at=datetime.now(UTC)), marker(items, "a", at=100, read=2, **facts))

    assert outcome(sink) == [("a", "complete", 0)]
    assert repaired() == []
    sink.spark.sql(f"DELETE FROM delta.`{sink.base}/_dblog/quarantine`")
    assert repaired() == [items.topic]


@pytest.mark.long
def test_a_dump_of_one_key_ahead_of_the_first_dump_tells_that_this_one_is_still_to_come(sink: Sink, items: TableSchema) -> None:
    def incomplete(upto: int) -> list[str]:
        return list(sink.pipeline.arrivals.dumps_incomplete((1, upto << 23)).values())

    by_key = {"dump": "d1", "scope": "keys", "begins": True, "final": True}
    sink.batch(*dumped(items, 1, at=100), marker(items, "a", at=100, read=1, own_left=True, **by_key))

    for restarted in (False, True):
        if restarted:
            sink.killed()
        assert incomplete(400) == ["its first dump has not ended"]
    sink.batch(marker(items, "first", at=200, read=0, final=True), marker(items, "b", at=300, read=0, own_left=False, **by_key))
    assert (incomplete(199), incomplete(200)) == (["its first dump has not ended"], [])


def test_counting_that_begins_in_the_middle_reports_no_chunk_as_short_that_began_before(sink: Sink, items: TableSchema) -> None:
    sink.settings["topics.start"] = "latest"

    sink.batch(*dumped(items, 3, at=100))
    sink.batch(
        marker(items, "before", at=50, read=9), marker(items, "begun before", at=100, read=3), marker(items, "after", at=200, read=1)
    )

    assert outcome(sink) == [("after", "short", 1), ("before", "unproven", 9), ("begun before", "unproven", 2)]


def test_a_marker_in_json_with_offsets_is_judged_when_they_are_read(sink: Sink, items: TableSchema) -> None:
    sink.settings["chunks.wait.s"] = "1000"
    made = chunk_marker(items.topic, chunk_id="a", low=(1, 100 << 23), read=2, offsets={0: (0, 5)})

    sink.batch(*dumped(items, 1, at=100), Record(topic=MARKERS, key=None, value=in_json(made)))

    assert outcome(sink, {"p.shop.items": {0: 5}}) == []
    assert outcome(sink, {"p.shop.items": {0: 6}}) == [("a", "short", 1)]


@pytest.mark.long
def test_a_marker_that_counts_a_row_more_than_arrived_is_reported_by_the_running_job(
    spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path
) -> None:
    job = Job(spark, kafka, registry, tmp_path)
    metrics = Metrics(version="1")
    job.listener = metrics.take
    items = job.table("items")
    job.create(items)
    markers = f"__dblog-chunks.{job.prefix}"
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "500")
    job.send(*dumped(items, 1, 2, 3, at=100), *dumped(items, 4, 5, at=200))
    for chunk_id, at, read in (("whole", 100, 3), ("short", 200, 4)):
        job.send(replace(marker(items, chunk_id, at=at, read=read, dropped=int(at == 200)), topic=markers))

    try:
        with job.running(chunks__wait__s="1"):
            job.wait("the verdict", lambda: job.lines("chunk") != [])
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")

    line = job.lines("chunk")[0]
    assert {name: line[name] for name in ("table", "chunk_id", "result", "expected", "missing")} == {
        "table": "shop.items",
        "chunk_id": "short",
        "result": "short",
        "expected": 3,
        "missing": 1,
    }
    assert [(one["table"], one["complete"], one["rows"]) for one in job.lines("chunks")] == [("shop.items", 1, 3)]
    assert metrics.registry.get_sample_value("dblog_sink_chunk_rows_missing_total", {"table": "shop.items"}) == 1
    assert metrics.registry.get_sample_value("dblog_sink_chunks_total", {"table": "shop.items", "result": "complete"}) == 1
    assert len(job.rows(items)) == 5
