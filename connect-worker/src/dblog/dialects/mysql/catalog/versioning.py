"""MariaDB's system-versioned tables: what the log carries of them beyond what information_schema shows.

Every version of a row is a row of the log: an UPDATE is logged as an update of the current row and an insert of its old version, a DELETE
as an update of ``row_end``. The log's key is the primary key with ``row_end`` behind it (each unique index is extended so by the server).
Taken so, folding the records by key gives exactly ``SELECT ... FOR SYSTEM_TIME ALL`` from the dump on; with the primary key alone an old
version would overwrite the current row. Columns that the statement did not declare are called row_start and row_end, stand last in the
image, are named by no ``*`` and not listed by information_schema, but can be selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.model import Column, Table

ROW_START, ROW_END = "row_start", "row_end"

IMPLICIT = tuple(
    Column(name=name, type="timestamp", type_text="timestamp(6)", nullable=False, length=6, generated=True, invisible=True)
    for name in (ROW_START, ROW_END)
)
"""The pair that WITH SYSTEM VERSIONING alone adds."""


def without_implicit(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that were declared."""
    return tuple(column for column in columns if column not in IMPLICIT)


def row_end_of(table: Table) -> str | None:
    """The column that ends a row's validity, if the table is versioned and has a key: the last of the key. No other column of a key is made by the server."""
    if not table.key:
        return ROW_END if IMPLICIT[1] in table.columns else None
    last = table.column(table.key[-1])
    return last.name if last is not None and last.generated and (last.type, last.length) == ("timestamp", 6) else None
