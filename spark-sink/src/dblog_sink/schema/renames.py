"""Which columns were renamed, by the source's own schema history: read from the DDL in its schema-change records.

A record of Debezium's schema-change topic carries the statement. Only a statement that renames (``RENAME COLUMN a TO b``, ``CHANGE a b ...``) distinguishes
a rename from a column dropped and another added; without that topic among the job's topics a rename counts as the latter. A misread statement does no harm:
a column is renamed only if the newest records do not have the old name and have the new one (``evolve.planned``).

Pure. MySQL manual, ALTER TABLE Statement; PostgreSQL manual, ALTER TABLE.
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
    """A column of a table of the statement's database, or of the one that the statement names."""

    database: str | None
    table: str
    old: str
    new: str


def renamed(ddl: str) -> list[Renamed]:
    """The columns that a statement renames, in its order."""
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
