"""What a Delta table has of a row gives back the row's Avro bytes, for every type that the sink knows, or the reason why not."""

from __future__ import annotations

import io
import json
from decimal import Context, Decimal
from typing import Any

import fastavro
from dblog_sink.schema.avro_bytes import concatenated, field_bytes
from dblog_sink.schema.types import quote
from dblog_sink.schema.writer_schemas import members
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType
from sink.harness import Sink, change
from sink.schema.test_types import CASES, POINT
from support.envelopes import TableSchema, decimal, int16, logical
from support.registry_server import RegistryServer


def zoned(digits: int) -> dict[str, Any]:
    return {**logical("string", "io.debezium.time.ZonedTimestamp"), "connect.parameters": {"io.dblog.fraction": str(digits)}}


NO_WAY_BACK = {"names", "days", "instant", "moment_ns", "duration_ns"}
"""Of test_types: a map, dates in an array, a TIMESTAMP without its digits; and nanoseconds that no source of ours has."""
KINDS: list[tuple[str, Any, list[Any]]] = [(name, avro, [value]) for name, avro, value, _ in CASES if name not in NO_WAY_BACK] + [
    ("tinies", int16(), [-128, 0, 127]),
    ("ints", "int", [-(2**31), -1, 0, 63, 64, 2**31 - 1]),
    ("longs", "long", [-(2**63), -65, 0, 2**63 - 1]),
    ("halves", "float", [-0.0, 1e-45, 3.4028234663852886e38]),
    ("doubles", "double", [-0.0, 5e-324, -1.7976931348623157e308]),
    ("prices", decimal(38, 10), [Decimal("-0.0000000001"), Decimal(0), Decimal("1.28"), Decimal("9" * 28 + "." + "9" * 10)]),
    ("wholes", decimal(10, 0), [Decimal(127), Decimal(128), Decimal(-128), Decimal(-129)]),
    (
        "wides",
        decimal(65, 2),
        [Decimal(text) for text in ("0.00", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "0.05", f"{'9' * 63}.99", f"-{'9' * 63}.99")],
    ),
    ("wide_wholes", decimal(65, 0), [Decimal(0), Decimal(-1), Decimal(255), Decimal(256), Decimal(-(2**200)), Decimal(2**199)]),
    ("dates", logical("int", "io.debezium.time.Date"), [-719_528, -354_285, 0, 2_932_896]),
    ("iso_dates", logical("string", "io.debezium.time.IsoDate"), ["0001-01-01Z", "9999-12-31Z"]),
    ("micros", logical("long", "io.debezium.time.MicroTimestamp"), [-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999]),
    ("millis", logical("long", "io.debezium.time.Timestamp"), [-62_135_596_800_000, -1, 0, 253_402_300_799_999]),
    ("nanos", logical("long", "io.debezium.time.NanoTimestamp"), [-1000, 0, 4_102_444_800_000_000_000]),
    ("iso_moments", logical("string", "io.debezium.time.IsoTimestamp"), ["1000-01-01T00:00:00Z", "2024-02-29T23:59:59.12Z"]),
    *((f"instants{n}", zoned(n), [f"2038-01-19T03:14:07{'.999999'[: n + 1] if n else ''}Z", f"1970-01-01T00:00:01{('.' + '0' * n) if n else ''}Z"]) for n in (0, 1, 3, 6)),
    ("times", logical("int", "io.debezium.time.Time"), [0, 86_400_000]),
    ("time_nanos", logical("long", "io.debezium.time.NanoTime"), [-3_020_399_000_000_000, 0]),
    ("texts", "string", ["", " a ", "𝕏\u0000"]),
    ("blobs", "bytes", [b"", b"\x00" * 3]),
    ("vectors", {"type": "array", "items": "float", "connect.name": "io.debezium.data.FloatVector"}, [[], [0.5, -0.0]]),
    ("places", "io.debezium.data.geometry.Point", [{"x": -0.0, "y": 2.0, "wkb": b"", "srid": 0}]),
]  # fmt: skip


