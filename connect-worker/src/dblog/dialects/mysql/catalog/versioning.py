"""MariaDB's system-versioned tables: the part of them that is in the log but not in
information_schema.

Every version of a row is a row of the log. An UPDATE is logged as an update of the current row and
an insert of its old version, a DELETE as an update of ``row_end``. The log's key is the primary key
with ``row_end`` appended (the server extends each unique index this way). With this key, folding
the records by key gives exactly ``SELECT ... FOR SYSTEM_TIME ALL`` from the dump on. With the
primary key alone an old version would overwrite the current row.

Columns that the statement did not declare are called row_start and row_end. They come last in the
image. ``*`` and information_schema leave them out, but they can be selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.model import Column, Table

ROW_START, ROW_END = "row_start", "row_end"

IMPLICIT = tuple(
    Column(name=name, type="timestamp", type_text="timestamp(6)", nullable=False, length=6, generated=True, invisible=True)
    for name in (ROW_START, ROW_END)
)
"""The pair of columns that WITH SYSTEM VERSIONING adds if the statement declares none."""


def without_implicit(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the declared columns."""
    return tuple(column for column in columns if column not in IMPLICIT)


def row_end_of(table: Table) -> str | None:
    """Return the column that ends a row's validity; None if the table is not versioned. It is the
    last column of the key, and no other key column is generated.
    """
    if not table.key:
        return ROW_END if IMPLICIT[1] in table.columns else None
    last = table.column(table.key[-1])
    return last.name if last is not None and last.generated and (last.type, last.length) == ("timestamp", 6) else None
