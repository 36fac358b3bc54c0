"""MySQL and MariaDB keep the contract of a database, on real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from contracts.database import StatementLogContract
from dblog.model import OffsetMap
from pymysql.connections import Connection
from stack.database import Database
from support.follower import Follower
from support.servers import connected, new_database, purge_log


class GivenServer:
    """A ``contracts.database.Given``: a database of the run's server, by a connection that all threads share."""

    log_has_statements = True

    def __init__(self, server: Database, database: str, connection: Connection) -> None:
        self.server = server
        self.database = database
        self._connection = connection
        self._lock = threading.Lock()

    def _run(self, statement: str, *rows: tuple[Any, ...]) -> None:
        with self._lock, self._connection.cursor() as cursor:
            cursor.executemany(statement, rows or [()])

    def create(self, table: str) -> None:
        self._run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(40))")

    def create_strangely(self, table: str) -> None:
        """LIKE a table of a database that the connector does not follow."""
        model = f"{new_database(self.server, 'model')}.model"
        self.create(model)
        self._run(f"CREATE TABLE {table} LIKE {model}")

    def add_column(self, table: str, column: str) -> None:
        self._run(f"ALTER TABLE {table} ADD {column} INT")

    def drop_column(self, table: str, column: str) -> None:
        self._run(f"ALTER TABLE {table} DROP {column}")

    def rename(self, table: str, to: str) -> None:
        self._run(f"RENAME TABLE {table} TO {to}")

    def insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        places = ", ".join(["%s"] * len(rows[0]))
        self._run(f"INSERT INTO {table} VALUES ({places})", *rows)

    def update(self, table: str, id_: int, name: str) -> None:
        self._run(f"UPDATE {table} SET name = %s WHERE id = %s", (name, id_))

    def delete(self, table: str, id_: int) -> None:
        self._run(f"DELETE FROM {table} WHERE id = {id_}")

    def purge(self) -> None:
        purge_log(self.server)

    def rest(self) -> None:
        """The binlog has nothing but what is written."""

    def of_another_server(self, offset: OffsetMap) -> OffsetMap:
        return {**offset, "dblog_server": "another"}

    def follow(self, **config: str) -> Follower:
        return Follower(self.server, self.database, **config)


@pytest.mark.either_server
class TestServers(StatementLogContract):
    @pytest.fixture
    def given(self, source: Database) -> Iterator[GivenServer]:
        database = new_database(source, "contract")
        with connected(source, database=database) as connection:
            yield GivenServer(source, database, connection)
