"""What the load says differently to MySQL and MariaDB, and to PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg2.errors
import pymysql

ADDED_COLUMN = "gift_note"
_DEADLOCK, _LOCK_WAIT, _TABLE_CHANGED = 1213, 1205, 1412


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Texts with ``{db}`` for the database, of PostgreSQL the schema; behind a statement, ``%s`` for its values."""

    in_utc: str
    """Has a session read and write instants in UTC."""
    now: str
    """The moment in UTC, without a zone."""
    returning_id: str
    """Behind an INSERT, where the driver has the new row's number by no other way."""
    add_column: str
    move_item: str
    """Of an order's items, the last one that has not moved gets another number."""


_MYSQL = Statements(
    in_utc="SET SESSION time_zone = '+00:00'",
    now="UTC_TIMESTAMP(6)",
    returning_id="",
    # In the middle of the table.
    add_column=f"ALTER TABLE {{db}}.orders ADD COLUMN {ADDED_COLUMN} varchar(60) CHARACTER SET utf8mb4 NULL AFTER status",
    move_item="UPDATE {db}.order_items SET line = line + 100 WHERE order_id = %s AND line < 100 ORDER BY line DESC LIMIT 1",
)
_POSTGRES = Statements(
    in_utc="SET timezone TO 'UTC'",
    now="timezone('UTC', clock_timestamp())",
    returning_id=" RETURNING id",
    add_column=f"ALTER TABLE {{db}}.orders ADD COLUMN {ADDED_COLUMN} varchar(60) NULL",
    move_item="UPDATE {db}.order_items SET line = line + 100 WHERE (order_id, line) = "
    "(SELECT order_id, max(line) FROM {db}.order_items WHERE order_id = %s AND line < 100 GROUP BY order_id)",
)


def statements_of(flavor: str) -> Statements:
    """Those of a server."""
    return _POSTGRES if flavor == "postgres" else _MYSQL


def is_lost_race(error: Exception) -> bool:
    """The server refuses a transaction that meets an ALTER or another writer, or a moved key that meets another one: an application drops it, and goes on."""
    if isinstance(error, pymysql.err.OperationalError):
        return error.args[0] in {_DEADLOCK, _LOCK_WAIT, _TABLE_CHANGED}
    return isinstance(error, pymysql.err.IntegrityError | psycopg2.errors.UniqueViolation | psycopg2.errors.DeadlockDetected)
