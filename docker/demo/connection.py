"""Opens the demo's connections to its source.

``with connect() as connection`` gives a connection of PyMySQL or psycopg2, which is closed at the
end of the block; uncommitted changes are dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
import pymysql

if TYPE_CHECKING:
    from stack.database import Database  # which is not where the shop runs in a cluster

Connect = Callable[[], Any]
"""Function that opens a connection. The drivers have no common type for it."""


@dataclass(frozen=True, slots=True)
class PostgresConnect:
    """A function that opens connections to one PostgreSQL database."""

    login: dict[str, Any]

    def __call__(self) -> Any:
        return contextlib.closing(psycopg2.connect(**self.login))


def connect_to(source: Database) -> Connect:
    """Return a function that opens the administrator's connections."""
    if source.flavor == "postgres":
        return PostgresConnect(source.login)
    return lambda: pymysql.connect(**source.login, charset="utf8mb4")
