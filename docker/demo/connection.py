"""How the demo reaches its source: whoever needs a session is given what opens one.

``with connect() as connection`` gives a connection of PyMySQL or psycopg2, which the end of the block closes; what is not committed is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg2
import pymysql
from stack.database import Database

Connect = Callable[[], Any]
"""Opens a connection, which its drivers have no common type for."""


@dataclass(frozen=True, slots=True)
class PostgresConnect:
    """Opens connections to one database of PostgreSQL."""

    login: dict[str, Any]

    def __call__(self) -> Any:
        return contextlib.closing(psycopg2.connect(**self.login))


def connect_to(source: Database) -> Connect:
    """Sessions of the administrator."""
    if source.flavor == "postgres":
        return PostgresConnect(source.login)
    return lambda: pymysql.connect(**source.login, charset="utf8mb4")
