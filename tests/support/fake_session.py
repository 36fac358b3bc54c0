"""A database in memory for the chunk reader: rows, watermarks, snapshots, key ranges, row packets.

Any number of ``FakeDumpConnection`` share a ``FakeDatabase``; ``fake_sql`` replaces the dialect's
statements. Columns hold integers, texts or None. Everything is committed at once; a snapshot is a
copy.
"""

from __future__ import annotations

import copy
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dblog.dialects.mysql.wire.protocol import length_encoded, packets
from dblog.errors import TableChangedError, TransientError
from dblog.model import Table, TableId
from dblog.ports import ChunkRows

Row = tuple[Any, ...]


class FakeDatabase:
    """Tables and watermarks.

    ``on_commit`` is called with (watermark name, token) or (table, row), so that a test can build a
    log.
    """

    def __init__(self, *, on_commit: Callable[[Any, Any], None] | None = None) -> None:
        self.lock = threading.RLock()
        self.tables: dict[TableId, Table] = {}
        self.rows: dict[TableId, list[Row]] = {}
        self.watermarks: dict[str, str] = {}
        self.selects: list[tuple[str, tuple[Any, ...]]] = []
        self._on_commit = on_commit
        self._hidden: tuple[TableId, Row] | None = None
        self.logged = self.visible = 0
        """Number of log entries, and of the first ones that snapshots show, for read-only mode.

        The test that builds the log maintains both.
        """

    def create(self, table: Table) -> None:
        with self.lock:
            self.tables[table.id] = table
            self.rows[table.id] = []

    def insert(self, table: TableId, *rows: Row) -> None:
        with self.lock:
            for row in rows:
                self.rows[table].append(row)
                self._committed(table, row)

    def delete(self, table: TableId, key: Row) -> None:
        with self.lock:
            definition = self.tables[table]
            self.rows[table] = [row for row in self.rows[table] if _key_of(definition, row) != key]
            self._committed(table, key)

    def watermark(self, name: str, token: str) -> None:
        with self.lock:
            assert self.watermarks.get(name) != token, "a token must not be used twice: it would leave no event in the log"
            self.watermarks[name] = token
            self._committed(name, token)

    def hide_from_next_snapshot(self, table: TableId, row: Row) -> None:
        """Commit a row that is in the log at once, but not in the next snapshot.

        Neither that snapshot nor its watermarks show it: changes become visible in the log's order.
        """
        with self.lock:
            self.insert(table, row)
            self._hidden = (table, row)

    def snapshot(self) -> tuple[dict[TableId, list[Row]], dict[str, str]]:
        with self.lock:
            if self._hidden is not None:
                (table, row), self._hidden = self._hidden, None
                view = copy.deepcopy(self.rows)
                view[table].remove(row)
                return view, {}
            return copy.deepcopy(self.rows), dict(self.watermarks)

    def _committed(self, what: Any, value: Any) -> None:
        if self._on_commit is not None:
            self._on_commit(what, value)


