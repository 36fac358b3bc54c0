"""The privileges of an account that a connector does not need, by SHOW GRANTS, and statements that
revoke only those. Pure.

Missing privileges are found by trying (``wire/check.py``), superfluous ones can only be read. The
privileges of a role are not examined, but the role is named. A privilege on the whole server may be
all that lets the account read its tables. A privilege that the connector would lose by the REVOKE
is therefore granted first. Source: MySQL's and MariaDB's manuals, SHOW GRANTS and REVOKE.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from dblog.core.selection import Parts
from dblog.dialects.mysql.catalog import sql
from dblog.model import TableId

_NAME = r"(?:`(?:[^`]|``)*`|\*)"
_GRANT = re.compile(rf"GRANT (?P<privileges>.+?) ON (?:TABLE )?(?P<database>{_NAME})\.(?P<table>{_NAME}) TO ", re.DOTALL)
_ROLE = re.compile(r"GRANT (?P<roles>[`'].+?) TO ", re.DOTALL)
_BETWEEN = re.compile(r",\s*(?![^()]*\))")
_ALL = frozenset({"ALL", "ALL PRIVILEGES"})
_OF_LOG = "REPLICATION SLAVE"
_OF_STATUS = ("REPLICATION CLIENT", "BINLOG MONITOR")
"""The privilege to query the log's position, by either name."""
_OF_WATERMARKS = ("CREATE", "SELECT", "INSERT", "UPDATE")


@dataclass(frozen=True, slots=True)
class _Grant:
    """A line of SHOW GRANTS."""

    where: str
    database: str | None
    """The database; None for the whole server."""
    table: str | None
    """The table; None for every table."""
    databases: re.Pattern[str] | None
    """The databases of a grant without a table; None for other grants."""
    privileges: tuple[str, ...]
    passes_on: bool

    def covers(self, database: str | None, table: str | None) -> bool:
        """Return whether the grant covers a whole table, database (table None) or server (both
        None).
        """
        if self.database is None or database is None:
            return self.database is None
        if self.databases is not None:
            return self.databases.fullmatch(database) is not None
        return table is not None and (self.database.lower(), (self.table or "").lower()) == (database.lower(), table.lower())

    def gives(self, privilege: str) -> bool:
        """Return whether whole tables have the privilege; one on single columns does not count."""
        return privilege in self.privileges or self.gives_all

    @property
    def gives_all(self) -> bool:
        return not _ALL.isdisjoint(self.privileges)


@dataclass(frozen=True, slots=True)
class _Need:
    """A need for any of these privileges on database and table; ``grant`` is the statement that
    meets it.
    """

    grant: str
    privileges: tuple[str, ...]
    database: str | None = None
    table: str | None = None

    def met_by(self, grants: Iterable[_Grant]) -> bool:
        return any(one.covers(self.database, self.table) and any(map(one.gives, self.privileges)) for one in grants)


def superfluous(
    grants: Iterable[str],
    *,
    user: str,
    status: str,
    captured: Collection[TableId],
    named: Parts,
    watermarks: TableId | None,
    measures: Collection[str] = (),
) -> Iterator[str]:
    """Yield statements to run in this order, and comment lines about what to check.

    ``status``: the privilege to query the log's position. ``named``: the names in the
    configuration; if one of them is any database, SELECT may be on the whole server. ``measures``:
    privileges on the whole server by which limits of dumps are measured. An account that may grant
    on the whole server is an administrator's, and nothing is revoked from it.
    """
    lines = [(line, _parsed(line)) for line in grants]
    found = [grant for _, grant in lines if grant is not None]
    account = sql.account(user)
    if any(grant.database is None and grant.passes_on for grant in found):
        yield (
            f"-- {account} may grant on the whole server, so it is an administrator's, and nothing is to be taken from it: make an account for the "
            "connector alone, and ask again with that one for the GRANTs that it needs;"
        )
        return
    everything = (None, None) in named
    read = _read(captured, named)
    needed = {
        grant: (
            *_needed(grant, status, [*read, *_parts(captured)], watermarks, everything=everything),
            *(measures if grant.database is None else ()),
        )
        for grant in found
    }
    left = [replace(grant, privileges=tuple(filter(grant.gives, needed[grant]))) for grant in found]
    needs = _needs(user, status, {} if everything else read, watermarks)
    yield from dict.fromkeys(need.grant for need in needs if need.met_by(found) and not need.met_by(left))
    for line, grant in lines:
        if grant is not None:
            yield from _revokes(grant, needed[grant], account)
        elif role := _ROLE.match(line):
            yield f"-- the role {role['roles']} is not examined: see its privileges with SHOW GRANTS FOR {role['roles']};"


