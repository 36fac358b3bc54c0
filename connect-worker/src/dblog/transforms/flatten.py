"""Flatten: replaces nested structs by fields whose names are paths.

A field below an optional struct is optional, and takes the default that the struct's default has
for it. Arrays stay; maps in structs are refused, as in Connect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Settings
from dblog.transforms.faults import RecordError
from dblog.transforms.options import text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, like, require_map, require_struct, with_default

_PURPOSE = "flattening"
Path = tuple[Field, ...]


class Flatten:
    """The text between the names of a path."""

    effect = Effect.CHANGES

    def __init__(self, part: Part, delimiter: str = ".") -> None:
        self._part = part
        self._delimiter = delimiter
        self._shapes = Derived(self._shape)

    def apply(self, record: Record) -> Record:
        """Return the record with a flat part; null stays null."""
        value = self._part.of(record)
        if value is None:
            return record
        schema = self._part.schema_of(record)
        if schema is None:
            made = dict(self._flat_map(require_map(value, _PURPOSE), ""))
            return self._part.replaced(record, None, made)
        struct = require_struct(schema, value, _PURPOSE)
        updated, paths = self._shapes.of(schema)
        return self._part.replaced(record, updated, {name: _value_at(struct, path) for name, path in paths if _reaches(struct, path)})

    def _shape(self, schema: Schema) -> tuple[Schema, tuple[tuple[str, Path], ...]]:
        require_struct(schema, {}, _PURPOSE)
        found = list(self._flat_fields(schema, "", (), optional=schema.optional, default=schema.default))
        return like(schema, tuple(field for field, _ in found)), tuple((field.name, path) for field, path in found)

    def _flat_fields(
        self, schema: Schema, prefix: str, path: Path, *, optional: bool, default: Mapping[str, Any] | None
    ) -> Iterator[tuple[Field, Path]]:
        for field in schema.fields:
            name = self._named(prefix, field.name)
            may_be_null = optional or field.schema.optional
            own = field.schema.default
            if own is None and default is not None:
                own = with_default(default, field)
            match field.schema.kind:
                case Kind.STRUCT:
                    yield from self._flat_fields(field.schema, name, (*path, field), optional=may_be_null, default=own)
                case Kind.MAP:
                    raise RecordError(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
                case _:
                    yield Field(name=name, schema=replace(field.schema, optional=may_be_null, default=own)), (*path, field)

    def _flat_map(self, given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in given.items():
            name = self._named(prefix, key)
            if isinstance(value, Mapping):
                yield from self._flat_map(value, name)
            else:
                yield name, value

    def _named(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


def _reaches(struct: Mapping[str, Any], path: Path) -> bool:
    """Return True if all structs along the path are there; fields below a null are not set."""
    at: Any = struct
    for field in path[:-1]:
        at = with_default(at, field)
        if at is None:
            return False
    return True


def _value_at(struct: Mapping[str, Any], path: Path) -> Any:
    at: Any = struct
    for field in path:
        at = with_default(at, field)
    return at


def _make(settings: Settings, part: Part) -> Flatten:
    return Flatten(part, settings.text("delimiter"))


FLATTEN = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.Flatten",
    doc="Replaces nested structs by fields whose names are paths.",
    make=_make,
    options=(text("delimiter", "Text between the names of a path.", default="."),),
    parts=(Part.KEY, Part.VALUE),
)
