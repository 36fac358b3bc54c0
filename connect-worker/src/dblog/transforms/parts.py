"""Key and value as the two parts on which a transform can work (``$Key`` and ``$Value``)."""

from __future__ import annotations

from enum import Enum
from typing import Any

from dblog.codecs.schema import Schema
from dblog.transforms.record import Record


class Part(Enum):
    """The part of a record that a transform changes; the value is the suffix of its class."""

    KEY = "Key"
    VALUE = "Value"

    def schema_of(self, record: Record) -> Schema | None:
        """Return the part's schema."""
        return record.key_schema if self is Part.KEY else record.value_schema

    def of(self, record: Record) -> Any:
        """Return the part in Connect's value space."""
        return record.key if self is Part.KEY else record.value

    def replaced(self, record: Record, schema: Schema | None, value: Any) -> Record:
        """Return the record with another key or value."""
        return record.with_key(schema, value) if self is Part.KEY else record.with_value(schema, value)
