"""The orders in which a table's indexes can return its rows, for reading by a column other than the
key (core/surrogate.py). Pure.

The statements of the log show the columns of an index. Whether the server can read a table in their
order depends on more than that: the kind of index that the storage engine made (MEMORY uses hashes
unless asked for a tree, MariaDB does so for long unique values), prefixes of texts, the direction
of each column, and whether the optimizer may use the index. Without a suitable index the server
sorts the table for each chunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dblog.dialects.mysql.catalog.information_schema import ONE_TABLE, TABLES_ASKED_ONE_BY_ONE_MAX, Execute
from dblog.dialects.mysql.catalog.keys import PRIMARY
from dblog.model import Table, TableId

PARTS_SQL = (
    "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, COLLATION, SUB_PART, INDEX_TYPE, {hidden} "
    "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)

UNORDERED = frozenset({"HASH", "FULLTEXT", "SPATIAL", "RTREE", "VECTOR"})
"""Index types without an order; all other types are trees."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column of an index."""

    index: str
    column: str
    """The column's name in lower case; empty for an expression."""
    descending: bool
    partial: bool
    kind: str
    hidden: bool
    """True if the optimizer does not use the index."""


def read_parts(execute: Execute, tables: Sequence[TableId], *, hidden: str) -> dict[TableId, list[Part]]:
    """Return the parts of each table's indexes, in order. ``hidden`` is an SQL expression that is
    YES if the optimizer ignores the index.
    """
    by_database: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        by_database[table.database].append(table.name)
    found: dict[TableId, list[Part]] = defaultdict(list)
    for database, names in by_database.items():
        if len(names) <= TABLES_ASKED_ONE_BY_ONE_MAX:
            sql = PARTS_SQL.format(hidden=hidden, one=ONE_TABLE)
            rows = [row for one in names for row in execute(sql, (database, one))]
        else:
            rows = list(execute(PARTS_SQL.format(hidden=hidden, one=""), (database,)))
        for name, index, column, direction, partial, kind, is_hidden in rows:
            part = Part(
                index=str(index),
                column="" if column is None else str(column).lower(),
                descending=direction == "D",
                partial=partial is not None,
                kind=str(kind).upper(),
                hidden=str(is_hidden).upper() == "YES",
            )
            found[TableId(database, str(name))].append(part)
    return {table: found.get(table, []) for table in tables}


def order_fault(table: Table, key: Sequence[str], parts: Iterable[Part]) -> str | None:
    """Return the reason why no index returns rows in the order of these columns; None if one does.

    All columns must have the same direction, ascending or descending: a tree can be read from its
    end, but then every column is reversed.
    """
    indexes: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        indexes[part.index].append(part)
    behind = _key_behind(table, indexes)
    faults = []
    for name, own in indexes.items():
        if own[0].column == key[0].lower():
            fault = _fault([*own, *(part for part in behind if part.column not in {each.column for each in own})], key)
            if fault is None:
                return None
            faults.append(f"its index {name} {fault}")
    return "; ".join(faults) or f"no index begins with {key[0]}"


def _key_behind(table: Table, indexes: Mapping[str, Sequence[Part]]) -> Sequence[Part]:
    """Return the primary key's parts, which InnoDB appends to the columns of each index."""
    if PRIMARY in indexes:
        return indexes[PRIMARY]
    return [Part(index="", column=name.lower(), descending=False, partial=False, kind="BTREE", hidden=False) for name in table.key]


def _fault(parts: Sequence[Part], key: Sequence[str]) -> str | None:
    first, used = parts[0], parts[: len(key)]
    if first.hidden:
        return "is hidden from the optimizer"
    if first.kind in UNORDERED:
        return f"is of the kind {first.kind}, which has no order"
    if [part.column for part in used] != [name.lower() for name in key]:
        return f"goes on with other columns than {', '.join(key)}"
    if any(part.partial for part in used):
        return "has a part of a column only"
    if len({part.descending for part in used}) > 1:
        return "has descending and ascending columns"
    return None
