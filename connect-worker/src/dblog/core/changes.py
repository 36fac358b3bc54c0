"""The effects of one DDL statement on tables, as values. A dialect's parser creates them and the
timeline applies them.

``Ignored`` and ``Unknown`` are answers, not errors. A statement that cannot be understood names the
tables that it may have changed, if even that is known, and makes only their schemas uncertain (D8).
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.model import Table, TableId


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table as it is after CREATE TABLE, with or without LIKE.

    - ``only_if_absent``: IF NOT EXISTS was given, so an existing table stays as it is.
    - ``with_rows``: the table already holds rows that no event brings (a partition that became a
      table).
    - ``already``: as far as is known, this very table existed before the statement.
    - ``misses``: the table was captured before, and no log has the changes made in the meantime,
      deletes included.
    - ``joins``: the log has no statement that creates the table, so a restart would not read one
      again.
    - ``replaces``: OR REPLACE was given, which drops an existing table of this name.
    """

    table: Table
    only_if_absent: bool = False
    with_rows: bool = False
    already: bool = False
    joins: bool = False
    misses: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A table as it is after ALTER TABLE or CREATE/DROP INDEX. ``table.id`` differs from ``id`` if
    the statement renames the table.

    - ``rewrites``: a change of old rows that the columns do not show (a partition emptied, a new
      expression); None if there is none.
    - ``removes``: the clause that removes rows; None if none does.
    - ``misses``: earlier changes, deletes included, may be in no log.
    """

    id: TableId
    table: Table
    rewrites: str | None = None
    removes: str | None = None
    misses: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """Tables that were dropped."""

    ids: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Renames in the order in which they are carried out. A swap uses a third name."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """A table that lost all its rows and kept its schema."""

    id: TableId


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A new database and the defaults that its tables inherit; None leaves a default to the
    server.
    """

    name: str
    charset: str | None = None
    collation: str | None = None
    only_if_absent: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """New defaults of a database for tables that are created later."""

    name: str
    charset: str | None
    collation: str | None


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database that was dropped with all its tables."""

    name: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A statement that changes no table's shape, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A statement whose effect is unknown; ``ids`` are the tables that it names."""

    ids: tuple[TableId, ...]
    reason: str


Change = (
    CreateTable | AlterTable | DropTable | RenameTable | TruncateTable | CreateDatabase | AlterDatabase | DropDatabase | Ignored | Unknown
)


def tables_of(change: Change) -> tuple[TableId, ...]:
    """Return every table that the change names, in the statement's order. Changes of databases and
    ignored statements name none.
    """
    match change:
        case CreateTable(table):
            return (table.id,)
        case AlterTable(id_, table):
            return (id_,) if table.id == id_ else (id_, table.id)
        case DropTable(ids) | Unknown(ids, _):
            return ids
        case RenameTable(pairs):
            return tuple(dict.fromkeys(id_ for pair in pairs for id_ in pair))
        case TruncateTable(id_):
            return (id_,)
        case CreateDatabase() | AlterDatabase() | DropDatabase() | Ignored():
            return ()
