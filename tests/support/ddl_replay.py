"""Replays DDL cases on a real server, with row changes in between, and records the effects.

After each statement it records the server's tables and the inserted rows. Meanwhile a task
(``support.follower``) reads the log, and ``watch`` records the task's tables after each statement.
Positions in the log relate the two records to each other.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from dblog.core.timeline import Timeline
from dblog.dialects.mariadb.catalog import mariadb_default
from dblog.dialects.mysql.binlog.offset import POSITION_BITS, sequence_of
from dblog.dialects.mysql.binlog.table_map_schema import GEOMETRIES
from dblog.dialects.mysql.catalog import information_schema
from dblog.dialects.mysql.catalog.sql import quote_table
from dblog.model import Table, TableId
from dblog.readers.log.schemas import Schemas
from pymysql.cursors import Cursor
from pymysql.err import MySQLError
from stack.database import Database
from support.ddl_cases import Case
from support.ddl_truth import comparable

LogEnd = tuple[int, int]
Tables = dict[TableId, Table]


@dataclass(slots=True)
class Replay:
    """A replay in one session of a server.

    ``steps`` has the case, the statement, the log's end after it and the tables then. ``rows`` has
    the columns of each inserted row, by table.
    """

    source: Database
    cursor: Cursor
    epoch: int = 0
    steps: list[tuple[str, str, LogEnd, Tables]] = field(default_factory=list)
    rows: dict[TableId, list[tuple[str, ...]]] = field(default_factory=dict)

    def run(self, case: Case, number: int) -> None:
        """Run a case in a new database, which is dropped afterwards."""
        database = f"replay_{number}"
        self._reset()
        self.cursor.execute(f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4")
        self.cursor.execute(f"USE `{database}`")
        databases = [database, f"{database}_b"]
        tables: Tables = {}
        for statement in case.statements:
            self._sql_mode(case.sql_mode)
            text = statement.replace("{db}", database)
            try:
                self.cursor.execute(text)
            # A row prevents the statement.
            except MySQLError:
                self._take_rows(tables)
                self._sql_mode(case.sql_mode)
                self.cursor.execute(text)
            self.cursor.fetchall()
            tables = self._truth(databases)
            self.steps.append((case.name, text, self.log_end(), tables))
            self._put_rows(tables, temporary=any("TEMPORARY" in s for s in case.statements))
        self._reset()
        for name in databases:
            self.cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def log_end(self) -> LogEnd:
        """Return the position of the log's end."""
        self.cursor.execute("SHOW MASTER STATUS" if self.source.flavor == "mariadb" else "SHOW BINARY LOG STATUS")
        file, pos = self.cursor.fetchall()[0][:2]
        return sequence_of(epoch=self.epoch, file=str(file), pos=int(pos))

    def _reset(self) -> None:
        self.cursor.execute("SET SESSION sql_mode = DEFAULT, explicit_defaults_for_timestamp = DEFAULT, foreign_key_checks = 1")
        self.cursor.execute("UNLOCK TABLES")

    def _sql_mode(self, mode: str | None) -> None:
        self._reset()
        if mode in ("implicit_timestamps", "explicit_timestamps"):
            value = "ON" if mode.startswith("explicit") else "OFF"
            self.cursor.execute(f"SET SESSION sql_mode = '', explicit_defaults_for_timestamp = {value}")
        elif mode is not None:
            self.cursor.execute(f"SET SESSION sql_mode = '{mode}'")

    def _truth(self, databases: list[str]) -> Tables:
        default_of = mariadb_default if self.source.flavor == "mariadb" else None
        return {
            t.id: comparable(t)
            for t in information_schema.read_tables(self._ask, lambda _: True, databases=databases, default_of=default_of)
        }

    def _ask(self, sql: str, parameters: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
        self.cursor.execute(sql, parameters or None)
        return list(self.cursor.fetchall())

    def _take_rows(self, tables: Tables) -> None:
        self._reset()
        self.cursor.execute("SET SESSION foreign_key_checks = 0")
        for id_ in tables:
            with contextlib.suppress(MySQLError):
                self.cursor.execute(f"DELETE FROM {quote_table(id_)}")

    def _put_rows(self, tables: Tables, *, temporary: bool) -> None:
        """Delete the rows of every table, and insert a row of defaults where that is possible.

        A temporary table may hide a real table of the same name; its row is not logged.
        """
        self._take_rows(tables)
        self.cursor.execute("SET SESSION sql_mode = ''")
        for id_, table in tables.items():
            if any(column.type in GEOMETRIES and not column.nullable for column in table.columns):
                # IGNORE inserts an empty value, which is no valid geometry.
                continue
            name = quote_table(id_)
            before = self.log_end() if temporary else None
            with contextlib.suppress(MySQLError):
                self.cursor.execute(f"INSERT IGNORE INTO {name} () VALUES ()")
                if self.cursor.rowcount == 1 and (before is None or self.log_end() != before):
                    self.rows.setdefault(id_, []).append(tuple(column.name for column in table.columns))


def watch(schemas: Schemas) -> list[tuple[LogEnd, Tables]]:
    """Record the task's tables after each statement that it reads from now on, in log order.

    The returned list grows while the task runs.
    """
    seen: list[tuple[LogEnd, Tables]] = []
    follow = schemas.statement

    def statement(query: Any, text: str, **rest: Any) -> Any:
        done = follow(query, text, **rest)
        seen.append((rest["position"], _tables(schemas.timeline)))
        return done

    schemas.statement = statement  # type: ignore[method-assign]
    return seen


def _tables(timeline: Timeline) -> Tables:
    known = ((id_, timeline.current_table(id_)) for id_ in timeline.tables())
    return {id_: table for id_, table in known if table is not None}


def tables_at(seen: list[tuple[LogEnd, Tables]], end: LogEnd, databases: tuple[str, ...]) -> Tables:
    """Return the tables that the task had at a position of the log."""
    last: Tables = {}
    for position, tables in seen:
        if (position[0], position[1] >> POSITION_BITS) > (end[0], end[1] >> POSITION_BITS):
            break
        last = tables
    return {id_: comparable(table) for id_, table in last.items() if id_.database in databases}
