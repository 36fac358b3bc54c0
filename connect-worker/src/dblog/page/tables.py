"""The views of a connector's tables: the list, and one table with the versions of its schema."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dblog.cluster.records import TaskId
from dblog.cluster.requests import not_found
from dblog.cluster.sinkstore import SinkOfTable
from dblog.page.asked import Asked
from dblog.page.connector import common, dumps_of
from dblog.page.fleet import Facts
from dblog.page.lake import by_topic, resume_command
from dblog.page.overview import Query
from dblog.page.schemachanges import ColumnChange, changes_between, columns_of
from dblog.page.tablelist import Table, listed_tables, tables_of

_PAGE_SIZE = 50
_VERSIONS_MAX = 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table's schema."""

    number: int
    id: int
    columns: int
    changes: tuple[ColumnChange, ...]
    is_first: bool


def _all(asked: Asked, found: Facts) -> tuple[list[Table], Mapping[str, float]]:
    herder = asked.services.herder
    report = herder.status_view.reports().get(TaskId(found.name, 0))
    numbers: Mapping[str, float] = {} if report is None else report.numbers
    config = herder.configs.connector_configs().get(found.name, {})
    tables = tables_of(
        herder.statuses.topics(found.name),
        found.prefix,
        dumps_of(asked, found.name),
        numbers,
        not_tables=(f"{found.prefix}.transaction", config.get("transaction.topic", "")),
    )
    return tables, numbers


async def listed(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the list of a connector's tables."""
    values = common(asked, "tables")
    found: Facts = values["each"]
    search = asked.query("q")
    everything, numbers = _all(asked, found)
    page = listed_tables(everything, search=search, page=asked.number("page"), size=_PAGE_SIZE)
    return {
        **values,
        "found": page,
        "versions": await asked.schema_versions.newest(asked, [table.topic for table in page.rows if table.topic]),
        "lake": _lake(asked, [table.topic for table in page.rows if table.topic]),
        "search": search,
        "captured": numbers.get("tables_captured"),
        "parked": numbers.get("tables_parked"),
        "query_of": Query({"q": search} if search else {}),
    }


async def one(asked: Asked) -> Mapping[str, Any]:
    """Return the values of one table, with what each version of its schema changed, newest first."""
    values = common(asked, "tables")
    found: Facts = values["each"]
    name = asked.segment("table")
    table = next((each for each in _all(asked, found)[0] if each.name == name), None)
    if table is None:
        raise not_found(f"Connector {found.name} has no topic of a table {name[:200]} yet, and no dump names it")
    numbers = await _versions(asked, _subject(table.topic)) if table.topic else []
    shown = numbers[-_VERSIONS_MAX - 1 :]
    versions: list[Version] = []
    before: dict[str, str] | None = None
    for number in shown:
        answer = await asked.call("GET", f"/subjects/{quote(_subject(table.topic), safe='')}/versions/{number}")
        if not answer.is_good:
            continue
        columns = columns_of(str(answer.body.get("schema") or ""))
        changes = tuple(changes_between(before, columns)) if before is not None else ()
        versions.append(Version(number, int(answer.body.get("id") or 0), len(columns), changes, before is None))
        before = columns
    return {
        **values,
        "title": f"{table.name} of {found.name}",
        "table": table,
        "columns": before or {},
        "lake": _lake(asked, [table.topic] if table.topic else []).get(table.topic, []),
        "resume_command": resume_command,
        "versions": versions[::-1][:_VERSIONS_MAX],
        "older": max(0, len(numbers) - _VERSIONS_MAX),
    }


def _lake(asked: Asked, topics: Iterable[str]) -> Mapping[str, list[SinkOfTable]]:
    view = asked.services.sinks
    return {} if view is None else by_topic(view.of_topics(topics))


def _subject(topic: str) -> str:
    return f"{topic}-value"


async def _versions(asked: Asked, subject: str) -> list[int]:
    answer = await asked.call("GET", f"/subjects/{quote(subject, safe='')}/versions")
    return [int(each) for each in answer.body] if answer.is_good and isinstance(answer.body, list) else []


class SchemaVersions:
    """The newest version of each table's schema in the worker's own registry, asked for again after a
    while. Used only in the event loop's thread.
    """

    KEPT_S = 30.0
    _SUBJECTS_MAX = 10_000

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, int | None]] = {}

    async def newest(self, asked: Asked, topics: Iterable[str]) -> dict[str, int]:
        """Return the newest version by topic. A topic without schemas there is missing."""
        found: dict[str, int] = {}
        now_s = time.monotonic()
        for topic in topics:
            at_s, version = self._known.get(topic, (0.0, None))
            if not at_s or now_s - at_s > self.KEPT_S:
                version = max(await _versions(asked, _subject(topic)), default=None)
                if len(self._known) >= self._SUBJECTS_MAX:
                    self._known.clear()
                self._known[topic] = (now_s, version)
            if version is not None:
                found[topic] = version
        return found
