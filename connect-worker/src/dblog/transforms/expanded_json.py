"""Makes a struct of a payload that is JSON text, with a schema inferred from it.

Every field is optional. Objects in an array share one schema with the fields of all; other arrays
must have elements of one type. A payload that is no object, or whose arrays are mixed, stays text,
with a line in the log that shows none of it.

Source of the rules: Debezium's outbox.JsonSchemaData.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forget_all

log = structlog.get_logger(__name__)

_OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)
_OPTIONAL_BYTES = Schema(kind=Kind.BYTES, optional=True)
_INT_BITS, _LONG_BITS = 32, 64
_SCHEMAS_MAX = 1000
_DEPTH_MAX = 100
_CELLS_MAX = 1_000_000
"""Fields of all structs of one payload together, with those that an object does not have. An array of
objects without common fields has the square of its length.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRules:
    """The treatment of nulls and empty arrays, which show no type."""

    keeps_null: bool = False
    keeps_empty_arrays: bool = False


_FIELDS_MAX = 10_000
"""Most fields of the schema of one payload. Each takes some 700 bytes, with what writes it."""
_ALL_FIELDS_MAX = 100_000
"""Most fields of all schemas of payloads that are known at one time."""


def expanded(text: str, schema: Schema, *, name: str, rules: JsonRules) -> tuple[Schema, Any]:
    """Return schema and value of a payload; those given if the payload cannot be expanded."""
    try:
        return parsed(text, name=name, rules=rules)
    except (ValueError, RecursionError, OverflowError) as e:
        reason = "it is not JSON" if isinstance(e, json.JSONDecodeError) else str(e)
        log.warning("a payload is left as text", reason=reason)
        return schema, text


def parsed(text: str, *, name: str | None, rules: JsonRules) -> tuple[Schema, Any]:
    """Return the schema and value of a JSON object. Raise ValueError if the text is not one, or
    mixes types in an array.
    """
    if text[:1] not in ("{", "["):
        raise ValueError("it begins with neither { nor [")
    document = json.loads(text)
    inferred = _schema_of(name, document, rules, 0)
    if inferred is None or inferred.kind is not Kind.STRUCT:
        raise ValueError("it is not an object")
    value = _Values().of(document, inferred)
    return _known.of(inferred), value


class _Known:
    """Inferred schemas by value: converters recognize a schema by its identity."""

    def __init__(self) -> None:
        self._schemas: dict[Schema, Schema] = {}
        self._fields = 0

    def of(self, schema: Schema) -> Schema:
        """Return the known schema that equals this one. Raise ValueError if it has too many fields."""
        known = self._schemas.get(schema)
        if known is not None:
            return known
        fields = _fields_of(schema)
        if fields > _FIELDS_MAX:
            raise ValueError(f"its objects have more than {_FIELDS_MAX} different fields")
        self._fields += fields
        if len(self._schemas) >= _SCHEMAS_MAX or self._fields > _ALL_FIELDS_MAX:
            self._schemas.clear()
            self._fields = fields
            forget_all()
        return self._schemas.setdefault(schema, schema)


_known = _Known()


def _fields_of(schema: Schema) -> int:
    return (
        len(schema.fields)
        + sum(_fields_of(field.schema) for field in schema.fields)
        + (0 if schema.items is None else _fields_of(schema.items))
    )


def _schema_of(name: str | None, node: Any, rules: JsonRules, depth: int) -> Schema | None:
    if depth > _DEPTH_MAX:
        raise ValueError("it is nested too deeply")
    match node:
        case str():
            return _OPTIONAL_STRING
        case bool():
            return Schema(kind=Kind.BOOLEAN, optional=True)
        case int():
            bits = node.bit_length() + 1
            kind = Kind.INT32 if bits <= _INT_BITS else Kind.INT64 if bits <= _LONG_BITS else Kind.FLOAT64
            return Schema(kind=kind, optional=True)
        case float():
            return Schema(kind=Kind.FLOAT64, optional=True)
        case list():
            return _array_of(name, node, rules, depth)
        case dict():
            fields: dict[str, Field] = {}
            for key, value in node.items():
                found = _schema_of(f"{name}.{key}" if name else key, value, rules, depth + 1)
                if found is not None and key not in fields:
                    fields[key] = Field(name=key, schema=found)
            return Schema(kind=Kind.STRUCT, name=name, optional=True, fields=tuple(fields.values()))
        case _:
            return _OPTIONAL_BYTES if rules.keeps_null else None


def _array_of(name: str | None, nodes: list[Any], rules: JsonRules, depth: int) -> Schema | None:
    if not nodes:
        return Schema(kind=Kind.ARRAY, optional=True, items=_OPTIONAL_STRING) if rules.keeps_empty_arrays else None
    present = [node for node in nodes if node is not None]
    if any(_type_of(node) != _type_of(present[0]) for node in present):
        raise ValueError("a field is not a homogenous array")
    if present and isinstance(present[0], dict):
        return Schema(kind=Kind.ARRAY, optional=True, items=_merged(name, present, rules, depth + 1))
    item = _schema_of(None, present[0] if present else None, rules, depth + 1)
    if item is None:
        raise ValueError("an array has unrecognized members")
    return Schema(kind=Kind.ARRAY, optional=True, items=item)


def _type_of(node: Any) -> object:
    """Return the type that members of an array must share; numbers differ by their width."""
    if isinstance(node, bool) or not isinstance(node, int | float):
        return type(node)
    found = _schema_of(None, node, JsonRules(), 0)
    assert found is not None
    return found.kind


def _merged(name: str | None, nodes: list[Any], rules: JsonRules, depth: int) -> Schema:
    """Return one schema for the objects of an array, required unless only one was seen."""
    first = _schema_of(name, nodes[0], rules, depth)
    assert first is not None
    fields = {field.name: field for field in first.fields}
    same = True
    for node in nodes[1:]:
        found = _schema_of(name, node, rules, depth)
        assert found is not None
        same = same and found == first
        for field in () if same else found.fields:
            old = fields.get(field.name)
            if old is None or (old.schema.kind is Kind.BYTES and field.schema.kind is not Kind.BYTES):
                fields[field.name] = field
    return replace(first, fields=tuple(fields.values()), optional=first.optional if same else False)


class _Values:
    """The values of one payload, of which there is a bounded number."""

    def __init__(self) -> None:
        self._left = _CELLS_MAX

    def of(self, node: Any, schema: Schema) -> Any:
        """Return the value of a node. Raise ValueError if there are too many."""
        if node is None:
            return None
        match schema.kind:
            case Kind.STRUCT:
                self._left -= len(schema.fields) + 1
                if self._left < 0:
                    raise ValueError(f"its objects have more than {_CELLS_MAX} fields together")
                given: Mapping[str, Any] = node
                return {field.name: self.of(given[field.name], field.schema) for field in schema.fields if field.name in given}
            case Kind.ARRAY:
                items = schema.items
                assert items is not None
                return [self.of(item, items) for item in node]
            case Kind.FLOAT64:
                return float(node)
            case _:
                return node
