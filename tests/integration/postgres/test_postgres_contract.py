"""PostgreSQL keeps the contract of a database, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from contracts.database import DatabaseContract, Opened
from dblog.abort import Abort
from dblog.model import OffsetMap
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever its name
from stack import Postgres
from support.postgres import connected
from support.postgres_follower import PostgresFollower, advance_slots, drop_slots


class GivenPostgres:
    """A ``contracts.database.Given``: a schema of a database of the run's server, by a connection that all threads share."""

    database = "public"
    log_has_statements = False

    def __init__(self, server: Postgres, of: str, connection: Connection) -> None:
        self.server = server
        self.of = of
        self._connection = connection
        self._lock = threading.Lock()

    def _run(self, statement: str, *rows: tuple[Any, ...]) -> None:
        with self._lock, self._connection.cursor() as cursor:
            if len(rows) > 1:
                cursor.execute("BEGIN")
            for row in rows or [()]:
                cursor.execute(statement, row)
            if len(rows) > 1:
                cursor.execute("COMMIT")

    def create(self, table: str) -> None:
        self._run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(40))")

    def create_strangely(self, table: str) -> None:
        """LIKE another table."""
        self._run(f"CREATE TABLE model_of_{table} (id INT PRIMARY KEY, name VARCHAR(40))")
        self._run(f"CREATE TABLE {table} (LIKE model_of_{table} INCLUDING ALL)")

    def add_column(self, table: str, column: str) -> None:
        self._run(f"ALTER TABLE {table} ADD {column} INT")

    def drop_column(self, table: str, column: str) -> None:
        self._run(f"ALTER TABLE {table} DROP {column}")

    def rename(self, table: str, to: str) -> None:
        self._run(f"ALTER TABLE {table} RENAME TO {to}")

    def insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        places = ", ".join(["%s"] * len(rows[0]))
        self._run(f"INSERT INTO {table} VALUES ({places})", *rows)

    def update(self, table: str, id_: int, name: str) -> None:
        self._run(f"UPDATE {table} SET name = %s WHERE id = %s", (name, id_))

    def delete(self, table: str, id_: int) -> None:
        self._run(f"DELETE FROM {table} WHERE id = {id_}")

    def write_log(self, *, bytes_total: int) -> None:
        self._run(f"SELECT pg_logical_emit_message(false, '', repeat('x', {bytes_total // 20})) FROM generate_series(1, 20)")

    def purge(self) -> None:
        advance_slots(self.server, self.of)

    def rest(self) -> None:
        """Behind a checkpoint it does not note again for standbys what is under way."""
        self._run("CHECKPOINT")

    def of_another_server(self, offset: OffsetMap) -> OffsetMap:
        return {**offset, "dblog_server": "another/1"}

    def follow(self, **config: str) -> PostgresFollower:
        return PostgresFollower(self.server, self.of, **config)


class TestPostgres(DatabaseContract):
    @pytest.fixture
    def given(self, postgres: Postgres, postgres_database: str) -> Iterator[GivenPostgres]:
        with connected(postgres, database=postgres_database) as connection:
            yield GivenPostgres(postgres, postgres_database, connection)
        drop_slots(postgres, postgres_database)

    def test_a_slot_that_keeps_all_that_is_needed_has_no_margin_for_an_alert(self, given: GivenPostgres, opened: Opened) -> None:
        """The server drops nothing (max_slot_wal_keep_size is -1), so 0 would be wrong; what the slot keeps on the server's disk is shown."""
        stored = opened.now()
        given.write_log(bytes_total=20_000_000)
        with closing(opened.server.open_watch(Abort())) as watch:
            state = watch.look(opened.now(), stored)

        assert state.stored_behind_files > 0
        assert (state.margin_files, state.margin_bytes, state.purged) == (None, None, False)
        assert state.needed_bytes >= 20_000_000
