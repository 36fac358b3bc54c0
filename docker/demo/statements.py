"""Statements of the load that differ between MySQL or MariaDB and PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg2.errors
import pymysql

ADDED_COLUMN = "gift_note"
_DEADLOCK, _LOCK_WAIT, _TABLE_CHANGED = 1213, 1205, 1412


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The statements of one server.

    ``{db}`` stands for the database, in PostgreSQL for the schema, and ``%s`` for values.
    """

    in_utc: str
    """Statement that makes a session read and write instants in UTC."""
    now: str
    """Expression of the current time in UTC, without a zone."""
    returning_id: str
    """Text after an INSERT if the driver has no other way to get the new row's number."""
    add_column: str
    move_item: str
    """Statement that gives an order's last item that has not moved another number."""


_MYSQL = Statements(
    in_utc="SET SESSION time_zone = '+00:00'",
    now="UTC_TIMESTAMP(6)",
    returning_id="",
    # The column is added in the middle of the table.
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
    """Return the statements of a server."""
    return _POSTGRES if flavor == "postgres" else _MYSQL


def is_lost_race(error: Exception) -> bool:
    """Return True if the transaction lost a race: to an ALTER, another writer or a moved key.

    An application drops the transaction and goes on.
    """
    if isinstance(error, pymysql.err.OperationalError):
        return error.args[0] in {_DEADLOCK, _LOCK_WAIT, _TABLE_CHANGED}
    return isinstance(error, pymysql.err.IntegrityError | psycopg2.errors.UniqueViolation | psycopg2.errors.DeadlockDetected)
