"""A session for questions: which server it is, how far its log goes, its tables. One thread at a time uses it."""

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
"""Watermarks are logical messages, which pgoutput sends from 14 on."""


PAGE_HEADER_BYTES_MAX = 40
"""Of a file's first page."""

LOG_END_SQL = (
    "SELECT CASE WHEN pg_catalog.mod(lsn - '0/0', 8192) IN (24, 40) THEN lsn - pg_catalog.mod(lsn - '0/0', 8192) ELSE lsn END FROM (SELECT CASE WHEN "
    "pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END AS lsn) AS at"
)
"""Where the log ends now, also of a standby. A page that has nothing yet begins behind its header (24 bytes, 40 in a file's first; xlog_internal.h), where no
reader comes to until a record is there: the position is then the page's own."""

FLUSH_DELAYS = 3
LOOK_INTERVAL_S = 0.01
"""How often it is asked how far the log is flushed."""

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
"""Catalogs only: pg_partition_tree() would wait for whoever has locked a partition, and the log with it."""


def settled_log_end(wire: Wire, waited_for: int = 0) -> tuple[int, int]:
    """(A place in the log in front of which is everything that anybody can have seen until now, where the log ended then.) ``waited_for``: such an end.

    A walsender sends what is flushed. A commit is, before it is visible, or with synchronous_commit=off within three times wal_writer_delay (PostgreSQL
    manual, 30.4 "Asynchronous Commit"). Transactions that are under way have log behind that, which may not be flushed for long: it is not waited for.
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
    """Of a table: its primary key in order, the columns that take NULL, and the number of each column."""

    key: tuple[str, ...]
    nullable: frozenset[str]
    numbers: Mapping[str, int]
    deferrable: bool
    """The primary key is not enforced row by row."""


class Session:
    """An open session. ``by_root``: rows of partitions come under the name of their partitioned table. ``publication``: may list the columns of a table."""

    def __init__(self, wire: Wire, *, by_root: bool, publication: str | None = None) -> None:
        self.wire = wire
        self.by_root = by_root
        self.publication = publication
        self.types = Types(self._ask_types)

    @property
    def settings(self) -> ConnectSettings:
        """Where it is."""
        return self.wire.settings

    @property
    def version(self) -> int:
        """150004 for 15.4."""
        return self.wire.version

    def query(
        self, statement: str, arguments: Sequence[Any] = (), *, doing: str = "a query", bytes_max: int = CATALOG_BYTES_MAX
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement; most are about the tables of a database."""
        return self.wire.query(statement, arguments, doing=doing, bytes_max=bytes_max)

    def index_parts(self, tables: Sequence[TableId]) -> dict[TableId, list[index_orders.Part]]:
        """Return the parts of the indexes of these tables."""
        names = [table.database for table in tables], [table.name for table in tables]
        return index_orders.parts_of(self.query(index_orders.PARTS_SQL, names, doing="reading indexes"))

    def close(self) -> None:
        """Close the session."""
        self.wire.close()

    # ---- the server

    @cached_property
    def identity(self) -> str:
        """``<system identifier>/<timeline>`` when it was first asked for: LSNs of another one mean nothing here."""
        return identity_of(self.wire)

    def process_started_us(self) -> int:
        """When the server's process started, in microseconds since 1970. A promotion leaves it as it is, and no two servers have the same."""
        question = "SELECT (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint"
        return int(self.wire.one(question, doing="asking since when the server runs"))

    @property
    def is_standby(self) -> bool:
        """Whether it replays another server's log."""
        return bool(self.wire.one("SELECT pg_catalog.pg_is_in_recovery()", doing="asking whether it is a standby"))

    def log_end(self) -> int:
        """Behind everything that is in the log now; of a standby, behind what it has replayed."""
        return lsn_of(str(self.wire.one(f"SELECT ({LOG_END_SQL})::text", doing="asking where the log ends")))

    def setting(self, name: str) -> str | None:
        """A setting of the server as this session has it; None where it has none of that name."""
        value = self.wire.one("SELECT pg_catalog.current_setting(%s, true)", (name,), doing=f"reading the setting {name}")
        return None if value is None else str(value)

    def snapshot(self) -> str:
        """pg_current_snapshot() of this moment."""
        return str(self.wire.one("SELECT pg_catalog.pg_current_snapshot()::text", doing="asking for a snapshot"))

    def transactions_in_doubt(self) -> str:
        """A snapshot of now whose list has every transaction of this database that is under way, in the form of pg_current_snapshot().

        A snapshot does not list those that begin behind the last one that has ended, so one of our own is ended first. Transactions of other databases are
        none of this log's, and one whose session waits for its next statement is in no log yet: its commit comes later (PostgreSQL manual, pg_stat_activity:
        a session is active from before it begins a command until it has ended it). Nor is one that is prepared, while nobody commits such a one.
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
        """Return (table, transaction) of those under way, idle and prepared ones too, that may have written to one of the tables: who writes has locked the
        table, or the partition, until its transaction is over, and is visible before the lock is gone (xact.c, CommitTransaction). Not of a standby's primary.
        """
        return {(number, transaction) for number, transaction in self.query(_WRITERS_SQL, (list(tables),), doing="listing writers")}

    def transactions_under_way(self) -> tuple[int, int]:
        """Return (the oldest transaction of any database that is under way, the first that has not begun). On a standby of its primary's, as far as they have
        written to the log that was replayed; prepared ones are among them, and one that has subtransactions is older than all of these.
        """
        xmin, xmax, _ = self.snapshot().split(":")
        return int(xmin), int(xmax)

    # ---- tables

    def read_tables(self, include: Callable[[TableId], bool], *, numbers: Collection[int] = ()) -> dict[int, Table]:
        """Every table that ``include`` accepts, and those of these numbers, by number, as one snapshot of the catalog shows them."""
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
        """Run a SELECT that has text of a user, in a transaction that is READ ONLY and by a message that takes one statement only."""
        self.query(f"{CUTS_TEXT_ALIKE_SQL}; BEGIN READ ONLY", doing=doing)
        try:
            self.wire.copied(copy_out(probe), doing=doing, bytes_max=ANSWER_BYTES_MAX)
        finally:
            self.query("ROLLBACK", doing=doing)

    def table_numbers(self) -> dict[int, TableId]:
        """The names of all tables whose rows are logged, by their numbers."""
        return {row[0]: TableId(row[1], row[2]) for row in self.query(catalog.tables_sql(by_root=self.by_root), doing="listing the tables")}

    @contextmanager
    def lock_limit(self, limit_ms: int, *, doing: str) -> Iterator[None]:
        """Within the block a statement that waits longer for a lock ends with LockedError. Afterwards the limit is that of before, which may be the user's.

        Where statements may take no longer than that, a part of their time is the limit: else the end of a wait would look like a server that is busy.
        """
        ((before, _),) = self.query(LIMIT_LOCKS_SQL, (limit_ms, limit_ms), doing=doing)
        try:
            yield
        finally:
            self.query("SELECT pg_catalog.set_config('lock_timeout', %s, false)", (before,), doing=doing)

    def was_rewritten(self, table: Table) -> bool:
        """Return whether the statement that gave the table its files wrote its rows as new ones: ALTER TABLE does (SET LOGGED, or another type), VACUUM FULL
        and CLUSTER take them as they are. False where the account may not ask. True where somebody locks the table: the log does not wait for that, and a
        dump that nobody needs is better than old values that stay.
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

    def unreadable_columns(self, table: Table, read: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return those columns of the table that the account may not read, of these (None: of all); None where it may read no column of it."""
        rows = self.query(
            "SELECT a.attname, pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT') FROM pg_catalog.pg_attribute a "
            "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND NOT a.attisdropped AND (a.attnum > 0 OR a.attname = 'ctid') ORDER BY a.attnum < 0, a.attnum",
            (table.id.database, table.id.name),
            doing=f"reading the privileges for {table.id}",
        )
        if not any(allowed for _, allowed in rows):
            return None
        names = {column.name for column in table.columns} if read is None else set(read)
        names |= set() if table.key else {"ctid"}
        return tuple(name for name, allowed in rows if not allowed and name in names) or None

    def unlogged_tables(self) -> list[TableId]:
        """Return the names of tables that are unlogged, under which their rows would come if they were not."""
        return [
            TableId(schema, name)
            for schema, name in self.query(catalog.unlogged_sql(by_root=self.by_root), doing="listing unlogged tables")
        ]

    def attached_partitions(self, roots: Sequence[int]) -> list[tuple[int, str]]:
        """(Number of the partitioned table, ``Table.attached``), one by one."""
        return self.query(catalog.ATTACHED_SQL, (list(roots),), doing="listing partitions") if roots else []

    def unfilled(self, tables: Sequence[int]) -> set[int]:
        """Those of these tables, by number, that have no row."""
        return (
            {row[0] for row in self.query(catalog.UNFILLED_SQL, (list(tables),), doing="asking which partitions have rows")}
            if tables
            else set()
        )

    def catalog_marks(self) -> dict[int, tuple[TableId, str]]:
        """Of each table, by its number: its name, and what is another text once a statement has altered it."""
        rows = self.query(catalog.MARKS_SQL, doing="looking for altered tables")
        return {number: (TableId(schema, name), mark) for number, schema, name, mark in rows}

    def publication_entries(self, numbers: Sequence[int] | None = None) -> publishing.Entries:
        """Return by what the publication has its tables (of these numbers; None: all); nothing where no publication is known, or there is none of that name."""
        if self.publication is None:
            return publishing.Entries()
        statement = publishing.entries_sql(self.publication, version=self.version, numbers=numbers)
        return publishing.Entries(self.query(statement, doing=f"listing the publication {self.publication}"))

    def unshown(self, number: int) -> Unshown | None:
        """What a table has now that no Relation message shows. None: it is gone."""
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
        """Relreplident of every table that ``include`` accepts; of a partitioned one the least that a partition has, for rows are logged by theirs."""
        found = catalog.identities(self.query(catalog.tables_sql(by_root=self.by_root), doing="listing the tables"))
        if self.by_root:
            found = dict(found) | catalog.least_identities(self.query(catalog.PARTITION_IDENTITIES_SQL, doing="listing the partitions"))
        return {table: identity for table, identity in found.items() if include(table)}

    def logged_as(self, table: TableId) -> list[TableId]:
        """The table, and the partitions that its rows are written to, and logged as."""
        rows = self.query(catalog.PARTITION_NAMES_SQL, (table.database, table.name), doing=f"listing the partitions of {table}")
        return [table, *(TableId(schema, name) for schema, name in rows)]

    def type_texts(self, types: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """format_type() of these (type, modifier)."""
        wanted = list(dict.fromkeys(types))
        rows = self.query(
            "SELECT t, m, pg_catalog.format_type(t, m) FROM unnest(%s::bigint[], %s::int[]) AS u(t, m)",
            ([one for one, _ in wanted], [modifier for _, modifier in wanted]),
            doing="naming types",
        )
        return {(number, modifier): text for number, modifier, text in rows}

    def _fresh_types(self, numbers: set[int]) -> Types:
        """Types as they are now: an enum may have got a member since."""
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
    """Open a session. DefiniteError for a server that is too old."""
    wire = open_wire(settings, again=again)
    try:
        if wire.version < OLDEST_VERSION:
            message = (
                f"the server at {settings.address} is PostgreSQL {wire.version // 10000}; dblog reads the log of version 14 and later, whose pgoutput has "
                "logical messages; upgrade the server"
            )
            raise DefiniteError(message)
        look_in_no_schema(wire)  # names of types in the catalog's texts are to say where they lie
        return Session(wire, by_root=by_root, publication=publication)
    except BaseException:
        wire.close()
        raise
