"""Recognizes Debezium's records by the names of their schemas, as its transforms do (SmtManager)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.schema import Field, Kind, Schema
from dblog.transforms.faults import RecordError
from dblog.transforms.record import Record
from dblog.transforms.structs import field_of

_ENVELOPE = ".Envelope"
_SCHEMA_CHANGE = "SchemaChangeValue"


def is_envelope(schema: Schema | None) -> bool:
    """Return True for the schema of a row's envelope."""
    return schema is not None and schema.name is not None and schema.name.endswith(_ENVELOPE)


def is_schema_change(schema: Schema | None) -> bool:
    """Return True for the schema of a record of the schema-change topic."""
    return schema is not None and schema.name is not None and schema.name.endswith(_SCHEMA_CHANGE)


def text_of(schema: Schema, struct: Mapping[str, Any], name: str) -> str | None:
    """Return the text in a field of a struct. Raise RecordError if there is no field of this type
    and name.
    """
    field = field_of(schema, name)
    if field is None:
        raise RecordError(f"{name} is not a valid field name")
    if field.schema.kind is not Kind.STRING:
        raise RecordError(f"Field '{name}' is not of type STRING")
    value: str | None = struct.get(name)
    return field.schema.default if value is None else value


def require_field(schema: Schema, name: str) -> Field:
    """Return a field that every envelope has. Raise RecordError if this one lacks it."""
    field = field_of(schema, name)
    if field is None:
        raise RecordError(f"the envelope has no field {name}")
    return field


def routed(record: Record, topic: str | None) -> Record:
    """Return the record in another topic, or the record itself if the name is null or blank."""
    return record if topic is None or not topic.strip() else record.with_topic(topic)
