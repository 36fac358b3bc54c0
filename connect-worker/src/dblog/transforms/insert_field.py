"""InsertField: adds the topic, the partition, the timestamp or a constant as a field.

A name that ends with ``!`` makes a required field, one that ends with ``?``, or neither, an
optional one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dblog.codecs.avro import TIMESTAMP
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Option, Settings, only
from dblog.errors import ConfigError
from dblog.transforms.options import REPLACE_NULL, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, like, require_map, require_struct

_PURPOSE = "field insertion"


@dataclass(frozen=True, slots=True)
class Inserted:
    """A field to insert; ``schema`` is that of a required one."""

    name: str
    optional: bool
    schema: Schema

    @classmethod
    def parsed(cls, given: str | None, schema: Schema) -> Inserted | None:
        """Return the field that an option names, None if it names none."""
        if not given:
            return None
        name = given[:-1] if given[-1] in "!?" else given
        return cls(name, not given.endswith("!"), schema)

    @property
    def field(self) -> Field:
        """The field of the new schema."""
        return Field(name=self.name, schema=self.schema.as_optional() if self.optional else self.schema)


_STRING = Schema(kind=Kind.STRING)
_INT32 = Schema(kind=Kind.INT32)
_TIMESTAMP = Schema(kind=Kind.INT64, name=TIMESTAMP, version=1)


class InsertField:
    """The fields to insert; None inserts none of the kind."""

    effect = Effect.CHANGES

    def __init__(
        self,
        part: Part,
        *,
        topic: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        static: tuple[str, str] | None = None,
        replace_null_with_default: bool = True,
    ) -> None:
        self._part = part
        self._topic = Inserted.parsed(topic, _STRING)
        self._partition = Inserted.parsed(partition, _INT32)
        self._timestamp = Inserted.parsed(timestamp, _TIMESTAMP)
        self._static = None if static is None else Inserted.parsed(static[0], _STRING)
        self._static_value = None if static is None else static[1]
        self._replaces_null = replace_null_with_default
        self._shapes = Derived(self._shape)

    def apply(self, record: Record) -> Record:
        """Return the record with the fields; null stays null."""
        value = self._part.of(record)
        if value is None:
            return record
        schema = self._part.schema_of(record)
        if schema is None:
            return self._part.replaced(record, None, self._with_fields(dict(require_map(value, _PURPOSE)), record))
        updated, defaults = self._shapes.of(schema)
        made = dict(require_struct(schema, value, _PURPOSE))
        for name, default in defaults:
            if made.get(name) is None:
                made[name] = default
        return self._part.replaced(record, updated, self._with_fields(made, record))

    def _with_fields(self, made: dict[str, Any], record: Record) -> dict[str, Any]:
        if self._topic is not None:
            made[self._topic.name] = record.topic
        if self._partition is not None and record.partition is not None:
            made[self._partition.name] = record.partition
        if self._timestamp is not None and record.timestamp is not None:
            made[self._timestamp.name] = record.timestamp
        if self._static is not None:
            made[self._static.name] = self._static_value
        return made

    def _shape(self, schema: Schema) -> tuple[Schema, tuple[tuple[str, Any], ...]]:
        wanted = (self._topic, self._partition, self._timestamp, self._static)
        inserted = tuple(one.field for one in wanted if one is not None)
        replaced = schema.fields if self._replaces_null else ()
        defaults = tuple((field.name, field.schema.default) for field in replaced if field.schema.default is not None)
        return like(schema, (*schema.fields, *inserted)), defaults


def _make(settings: Settings, part: Part) -> InsertField:
    static = settings.text_or_none("static.field")
    value = settings.text_or_none("static.value")
    names = [settings.text_or_none(f"{name}.field") for name in ("topic", "partition", "timestamp")]
    if static is None and not any(names):
        raise ConfigError({"static.field": ["No field insertion configured"]})
    if static is not None and value is None:
        raise ConfigError({"static.value": [f"No value specified for static field: {static}"]})
    return InsertField(
        part,
        topic=names[0],
        partition=names[1],
        timestamp=names[2],
        static=None if static is None or value is None else (static, value),
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


def _offset() -> Option:
    return Option(
        name="offset.field",
        doc="Field for the offset in Kafka, which records of a source do not have yet.",
        refused=only(because="a source's record has no offset yet; remove the key"),
    )


INSERT_FIELD = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.InsertField",
    doc="Adds the topic, the partition, the timestamp or a constant as a field.",
    make=_make,
    options=(
        text("topic.field", "Field for the topic."),
        text("partition.field", "Field for the partition, null where the producer chooses it."),
        _offset(),
        text("timestamp.field", "Field for the timestamp, null as in Debezium's records."),
        text("static.field", "Field for a constant."),
        text("static.value", "The constant."),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
