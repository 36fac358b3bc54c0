"""Formats Connect values as ``String.valueOf`` prints them, which is what StringConverter writes.

A struct is ``Struct{id=1,name=x}`` without null fields (``Struct.toString``), as observed on Kafka
4.3. Bytes are the only deliberate difference: Java prints the buffer's bounds, which helps nobody;
here they are base64.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dblog.codecs.javatext import as_float32, decimal_text, double_text, float_text
from dblog.codecs.schema import Kind, Schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS = {
    "org.apache.kafka.connect.data.Date": 86_400_000,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}
"""Milliseconds of a unit of each type that Connect holds as a java.util.Date."""


def string_text(schema: Schema, value: Any) -> str:
    """Return the text of ``String.valueOf`` for the Connect object."""
    match schema.kind:
        case Kind.STRUCT:
            members = ((f.name, f.schema, value.get(f.name, f.schema.default)) for f in schema.fields)
            return "Struct{" + ",".join(f"{n}={string_text(s, v)}" for n, s, v in members if v is not None) + "}"
        case Kind.ARRAY:
            assert schema.items is not None
            item = schema.items
            return "[" + ", ".join("null" if v is None else string_text(item, v) for v in value) + "]"
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            key, item = schema.keys, schema.items
            return "{" + ", ".join(f"{string_text(key, k)}={'null' if v is None else string_text(item, v)}" for k, v in value.items()) + "}"
        case _:
            return _scalar(schema, value)


def _scalar(schema: Schema, value: Any) -> str:
    match schema.kind, schema.name:
        case Kind.BYTES, "org.apache.kafka.connect.data.Decimal":
            return decimal_text(value, int(dict(schema.parameters)["scale"]))
        case Kind.INT32 | Kind.INT64, str(name) if name in _MILLIS:
            # This is the text of a java.util.Date.
            return (_EPOCH + timedelta(milliseconds=value * _MILLIS[name])).strftime("%a %b %d %H:%M:%S UTC %Y")
        case Kind.BOOLEAN, _:
            return "true" if value else "false"
        case Kind.FLOAT32, _:
            return float_text(as_float32(value))
        case Kind.FLOAT64, _:
            return double_text(value)
        case Kind.BYTES, _:
            return b64encode(value).decode()
        case _:
            return str(value)


def schemaless_text(value: Any) -> str:
    """Return the text of ``String.valueOf`` for a value without schema, which only a transform can
    make: a list is ``[1, 2]``, a map ``{a=1}``.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case bytes():
            return b64encode(value).decode()
        case list() | tuple():
            return "[" + ", ".join(map(schemaless_text, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{schemaless_text(name)}={schemaless_text(one)}" for name, one in value.items()) + "}"
        case _:
            return str(value)
