"""Schema changes in Debezium's form: the records of the ``<prefix>`` topic, and ``tableChanges`` of
its history records.

A statement gives one record per table that it changes: DROP TABLE a, b gives two, each with its own
statement text. A statement without captured tables gives one record for the database. Rule sources:
Debezium's manual, "MySQL connector", Schema change topic and Schema history topic. The
java.sql.Types numbers are those that Debezium's MySQL parser registers for each type name.

Length and default appear as the statement writes them, if there is a statement. Debezium also
repeats the statement's type name (INTEGER, REAL); here it is the server's canonical name, as in
Debezium's own snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dblog.core.changes import (
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    RenameTable,
    Unknown,
)
from dblog.dialects.mysql.catalog.information_schema import BINARIES
from dblog.dialects.mysql.catalog.sql import quote, quote_table
from dblog.dialects.mysql.ddl.defaults import NOW_WORDS
from dblog.dialects.mysql.values.types import parser_length
from dblog.model import Column, Table, TableId

JDBC_TYPES = {
    **dict.fromkeys(("tinyint", "smallint"), 5),
    **dict.fromkeys(("mediumint", "int", "year"), 4),
    "bigint": -5,
    "decimal": 3,
    "float": 6,
    "double": 8,
    "bit": -7,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    **dict.fromkeys(("char", "enum", "set"), 1),
    **dict.fromkeys(("varchar", "tinytext", "text", "mediumtext", "longtext"), 12),
    "binary": -2,
    "varbinary": -3,
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), 2004),
}
"""DATA_TYPE -> java.sql.Types; all other types (JSON, geometry, vector, UUID) are OTHER."""

JDBC_OTHER = 1111

EPOCH_DEFAULT = "1970-01-01 00:00:00"
"""The value that Debezium writes for DEFAULT CURRENT_TIMESTAMP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A record of the schema-change topic, without its source block and time."""

    database: str
    tables: tuple[TableId, ...]
    """The tables of ``source.table``."""
    ddl: str
    table_changes: tuple[dict[str, Any], ...]
    of_nothing: bool = False
    """True if Debezium's parser sees no change (CREATE INDEX, or IF NOT EXISTS for an existing
    table): ``source.table`` is then empty instead of null.
    """


RECORDS_MAX = 1000
"""The most tables for which a DROP or RENAME statement has one record each. A statement with more
has one record in all, because every record lists all tables in ``source.table``, and a statement
has room for a hundred thousand names of tables that need not exist.
"""

INDEX_STATEMENT = re.compile(r"\s*(CREATE\s+(FULLTEXT\s+|SPATIAL\s+|VECTOR\s+)?INDEX|DROP\s+INDEX)\b", re.IGNORECASE)
IF_EXISTS = re.compile(r"\s*DROP\s+TABLES?\s+IF\s+EXISTS\b", re.IGNORECASE)


def schema_changes(
    changes: Sequence[Change],
    ddl: str,
    *,
    default_database: str,
    after: Callable[[TableId], Table | None],
    captured: Callable[[TableId], bool],
    database: Callable[[str], bool] = lambda _: True,
    comments: bool = False,
) -> list[SchemaChange]:
    """Return the records of one statement, for the tables and databases that are reported.

    ``after`` returns a table as the statement left it (``Timeline.current_table`` after the
    statement was applied).
    """
    records: list[SchemaChange] = []
    for change in changes:
        match change:
            case CreateTable(table, already=True) if captured(table.id):
                records.append(SchemaChange(database=table.id.database, tables=(), ddl=ddl, table_changes=(), of_nothing=True))
            case CreateTable(table) if captured(table.id):
                records.append(_record(ddl, ("CREATE", table.id, table), comments=comments))
            case AlterTable(id_, table) if INDEX_STATEMENT.match(ddl) and captured(id_):
                records.append(SchemaChange(database=id_.database, tables=(), ddl=ddl, table_changes=(), of_nothing=True))
            case AlterTable(id_, table) if captured(id_) or captured(table.id):
                records.append(_record(ddl, ("ALTER", table.id, table), comments=comments))
            case DropTable(ids) if sum(map(captured, ids)) > RECORDS_MAX:
                records.append(_of_many(ddl))
            case RenameTable(pairs) if sum(captured(old) or captured(new) for old, new in pairs) > RECORDS_MAX:
                records.append(_of_many(ddl))
            case DropTable(ids):
                dropped = [id_ for id_ in ids if captured(id_)]
                verb = "DROP TABLE IF EXISTS" if IF_EXISTS.match(ddl) else "DROP TABLE"
                records += [
                    replace(_record(f"{verb} {quote_table(id_)}", ("DROP", id_, None), comments=comments), tables=tuple(dropped))
                    for id_ in dropped
                ]
            case RenameTable(pairs):
                captured_pairs = [(old, new) for old, new in pairs if captured(old) or captured(new)]
                for old, new in captured_pairs:
                    text = ddl if len(pairs) == 1 else f"RENAME TABLE {_bare(old, default_database)} TO {_bare(new, default_database)}"
                    left = after(new)
                    record = _record(text, ("ALTER", new, left), comments=comments)
                    # empty for a name that the statement itself gives up again
                    reported_changes = () if left is None else record.table_changes
                    records.append(replace(record, tables=tuple(new for _, new in captured_pairs), table_changes=reported_changes))
            case Unknown(ids):
                touched = tuple(id_ for id_ in ids if captured(id_))
                if touched:
                    records.append(SchemaChange(database=touched[0].database, tables=touched, ddl=ddl, table_changes=()))
            case CreateDatabase(name) | AlterDatabase(name) | DropDatabase(name) if database(name):
                records.append(SchemaChange(database=name, tables=(), ddl=ddl, table_changes=()))
            case _:
                pass
    return [record if record.database else _in_database(record, default_database) for record in records]


def initial_changes(
    tables: Sequence[tuple[Table, str]],
    databases: Mapping[str, tuple[str | None, str | None]],
    *,
    server: tuple[str, str],
    comments: bool = False,
) -> list[SchemaChange]:
    """Return the records of a connector's first start.

    Their order is Debezium's (its manual, "MySQL connector", Schema change topic): the server's
    charset, every table dropped, then each database created again with its tables.

    ``tables``: each with its CREATE TABLE text; ``databases``: name -> (charset, collation);
    ``server``: charset and collation.
    """
    records = [
        SchemaChange(database="", tables=(), ddl=f"SET character_set_server={server[0]}, collation_server={server[1]}", table_changes=())
    ]
    records += [
        _record(f"DROP TABLE IF EXISTS {quote_table(table.id)}", ("DROP", table.id, None), comments=comments) for table, _ in tables
    ]
    for name in dict.fromkeys(table.id.database for table, _ in tables):
        quoted = quote(name)
        charset, collation = databases.get(name, (None, None))
        defaults = (f" CHARSET {charset}" if charset else "") + (f" COLLATE {collation}" if collation else "")
        statements = (f"DROP DATABASE IF EXISTS {quoted}", f"CREATE DATABASE {quoted}{defaults}", f"USE {quoted}")
        records += [SchemaChange(database=name, tables=(), ddl=text, table_changes=()) for text in statements]
        records += [_record(ddl, ("CREATE", table.id, table), comments=comments) for table, ddl in tables if table.id.database == name]
    return records


def _bare(id_: TableId, default_database: str) -> str:
    """Return a name as a client would write it: without the default database, and quoted only if
    needed.
    """
    parts = (id_.name,) if id_.database == default_database else (id_.database, id_.name)
    return ".".join(part if re.fullmatch(r"[0-9A-Za-z_$]*[A-Za-z_$][0-9A-Za-z_$]*", part) else quote(part) for part in parts)


def _of_many(ddl: str) -> SchemaChange:
    """Return the only record of a statement with more than ``RECORDS_MAX`` tables."""
    return SchemaChange(database="", tables=(), ddl=ddl, table_changes=())


def _in_database(record: SchemaChange, database: str) -> SchemaChange:
    return replace(record, database=database)


def _record(ddl: str, change: tuple[str, TableId, Table | None], *, comments: bool) -> SchemaChange:
    kind, id_, table = change
    return SchemaChange(database=id_.database, tables=(id_,), ddl=ddl, table_changes=(table_change(kind, id_, table, comments=comments),))


def schema_change_values(record: SchemaChange, *, source: dict[str, Any], ts_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return key and value of a record, for ``codecs.envelope.schema_change_key`` and
    ``schema_change_value``.
    """
    value = {
        "source": source,
        "ts_ms": ts_ms,
        "databaseName": record.database,
        "schemaName": None,
        "ddl": record.ddl,
        "tableChanges": list(record.table_changes),
    }
    return {"databaseName": record.database}, value


