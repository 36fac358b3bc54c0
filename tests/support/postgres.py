"""What tests ask of a real PostgreSQL: statements, a database of their own, where its log ends."""

import contextlib
from collections.abc import Iterator

import psycopg2
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever its name
from stack import Postgres


@contextlib.contextmanager
def connected(server: Postgres, *, database: str = "postgres") -> Iterator[Connection]:
    """An administrator's connection that commits every statement. Waiting for a lock is an error after a minute: the default is never."""
    opened = psycopg2.connect(**{**server.login, "dbname": database}, options="-c lock_timeout=60s")
    with contextlib.closing(opened) as connection:
        connection.autocommit = True
        yield connection


def execute(server: Postgres, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
    """Run statements one by one; the rows of the last one, none if it has no result."""
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def new_database(server: Postgres, name: str = "t", *, options: str = "") -> str:
    """Make an empty database whose name starts with `name` and that no other test uses, by `CREATE DATABASE ... options`; its name."""
    taken = {row[0] for row in execute(server, "SELECT datname FROM pg_catalog.pg_database")}
    made = next(f"{name}_{number}" for number in range(1, 10_000) if f"{name}_{number}" not in taken)
    execute(server, f'CREATE DATABASE "{made}" {options}')
    return made


def log_end(server: Postgres) -> str:
    """The position behind the last byte that the server has written into its log, as the server prints it (`16/B374D848`)."""
    ((position,),) = execute(server, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text")
    return str(position)
