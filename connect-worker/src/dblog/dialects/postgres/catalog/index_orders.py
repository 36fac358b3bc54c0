"""Decides which indexes of a table return its rows in the order of given columns. Reading a table
by another column than its key needs one. Pure.

A chunk asks for ``ORDER BY a, id`` in the default order of each column's type and collation. A
btree index provides it, forwards or backwards, if its first columns are these: either all ascending
with NULLs last, or all descending with NULLs first. Each must have the collation of its column and
the operator family of the type's default order, which ``text_pattern_ops`` is not. The server uses
no invalid index (left by a failed CREATE INDEX CONCURRENTLY), and no partial index for the whole
table. Without a usable index, the server sorts the table for each chunk.

Source of the rules: PostgreSQL manual, 11.4 "Indexes and ORDER BY", 11.10 "Operator Classes and
Operator Families", 11.11 "Indexes and Collations"; 53.26 "pg_index";
src/backend/optimizer/path/pathkeys.c (``build_index_pathkeys``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dblog.model import TableId

PARTS_SQL = (
    "SELECT n.nspname, t.relname, c.relname, a.attname, i.indoption[k.at - 1] & 1 = 1, i.indoption[k.at - 1] & 2 = 2, "
    "i.indcollation[k.at - 1] IN (0, coalesce(a.attcollation, 0)), "
    "EXISTS (SELECT FROM pg_catalog.pg_opclass d WHERE d.opcfamily = o.opcfamily AND d.opcmethod = o.opcmethod AND d.opcdefault), "
    "i.indpred IS NOT NULL, i.indisvalid AND i.indisready, m.amname "
    "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam "
    "JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
    "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, at) "
    "LEFT JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[k.at - 1] "
    "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number <> 0 "
    "WHERE (n.nspname, t.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[])) AND k.at <= i.indnkeyatts ORDER BY 1, 2, 3, k.at"
)
"""Query for the key columns of the indexes of some tables. Parameters: their schemas and their
names.
"""

BTREE = "btree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A key column of an index."""

    index: str
    column: str | None
    """Name of the column; None for an expression."""
    descending: bool = False
    nulls_first: bool = False
    own_collation: bool = True
    """True if its collation is that of the column."""
    default_order: bool = True
    """True if its operator family has the type's default order."""
    partial: bool = False
    valid: bool = True
    kind: str = BTREE


def parts_of(rows: Iterable[Sequence[Any]]) -> dict[TableId, list[Part]]:
    """Return the key columns of indexes by table, in order, from rows of ``PARTS_SQL``."""
    found: dict[TableId, list[Part]] = defaultdict(list)
    for schema, table, index, column, descending, nulls_first, own_collation, default_order, partial, valid, kind in rows:
        part = Part(
            index=index,
            column=column,
            descending=descending,
            nulls_first=nulls_first,
            own_collation=own_collation,
            default_order=default_order,
            partial=partial,
            valid=valid,
            kind=kind,
        )
        found[TableId(schema, table)].append(part)
    return found


def order_fault(key: Sequence[str], parts: Iterable[Part]) -> str | None:
    """Return the reason why no index returns the rows in the order of these columns; None if one
    does.
    """
    indexes: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        indexes[part.index].append(part)
    faults = []
    for name, own in indexes.items():
        if own[0].column == key[0]:
            fault = _fault(own, key)
            if fault is None:
                return None
            faults.append(f"its index {name} {fault}")
    return "; ".join(faults) or f"no index begins with {key[0]}"


def _fault(parts: Sequence[Part], key: Sequence[str]) -> str | None:
    first, used = parts[0], parts[: len(key)]
    if not first.valid:
        return "is not valid"
    if first.kind != BTREE:
        return f"is of the kind {first.kind}, which has no order"
    if first.partial:
        return "has a part of the rows only"
    if [part.column for part in used] != list(key):
        return f"goes on with other columns than {', '.join(key)}"
    if not all(part.own_collation for part in used):
        return "sorts by another collation than its column"
    if not all(part.default_order for part in used):
        return "sorts by another operator class than the type's own"
    if len({part.descending for part in used}) > 1:
        return "has descending and ascending columns"
    if any(part.nulls_first != part.descending for part in used):
        return "has NULLs at the other end than the order of a SELECT"
    return None
