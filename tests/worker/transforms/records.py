"""Records for the tests of transforms, and transforms made as a configuration makes them."""

from __future__ import annotations

from typing import Any

from dblog.codecs.envelope import envelope_schema, key_schema, row_schema, source_schema
from dblog.codecs.schema import Field, Kind, Schema
from dblog.transforms.configuration import chain_of
from dblog.transforms.record import Header, Record

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms", "io.debezium.transforms"
INT32, INT64, TEXT = Schema(kind=Kind.INT32), Schema(kind=Kind.INT64), Schema(kind=Kind.STRING)
MAYBE_TEXT = Schema(kind=Kind.STRING, optional=True)
DEFAULTED = Schema(kind=Kind.STRING, optional=True, default="none")
SOURCE = source_schema("mysql", ("table", MAYBE_TEXT))


def struct(name: str | None, **fields: Schema) -> Schema:
    return Schema(kind=Kind.STRUCT, name=name, fields=tuple(Field(name=n, schema=s) for n, s in fields.items()))


ROW = row_schema("p.d.t", [("id", INT32), ("name", MAYBE_TEXT), ("kind", DEFAULTED)])
ENVELOPE = envelope_schema("p.d.t", ROW, SOURCE)
KEY = key_schema("p.d.t", [("id", INT32)])


def source(**changes: Any) -> dict[str, Any]:
    return {"version": "3", "connector": "mysql", "name": "p", "ts_ms": 5, "db": "d", "table": "t"} | changes


def change(op: str, before: Any = None, after: Any = None, **changes: Any) -> Record:
    """Return the record of a row, as the encoders make it."""
    key = {"id": (after or before)["id"]}
    value = {
        "before": before,
        "after": after,
        "source": source(),
        "transaction": None,
        "op": op,
        "ts_ms": 7,
        "ts_us": 7000,
        "ts_ns": 7000000,
    }
    return Record("p.d.t", KEY, key, ENVELOPE, value | changes)


def tombstone(**headers: str) -> Record:
    return Record("p.d.t", KEY, {"id": 1}, None, None, headers=tuple(Header(n, TEXT, v) for n, v in headers.items()))


def row(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "name": "a", "kind": None} | changes


def transform(class_name: str, **options: str):
    """Return a function from a record to the record after one transform; ``__`` in a name is a dot."""
    given = {f"transforms.x.{name.replace('__', '.')}": value for name, value in options.items()}
    chain = chain_of({"transforms": "x", "transforms.x.type": class_name, **given})
    assert chain is not None
    return chain.apply


def names(schema: Schema | None) -> list[str]:
    assert schema is not None
    return [field.name for field in schema.fields]
