"""Topics of thousands of partitions cost no more plan than a topic of one."""

from __future__ import annotations

import pytest
from dblog_sink.records.decode import Decoding, _resent
from dblog_sink.records.small_frame import small_frame
from dblog_sink.state.notes import HighWaterMark
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def test_what_was_applied_before_is_left_out_of_thousands_of_partitions_after_a_lost_checkpoint(
    sink: Sink, registry: RegistryServer
) -> None:
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    partitions = 1500
    first = [change(table, "c", {"id": n, "v": "a"}, at=n, partition=n) for n in range(3)]
    sink.batch(*first)
    sink.control.record([HighWaterMark(table.topic, n, 0, sink.topic_id) for n in range(partitions)], "recorded")
    sink.restarted()
    sink.next_offsets.clear()
    sink.query_id, sink.batch_id = "another checkpoint", 0

    again = [change(table, "u", {"id": n % 3, "v": "from the topic's beginning"}, at=9000 + n, partition=n) for n in range(partitions)]
    sink.batch(*again, change(table, "c", {"id": 7, "v": "new"}, at=99_000, partition=partitions - 1))

    assert sink.rows(table) == [{"id": n, "v": "a"} for n in range(3)] + [{"id": 7, "v": "new"}]


@pytest.mark.long
def test_a_list_of_changes_over_many_partitions_has_each_record_of_the_log_once(sink: Sink, registry: RegistryServer) -> None:
    table = TableSchema(topic="p.shop.log", columns=[("id", "int"), ("v", "string")], registry=registry)
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    partitions = 500

    def records(least: int, at: int) -> list:
        return [change(table, "c", {"id": n, "v": "a"}, at=at + n, partition=n, sequenced=True) for n in range(least, partitions)]

    sink.batch(*records(0, at=100))
    sink.batch(*records(0, at=100), *records(490, at=5000))

    assert len(sink.rows(table)) == partitions + 10


def test_the_text_of_a_plan_does_not_grow_with_the_partitions() -> None:
    def text(partitions: int) -> str:
        ends = {n: (n, n, 1) for n in range(partitions)}
        decoding = Decoding(keys=(), columns=(), envelopes={}, key_schemas={}, unreadable_ids={}, log_ends=ends)
        return _resent(decoding, [], op="op", position=("seq1", "seq2"))

    assert text(1) == text(500)


def test_facts_of_any_kind_come_back_as_they_are(spark: SparkSession) -> None:
    rows = [("it's", -(1 << 63)), ("a\\'b", (1 << 63) - 1), ("", 0), ("ü\n", 1)]

    found = small_frame(spark, ("name", "number"), rows).collect()

    assert [(row["name"], row["number"]) for row in found] == rows
