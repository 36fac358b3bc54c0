"""Whoever writes a topic may put any bytes into a record: they go to quarantine or park their topic, and no other table waits for them."""

from __future__ import annotations

import pytest
from dblog_sink.tables import profile
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def test_bytes_of_any_beginning_are_one_kind_of_bad_record(sink: Sink, registry: RegistryServer) -> None:  # number 37 of the sink's safety
    table = TableSchema(topic="p.shop.t", columns=[("id", "long")], registry=registry)
    beginnings = [bytes([first, n]) + b"abc" for first in (1, 65, 255) for n in range(10)] + [b"\x00" * n for n in range(5)]

    sink.batch(change(table, "c", {"id": 1}, at=1), *(Record(topic=table.topic, key=one, value=one) for one in beginnings))

    assert [row["id"] for row in sink.rows(table)] == [1]
    assert len(sink.quarantined()) == len(beginnings)
    assert {row["reason"].partition(";")[0] for row in sink.quarantined()} == {"the value is not framed by a schema id"}


def test_a_topic_of_too_many_schemas_is_parked_and_the_others_go_on(  # number 37 of the sink's safety
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "SCHEMAS_MAX", 3)
    table, other = (TableSchema(topic=f"p.shop.{name}", columns=[("id", "long")], registry=registry) for name in "tu")
    numbered = [Record(topic=other.topic, key=b"k", value=n.to_bytes(5, "big") + b"x") for n in range(1000, 1004)]
    registry.requests.clear()

    sink.batch(change(table, "c", {"id": 1}, at=1), change(other, "c", {"id": 1}, at=1), *numbered)

    assert [row["id"] for row in sink.rows(table)] == [1]
    assert list(sink.book.parked()) == [other.topic]
    assert "have more than" in sink.book.parked()[other.topic]
    assert not [request for request in registry.requests if "/100" in request], "none of them is asked for"
