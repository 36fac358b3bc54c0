"""Columns come, go and grow while records of several schema versions share a batch."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.errors import DefiniteError
from pyspark.sql import types as t
from sink.harness import Sink, change
from support.envelopes import TableSchema, decimal, int16
from support.registry_server import RegistryServer


def table(registry: RegistryServer, *columns, key=("id",), id_type="int") -> TableSchema:
    return TableSchema(topic="p.shop.t", columns=[("id", id_type), *columns], key=key, registry=registry)


def test_an_added_column_arrives_and_a_dropped_one_becomes_null(sink: Sink, registry: RegistryServer) -> None:
    first = table(registry, ("a", ["null", "string"]))
    second = table(registry, ("a", ["null", "string"]), ("b", ["null", "int"]))
    third = table(registry, ("b", ["null", "int"]))
    sink.batch(change(first, "c", {"id": 1, "a": "x"}, at=1), change(first, "c", {"id": 2, "a": "x"}, at=2))

    # Both versions in one batch, the older one's rows later in the topic: a dump row read before the ALTER.
    sink.batch(change(second, "u", {"id": 1, "a": "y", "b": 7}, at=10), change(first, "r", {"id": 3, "a": "z"}, at=5))
    sink.restarted().batch(change(third, "u", {"id": 2, "b": 8}, at=20))

    assert sink.rows(first) == [{"id": 1, "a": "y", "b": 7}, {"id": 2, "a": None, "b": 8}, {"id": 3, "a": "z", "b": None}]


def test_types_grow_and_older_writers_are_cast_up(sink: Sink, registry: RegistryServer) -> None:
    old = table(registry, ("n", ["null", int16()]), ("d", ["null", decimal(6, 2)]))
    new = table(registry, ("n", ["null", "long"]), ("d", ["null", decimal(10, 4)]), id_type="long")
    sink.batch(change(old, "c", {"id": 1, "n": 1, "d": Decimal("1.25")}, at=1), change(old, "c", {"id": 2, "n": 1, "d": None}, at=2))
    sink.batch(change(old, "d", {"id": 2, "n": 1, "d": None}, at=3))

    sink.batch(
        change(new, "c", {"id": 2**40, "n": 2**50, "d": Decimal("1.1234")}, at=10),
        change(old, "r", {"id": 3, "n": -1, "d": Decimal("9.99")}, at=5),
    )
    sink.batch(change(old, "r", {"id": 2, "n": 0, "d": None}, at=2), change(new, "u", {"id": 1, "n": 3, "d": Decimal("0.0001")}, at=30))

    kinds = {field.name: field.dataType for field in sink.read(old).schema.fields}
    assert (kinds["id"], kinds["n"], kinds["d"]) == (t.LongType(), t.LongType(), t.DecimalType(10, 4))
    assert [(one["id"], one["n"], one["d"]) for one in sink.rows(old)] == [
        (1, 3, Decimal("0.0001")),
        (3, -1, Decimal("9.9900")),
        (2**40, 2**50, Decimal("1.1234")),
    ]


def test_a_changed_key_stops_the_job_and_states_what_to_do(sink: Sink, registry: RegistryServer) -> None:
    sink.batch(change(table(registry, ("v", "string")), "c", {"id": 1, "v": "a"}, at=1))

    with pytest.raises(DefiniteError, match=r"key in the source changed from \(id\) to \(id, v\)"):
        sink.batch(change(table(registry, ("v", "string"), key=("id", "v")), "c", {"id": 1, "v": "a"}, at=2))


def test_a_foreign_delta_table_is_not_touched(sink: Sink, registry: RegistryServer) -> None:
    made = table(registry)
    sink.spark.range(3).write.format("delta").save(sink.path(made))

    sink.batch(change(made, "c", {"id": 1}, at=1))

    assert "did not make" in sink.book.parked()[made.topic]
    assert sink.read(made).count() == 3


def test_of_two_topics_for_one_table_one_is_parked(sink: Sink, registry: RegistryServer) -> None:
    here = table(registry)
    there = TableSchema(topic="q.shop.t", columns=here.columns, registry=registry)

    sink.batch(change(here, "c", {"id": 1}, at=1), change(there, "c", {"id": 2}, at=1))

    ((parked, reason),) = sink.book.parked().items()
    assert re.search(r"two topics map to the Delta table .*\{prefix\}", reason)
    assert [row["id"] for row in sink.rows(here)] == [1 if parked == there.topic else 2]


def test_two_tables_whose_tombstones_would_be_in_one_place_are_refused_also_after_a_restart(sink: Sink, registry: RegistryServer) -> None:
    """From the root, the path of the second is what that of the first is from the lake."""
    one, other = (TableSchema(topic=f"p.{name}", columns=[("id", "long")], registry=registry) for name in ("shop.items", "gold.items"))
    sink.settings |= {"table.gold.match": "gold[.]items", "table.gold.target.path": "/shop/items"}
    sink.batch(change(one, "c", {"id": 1}, at=1), change(one, "c", {"id": 2}, at=2))
    sink.batch(change(one, "d", {"id": 1}, at=3))
    sink.restarted()

    sink.batch(change(other, "c", {"id": 1}, at=1))  # the deletes of the first table would take this row away
    assert re.search(
        r"gold.items: the tombstones of /shop/items would be in .*tombstones/shop/items, where those of .*lake/shop",
        sink.book.parked()[other.topic],
    )

    sink.restarted().settings["table.gold.target.path"] = f"{sink.base}-gold/items"
    sink.book.unpark(other.topic)
    sink.drain()
    assert [row["id"] for row in sink.spark.read.format("delta").load(f"{sink.base}-gold/items").collect()] == [1]


@pytest.mark.long
def test_the_second_topic_of_a_table_is_parked_also_after_a_restart_and_without_the_table(sink: Sink, registry: RegistryServer) -> None:
    one, other = (TableSchema(topic=f"{prefix}.shop.items", columns=[("id", "long")], registry=registry) for prefix in ("p", "q"))
    sink.batch(change(one, "c", {"id": 1}, at=1))
    sink.restarted()

    # Moved away to be dumped again: the path is still the first one's.
    aside = Path(sink.path(one)).rename(sink.folder / "aside")
    sink.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    refused = r"two topics map to the Delta table .*, p.shop.items and q.shop.items, and it is p.shop.items's"
    sink.batch(change(other, "c", {"id": 2}, at=2))
    assert re.search(refused, sink.book.parked()[other.topic])
    aside.rename(sink.path(one))
    sink.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    sink.restarted().book.unpark(other.topic)
    sink.drain()
    assert re.search(refused, sink.book.parked()[other.topic])
    assert sink.rows(one) == [{"id": 1}]

    # The way out that the message names, for a topic that has replaced the other.
    sink.restarted()
    sink.spark.sql(f"ALTER TABLE delta.`{sink.path(one)}` SET TBLPROPERTIES ('dblog.topic' = 'q.shop.items')")
    sink.book.unpark(other.topic)
    sink.drain()
    assert sink.rows(other) == [{"id": 1}, {"id": 2}]


@pytest.mark.long
def test_a_kill_between_widening_a_key_and_widening_its_tombstones_is_mended(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, wide = (table(registry, id_type=kind) for kind in ("int", "long"))
    sink.batch(change(narrow, "c", {"id": 1}, at=1), change(narrow, "c", {"id": 2}, at=2))
    sink.batch(change(narrow, "d", {"id": 1}, at=3))

    def killed(*_: object) -> None:
        raise DefiniteError("the process ended here")

    with monkeypatch.context() as patched:
        patched.setattr(Tombstones, "evolved", killed)
        with pytest.raises(DefiniteError, match="ended here"):
            sink.batch(change(wide, "c", {"id": 2**40}, at=4), change(wide, "d", {"id": 2}, at=5))
    sink.killed()
    sink.batch(change(wide, "c", {"id": 2**40}, at=4), change(wide, "d", {"id": 2}, at=5))
    sink.batch(change(wide, "d", {"id": 2**40}, at=6), change(wide, "c", {"id": 2**41}, at=7))

    assert sink.rows(wide) == [{"id": 2**41}]
