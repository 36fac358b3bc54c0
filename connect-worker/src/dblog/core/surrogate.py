"""Decides the order in which the chunks of a table are read: by the table's key, or by a column
that a request names (Debezium's surrogate-key).

A unique column is enough by itself. After any other column the table's key follows, so that rows
with the same value have an order too, and a chunk may end between them. A table without a key has
nothing to add: its chunks end after the last row of a value. So no row is lost if several rows
share a value, and ranges work as for any dump. # I3

A row whose value changes during the dump is in the log and may be in no chunk. The reader of the
log then makes its record complete (``TaskContext.moves_rows``), or ends the table's dump. An ALTER
is the exception: the same name may stand for other values after it, and no row of the log shows
that. So a dump in such an order starts again after an ALTER (readers/dump/dumping.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dblog.config.nearest import nearest
from dblog.errors import DefiniteError
from dblog.model import Column, Index, Table

ORDERED = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "numeric", "year"),
        *("date", "time", "datetime", "timestamp"),
        *("char", "varchar", "binary", "varbinary", "enum", "set", "uuid", "inet4", "inet6"),
        *("int2", "int4", "int8", "oid", "timestamptz", "bpchar", "bytea", "inet", "cidr", "macaddr", "macaddr8"),
    )
)
"""Types of MySQL, MariaDB and PostgreSQL whose values fit into a chunk's bound exactly, in a few
bytes, and that an index orders.
"""


def keyed_by(table: Table, surrogate: str | None) -> Table:
    """Return the table with a key that bounds its chunks: its own key, or one that begins with the
    column ``surrogate``. Raise DefiniteError if the table cannot be read by that column.
    """
    if surrogate is None:
        return table
    column = _column(table, surrogate)
    name = column.name
    rest = tuple(each for each in table.key if each.lower() != name.lower())
    if table.key and table.key[0].lower() == name.lower():
        return table
    if any(index.unique and not index.partial and not index.functional and _lowered(index) == (name.lower(),) for index in table.indexes):
        return replace(table, key=(name,), primary_key=False)
    key = (name, *rest)
    if not any(order[: len(key)] == tuple(each.lower() for each in key) for order in _orders(table)):
        message = (
            f"{table.id} has no index in the order of {', '.join(key)}, so the server would sort the table for each chunk; create an index on {name}, or name "
            "the first column of one"
        )
        raise DefiniteError(message)
    if not table.key and (document := next((each for each in table.columns if each.type == "json"), None)) is not None:
        message = (
            f"{table.id} has no key, and the kinds of values in its column {document.name} are asked for by key; add a primary key, or request the dump "
            "without surrogate_key"
        )
        raise DefiniteError(message)
    return replace(table, key=key, primary_key=False)


def _column(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None or column.hidden:
        meant = nearest(name, (each.name for each in table.columns if not each.hidden))
        message = (
            f"{table.id} has no column {name} to be read by as far as its log has been read; "
            f"{f'is {meant} meant?' if meant else 'name one that it has, or a table alone that has it'}"
        )
        raise DefiniteError(message)
    reason = None
    if column.nullable:
        reason = "may be NULL, and no range has rows of NULL; name a column that is NOT NULL"
    elif column.generated:
        reason = "is generated, and its values may change without a trace in the log; name one that is stored as it was written"
    elif column.type not in ORDERED:
        reason = f"is of the type {column.type}, by which no chunk can be bounded; name a column of a number, a time or a short text"
    if reason is not None:
        message = f"{table.id} cannot be read by its column {column.name}, which {reason}"
        raise DefiniteError(message)
    return column


def _orders(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the orders in which the indexes return rows. InnoDB appends the key to the columns of
    each index.
    """
    key = tuple(each.lower() for each in table.key)
    for index in table.indexes:
        if not index.functional and not index.partial:
            columns = _lowered(index)
            yield (*columns, *(each for each in key if each not in columns))


def _lowered(index: Index) -> tuple[str, ...]:
    return tuple(name.lower() for name in index.columns)
