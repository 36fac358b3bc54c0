"""Statements that change existing rows without a row event, so that their tables must be dumped
again (I3).

ALTER TABLE rebuilds a table below the log. An added column's default, a conversion or a dropped
partition reach every old row, but no row event. When in doubt the rule asks for a dump. It asks for
none only if every old row reads the same afterwards: NULL in a new column with default NULL, a
wider integer, a longer text, a charset with every character of the old one.

A column added under the name of a dropped one is empty in every old row, while the records of these
rows have the values of the dropped column. Within one statement dialects/mysql/ddl/alter_table.py
reports this, across statements core/timeline.py, which remembers the names.

A changed key counts, since no row has been sent under it. A removed key does not, since records
without a key replace none.

Removed rows do not count. A dump sends existing rows and removes none. The rows of a dropped or
emptied table or partition, and records under a former name or key, stay in the topic. Debezium
behaves the same: it reports a DROP TABLE in the schema-change topic alone. The status names such
tables (core/removals.py).

Renames count, since the rows have never been sent under the new name. So does a swap, the last step
of gh-ost and pt-online-schema-change: after it the table of the real name has the ghost's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, Unknown
from dblog.model import Column, Table, TableId

Lookup = Callable[[TableId], Table | None]

INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
TEXT_BYTES = {"char": 2, "varchar": 2, "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}
"""Text types by the bytes of their length prefix. CHAR counts characters, of which a TINYTEXT holds
fewer.
"""
BLOB_BYTES = {"varbinary": 2, "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4}
LIMITED = frozenset({"char", "varchar", "varbinary"})
"""Types with a declared length."""
EVERY_CHARACTER = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
BASIC_PLANE = frozenset({"utf8", "utf8mb3", "ucs2"})


def rewritten(changes: Iterable[Change], before: Lookup) -> dict[TableId, str]:
    """Return the tables whose old rows one statement changes, with the reason. ``before`` returns a
    table as it was just before the statement.
    """
    found: dict[TableId, str] = {}
    made: dict[TableId, Table | None] = {}

    def known(id_: TableId) -> Table | None:
        return made[id_] if id_ in made else before(id_)

    for change in changes:
        match change:
            case AlterTable(id_, table):
                old = known(id_)
                reason = (
                    "it has another name" if table.id != id_ else change.rewrites or (None if old is None else changed_rows(old, table))
                )
                made |= {id_: None, table.id: table}
                if reason is not None:
                    found[table.id] = reason
            case RenameTable(pairs):
                for old_id, new_id in pairs:
                    made |= {new_id: known(old_id), old_id: None}
                    found.pop(old_id, None)
                    found[new_id] = f"it was {old_id}"
            case CreateTable(table) if change.with_rows:
                found[table.id] = "it was made with rows"
            case DropTable(ids):
                for id_ in ids:
                    found.pop(id_, None)
            case Unknown(ids, reason):
                found |= dict.fromkeys(ids, f"a statement was not understood ({reason})")
            case _:
                pass
    return found


def changed_rows(before: Table, after: Table) -> str | None:
    """Return the reason why old rows, or the keys of their records, read differently in ``after``;
    None if they do not.
    """
    for column in after.columns:
        if column.hidden:
            continue
        old = before.column(column.name)
        reason = _added(column) if old is None or old.hidden else _converted(old, column)
        if reason is not None:
            return reason
    if after.key and after.key != before.key:
        return f"its rows are distinguished by {', '.join(after.key)} instead of {', '.join(before.key) or 'nothing'}"
    return None


def _added(column: Column) -> str | None:
    if column.generated:
        return f"column {column.name} is computed for every row"
    if column.auto_increment:
        return f"column {column.name} numbers every row"
    if column.default is not None:
        return f"column {column.name} has its default in every row"
    return None if column.nullable else f"column {column.name} is NOT NULL, so every row has a value in it"


def _converted(old: Column, new: Column) -> str | None:
    """Return the reason why values of an old column read differently after the change; None if they
    do not.
    """
    if old.name != new.name:
        return f"column {new.name} was {old.name}"  # another field of the record
    if old.generated != new.generated:
        return f"column {new.name} is{'' if new.generated else ' no longer'} computed"
    if old.nullable and not new.nullable:
        return f"column {new.name} is NOT NULL now, which gives a value to rows without one"
    if new.auto_increment and not old.auto_increment:
        return f"column {new.name} numbers the rows that have none"
    if _holds(old, new):
        return None
    return (
        f"column {new.name} is {new.type_text} instead of {old.type_text}"
        if old.type_text != new.type_text
        else f"column {new.name} is converted"
    )


def _holds(old: Column, new: Column) -> bool:
    """Return whether the new type shows every value exactly as the old one did."""
    if new.type in INTEGERS and old.type in INTEGERS:
        if old.unsigned == new.unsigned:
            return INTEGERS[new.type] >= INTEGERS[old.type]
        return old.unsigned and INTEGERS[new.type] > INTEGERS[old.type]
    if new.type in TEXT_BYTES and old.type in TEXT_BYTES:
        return _holds_text(old, new)
    if new.type in BLOB_BYTES and old.type in BLOB_BYTES:
        return _as_long(old, new, BLOB_BYTES)
    if old.type != new.type or old.unsigned != new.unsigned:
        return False
    match new.type:
        case "enum" | "set":
            return new.members[: len(old.members)] == old.members
        case "decimal":
            return (old.scale or 0) == (new.scale or 0) and (new.length or 10) >= (old.length or 10)
        case "time" | "datetime" | "timestamp":
            return (old.length or 0) == (new.length or 0)
        case "float" | "double":
            return new.scale is None or (old.scale, old.length) == (new.scale, new.length)
        case "bit" | "binary":
            return (old.length or 1) == (new.length or 1)
        case _:
            return old.length == new.length or new.type == "year"


def _holds_text(old: Column, new: Column) -> bool:
    if new.type == "char" and old.type != "char":
        return False  # trailing blanks are lost
    if not _as_long(old, new, TEXT_BYTES):
        return False
    return (
        old.charset == new.charset or new.charset in EVERY_CHARACTER or (new.charset in BASIC_PLANE and old.charset not in EVERY_CHARACTER)
    )


def _as_long(old: Column, new: Column, sizes: dict[str, int]) -> bool:
    if new.type in LIMITED:
        return old.type in LIMITED and (new.length or 0) >= (old.length or 0)
    return sizes[new.type] >= sizes[old.type]
