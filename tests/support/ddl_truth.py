"""Compares our parser with a real server after each statement.

The parser reads the server's log; information_schema has the expected tables.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import fields, replace
from pathlib import Path

from dblog.core.changes import Change, Unknown
from dblog.core.timeline import Database, Timeline
from dblog.dialects.mariadb.catalog import mariadb_default
from dblog.dialects.mariadb.flavor import mariadb_flavor
from dblog.dialects.mysql.binlog.event_types import EventType
from dblog.dialects.mysql.binlog.table_map import TableMap, read_table_map
from dblog.dialects.mysql.catalog import information_schema
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ORACLE, REAL_AS_FLOAT, Context
from dblog.dialects.mysql.ddl.flavor import mysql_flavor
from dblog.model import Table, TableId
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

SQL_MODES = {
    "ANSI_QUOTES": ANSI_QUOTES,
    "NO_BACKSLASH_ESCAPES": NO_BACKSLASH_ESCAPES,
    "REAL_AS_FLOAT": REAL_AS_FLOAT,
    "ORACLE": ORACLE | ANSI_QUOTES,
}


class Follower:
    """A session in a new database, and the timeline that follows its log."""

    def __init__(self, cursor: Cursor, flavor: str, database: str, *, sql_mode: str | None = None) -> None:
        self.cursor = cursor
        self.mariadb = flavor == "mariadb"
        self.database = database
        self.timeline = Timeline()
        self.position = (1, 0)
        version = tuple(int(part) for part in re.findall(r"\d+", str(self.ask("SELECT VERSION()")[0][0]))[:3])
        self.flavor = (mariadb_flavor if self.mariadb else mysql_flavor)(version)
        self.explicit_timestamps: bool | None = None
        self.time_zone: str | None = None
        self.sql_mode = 0
        self._session(database, sql_mode)
        self.server = self.ask("SELECT @@character_set_server, @@collation_server")[0]
        for defaults in information_schema.read_databases(self.ask):
            self.timeline.databases[defaults.name] = Database(defaults.charset, defaults.collation)
        self.log = self._log_end()

    def _session(self, database: str, sql_mode: str | None) -> None:
        self.cursor.execute(f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4")
        self.cursor.execute(f"USE `{database}`")
        if sql_mode in ("implicit_timestamps", "explicit_timestamps"):
            self.explicit_timestamps = sql_mode.startswith("explicit")
            value = "ON" if self.explicit_timestamps else "OFF"
            self.cursor.execute(f"SET SESSION sql_mode = '', explicit_defaults_for_timestamp = {value}")
        elif sql_mode is not None:
            self.cursor.execute(f"SET SESSION sql_mode = '{sql_mode}'")
            self.sql_mode = SQL_MODES.get(sql_mode, 0)

    def ask(self, sql: str, parameters: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
        self.cursor.connection.use_unicode = not sql.startswith("SHOW CREATE")
        self.cursor.execute(sql, parameters or None)
        self.cursor.connection.use_unicode = True
        return list(self.cursor.fetchall())

    def run(self, statement: str) -> tuple[Change, ...]:
        """Execute the statement and apply the logged text. Return the changes."""
        self.cursor.execute(statement)
        return self.follow()

    def follow(self) -> tuple[Change, ...]:
        """Apply the statements that the server has logged since the last call."""
        changes: list[Change] = []
        for text in self._logged():
            self.position = (1, self.position[1] + 1)
            parsed = parser.parse(text, self.context())
            self.timeline.apply(parsed, self.position, ddl=text)
            changes.extend(parsed)
        return tuple(changes)

    def context(self) -> Context:
        return Context(
            flavor=self.flavor,
            table=self.timeline.lookup_before(self.position),
            default_database=self.database,
            sql_mode=self.sql_mode,
            explicit_timestamps=self.explicit_timestamps,
            time_zone=self.time_zone,
            database_charset=self._database_charset,
            server_charset=str(self.server[0]),
            server_collation=str(self.server[1]),
        )

    def _database_charset(self, name: str) -> tuple[str | None, str | None]:
        known = self.timeline.databases.get(name)
        return (known.charset, known.collation) if known else (None, None)

    def _log_end(self) -> tuple[str, int]:
        status = self.ask("SHOW MASTER STATUS" if self.mariadb else "SHOW BINARY LOG STATUS")[0]
        return str(status[0]), int(str(status[1]))

    def _logged(self) -> list[str]:
        file, start = self.log
        end = self._log_end()
        if end == self.log:
            return []
        events = self.ask(f"SHOW BINLOG EVENTS IN '{file}' FROM {start}")
        self.log = end
        texts = (re.sub(r"""^use (?:`(?:[^`]|``)*`|"(?:[^"]|"")*"); """, "", str(event[5])) for event in events if event[2] == "Query")
        return [text for text in texts if text not in ("BEGIN", "COMMIT")]

    def table_maps(self, data: Path) -> list[TableMap]:
        """Insert a row of defaults into each table, and read the table maps from the log file.

        Tables that cannot have one are left out.
        """
        file, start = self._log_end()
        self.cursor.execute("SET SESSION sql_mode = ''")
        for id_ in self.ours():
            name = id_.name.replace("`", "``")
            with contextlib.suppress(MySQLError):
                self.cursor.execute(f"INSERT IGNORE INTO `{id_.database}`.`{name}` () VALUES ()")
        written = (data / file).read_bytes()[start:]
        maps, at = [], 0
        while at < len(written):
            length = int.from_bytes(written[at + 9 : at + 13], "little")
            if written[at + 4] == EventType.TABLE_MAP:
                maps.append(read_table_map(written[at + 19 : at + length - 4], mariadb=self.flavor.mariadb))
            at += length
        return [found for found in maps if found.table in self.ours()]

    def truth(self) -> dict[TableId, Table]:
        """Return the database's tables by information_schema."""
        default_of = mariadb_default if self.mariadb else None
        return {
            t.id: comparable(t)
            for t in information_schema.read_tables(self.ask, lambda _: True, databases=[self.database], default_of=default_of)
        }

    def ours(self) -> dict[TableId, Table]:
        """Return the database's tables by our timeline."""
        found = ((id_, self.timeline.current_table(id_)) for id_ in self.timeline.tables() if id_.database == self.database)
        return {id_: comparable(table) for id_, table in found if table is not None}


