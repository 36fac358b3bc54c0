"""Names in the include lists that match no table, with the tables that the account sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dblog.core.selection import Parts
from dblog.core.unmatched_tables import LOOKED_AT_MAX, describe_unmatched_tables
from dblog.dialects.mysql.catalog import sql
from dblog.model import TableId

if TYPE_CHECKING:
    from dblog.dialects.mysql.wire.session import Session


def describe_unmatched(session: Session, named: Parts, seen: Iterable[TableId]) -> list[str]:
    """Return sentences about names that match no table; see ``describe_unmatched_tables``."""
    return describe_unmatched_tables(named, seen, lambda: _visible(session))


def _visible(session: Session) -> list[TableId]:
    rows = session.query(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' LIMIT {LOOKED_AT_MAX}",
        doing="listing tables",
    )
    return [TableId(str(database), str(name)) for database, name in rows if str(database).lower() not in sql.BUILTIN_DATABASES]
