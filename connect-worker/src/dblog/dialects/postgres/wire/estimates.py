"""Estimates the number of rows of tables without counting them."""

from __future__ import annotations

from collections.abc import Sequence

from dblog.dialects.postgres.catalog.sql import quote_table
from dblog.dialects.postgres.wire.connect import LockedError
from dblog.dialects.postgres.wire.lock_waits import LockWaits
from dblog.dialects.postgres.wire.session import Session
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import TableId


def row_estimates(session: Session, tables: Sequence[TableId]) -> dict[TableId, int]:
    """Return row counts by the statistics. For a table that was never analysed it is the planner's
    estimate from its size.
    """
    rows = session.query(
        "SELECT n.nspname, c.relname, c.reltuples::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::name[], %s::name[]))",
        ([table.database for table in tables], [table.name for table in tables]),
        doing="estimating tables",
    )
    found = {TableId(schema, name): count for schema, name, count in rows}
    with LockWaits(session, doing="estimating tables") as waits:
        for table in [table for table, count in found.items() if count < 0]:
            # It stays out if the account may not read it, somebody locks it, or it is gone.
            del found[table]
            try:
                found[table] = _planned_rows(session, table)
            except LockedError:
                waits.found_locked()
            except (DefiniteError, TableChangedError):
                continue
    return found


def _planned_rows(session: Session, table: TableId) -> int:
    plan = session.wire.one(f"EXPLAIN (FORMAT JSON) SELECT FROM {quote_table(table)}", doing=f"estimating {table}")
    return int(plan[0]["Plan"]["Plan Rows"])
