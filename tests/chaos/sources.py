"""The servers that a plan can be for: which program runs, and what is drawn for it."""

from __future__ import annotations

from pathlib import Path

from chaos.drawing import Drawing
from chaos.mysql.drawing import MySqlDrawing
from chaos.postgres.drawing import PostgresDrawing
from chaos.postgres.settings import SERVER_OPTIONS
from stack import MariaDb, MySql, Postgres, Postgres17, Postgres18
from stack.database import Database

SOURCES: dict[str, type[Database]] = {
    "mariadb": MariaDb,
    "mysql": MySql,
    "postgres": Postgres,
    "postgres17": Postgres17,
    "postgres18": Postgres18,
}


def is_postgres(flavor: str) -> bool:
    """Whether it is one of the versions of PostgreSQL."""
    return flavor.startswith("postgres")


def server_of(flavor: str, folder: Path) -> Database:
    """A server for many runs, not started."""
    return SOURCES[flavor](folder, durable=False, options=dict(SERVER_OPTIONS) if is_postgres(flavor) else {})


def drawing_of(flavor: str, *, cases: int = 1) -> Drawing:
    """``cases``: how many cases of DDL the server has."""
    return PostgresDrawing() if is_postgres(flavor) else MySqlDrawing(flavor, cases)
