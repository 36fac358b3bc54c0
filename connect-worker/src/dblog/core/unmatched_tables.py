"""Describes names in the include lists that match no table. They are probably misspelt, so the
description names the most similar table, database or schema that the account sees.

A table may also be created later and is captured then. So these are warnings, except for a list of
tables of which no member has a database or schema part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from dblog.config.namespaces import Namespace
from dblog.config.nearest import nearest, of_like_length
from dblog.core.selection import Parts
from dblog.errors import ConfigError
from dblog.model import TableId

NO_TABLE = "no table matches the include lists; tables that are created later are captured"
NAMED_MAX = 20
_PARTS = ("database", "schema")
_MEANT = " (is "
LOOKED_AT_MAX = 10_000
"""Number of tables that a name is compared with."""
_CANDIDATES_MAX = 5
_COMPARED_MAX = 2_000
"""Pairs of names that are compared for one configuration. Each takes up to a tenth of a
millisecond, during which no other thread runs.
"""


def describe_unmatched_tables(
    named: Parts, seen: Iterable[TableId], visible: Callable[[], list[TableId]], *, namespace: Namespace = Namespace.DATABASE
) -> list[str]:
    """Return a sentence for each name that matches none of the tables ``seen``. Raise ConfigError
    if the list can never match any table.

    ``visible`` returns the tables that the account sees, at most LOOKED_AT_MAX; it is called only
    if a name matches nothing.
    """
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
        return [] if names else [NO_TABLE]
    looking = _Looking(visible())
    part = _PARTS[namespace is Namespace.SCHEMA]
    out = [_sentence(database, table, looking, part) for database, table in unmatched[:NAMED_MAX]]
    if len(unmatched) > NAMED_MAX:
        out.append(f"{len(unmatched) - NAMED_MAX} more names of the include lists match no table")
    if all(database is None and table is not None for database, table in named):
        raise ConfigError({"table.include.list": out})
    return out


def matched_meanwhile(texts: Iterable[str], named: Parts, seen: Iterable[TableId]) -> list[str]:
    """Return those of the sentences whose name matches one of the tables ``seen`` by now."""
    names = {(table.database.lower(), table.name.lower()) for table in seen}
    databases = {database for database, _ in names}
    matched = {NO_TABLE} if names else set()
    for database, table in named:
        if database is None:
            continue
        if table is None and database.lower() in databases:
            matched |= {_no_table_of(part, database) for part in _PARTS} | {_no_part(part, database) for part in _PARTS}
        elif table is not None and (database.lower(), table.lower()) in names:
            matched.add(_no_table(database, table))
    return [text for text in texts if text.partition(_MEANT)[0] in matched]


def _no_table_of(part: str, database: str) -> str:
    return f"no table of the {part} {database} matches the include lists; tables that are created later are captured"


def _no_part(part: str, database: str) -> str:
    return f"no {part} with tables that the account sees matches {database}"


def _no_table(database: str, table: str) -> str:
    return f"no table that the account sees matches {database}.{table}"


def _sentence(database: str | None, table: str | None, looking: _Looking, part: str) -> str:
    if database is None:
        found = looking.tables_called(table or "")[:_CANDIDATES_MAX]
        members = ", or ".join(rf"{known.database}\.{known.name}" for known in found) or rf"<{part}>\.{table}"
        return f"{table} of table.include.list has no {part} part, so it matches no table: write {members}"
    if table is None:
        if looking.has_database(database):
            return _no_table_of(part, database)
        meant = looking.nearest_database(database)
        return f"{_no_part(part, database)}{f'{_MEANT}{meant} meant?)' if meant else ''}"
    meant = looking.nearest_table(database, table)
    return f"{_no_table(database, table)}{f'{_MEANT}{meant} meant?)' if meant else ''}"


class _Looking:
    """Finds the names that are probably meant, with a limited number of comparisons: a misspelt
    name is worth a hint, not seconds.
    """

    def __init__(self, visible: list[TableId]) -> None:
        self._left = _COMPARED_MAX
        self._visible = visible
        self._by_database: dict[str, list[TableId]] = {}
        for known in visible:
            self._by_database.setdefault(known.database.lower(), []).append(known)

    def has_database(self, name: str) -> bool:
        return name.lower() in self._by_database

    def tables_called(self, name: str) -> list[TableId]:
        return [known for known in self._visible if known.name.lower() == name.lower()]

    def nearest_database(self, name: str) -> str | None:
        return self._nearest(name, (tables[0].database for tables in self._by_database.values()))

    def nearest_table(self, database: str, table: str) -> str | None:
        """Return the most similar table. Its database is the named one, or the most similar one, or
        any.
        """
        meant = database if self.has_database(database) else self.nearest_database(database)
        tables = self._visible if meant is None else self._by_database[meant.lower()]
        return self._nearest(f"{database}.{table}", (f"{known.database}.{known.name}" for known in tables))

    def _nearest(self, name: str, known: Iterable[str]) -> str | None:
        alike = list(islice((each for each in known if of_like_length(name, each)), self._left))
        self._left -= len(alike)
        return nearest(name, alike)
