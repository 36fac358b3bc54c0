"""PostgreSQL's log leaves out unchanged values that are stored apart (TOAST); what Debezium writes in their place is never a value."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import pytest
from dblog_sink.records.unavailable import is_unavailable
from dblog_sink.schema.types import conversion
from pyspark.sql import SparkSession
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema, logical
from support.registry_server import RegistryServer

UNAVAILABLE = "__debezium_unavailable_value"
COLUMNS = [
    ("id", "long"),
    ("v", ["null", "string"]),
    ("n", ["null", "int"]),
    ("raw", ["null", "bytes"]),
    ("tags", ["null", {"type": "array", "items": ["null", "string"]}]),
    ("doc", ["null", logical("string", "io.debezium.data.Json")]),
]
UNCHANGED = {"v": UNAVAILABLE, "raw": UNAVAILABLE.encode(), "tags": [UNAVAILABLE], "doc": UNAVAILABLE}


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.public.items", columns=COLUMNS, registry=registry, connector="postgresql")


def row(key: int, n: int, **values: Any) -> dict[str, Any]:
    return {"id": key, "n": n, "v": f"v{key}", "raw": b"r", "tags": ["a", "b"], "doc": '{"k":1}'} | values


def update(items: TableSchema, key: int, n: int, at: int, **values: Any) -> Record:
    return change(items, "u", row(key, n, **values), at=at)


@pytest.mark.parametrize(
    "settings", [pytest.param({}, id="rewritten", marks=pytest.mark.long), pytest.param({"rewrite.rows.max": "0"}, id="merged")]
)
def test_a_mirror_keeps_what_an_update_does_not_contain(sink: Sink, items: TableSchema, settings: dict[str, str]) -> None:
    sink.settings |= settings
    sink.batch(*(change(items, "c", row(key, 0), at=key) for key in (1, 2, 3)))

    sink.batch(
        update(items, 1, 1, 10, **UNCHANGED),
        # The first change of a batch sets a column, the second does not have it.
        update(items, 2, 1, 11, v="set", doc=UNAVAILABLE),
        update(items, 2, 2, 12, **UNCHANGED),
        update(items, 9, 1, 13, **UNCHANGED),  # a row that is not there
        change(items, "c", row(4, 0), at=14),
        update(items, 4, 1, 15, v=UNAVAILABLE),
        update(items, 3, 1, 16, v=None),
        update(items, 3, 2, 17, v=UNAVAILABLE),  # NULL is a value
    )

    assert sink.rows(items) == [row(1, 1), row(2, 2, v="set"), row(3, 2, v=None), row(4, 1)]
    (bad,) = sink.quarantined()
    assert bad["reason"].startswith("column doc, raw, tags, v: the record has no value")

    # Once the row is there, the record gets from it what it lacked.
    sink.batch(
        update(items, 1, 3, 20, v=UNAVAILABLE), change(items, "d", row(2, 2), at=21), change(items, "r", row(5, 0, v=UNAVAILABLE), at=0)
    )
    expected = [row(1, 3), row(3, 2, v=None), row(4, 1), row(5, 0, v=UNAVAILABLE)]
    assert sink.rows(items) == expected

    # Sent again: what is older than the table's row, or than a delete, need not be known.
    sink.batch(update(items, 1, 1, 10, **UNCHANGED), update(items, 2, 2, 12, **UNCHANGED), update(items, 1, 3, 20, v=UNAVAILABLE))
    assert sink.rows(items) == expected
    assert len(sink.quarantined()) == 1


@pytest.mark.long
def test_a_history_keeps_it_from_the_version_before(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "history"}
    sink.batch(change(items, "c", row(1, 0), at=1), update(items, 1, 1, 5, v=UNAVAILABLE))
    sink.batch(update(items, 1, 2, 9, v="new"), update(items, 1, 3, 12, **UNCHANGED), update(items, 2, 1, 13, v=UNAVAILABLE))
    sink.batch(update(items, 1, 4, 15, v=UNAVAILABLE), update(items, 1, 3, 12, **UNCHANGED))

    found = sink.read(items).orderBy("_dblog_seq2").collect()
    assert [(one["n"], one["v"], one["doc"], one["_dblog_current"]) for one in found] == [
        (0, "v1", '{"k":1}', False),
        (1, "v1", '{"k":1}', False),
        (2, "new", '{"k":1}', False),
        (3, "new", '{"k":1}', False),
        (4, "new", '{"k":1}', True),
    ]
    assert [bad["reason"].partition(":")[0] for bad in sink.quarantined()] == ["column v"]


@pytest.mark.long
def test_what_has_landed_is_shown_and_merged_with_the_values_that_the_mirror_has(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"trigger.interval.s": "0", "table.t.match": ".*", "table.t.json.type": "variant", "table.t.columns.rename": "v:text"}
    sink.batch(change(items, "c", row(1, 0), at=1))
    sink.land(update(items, 1, 1, 5, **UNCHANGED))

    def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(one["n"], one["text"], one["tags"], str(one["doc"])) for one in rows]

    expected = [(1, "v1", ["a", "b"], '{"k":1}')]
    assert shown(sink.fresh(items)) == expected
    sink.drain()
    assert shown(sink.rows(items)) == expected
    assert sink.quarantined() == []


def test_a_list_of_changes_shows_what_the_source_sent(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    sink.batch(change(items, "c", row(1, 0), at=1), update(items, 1, 1, 2, v=UNAVAILABLE))

    assert [one["v"] for one in sink.rows(items, order="n")] == ["v1", UNAVAILABLE]


def test_every_form_of_the_placeholder_is_known(spark: SparkSession) -> None:
    data = b"\x01gone"
    named = uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
    array = {"type": "array", "items": ["null", "string"]}
    forms: list[tuple[Any, str]] = [
        ("string", "decode(X'01676f6e65', 'UTF-8')"),
        ("string", "base64(X'01676f6e65')"),
        ("string", "lower(hex(X'01676f6e65'))"),
        ("bytes", "X'01676f6e65'"),
        (array, f"array('{named}')"),
        (array, "array(decode(X'01676f6e65', 'UTF-8'))"),
        ({"type": "array", "items": ["null", "int"]}, "array(1, 103, 111, 110, 101)"),
        ({"type": "array", "items": ["null", "double"]}, "array(1D, 103D, 111D, 110D, 101D)"),
        ({"type": "map", "values": ["null", "string"]}, "map(decode(X'01676f6e65', 'UTF-8'), decode(X'01676f6e65', 'UTF-8'))"),
    ]
    tests = [is_unavailable(conversion(schema, {}, where="t"), f"({sql})", "hex:01676f6e65") for schema, sql in forms]

    assert list(spark.range(1).selectExpr(*(str(test) for test in tests)).collect()[0]) == [True] * len(forms)
    assert is_unavailable(conversion("long", {}, where="t"), "v", "gone") is None
