"""How many rows tables have, as far as the server knows without counting."""

from __future__ import annotations

from collections.abc import Sequence

from dblog.dialects.postgres.catalog.sql import quote_table
from dblog.dialects.postgres.wire.connect import LockedError
from dblog.dialects.postgres.wire.lock_waits import LockWaits
from dblog.dialects.postgres.wire.session import Session
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import TableId


def row_estimates(session: Session, tables: Sequence[TableId]) -> dict[TableId, int]:
    """Return the rows of tables by the statistics; of a table that was never analysed what the planner
    takes for granted, by its size.
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
            del found[table]  # it stays out where the account may not read it, somebody locks it, or it is gone
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
