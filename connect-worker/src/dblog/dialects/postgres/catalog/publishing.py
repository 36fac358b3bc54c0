"""Reads the catalog entries by which a publication puts a table's rows into the log.

An entry is a text with the number of a row in the catalog and the transaction that wrote that row
(xmin). So an entry that was removed and created again differs from the old one
(``pgoutput/interruptions.py`` compares them). Source of the rules: PostgreSQL manual, chapter 53
"System Catalogs", pg_publication and the following.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dblog.dialects.postgres.catalog.sql import quote_text

_SCHEMAS_SINCE = 150000
_ROW_FILTERS_SINCE = 150000

_TABLES_SQL = (
    "WITH RECURSIVE p AS (SELECT oid, puballtables, pubviaroot FROM pg_catalog.pg_publication WHERE pubname = {name}), "
    "listed (number, filtered) AS (SELECT r.prrelid, {filtered} FROM p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid{of_schemas}), "
    "below (number, filtered, listed) AS (SELECT number, filtered, TRUE FROM listed UNION ALL SELECT i.inhrelid, FALSE, FALSE FROM below "
    "JOIN pg_catalog.pg_inherits i ON i.inhparent = below.number AND NOT i.inhdetachpending "
    "JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition), "
    "published (number, listed, passed_on, filtered) AS (SELECT number, pg_catalog.bool_or(listed), NOT pg_catalog.bool_and(listed), "
    "pg_catalog.bool_or(listed) AND pg_catalog.bool_and(filtered OR NOT listed) FROM below GROUP BY number) "
    "SELECT n.nspname, c.relname, COALESCE(published.filtered AND NOT p.puballtables, FALSE) FROM p CROSS JOIN pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN published ON published.number = c.oid "
    "WHERE c.relpersistence = 'p' AND c.oid >= 16384 AND CASE "
    "WHEN NOT p.pubviaroot THEN c.relkind = 'r' AND (p.puballtables OR published.number IS NOT NULL) "
    "WHEN p.puballtables THEN c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "ELSE published.listed AND NOT published.passed_on END"
)
_LISTED_OF_SCHEMAS_SQL = (
    " UNION ALL SELECT c.oid, FALSE FROM p JOIN pg_catalog.pg_publication_namespace s ON s.pnpubid = p.oid "
    "JOIN pg_catalog.pg_class c ON c.relnamespace = s.pnnspid AND c.relkind IN ('r', 'p')"
)

_ENTRIES_SQL = (
    "WITH RECURSIVE p AS (SELECT oid, puballtables, pg_catalog.concat(oid, ':', xmin) AS mark FROM pg_catalog.pg_publication "
    "WHERE pubname = {name} AND pubinsert AND pubupdate AND pubdelete), "
    "up (number, above, places) AS (SELECT i.inhrelid, i.inhparent, pg_catalog.concat(':', i.xmin) FROM pg_catalog.pg_inherits i "
    "JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition AND c.relkind IN ('r', 'p') AND NOT i.inhdetachpending "
    "UNION ALL SELECT up.number, i.inhparent, pg_catalog.concat(up.places, ':', i.xmin) FROM up "
    "JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.above AND NOT i.inhdetachpending "
    "JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition), "
    "own (number, above, places) AS (SELECT oid, oid, '' FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') UNION ALL SELECT * FROM up) "
    "SELECT NULL::bigint, pg_catalog.concat('all:', p.mark) FROM p WHERE p.puballtables "
    "UNION ALL SELECT own.number::bigint, pg_catalog.concat('table:', p.mark, ':', r.oid, ':', r.xmin, own.places) "
    "FROM p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid JOIN own ON own.above = r.prrelid"
)
_OF_SCHEMAS_SQL = (
    " UNION ALL SELECT own.number::bigint, pg_catalog.concat('schema:', p.mark, ':', n.oid, ':', n.xmin, own.places) "
    "FROM p JOIN pg_catalog.pg_publication_namespace n ON n.pnpubid = p.oid JOIN pg_catalog.pg_class c ON c.relnamespace = n.pnnspid "
    "AND c.relkind IN ('r', 'p') JOIN own ON own.above = c.oid"
)

COLUMNS_WRITTEN_SQL = (
    "SELECT a.attrelid::bigint, pg_catalog.array_agg(DISTINCT a.xmin::text) FROM pg_catalog.pg_attribute a "
    "WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY a.attrelid"
)
"""Query for (number, transactions) of tables: ``Table.columns_written_by``. Dropped columns are
left out, since no statement rewrites their rows.
"""


def tables_sql(publication: str, *, version: int) -> str:
    """Return a query for (schema, name, True if only some rows are published) of the tables that a
    publication publishes, either partitions or their roots.

    The rows are those of the view pg_publication_tables, which cannot be used because it waits for
    locks on the tables.
    """
    return _TABLES_SQL.format(
        name=quote_text(publication),
        filtered="r.prqual IS NOT NULL" if version >= _ROW_FILTERS_SINCE else "FALSE",
        of_schemas=_LISTED_OF_SCHEMAS_SQL if version >= _SCHEMAS_SINCE else "",
    )


def entries_sql(publication: str, *, version: int, numbers: Sequence[int] | None = None) -> str:
    """Return a query for (number of a table, entry) of every table that the publication has with
    INSERT, UPDATE and DELETE. ``numbers`` limits it to these tables.

    A NULL number stands for all tables. If a partitioned table brings its partitions into the
    publication, their entries also contain the partitions' places in the tree.
    """
    query = _ENTRIES_SQL.format(name=quote_text(publication)) + (_OF_SCHEMAS_SQL if version >= _SCHEMAS_SINCE else "")
    if numbers is None:
        return query
    wanted = ", ".join(str(int(number)) for number in numbers)
    return f"SELECT number, entry FROM ({query}) AS e (number, entry) WHERE number IS NULL OR number = ANY(ARRAY[{wanted}]::bigint[])"


class Entries:
    """The entries of one publication by table."""

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        """Read the rows of ``entries_sql``."""
        self._of_all: tuple[str, ...] = ()
        self._own: dict[int, list[str]] = {}
        for number, entry in rows:
            if number is None:
                self._of_all = (entry,)
            else:
                self._own.setdefault(number, []).append(entry)

    def of(self, number: int) -> tuple[str, ...]:
        """Return the entries that bring a table's rows into the log. Return () if the publication
        lacks the table or leaves out a kind of change.
        """
        return (*self._of_all, *sorted(self._own.get(number, ())))
