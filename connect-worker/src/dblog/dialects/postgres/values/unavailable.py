"""What stands in a record for a TOAST value that an UPDATE did not change, and which the log therefore does not have.

Rule source: Debezium 3.6.1 (UnchangedToastedPlaceholder, UnchangedToastedReplicationMessageColumn, PostgresValueConverter). Where Debezium has a placeholder
that does not fit the column's schema, its field stays empty; here a text, bytes or numbers of the placeholder stand there, so that a consumer sees it.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from dblog.codecs.plan import ColumnPlan
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.postgres.values.hstore import json_object
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.plans import declared_of

_BYTE_ELEMENTS = frozenset({"int2", "int4", "int8", "oid", "date"})
"""Elements that take the placeholder's bytes as numbers, where the schema has integers for them."""
_FLOAT_ELEMENTS = frozenset({"float4", "float8", "vector", "halfvec"})
_LARGE = frozenset({"geometry", "geography", "sparsevec"})
_INTEGERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64})


def unavailable(plan: ColumnPlan, modes: TypeModes) -> Any:
    """The placeholder as a value of the column's schema; None where the schema has no room for one, or the column is left out.

    It is a value like any other: masks, hashes and cuts apply to it as well. Where it is None, a nullable column gets NULL; any other row cannot be written,
    and needs REPLICA IDENTITY FULL.
    """
    column = declared_of(plan)
    schema = plan.schema or plan.key_schema
    if schema is None:
        return None
    return _placeholder(schema, column.type, modes.placeholder)


def cannot_show(plan: ColumnPlan, modes: TypeModes) -> bool:
    """Whether a record has NULL, or cannot be written, where a large value of the column was not changed. Types whose values are always small are none of
    them, nor is numeric, whose values are small but for thousands of digits.
    """
    column = declared_of(plan)
    large = column.type.startswith("_") or column.type in _LARGE
    return large and plan.included and plan.schema is not None and unavailable(plan, modes) is None


def _placeholder(schema: Schema, name: str, placeholder: bytes) -> Any:
    text = placeholder.decode("utf-8", "replace")
    match schema.kind:
        case Kind.STRING if name == "hstore":
            return json_object({text: text})
        case Kind.STRING:
            return text
        case Kind.BYTES if schema.name != "org.apache.kafka.connect.data.Decimal":
            return placeholder
        case Kind.MAP:
            return {text: text}
        case Kind.ARRAY if schema.items is not None:
            return _elements(schema.items, name.removeprefix("_"), placeholder)
        case _:
            return None


def _elements(items: Schema, name: str, placeholder: bytes) -> list[Any] | None:
    if name == "uuid":
        return [name_uuid(placeholder)]
    if name in _BYTE_ELEMENTS and items.kind in _INTEGERS:
        return list(memoryview(placeholder).cast("b"))
    if name in _FLOAT_ELEMENTS:
        if items.kind is Kind.ARRAY:
            return [[float(byte) for byte in memoryview(placeholder).cast("b")]]
        return [float(byte) for byte in memoryview(placeholder).cast("b")]
    one = _placeholder(items, name, placeholder)
    return None if one is None else [one]


def name_uuid(placeholder: bytes) -> str:
    """``UUID.nameUUIDFromBytes``: version 3, of the MD5 of the bytes without a namespace."""
    return str(uuid.UUID(bytes=hashlib.md5(placeholder, usedforsecurity=False).digest(), version=3))
