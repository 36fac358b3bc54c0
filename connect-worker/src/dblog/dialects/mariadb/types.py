"""The record type of each MariaDB column: MySQL's rules, and the types that only MariaDB has.

Debezium 3.6's MariaDB grammar cannot read INET4, INET6 or XMLTYPE. Here addresses are captured as
their text, as a SELECT of the column shows them.
"""

from __future__ import annotations

from dblog.codecs.plan import ColumnPlan, Form, Source
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.mysql.values import types as mysql
from dblog.dialects.mysql.values.types import Typed, TypeModes
from dblog.model import Column, TableId

__all__ = ["TypeModes", "column_plan", "column_type"]

_UUID = Schema(kind=Kind.STRING, name="io.debezium.data.Uuid", version=1)
_TEXT = Schema(kind=Kind.STRING)


def column_type(column: Column, modes: TypeModes) -> Typed | None:
    """Return a column's form in the source, its form in records and its bare schema; None if its
    type cannot be captured.
    """
    match mysql.canonical_type(column):
        case "uuid":
            return Typed(Source.UUID, Form.TEXT, _UUID, "00000000-0000-0000-0000-000000000000")
        case "inet4":
            return Typed(Source.INET4, Form.TEXT, _TEXT, "0.0.0.0")  # noqa: S104 - a type's zero, nothing binds to it
        case "inet6":
            return Typed(Source.INET6, Form.TEXT, _TEXT, "::")
        case "json":  # an alias of longtext here, and so in SHOW CREATE TABLE
            return mysql.text_type()
        case _:
            return mysql.column_type(column, modes)


def column_plan(column: Column, modes: TypeModes, table: TableId, *, included: bool = True) -> ColumnPlan:
    """Return the plan of one column of ``table``; see the same function of the MySQL dialect."""
    return mysql.assemble(column, column_type(column, modes), modes, table, included=included)
