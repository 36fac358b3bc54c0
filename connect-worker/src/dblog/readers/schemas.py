"""Gives the log reader the encoder that fits a table at the log's position, and keeps timeline and history in step with the log. # I4

``resolve`` answers a table map: the table valid there, checked against what the table map says; repaired where full metadata tells how, read again from
the server where it does not. ``statement`` takes a DDL statement: the timeline is changed and the history written before the log goes on.

The log thread moves it; chunk threads ask for tables, and the committer lets versions go: one lock serves all, and none asks per row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from dblog.codecs.rowplan import RowEncoder
from dblog.core.changes import Change, TruncateTable, tables_of
from dblog.core.crosscheck import Agreed, Mismatch, Repaired, Seen, cross_check
from dblog.core.timeline import Absent, Known, Parked, Position, Stale, Timeline
from dblog.errors import DefiniteError
from dblog.model import Column, Table, TableId
from dblog.readers.history import SchemaHistory

log = structlog.get_logger(__name__)


Merge = Callable[[Column, Column], Column]
"""(known, seen) -> the column to decode with; see ``core.crosscheck.cross_check``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """What a dialect knows about table maps, statements and its catalog."""

    read_table_map: Callable[[bytes], tuple[TableId, Seen, Merge]]
    parse_statement: Callable[[Any, Position], Iterable[Change]]
    """A QUERY event's body as the dialect reads it, and the position at which its changes hold."""
    is_row_change: Callable[[str], bool]
    """Whether a statement changes rows: in a log of rows it must not occur."""
    read_table: Callable[[TableId], Table | None]
    """The table as the server has it now."""


