"""Queries a server about its identity, the end of its log, and its tables. Only one thread at a
time uses a session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dblog.dialects.postgres.catalog import index_orders, publishing
from dblog.dialects.postgres.catalog import tables as catalog
from dblog.dialects.postgres.catalog.sql import copy_out, written_by
from dblog.dialects.postgres.catalog.types import MEMBERS_SQL, TYPES_SQL, Types
from dblog.dialects.postgres.pgoutput.position import lsn_of
from dblog.dialects.postgres.wire.answers import ANSWER_BYTES_MAX, CATALOG_BYTES_MAX
from dblog.dialects.postgres.wire.connect import CUTS_TEXT_ALIKE_SQL, ConnectSettings, LockedError, Wire, open_wire
from dblog.dialects.postgres.wire.identity import identity_of
from dblog.dialects.postgres.wire.lock_limits import LIMIT_LOCKS_SQL, LOCKED_MS
from dblog.dialects.postgres.wire.search_path import look_in_no_schema
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import Table, TableId

OLDEST_VERSION = 140000
"""Oldest supported version. Watermarks are logical messages, which pgoutput sends from 14 on."""


PAGE_HEADER_BYTES_MAX = 40
"""Length of the header of a file's first page."""

LOG_END_SQL = (
    "SELECT CASE WHEN pg_catalog.mod(lsn - '0/0', 8192) IN (24, 40) THEN lsn - pg_catalog.mod(lsn - '0/0', 8192) ELSE lsn END FROM (SELECT CASE WHEN "
    "pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END AS lsn) AS at"
)
"""Query for the current end of the log, also on a standby. On an empty page the log ends after the
page's header (24 bytes, 40 in a file's first; xlog_internal.h). No reader gets there before a
record exists, so the result is then the start of the page.
"""

FLUSH_DELAYS = 3
LOOK_INTERVAL_S = 0.01
"""Interval in seconds at which the flushed position is queried."""

_ENDS_SQL = (
    f"SELECT ({LOG_END_SQL})::text, "
    f"CASE WHEN pg_catalog.pg_is_in_recovery() THEN ({LOG_END_SQL}) ELSE pg_catalog.pg_current_wal_flush_lsn() END::text, "
    "(SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_writer_delay')::int"
)

_WRITERS_SQL = (
    "WITH RECURSIVE tree (top, number) AS (SELECT t, t FROM unnest(%s::oid[]) AS tables (t) UNION SELECT tree.top, i.inhrelid FROM tree "
    "JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number JOIN pg_catalog.pg_class c ON c.oid = i.inhparent AND c.relkind = 'p') "
    "SELECT DISTINCT tree.top::bigint, l.virtualtransaction FROM tree JOIN pg_catalog.pg_locks l ON l.relation = tree.number AND l.locktype = 'relation' "
    "WHERE l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) "
    "AND l.granted AND l.mode IN ('RowExclusiveLock', 'AccessExclusiveLock')"
)
"""Query for transactions that may have written to some tables. It reads catalogs only:
pg_partition_tree() would wait for a lock on a partition, and the log with it.
"""


def settled_log_end(wire: Wire, waited_for: int = 0) -> tuple[int, int]:
    """Return (settled, end). Every commit that any session can have seen so far lies before the LSN
    ``settled``, which is flushed; ``end`` is the end of the log when asked. An ``end`` passed as
    ``waited_for`` is not waited for again.

    A walsender sends what is flushed. A commit is flushed before it is visible, or, with
    synchronous_commit=off, within three times wal_writer_delay (PostgreSQL manual, 30.4
    "Asynchronous Commit"). Open transactions have log beyond that, which may stay unflushed for
    long; it is not waited for.
    """

    def ends() -> tuple[int, int, float]:
        ((end, flushed, delay_ms),) = wire.query(_ENDS_SQL, doing="asking where the log ends")
        return lsn_of(end), lsn_of(flushed), delay_ms / 1000

    end, flushed, delay_s = ends()
    limit_s = time.monotonic() + FLUSH_DELAYS * delay_s
    while flushed < end != waited_for and time.monotonic() < limit_s:
        time.sleep(min(delay_s, LOOK_INTERVAL_S))
        _, flushed, _ = ends()
    return min(end, flushed), end


