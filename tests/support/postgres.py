"""Helpers for tests on a real PostgreSQL: statements, new databases, the log's end."""

import contextlib
from collections.abc import Iterator

import psycopg2
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever its name
from stack import Postgres


@contextlib.contextmanager
def connected(server: Postgres, *, database: str = "postgres") -> Iterator[Connection]:
    """Yield an administrator's connection that commits every statement.

    After a minute of waiting for a lock a statement fails; by default it would wait for ever.
    """
    opened = psycopg2.connect(**{**server.login, "dbname": database}, options="-c lock_timeout=60s")
    with contextlib.closing(opened) as connection:
        connection.autocommit = True
        yield connection


def execute(server: Postgres, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
    """Run statements one by one.

    Return the rows of the last one, an empty list without a result.
    """
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def new_database(server: Postgres, name: str = "t", *, options: str = "") -> str:
    """Create an empty database, with `CREATE DATABASE ... options`. Return its name.

    The name starts with `name`, and no other test uses it.
    """
    taken = {row[0] for row in execute(server, "SELECT datname FROM pg_catalog.pg_database")}
    made = next(f"{name}_{number}" for number in range(1, 10_000) if f"{name}_{number}" not in taken)
    execute(server, f'CREATE DATABASE "{made}" {options}')
    return made


def log_end(server: Postgres) -> str:
    """Return the position after the log's last byte, as the server prints it (`16/B374D848`)."""
    ((position,),) = execute(server, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text")
    return str(position)
