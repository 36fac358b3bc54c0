"""TimezoneConverter: moves the moments of rows into another time zone.

A moment with an offset in it (``ZonedTimestamp``, ``ZonedTime``) shows the same instant in the zone.
A number without one is taken for the zone's local time, so its instant moves, as in Debezium. Fields
are chosen by table or topic, with ``include.list`` or ``exclude.list``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dblog.codecs.avro import TIMESTAMP
from dblog.codecs.schema import Field, Schema
from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.options import Kind as OptionKind
from dblog.errors import ConfigError
from dblog.transforms.envelopes import is_envelope
from dblog.transforms.faults import RecordError
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import field_of

_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})(?::(\d{2}))?")
_RULE = re.compile(r'(?:(?:source|topic):)?[".\w\s_]+(?::[".\w\s_]+)?', re.ASCII)
_ZONED = re.compile(r"(\d{4}-\d\d-\d\dT)?(\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d(?::\d\d)?)")
_ZONED_TIMESTAMP, _ZONED_TIME = "io.debezium.time.ZonedTimestamp", "io.debezium.time.ZonedTime"
_PER_SECOND = {
    "io.debezium.time.Timestamp": 1000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
    TIMESTAMP: 1000,
}
_EPOCHS = {"ts_ms": 1000, "ts_us": 1_000_000, "ts_ns": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time, whose zone is the configured one
_BLOCKS = ("before", "after", "source")


class TimezoneConverter:
    """The zone, and the rules by topic, by table, and by either. ``excludes`` turns their sense."""

    effect = Effect.CHANGES

    def __init__(self, zone: tzinfo, rules: Collection[str], *, excludes: bool) -> None:
        self._zone = zone
        self._excludes = excludes
        self._has_rules = bool(rules)
        self._fields: dict[tuple[str, str], set[str]] = {}
        prefix = ""
        for rule in rules:
            parts = rule.split(":")
            if len(parts) > 1 and parts[0].lower() in ("source", "topic"):
                prefix = parts.pop(0).lower()
            fields = self._fields.setdefault((prefix, parts[0]), set())
            fields.update(parts[1:2])

    def apply(self, record: Record) -> Record:
        """Return the record with converted moments; records that are no rows stay."""
        if record.is_tombstone or not is_envelope(record.value_schema):
            return record
        schema = record.value_schema
        assert schema is not None
        envelope: Mapping[str, Any] = record.value
        converts = self._converts(record.topic, (envelope.get("source") or {}).get("table"))
        if converts is None:
            return record
        made = dict(envelope)
        for block in _BLOCKS:
            field = field_of(schema, block)
            if field is not None and made.get(block) is not None:
                made[block] = self._block(block, field.schema, made[block], converts)
        return record.with_value(schema, made)

    def _converts(self, topic: str, table: str | None) -> Callable[[str, str], bool] | None:
        """Return whether a field of a block is converted, None if none is."""
        if not self._has_rules:
            return _of_rows
        names = (("topic", topic), ("source", table or ""), ("", topic), ("", table or ""))
        fields = next((self._fields[name] for name in names if name in self._fields), None)
        if fields is None:
            return _of_rows if self._excludes else None
        if not fields:
            return None if self._excludes else _of_rows
        chosen = _Chosen(fields, excludes=self._excludes)
        return chosen.converts

    def _block(self, block: str, schema: Schema, struct: Mapping[str, Any], converts: Callable[[str, str], bool]) -> Mapping[str, Any]:
        changed = {
            field.name: new
            for field in schema.fields
            if struct.get(field.name) is not None
            and converts(block, field.name)
            and (new := self._converted(block, field, struct[field.name])) is not None
        }
        return {**struct, **changed} if changed else struct

    def _converted(self, block: str, field: Field, value: Any) -> Any:
        """Return the converted value; None for a field that is not a moment."""
        name = field.schema.name
        if name is None:
            per_second = _EPOCHS.get(field.name) if block == "source" else None
            return None if per_second is None else value + self._offset_at(value, per_second) * per_second
        if name in _PER_SECOND:
            per_second = _PER_SECOND[name]
            return value - self._offset_of(_local(value, per_second)) * per_second
        if name in (_ZONED_TIMESTAMP, _ZONED_TIME):
            return self._zoned(value, has_date=name == _ZONED_TIMESTAMP)
        return None

    def _offset_of(self, local: datetime) -> int:
        """Return the zone's offset in seconds at a local time."""
        offset = local.replace(tzinfo=self._zone).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def _offset_at(self, value: int, per_second: int) -> int:
        """Return the zone's offset in seconds at an instant."""
        offset = _local(value, per_second).replace(tzinfo=UTC).astimezone(self._zone).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def _zoned(self, value: str, *, has_date: bool) -> str:
        found = _ZONED.fullmatch(value)
        if found is None or (found[1] is not None) is not has_date:
            raise RecordError("a moment with a zone has another form than ISO-8601")
        day, clock, seconds, fraction, zone = found.groups()
        local = datetime.fromisoformat(f"{day or '1970-01-01T'}{clock}:{seconds or '00'}")
        old = timedelta() if zone == "Z" else _parsed_offset(zone).utcoffset(None)
        assert old is not None
        if has_date:
            new = timedelta(seconds=self._offset_of(local))
        else:
            now = datetime.now(self._zone).utcoffset()
            assert now is not None
            new = now
        try:
            moved = local - old + new
        except OverflowError as e:
            raise RecordError("a moment is beyond the years that can be converted") from e
        clock_text = moved.strftime("%H:%M:%S")
        date_text = f"{moved.year:04d}-{moved.month:02d}-{moved.day:02d}T" if has_date else ""
        digits = (fraction or "").rstrip("0")
        return f"{date_text}{clock_text}{'.' + digits if digits else ''}{_shown_offset(new)}"


