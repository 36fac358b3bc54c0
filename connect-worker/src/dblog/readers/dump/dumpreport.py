"""Limits the size of a task's report on its dumps.

The report travels to the herder as one message, and a message that is too long ends the task. Each
dump names the first of its tables, and there may be a hundred dumps. So they share the room: the
more dumps, the fewer tables of each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

REPORT_BYTES_MAX = 3 << 20
"""Size limit for all dumps together; the herder accepts a message of 8 MiB."""
TABLES_MAX = 2000
"""Maximum number of tables that all dumps name together, as long as each dump may name
TABLES_OF_EACH_MIN.
"""
TABLES_OF_EACH_MIN = 10
REASON_CHARS_MAX = 2000
"""Maximum length of a dump's reason; the herder keeps no more."""

_encoded = json.JSONEncoder(separators=(",", ":")).encode


def bounded(statuses: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statuses with as many of their first tables as there is room for.

    The other parts of each status are always kept.
    """
    if not statuses:
        return []
    bare = [{**status, "tables": [], "reason": _cut(status["reason"])} for status in statuses]
    count_max = max(TABLES_OF_EACH_MIN, TABLES_MAX // len(statuses))
    share = (REPORT_BYTES_MAX - sum(map(_size, bare))) // len(statuses)
    return [{**one, "tables": _fitting(status["tables"][:count_max], share)} for one, status in zip(bare, statuses, strict=True)]


def _cut(reason: str | None) -> str | None:
    return None if reason is None else reason[:REASON_CHARS_MAX]


def _size(part: dict[str, Any]) -> int:
    return len(_encoded(part)) + 1  # the comma


def _fitting(tables: Sequence[dict[str, Any]], bytes_max: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for table in tables:
        bytes_max -= _size(table)
        if bytes_max < 0:
            break
        out.append(table)
    return out