class Schemas:
    """One task's schemas. ``includes`` is the selection of captured tables; ``patience`` waits out a broker that is away while the history is written."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        history: SchemaHistory,
        dialect: SchemaDialect,
        includes: Callable[[TableId], bool],
        build_encoder: Callable[[Table], RowEncoder],
        patience: Callable[[Callable[[], None]], None] = lambda call: call(),
    ) -> None:
        self._patience = patience
        self._timeline = timeline
        self._history = history
        self._dialect = dialect
        self._includes = includes
        self._build_encoder = build_encoder
        self._encoders: dict[TableId, RowEncoder] = {}
        self._ignored_before: dict[TableId, Position] = {}
        self._lock = threading.RLock()

    @property
    def timeline(self) -> Timeline:
        """The timeline itself."""
        return self._timeline

    def captured(self) -> list[TableId]:
        """Captured tables that exist at the newest position, in order."""
        return sorted(t.id for t in self._timeline.captured_tables())

    def table(self, table: TableId) -> Table | None:
        """The newest known version; asked by chunk threads as well."""
        with self._lock:
            return self._timeline.current_table(table)

    def encoder(self, table: TableId) -> RowEncoder | None:
        """The encoder of the newest version; None when the table is not known (any more)."""
        current = self._timeline.current_table(table)
        return None if current is None else self._encoder_of(current)

    def ignore_before(self, table: TableId, position: Position) -> None:
        """The table joined the connector at ``position``: older rows are not its business (it is dumped, or followed from there)."""
        self._ignored_before[table] = position

    def resolve(self, table_map: bytes, position: Position) -> RowEncoder | None:
        """The encoder for rows behind this table map; None when the table is not captured. DefiniteError when the columns cannot be told."""
        with self._lock:
            return self._resolve(table_map, position)

    def _resolve(self, table_map: bytes, position: Position) -> RowEncoder | None:
        table_id, seen, merge = self._dialect.read_table_map(table_map)
        if not self._includes(table_id) or not seen.is_table:
            return None
        if position < self._ignored_before.get(table_id, (0, 0)):
            return None
        match self._timeline.state_at(table_id, position):
            case Known(table):
                return self._checked(table, seen, merge, position)
            case Stale(reason, last):
                return self._refreshed(table_id, last, seen, merge, position, reason)
            case Absent():
                return self._refreshed(table_id, None, seen, merge, position, "no version of it is known")
            case Parked(reason):
                message = f"{table_id} is parked: {reason}"
                raise DefiniteError(message)

    def statement(
        self, query: Any, text: str, *, position: Position, note: dict[str, object]
    ) -> tuple[tuple[Change, ...], tuple[TableId, ...]]:
        """Apply one statement of the log, valid from ``position`` on; returns its changes and the captured tables that they touch.

        DefiniteError for a statement that changes rows of captured tables without rows in the log. # I5
        """
        with self._lock:
            self._refuse_row_changes(text)
            changes = tuple(self._dialect.parse_statement(query, position))
            before = dict(self._timeline.databases)
            changed = self._timeline.apply(changes, position, ddl=text, note=note)
            after = self._timeline.databases
            databases = [name for name in {*before, *after} if before.get(name) != after.get(name)]
            if changed or databases:
                self._patience(lambda: self._history.save(self._timeline, changed, databases=databases))
            for table in changed:
                self._encoders.pop(table, None)
            truncated = [t for c in changes if isinstance(c, TruncateTable) for t in tables_of(c)]
            return changes, tuple(t for t in dict.fromkeys((*changed, *truncated)) if self._includes(t))

    def _refuse_row_changes(self, text: str) -> None:
        if not self._dialect.is_row_change(text):
            return
        lowered = text.lower()
        for table in self._timeline.captured_tables():
            if table.id.name.lower() in lowered:
                message = (
                    f"the log holds a statement that changes rows of {table.id} (statement-based logging) instead of the rows; run SET GLOBAL "
                    "binlog_format = 'ROW', let sessions reconnect, and reset the connector's offsets to dump anew"
                )
                raise DefiniteError(message)

    def committed(self, position: Position) -> None:
        """An offset has been stored: versions that no restart needs may go."""
        with self._lock:
            self._history.prune(self._timeline, position)

    def _checked(self, table: Table, seen: Seen, merge: Merge, position: Position) -> RowEncoder:
        match cross_check(table, seen, merge):
            case Agreed():
                return self._encoder_of(table)
            case Repaired(repaired, reasons):
                log.info("table schema corrected by the log's metadata", table=str(table.id), reasons=list(reasons))
                self._timeline.repair(repaired, position, note={})
                self._save(table.id)
                return self._encoder_of(repaired)
            case Mismatch(reason):
                return self._refreshed(table.id, table, seen, merge, position, reason)

    def _refreshed(self, table_id: TableId, last: Table | None, seen: Seen, merge: Merge, position: Position, why: str) -> RowEncoder:
        """Read the table from the server, and take it if it fits what the log says; else go by the log's own metadata if that is full."""
        table = self._dialect.read_table(table_id)
        log.info("table schema read from the server", table=str(table_id), reason=why, found=table is not None)
        candidates = [t for t in (table, last) if t is not None]
        for candidate in candidates:
            match cross_check(candidate, seen, merge):
                case Agreed():
                    return self._accepted(candidate, position)
                case Repaired(repaired, _) if seen.named:
                    return self._accepted(repaired, position)
                case _:
                    pass
        if seen.named:
            key = seen.key or ()
            return self._accepted(Table(id=table_id, columns=tuple(seen.columns), key=key, primary_key=bool(key)), position)
        message = (
            f"the columns of {table_id} cannot be told ({why}), and the server's table does not fit the log any more: its rows would be decoded wrongly; "
            "set binlog_row_metadata=FULL on the server so that the log names its columns, then reset the connector's offsets to dump anew, "
            "or leave the table out with table.exclude.list"
        )
        raise DefiniteError(message)

    def _accepted(self, table: Table, position: Position) -> RowEncoder:
        self._timeline.repair(table, position, note={})
        self._save(table.id)
        return self._encoder_of(table)

    def _save(self, table: TableId) -> None:
        self._patience(lambda: self._history.save(self._timeline, [table]))

    def _encoder_of(self, table: Table) -> RowEncoder:
        encoder = self._encoders.get(table.id)
        if encoder is None or encoder.plan.table != table:
            encoder = self._build_encoder(table)
            self._encoders[table.id] = encoder
        return encoder