class _Chosen:
    """The choice of fields by the names in a rule; a name may begin with its block."""

    def __init__(self, names: Collection[str], *, excludes: bool) -> None:
        self._excludes = excludes
        self._of_block: dict[str, set[str]] = {block: set() for block in _BLOCKS}
        for name in names:
            block, dot, field = name.partition(".")
            if dot and block in _BLOCKS:
                self._of_block[block].add(field)
            else:
                self._of_block["before"].add(name)
                self._of_block["after"].add(name)

    def converts(self, block: str, name: str) -> bool:
        """Return True if the rule has the field converted."""
        names = self._of_block[block]
        if block == "source" and not names:
            return False
        return (name in names) is not self._excludes


def _of_rows(block: str, _name: str) -> bool:
    return block != "source"


def _local(value: int, per_second: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=value // per_second)
    except OverflowError as e:
        raise RecordError("a moment is beyond the years that can be converted") from e


def _parsed_offset(text: str) -> timezone:
    found = _OFFSET.fullmatch(text)
    assert found is not None
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
    return timezone(timedelta(seconds=-seconds if found[1] == "-" else seconds))


def _shown_offset(offset: timedelta) -> str:
    seconds = int(offset.total_seconds())
    if not seconds:
        return "Z"
    hours, rest = divmod(abs(seconds), 3600)
    text = f"{'-' if seconds < 0 else '+'}{hours:02d}:{rest // 60:02d}"
    return f"{text}:{rest % 60:02d}" if rest % 60 else text


def zone_of(name: str) -> tzinfo:
    """Return a zone by its name or offset. Raise ValueError if there is none."""
    try:
        return _parsed_offset(name) if _OFFSET.fullmatch(name) else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ValueError(
            "Invalid timezone format. Please specify either a geographic timezone (e.g. America/Los_Angeles) or a UTC offset in the format of "
            "+/-hh:mm, (e.g. +08:00)."
        ) from e


def _check_zone(value: Value, _all: Mapping[str, Value]) -> str | None:
    try:
        zone_of(str(value))
    except ValueError as e:
        return str(e)
    return None


def _check_rules(value: Value, _all: Mapping[str, Value]) -> str | None:
    for rule in value if isinstance(value, tuple) else ():
        if not _RULE.fullmatch(rule) or ":" not in rule:
            return (
                f"{rule} is not a rule of the form source:<table>, topic:<topic> or <table or topic>:<field>, each with or without a field"
            )
    return None


def _make(settings: Settings, _part: Part) -> TimezoneConverter:
    included, excluded = settings.items_of("include.list"), settings.items_of("exclude.list")
    if included and excluded:
        raise ConfigError({"exclude.list": ["Both include and exclude lists are specified. Please specify only one."]})
    return TimezoneConverter(zone_of(settings.text("converted.timezone")), included or excluded, excludes=bool(excluded))


def _rules(name: str, doc: str) -> Option:
    return Option(name=name, doc=doc, kind=OptionKind.LIST, default="", importance=Importance.HIGH, check=_check_rules)


TIMEZONE_CONVERTER = TransformPlugin(
    class_name="io.debezium.transforms.TimezoneConverter",
    doc="Moves the moments of rows into another time zone.",
    make=_make,
    options=(
        Option(
            name="converted.timezone",
            doc="The zone: a name such as Europe/Berlin, or an offset such as +08:00.",
            required=True,
            importance=Importance.HIGH,
            check=_check_zone,
        ),
        _rules("include.list", "Rules for the fields to convert, as in source:orders:created_at or topic:shop.orders; empty: all."),
        _rules("exclude.list", "Rules for the fields to leave unchanged."),
    ),
)
