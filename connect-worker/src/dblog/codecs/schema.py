"""Kafka Connect's schema model as values, used by both converters and every row plan.

Source of the rules: org.apache.kafka.connect.data.Schema (types, names, versions, parameters,
optional, default). Int8 and int16 are separate from int32, because converters write them
differently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Kind(Enum):
    """Connect's schema types; the value is the JSON converter's spelling."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A Connect schema. ``default`` is in Connect's value space: int, float, bool, str, bytes (a
    Decimal's default is its unscaled bytes).
    """

    kind: Kind
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Any = None
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None

    def as_optional(self) -> Schema:
        """Return this schema as an optional one."""
        return replace(self, optional=True)