def comparable(table: Table) -> Table:
    """Return the table without permitted differences.

    These are the order of the indexes and the text of expressions, which the server rewrites.
    """
    columns = tuple(replace(c, default="<expression>") if c.default_is_expression else c for c in table.columns)
    return replace(table, columns=columns, indexes=tuple(sorted(table.indexes, key=lambda index: index.name)))


def differences(truth: dict[TableId, Table], ours: dict[TableId, Table]) -> list[str]:
    """Return a line for each difference; the list is empty if there is none."""
    lines = []
    for id_ in sorted({*truth, *ours}):
        server, parsed = truth.get(id_), ours.get(id_)
        if server is None or parsed is None:
            lines.append(f"{id_} is only {'ours' if server is None else 'the server’s'}")
            continue
        lines += [
            f"{id_} {f.name}: server {getattr(server, f.name)}, ours {getattr(parsed, f.name)}"
            for f in fields(Table)
            if f.name != "columns" and getattr(server, f.name) != getattr(parsed, f.name)
        ]
        names = [c.name for c in server.columns], [c.name for c in parsed.columns]
        if names[0] != names[1]:
            lines.append(f"{id_} columns: server {names[0]}, ours {names[1]}")
            continue
        for a, b in zip(server.columns, parsed.columns, strict=True):
            lines += [
                f"{id_}.{a.name} {f.name}: server {getattr(a, f.name)!r}, ours {getattr(b, f.name)!r}"
                for f in fields(a)
                if f.compare and getattr(a, f.name) != getattr(b, f.name)
            ]
    return lines


def is_understood(changes: tuple[Change, ...]) -> bool:
    return not any(isinstance(change, Unknown) for change in changes)
