"""What the first records of a topic make of its table: truncates alone make none, and a table may be called anything."""

from __future__ import annotations

import logging

import pytest
from dblog_sink.config import job_options
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def table(registry: RegistryServer, topic: str = "p.shop.t") -> TableSchema:
    return TableSchema(topic=topic, columns=[("id", "long"), ("v", "string")], registry=registry)


def truncate(of: TableSchema, at: int, *, partition: int = 0) -> Record:
    return Record(topic=of.topic, key=None, value=of.value_bytes("t", pos=at), partition=partition)


def test_a_truncate_before_any_row_makes_no_table_and_rows_after_it_make_a_mirror(sink: Sink, registry: RegistryServer) -> None:
    t = table(registry)
    sink.batch(truncate(t, 5))
    sink.restarted()
    sink.batch(change(t, "c", {"id": 9, "v": "older than the truncate"}, at=3, partition=1), change(t, "c", {"id": 1, "v": "a"}, at=10))
    sink.batch(change(t, "u", {"id": 1, "v": "b"}, at=11))

    assert sink.rows(t) == [{"id": 1, "v": "b"}]


@pytest.mark.long
def test_a_table_without_a_key_is_a_list_of_changes_though_a_truncate_came_first(sink: Sink, registry: RegistryServer) -> None:
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", "string")], key=(), registry=registry)
    sink.batch(truncate(t, 5))
    sink.batch(Record(topic=t.topic, key=None, value=t.value_bytes("c", after={"id": 1, "v": "a"}, pos=10)))

    assert sink.rows(t) == [{"id": 1, "v": "a"}]


@pytest.mark.parametrize("topic", ["p.iot.signal", pytest.param("p.dblog.t", marks=pytest.mark.long)])
def test_a_table_may_have_a_name_that_the_default_of_topics_exclude_matches(
    sink: Sink, registry: RegistryServer, caplog: pytest.LogCaptureFixture, topic: str
) -> None:
    t = table(registry, topic)

    sink.batch(change(t, "c", {"id": 1, "v": "a"}, at=1))
    sink.restarted().batch(change(t, "c", {"id": 2, "v": "b"}, at=2))

    assert sink.rows(t) == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert "passed over" not in caplog.text, "the sink has read what came before"
    settings = job_options.parse(sink.given)
    assert settings.excludes(topic)
    assert settings.may_be_table(topic)


@pytest.mark.long
def test_rows_of_a_topic_that_somebody_excludes_are_left_out_and_reported_once(
    sink: Sink, registry: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    sink.settings["topics.exclude"] = r".*\.signal"
    t = table(registry, "p.iot.signal")

    with caplog.at_level(logging.WARNING):
        for n in (1, 2):
            sink.batch(change(t, "c", {"id": n, "v": "a"}, at=n))

    (message,) = [record.getMessage() for record in caplog.records if "p.iot.signal holds rows" in record.getMessage()]
    assert "topics.exclude leaves them out; if they are wanted, change topics.exclude and read the topic from its beginning" in message
    assert sink.control.state.table_ids == {}


def test_records_of_a_signal_topic_are_no_table(sink: Sink) -> None:
    for topic in ("p.signal", "my.p-signal"):
        sink.batch(Record(topic=topic, key=b"p", value=b'{"type":"execute-snapshot","data":{}}'))

    assert sink.quarantined() == []
