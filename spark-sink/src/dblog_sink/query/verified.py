"""Shows the newest verdict of each table with keys of wrong rows, for ``dblog-sink verified``.

Keys are shown because the user asks for them; they are stored only in the table that is read here.
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
    """The newest verdict of one table.

    ``keys`` has the kind of fault (``sign``), and the key as JSON or the bounds (``after``,
    ``upto``) of its chunk.
    """

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
        """True if rows are wrong."""
        return self.result == DIFFERING


def verified(session: SparkSession, settings: Settings, *, table: str | None = None) -> list[Shown]:
    """Return the newest verdicts, or only that of ``table``, a name or topic."""
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
    """Return the lines that show these verdicts, and the exit status.

    It is 1 if a table has rows that differ from the source's, else 2 if one is not known to be
    equal or none was compared, else 0.
    """
    lines = [json.dumps(facts(one)) for one in found] if as_json else [line for one in found for line in lines_of(one)]
    if any(one.differs for one in found):
        return lines, 1
    return lines, 0 if found and all(one.result == EQUAL for one in found) else 2


def facts(one: Shown) -> dict[str, Any]:
    """Return the verdict as values for JSON."""
    return {**asdict(one), "at": one.at.isoformat()}


def lines_of(one: Shown) -> list[str]:
    """Return the verdict as lines of text."""
    counted = ", ".join(f"{count} {name}" for name, count in one.counts.items() if count)
    lines = [
        f"{one.table}: {one.result}{f' ({one.why})' if one.why else ''}: {counted or 'no row'}; dump {one.dump}, {one.at:%Y-%m-%d %H:%M:%S} UTC"
    ]
    for key in one.keys[:_KEYS_SHOWN]:
        where = key["key"] or f"a key after {key['after'] or 'the start'} and up to {key['upto'] or 'the end'}"
        lines.append(f"  {key['sign']}: {where}")
    if len(one.keys) > _KEYS_SHOWN:
        lines.append(f"  and {len(one.keys) - _KEYS_SHOWN} more (--json)")
    return lines