class FakeSql:
    """The dialect's statements, in the form of names that ``FakeDumpConnection`` understands."""

    def chunk_select(
        self, table: Table, after: Row | None, upto: Row | None, rows_max: int, *, where: str | None = None
    ) -> tuple[str, tuple[Any, ...]]:
        return f"chunk {table.id}", (after, upto, rows_max)

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        return f"max {table.id}", ()

    def exact_key(self, table: Table, shown: Row) -> Row | None:
        return shown

    def last_key(
        self, table: Table, after: Row | None, upto: Row | None, row_count: int, *, where: str | None = None
    ) -> tuple[str, tuple[Any, ...]]:
        return f"nth {table.id}", (after, upto, row_count)

    def key_lookup(self, table: Table, key: Row, after: Row | None, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        return f"lookup {table.id}", (key, after)

    def by_place(self, table: Table) -> Table:
        return table

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        return f"scan {table.id}", (rows_max,)

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        names = [column.name for column in table.columns]
        return tuple(names.index(name) for name in table.key)


fake_sql = FakeSql()


class FakeDumpConnection:
    """A ``ports.DumpConnection``.

    ``before_select`` lets a test change the database between snapshot and SELECT, or fail.
    """

    def __init__(self, database: FakeDatabase, *, before_select: Callable[[], None] | None = None) -> None:
        self._database = database
        self._before_select = before_select
        self._view: tuple[dict[TableId, list[Row]], dict[str, str]] | None = None
        self._closed = False

    def write_watermark(self, name: str, token: str) -> None:
        self._check()
        self._database.watermark(name, token)

    def snapshot_shown(self) -> None:
        pass

    def begin_snapshot(self) -> None:
        self._check()
        self._view = self._database.snapshot()

    def limit_selects(self, limit_s: float) -> None:
        self._check()

    def begin_snapshot_behind(self, low: Any) -> bool:
        self._check()
        with self._database.lock:
            shows = self._database.visible >= low.entries
            if shows:
                self.begin_snapshot()
        return shows

    def log_end(self) -> int:
        self._check()
        with self._database.lock:
            return self._database.logged

    def read_watermark(self, name: str) -> str | None:
        self._check()
        _, watermarks = self._view or self._database.snapshot()
        return watermarks.get(name)

    def select(
        self, statement: str, parameters: Sequence[Any], *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        self._check()
        if self._before_select is not None:
            self._before_select()
        self._database.selects.append((statement, tuple(parameters)))
        verb, _, name = statement.partition(" ")
        found = self._database.tables.get(TableId(*name.split(".", 1)))
        if found is None:
            raise TableChangedError(f"the table {name} is gone")
        rows = self._rows_of(found, verb, parameters)
        kept = bytearray()
        count = 0
        for row in rows:
            kept += packets(_binary(row))
            count += 1
            if bytes_max and len(kept) > bytes_max:
                break
        last_key = tuple(rows[count - 1][i] for i in key) if count and key else None
        return ChunkRows(rows=bytes(kept), row_count=count, last_key=last_key)

    def complete(
        self,
        chunk: ChunkRows,
        table: Table,
        after: Sequence[Any] | None,
        *,
        keys: Sequence[Sequence[Any]] | None = None,
        where: str | None = None,
    ) -> ChunkRows:
        self._check()
        return chunk

    def end_snapshot(self) -> None:
        self._check()
        self._view = None

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise TransientError("the connection is closed")

    def _rows_of(self, table: Table, verb: str, parameters: Sequence[Any]) -> list[Row]:
        tables, _ = self._view or self._database.snapshot()
        rows = tables[table.id]
        if verb == "scan":
            return rows[: parameters[0]]
        ordered = sorted(rows, key=lambda row: _key_of(table, row))
        if verb == "constant":
            return [tuple(parameters[0])]
        if verb == "max":
            return [_key_of(table, row) for row in ordered[-1:]]
        if verb == "lookup":
            wanted_key, behind = parameters
            return [
                row for row in ordered if _key_of(table, row) == tuple(wanted_key) and (behind is None or tuple(wanted_key) > tuple(behind))
            ]
        after, upto, rows_max = parameters
        # The result has only the key.
        if verb == "nth":
            keys = [_key_of(table, row) for row in self._between(table, ordered, after, upto)]
            return keys[rows_max - 1 : rows_max]
        return self._between(table, ordered, after, upto)[:rows_max]

    @staticmethod
    def _between(table: Table, ordered: Sequence[Row], after: Row | None, upto: Row | None) -> list[Row]:
        return [
            row
            for row in ordered
            if (after is None or _key_of(table, row) > tuple(after)) and (upto is None or _key_of(table, row) <= tuple(upto))
        ]


def _key_of(table: Table, row: Row) -> Row:
    return tuple(row[i] for i in fake_sql.key_indexes(table))


def _binary(row: Row) -> bytes:
    """Return a row in the binary protocol: integers as BIGINT, texts with their length."""
    nulls = bytearray((len(row) + 9) // 8)
    values = b""
    for i, value in enumerate(row):
        if value is None:
            nulls[(i + 2) >> 3] |= 1 << ((i + 2) & 7)
        elif isinstance(value, int):
            values += struct.pack("<q", value)
        else:
            values += length_encoded(str(value).encode())
    return b"\0" + bytes(nulls) + values
