"""What a reader of the table sees besides its rows: the change data feed shows what changed, and a VARIANT holds no number that the source does not have."""

from __future__ import annotations

import json

from sink.harness import Sink, change
from support.envelopes import TableSchema, logical
from support.registry_server import RegistryServer


def test_the_change_data_feed_of_a_small_table_shows_the_rows_that_changed(sink: Sink, registry: RegistryServer) -> None:
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", "string")], registry=registry)
    sink.batch(*(change(t, "c", {"id": n, "v": "a"}, at=n) for n in range(1, 6)))
    sink.spark.sql(f"ALTER TABLE delta.`{sink.path(t)}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    since = sink.spark.sql(f"DESCRIBE HISTORY delta.`{sink.path(t)}`").first()["version"]

    sink.batch(change(t, "u", {"id": 1, "v": "b"}, at=10), change(t, "d", {"id": 2, "v": "a"}, at=11))

    feed = sink.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since + 1).load(sink.path(t))
    assert sorted((row["_change_type"], row["id"], row["v"]) for row in feed.collect()) == [
        ("delete", 2, "a"),
        ("update_postimage", 1, "b"),
        ("update_preimage", 1, "a"),
    ]


def test_a_variant_has_each_number_as_the_source_has_it_or_the_record_is_kept_in_quarantine(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.json.type": "variant"}
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("j", logical("string", "io.debezium.data.Json"))], registry=registry)
    kept = [
        '{"a":1.5e300,"b":0.10}',
        "12345678901234567890123456789012345678",
        '"1e400 in a text \\" 1e999"',
        "[1,-2.5,3e2,0.0,0e0]",
        "null",
    ]
    refused = [
        '{"a":1e400}',
        '[{"b":-1e400}]',
        "123456789012345678901234567890123456789",
        "0.1234567890123456789012345678901234567891",
        "1e-400",
    ]
    twice = ['{"a":1,"a":2}']

    sink.batch(*(change(t, "c", {"id": n, "j": text}, at=n + 1) for n, text in enumerate([*kept, *refused, *twice])))

    rows = sink.read(t).selectExpr("id", "to_json(j) AS j").collect()
    found = {row["id"]: json.loads(row["j"], parse_float=str, parse_int=str) for row in rows}
    assert sorted(found) == list(range(len(kept)))
    assert found[1] == "12345678901234567890123456789012345678"
    assert [record["offset"] for record in sink.quarantined()] == list(range(len(kept), len(kept) + len(refused) + 1))
    assert "a key twice, or a number that a variant would change" in sink.quarantined()[0]["reason"]
