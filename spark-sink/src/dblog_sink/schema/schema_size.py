"""Counts the types of a schema with its names resolved, before columns are made of it. Pure.

A type of Spark is a tree, and an Avro schema need not be one: a record that holds another one twice,
which holds a third one twice, and so on, doubles with each step, and one that holds itself has no
end. A writer of schemas and records could keep the driver busy for ever, so a schema is counted
before it becomes a type. Each named type is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES_MAX = 50_000
"""Most types in a schema. An envelope of 4096 columns, each with two members, has half of it."""

_PARTS = {"array": "items", "map": "values"}


def fault_of(schema: Any, definitions: Mapping[str, Any]) -> str | None:
    """Return why no columns can be made of the schema, None if they can. RecursionError for one
    that is nested too deeply.
    """
    try:
        count = _Count(definitions).of(schema)
    except _HoldsItselfError as e:
        return f"its type {e} holds itself, and no column can"
    return f"it has more than {TYPES_MAX} types, each counted where it is used" if count > TYPES_MAX else None


class _HoldsItselfError(Exception):
    """A named type is part of itself."""


class _Count:
    """Counts the types of one schema, each named type once."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[str, int] = {}
        self._open: set[str] = set()

    def of(self, schema: Any) -> int:
        """Return the number of types in the schema, with each name replaced by its definition."""
        if isinstance(schema, list):
            return sum(map(self.of, schema))
        if isinstance(schema, str):
            return self._named(schema, self._definitions[schema]) if schema in self._definitions else 1
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if kind == "record":
            space, name = schema.get("namespace", ""), schema["name"]
            return self._named(f"{space}.{name}" if space and "." not in name else name, schema)
        if kind in _PARTS:
            return 1 + self.of(schema[_PARTS[kind]])
        return self._named(kind, self._definitions[kind]) if kind in self._definitions else 1

    def _named(self, name: str, schema: Mapping[str, Any]) -> int:
        if name in self._open:
            raise _HoldsItselfError(name)
        if name not in self._known:
            self._open.add(name)
            self._known[name] = 1 + sum(self.of(field["type"]) for field in schema.get("fields", ()))
            self._open.discard(name)
        return self._known[name]
