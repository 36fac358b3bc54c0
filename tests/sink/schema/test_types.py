"""Every logical type through Spark: encoded by fastavro as the converter would, read back from Delta."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from dblog_sink.schema.connect_json import as_read
from dblog_sink.schema.types import conversion
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from support.envelopes import TableSchema, decimal, int16, logical
from support.registry_server import RegistryServer

POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "y", "type": "double"},
        {"name": "wkb", "type": ["null", "bytes"]},
        {"name": "srid", "type": ["null", "int"]},
    ],
    "connect.version": 1,
    "connect.name": "io.debezium.data.geometry.Point",
}
MOMENT = datetime(1000, 1, 1, 23, 59, 59, 999_999)  # noqa: DTZ001  a wall clock
MOMENT_US = (MOMENT - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001

# column, Avro type, what the converter writes, what Delta holds
CASES = [
    ("flag", "boolean", True, True),
    ("tiny", {"type": "int", "connect.type": "int8"}, -128, -128),
    ("small", int16(), -32768, -32768),
    ("medium", "int", 2**31 - 1, 2**31 - 1),
    ("large", "long", -(2**63), -(2**63)),
    ("single", "float", 0.5, 0.5),
    ("double", "double", 1e300, 1e300),
    ("price", decimal(12, 2), Decimal("-1234567890.12"), Decimal("-1234567890.12")),
    ("unsigned", decimal(20, 0), Decimal(2**64 - 1), Decimal(2**64 - 1)),
    ("wide", decimal(65, 30), Decimal("1.5"), "1.500000000000000000000000000000"),
    ("day", logical("int", "io.debezium.time.Date"), -354_285, date(1000, 1, 1)),
    ("connect_day", {**logical("int", "org.apache.kafka.connect.data.Date"), "logicalType": "date"}, date(2024, 2, 29), date(2024, 2, 29)),
    ("iso_day", logical("string", "io.debezium.time.IsoDate"), "2024-02-29Z", date(2024, 2, 29)),
    ("moment", logical("long", "io.debezium.time.MicroTimestamp"), MOMENT_US, MOMENT),
    ("moment_ms", logical("long", "io.debezium.time.Timestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999_000)),  # noqa: DTZ001
    ("moment_ns", logical("long", "io.debezium.time.NanoTimestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
    (
        "instant",
        logical("string", "io.debezium.time.ZonedTimestamp"),
        "2018-06-20T13:37:03.123456Z",
        datetime(2018, 6, 20, 13, 37, 3, 123_456, tzinfo=UTC),
    ),
    ("duration", logical("long", "io.debezium.time.MicroTime"), -3_020_399_000_001, -3_020_399_000_001),
    ("duration_ms", logical("int", "io.debezium.time.Time"), 1500, 1_500_000),
    ("duration_ns", logical("long", "io.debezium.time.NanoTime"), -1001, -2),
    ("year", logical("int", "io.debezium.time.Year"), 2155, 2155),
    ("bits", {**logical("bytes", "io.debezium.data.Bits"), "connect.parameters": {"length": "12"}}, b"\x01\x08", bytearray(b"\x01\x08")),
    ("json", logical("string", "io.debezium.data.Json"), '{"a": [1, "ü"]}', '{"a": [1, "ü"]}'),
    ("choice", logical("string", "io.debezium.data.Enum"), "red", "red"),
    ("blob", "bytes", b"\x00\xff", bytearray(b"\x00\xff")),
    ("text", "string", "漢字 'quoted' \\ 🚀", "漢字 'quoted' \\ 🚀"),
    ("place", POINT, {"x": 1.0, "y": -2.0, "wkb": b"w", "srid": None}, {"x": 1.0, "y": -2.0, "wkb": bytearray(b"w"), "srid": None}),
    (
        "second_place",
        "io.debezium.data.geometry.Point",
        {"x": 0.0, "y": 0.0, "wkb": None, "srid": 4326},
        {"x": 0.0, "y": 0.0, "wkb": None, "srid": 4326},
    ),
    ("vector", {"type": "array", "items": ["null", "float"]}, [0.5, None], [0.5, None]),
    ("days", {"type": "array", "items": ["null", logical("int", "io.debezium.time.Date")]}, [0, None], [date(1970, 1, 1), None]),
    ("names", {"type": "map", "values": ["null", "string"]}, {"a": None}, {"a": None}),
]


def test_every_type_arrives_with_its_value_and_as_null(sink: Sink, registry: RegistryServer) -> None:
    # Nullable columns as the converter writes them; every other one with its default first, as for a column with a DDL default.
    columns = [(name, ["null", avro] if n % 2 else [avro, "null"]) for n, (name, avro, _, _) in enumerate(CASES)]
    table = TableSchema(topic="p.shop.everything", columns=[("id", "long"), *columns], registry=registry)
    values = {name: written for name, _, written, _ in CASES}
    nulls = dict.fromkeys(values)

    sink.batch(change(table, "c", {"id": 1, **values}, at=1), change(table, "r", {"id": 2, **nulls}, at=2))
    sink.batch(change(table, "u", {"id": 2, **values}, at=3), change(table, "u", {"id": 1, **nulls}, at=4))

    found = {
        one["id"]: one for one in (row.asDict(recursive=True) for row in sink.read(table).drop("_dblog_seq1", "_dblog_seq2").collect())
    }
    assert {name: found[2][name] for name in values} == {name: _local(held) for name, _, _, held in CASES}
    assert found[1] == {"id": 1, **nulls}


def _local(value: object) -> object:
    """PySpark shows an instant in the machine's zone, without naming it."""
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo is not None else value


@pytest.mark.long
def test_keys_of_every_common_kind_find_their_rows(sink: Sink, registry: RegistryServer) -> None:
    kinds = {
        "text": ("string", "k'1", "k2"),
        "number": (decimal(20, 0), Decimal(2**64 - 1), Decimal(0)),
        "day": (logical("int", "io.debezium.time.Date"), 0, 1),
        "moment": (logical("long", "io.debezium.time.MicroTimestamp"), 1, 2),
        "bytes": ("bytes", b"\x01", b"\x02"),
        "single": ("float", 0.5, 1.5),
    }
    tables = {
        name: TableSchema(topic=f"p.shop.by_{name}", columns=[("id", avro), ("v", "string")], registry=registry)
        for name, (avro, _, _) in kinds.items()
    }
    sink.batch(
        *(change(tables[name], "c", {"id": key, "v": "a"}, at=10 + n) for name, (_, *keys) in kinds.items() for n, key in enumerate(keys))
    )

    sink.batch(
        *(change(tables[name], "u", {"id": first, "v": "b"}, at=20) for name, (_, first, _) in kinds.items()),
        *(change(tables[name], "d", {"id": second, "v": "a"}, at=21) for name, (_, _, second) in kinds.items()),
    )

    assert {name: [row["v"] for row in sink.rows(table)] for name, table in tables.items()} == {name: ["b"] for name in kinds}


def test_wide_decimals_of_json_are_text_too_or_what_the_table_has(spark: SparkSession) -> None:
    schema = decimal(50, 2)
    made = as_read(conversion(schema, {}, where="t"), schema, {}, where="t")
    assert made.bounded is not None
    values = ("123.45", "-0.01", "9" * 44 + ".99")
    paths = [f"'{base64.b64encode(int(value.replace('.', '')).to_bytes(21, 'big', signed=True)).decode()}'" for value in values]

    found = spark.range(1).selectExpr(*(one.convert(path) for one in (made, made.bounded) for path in paths)).collect()[0]

    assert list(found) == [*values, Decimal("123.45"), Decimal("-0.01"), None]
