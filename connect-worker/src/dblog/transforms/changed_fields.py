"""ExtractChangedRecordState: lists in headers which fields an update has changed, and which not.

The headers are there for every row, empty for inserts, deletes and dumped rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.schema import Kind, Schema
from dblog.config.options import Importance, Settings
from dblog.transforms.envelopes import is_envelope, require_field
from dblog.transforms.options import text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Header, Record

_NAME = Schema(kind=Kind.STRING, optional=True)


class ExtractChangedRecordState:
    """The names of the headers; None adds none."""

    effect = Effect.ADDS

    def __init__(self, changed: str | None, unchanged: str | None) -> None:
        self._changed = None if changed is None else Header(changed, _list_schema(changed), None)
        self._unchanged = None if unchanged is None else Header(unchanged, _list_schema(unchanged), None)

    def apply(self, record: Record) -> Record:
        """Return the record with the headers; records that are no rows stay as they are."""
        if record.is_tombstone or not is_envelope(record.value_schema):
            return record
        assert record.value_schema is not None
        envelope: Mapping[str, Any] = record.value
        before, after = envelope.get("before"), envelope.get("after")
        changed: list[str] = []
        unchanged: list[str] = []
        if before is not None and after is not None:
            for field in require_field(record.value_schema, "after").schema.fields:
                (unchanged if before.get(field.name) == after.get(field.name) else changed).append(field.name)
        added = [
            header._replace(value=names) for header, names in ((self._changed, changed), (self._unchanged, unchanged)) if header is not None
        ]
        return record.with_headers((*record.headers, *added)) if added else record


def _list_schema(name: str) -> Schema:
    return Schema(kind=Kind.ARRAY, name=name, optional=True, items=_NAME)


def _make(settings: Settings, _part: Part) -> ExtractChangedRecordState:
    names = [(settings.text_or_none(f"header.{which}.name") or "").strip() or None for which in ("changed", "unchanged")]
    return ExtractChangedRecordState(*names)


EXTRACT_CHANGED_RECORD_STATE = TransformPlugin(
    class_name="io.debezium.transforms.ExtractChangedRecordState",
    doc="Lists in headers which fields an update has changed, and which not.",
    make=_make,
    options=(
        text("header.changed.name", "Header for the names of changed fields; absent: none.", importance=Importance.LOW),
        text("header.unchanged.name", "Header for the names of unchanged fields; absent: none.", importance=Importance.LOW),
    ),
)
