"""HeaderToValue: copies or moves headers into the value, also into structs inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.config.options import Importance, Option, Settings
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.options import names
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import field_of, like, require_struct

_PURPOSE = "Header field insertion"
_SCHEMAS_MAX = 1000
Entry = tuple[tuple[str, ...], Schema | None, Any]
"""Path in the value, schema, value."""


class HeaderToValue:
    """Paths in the value by header. ``moves`` takes the headers away."""

    effect = Effect.CHANGES

    def __init__(self, headers: Sequence[str], fields: Sequence[str], *, moves: bool) -> None:
        self._paths = {header: tuple(field.split(".")) for header, field in zip(headers, fields, strict=True)}
        self._moves = moves
        self._schemas: dict[tuple[int, tuple[object, ...]], tuple[Schema, tuple[Schema | None, ...], Schema]] = {}
        forgets_with_others(self)

    def forget(self) -> None:
        """Drop all schemas."""
        self._schemas.clear()

    def apply(self, record: Record) -> Record:
        """Return the record with the fields; one without value or without such headers stays."""
        if record.is_tombstone:
            return record
        value = require_struct(record.value_schema, record.value, _PURPOSE)
        entries: list[Entry] = [
            (self._paths[header.name], header.schema, header.value) for header in record.headers if header.name in self._paths
        ]
        if not entries:
            return record
        assert record.value_schema is not None
        made = record.with_value(self._schema(record.value_schema, entries), _with_entries(value, entries))
        if not self._moves:
            return made
        return made.with_headers(tuple(header for header in record.headers if header.name not in self._paths))

    def _schema(self, schema: Schema, entries: Sequence[Entry]) -> Schema:
        of_headers = tuple(found for _, found, _ in entries)
        key = (id(schema), tuple((path, id(found)) for path, found, _ in entries))
        known = self._schemas.get(key)
        if known is not None and known[0] is schema and all(a is b for a, b in zip(known[1], of_headers, strict=True)):
            return known[2]
        made = like(schema, _fields(schema, entries))
        if len(self._schemas) >= _SCHEMAS_MAX:
            self._schemas.clear()
        self._schemas[key] = schema, of_headers, made
        return made


def _fields(schema: Schema, entries: Sequence[Entry]) -> tuple[Field, ...]:
    """Return the fields of a struct with those of the entries, at its end or inside its structs."""
    made: list[Field] = []
    for field in schema.fields:
        inside = [(path[1:], found, value) for path, found, value in entries if len(path) > 1 and path[0] == field.name]
        if not inside:
            made.append(field)
            continue
        if field.schema.kind is not Kind.STRUCT:
            raise RecordError(f"Field '{field.name}' is a primitive type, not a struct. Cannot add a nested field.")
        made.append(Field(name=field.name, schema=replace(like(field.schema, _fields(field.schema, inside)), optional=False)))
    for path, found, _ in entries:
        if found is None:
            raise RecordError("a header without schema cannot become a field")
        if len(path) == 1 and all(field.name != path[0] for field in made):
            made.append(Field(name=path[0], schema=found))
    parents = dict.fromkeys(path[0] for path, _, _ in entries if len(path) > 1 and field_of(schema, path[0]) is None)
    for parent in parents:
        inside = [(path[1:], found, value) for path, found, value in entries if len(path) > 1 and path[0] == parent]
        empty = Schema(kind=Kind.STRUCT, optional=True)
        made.append(Field(name=parent, schema=replace(empty, fields=_fields(empty, inside))))
    return tuple(made)


def _with_entries(value: Mapping[str, Any], entries: Sequence[Entry]) -> dict[str, Any]:
    made = dict(value)
    for path, _, found in entries:
        if len(path) == 1:
            made[path[0]] = found
    for parent in dict.fromkeys(path[0] for path, _, _ in entries if len(path) > 1):
        inside = [(path[1:], schema, found) for path, schema, found in entries if len(path) > 1 and path[0] == parent]
        there = value.get(parent)
        if parent not in value or there is not None:
            made[parent] = _with_entries({} if there is None else there, inside)
    return made


def _make(settings: Settings, _part: Part) -> HeaderToValue:
    headers, fields = settings.items_of("headers"), settings.items_of("fields")
    if len(headers) != len(fields):
        raise ConfigError({"fields": ["'fields' config must have the same number of elements as 'headers' config."]})
    return HeaderToValue(headers, fields, moves=settings.text("operation") == "move")


HEADER_TO_VALUE = TransformPlugin(
    class_name="io.debezium.transforms.HeaderToValue",
    doc="Copies or moves headers into the value.",
    make=_make,
    options=(
        names("headers", "Names of the headers.", required=True, importance=Importance.HIGH),
        names(
            "fields", "Fields of the value, in the order of headers; a dot leads into a struct.", required=True, importance=Importance.HIGH
        ),
        Option(
            name="operation",
            doc="move takes the headers away, copy leaves them.",
            required=True,
            importance=Importance.HIGH,
            choices=("move", "copy"),
        ),
    ),
)
