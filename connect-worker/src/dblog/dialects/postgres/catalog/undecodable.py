"""Handles texts of the catalog that are not UTF-8, which a database in SQL_ASCII may contain. Each
of their bytes arrives as a lone surrogate (wire/encodings.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from dblog.errors import DefiniteError
from dblog.model import TableId


def shown(text: str) -> str:
    """Return a text that records may contain: bytes that are not UTF-8 become replacement
    characters, as in values.
    """
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def require_readable_names(table: TableId, columns: Iterable[str]) -> None:
    """Raise DefiniteError if a captured table or one of its columns has a name that no topic or
    record can have.
    """
    named = f"{_quoted(table.database)}.{_quoted(table.name)}"
    if not (_is_readable(table.database) and _is_readable(table.name)):
        message = (
            f"the name of table {_bytes_of(str(table))} is not valid UTF-8 (the database is in SQL_ASCII), so no topic can have it; {_RUN} ALTER TABLE {named} "
            f"RENAME TO a name in ASCII; {_LEAVE_OUT}"
        )
        raise DefiniteError(message)
    for column in columns:
        if not _is_readable(column):
            message = (
                f"the name of column {_bytes_of(column)} of {table} is not valid UTF-8 (the database is in SQL_ASCII), so no record can have it; {_RUN} "
                f"ALTER TABLE {named} RENAME COLUMN {_quoted(column)} TO a name in ASCII; {_LEAVE_OUT}"
            )
            raise DefiniteError(message)


_RUN = "run there, in a session with the client_encoding that it was written in:"
_LEAVE_OUT = "or leave the table out with table.exclude.list"


def _is_readable(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _quoted(name: str) -> str:
    return '"' + _bytes_of(name).replace('"', '""') + '"'


def _bytes_of(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
