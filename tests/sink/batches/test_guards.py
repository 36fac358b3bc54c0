"""Four guards, each enough alone: three of them are taken away, and the topic is sent again in part or whole.

Offsets in the checkpoint; the transaction ids in the Delta tables; the high-water marks; the positions of rows with the tombstones beside them.
What is taken away: the checkpoint by another one, the high-water marks by deleting the control table, positions by
setting them to 0 and deleting the tombstones. The tests of the high-water marks end without any guard: then the table
is wrong. Those marked long try one guard on a table of its own, landed too; the test of all but the checkpoint is their short form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dblog_sink.errors import TransientError
from pyspark.sql import DataFrame
from sink.harness import KAFKA, Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def row(key: int, name: str) -> dict:
    return {"id": key, "name": name}


def batches(items: TableSchema) -> list[list[Record]]:
    """Inserts, then an update and a delete, then a dump row that is late by hours; offsets as Kafka has them."""
    made = [
        [
            change(items, "c", row(1, "old"), at=100),
            change(items, "c", row(2, "gone"), at=110),
            change(items, "c", row(3, "stays"), at=120),
        ],
        [change(items, "u", row(1, "new"), at=200), change(items, "d", row(2, "gone"), at=210)],
    ]
    offset = 0
    for batch in made:
        for n, record in enumerate(batch):
            batch[n] = replace(record, offset=offset)
            offset += 1
    return made


RIGHT = [row(1, "new"), row(3, "stays")]


def lose_positions(sink: Sink, items: TableSchema) -> None:
    sink.restarted()
    sink.spark.sql(f"UPDATE delta.`{sink.path(items)}` SET _dblog_seq1 = 0, _dblog_seq2 = 0")
    sink.lose("tombstones")


def written(sink: Sink, items: TableSchema, settings: dict[str, str]) -> list[list[Record]]:
    sink.settings |= settings
    made = batches(items)
    for number, batch in enumerate(made):
        sink.repeat(number, batch)
    assert sink.rows(items) == RIGHT
    return made


MERGED, LANDED = {"rewrite.rows.max": "0"}, {"trigger.interval.s": "0"}


def test_positions_transaction_ids_and_high_water_marks_suffice_each_alone(sink: Sink, items: TableSchema) -> None:
    made = written(sink, items, MERGED)
    others = [replace(change(items, "c", row(10 + n, "other"), at=300 + n, partition=1), offset=n) for n in (0, 1)]
    late = [replace(change(items, "r", row(key, "dumped hours ago"), at=50), offset=100 + key) for key in (1, 2, 4)]
    again = [*made[0], *late, replace(change(items, "d", row(3, "stays"), at=290), offset=105), others[0]]
    right = [row(1, "new"), row(4, "dumped hours ago"), row(10, "other")]

    # Positions, and tombstones also in a batch that deletes.
    sink.restarted().lose("control")
    sink.query_id = "second"
    sink.repeat(0, again)
    assert sink.rows(items) == right

    # Transaction ids.
    lose_positions(sink, items)
    sink.lose("control")
    sink.repeat(0, again)
    assert sink.rows(items) == right

    # High-water marks, each of its partition.
    sink.restarted()
    sink.query_id = "third"
    new = replace(change(items, "c", row(5, "later"), at=310), offset=106)
    sink.repeat(0, [*made[0], *made[1], *late, new, *others])
    assert sink.rows(items) == [*right[:2], row(5, "later"), row(10, "other"), row(11, "other")]

    # Without them no guard is left, and the table is wrong: or else this would show nothing.
    lose_positions(sink, items)
    sink.lose("control")
    sink.query_id = "fourth"
    sink.repeat(0, made[0])
    assert sink.rows(items)[:3] == [row(1, "old"), row(2, "gone"), row(3, "stays")]


@pytest.mark.long  # short form: test_positions_transaction_ids_and_high_water_marks_suffice_each_alone
def test_positions_and_tombstones_alone_suffice(sink: Sink, items: TableSchema) -> None:
    made = written(sink, items, MERGED)
    sink.restarted().lose("control")
    sink.query_id = "second"

    late = [replace(change(items, "r", row(key, "dumped hours ago"), at=50), offset=100 + key) for key in (1, 2, 4)]
    for number, batch in enumerate([*made, late]):
        sink.repeat(number, batch)

    assert sink.rows(items) == [*RIGHT, row(4, "dumped hours ago")]


@pytest.mark.long  # short form: test_positions_transaction_ids_and_high_water_marks_suffice_each_alone
def test_high_water_marks_alone_suffice(sink: Sink, items: TableSchema) -> None:
    made = written(sink, items, LANDED)
    lose_positions(sink, items)
    sink.query_id = "second"

    sink.repeat(0, made[0])
    assert sink.rows(items) == RIGHT
    sink.repeat(1, [*made[1], replace(change(items, "c", row(4, "later"), at=300), offset=5)])

    assert sink.rows(items) == [*RIGHT, row(4, "later")]

    # Without them no guard is left, and the table is wrong: or else these tests would show nothing.
    sink.restarted().lose("control")
    sink.query_id = "third"
    sink.repeat(0, made[0])

    assert sink.rows(items) == [row(1, "old"), row(2, "gone"), row(3, "stays"), row(4, "later")]


# short form: test_positions_transaction_ids_and_high_water_marks_suffice_each_alone
@pytest.mark.parametrize(
    "settings", [pytest.param(MERGED, marks=pytest.mark.long, id="merged"), pytest.param(LANDED, marks=pytest.mark.long, id="landed")]
)
def test_transaction_ids_alone_suffice(sink: Sink, items: TableSchema, settings: dict[str, str]) -> None:
    made = written(sink, items, settings)
    lose_positions(sink, items)
    sink.lose("control")

    for number, batch in enumerate(made):
        sink.restarted().repeat(number, batch)

    assert sink.rows(items) == RIGHT


def test_the_checkpoint_alone_suffices(sink: Sink, items: TableSchema, tmp_path: Path) -> None:
    # A real query; files stand for the topic, whose records a checkpoint knows as read in the same way.
    made = batches(items)
    query(sink, tmp_path, made[:1])
    query(sink, tmp_path, made)
    assert sink.rows(items) == RIGHT
    lose_positions(sink, items)
    sink.lose("control")
    sink.query_id = "second"

    query(sink, tmp_path, [*made, [replace(change(items, "c", row(4, "later"), at=300), offset=5)]])

    assert sink.rows(items) == [*RIGHT, row(4, "later")]


@pytest.mark.long
def test_a_topic_made_again_is_read_and_a_table_that_was_moved_away_is_filled_from_the_beginning(
    sink: Sink, items: TableSchema, caplog: pytest.LogCaptureFixture
) -> None:
    made = written(sink, items, {})
    sink.restarted()
    sink.query_id, sink.topic_id = "second", "t2"

    # It counts from 0 again.
    sink.repeat(0, [replace(change(items, "c", row(4, "new topic"), at=400), offset=0)])
    assert sink.rows(items) == [*RIGHT, row(4, "new topic")]
    assert "dump the table again" not in caplog.text

    sink.restarted()
    sink.remove(sink.path(items))
    sink.lose("tombstones")
    sink.query_id = "third"
    sink.repeat(0, [record for batch in made for record in batch])

    assert sink.rows(items) == RIGHT
    path = sink.path(items)
    assert (
        f"its Delta table {path} was there and is not any more; a new one holds only what comes from here on: dump the table again"
        in caplog.text
    )


def query(sink: Sink, folder: Path, made: Sequence[Sequence[Record]]) -> None:
    """Run a query over the batches, a file for each, until it has read them all."""
    source = folder / "topic"
    source.mkdir(exist_ok=True)
    for number, batch in enumerate(made):
        file = source / f"{number}.parquet"
        if not file.exists():
            pq.write_table(sink.table(batch), file)

    def write(frame: DataFrame, batch_id: int) -> None:
        sink.writer(frame, batch_id)
        sink.drain()

    started = (
        sink.spark.readStream.schema(sink.spark.createDataFrame(KAFKA.empty_table()).schema)
        .option("maxFilesPerTrigger", "1")
        .parquet(str(source))
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(write)
        .trigger(availableNow=True)
        .start()
    )
    started.awaitTermination()


def test_a_topic_made_again_that_has_grown_past_the_old_offset_is_read_from_its_beginning(sink: Sink, items: TableSchema) -> None:
    """Though it rested since this process started, so that nobody had asked for its id."""
    sink.batch(*(change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2)), change(items, "c", row(6, "a"), at=106, partition=1))
    sink.restarted().topic_id = "t2"
    first, second, third = (replace(change(items, "c", row(key, "b"), at=197 + key), offset=key - 3) for key in (3, 4, 5))
    topic = items.topic
    sink.kafka = lambda _: ({topic: {0: 0}}, {topic: {0: 3}}, {topic: {0: 2}})

    with pytest.raises(TransientError, match="p.shop.items was deleted and made again while it was read"):
        sink.batch(third)

    # The start leads the checkpoint to the beginning of the topic, of which compaction may have left out some records.
    sink.restarted().kafka = lambda _: ({topic: {0: 0}}, {topic: {0: 3}}, {topic: {0: 0}})
    sink.batch(first, second, third)
    assert [one["id"] for one in sink.rows(items)] == [1, 2, 3, 4, 5, 6]
    marks = sink.killed().pipeline.parts.control.state.high_water_marks
    assert {mark.topic_id for mark in marks.values()} == {"t2"}, "the next start would take what was read for lost"
    assert marks[topic, 1].offset == -1, "nothing of it was read yet"


@pytest.mark.long
def test_a_topic_made_again_while_the_job_runs_is_read_from_its_beginning(sink: Sink, items: TableSchema) -> None:
    """Its offsets count from 0 again: the high-water marks of the former topic are no guard against it."""
    sink.batch(*(change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2, 3)))
    sink.topic_id = "t2"

    sink.batch(replace(change(items, "u", row(1, "b"), at=200), offset=0), replace(change(items, "c", row(4, "c"), at=210), offset=1))
    sink.batch(replace(change(items, "d", row(2, "a"), at=220), offset=2))

    assert sink.rows(items) == [row(1, "b"), row(3, "a"), row(4, "c")]
