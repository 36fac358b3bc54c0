"""Which privileges of an account a connector does not need, by what SHOW GRANTS lists. Pure.

Missing ones are found by trying (``wire/check.py``); superfluous ones can only be read. What a role brings is not looked into, and named.
Source: MySQL's and MariaDB's manuals, SHOW GRANTS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from dblog.dialects.mysql.catalog import sql
from dblog.model import TableId

_NAME = r"(?:`(?:[^`]|``)*`|\*)"
_GRANT = re.compile(rf"GRANT (?P<privileges>.+?) ON (?:TABLE )?(?P<database>{_NAME})\.(?P<table>{_NAME}) TO ", re.DOTALL)
_ROLE = re.compile(r"GRANT (?P<roles>[`'].+?) TO ", re.DOTALL)
_BETWEEN = re.compile(r",\s*(?![^()]*\))")
_OF_SERVER = frozenset({"USAGE", "REPLICATION CLIENT", "BINLOG MONITOR", "REPLICATION SLAVE"})
_OF_WATERMARKS = frozenset({"CREATE", "SELECT", "INSERT", "UPDATE"})


def superfluous(
    grants: Iterable[str], *, user: str, captured: Collection[TableId], watermarks: TableId | None, everything: bool
) -> Iterator[str]:
    """A line for each: the REVOKE, or what has to be looked at. ``everything``: no list names what is captured, so SELECT may be the whole server's."""
    for grant in grants:
        match = _GRANT.match(grant)
        if match is None:
            if role := _ROLE.match(grant):
                yield f"-- the role {role['roles']} is not looked into: see what it brings with SHOW GRANTS FOR {role['roles']};"
            continue
        needed = _needed(_plain(match["database"]), _plain(match["table"]), captured, watermarks, everything=everything)
        given = [privilege.strip() for privilege in _BETWEEN.split(match["privileges"])]
        more = [privilege for privilege in given if privilege.partition("(")[0].strip().upper() not in needed]
        where = f"{match['database']}.{match['table']}"
        if more:
            yield f"REVOKE {', '.join(more)} ON {where} FROM {sql.account(user)};"
        if grant.rstrip().endswith("WITH GRANT OPTION"):
            yield f"REVOKE GRANT OPTION ON {where} FROM {sql.account(user)};"


def _needed(
    database: str | None, table: str | None, captured: Collection[TableId], watermarks: TableId | None, *, everything: bool
) -> frozenset[str]:
    if database is None:
        return _OF_SERVER | {"SELECT"} if everything else _OF_SERVER
    needed = frozenset({"USAGE"})
    if watermarks is not None and _covers(database, table, watermarks):
        needed |= _OF_WATERMARKS
    if any(_covers(database, table, one) for one in captured):
        needed |= {"SELECT"}
    return needed


def _covers(database: str, table: str | None, one: TableId) -> bool:
    """Names of databases may be patterns where no table is named: ``_`` and ``%``, with a backslash before those that stand for themselves."""
    if table is not None:
        return (database.lower(), table.lower()) == (one.database.lower(), one.name.lower())
    pieces = re.findall(r"\\.|.", database, re.DOTALL)
    pattern = "".join(".*" if piece == "%" else "." if piece == "_" else re.escape(piece[-1]) for piece in pieces)
    return re.fullmatch(pattern, one.database, re.IGNORECASE | re.DOTALL) is not None


def _plain(name: str) -> str | None:
    return None if name == "*" else name[1:-1].replace("``", "`")
