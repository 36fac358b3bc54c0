"""A connector's task on a real PostgreSQL, by ``support.task_follower``."""

from __future__ import annotations

import contextlib
import uuid

import psycopg2
import psycopg2.extras
from dblog.config.connector import POSTGRES_OPTIONS
from dblog.config.options import Settings
from dblog.dialects.postgres.catalog.sql import quote
from dblog.dialects.postgres.task.source import PostgresSource
from stack import Postgres
from support.postgres import connected, execute
from support.task_follower import Row, TaskFollower

ROOT = (
    "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10)",
    "INSERT INTO root VALUES (1, 'a')",
)
"""Statements that create a partitioned table with a row."""


class PostgresFollower(TaskFollower):
    """A follower of one schema of a database."""

    def __init__(self, server: Postgres, database: str, schema: str = "public", **config: str) -> None:
        self.server = server
        self.database = database
        self.schema = schema
        name = f"c{uuid.uuid4().hex[:8]}"
        own = {
            "name": name,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": name,
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": database,
            "plugin.name": "pgoutput",
            "slot.name": name,
            "schema.include.list": schema,
            "decimal.handling.mode": "string",
        }
        super().__init__({**own, **config}, POSTGRES_OPTIONS)

    def source_of(self, settings: Settings) -> PostgresSource:
        return PostgresSource(settings)

    def selected(self, table: str) -> list[Row]:
        with (
            connected(self.server, database=self.database) as connection,
            connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor,
        ):
            cursor.execute(f"SELECT * FROM {quote(self.schema)}.{quote(table)}")
            return [dict(row) for row in cursor.fetchall()]

    def sql(self, *statements: str) -> None:
        execute(self.server, *statements, database=self.database)

    def until_caught_up(self) -> None:
        """Poll until this consumer has everything that is committed now.

        A new row in the table `marks`, which is created if necessary, marks the end.
        """
        before = len(self.values)
        self.sql("CREATE TABLE IF NOT EXISTS marks (id INT PRIMARY KEY)")
        statement = "INSERT INTO marks SELECT coalesce(max(id), 0) + 1 FROM marks RETURNING id"
        ((number,),) = execute(self.server, statement, database=self.database)
        self.until(lambda: any(table == "marks" and record and record["after"] == {"id": number} for table, record in self.values[before:]))


def drop_slots(server: Postgres, database: str) -> None:
    """Drop every slot of a database, even if a connection reads it."""
    for slot in _slots(server, database):
        with contextlib.suppress(psycopg2.errors.UndefinedObject):
            unread(server, database, slot, f"SELECT pg_drop_replication_slot('{slot}')")


def advance_slots(server: Postgres, database: str) -> None:
    """Advance every slot of a database to the log's end, as if all had been read."""
    for slot in _slots(server, database):
        unread(server, database, slot, f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())")


def _slots(server: Postgres, database: str) -> list[str]:
    return [str(slot) for (slot,) in execute(server, f"SELECT slot_name FROM pg_replication_slots WHERE database = '{database}'")]


def unread(server: Postgres, database: str, slot: str, *statements: str) -> None:
    """Run statements while no connection reads the slot.

    A terminated reader may reconnect before they run; then all statements are run again.
    """
    for _ in range(100):
        execute(server, f"SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active")
        with contextlib.suppress(psycopg2.errors.ObjectInUse):
            execute(server, *statements, database=database)
            return
    message = f"the slot {slot} is read again and again"
    raise AssertionError(message)