def _parsed(line: str) -> _Grant | None:
    match = _GRANT.match(line)
    if match is None:
        return None
    database, table = _plain(match["database"]), _plain(match["table"])
    return _Grant(
        where=f"{match['database']}.{match['table']}",
        database=database,
        table=table,
        databases=None if database is None or table is not None else _databases(database),
        privileges=tuple(_spelled(privilege) for privilege in _BETWEEN.split(match["privileges"])),
        passes_on=line.rstrip().endswith("WITH GRANT OPTION"),
    )


def _spelled(privilege: str) -> str:
    """Return the privilege in capitals, except for its columns."""
    name, parenthesis, columns = privilege.strip().partition("(")
    return name.upper() + parenthesis + columns


def _databases(name: str) -> re.Pattern[str]:
    """Return the pattern of a database name. In a grant without a table ``_`` and ``%`` are
    wildcards, and a backslash makes them literal.
    """
    pieces = re.findall(r"\\.|.", name, re.DOTALL)
    pattern = "".join(".*" if piece == "%" else "." if piece == "_" else re.escape(piece[-1]) for piece in pieces)
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _plain(name: str) -> str | None:
    return None if name == "*" else name[1:-1].replace("``", "`")


def _parts(tables: Iterable[TableId]) -> Iterator[tuple[str, str]]:
    return ((table.database, table.name) for table in tables)


def _read(captured: Collection[TableId], named: Parts) -> dict[tuple[str, str | None], None]:
    """Return the databases and tables that must be readable: those of the configuration, as the
    server spells them, and the databases of other captured tables.
    """
    spelled: dict[tuple[str, str | None], set[tuple[str, str | None]]] = {}
    for database, table in _parts(captured):
        spelled.setdefault((database.lower(), None), set()).add((database, None))
        spelled.setdefault((database.lower(), table.lower()), set()).add((database, table))
    read: dict[tuple[str, str | None], None] = {}
    for first, name in named:
        if first is not None:
            there = spelled.get((first.lower(), None if name is None else name.lower()), {(first, name)})
            read |= dict.fromkeys(sorted(there, key=str))
    others = {database for database, table in _parts(captured) if (database, None) not in read and (database, table) not in read}
    return read | dict.fromkeys((database, None) for database in sorted(others))


def _needed(
    grant: _Grant, status: str, read: Iterable[tuple[str, str | None]], watermarks: TableId | None, *, everything: bool
) -> tuple[str, ...]:
    """Return the privileges that the connector needs at the grant's level, in the order for a
    GRANT.
    """
    if grant.database is None:
        return (*(["SELECT"] if everything else []), _OF_LOG, *([status] if grant.gives_all else _OF_STATUS))
    if watermarks is not None and grant.covers(watermarks.database, watermarks.name):
        return _OF_WATERMARKS
    return ("SELECT",) if any(grant.covers(database, table) for database, table in read) else ()


def _needs(user: str, status: str, read: Iterable[tuple[str, str | None]], watermarks: TableId | None) -> Iterator[_Need]:
    yield _Need(sql.grant_global(_OF_LOG, user), (_OF_LOG,))
    # SUPER suffices on MySQL, and on MariaDB before 10.5.
    yield _Need(sql.grant_global(status, user), (*_OF_STATUS, "SUPER"))
    for database, table in read:
        one = sql.grant_database(database, user) if table is None else sql.grant_select(TableId(database, table), user)
        yield _Need(one, ("SELECT",), database, table)
    if watermarks is not None:
        for privilege in _OF_WATERMARKS:
            yield _Need(sql.grant_watermarks(watermarks, user), (privilege,), watermarks.database, watermarks.name)


def _revokes(grant: _Grant, needed: tuple[str, ...], account: str) -> Iterator[str]:
    """Yield the statements that revoke the grant's superfluous privileges. ALL is revoked as a
    whole, because its parts differ by version, and the needed part granted again at once.
    """
    more = [privilege for privilege in grant.privileges if privilege.partition("(")[0].strip() not in (*needed, "USAGE")]
    if more:
        yield f"REVOKE {', '.join(more)} ON {grant.where} FROM {account};"
    if grant.gives_all and needed:
        yield f"GRANT {', '.join(needed)} ON {grant.where} TO {account};"
    if grant.passes_on:
        yield f"REVOKE GRANT OPTION ON {grant.where} FROM {account};"
