"""Connect values as plain text: StringConverter's bytes, and SimpleHeaderConverter's.

A struct prints as ``Struct{id=1}`` through the StringConverter (``Struct.toString``: fields that are null are left out) and as JSON-like
``{"id":1}`` in a header (``Values.convertToString``); observed on Kafka 4.3.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from dblog.codecs.javatext import as_float32, decimal_text, double_text, float_text
from dblog.codecs.schema import Kind, Schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONNECT = "org.apache.kafka.connect.data."


def string_text(schema: Schema, value: Any) -> str:
    """``String.valueOf`` of the Connect object, what StringConverter writes."""
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


def header_text(schema: Schema, value: Any) -> str:
    """What SimpleHeaderConverter writes; a top-level string is bare, inside a struct it is quoted."""
    return value if schema.kind is Kind.STRING else _embedded(schema, value)


def _embedded(schema: Schema, value: Any) -> str:
    if value is None:
        return "null" if schema.default is None else _embedded(schema, schema.default)
    match schema.kind:
        case Kind.STRING:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case Kind.STRUCT:
            return "{" + ",".join(f'"{f.name}":{_embedded(f.schema, value.get(f.name))}' for f in schema.fields) + "}"
        case Kind.ARRAY:
            assert schema.items is not None
            item = schema.items
            return "[" + ",".join(_embedded(item, v) for v in value) + "]"
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            key, item = schema.keys, schema.items
            return "{" + ",".join(f"{_embedded(key, k)}:{_embedded(item, v)}" for k, v in value.items()) + "}"
        case Kind.BYTES if schema.name != f"{_CONNECT}Decimal":
            return f'"{b64encode(value).decode()}"'
        case _:
            return _scalar(schema, value)


def _scalar(schema: Schema, value: Any) -> str:  # noqa: PLR0911 - one case a type
    match schema.kind, schema.name:
        case Kind.BYTES, "org.apache.kafka.connect.data.Decimal":
            return decimal_text(value, int(dict(schema.parameters)["scale"]))
        case Kind.INT32, "org.apache.kafka.connect.data.Date":
            return (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
        case Kind.INT32, "org.apache.kafka.connect.data.Time":
            return (_EPOCH + timedelta(milliseconds=value)).strftime("%H:%M:%S.") + f"{value % 1000:03d}Z"
        case Kind.INT64, "org.apache.kafka.connect.data.Timestamp":
            return (_EPOCH + timedelta(milliseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value % 1000:03d}Z"
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
