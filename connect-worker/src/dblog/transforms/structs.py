"""Reads structs as Connect does, and derives schemas from schemas.

Sources of the rules: org.apache.kafka.connect.data.Struct (``get`` gives a field's default for
null, ``getWithoutDefault`` does not), org.apache.kafka.connect.transforms.util.Requirements and
SchemaUtil (a copy has name, version, doc and parameters, and is neither optional nor has it a
default).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.transforms.faults import RecordError

SCHEMAS_MAX = 5000


def with_default(struct: Mapping[str, Any], field: Field) -> Any:
    """Return a field's value, or its default instead of null."""
    value = struct.get(field.name)
    return field.schema.default if value is None else value


def without_default(struct: Mapping[str, Any], field: Field) -> Any:
    """Return a field's value; None if it is null or not set."""
    return struct.get(field.name)


def getter(*, replace_null_with_default: bool) -> Callable[[Mapping[str, Any], Field], Any]:
    """Return the function that reads a field as ``replace.null.with.default`` says."""
    return with_default if replace_null_with_default else without_default


def field_of(schema: Schema, name: str) -> Field | None:
    """Return the field of this name, or None. Names are compared exactly."""
    for field in schema.fields:
        if field.name == name:
            return field
    return None


def require_struct(schema: Schema | None, value: Any, purpose: str) -> Mapping[str, Any]:
    """Return the value if it is a struct. Raise RecordError otherwise."""
    struct = require_struct_or_null(schema, value, purpose)
    if struct is None:
        raise RecordError(f"Only Struct objects supported for [{purpose}], found: null")
    return struct


def require_struct_or_null(schema: Schema | None, value: Any, purpose: str) -> Mapping[str, Any] | None:
    """Return the value if it is a struct or null. Raise RecordError otherwise."""
    if value is None:
        return None
    if schema is None or schema.kind is not Kind.STRUCT:
        raise RecordError(f"Only Struct objects supported for [{purpose}], found: {kind_of(schema)}")
    struct: Mapping[str, Any] = value
    return struct


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Return a value without schema if it is a map. Raise RecordError otherwise."""
    if not isinstance(value, Mapping):
        found = "null" if value is None else type(value).__name__
        raise RecordError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return value


def kind_of(schema: Schema | None) -> str:
    """Return the type of a schema for a message."""
    return "a value without schema" if schema is None else schema.name or schema.kind.value


def like(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    """Return a struct with other fields and the schema's name, version, doc and parameters.

    It is required and has no default, whatever the schema is. Raise RecordError if two fields have
    one name.
    """
    if len({field.name for field in fields}) < len(fields):
        seen: set[str] = set()
        twice = next(field.name for field in fields if field.name in seen or seen.add(field.name))  # type: ignore[func-returns-value]
        raise RecordError(f"Cannot create field because of field name duplication {twice}")
    return Schema(kind=Kind.STRUCT, name=schema.name, version=schema.version, doc=schema.doc, parameters=schema.parameters, fields=fields)


def basics(schema: Schema) -> Schema:
    """Return a copy of a schema that is required and has no default."""
    return replace(schema, optional=False, default=None)


Made = TypeVar("Made")


class Derived(Generic[Made]):
    """Schemas, or what a transform needs to know of them, made once for each schema object.

    Schemas are compared by identity: hashing a deep schema would cost more than the transform.
    """

    def __init__(self, derive: Callable[[Schema], Made]) -> None:
        self._derive = derive
        self._made: dict[int, tuple[Schema, Made]] = {}
        forgets_with_others(self)

    def of(self, schema: Schema) -> Made:
        """Return the result for a schema."""
        known = self._made.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        made = self._derive(schema)
        if len(self._made) >= SCHEMAS_MAX:
            self._made.clear()
        self._made[id(schema)] = (schema, made)
        return made

    def forget(self) -> None:
        """Drop all schemas."""
        self._made.clear()
