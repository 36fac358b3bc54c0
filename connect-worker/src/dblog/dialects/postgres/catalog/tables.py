"""Turns rows of the system catalogs into tables. Source of the rules: PostgreSQL manual, chapter 53
"System Catalogs".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from dblog.dialects.postgres.catalog.publishing import Entries
from dblog.dialects.postgres.catalog.sql import quote_text
from dblog.dialects.postgres.catalog.types import Types
from dblog.dialects.postgres.catalog.undecodable import require_readable_names, shown
from dblog.model import Column, Index, Table, TableId

BUILTIN_SCHEMAS = frozenset({"information_schema", "pg_*", ".spatial_ref_sys"})
"""The server's own schemas, as ``core.selection.builtin_tables`` reads them, and the table of
PostGIS that Debezium leaves out. No other schema begins with pg_ (PostgreSQL manual, CREATE
SCHEMA).
"""

PRIMARY = "PRIMARY"
"""Name of a primary key among a table's indexes (``model.Index``), whatever the name of its
constraint.
"""

_LEAVES = "c.relkind = 'r'"
_ROOTS = "(c.relkind = 'p' OR c.relkind = 'r') AND NOT c.relispartition"


def tables_sql(*, by_root: bool) -> str:
    """Return a query for every logged table: (number, schema, name, replica identity, comment, True
    if it is partitioned, its file or 0, its TOAST table or 0).

    With ``by_root``, rows of partitions come under the name of the partitioned table
    (publish_via_partition_root), otherwise under their own names.
    """
    return (
        "SELECT c.oid::bigint, n.nspname, c.relname, c.relreplident::text, pg_catalog.obj_description(c.oid, 'pg_class'), c.relkind = 'p', "
        "c.relfilenode::bigint, c.reltoastrelid::bigint "
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE {_ROOTS if by_root else _LEAVES} AND c.relpersistence = 'p' "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    )


def unlogged_sql(*, by_root: bool) -> str:
    """Return a query for (schema, name) of the tables that ``tables_sql`` lacks because they, or
    partitions of theirs, are unlogged.
    """
    named = "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    own = f"{named} WHERE {_ROOTS if by_root else _LEAVES} AND c.relpersistence = 'u'"
    if not by_root:
        return own
    return (
        "WITH RECURSIVE up (number) AS (SELECT i.inhparent FROM pg_catalog.pg_class u JOIN pg_catalog.pg_inherits i ON i.inhrelid = u.oid "
        "WHERE u.relpersistence = 'u' AND u.relkind = 'r' AND u.relispartition UNION SELECT i.inhparent FROM up "
        f"JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.number) {own} UNION {named} JOIN up ON up.number = c.oid WHERE NOT c.relispartition"
    )


_COLUMNS_SQL = (
    "SELECT a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod, a.attnotnull, pg_catalog.format_type(a.atttypid, a.atttypmod), "
    "CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, 0) END, a.attidentity::text, "
    "pg_catalog.col_description(a.attrelid, a.attnum), a.attgenerated <> '', a.attnum, {filled} "
    "FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
    "WHERE a.attrelid = ANY(%s::oid[]) AND {condition} ORDER BY a.attrelid, a.attnum"
)
"""Query for columns. ``pg_get_expr`` gets no table, since a default names no column: with a table
it would wait for locks on it (PostgreSQL manual, 9.27 "System Information Functions").
"""
_FILLED = (
    "a.atthasmissing OR EXISTS (WITH RECURSIVE tree (number) AS (SELECT a.attrelid UNION ALL "
    "SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number) "
    "SELECT FROM tree JOIN pg_catalog.pg_attribute l ON l.attrelid = tree.number AND l.attname = a.attname WHERE l.atthasmissing)"
)
"""Expression that is true if existing rows have a value for an added column. A partitioned table
stores no values, so its partitions are searched too.
"""
_COLUMN_LISTS_SINCE, _GENERATED_SINCE = 150000, 180000


def columns_sql(publication: str | None, *, version: int) -> str:
    """Return the query for the rows that ``column_of`` reads, of the columns that ``of_rows``
    selects.
    """
    filled = f"{_FILLED} OR EXISTS ({_listed('TRUE', publication)})" if _may_list(publication, version) else _FILLED
    return _COLUMNS_SQL.format(condition=of_rows(publication, version=version).replace("%", "%%"), filled=filled.replace("%", "%%"))


def of_rows(publication: str | None, *, version: int) -> str:
    """Return a condition on ``a``, a row of pg_attribute, that is true if rows of the log have the
    column. ``publication`` is None if none exists and none will have a column list.

    Rows have the columns that the publication lists for the table (since version 15). Without a
    list they have those that are not generated, and since version 18 also the stored generated ones
    with publish_generated_columns=stored (PostgreSQL manual, 29.5 "Column Lists" and 29.6
    "Generated Column Replication").
    """
    there = "a.attnum > 0 AND NOT a.attisdropped"
    chosen = "a.attgenerated = ''"
    if not _may_list(publication, version):
        return f"{there} AND {chosen}"
    if version >= _GENERATED_SINCE:
        chosen = f"({chosen} OR (a.attgenerated = 's' AND EXISTS (SELECT FROM {_named(publication)} AND p.pubgencols = 's')))"
    return f"{there} AND COALESCE(({_listed('a.attnum = ANY(r.prattrs::int2[])', publication)}), {chosen})"


def _may_list(publication: str | None, version: int) -> TypeGuard[str]:
    return publication is not None and version >= _COLUMN_LISTS_SINCE


def _named(publication: str) -> str:
    return f"pg_catalog.pg_publication p WHERE p.pubname = {quote_text(publication)}"


def _listed(answer: str, publication: str) -> str:
    """Return a query whose only row is ``answer`` if the publication lists columns of the table,
    and which has no row otherwise.
    """
    return (
        f"SELECT {answer} FROM pg_catalog.pg_publication_rel r, {_named(publication)} "
        "AND r.prpubid = p.oid AND r.prrelid = a.attrelid AND r.prattrs IS NOT NULL"
    )


INDEXES_SQL = (
    "SELECT i.indrelid::bigint, c.relname, i.indisprimary, i.indisunique AND i.indimmediate AND i.indisvalid, i.indpred IS NOT NULL, "
    "0 = ANY(i.indkey::int2[]), "
    "ARRAY(SELECT a.attname::text FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) AS at "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[at] ORDER BY at) "
    "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam "
    "WHERE i.indrelid = ANY(%s::oid[]) AND m.amname = 'btree' ORDER BY i.indrelid, NOT i.indisreplident, NOT i.indisprimary, c.relname"
)

UNSHOWN_SQL = (
    "SELECT a.attname, a.attnum, a.attnotnull, k.place, i.indimmediate FROM pg_catalog.pg_attribute a LEFT JOIN (pg_catalog.pg_index i CROSS JOIN LATERAL "
    "unnest(i.indkey) WITH ORDINALITY AS k (number, place)) ON i.indrelid = a.attrelid AND i.indisprimary AND k.number = a.attnum "
    "AND k.place <= i.indnkeyatts WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY k.place"
)
"""Query for a table's columns in the key's order: (name, number, True if it is NOT NULL, its place
in the primary key or NULL, True if that key is enforced row by row).
"""

ATTACHED_SQL = (
    "WITH RECURSIVE tree (root, number, place) AS (SELECT n, n, NULL FROM unnest(%s::oid[]) AS roots (n) UNION ALL SELECT tree.root, i.inhrelid, i.xmin::text "
    "FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number AND NOT i.inhdetachpending) "
    "SELECT tree.root::bigint, pg_catalog.concat(tree.number, ':', tree.place) FROM tree JOIN pg_catalog.pg_inherits i ON i.inhrelid = tree.number "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = tree.number AND a.attnum = -1 WHERE tree.root <> tree.number "
    "AND (i.xmin::text <> a.xmin::text OR (i.xmax::text = '0' AND EXISTS (SELECT FROM pg_catalog.pg_attribute c "
    "WHERE c.attrelid = tree.number AND c.attnum > 0 AND c.xmin::text = i.xmin::text "
    "AND c.xmax::text = '0' AND c.cmin::text::bigint >= i.cmin::text::bigint))) ORDER BY 1, 2"
)
"""Query for (partitioned table, number and place) of partitions that were tables before.

