"""JSON with schema is known as the Avro of the same records is."""

from __future__ import annotations

import json

from dblog_sink.schema.connect_json import avro_schema
from dblog_sink.schema.writer_schemas import UNWRAPPED, Envelope, KeySchema, NotRows, Reading, Unreadable, key_schema, value_schema
from pyspark.sql import types as t

DECIMAL = {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1}
ROW = {
    "type": "struct",
    "optional": True,
    "name": "p.shop.t.Value",
    "field": "after",
    "fields": [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "int16", "optional": True, "field": "small"},
        {**DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "10"}, "field": "price"},
        {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1, "field": "day"},
        {"type": "bytes", "optional": True, "field": "raw"},
    ],
}
SOURCE = {
    "type": "struct",
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "field": "source",
    "fields": [
        {"type": name, "optional": False, "field": field} for name, field in (("string", "file"), ("int64", "pos"), ("int32", "row"))
    ],
}
ENVELOPE = {
    "type": "struct",
    "optional": False,
    "name": "p.shop.t.Envelope",
    "fields": [{**ROW, "field": "before"}, ROW, SOURCE, {"type": "string", "optional": False, "field": "op"}],
}


def part(schema) -> str:
    """A record's text up to the payload."""
    return json.dumps({"schema": schema}, separators=(",", ":"))[:-1]


def test_an_envelope_in_json_has_the_columns_of_one_in_avro() -> None:
    found = value_schema(-1, part(ENVELOPE))

    assert isinstance(found, Envelope)
    assert {field.name: field.conversion.type for field in found.fields} == {
        "id": t.LongType(),
        "small": t.ShortType(),
        "price": t.DecimalType(10, 2),
        "day": t.DateType(),
        "raw": t.BinaryType(),
    }
    assert found.source_fields == {"file", "pos", "row"}
    assert found.json_type is not None
    after = found.json_type["after"].dataType
    assert (after["price"].dataType, after["raw"].dataType, after["day"].dataType) == (t.StringType(), t.StringType(), t.IntegerType())
    assert "base64" in found.fields[4].conversion.convert("x")


def test_json_keys_heartbeats_and_rows_without_schema_are_distinguished() -> None:
    key = key_schema(-1, part({"type": "struct", "fields": [{"type": "int64", "optional": False, "field": "id"}], "name": "p.shop.t.Key"}))
    heartbeat = {"type": "struct", "name": "io.debezium.connector.common.Heartbeat", "fields": [{"type": "int64", "field": "ts_ms"}]}

    assert isinstance(key, KeySchema)
    assert key.fields[0].required
    assert isinstance(value_schema(-1, part(heartbeat)), NotRows)
    assert isinstance(value_schema(-1, "{"), Unreadable)
    assert avro_schema('{"schema":null') is None


def test_an_unwrapped_row_is_known_by_what_the_transform_added_or_by_its_key() -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"]}]
    added = [
        {"name": name, "type": ["null", kind]} for name, kind in (("__op", "string"), ("__source_ts_ms", "long"), ("__deleted", "string"))
    ]

    def text(fields) -> str:
        return json.dumps({"type": "record", "name": "Value", "namespace": "p.shop.t", "fields": fields})

    by_fields = value_schema(3, text(columns + added))
    by_key = value_schema(3, text(columns), Reading(keys=frozenset({"id"})))

    assert isinstance(by_fields, Envelope)
    assert (by_fields.kind, [field.name for field in by_fields.fields], by_fields.added) == (
        UNWRAPPED,
        ["id", "v"],
        {"__op", "__source_ts_ms", "__deleted"},
    )
    assert isinstance(by_key, Envelope)
    assert isinstance(value_schema(3, text(columns)), Unreadable)
    assert isinstance(value_schema(3, text(columns), Reading(records="unwrapped")), Envelope)
    assert isinstance(value_schema(3, text(columns + added), Reading(records="envelope")), Unreadable)


def test_columns_are_left_out_and_renamed_and_defaults_are_kept_as_sql() -> None:
    columns = [
        {"name": "id", "type": "long"},
        {"name": "secret", "type": "string"},
        {"name": "n", "type": [{"type": "int", "connect.default": 5}, "null"], "default": 5},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "default": "\u00ff\u0085"},
        {"name": "name", "type": "string", "default": "it's"},
    ]
    schema = json.dumps({"type": "record", "name": "Value", "namespace": "p", "fields": columns})
    names = {"secret": None, "n": "number"}

    found = value_schema(3, schema, Reading(records="unwrapped", column=lambda name: names.get(name, name)))

    assert isinstance(found, Envelope)
    assert [(field.name, field.member, field.fill) for field in found.fields] == [
        ("id", "id", None),
        ("number", "n", "5"),
        ("price", "price", "CAST('-1.23' AS decimal(5,2))"),
        ("name", "name", "'it\\'s'"),
    ]
    assert '"secret"' not in found.reader_text
    assert '"secret"' in found.writer_text


def test_a_schema_that_refers_to_others_is_made_whole() -> None:
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "double"}]}
    row = {
        "type": "record",
        "name": "Value",
        "namespace": "p",
        "fields": [{"name": "id", "type": "long"}, {"name": "a", "type": "geo.Point"}, {"name": "b", "type": ["null", "geo.Point"]}],
    }

    found = value_schema(3, json.dumps({"dblog.references": [point], "schema": row}), Reading(records="unwrapped"))

    assert isinstance(found, Envelope)
    assert found.fields[2].conversion.type == t.StructType([t.StructField("x", t.DoubleType())])
    assert json.loads(found.writer_text)["fields"][1]["type"]["name"] == "Point"
    assert json.loads(found.writer_text)["fields"][2]["type"] == ["null", "geo.Point"]
