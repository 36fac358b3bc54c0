"""What one DDL statement does to tables, as values: a dialect's parser makes them, the timeline applies them.

``Ignored`` and ``Unknown`` are answers, not errors: a statement that cannot be understood names the tables it may have changed (none, if
not even that is known), and spoils only those (D8).
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.model import Table, TableId


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table as it is after CREATE TABLE, LIKE included. ``only_if_absent``: IF NOT EXISTS, which changes nothing where a table is.

    ``with_rows``: it holds rows that no event brings (a partition that became a table). ``already``: such a table is there, as far as is known.
    ``misses``: it was captured before, and changes of the time between, deletes among them, are in no log.
    ``joins``: the log has no statement that made it, so a restart would not meet one again. ``replaces``: OR REPLACE, which drops a table of this name.
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
    """A table as it is after ALTER TABLE or CREATE/DROP INDEX; ``table.id`` differs from ``id`` when the statement renames it.

    ``rewrites``: what the statement does to old rows beyond what the columns show (a partition emptied, a new expression); None: nothing.
    ``removes``: the clause that takes rows away; None: there is none. ``misses``: changes of before may be in no log, deletes among them.
    """

    id: TableId
    table: Table
    rewrites: str | None = None
    removes: str | None = None
    misses: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """Tables that are gone."""

    ids: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Renames, carried out from left to right; a swap goes through a third name."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """All rows gone, the schema as it was."""

    id: TableId


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A database and what its tables inherit; None where the statement leaves it to the server."""

    name: str
    charset: str | None = None
    collation: str | None = None
    only_if_absent: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """New defaults for tables created later."""

    name: str
    charset: str | None
    collation: str | None


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database and all its tables are gone."""

    name: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A statement that changes no table's shape, and why that is so."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A statement whose effect is not known; ``ids`` are the tables it names."""

    ids: tuple[TableId, ...]
    reason: str


Change = (
    CreateTable | AlterTable | DropTable | RenameTable | TruncateTable | CreateDatabase | AlterDatabase | DropDatabase | Ignored | Unknown
)


def tables_of(change: Change) -> tuple[TableId, ...]:
    """Every table the change names, in the statement's order; empty for databases and ignored statements."""
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