A partition created as one has its columns before its place in the tree, all from one transaction.
The query finds partitions that differ: the catalog row of the place is of another transaction than
the rows of the system columns, which nothing alters. Or columns were written by the same command as
the place, as ATTACH does, or by a later one. A partition that is attached again gets another place.
A row that somebody was about to delete (xmax) no longer shows its command.
"""

PARTITIONS_SQL = (
    "WITH RECURSIVE tree (root, number) AS (SELECT n, n FROM unnest(%s::oid[]) AS roots (n) UNION ALL SELECT tree.root, i.inhrelid "
    "FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number AND NOT i.inhdetachpending) "
    "SELECT tree.root::bigint, pg_catalog.array_agg(c.oid::bigint ORDER BY c.oid) FROM tree "
    "JOIN pg_catalog.pg_class c ON c.oid = tree.number AND c.relkind = 'r' GROUP BY tree.root"
)
"""Query for (partitioned table, numbers of the tables that store its rows)."""

UNFILLED_SQL = (
    "WITH RECURSIVE tree (top, number) AS (SELECT n, n FROM unnest(%s::oid[]) AS tops (n) "
    "UNION ALL SELECT tree.top, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number) "
    "SELECT tree.top::bigint FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.number GROUP BY tree.top "
    "HAVING pg_catalog.bool_and(c.relkind <> 'r' OR (NOT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.relation = c.oid "
    "AND l.mode = 'AccessExclusiveLock') AND pg_catalog.pg_relation_size(c.oid) = 0))"
)
"""Query for the numbers of those given tables that have no rows, in their partitions either. A
table locked by somebody counts as filled, because a query for its size would wait.
"""

WRITER_SQL = (
    "SELECT a.xmin::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.reltoastrelid AND a.attnum = -1 "
    "WHERE c.oid = %s::oid AND (NOT c.relhasindex OR EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid "
    "WHERE i.indrelid = c.oid AND x.xmin::text = a.xmin::text))"
)
"""Query for the transaction that gave a table its files, if that transaction also created the TOAST
table and rewrote the indexes. Each ALTER TABLE that rewrites all rows does so. pg_repack does it in
several transactions; VACUUM FULL, CLUSTER and TRUNCATE keep the TOAST table.
"""

MARKS_SQL = (
    "WITH RECURSIVE tree (root, number, mark) AS (SELECT i.inhparent, i.inhrelid, i.xmin::text::bigint FROM pg_catalog.pg_inherits i "
    "JOIN pg_catalog.pg_class c ON c.oid = i.inhparent AND c.relkind = 'p' UNION ALL SELECT tree.root, i.inhrelid, i.xmin::text::bigint "
    "FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number), "
    "partitions AS (SELECT root, sum(mark) AS mark FROM tree GROUP BY root) "
    "SELECT c.oid::bigint, n.nspname, c.relname, pg_catalog.concat_ws(':', c.xmin::text, a.mark, i.mark, p.mark) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "CROSS JOIN LATERAL (SELECT sum(a.xmin::text::bigint * a.attnum) AS mark FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) a "
    "CROSS JOIN LATERAL (SELECT sum(i.xmin::text::bigint) AS mark FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid) i "
    "LEFT JOIN partitions p ON p.root = c.oid "
    "WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
)
"""Query for (number, schema, name, mark) of every table. A statement that alters a table rewrites
rows of these catalogs, so their transactions (xmin), and with them the mark, change. It reads
catalogs only: functions that take a table, such as pg_partition_tree(), wait for locks on it.
"""

_TEXT_LITERAL = re.compile(r"E?'((?:[^']|'')*)'(?:::.*)?", re.DOTALL)
_NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\)?(?:::.*)?", re.IGNORECASE)
_NULL = re.compile(r"NULL(?:::.*)?", re.IGNORECASE)


def default_of(expression: str | None) -> tuple[bool, str | None, bool]:
    """Return (True if there is a default, its literal or its text, True if that is an expression)
    for the text of pg_get_expr.
    """
    if expression is None:
        return False, None, False
    if found := _TEXT_LITERAL.fullmatch(expression):
        text = found[1].replace("''", "'")
        return (True, expression, True) if expression.startswith("E") and "\\" in text else (True, text, False)
    if found := _NUMBER.fullmatch(expression):
        return True, found[1], False
    if expression in ("true", "false"):
        return True, expression, False
    if _NULL.fullmatch(expression):
        return True, None, False
    return True, expression, True


def column_of(row: Sequence[Any], types: Types) -> Column:
    """Return the column of a row of ``columns_sql``."""
    _, name, type_, modifier, not_null, type_text, expression, identity, comment, generated, number, filled = row
    expression = None if expression is None else shown(expression)
    has_default, default, is_expression = (False, None, False) if generated else default_of(expression)
    column = Column(
        name=name,
        type="",
        type_text=type_text,
        nullable=not not_null,
        has_default=has_default,
        default=default,
        default_is_expression=is_expression,
        auto_increment=bool(identity) or (is_expression and (default or "").startswith("nextval(")),
        comment=None if comment is None else shown(comment),
        generated=generated,
        number=number,
        filled=filled,
    )
    return types.column(column, type_, modifier)


def tables_of(
    tables: Iterable[Sequence[Any]],
    columns: Iterable[Sequence[Any]],
    indexes: Iterable[Sequence[Any]],
    types: Types,
    attached: Iterable[Sequence[Any]] = (),
    entries: Entries | None = None,
    columns_written: Mapping[int, Sequence[str]] = MappingProxyType({}),
    partitions: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> dict[int, Table]:
    """Return the tables by number.

    A table's key is its primary key, else the first unique index whose columns are all NOT NULL
    (Debezium's rule). An index that is the replica identity goes before both, because deletes show
    no other columns, and an update of another key does not show the old values.
    """
    its_columns: dict[int, list[Column]] = {}
    for row in columns:
        its_columns.setdefault(row[0], []).append(column_of(row, types))
    its_attached: dict[int, list[str]] = {}
    for root, place in attached:
        its_attached.setdefault(root, []).append(place)
    its_indexes: dict[int, list[Index]] = {}
    for number, name, primary, unique, partial, functional, names in indexes:
        its_indexes.setdefault(number, []).append(
            Index(
                name=PRIMARY if primary else name,
                columns=tuple(names),
                unique=unique and not partial,
                partial=partial,
                functional=functional,
            )
        )
    out = {}
    for number, schema, name, _, comment, partitioned, file, large_values in tables:
        found, of_it = tuple(its_columns.get(number, ())), tuple(its_indexes.get(number, ()))
        require_readable_names(TableId(schema, name), (column.name for column in found))
        key, primary = key_of(found, of_it)
        out[number] = Table(
            id=TableId(schema, name),
            columns=found,
            key=key,
            primary_key=primary,
            comment=None if comment is None else shown(comment),
            indexes=of_it,
            number=number,
            partitioned=partitioned,
            attached=tuple(its_attached.get(number, ())),
            file=file or None,
            large_values=large_values or None,
            published_by=() if entries is None else entries.of(number),
            columns_written_by=tuple(sorted(columns_written.get(number, ()))),
            partitions=tuple(partitions.get(number, ())),
        )
    return out


def is_deferrable(table: Table) -> bool:
    """Return True if the primary key is enforced at the end of a statement or transaction, not row
    by row.
    """
    return any(index.name == PRIMARY and not index.unique for index in table.indexes)


def key_of(columns: Sequence[Column], indexes: Sequence[Index]) -> tuple[tuple[str, ...], bool]:
    """Return the key columns, and True if they are the primary key. The indexes must be in the
    order of INDEXES_SQL.
    """
    names = {column.name for column in columns}
    required = {column.name for column in columns if not column.nullable}
    for index in indexes:
        if index.name == PRIMARY and set(index.columns) <= names:
            return index.columns, True
        if index.unique and not index.functional and index.columns and set(index.columns) <= required:
            return index.columns, False
    return (), False


PARTITION_IDENTITIES_SQL = (
    "WITH RECURSIVE tree (root, number) AS (SELECT oid, oid FROM pg_catalog.pg_class WHERE relkind = 'p' AND NOT relispartition UNION ALL "
    "SELECT tree.root, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number AND NOT i.inhdetachpending) "
    "SELECT n.nspname, r.relname, c.relreplident::text FROM tree JOIN pg_catalog.pg_class r ON r.oid = tree.root "
    "JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace JOIN pg_catalog.pg_class c ON c.oid = tree.number AND c.relkind = 'r'"
)
"""Query for the relreplident of each partition with rows, for each partitioned table that is not
itself a partition. It reads catalogs only, like MARKS_SQL.
"""
PARTITION_NAMES_SQL = (
    "WITH RECURSIVE tree (number) AS (SELECT r.oid FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace "
    "WHERE r.relkind = 'p' AND n.nspname = %s AND r.relname = %s UNION ALL "
    "SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.number AND NOT i.inhdetachpending) "
    "SELECT n.nspname, c.relname FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.number AND c.relkind = 'r' "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2"
)
"""Query for (schema, name) of each partition with rows of a partitioned table. It reads catalogs
only.
"""
_SHOWS_LEAST_FIRST = "ndif"


def least_identities(rows: Iterable[tuple[Any, ...]]) -> dict[TableId, str]:
    """Return, by partitioned table, that identity of its partitions which shows least of an old
    row.
    """
    found: dict[TableId, str] = {}
    for schema, name, identity in rows:
        table = TableId(schema, name)
        found[table] = min(found.get(table, identity), identity, key=_SHOWS_LEAST_FIRST.index)
    return found


def identities(tables: Iterable[Sequence[Any]]) -> Mapping[TableId, str]:
    """Return the replica identity (relreplident) of each table from rows of ``tables_sql``."""
    return {TableId(schema, name): identity for _, schema, name, identity, *_ in tables}