def table_change(kind: str, id_: TableId, table: Table | None, *, comments: bool = False) -> dict[str, Any]:
    """Return one item of ``tableChanges``; ``kind`` is CREATE, ALTER or DROP."""
    return {"type": kind, "id": _debezium_id(id_), "table": None if table is None else _table(table, comments=comments)}


def _debezium_id(id_: TableId) -> str:
    """Return ``"database"."name"``, the form that dialects/mysql/task/takeover.py parses."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (id_.database, id_.name))


def _table(table: Table, *, comments: bool) -> dict[str, Any]:
    return {
        "defaultCharsetName": table.charset,
        "primaryKeyColumnNames": list(table.key),
        "columns": [_column(column, position, comments=comments) for position, column in enumerate(table.columns, start=1)],
        "comment": table.comment if comments else None,
    }


def _column(column: Column, position: int, *, comments: bool) -> dict[str, Any]:
    name = column.type.upper() + (" UNSIGNED" if column.unsigned else "") + (" ZEROFILL" if column.type_text.endswith("zerofill") else "")
    return {
        "name": column.name,
        "jdbcType": JDBC_TYPES.get(column.type, JDBC_OTHER),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": column.charset,
        "length": _length(column),
        "scale": column.scale,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": column.auto_increment,
        # Debezium sets it for AUTO_INCREMENT, not for GENERATED ALWAYS AS, in its snapshot and from
        # the log.
        "generated": column.auto_increment,
        "comment": column.comment if comments else None,
        "defaultValueExpression": _default(column),
        "enumValues": ["'" + member.replace("'", "''") + "'" for member in column.members] or None,
    }


def _length(column: Column) -> int | None:
    length = parser_length(column)
    # If the parser keeps the server's length, report the length that the statement writes.
    return length if column.written is None or length != column.length else column.written.length


def _default(column: Column) -> str | None:
    if column.default is None:
        return None
    if column.written is not None and column.written.default is not None:
        return column.written.default
    if column.default_is_expression:
        return EPOCH_DEFAULT if column.default.upper().startswith(NOW_WORDS) else None
    if column.type == "bit":
        return column.default.removeprefix("b'").removesuffix("'")
    if column.type in BINARIES and (digits := re.fullmatch(r"0x([0-9A-F]*)", column.default)):
        try:
            return bytes.fromhex(digits[1]).decode()
        except UnicodeDecodeError:
            return column.default
    return column.default
