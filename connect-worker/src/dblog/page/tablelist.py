"""Puts together what is known of each table of a connector: its topic, its records, the dumps that
name it. Pure.

Every table that has had a record has a topic, which the status topic lists. The dumps name at most
200 tables each, those under way and failed first; the counters name ``dblog.metrics.tables.max``
topics. So a number may be unknown for some tables of many, and is then None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dblog.codecs.topic_naming import clean_topic

_ORDER = {"FAILED": 0, "RUNNING": 1, "PAUSED": 2, "WAITING": 3, "STOPPED": 4, "DONE": 5, "": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a connector."""

    name: str
    topic: str = ""
    records: float | None = None
    """Records made for its topic since the task's process began."""
    acknowledged: float | None = None
    state: str = ""
    """State of the newest dump that names it, or empty."""
    dump: str = ""
    rows: int | None = None
    rows_estimated: int | None = None
    eta_s: float | None = None
    fault: str = ""
    """Why it was not read, or what its next chunk waits for."""

    @property
    def order(self) -> tuple[int, str]:
        """Sorts failed tables first, then those under way."""
        return _ORDER.get(self.state, 6), self.name


def tables_of(
    topics: Iterable[str], prefix: str, dumps: Sequence[Mapping[str, Any]], numbers: Mapping[str, float], *, not_tables: Iterable[str] = ()
) -> list[Table]:
    """Return the tables, sorted by name.

    ``dumps`` are their details, oldest first: a later one overrides. ``not_tables`` are topics of the
    connector that hold no rows.
    """
    found: dict[str, Table] = {}
    start, others = f"{prefix}.", frozenset(not_tables)
    for topic in topics:
        if topic.startswith(start) and topic not in others:
            name = topic.removeprefix(start)
            found[name] = Table(
                name=name,
                topic=topic,
                records=numbers.get(f"topic_records_total|{topic}"),
                acknowledged=numbers.get(f"topic_records_acknowledged_total|{topic}"),
            )
    for dump in dumps:
        for each in dump["status"].get("tables") or ():
            name = str(each.get("table"))
            if name not in found and (in_topic := clean_topic(name)) in found:
                # A topic has no characters that Kafka does not take; only the dump knows the name.
                found[name] = replace(found.pop(in_topic), name=name)
            found[name] = replace(
                found.get(name, Table(name=name)),
                state=str(each.get("state") or ""),
                dump=str(dump["id"]),
                rows=each.get("rows"),
                rows_estimated=each.get("rows_estimated"),
                eta_s=each.get("eta_s"),
                fault=str(each.get("fault") or each.get("reason") or ""),
            )
    return sorted(found.values(), key=lambda each: each.name)


@dataclass(frozen=True, slots=True)
class ListedTables:
    """One page of the tables."""

    rows: tuple[Table, ...]
    found: int
    total: int
    page: int
    pages: int


def listed_tables(tables: Sequence[Table], *, search: str = "", page: int = 1, size: int = 50) -> ListedTables:
    """Return one page of the tables whose name has ``search`` in it, in any case; failed ones first."""
    wanted = search.strip().casefold()
    found = sorted((each for each in tables if wanted in each.name.casefold()), key=lambda each: each.order)
    pages = max(1, -(-len(found) // size))
    page = min(max(1, page), pages)
    return ListedTables(tuple(found[(page - 1) * size : page * size]), len(found), len(tables), page, pages)
