"""The order in which the chunks of a table are read: by its key, or by a column that a request names (Debezium's surrogate-key).

A column that one row at most has each value of is enough by itself. Behind any other one the table's key follows, so that rows of one value have an order
too, and a chunk may end between them. A table without a key has nothing to put there: its chunks end behind the last row of a value. So no row is lost
where a value stands in many rows, and a range is what it is for any dump. # I3

A row that gets another value meanwhile is in the log, and may be in no chunk: whoever reads the log makes its record whole (``TaskContext.moves_rows``), or
ends the table's dump. What no row of the log shows is an ALTER: the same name may stand for other values behind it, so what
is read in such an order begins again then (readers/dumping.py).
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
"""Types of MySQL, MariaDB and PostgreSQL whose values a bound holds exactly, in a few bytes, and that an index orders."""


def keyed_by(table: Table, surrogate: str | None) -> Table:
    """The table with the columns for its key that its chunks are bounded by. DefiniteError where it cannot be read by that column."""
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
    """The orders in which indexes give the rows: InnoDB has the key behind the columns of each."""
    key = tuple(each.lower() for each in table.key)
    for index in table.indexes:
        if not index.functional and not index.partial:
            columns = _lowered(index)
            yield (*columns, *(each for each in key if each not in columns))


def _lowered(index: Index) -> tuple[str, ...]:
    return tuple(name.lower() for name in index.columns)
