"""information_schema of MariaDB (10.5 to 12): the same rows as MySQL's, but COLUMN_DEFAULT is SQL text.

A literal comes quoted (``'x'``), DEFAULT NULL as the word ``NULL``, an expression plain (``current_timestamp()``), a number plain, and
SQL NULL means that there is no default (MDEV-13132). EXTRA has no mark of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from dblog.dialects.mysql import catalog
from dblog.dialects.mysql.catalog import DatabaseDefaults, DefaultText, Execute
from dblog.model import Table, TableId


def mariadb_default(text: str | None, nullable: bool, type_: str, extra: str) -> DefaultText:  # noqa: FBT001 - a cell of a row
    """What COLUMN_DEFAULT means; nullable columns without any (TEXT before 10.2) default to NULL all the same."""
    del extra
    if text is None:
        return DefaultText(nullable, None, False)
    if text.upper() == "NULL":
        return DefaultText(True, None, False)
    if len(text) > 1 and text[0] == "'" and text[-1] == "'":
        literal = catalog.unquote(text)
        raw = literal.encode("utf-8", "surrogateescape")
        return DefaultText(True, catalog.binary_default(raw, type_) if type_ in catalog.BINARIES else literal, False)
    plain = re.fullmatch(r"[-+]?\d*\.?\d+(e[-+]?\d+)?|b'[01]*'|x'[0-9a-f]*'|0x[0-9a-f]+|true|false", text, re.IGNORECASE)
    return DefaultText(True, text, plain is None, text if catalog.MOMENT.fullmatch(text) else None)


def read_databases(execute: Execute) -> list[DatabaseDefaults]:
    """Charset and collation of every database but the server's own."""
    return catalog.read_databases(execute)


def read_tables(execute: Execute, include: Callable[[TableId], bool], *, databases: Iterable[str] | None = None) -> list[Table]:
    """Every base table that ``include`` accepts; see the MySQL twin."""
    return catalog.read_tables(execute, include, databases=databases, default_of=mariadb_default)


def read_table(execute: Execute, table: TableId) -> Table | None:
    """One table as it is now; see the MySQL twin."""
    return catalog.read_table(execute, table, default_of=mariadb_default)
