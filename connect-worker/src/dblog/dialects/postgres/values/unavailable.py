"""Chooses the placeholder in a record for a TOAST value that an UPDATE did not change, so that the
log does not have it.

Source of the rules: Debezium 3.6.1 (UnchangedToastedPlaceholder,
UnchangedToastedReplicationMessageColumn, PostgresValueConverter). If Debezium has no placeholder,
or one that does not fit the column's schema, its field stays empty, which looks like NULL. Here
every type that may be stored apart has a placeholder: the placeholder's bytes are used as those of
a geometry or of a number, or give one element of an array for each byte or bit. So a consumer
recognizes it, and the sink keeps the value that it has. Values of at most 24 bytes are never stored
apart (PostgreSQL manual, 73.2 "TOAST").
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from dblog.codecs.plan import ColumnPlan
from dblog.codecs.rewrites import Hash, Truncate
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.postgres.values.hstore import json_object
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.plans import declared_of

_INTEGERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64})
_FLOATS = frozenset({Kind.FLOAT32, Kind.FLOAT64})
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
DECIMAL_DIGITS_MAX = 38
"""Precision up to which a decimal has at most 28 bytes. One declared with more may have room for
the placeholder.
"""


def unavailable(plan: ColumnPlan, modes: TypeModes) -> Any:
    """Return the placeholder as a value of the column's schema. Return None if the schema has no
    room for one, or if the column is left out.

    Masks, hashes and truncations apply to it as to any value. Without a placeholder a nullable
    column gets NULL; any other row cannot be written and needs REPLICA IDENTITY FULL.
    """
    column = declared_of(plan)
    schema = plan.schema or plan.key_schema
    if schema is None:
        return None
    return _placeholder(schema, column.type, modes.placeholder)


def cannot_show(plan: ColumnPlan, modes: TypeModes) -> bool:
    """Return True if a hash or a truncation changes the placeholder, so that it looks like a value
    of a row. A mask hides all values alike.
    """
    value = unavailable(plan, modes)
    return value is not None and isinstance(plan.rewrite, Hash | Truncate) and plan.rewrite(value) != value


def _placeholder(schema: Schema, name: str, placeholder: bytes) -> Any:
    text = placeholder.decode("utf-8", "replace")
    match schema.kind:
        case Kind.STRING if name == "hstore":
            return json_object({text: text})
        case Kind.STRING:
            return text
        case Kind.BYTES:
            return placeholder if schema.name != _DECIMAL or _precision(schema) > DECIMAL_DIGITS_MAX else None
        case Kind.MAP:
            return {text: text}
        case Kind.ARRAY if schema.items is not None:
            return _elements(schema.items, name.removeprefix("_"), placeholder)
        case Kind.STRUCT:
            return _members(schema, placeholder)
        case _:
            return None


def _precision(schema: Schema) -> int:
    return int(dict(schema.parameters).get("connect.decimal.precision", "0"))


def _members(schema: Schema, placeholder: bytes) -> dict[str, Any] | None:
    match schema.name:
        case "io.debezium.data.VariableScaleDecimal":
            return {"scale": 0, "value": placeholder}
        case "io.debezium.data.geometry.Geometry" | "io.debezium.data.geometry.Geography":
            return {"wkb": placeholder, "srid": None}
        case "io.debezium.data.SparseDoubleVector":
            numbers = memoryview(placeholder).cast("b")
            return {"dimensions": len(numbers), "vector": {at: float(number) for at, number in enumerate(numbers, 1)}}
        case _:
            return None


def _elements(items: Schema, name: str, placeholder: bytes) -> list[Any] | None:
    if name == "uuid":
        return [name_uuid(placeholder)]
    numbers = list(memoryview(placeholder).cast("b"))  # Java's bytes are signed
    if items.kind in _INTEGERS:
        return numbers
    if items.kind in _FLOATS:
        return list(map(float, numbers))
    if items.kind is Kind.BOOLEAN:
        return [bool(number >> bit & 1) for number in numbers for bit in range(7, -1, -1)]
    if items.kind is Kind.BYTES and items.name == _DECIMAL:
        return [number.to_bytes(1, "big", signed=True) for number in numbers]
    one = _placeholder(items, name, placeholder)
    return None if one is None else [one]


def name_uuid(placeholder: bytes) -> str:
    """Return ``UUID.nameUUIDFromBytes``: version 3, from the MD5 of the bytes without a
    namespace.
    """
    return str(uuid.UUID(bytes=hashlib.md5(placeholder, usedforsecurity=False).digest(), version=3))
