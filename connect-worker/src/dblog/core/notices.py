"""Derives the notifications that Debezium would send about a dump's steps, from the dump's state
before and after a change. Pure.

Types, field names and texts are those of Debezium's notifications ("Receiving Debezium
notifications"). A requested dump is an incremental snapshot. The connector's own dump, and one that
a signal requested as blocking, are initial snapshots. A notice describes a change of state and is
sent with the batch that stores this change in the offset. Changes that a kill undoes are notified
again, and none is lost. # I1

A verification sends no rows, so it has no notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dblog.core.dumprequests import Mode, Wanted
from dblog.core.dumps import Dump
from dblog.core.requested import STOPPED, End, RequestedDump
from dblog.core.table_dump import Key, TableDump
from dblog.model import TableId

INCREMENTAL = "Incremental Snapshot"
INITIAL = "Initial Snapshot"
TABLES_NAMED_MAX = 1000
"""Number of tables that a notice lists at most; with more it lists none. Each table has notices of
its own, and each would list all the others.
"""
KEYS = ("maximum_key", "last_processed_key")
"""Names of the fields that hold values of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notification. ``id`` is None if any unique id will do."""

    id: str | None
    aggregate: str
    type: str
    data: Mapping[str, str] = field(default_factory=dict)


def of_request(before: RequestedDump | None, after: RequestedDump | None, table: TableId | None = None) -> list[Notice]:
    """Return the notices of a requested dump. If ``table`` is given, only this table's progress can
    have changed.
    """
    if after is None or after is before or after.request.mode is Mode.VERIFY:
        return []
    blocking = after.request.signal is not None and after.request.signal.blocking
    snapshot = _Initial() if blocking else _Incremental(after.request.id if after.request.signal is None else after.request.signal.id)
    out: list[Notice] = []
    if before is None:
        out.append(snapshot.started(after.dump, after.request.tables))
    was = after.dump if before is None else before.dump
    if before is not None or after.end is not None:
        out += _tables(snapshot, was, after.dump, table)
    if before is not None and before.end is None and before.request.wanted is not after.request.wanted:
        match before.request.wanted, after.request.wanted:
            case _, Wanted.PAUSED:
                out += snapshot.stepped("PAUSED", after.dump)
            case Wanted.PAUSED, Wanted.RUNNING:
                out += snapshot.stepped("RESUMED", after.dump)
            case _:
                pass
    if after.end is not None and (before is None or before.end is None):
        if after.end is not End.STOPPED:
            if not after.dump.tables_total:
                out += [snapshot.unknown(name, after.request.tables) for name in after.request.tables[:TABLES_NAMED_MAX]]
            out.append(snapshot.completed())
        elif before is None or after.dump.left:  # otherwise each table's stop has been notified
            out += snapshot.aborted(after.dump.left)
    return out


def of_own(before: Dump | None, after: Dump | None, table: TableId | None = None) -> list[Notice]:
    """Return the notices of the connector's own dump. If tables join a dump that had ended, a new
    snapshot has started.
    """
    if after is None or after is before:
        return []
    snapshot = _Initial()
    if before is None or (before.ended and not after.ended):
        out = [snapshot.started(after, ())]
        was = after if before is None else before
        return [
            *out,
            *(_tables(snapshot, was, after, table) if before is not None else ()),
            *([snapshot.completed()] if after.ended else ()),
        ]
    out = _tables(snapshot, before, after, table)
    return [*out, snapshot.completed()] if after.ended and not before.ended else out


def _tables(snapshot: _Incremental | _Initial, before: Dump, after: Dump, table: TableId | None) -> list[Notice]:
    out: list[Notice] = []
    stopped: list[TableId] = []
    for name in (table,) if table is not None else tuple(after.left) + tuple(after.over):
        now, was = after.table(name), before.table(name)
        # A table that was renamed has been notified under its old name.
        if now is None or was is None or now is was:
            continue
        out += snapshot.read(before, was, now)
        if now.ended and not was.ended:
            if now.fault == STOPPED:
                stopped.append(name)
            else:
                out.append(snapshot.scanned(before, now))
    return out + (snapshot.aborted(stopped) if stopped else [])


class _Incremental:
    """Notices of an incremental snapshot, under the id of the signal or of the request."""

    def __init__(self, identity: str) -> None:
        self._id = identity

    def _notice(self, kind: str, data: Mapping[str, str] | None = None) -> Notice:
        return Notice(id=self._id, aggregate=INCREMENTAL, type=kind, data=data or {})

    def started(self, dump: Dump, patterns: tuple[str, ...]) -> Notice:
        return self._notice("STARTED", _listed(dump.left or dump.over or patterns))

    def stepped(self, kind: str, dump: Dump) -> list[Notice]:
        return [self._notice(kind, _listed(dump.left))]

    def read(self, before: Dump, was: TableDump, now: TableDump) -> list[Notice]:
        """Return the notice of a chunk whose rows were sent."""
        if now.chunks <= was.chunks or now.rows <= was.rows:
            return []
        data = {"current_collection_in_progress": str(now.table), "maximum_key": _key(now.upto), "last_processed_key": _key(now.after)}
        return [self._notice("IN_PROGRESS", {**_listed(before.left), **data})]

    def scanned(self, before: Dump, now: TableDump) -> Notice:
        data = {"scanned_collection": str(now.table), "total_rows_scanned": str(now.rows), "status": _status(now)}
        return self._notice("TABLE_SCAN_COMPLETED", {**_listed(before.left), **data})

    def unknown(self, pattern: str, patterns: tuple[str, ...]) -> Notice:
        data = {"scanned_collection": pattern, "total_rows_scanned": "0", "status": "UNKNOWN_SCHEMA"}
        return self._notice("TABLE_SCAN_COMPLETED", {**_listed(patterns), **data})

    def aborted(self, tables: Iterable[TableId]) -> list[Notice]:
        return [self._notice("ABORTED", _listed(tables))]

    def completed(self) -> Notice:
        return self._notice("COMPLETED")


class _Initial:
    """Notices of an initial or blocking snapshot, each with an id of its own."""

    def _notice(self, kind: str, data: Mapping[str, str] | None = None) -> Notice:
        return Notice(id=None, aggregate=INITIAL, type=kind, data=data or {})

    def started(self, _dump: Dump, _patterns: tuple[str, ...]) -> Notice:
        return self._notice("STARTED")

    def stepped(self, _kind: str, _dump: Dump) -> list[Notice]:
        return []

    def read(self, before: Dump, was: TableDump, now: TableDump) -> list[Notice]:
        """Return the notice that a table has been started. A table without a key is started and
        finished in one step.
        """
        whole = now.done and not now.started and not now.cut_short
        if was.started or not (now.started or whole):
            return []
        return [self._notice("IN_PROGRESS", {**_all_of(before), "current_collection_in_progress": str(now.table)})]

    def scanned(self, before: Dump, now: TableDump) -> Notice:
        failed = now.fault is not None
        data = {"scanned_collection": str(now.table), "status": "SQL_EXCEPTION" if failed else "SUCCEEDED"}
        if not failed:
            data |= {**_all_of(before), "total_rows_scanned": str(now.rows)}
        return self._notice("TABLE_SCAN_COMPLETED", data)

    def unknown(self, pattern: str, _patterns: tuple[str, ...]) -> Notice:
        return self._notice("TABLE_SCAN_COMPLETED", {"scanned_collection": pattern, "status": "SQL_EXCEPTION"})

    def aborted(self, _tables: Iterable[TableId]) -> list[Notice]:
        return [self._notice("ABORTED")]

    def completed(self) -> Notice:
        return self._notice("COMPLETED")


def _status(now: TableDump) -> str:
    if now.fault is not None:
        return "SQL_EXCEPTION"
    if now.cut_short:
        return "UNKNOWN_SCHEMA"
    return "EMPTY" if now.upto is None and not now.rows else "SUCCEEDED"


def _all_of(dump: Dump) -> dict[str, str]:
    count = len(dump.left) + len(dump.over)
    return _listed(sorted((*dump.left, *dump.over), key=str)) if count <= TABLES_NAMED_MAX else {}


def _listed(tables: Iterable[object]) -> dict[str, str]:
    names = tables if hasattr(tables, "__len__") else list(tables)
    return {"data_collections": ",".join(map(str, names))} if len(names) <= TABLES_NAMED_MAX else {}  # type: ignore[arg-type]


def _key(key: Key | None) -> str:
    return ",".join(map(_value, key or ()))


def _value(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
