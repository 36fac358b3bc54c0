"""Finds renamed columns in the DDL of the source's schema-change records. Pure.

A record of Debezium's schema-change topic carries the statement. Only a statement that renames
(``RENAME COLUMN a TO b``, ``CHANGE a b ...``) tells a rename from a dropped and an added column; if
the job does not read that topic, a rename counts as the latter. A misread statement does no harm: a
column is renamed only if the newest records have the new name and not the old one
(``evolve.planned``).

MySQL manual, ALTER TABLE Statement; PostgreSQL manual, ALTER TABLE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$]+)"
_TABLE = re.compile(
    rf"^\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?(?P<name>{_NAME}(?:\s*\.\s*{_NAME})?)\s+(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_RENAMES = (
    re.compile(rf"\bRENAME\s+COLUMN\s+(?:IF\s+EXISTS\s+)?(?P<old>{_NAME})\s+TO\s+(?P<new>{_NAME})", re.IGNORECASE),
    re.compile(rf"\bCHANGE\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?(?P<old>{_NAME})\s+(?P<new>{_NAME})", re.IGNORECASE),
)
_TEXTS = re.compile(r"'(?:[^'\\]|\\.|'')*'|/\*.*?\*/|--[^\n]*|#[^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Renamed:
    """A renamed column. ``database`` is None if the statement names none."""

    database: str | None
    table: str
    old: str
    new: str


def renamed(ddl: str) -> list[Renamed]:
    """Return the columns that a statement renames, in the order of the statement."""
    match = _TABLE.match(_TEXTS.sub(" ", ddl))
    if match is None:
        return []
    parts = [_plain(part) for part in re.findall(_NAME, match["name"])]
    database = parts[0] if len(parts) > 1 else None
    found = sorted((one for pattern in _RENAMES for one in pattern.finditer(match["rest"])), key=lambda one: one.start())
    return [
        Renamed(database, parts[-1], old, new)
        for old, new in ((_plain(one["old"]), _plain(one["new"])) for one in found)
        if old.lower() != new.lower()
    ]


def _plain(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name
