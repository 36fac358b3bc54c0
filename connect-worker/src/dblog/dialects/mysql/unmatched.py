"""Names of the include lists that match no table: probably misspelt, so the nearest table or database that the account sees is named with them.

A table may also be made later, and is captured then: all of this is a warning, but for a list of tables of which no member has a database part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dblog.config.nearest import nearest
from dblog.core.selection import BUILTIN_DATABASES, Parts
from dblog.errors import ConfigError
from dblog.model import TableId

if TYPE_CHECKING:
    from dblog.dialects.mysql.session import Session

NAMED_MAX = 20
_LOOKED_AT_MAX = 10_000
"""Tables that a name is compared with."""
_CANDIDATES_MAX = 5


def describe_unmatched(session: Session, named: Parts, seen: Iterable[TableId]) -> list[str]:
    """A sentence for each name that matches none of the tables ``seen``; ConfigError where the list can never match any."""
    names = {(table.database.lower(), table.name.lower()) for table in seen}
    databases = {database for database, _ in names}
    unmatched = [
        (database, table)
        for database, table in named
        if (database is None and table is not None)
        or (
            database is not None
            and (database.lower() not in databases if table is None else (database.lower(), table.lower()) not in names)
        )
    ]
    if not unmatched:
        return [] if names else ["no table matches the include lists; tables that are created later are captured"]
    visible = _visible(session)
    out = [_sentence(database, table, visible) for database, table in unmatched[:NAMED_MAX]]
    if all(database is None and table is not None for database, table in named):
        raise ConfigError({"table.include.list": out})
    return out


def _sentence(database: str | None, table: str | None, visible: list[TableId]) -> str:
    if database is None:
        found = [known for known in visible if known.name.lower() == (table or "").lower()][:_CANDIDATES_MAX]
        members = ", or ".join(rf"{known.database}\.{known.name}" for known in found) or rf"<database>\.{table}"
        return f"{table} of table.include.list has no database part, so it matches no table: write {members}"
    if table is None:
        databases = {known.database for known in visible}
        if database.lower() in {known.lower() for known in databases}:
            return f"no table of the database {database} matches the include lists; tables that are created later are captured"
        meant = nearest(database, databases)
        return f"no database with tables that the account sees matches {database}{f' (is {meant} meant?)' if meant else ''}"
    meant = nearest(f"{database}.{table}", {f"{known.database}.{known.name}" for known in visible})
    return f"no table that the account sees matches {database}.{table}{f' (is {meant} meant?)' if meant else ''}"


def _visible(session: Session) -> list[TableId]:
    rows = session.query(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' LIMIT {_LOOKED_AT_MAX}",
        doing="listing tables",
    )
    return [TableId(str(database), str(name)) for database, name in rows if str(database).lower() not in BUILTIN_DATABASES]
