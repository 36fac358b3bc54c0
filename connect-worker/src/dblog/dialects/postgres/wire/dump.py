"""Manages the connections of a dump: watermarks are written on one, and chunks are read in a
snapshot on the other.

A watermark is a logical message (pg_logical_emit_message) in its own transaction; it needs neither
table nor privilege. A window proves itself (D5): the low watermark's transaction must be visible in
the chunk's snapshot. On PostgreSQL that does not prove that the snapshot shows everything in the
log before the watermark. A transaction is logged before it is visible, and one that was logged
earlier may become visible later. So the snapshot's own text accompanies the rows, and the log
thread compares it with what was logged (pgoutput/visibility.py). # I2

Rows come by COPY in the same form as in the log, and stay in that form: the row plan reads them
(D4).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.catalog.read_columns import ReadColumns
from dblog.dialects.postgres.catalog.tables import of_rows
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import lsn_of
from dblog.dialects.postgres.pgoutput.row_image import fields_of_line
from dblog.dialects.postgres.pgoutput.visibility import Snapshot
from dblog.dialects.postgres.wire import _libpq
from dblog.dialects.postgres.wire.check import grants_for
from dblog.dialects.postgres.wire.connect import (
    CUTS_TEXT_ALIKE_SQL,
    ConnectSettings,
    PrivilegeError,
    ReadOnlyError,
    UnconvertedTextError,
    Wire,
    open_wire,
    translate_server,
)
from dblog.dialects.postgres.wire.identity import moved_to, system_of
from dblog.dialects.postgres.wire.lock_limits import LIMIT_LOCKS_SQL
from dblog.dialects.postgres.wire.search_path import look_in_no_schema, look_in_safe_schemas
from dblog.dialects.postgres.wire.session import Session, settled_log_end
from dblog.errors import DblogError, ServerChangedError, TableChangedError, TableDeniedError, chunk_would_write
from dblog.model import Table, TableId
from dblog.ports import ChunkRows

WATERMARK_PREFIX = "dblog"
"""Prefix of the messages that are watermarks."""

_DEFINITION_SQL = (
    "SELECT ARRAY(SELECT a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod) || ' ' || a.attnum FROM pg_catalog.pg_attribute a "
    "WHERE a.attrelid = c.oid AND {of_rows} ORDER BY a.attnum), "
    "pg_catalog.pg_relation_filenode(c.oid) IS NOT DISTINCT FROM nullif(c.relfilenode, 0) AND NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_partition_tree(c.oid) p LEFT JOIN pg_catalog.pg_class f ON f.oid = p.relid "
    "WHERE pg_catalog.pg_relation_filenode(p.relid) IS DISTINCT FROM nullif(f.relfilenode, 0)), "
    "c.oid = pg_catalog.to_regclass(%s) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
)
"""Query for a table as the snapshot's rows of the catalog describe it: its columns; True if its
files and those of its partitions are still the same; True if its name is. Functions see the current
catalog, so the two can be compared.
"""

SILENCE_S = 60
"""Seconds after which the server ends a snapshot whose worker sends nothing. The tables that it has
read make an ALTER wait, and all writers after it.
"""

_READ_ONLY = "25006"
"""SQLSTATE read_only_sql_transaction."""

WRITTEN_MAX = 64
"""Number of watermarks of each name that a connection remembers."""


@dataclass(slots=True)
class _Written:
    """The newest watermarks of one name, each as (transaction, token)."""

    tokens: list[tuple[int, str]] = field(default_factory=list)


class DumpConnection:
    """The connection of one reader thread for watermarks and chunks. ``close`` may be called from
    another thread. Satisfies ``ports.DumpConnection``.
    """

    def __init__(
        self,
        snapshot: Wire,
        log_server: Wire,
        *,
        read_only: bool,
        publication: str | None,
        doubt: Callable[[TableId], None],
        reads: ReadColumns | None,
    ) -> None:
        self._publication = publication
        self._reads = reads
        self._definition_sql = _DEFINITION_SQL.format(of_rows=of_rows(publication, version=snapshot.version).replace("%", "%%"))
        self._doubt = doubt
        self._snapshot = snapshot
        self._log_server = log_server
        self._read_only = read_only
        self._written: dict[str, _Written] = {}
        self._shown: Snapshot | None = None
        self._select_limit_s = 0.0
        self._waited_for = 0
        """End of the log up to which all commits are known to be flushed."""

    @classmethod
    def open(
        cls,
        settings: ConnectSettings,
        log_settings: ConnectSettings,
        *,
        identity: Callable[[Wire], str],
        server: str,
        read_only: bool,
        publication: str | None = None,
        doubt: Callable[[TableId], None] = lambda _table: None,
        reads: ReadColumns | None = None,
    ) -> DumpConnection:
        """Open both connections.

        ``server`` is the server whose log is read. Raise ServerChangedError if another one answers;
        for chunks a standby of it may answer. ``publication`` may list the columns that the log has
        of a table. ``doubt`` is called with tables that differ from what is known. ``reads``
        decides which columns of a table chunks read; None for all.
        """
        snapshot = open_wire(settings, again=True, name="dblog chunks")
        try:
            log_server = open_wire(log_settings, again=True, name="dblog watermarks")
        except BaseException:
            snapshot.close()
            raise
        try:
            for wire, whole in ((snapshot, settings == log_settings), (log_server, True)):
                found = identity(wire) if whole else system_of(wire)
                if found != (server if whole else server.partition("/")[0]):
                    message = f"{moved_to(wire.settings.address, server, found)}; the connector starts again"
                    raise ServerChangedError(message)
            look_in_safe_schemas(snapshot)
            look_in_no_schema(log_server)
            # Functions that a condition calls must not write to tables, outside of a snapshot
            # either.
            snapshot.query(f"{CUTS_TEXT_ALIKE_SQL}; SET default_transaction_read_only = on", doing="preparing the dump")
            snapshot.query(f"SET idle_in_transaction_session_timeout = '{SILENCE_S}s'", doing="preparing the dump")
        except BaseException:
            snapshot.close()
            log_server.close()
            raise
        return cls(snapshot, log_server, read_only=read_only, publication=publication, doubt=doubt, reads=reads)

    # ---- watermarks

    def write_watermark(self, name: str, token: str) -> None:
        """Commit a message with name and token. Returns after the commit."""
        assert not self._read_only, "nothing is written in read-only mode"
        content = json.dumps([name, token])
        rows = self._log_server.query(
            "SELECT pg_catalog.pg_current_xact_id()::text, pg_catalog.pg_logical_emit_message(true, %s, %s)",
            (WATERMARK_PREFIX, content),
            doing="writing a watermark",
        )
        written = self._written.setdefault(name, _Written())
        written.tokens = [*written.tokens[-WRITTEN_MAX:], (int(rows[0][0]), token)]

    def read_watermark(self, name: str) -> str | None:
        """Return the newest token of this name whose transaction the snapshot shows."""
        shown = self._shown if self._shown is not None else Snapshot.of(self._current_snapshot())
        written = self._written.get(name)
        if written is None:
            return None
        return next((token for transaction, token in reversed(written.tokens) if shown.shows(transaction)), None)

    def begin_snapshot_behind(self, low: Any) -> bool:
        """Start a snapshot that may show everything that the log has brought up to ``low``. Return
        False if a standby has not replayed that far. The log thread checks the rest.
        """
        assert isinstance(low, PostgresProgress), "made by this dialect"
        replayed = self._snapshot.one(
            "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()::text END",
            doing="asking how far a standby is",
        )
        if replayed is not None and lsn_of(str(replayed)) < low.at.lsn:
            return False
        self.begin_snapshot()
        return True

    def log_end(self) -> int:
        """Return an LSN before which everything lies that any snapshot can have shown so far."""
        settled, self._waited_for = settled_log_end(self._log_server, self._waited_for)
        return settled

    # ---- snapshots

    def begin_snapshot(self) -> None:
        """Start a consistent snapshot, taken now."""
        self._snapshot.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", doing="starting a snapshot")
        self._shown = Snapshot.of(self._current_snapshot())

    def snapshot_shown(self) -> Snapshot | None:
        """Return the transactions that the open snapshot shows; None if no snapshot is open."""
        return self._shown

    def end_snapshot(self) -> None:
        """End the snapshot."""
        self._shown = None
        self._snapshot.query("ROLLBACK", doing="ending a snapshot")

    def limit_locks(self, limit_ms: int) -> None:
        """Make SELECTs from now on end with LockedError if they wait longer for a lock on their
        table. It is meant for questions that no chunk waits for.
        """
        self._snapshot.query(LIMIT_LOCKS_SQL, (limit_ms, limit_ms), doing="limiting SELECTs")

    def limit_selects(self, limit_s: float) -> None:
        """Make the server end SELECTs from now on that take longer. A savepoint keeps the
        snapshot.
        """
        self._select_limit_s = limit_s

    def _current_snapshot(self) -> str:
        return str(self._snapshot.one("SELECT pg_catalog.pg_current_snapshot()::text", doing="asking what a snapshot shows"))

    # ---- rows

    def select(
        self, statement: str, parameters: Sequence[Any] = (), *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        """Run one SELECT inside the snapshot and return its lines. ``parameters`` are those of
        ``sql.Statement``. Rows beyond ``bytes_max`` (0: no limit) are dropped, but at least one is
        kept.
        """
        within = self._shown is not None
        if within:
            # An error would end the transaction, and the snapshot with it.
            self._snapshot.query("SAVEPOINT chunk", doing="reading a chunk")
            if self._select_limit_s:
                self._snapshot.query(f"SET LOCAL statement_timeout = {int(self._select_limit_s * 1000)}", doing="limiting SELECTs")
        try:
            with self._snapshot.used() as connection:
                rows, count, last = _libpq.copied(connection, sql.copy_out(statement).encode("utf-8", "surrogateescape"), bytes_max)
        except _libpq.ServerError as e:
            doing, settings = "reading a chunk", self._snapshot.settings
            error = translate_server(e, settings, doing)
            # The connector's own SELECT writes nothing, even on a standby.
            if e.sqlstate == _READ_ONLY:
                error = ReadOnlyError(chunk_would_write(doing, settings.address, f"SQLSTATE {e.sqlstate}"))
            if within and e.sqlstate:
                with contextlib.suppress(DblogError):
                    self._snapshot.query("ROLLBACK TO SAVEPOINT chunk", doing="reading a chunk")
            if isinstance(error, TableChangedError) and table is not None:
                self._doubt(table)
            if isinstance(error, PrivilegeError) and table is not None:
                user = self._snapshot.settings.user
                hidden = "row-level security" in str(error)
                grant = f"ALTER ROLE {sql.quote(user)} BYPASSRLS;" if hidden else self._grant(table)
                message = f"{error}; run there: {grant} and restart the task, or leave the table out with table.exclude.list"
                raise TableDeniedError(message) from e
            if isinstance(error, UnconvertedTextError) and table is not None:
                message = (
                    f"{error}; table {table}: find its rows and columns with SELECT ... WHERE convert_to(COLUMN, 'UTF8') IS NULL, which fails at the first of "
                    "them, and correct them there; or leave the table out with table.exclude.list"
                )
                raise UnconvertedTextError(message) from e
            raise error from e
        if within:
            self._snapshot.query("RELEASE SAVEPOINT chunk", doing="reading a chunk")
        last_key = _key_of(rows[last:-1], key, parameters) if count and key else None
        return ChunkRows(rows=rows, row_count=count, last_key=last_key)

    def _grant(self, table: TableId) -> str:
        """Return the statements that let the account read what chunks read of the table, as the
        catalog describes it now.
        """
        grants = sql.grant_select(table, self._snapshot.settings.user)
        with contextlib.suppress(DblogError):
            for by_root in (False, True):  # a partitioned table is only in the second list
                session = Session(self._log_server, by_root=by_root, publication=self._publication)
                if found := list(session.read_tables(lambda other: other == table).values()):
                    return grants_for(session, [one if self._reads is None else self._reads.of(one) for one in found])
        return grants

    def complete(
        self,
        chunk: ChunkRows,
        table: Table,
        after: Sequence[Any] | None,
        *,
        keys: Sequence[Sequence[Any]] | None = None,
        where: str | None = None,
    ) -> ChunkRows:
        """Return the chunk unchanged, since lines of COPY are complete. Raise TableChangedError if
        the lines may belong to another definition than ``table``.

        A snapshot does not protect a table's definition until the table is read, and it shows no
        row of a table that was rewritten since (PostgreSQL manual, 13.6 "Caveats").
        """
        del after, keys, where
        if self._shown is not None and not self._is_read_as(table):
            self._doubt(table.id)
            message = f"the columns of {table.id} are others than the log has shown, or its rows were rewritten after the snapshot"
            raise TableChangedError(message)
        return chunk

    def _is_read_as(self, table: Table) -> bool:
        """Return True if the snapshot has the table with these columns and in the files that were
        read. The SELECT has locked the table.
        """
        name = sql.quote_table(table.id)
        rows = self._snapshot.query(
            f"SAVEPOINT look; SET LOCAL search_path = ''; {self._definition_sql}",
            (name, table.id.database, table.id.name),
            doing="looking at a table",
        )
        self._snapshot.query("ROLLBACK TO SAVEPOINT look; RELEASE SAVEPOINT look", doing="looking at a table")
        if not rows or rows[0][1:] != (True, True):
            return False
        found = [(text, int(number)) for text, _, number in (column.rpartition(" ") for column in rows[0][0])]
        return len(found) == len(table.columns) and all(
            text == f"{column.name} {column.type_text}" and column.number in (None, number)
            for column, (text, number) in zip(table.columns, found, strict=True)
        )

    def close(self) -> None:
        """Close both connections. Any thread may call it, even in the middle of a SELECT."""
        for wire in (self._snapshot, self._log_server):
            wire.abort()
        for wire in (self._snapshot, self._log_server):
            wire.close()


def _key_of(line: bytes, key: Sequence[int], whole: Sequence[bool]) -> tuple[Any, ...]:
    """Return a key's values in the form of bounds."""
    fields = fields_of_line(line)
    return tuple(_bound(fields[at] or b"", whole=number) for at, number in zip(key, whole, strict=True))


def _bound(raw: bytes, *, whole: bool) -> int | str | bytes:
    """Return a value in the form of a bound. A text that is not UTF-8, which a database without an
    encoding may contain, is returned as its bytes, because the dump's state is stored as UTF-8.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw
    return int(text) if whole else text
