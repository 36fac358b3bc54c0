"""A connector's task on a real server, by ``support.task_follower``."""

from __future__ import annotations

import uuid

import pymysql
from dblog.config.options import Settings
from dblog.config.plugins import CONNECTORS
from dblog.dialects.mysql.catalog.sql import quote
from dblog.dialects.mysql.task.source import BinlogSource
from stack.database import Database
from support.dialects import dialect_of
from support.servers import connected, execute
from support.task_follower import JSON, TIMEOUT_S, Row, TaskFollower

__all__ = ["JSON", "TIMEOUT_S", "Follower", "Row"]


class Follower(TaskFollower):
    """A follower of one database of a server."""

    def __init__(self, source: Database, database: str, **config: str) -> None:
        self.source = source
        self.database = database
        self.dialect = dialect_of(source.flavor)
        plugin = next(c for c in CONNECTORS if c.flavor == source.flavor)
        name = f"c-{uuid.uuid4().hex[:8]}"
        own = {
            "name": name,
            "connector.class": plugin.class_name,
            "topic.prefix": name,
            "database.hostname": source.host,
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "database.server.id": str(uuid.uuid4().int % 2_000_000_000 + 1000),
            "database.include.list": database,
            "decimal.handling.mode": "string",
        }
        super().__init__({**own, **config}, plugin.options)

    def source_of(self, settings: Settings) -> BinlogSource:
        return BinlogSource(self.dialect, settings)

    def selected(self, table: str) -> list[Row]:
        with connected(self.source, database=self.database) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM {quote(table)}")
            return list(cursor.fetchall())

    def sql(self, *statements: str) -> None:
        execute(self.source, *statements, database=self.database)
