"""ReadToInsertEvent: gives dumped rows the operation of an insert (``r`` becomes ``c``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.config.options import Settings
from dblog.transforms.envelopes import is_envelope
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record


class ReadToInsertEvent:
    """The transform has no options."""

    effect = Effect.CHANGES

    def apply(self, record: Record) -> Record:
        """Return the record of a dumped row as that of an insert; others stay."""
        if record.is_tombstone or not is_envelope(record.value_schema):
            return record
        envelope: Mapping[str, Any] = record.value
        return record.with_value(record.value_schema, {**envelope, "op": "c"}) if envelope.get("op") == "r" else record


def _make(_settings: Settings, _part: Part) -> ReadToInsertEvent:
    return ReadToInsertEvent()


READ_TO_INSERT_EVENT = TransformPlugin(
    class_name="io.debezium.connector.mysql.transforms.ReadToInsertEvent",
    doc="Gives dumped rows the operation of an insert.",
    make=_make,
)