def test_a_row_of_any_type_has_the_bytes_that_it_had_in_its_record(sink: Sink, registry: RegistryServer) -> None:
    # Columns that may be NULL as the converter writes them, with null first or behind; and those that may not.
    shapes = {name: (["null", avro], [avro, "null"], avro)[n % 3] for n, (name, avro, _) in enumerate(KINDS)}
    table = TableSchema(topic="p.shop.everything", columns=[("id", "long"), *shapes.items()], registry=registry)
    length = max(len(values) for _, _, values in KINDS)
    rows = [{"id": n, **{name: values[n % len(values)] for name, _, values in KINDS}} for n in range(length)]
    rows.append({"id": length, **{name: None if isinstance(shapes[name], list) else values[0] for name, _, values in KINDS}})
    sink.batch(*(change(table, "c", row, at=1 + row["id"]) for row in rows))

    value = table.value_schema["fields"][0]["type"][1]
    fields, definitions = members(json.dumps(value))
    found = sink.read(table)
    held = {field.name: field.dataType for field in found.schema.fields}
    each = {source: field_bytes(kind, definitions, held=held[source], path=quote(source), where="t") for source, kind in fields}
    got = found.selectExpr(
        "id", *(f"{sql} AS {quote(f'b_{source}')}" for source, sql in each.items()), f"{concatenated(each.values())} AS row"
    )

    by_name = {field["name"]: field["type"] for field in value["fields"]}
    for one in got.collect():
        row = rows[one["id"]]
        for source in each:
            assert bytes(one[f"b_{source}"]) == written(by_name[source], row[source]), (source, row[source])
        assert bytes(one["row"]) == written(value, row)


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_plain(schema)), _bare(schema, value))
    return out.getvalue()


def _plain(schema: Any) -> Any:
    """With the record that another column defines where it is only named, and decimals as bytes: fastavro does not always write as few as Connect."""
    match schema:
        case list():
            return [_plain(one) for one in schema]
        case "io.debezium.data.geometry.Point":
            return POINT
        case {"logicalType": "decimal"}:
            return "bytes"
        case {"fields": fields} if schema["name"] == "Value":
            kinds = [field["type"] for field in fields]
            named = [kind if "io.debezium.data.geometry.Point" in kind else _plain(kind) for kind in kinds]
            return {**schema, "fields": [{"name": field["name"], "type": kind} for field, kind in zip(fields, named, strict=True)]}
    return schema


def _bare(schema: Any, value: Any) -> Any:
    if isinstance(schema, dict) and schema["type"] == "record" and isinstance(value, dict):
        return {field["name"]: _bare(field["type"], value[field["name"]]) for field in schema["fields"]}
    if not isinstance(value, Decimal):
        return value
    scale = next(one["scale"] for one in (schema if isinstance(schema, list) else [schema]) if isinstance(one, dict))
    return shortest(int(value.scaleb(scale, Context(prec=100))))


def shortest(unscaled: int) -> bytes:
    """The bytes of a number as Connect writes them."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def test_a_number_of_many_digits_is_turned_back_soon_and_one_of_more_is_not(spark: SparkSession) -> None:
    number = {
        "type": "record",
        "name": "VariableScaleDecimal",
        "namespace": "io.debezium.data",
        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
        "connect.name": "io.debezium.data.VariableScaleDecimal",
    }
    numbers = [
        (int(sign + digits), scale) for sign in ("", "-") for digits, scale in (("9" * 1234, 0), ("4294967296", 3), ("8" * 1000, 1200))
    ]
    texts = [f"{Decimal(unscaled).scaleb(-scale, Context(prec=1300)):f}" for unscaled, scale in numbers]
    sql = field_bytes(number, {}, held=StringType(), path="c", where="t")

    got = spark.createDataFrame([(text,) for text in texts * 20], "c STRING").selectExpr(sql).collect()
    beyond = spark.createDataFrame([("9" * 50_000,), ("-" + "1" * 1301,)], "c STRING").selectExpr(sql).collect()

    assert [bytes(row[0]) for row in got] == [written(number, {"scale": scale, "value": shortest(one)}) for one, scale in numbers] * 20
    assert [row[0] for row in beyond] == [None, None]
