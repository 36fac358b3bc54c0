"""The takeover of Debezium's schema history: its records up to the stored offset become our
timeline, so that a running connector is taken over in place.

Debezium keeps every statement that it ever saw, beginning with those that make the tables of its
first snapshot (its manual, Schema history topic). Our parser replays them, and each result is
compared with the columns that Debezium recorded with the statement. If they differ, or if the
statement cannot be followed, the table is marked to be read from the server at its first row, as
after any statement that is not understood. # I4

Whether a record lies before the offset is decided as in Debezium: by GTID sets if both have them,
else by file, position and event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dblog.core.changes import Change
from dblog.core.timeline import Timeline
from dblog.dialects.mysql.binlog.position import file_index
from dblog.model import OffsetMap, TableId

Parse = Callable[[str, str, tuple[int, int]], Iterable[Change]]
"""(statement, default database, position) -> its changes, with the timeline's tables just before
it.
"""

Include = Callable[[str, str], bool]
"""(GTIDs, others) -> whether they contain all of the others; ``LogProgress.gtids_include``."""


def take_over(records: Iterable[bytes], timeline: Timeline, *, server: str, offset: OffsetMap, parse: Parse, include: Include) -> int:
    """Fill ``timeline`` from Debezium's records of one server (topic.prefix); return how many were
    used. The versions are valid before every position of a log.
    """
    taken = 0
    before: tuple[str, str] | None = None
    for value in records:
        record = _record(value)
        if record is None or _mapping(record.get("source")).get("server") != server:
            continue
        recorded_at, statement = _mapping(record.get("position")), record.get("ddl")
        if not isinstance(statement, str) or not is_before(recorded_at, offset, include=include):
            continue
        taken += 1
        position = (0, taken)
        now = (json.dumps(recorded_at, sort_keys=True), statement)
        if now != before:  # there is one record per table of a statement, but it is replayed once
            timeline.apply(parse(statement, str(record.get("databaseName") or ""), position), position, ddl=statement)
        before = now
        for change in record.get("tableChanges") or ():
            _check(change, timeline, position)
    timeline.prune((0, taken))
    return taken


def is_before(recorded_at: Mapping[str, Any], offset: OffsetMap, *, include: Include) -> bool:
    """Return whether the change recorded at ``recorded_at`` has happened before ``offset``."""
    if recorded_at.get("snapshot") and not offset.get("snapshot"):
        return True
    ours, theirs = offset.get("gtids"), recorded_at.get("gtids")
    if isinstance(ours, str) and isinstance(theirs, str):
        return include(ours, theirs)
    return _in_file(recorded_at) <= _in_file(offset)


def _in_file(recorded_at: Mapping[str, Any]) -> tuple[int, int, int]:
    file, pos, event = recorded_at.get("file"), recorded_at.get("pos"), recorded_at.get("event")
    return (
        file_index(file) if isinstance(file, str) and file else 0,
        pos if isinstance(pos, int) else 0,
        event if isinstance(event, int) else 0,
    )


def _check(reported: object, timeline: Timeline, recorded_at: tuple[int, int]) -> None:
    """Mark a table to be read again if the replay and Debezium's record give it different columns."""
    change = _mapping(reported)
    id_, noted = table_id(str(change.get("id", ""))), change.get("table")
    if id_ is None or not timeline.versions(id_) or not isinstance(noted, dict):
        return
    known = timeline.current_table(id_)
    names = [str(column.get("name")) for column in noted.get("columns", ()) if isinstance(column, dict)]
    if known is not None and [column.name for column in known.columns] != names:
        timeline.mark_stale(id_, recorded_at, "Debezium's history notes other columns than its statements make")


def table_id(text: str) -> TableId | None:
    """Parse ``"db"."t"`` as Debezium writes it, with quotes doubled inside; return None for
    anything else.
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != '"':
            return None
        end = at + 1
        while True:
            end = text.find('"', end)
            if end < 0:
                return None
            if text[end + 1 : end + 2] != '"':
                break
            end += 2
        parts.append(text[at + 1 : end].replace('""', '"'))
        at = end + 2 if text[end + 1 : end + 2] == "." else end + 1
    return TableId(parts[0], parts[1]) if len(parts) == 2 else None  # noqa: PLR2004 - database and table


def _record(value: bytes) -> Mapping[str, Any] | None:
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and "ddl" in parsed else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
