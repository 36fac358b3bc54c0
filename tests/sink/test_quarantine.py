"""Records that cannot be applied are kept with the reason, and hold up nobody."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from dblog_sink.errors import DefiniteError
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema, decimal, logical
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    columns = [("id", "long"), ("seen", ["null", logical("string", "io.debezium.time.ZonedTimestamp")]), ("big", ["null", decimal(65, 0)])]
    return TableSchema(topic="p.shop.items", columns=columns, registry=registry)


def test_each_kind_of_bad_record_is_kept_with_its_reason_and_the_others_arrive(
    sink: Sink, items: TableSchema, registry: RegistryServer
) -> None:
    good = {"id": 1, "seen": "2024-01-01T00:00:00Z", "big": Decimal(10**37)}
    framed = change(items, "c", good, at=1)
    unwrapped = registry.register(
        json.dumps({"type": "record", "name": "Value", "namespace": "p.shop.other", "fields": [{"name": "id", "type": "int"}]})
    )
    bad = {
        "not framed": Record(topic=items.topic, key=framed.key, value=b"no frame"),
        "JSON without its schema": Record(topic=items.topic, key=framed.key, value=b'{"json": true}'),
        "no schema with id 9999": Record(topic=items.topic, key=framed.key, value=b"\0\0\0\x27\x0f" + b"x"),
        "does not decode": Record(topic=items.topic, key=framed.key, value=framed.value[:9]),
        "unknown operation": Record(topic=items.topic, key=framed.key, value=items.value_bytes("x", after=good)),
        "no row image": Record(topic=items.topic, key=framed.key, value=items.value_bytes("c")),
        "no key": Record(topic=items.topic, key=None, value=items.value_bytes("c", after=good)),
        "key does not decode": Record(topic=items.topic, key=b"junk!", value=items.value_bytes("c", after=good, pos=77)),
        "no position": Record(topic=items.topic, key=framed.key, value=items.value_bytes("c", after=good, file="no-number.")),
        "column seen": change(items, "c", good | {"seen": "yesterday"}, at=2),
        "over 38 digits": change(items, "c", good | {"big": Decimal(10**40)}, at=3),
        "not a Debezium envelope": Record(topic="p.shop.other", key=None, value=b"\0" + unwrapped.to_bytes(4, "big") + b"\x02"),
    }

    sink.batch(framed, *bad.values(), change(items, "c", good | {"id": 2}, at=9))

    assert [one["id"] for one in sink.rows(items)] == [1, 2]
    kept = sink.quarantined()
    assert sorted(bytes(one["value"]) for one in kept) == sorted(record.value for record in bad.values())
    reasons = {bytes(one["value"]): one["reason"] for one in kept}
    for words, record in bad.items():
        assert words in reasons[record.value], reasons[record.value]
    assert all(one["batch_id"] == 0 for one in kept)


def test_a_batch_full_of_bad_records_stops_the_job_after_keeping_them(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"quarantine.rows.max": "2"}
    good = change(items, "c", {"id": 1, "seen": None, "big": None}, at=1)
    bad = [Record(topic=items.topic, key=good.key, value=b"junk") for _ in range(3)]

    with pytest.raises(DefiniteError, match="3 of 4 records of topic p.shop.items") as caught:
        sink.batch(good, *bad)

    assert "junk" not in str(caught.value)
    assert len(sink.quarantined()) == 3


def test_a_table_that_fails_does_not_hold_up_the_others_of_its_batch(sink: Sink, items: TableSchema, registry: RegistryServer) -> None:
    text = TableSchema(topic="p.shop.changing", columns=[("id", "int"), ("v", "string")], registry=registry)
    number = TableSchema(topic="p.shop.changing", columns=[("id", "int"), ("v", "int")], registry=registry)
    sink.batch(change(text, "c", {"id": 1, "v": "a"}, at=1))

    with pytest.raises(DefiniteError, match=r"shop\.changing, column v: its type in the source became int, and the Delta table's string"):
        sink.batch(change(number, "c", {"id": 2, "v": 5}, at=2), change(items, "c", {"id": 1, "seen": None, "big": None}, at=1))

    assert [one["id"] for one in sink.rows(items)] == [1]
    assert sink.rows(text) == [{"id": 1, "v": "a"}]
