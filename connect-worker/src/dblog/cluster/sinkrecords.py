"""Reads the records in which sinks report of themselves. Pure.

The contract is schemas/sink.avsc and schemas/sink_table.avsc. Anyone who may write the topic may
write anything into it, so each field is checked and cut here: a field of the wrong kind counts as
absent, an unknown one is ignored, and a record of another version keeps only the facts that say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
"""Version of the records that this worker reads."""
VALUE_BYTES_MAX = 16 * 1024
TEXT_MAX = 500
_KEY_BYTES_MAX = 4096
_WORK_MAX = 10
_NUMBER_MAX = 2**63


@dataclass(frozen=True, slots=True, order=True)
class SinkId:
    """A sink: the name of its pipeline, and where it keeps its state."""

    name: str
    state_path: str


@dataclass(frozen=True, slots=True)
class SinkKey:
    """Key of a record. ``topic`` is the table's; None for the record of the sink itself."""

    sink: SinkId
    topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The last comparison of a table with its source, with numbers of rows."""

    result: str
    at_ms: int | None
    why: str
    counts: Mapping[str, int]
    """Numbers of rows: equal, differing, missing, invented, changed."""

    @property
    def wrong(self) -> int:
        """Rows that are not what the source has."""
        return sum(self.counts.get(each, 0) for each in ("differing", "missing", "invented"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReport:
    """A sink's report of itself. A field that it did not report is None or empty."""

    version: int
    at_ms: int
    program: str = ""
    lake: str = ""
    topics: str = ""
    interval_s: float = 10.0
    started_ms: int | None = None
    state: str = ""
    """starting, running, restarting, failed or stopped. Empty in a version that is not known here."""
    reason: str = ""
    restarts: int | None = None
    batches: int | None = None
    batch_id: int | None = None
    batch_ms: int | None = None
    records_behind: int | None = None
    rows_waiting: int | None = None
    lag_s: float | None = None
    rows_quarantined: int | None = None
    snapshot: Mapping[str, int | None] = field(default_factory=dict)
    """Fields number, source_ts_ms, published_ms, tables, incomplete; empty without a snapshot."""
    blocked: str = ""
    """Transaction that blocks the next snapshot."""
    blocked_ms: int | None = None
    tables: int | None = None
    parked: int | None = None
    work: tuple[str, ...] = ()
    work_more: int = 0

    @property
    def is_known(self) -> bool:
        """True if this worker knows the version of the record."""
        return self.version == VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """A sink's report of a table. A field that it did not report is None or empty."""

    at_ms: int
    name: str
    path: str = ""
    mode: str = ""
    parked: str | None = None
    """Why the table is parked. None: it is not."""
    rows: int | None = None
    rows_waiting: int | None = None
    merged_up_to: int | None = None
    records: int | None = None
    upserts: int | None = None
    deletes: int | None = None
    quarantined: int | None = None
    rows_missing: int | None = None
    source_ts_ms: int | None = None
    source_lag_s: float | None = None
    written_ms: int | None = None
    schema_changed_ms: int | None = None
    verified: Verdict | None = None


def read_key(key: bytes | None) -> SinkKey | None:
    """Return the key of a record, or None if it is not a sink's."""
    found = _object(key, _KEY_BYTES_MAX)
    if found is None:
        return None
    name, state, topic = found.get("sink"), found.get("state"), found.get("topic")
    if not isinstance(name, str) or not isinstance(state, str) or not (topic is None or isinstance(topic, str)):
        return None
    return SinkKey(SinkId(name, state), topic)


def key_of(sink: SinkId, topic: str | None) -> bytes:
    """Return the key of a record as sinks write it."""
    key = {"sink": sink.name, "state": sink.state_path, "topic": topic}
    return json.dumps(key, separators=(",", ":"), ensure_ascii=False).encode()


def read_sink(value: bytes) -> SinkReport | None:
    """Return a sink's report of itself, or None if it cannot be read."""
    found = _object(value, VALUE_BYTES_MAX)
    if found is None:
        return None
    version, at_ms = _whole(found, "version"), _whole(found, "at_ms")
    if version is None or at_ms is None:
        return None
    if version != VERSION:
        return SinkReport(version=version, at_ms=at_ms, program=_text(found, "program"))
    snapshot, blocked, work = _part(found, "snapshot"), _part(found, "blocked"), found.get("work")
    return SinkReport(
        version=version,
        at_ms=at_ms,
        program=_text(found, "program"),
        lake=_text(found, "lake"),
        topics=_text(found, "topics"),
        interval_s=max(1.0, _number(found, "interval_s") or 0.0),
        started_ms=_whole(found, "started_ms"),
        state=_text(found, "state"),
        reason=_text(found, "reason"),
        restarts=_whole(found, "restarts"),
        batches=_whole(found, "batches"),
        batch_id=_whole(found, "batch_id"),
        batch_ms=_whole(found, "batch_ms"),
        records_behind=_whole(found, "records_behind"),
        rows_waiting=_whole(found, "rows_waiting"),
        lag_s=_number(found, "lag_s"),
        rows_quarantined=_whole(found, "rows_quarantined"),
        snapshot={name: _whole(snapshot, name) for name in ("number", "source_ts_ms", "published_ms", "tables", "incomplete")}
        if snapshot
        else {},
        blocked=_text(blocked, "transaction"),
        blocked_ms=_whole(blocked, "since_ms"),
        tables=_whole(found, "tables"),
        parked=_whole(found, "parked"),
        work=tuple(each[:TEXT_MAX] for each in work[:_WORK_MAX] if isinstance(each, str)) if isinstance(work, list) else (),
        work_more=_whole(found, "work_more") or 0,
    )


def read_table(value: bytes) -> SinkTable | None:
    """Return a sink's report of a table, or None if it cannot be read or has another version."""
    found = _object(value, VALUE_BYTES_MAX)
    if found is None or _whole(found, "version") != VERSION or (at_ms := _whole(found, "at_ms")) is None:
        return None
    verdict = _part(found, "verified")
    return SinkTable(
        at_ms=at_ms,
        name=_text(found, "name"),
        path=_text(found, "path"),
        mode=_text(found, "mode"),
        parked=_text(found, "parked") if isinstance(found.get("parked"), str) else None,
        rows=_whole(found, "rows"),
        rows_waiting=_whole(found, "rows_waiting"),
        merged_up_to=_whole(found, "merged_up_to"),
        records=_whole(found, "records"),
        upserts=_whole(found, "upserts"),
        deletes=_whole(found, "deletes"),
        quarantined=_whole(found, "quarantined"),
        rows_missing=_whole(found, "rows_missing"),
        source_ts_ms=_whole(found, "source_ts_ms"),
        source_lag_s=_number(found, "source_lag_s"),
        written_ms=_whole(found, "written_ms"),
        schema_changed_ms=_whole(found, "schema_changed_ms"),
        verified=_verdict(verdict) if verdict else None,
    )


def _verdict(found: Mapping[str, Any]) -> Verdict:
    names = ("equal", "differing", "missing", "invented", "changed")
    return Verdict(
        result=_text(found, "result"),
        at_ms=_whole(found, "at_ms"),
        why=_text(found, "why"),
        counts={name: _whole(found, name) or 0 for name in names},
    )


def _object(data: bytes | None, bytes_max: int) -> dict[str, Any] | None:
    if data is None or len(data) > bytes_max:
        return None
    try:
        found = json.loads(data)
    # Nesting too deep for the parser is a RecursionError.
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _NUMBER_MAX else None


def _number(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    # NaN is not smaller than anything.
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NUMBER_MAX else None
