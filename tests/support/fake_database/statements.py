"""The statements of the database in memory: six kinds, two types, names with a database or not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, Ignored, RenameTable, Unknown, tables_of
from dblog.model import Column, Table, TableId

CREATE = re.compile(r"CREATE TABLE (\S+) \((.*), PRIMARY KEY \((.*)\)\)$")
ADD = re.compile(r"ALTER TABLE (\S+) ADD (\S+) (int|text)$")
DROP_COLUMN = re.compile(r"ALTER TABLE (\S+) DROP (\S+)$")
KEY = re.compile(r"ALTER TABLE (\S+) KEY \((.*)\)$")
DROP = re.compile(r"DROP TABLE (\S+)$")
RENAME = re.compile(r"RENAME TABLE (\S+) TO (\S+)$")
STRANGELY = " STRANGELY"
"""End of a statement that the server understands, but the reader of its log does not."""


def column(name: str, kind: str, *, nullable: bool = True) -> Column:
    return Column(name=name, type=kind, type_text=kind, nullable=nullable)


def parse(text: str, database: str, lookup: Callable[[TableId], Table | None], *, strange: bool = True) -> list[Change]:
    """Return the changes of a statement.

    With ``strange`` False, strange statements give an `Unknown`.
    """

    def name(of: str) -> TableId:
        head, _, tail = of.rpartition(".")
        return TableId(head or database, tail)

    if text.endswith(STRANGELY):
        changes = parse(text.removesuffix(STRANGELY), database, lookup)
        return changes if strange else [Unknown(tuple(table for change in changes for table in tables_of(change)), "it is strange")]
    if found := CREATE.match(text):
        key = tuple(found[3].split(", "))
        columns = (part.split(" ") for part in found[2].split(", "))
        made = tuple(column(name_, kind, nullable=name_ not in key) for name_, kind in columns)
        return [CreateTable(Table(id=name(found[1]), columns=made, key=key))]
    if found := ADD.match(text):
        return _altered(name(found[1]), lookup, lambda columns: (*columns, column(found[2], found[3])))
    if found := DROP_COLUMN.match(text):
        return _altered(name(found[1]), lookup, lambda columns: tuple(c for c in columns if c.name != found[2]))
    if found := KEY.match(text):
        key = tuple(found[2].split(", "))
        return [
            AlterTable(change.table.id, replace(change.table, key=key)) if isinstance(change, AlterTable) else change
            for change in _altered(name(found[1]), lookup, lambda columns: columns)
        ]
    if found := DROP.match(text):
        return [DropTable((name(found[1]),))]
    if found := RENAME.match(text):
        return [RenameTable(((name(found[1]), name(found[2])),))]
    return [Ignored("it changes no table")]


def _altered(
    id_: TableId, lookup: Callable[[TableId], Table | None], change: Callable[[tuple[Column, ...]], tuple[Column, ...]]
) -> list[Change]:
    table = lookup(id_)
    if table is None:
        return [Unknown((id_,), "its table is not known")]
    return [AlterTable(id_, replace(table, columns=change(table.columns)))]
