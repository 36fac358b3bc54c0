"""What comparisons with the source have shown, for ``dblog-sink verified``: the newest verdict of each table, with keys of rows that are wrong.

Keys are shown because they are asked for; they are nowhere else than in the table that is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.reconcile.verifications import newest, verdicts_path
from dblog_sink.tables.verify import COUNTS, DIFFERING, EQUAL

_KEYS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The newest verdict of one table. ``keys``: what is wrong (``sign``), the key as JSON, or the chunk (``after``, ``upto``) that it is in."""

    table: str
    topic: str
    dump: str
    scope: str
    result: str
    why: str
    counts: Mapping[str, int]
    keys: tuple[Mapping[str, str | None], ...]
    at: datetime

    @property
    def differs(self) -> bool:
        """Whether rows are wrong."""
        return self.result == DIFFERING


def verified(session: SparkSession, settings: Settings, *, table: str | None = None) -> list[Shown]:
    """The newest verdicts; ``table``: of this one alone, by its name or topic."""
    return [
        Shown(
            table=row["table"],
            topic=row["topic"],
            dump=row["dump"],
            scope=row["scope"],
            result=row["result"],
            why=row["why"],
            counts={name: row[name] for name in COUNTS},
            keys=tuple(one.asDict() for one in row["keys"] or ()),
            at=row["at"].astimezone(UTC),
        )
        for row in newest(session, verdicts_path(settings.state_path))
        if table in (None, row["table"], row["topic"])
    ]


def answer(found: Sequence[Shown], *, as_json: bool) -> tuple[list[str], int]:
    """The lines that show these verdicts, and the exit status: 1 if a table has rows that are not the source's, else 2 if one is not known to be equal, or none
    was compared.
    """
    lines = [json.dumps(facts(one)) for one in found] if as_json else [line for one in found for line in lines_of(one)]
    if any(one.differs for one in found):
        return lines, 1
    return lines, 0 if found and all(one.result == EQUAL for one in found) else 2


def facts(one: Shown) -> dict[str, Any]:
    """The verdict as JSON takes it."""
    return {**asdict(one), "at": one.at.isoformat()}


def lines_of(one: Shown) -> list[str]:
    """The verdict as text."""
    counted = ", ".join(f"{count} {name}" for name, count in one.counts.items() if count)
    lines = [
        f"{one.table}: {one.result}{f' ({one.why})' if one.why else ''}: {counted or 'no row'}; dump {one.dump}, {one.at:%Y-%m-%d %H:%M:%S} UTC"
    ]
    for key in one.keys[:_KEYS_SHOWN]:
        where = key["key"] or f"a key behind {key['after'] or 'the start'} and up to {key['upto'] or 'the end'}"
        lines.append(f"  {key['sign']}: {where}")
    if len(one.keys) > _KEYS_SHOWN:
        lines.append(f"  and {len(one.keys) - _KEYS_SHOWN} more (--json)")
    return lines
