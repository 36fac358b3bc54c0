"""The information_schema of MariaDB (10.5 to 12): the rows are MySQL's, but COLUMN_DEFAULT is SQL
text.

A literal is quoted (``'x'``), DEFAULT NULL is the word ``NULL``, an expression is plain
(``current_timestamp()``), and so is a number. SQL NULL means that the column has no default
(MDEV-13132). EXTRA does not mark expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from dblog.dialects.mysql.catalog import information_schema
from dblog.dialects.mysql.catalog.information_schema import DefaultText, Execute
from dblog.model import Table, TableId


def mariadb_default(text: str | None, nullable: bool, type_: str, extra: str) -> DefaultText:  # noqa: FBT001 - a cell of a row
    """Return the meaning of a COLUMN_DEFAULT cell. A nullable column without one (TEXT before 10.2)
    defaults to NULL nevertheless.
    """
    del extra
    if text is None:
        return DefaultText(nullable, None, False)
    if text.upper() == "NULL":
        return DefaultText(True, None, False)
    if len(text) > 1 and text[0] == "'" and text[-1] == "'":
        literal = information_schema.unquote(text)
        raw = literal.encode("utf-8", "surrogateescape")
        return DefaultText(True, information_schema.binary_default(raw, type_) if type_ in information_schema.BINARIES else literal, False)
    plain = re.fullmatch(r"[-+]?\d*\.?\d+(e[-+]?\d+)?|b'[01]*'|x'[0-9a-f]*'|0x[0-9a-f]+|true|false", text, re.IGNORECASE)
    return DefaultText(True, text, plain is None, text if information_schema.MOMENT.fullmatch(text) else None)


def read_tables(execute: Execute, include: Callable[[TableId], bool], *, databases: Iterable[str] | None = None) -> list[Table]:
    """Return every base table that ``include`` accepts; see catalog/information_schema.py of MySQL."""
    return information_schema.read_tables(execute, include, databases=databases, default_of=mariadb_default)
