"""Makes a record of each record that could not be handled, for the topic of
errors.deadletterqueue.topic.name.

Kafka Connect has such a topic for sinks only. Its value is JSON that says which record failed, where
in the log and why; the columns are in it only if that is asked for. With
errors.deadletterqueue.context.headers.enable it has Connect's headers (DeadLetterQueueReporter in
Kafka 4.3) too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dblog.codecs.json import JsonForm, value_writer
from dblog.codecs.schema import Schema
from dblog.errors import DefiniteError
from dblog.model import Headers, Segment
from dblog.transforms.envelopes import is_envelope
from dblog.transforms.faults import RecordError
from dblog.transforms.record import Record

_FORM = JsonForm(replace_null_with_default=False)
_HEADER = "__connect.errors."
_POSITION = ("sequence", "file", "pos", "row", "gtid", "lsn", "txId", "snapshot", "ts_ms")
"""Fields of the source block that say where a change stands, none of which is a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The topic, and what its records hold. ``whole`` adds the failed key and value."""

    topic: str
    connector: str
    task: int
    whole: bool = False
    headers: bool = False

    def segment(self, source: Segment, record: Record, error: RecordError) -> Segment:
        """Return the record about a failed one of ``source``, as a segment that no table's rows
        are counted by.

        ``record`` is the failed one as its encoder made it. The key is the digest of its key, so that
        all failures of a row are in one partition.
        """
        digest = None if record.key_bytes is None else sha256(record.key_bytes).hexdigest()
        about = {
            "connector": self.connector,
            "task": self.task,
            "topic": source.topic,
            "table": None if source.table is None else str(source.table),
            "stage": error.stage,
            "class": error.class_name,
            "reason": str(error),
            "key_sha256": digest,
            **_place(record),
        }
        text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
        if self.whole:
            text = f'{text[:-1]},"key":{_json(record.key_schema, record, of_key=True)},"value":{_json(record.value_schema, record, of_key=False)}}}'
        return Segment(
            self.topic,
            [None if digest is None else digest.encode()],
            [text.encode()],
            context_headers=False,
            headers={0: self._headers(source, error)} if self.headers else {},
            way_out="set dblog.errors.deadletterqueue.records=false" if self.whole else "",
        )

    def _headers(self, source: Segment, error: RecordError) -> Headers:
        found = {
            "topic": source.topic,
            "connector.name": self.connector,
            "task.id": str(self.task),
            "stage": error.stage,
            "class.name": error.class_name,
            "exception.class.name": type(error).__name__,
            "exception.message": str(error),
        }
        return [(f"{_HEADER}{name}", text.encode()) for name, text in found.items()]


def _place(record: Record) -> dict[str, Any]:
    """Return operation and position of a change; nothing for another record, or one that cannot be
    read.
    """
    if not is_envelope(record.value_schema):
        return {}
    try:
        value: Mapping[str, Any] | None = record.value
    except RecordError:
        return {}
    if value is None:
        return {}
    source = value.get("source") or {}
    return {"op": value.get("op"), "position": {name: source[name] for name in _POSITION if source.get(name) is not None}}


def _json(schema: Schema | None, record: Record, *, of_key: bool) -> str:
    """Return a key or value as JSON with its schema; null if there is none, or it cannot be read."""
    try:
        value = record.key if of_key else record.value
        return "null" if schema is None or value is None else value_writer(schema, _FORM)(value).decode()
    except (RecordError, DefiniteError):
        return "null"
