"""SchemaChangeEventFilter: drops records of the schema-change topic by the kind of the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.options import Kind as OptionKind
from dblog.transforms.envelopes import is_schema_change
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record

_KINDS = ("CREATE", "ALTER", "DROP", "TRUNCATE", "DATABASE")
_OPTION = "schema.change.event.exclude.list"


class SchemaChangeEventFilter:
    """The kinds of changes whose records are dropped."""

    effect = Effect.DROPS

    def __init__(self, excluded: Collection[str]) -> None:
        self._excluded = frozenset(excluded)

    def apply(self, record: Record) -> Record | None:
        """Return the record, or None for an excluded change. Other records pass."""
        if record.is_tombstone or not is_schema_change(record.value_schema):
            return record
        value: Mapping[str, Any] = record.value
        changes = value.get("tableChanges")
        if changes is None:
            return None
        kind = changes[0]["type"] if changes else "DATABASE"
        return None if kind in self._excluded else record


def _check(value: Value, _all: Mapping[str, Value]) -> str | None:
    unknown = [kind for kind in (value if isinstance(value, tuple) else ()) if kind not in _KINDS]
    return f"{unknown[0]} is not a kind of change; these are {', '.join(_KINDS)}" if unknown else None


def _make(settings: Settings, _part: Part) -> SchemaChangeEventFilter:
    return SchemaChangeEventFilter(settings.items_of(_OPTION))


SCHEMA_CHANGE_EVENT_FILTER = TransformPlugin(
    class_name="io.debezium.transforms.SchemaChangeEventFilter",
    doc="Drops records of the schema-change topic by the kind of the change.",
    make=_make,
    options=(
        Option(
            name=_OPTION,
            doc=f"Kinds of changes whose records are dropped: {', '.join(_KINDS)}.",
            kind=OptionKind.LIST,
            required=True,
            importance=Importance.HIGH,
            check=_check,
        ),
    ),
)
