"""TimestampConverter: converts a moment between text, a number, and Connect's Date, Time and
Timestamp.

Numbers have the unit of ``unix.precision``; moments have milliseconds in between, as in Connect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dblog.codecs.avro import DATE, TIME, TIMESTAMP
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Option, Settings
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.java_dates import DAY_MS, DateFormat
from dblog.transforms.options import REPLACE_NULL, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, getter, like, require_map, require_struct

_PURPOSE = "converting timestamp formats"
_SCHEMAS = {
    "string": Schema(kind=Kind.STRING),
    "unix": Schema(kind=Kind.INT64),
    "Date": Schema(kind=Kind.INT32, name=DATE, version=1),
    "Time": Schema(kind=Kind.INT32, name=TIME, version=1),
    "Timestamp": Schema(kind=Kind.INT64, name=TIMESTAMP, version=1),
}
_BY_NAME = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_PER_SECOND = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_MILLIS = 1000


class TimestampConverter:
    """The target type, the format of texts or None, and the unit of numbers. ``field`` None
    converts the whole.
    """

    effect = Effect.CHANGES

    def __init__(
        self,
        part: Part,
        *,
        target: str,
        field: str | None = None,
        text_format: DateFormat | None = None,
        precision: str = "milliseconds",
        replace_null_with_default: bool = True,
    ) -> None:
        self._part = part
        self._target = target
        self._field = field
        self._format = text_format
        self._per_second = _PER_SECOND[precision]
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._schemas = Derived(self._converted_schema)

    def apply(self, record: Record) -> Record:
        """Return the record with the converted moment; null stays null."""
        schema, value = self._part.schema_of(record), self._part.of(record)
        if schema is None:
            return self._part.replaced(record, None, self._without_schema(value))
        updated = self._schemas.of(schema)
        if self._field is None:
            return self._part.replaced(record, updated, self._converted(_type_of(schema), value))
        if value is None:
            return self._part.replaced(record, updated, None)
        return self._part.replaced(record, updated, self._struct(schema, require_struct(schema, value, _PURPOSE)))

    def _struct(self, schema: Schema, struct: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in schema.fields:
            found = self._get(struct, field)
            made[field.name] = self._converted(_type_of(field.schema), found) if field.name == self._field else found
        return made

    def _without_schema(self, value: Any) -> Any:
        if value is None:
            return None
        if self._field is None:
            return self._converted(_inferred(value), value)
        given = require_map(value, _PURPOSE)
        found = given.get(self._field)
        return {**given, self._field: None if found is None else self._converted(_inferred(found), found)}

    def _converted_schema(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        if self._field is None:
            return replace(target, optional=schema.optional)
        require_struct(schema, {}, _PURPOSE)
        fields = tuple(
            Field(name=field.name, schema=replace(target, optional=field.schema.optional)) if field.name == self._field else field
            for field in schema.fields
        )
        default = None if schema.default is None else self._struct(schema, schema.default)
        return replace(like(schema, fields), optional=schema.optional, default=default)

    def _converted(self, source: str, value: Any) -> Any:
        return None if value is None else self._written(self._millis(source, value))

    def _millis(self, source: str, value: Any) -> int:
        match source:
            case "string":
                if self._format is None:
                    raise RecordError("a text needs the option format, which says how it is read")
                try:
                    return self._format.parse(value)
                except ValueError as e:
                    raise RecordError(f"Could not parse timestamp: the value does not match pattern ({self._format.pattern})") from e
            case "unix":
                return _truncated(value * _MILLIS, self._per_second)
            case "Date":
                return int(value) * DAY_MS
            case _:
                return int(value)

    def _written(self, millis: int) -> Any:
        match self._target:
            case "string":
                assert self._format is not None, "a text target without format is refused"
                return self._format.format(millis)
            case "unix":
                return _truncated(millis * self._per_second, _MILLIS)
            case "Date":
                return millis // DAY_MS
            case "Time":
                return millis % DAY_MS
            case _:
                return millis


def _truncated(number: int, divisor: int) -> int:
    """Divide toward zero, as Java's TimeUnit does."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _type_of(schema: Schema) -> str:
    known = _BY_NAME.get(schema.name or "")
    if known is not None:
        return known
    if schema.kind is Kind.STRING:
        return "string"
    if schema.kind is Kind.INT64:
        return "unix"
    raise RecordError(f"a field of type {schema.name or schema.kind.value} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, int) and not isinstance(value, bool):
        return "unix"
    raise RecordError("TimestampConverter does not support values of this type as timestamps")


def _make(settings: Settings, part: Part) -> TimestampConverter:
    target, pattern = settings.text("target.type"), settings.text("format")
    if target == "string" and not pattern.strip():
        raise ConfigError({"format": ["TimestampConverter requires format option to be specified when using string timestamps"]})
    try:
        text_format = DateFormat(pattern) if pattern.strip() else None
    except ValueError as e:
        raise ConfigError(
            {"format": [f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {e}"]}
        ) from e
    return TimestampConverter(
        part,
        target=target,
        field=settings.text("field") or None,
        text_format=text_format,
        precision=settings.text("unix.precision"),
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


TIMESTAMP_CONVERTER = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.TimestampConverter",
    doc="Converts a moment between text, a number, and Connect's Date, Time and Timestamp.",
    make=_make,
    options=(
        text("field", "Field with the moment; empty: the whole key or value.", default="", importance=Importance.HIGH),
        Option(
            name="target.type",
            doc="Type that the moment gets.",
            required=True,
            importance=Importance.HIGH,
            choices=tuple(_SCHEMAS),
        ),
        text("format", "Pattern of SimpleDateFormat for texts.", default=""),
        Option(
            name="unix.precision",
            doc="Unit of numbers since the epoch.",
            default="milliseconds",
            importance=Importance.LOW,
            choices=("nanoseconds", "microseconds", "milliseconds", "seconds"),
        ),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
