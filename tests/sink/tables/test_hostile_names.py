"""Who may name columns in a source, or write into a topic, chooses texts that stand in the sink's statements: they stay names and values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from dblog_sink.errors import ParkError
from dblog_sink.schema.types import text_sql, type_sql
from dblog_sink.schema.writer_schemas import Unreadable, key_schema, value_schema
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

VARIABLES = "${env:PATH} ${spark.app.name} ${system:java.version}"
"""What Spark replaces in every text of SQL, unless it is told not to."""
CALLS = (
    "a', encode(format_string('%s', java_method('java.lang.System', 'getProperty', 'java.version')), 'UTF-8'), '",
    "b`, java_method('java.lang.System', 'getProperty', 'java.version') AS `c",
    "c int>) AS x, java_method('java.lang.System', 'getProperty', 'java.version",
    VARIABLES,
)
"""Names that end the text, the name or the type that they stand in."""


def struct(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": True, "name": name}


def in_json(at: int, columns: list[dict[str, Any]], row: Mapping[str, Any]) -> Record:
    """An insert as Connect's JsonConverter writes it, with these columns beside ``id``."""
    source = [{"type": kind, "optional": False, "field": name} for name, kind in (("file", "string"), ("pos", "int64"))]
    fields = [{"type": "int64", "optional": False, "field": "id"}]
    envelope = struct(
        "p.shop.j.Envelope",
        [
            *(struct("p.shop.j.Value", fields + columns) | {"field": field} for field in ("before", "after")),
            struct("io.debezium.connector.mysql.Source", source) | {"field": "source"},
            {"type": "string", "optional": False, "field": "op"},
        ],
    )
    value = {"before": None, "after": {"id": at} | row, "source": {"file": "b.000001", "pos": at}, "op": "c"}
    parts = [(struct("p.shop.j.Key", fields), {"id": at}), (envelope, value)]
    key, text = (json.dumps({"schema": schema, "payload": one}, separators=(",", ":")).encode() for schema, one in parts)
    return Record(topic="p.shop.j", key=key, value=text)


def test_what_a_source_names_is_neither_run_nor_replaced(sink: Sink, registry: RegistryServer) -> None:
    defaulted = [{"type": "string", "connect.default": VARIABLES}, "null"]
    before, after = (TableSchema(topic="p.shop.t", columns=[("id", "long"), *more], registry=registry) for more in ([], [("c", defaulted)]))
    bytes_in_a_struct = struct("s", [{"type": "bytes", "optional": True, "field": name} for name in CALLS])
    columns = [bytes_in_a_struct | {"field": "s"}, {"type": "string", "optional": True, "field": VARIABLES}]
    row = {"s": {name: base64.b64encode(b"ABC").decode() for name in CALLS}, VARIABLES: VARIABLES}

    sink.batch(change(before, "c", {"id": 1}, at=1), in_json(1, columns[1:], {VARIABLES: VARIABLES}))
    sink.batch(change(after, "c", {"id": 2, "c": "x"}, at=2), in_json(2, columns, row))

    assert sink.book.parked() == {}
    assert {row["id"]: row["c"] for row in sink.rows(after)} == {1: VARIABLES, 2: "x"}
    found = sorted(sink.spark.read.format("delta").load(f"{sink.base}/shop/j").collect(), key=lambda one: one["id"])
    assert [one[VARIABLES] for one in found] == [VARIABLES, VARIABLES]
    assert found[1]["s"].asDict() == dict.fromkeys(CALLS, bytearray(b"ABC"))


def test_names_that_delta_refuses_park_their_table_and_the_others_go_on(sink: Sink, registry: RegistryServer) -> None:
    other = TableSchema(topic="p.shop.t", columns=[("id", "long")], registry=registry)
    members = [{"type": "string", "optional": True, "field": name} for name in ("a", "A")]

    sink.batch(change(other, "c", {"id": 1}, at=1), in_json(1, [struct("s", members) | {"field": "s"}], {"s": {"a": "x", "A": "y"}}))

    assert [row["id"] for row in sink.rows(other)] == [1]
    assert list(sink.book.parked()) == ["p.shop.j"]
    assert "columns.exclude" in sink.book.parked()["p.shop.j"]


@pytest.mark.parametrize(
    "columns",
    [
        [{"type": "string", "optional": True, "field": ""}],
        [struct("s", [{"type": "string", "optional": True, "field": ""}]) | {"field": "s"}],
        [{"type": "string", "optional": True, "field": name} for name in ("v", "V")],
        [{"type": "string", "optional": True, "field": "_dblog_op"}],
    ],
)
def test_names_that_no_table_can_have_are_no_reason_to_stop_the_job(columns: list[dict[str, Any]]) -> None:
    part = json.loads(in_json(1, columns, {}).value or b"")["schema"]

    with pytest.raises(ParkError, match=r"columns\.(rename|exclude)"):
        value_schema(-1, json.dumps({"schema": part}, separators=(",", ":"))[:-1])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "struct"},
        {"type": "struct", "fields": [{}]},
        {"type": "struct", "fields": [{"type": "int32", "field": 5}]},
        {"type": "struct", "fields": 5},
        {"type": "array"},
        {"type": ["struct"]},
        {"type": "no such type"},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}},
        {"type": "bytes", "name": 5},
    ],
)
def test_a_schema_in_json_that_is_none_makes_bad_records(schema: dict[str, Any]) -> None:
    top = struct("p.shop.j.Key", [schema | {"field": "v"}])
    for text in (json.dumps({"schema": schema}, separators=(",", ":"))[:-1], json.dumps({"schema": top}, separators=(",", ":"))[:-1]):
        assert isinstance(value_schema(-1, text), Unreadable)
        assert isinstance(key_schema(-1, text), Unreadable)


def test_texts_and_types_are_read_back_by_spark_as_they_are(spark: SparkSession) -> None:
    texts = [*CALLS, "", "\\", "'", "\\'", "\\u0024", "$", "a\nb", "\x00", "😀"]
    kind = t.StructType([t.StructField(name, t.ArrayType(t.MapType(t.StringType(), t.DecimalType(9, 2)))) for name in texts if name])

    (row,) = spark.sql(f"SELECT {', '.join(map(text_sql, texts))}, CAST(NULL AS {type_sql(kind)}) AS made").collect()

    assert list(row)[:-1] == texts
    assert spark.sql(f"SELECT CAST(NULL AS {type_sql(kind)}) AS made").schema["made"].dataType == kind
