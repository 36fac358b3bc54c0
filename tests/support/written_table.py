"""A table of many rows that are older than any connector, and a writer to it during a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from demo.pipeline import create_connector_user
from stack.database import Database
from support.servers import connected, execute, new_database
from support.under_writes import in_rounds


def filled(source: Database, name: str, rows: int) -> str:
    """Return the name of a new database with the table ``t`` and a connector's account."""
    database = new_database(source, name)
    values = ", ".join(f"({n}, {n})" for n in range(1, rows + 1))
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)", f"INSERT INTO t VALUES {values}", database=database)
    create_connector_user(source)
    return database


@contextmanager
def writing(source: Database, database: str, rows: int) -> Iterator[None]:
    """Update, delete and insert rows until the end of the block; the number of rows stays the same.

    A failure there fails the test.
    """
    with connected(source, database=database) as connection, connection.cursor() as cursor:

        def write(n: int) -> None:
            id_ = n * 7 % rows + 1
            cursor.execute("BEGIN")
            cursor.execute("UPDATE t SET v = v + 1000000 WHERE MOD(id, 997) = %s", (n % 997,))
            cursor.execute("DELETE FROM t WHERE id = %s", (id_,))
            cursor.execute("INSERT INTO t VALUES (%s, %s)", (id_, -n))
            cursor.execute("COMMIT")

        with in_rounds(write, pause_s=0.1):
            yield


def rows_of(source: Database, database: str) -> dict[Any, Any]:
    """Return the table's rows by key."""
    return dict(execute(source, "SELECT id, v FROM t", database=database))  # type: ignore[arg-type]