@dataclass(frozen=True, slots=True)
class Unshown:
    """The facts about a table that no Relation message shows: its primary key in order, the columns
    that allow NULL, and the number of each column.
    """

    key: tuple[str, ...]
    nullable: frozenset[str]
    numbers: Mapping[str, int]
    deferrable: bool
    """True if the primary key is not enforced row by row."""


@dataclass(frozen=True, slots=True)
class AllReadable:
    """The account may read every column that was asked about."""


@dataclass(frozen=True, slots=True)
class SomeUnreadable:
    """The account may read the table, except these of the columns that were asked about."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NothingReadable:
    """The account may read no column of the table."""


Readable = AllReadable | SomeUnreadable | NothingReadable


class Session:
    """An open session for queries. With ``by_root``, rows of partitions come under the name of
    their partitioned table. ``publication`` may list the columns of a table.
    """

    def __init__(self, wire: Wire, *, by_root: bool, publication: str | None = None) -> None:
        self.wire = wire
        self.by_root = by_root
        self.publication = publication
        self.types = Types(self._ask_types)

    @property
    def settings(self) -> ConnectSettings:
        """Settings of the connection."""
        return self.wire.settings

    @property
    def version(self) -> int:
        """Version number of the server, such as 150004 for 15.4."""
        return self.wire.version

    def query(
        self, statement: str, arguments: Sequence[Any] = (), *, doing: str = "a query", bytes_max: int = CATALOG_BYTES_MAX
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. The default limit is that of answers about the tables of
        a database.
        """
        return self.wire.query(statement, arguments, doing=doing, bytes_max=bytes_max)

    def index_parts(self, tables: Sequence[TableId]) -> dict[TableId, list[index_orders.Part]]:
        """Return the key columns of the indexes of these tables."""
        names = [table.database for table in tables], [table.name for table in tables]
        return index_orders.parts_of(self.query(index_orders.PARTS_SQL, names, doing="reading indexes"))

    def close(self) -> None:
        """Close the session."""
        self.wire.close()

    # ---- the server

    @cached_property
    def identity(self) -> str:
        """Identity of the server when it was first asked for, ``<system identifier>/<timeline>``.
        LSNs of another identity mean nothing here.
        """
        return identity_of(self.wire)

    def process_started_us(self) -> int:
        """Return the start time of the server's process, in microseconds since 1970. A promotion
        does not change it, and no two servers share it.
        """
        question = "SELECT (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint"
        return int(self.wire.one(question, doing="asking since when the server runs"))

    @property
    def is_standby(self) -> bool:
        """True if the server replays another server's log."""
        return bool(self.wire.one("SELECT pg_catalog.pg_is_in_recovery()", doing="asking whether it is a standby"))

    def log_end(self) -> int:
        """Return the LSN after everything in the log; on a standby, after everything that it has
        replayed.
        """
        return lsn_of(str(self.wire.one(f"SELECT ({LOG_END_SQL})::text", doing="asking where the log ends")))

    def setting(self, name: str) -> str | None:
        """Return a setting of the server as this session has it; None if there is no setting of
        that name.
        """
        value = self.wire.one("SELECT pg_catalog.current_setting(%s, true)", (name,), doing=f"reading the setting {name}")
        return None if value is None else str(value)

    def snapshot(self) -> str:
        """Return pg_current_snapshot() as of now."""
        return str(self.wire.one("SELECT pg_catalog.pg_current_snapshot()::text", doing="asking for a snapshot"))

    def transactions_in_doubt(self) -> str:
        """Return a current snapshot that lists every open transaction of this database, in the form
        of pg_current_snapshot().

        A snapshot does not list transactions that began after the last one that ended, so a
        transaction of our own is ended first. These are left out:

        - Transactions of other databases, which are not in this log.
        - A transaction whose session waits for its next statement. It is in no log yet, because its
          commit comes later (PostgreSQL manual, pg_stat_activity: a session is active from before
          it begins a command until it has ended it).
        - A prepared transaction, as long as nobody is committing one.
        """
        if not self.is_standby:
            self.query("SELECT pg_catalog.pg_current_xact_id()", doing="ending a transaction")
        text = self.snapshot()
        xmin, xmax, under_way = text.split(":")
        others = {
            int(str(row[0]))
            for row in self.query(
                "SELECT backend_xid::text FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL "
                "AND (datname <> pg_catalog.current_database() OR state LIKE 'idle in transaction%') "
                "UNION ALL SELECT transaction::text FROM pg_catalog.pg_prepared_xacts WHERE database <> pg_catalog.current_database() OR NOT EXISTS ("
                "SELECT FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() "
                r"AND (query = '<insufficient privilege>' OR (state = 'active' AND query ~* '\mcommit\s+prepared\M')))",
                doing="listing transactions",
            )
        }
        ours = [one for one in under_way.split(",") if one and int(one) % (1 << 32) not in others]
        return f"{xmin}:{xmax}:{','.join(ours)}"

    def writers(self, tables: Collection[int]) -> set[tuple[int, str]]:
        """Return (table, transaction) for the open transactions, idle and prepared ones included,
        that may have written to one of the tables.

        A writer holds a lock on the table or the partition until its transaction is over, and its
        rows are visible before the lock is released (xact.c, CommitTransaction). On a standby this
        does not show the transactions of its primary.
        """
        return {(number, transaction) for number, transaction in self.query(_WRITERS_SQL, (list(tables),), doing="listing writers")}

    def transactions_under_way(self) -> tuple[int, int]:
        """Return (the oldest open transaction of any database, the first that has not begun).
        Prepared transactions are included, and one with subtransactions is older than all of these.

        On a standby they are those of its primary, as far as these have written to the replayed
        log.
        """
        xmin, xmax, _ = self.snapshot().split(":")
        return int(xmin), int(xmax)

    # ---- tables

    def read_tables(self, include: Callable[[TableId], bool], *, numbers: Collection[int] = ()) -> dict[int, Table]:
        """Return by number every table that ``include`` accepts or whose number is in ``numbers``,
        as one snapshot of the catalog shows them.
        """
        self.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", doing="reading the catalog")
        try:
            found = self.query(catalog.tables_sql(by_root=self.by_root), doing="listing the tables")
            wanted = [row for row in found if row[0] in numbers or include(TableId(row[1], row[2]))]
            chosen = [row[0] for row in wanted]
            columns_sql = catalog.columns_sql(self.publication, version=self.version)
            columns = self.query(columns_sql, (chosen,), doing="reading the columns") if chosen else []
            indexes = self.query(catalog.INDEXES_SQL, (chosen,), doing="reading the indexes") if chosen else []
            roots = [row[0] for row in wanted if row[5]]
            attached = self.attached_partitions(roots)
            partitions = self.query(catalog.PARTITIONS_SQL, (roots,), doing="listing partitions") if roots else []
            written = self.query(publishing.COLUMNS_WRITTEN_SQL, (chosen,), doing="reading the columns") if chosen and self.by_root else []
            entries = self.publication_entries(chosen) if chosen else None
            types = self._fresh_types({row[2] for row in columns})
            return catalog.tables_of(wanted, columns, indexes, types, attached, entries, dict(written), dict(partitions))
        finally:
            self.query("ROLLBACK", doing="reading the catalog")

    def try_condition(self, probe: str, *, doing: str) -> None:
        """Run a SELECT that contains a user's text, in a READ ONLY transaction and by a message
        that allows only one statement.
        """
        self.query(f"{CUTS_TEXT_ALIKE_SQL}; BEGIN READ ONLY", doing=doing)
        try:
            self.wire.copied(copy_out(probe), doing=doing, bytes_max=ANSWER_BYTES_MAX)
        finally:
            self.query("ROLLBACK", doing=doing)

    def table_numbers(self) -> dict[int, TableId]:
        """Return the names of all logged tables by their numbers."""
        return {row[0]: TableId(row[1], row[2]) for row in self.query(catalog.tables_sql(by_root=self.by_root), doing="listing the tables")}

    @contextmanager
    def lock_limit(self, limit_ms: int, *, doing: str) -> Iterator[None]:
        """End statements within the block with LockedError if they wait longer for a lock. The
        previous limit, which may be the user's, returns afterwards.

        If statements may take no longer than ``limit_ms``, the limit is a part of their time.
        Otherwise the end of a wait would look like a busy server.
        """
        ((before, _),) = self.query(LIMIT_LOCKS_SQL, (limit_ms, limit_ms), doing=doing)
        try:
            yield
        finally:
            self.query("SELECT pg_catalog.set_config('lock_timeout', %s, false)", (before,), doing=doing)

    def was_rewritten(self, table: Table) -> bool:
        """Return True if the statement that gave the table its files wrote its rows as new ones.
        ALTER TABLE does so (SET LOGGED, or another type), while VACUUM FULL and CLUSTER keep the
        rows.

        Return False if the account may not ask. Return True if another session locks the table: the
        log does not wait for that, and an unnecessary dump is better than old values that stay.
        """
        doing = f"asking who wrote {table.id}"
        rows = self.query(catalog.WRITER_SQL, (table.number,), doing=doing)
        if not rows:
            return False
        try:
            with self.lock_limit(LOCKED_MS, doing=doing):
                return bool(self.query(written_by(table, rows[0][0]), doing=doing))
        except LockedError:
            return True
        except (DefiniteError, TableChangedError):
            return False

    def readable_columns(self, table: Table, read: Sequence[str] | None) -> Readable:
        """Return how much the account may read of the columns in ``read``; None means all of
        them.
        """
        rows = self.query(
            "SELECT a.attname, pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT') FROM pg_catalog.pg_attribute a "
            "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND NOT a.attisdropped AND (a.attnum > 0 OR a.attname = 'ctid') ORDER BY a.attnum < 0, a.attnum",
            (table.id.database, table.id.name),
            doing=f"reading the privileges for {table.id}",
        )
        if not any(allowed for _, allowed in rows):
            return NothingReadable()
        names = {column.name for column in table.columns} if read is None else set(read)
        names |= set() if table.key else {"ctid"}
        unreadable = tuple(name for name, allowed in rows if not allowed and name in names)
        return SomeUnreadable(unreadable) if unreadable else AllReadable()

    def unlogged_tables(self) -> list[TableId]:
        """Return the names of unlogged tables, as their rows would be named if they were logged."""
        return [
            TableId(schema, name)
            for schema, name in self.query(catalog.unlogged_sql(by_root=self.by_root), doing="listing unlogged tables")
        ]

    def attached_partitions(self, roots: Sequence[int]) -> list[tuple[int, str]]:
        """Return (number of the partitioned table, entry of ``Table.attached``) for each attached
        partition.
        """
        return self.query(catalog.ATTACHED_SQL, (list(roots),), doing="listing partitions") if roots else []

    def unfilled(self, tables: Sequence[int]) -> set[int]:
        """Return the numbers of the given tables that have no rows."""
        return (
            {row[0] for row in self.query(catalog.UNFILLED_SQL, (list(tables),), doing="asking which partitions have rows")}
            if tables
            else set()
        )

    def catalog_marks(self) -> dict[int, tuple[TableId, str]]:
        """Return for each table, by number, its name and a text that changes when a statement
        alters the table.
        """
        rows = self.query(catalog.MARKS_SQL, doing="looking for altered tables")
        return {number: (TableId(schema, name), mark) for number, schema, name, mark in rows}

    def publication_entries(self, numbers: Sequence[int] | None = None) -> publishing.Entries:
        """Return the publication's entries for its tables (of these numbers; None: all). Return no
        entries if no publication is known or none has that name.
        """
        if self.publication is None:
            return publishing.Entries()
        statement = publishing.entries_sql(self.publication, version=self.version, numbers=numbers)
        return publishing.Entries(self.query(statement, doing=f"listing the publication {self.publication}"))

    def unshown(self, number: int) -> Unshown | None:
        """Return the facts about a table that no Relation message shows; None if it is gone."""
        rows = self.query(catalog.UNSHOWN_SQL, (number,), doing="reading a table's key")
        if not rows:
            return None
        return Unshown(
            key=tuple(name for name, _, _, place, _ in rows if place is not None),
            nullable=frozenset(name for name, _, not_null, _, _ in rows if not not_null),
            numbers={name: column for name, column, _, _, _ in rows},
            deferrable=any(place is not None and not immediate for _, _, _, place, immediate in rows),
        )

    def replica_identities(self, include: Callable[[TableId], bool]) -> dict[TableId, str]:
        """Return relreplident of every table that ``include`` accepts. For a partitioned table it
        is the one of its partitions that shows least, because rows are logged with theirs.
        """
        found = catalog.identities(self.query(catalog.tables_sql(by_root=self.by_root), doing="listing the tables"))
        if self.by_root:
            found = dict(found) | catalog.least_identities(self.query(catalog.PARTITION_IDENTITIES_SQL, doing="listing the partitions"))
        return {table: identity for table, identity in found.items() if include(table)}

    def logged_as(self, table: TableId) -> list[TableId]:
        """Return the table and those of its partitions that store its rows, under whose names the
        rows are logged.
        """
        rows = self.query(catalog.PARTITION_NAMES_SQL, (table.database, table.name), doing=f"listing the partitions of {table}")
        return [table, *(TableId(schema, name) for schema, name in rows)]

    def type_texts(self, types: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Return format_type() of each (type, modifier)."""
        wanted = list(dict.fromkeys(types))
        rows = self.query(
            "SELECT t, m, pg_catalog.format_type(t, m) FROM unnest(%s::bigint[], %s::int[]) AS u(t, m)",
            ([one for one, _ in wanted], [modifier for _, modifier in wanted]),
            doing="naming types",
        )
        return {(number, modifier): text for number, modifier, text in rows}

    def _fresh_types(self, numbers: set[int]) -> Types:
        """Return the types as they are now: an enum may have a new member."""
        types, members = self._ask_types(numbers)
        self.types.add(types, members)
        return self.types

    def _ask_types(self, numbers: Iterable[int]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        wanted = list(numbers)
        types = self.query(
            f"{TYPES_SQL} WHERE t.oid = ANY(%s::oid[]) OR t.oid IN (SELECT typelem FROM pg_catalog.pg_type WHERE oid = ANY(%s::oid[]))",
            (wanted, wanted),
            doing="reading types",
        )
        enums = [row[0] for row in types if row[3] == "e"]
        members = (
            self.query(MEMBERS_SQL.replace(" ORDER", " WHERE enumtypid = ANY(%s::oid[]) ORDER"), (enums,), doing="reading enums")
            if enums
            else []
        )
        return types, members


def connect(settings: ConnectSettings, *, by_root: bool, publication: str | None = None, again: bool = False) -> Session:
    """Open a session. Raise DefiniteError for a server that is too old."""
    wire = open_wire(settings, again=again)
    try:
        if wire.version < OLDEST_VERSION:
            message = (
                f"the server at {settings.address} is PostgreSQL {wire.version // 10000}; dblog reads the log of version 14 and later, whose pgoutput has "
                "logical messages; upgrade the server"
            )
            raise DefiniteError(message)
        # So the names of types in the catalog's texts include their schemas.
        look_in_no_schema(wire)
        return Session(wire, by_root=by_root, publication=publication)
    except BaseException:
        wire.close()
        raise
