"""Makes the sink's report about itself: the records of the report topic. Pure.

The report has one record for the job and one for each table (schemas/sink.avsc and
schemas/sink_table.avsc). It is folded from the progress lines, as the metrics are, and from the
tables' state of now. A record holds counts, times, names and reasons, never values of rows.

A record is written again only when its facts have changed, and at most ``limit`` tables at a time:
those that have waited longest. So the topic's rate is bounded, whatever the number of tables.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dblog_sink.tables.verify import COUNTS, DIFFERING, EQUAL, UNKNOWN, WRONG

VERSION = 1
"""Version of the records. It rises when a field changes its meaning, not when one is added."""
TEXT_MAX = 500
"""Characters of a reason, a name or a path; longer ones are cut."""
BUSY_SHOWN = 10
_WAITS = ("land", "parked")
_LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]*@")
"""User and password in an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNow:
    """A table, as far as the job knows it without reading it."""

    topic: str
    name: str
    path: str
    mode: str
    rows_waiting: int = 0
    """Rows landed and not merged."""
    parked: str | None = None
    """Reason for which the table is parked, or None."""
    busy: bool = False
    """True while a thread writes the table."""
    merged_up_to: int | None = None
    """Batch sequence up to which landed rows are in the table. None if none has landed."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the report topic. Key and value are JSON text."""

    key: str
    value: str
    state: tuple[TableNow, int] | None
    """The table and the number of changes to its facts, by which an unchanged record is recognized.
    None for the record of the job, which is always written.
    """


class Report:
    """The report of one job. Threads may call ``take`` concurrently with ``due`` and ``sent``."""

    def __init__(
        self,
        *,
        name: str,
        state_path: str,
        lake: str,
        topics: str,
        program: str,
        interval_s: float,
        began_s: float,
        hide: Callable[[str], str] = str,
    ) -> None:
        """Create an empty report. ``hide`` hides secrets in a text."""
        self._shown = Shown(hide)
        cut = self._shown
        self._key = {"sink": cut(name), "state": cut(state_path)}
        self._turn = threading.Lock()
        self._job: dict[str, Any] = {
            "program": program,
            "lake": cut(lake),
            "topics": cut(topics),
            "interval_s": interval_s,
            "started_ms": _ms(began_s),
            "state": "starting",
            "reason": None,
            "restarts": 0,
            "batches": 0,
            "batch_id": None,
            "batch_ms": None,
            "records_behind": None,
            "rows_waiting": None,
            "lag_s": None,
            "rows_quarantined": 0,
            "snapshot": None,
            "blocked": None,
        }
        self._tables: dict[str, dict[str, Any]] = {}
        """Facts of each table by its name."""
        self._changes: dict[str, int] = {}
        """Number of changes to each table's facts."""
        self._keys: dict[str, str] = {}
        """Text of the key of each topic's record."""
        self._sent: dict[str, tuple[TableNow, int] | None] = {}
        """State of the newest record that Kafka has acknowledged, by key."""
        self._waits: dict[str, int] = {}
        """Number of the call of ``due`` since which a table's record waits, by key."""
        self._calls = 0

    def take(self, kind: str, facts: Mapping[str, Any], *, now_s: float) -> None:
        """Update the report from one progress line."""
        with self._turn:
            self._take(kind, facts, now_s)

    def _take(self, kind: str, facts: Mapping[str, Any], now_s: float) -> None:
        job = self._job
        match kind:
            case "started":
                job |= {"state": "running", "reason": None}
            case "restarting":
                job |= {"state": "restarting", "reason": self._shown(facts["reason"]), "restarts": job["restarts"] + 1}
            case "failed":
                job |= {"state": "failed", "reason": self._shown(facts["reason"])}
            case "stopped":
                job |= {"state": "stopped", "reason": None}
            case "batch":
                job |= {"state": "running", "reason": None, "batches": job["batches"] + 1}
                job |= {"batch_id": facts["batch_id"], "batch_ms": _ms(now_s)}
                for name, one in facts["tables"].items():
                    self._table(name)["records"] += one["records"]
                    if one["path"] not in _WAITS:
                        self._written(name, one, now_s)
            case "merge":
                self._written(facts["table"], facts, now_s)
            case "behind" | "idle":
                job |= {"state": "running", "reason": None}
                job |= {"records_behind": facts["records_behind"], "rows_waiting": facts["rows_waiting"], "lag_s": facts["lag_s"]}
            case "verified" if facts["result"] in (EQUAL, DIFFERING, UNKNOWN):
                self._verified(facts, facts["result"], now_s)
            case "verified_before":
                self._verified(facts, DIFFERING if any(facts[name] for name in WRONG) else EQUAL, facts["at_s"])
            case "resumed":
                # Its record says that it is parked, perhaps that of the run before.
                self._table(facts["table"])
            case "chunk" if facts["result"] == "short":
                self._table(facts["table"])["rows_missing"] += facts["missing"]
            case "snapshot":
                incomplete = facts["incomplete"]
                job["snapshot"] = {"number": facts["number"], "source_ts_ms": facts["source_ts_ms"], "published_ms": _ms(now_s)}
                job["snapshot"] |= {"tables": facts["tables"], "incomplete": len(incomplete)}
            case "incomplete":
                job["blocked"] = {"transaction": self._shown(str(facts["transaction"])), "since_ms": _ms(now_s - facts["seconds"])}
            case "completed":
                job["blocked"] = None
            case _:
                pass

    def _table(self, name: str) -> dict[str, Any]:
        """Return the facts of a table, which the caller changes."""
        self._changes[name] = self._changes.get(name, 0) + 1
        return self._tables.setdefault(name, dict(_NOTHING))

    def _verified(self, facts: Mapping[str, Any], result: str, at_s: float) -> None:
        why = self._shown(facts.get("why") or "") or None
        self._table(facts["table"])["verified"] = {"result": result, "at_ms": _ms(at_s), "why": why} | {
            name: facts[name] for name in COUNTS
        }

    def _written(self, name: str, one: Mapping[str, Any], now_s: float) -> None:
        table = self._table(name)
        for count, fact in (("upserts", "upserts"), ("deletes", "deletes"), ("quarantined", "bad")):
            table[count] += one[fact]
        self._job["rows_quarantined"] += one["bad"]
        table |= {"rows": one["rows"], "written_ms": _ms(now_s)}
        if one["source_ts_ms"] is not None:
            table |= {"source_ts_ms": one["source_ts_ms"], "source_lag_s": one["source_lag_s"]}
        if one["changes"]:
            table["schema_changed_ms"] = _ms(now_s)

    def due(self, tables: Sequence[TableNow], *, snapshot_before: Mapping[str, Any] | None, now_s: float, limit: int) -> list[Record]:
        """Return the records to write now: the job's, and those of at most ``limit`` tables.

        ``snapshot_before`` has the number and the source's time of the snapshot that an earlier run
        published last, or is None.
        """
        with self._turn:
            self._calls += 1
            changed: list[tuple[int, str, TableNow]] = []
            for one in tables:
                if one.name not in self._tables and one.parked is None and not one.rows_waiting:
                    # Nothing is known of it since the start: its record of the run before says more.
                    continue
                key = self._key_of(one.topic)
                if self._sent.get(key) != (one, self._changes.get(one.name, 0)):
                    changed.append((self._waits.setdefault(key, self._calls), key, one))
            changed.sort(key=lambda each: each[:2])
            found: list[tuple[str, dict[str, Any], tuple[TableNow, int] | None]] = [
                (_text({**self._key, "topic": None}), self._job_facts(tables, snapshot_before, len(changed)), None)
            ]
            for _, key, one in changed[:limit]:
                facts = self._table_facts(one, self._tables.get(one.name, _NOTHING))
                found.append((key, facts, (one, self._changes.get(one.name, 0))))
            now_ms = _ms(now_s)
            return [Record(key, _text({"version": VERSION, "at_ms": now_ms, **facts}), state) for key, facts, state in found]

    def _key_of(self, topic: str) -> str:
        if topic not in self._keys:
            self._keys[topic] = _text({**self._key, "topic": topic})
        return self._keys[topic]

    def _job_facts(self, tables: Sequence[TableNow], snapshot_before: Mapping[str, Any] | None, changed: int) -> dict[str, Any]:
        busy = sorted(one.name for one in tables if one.busy)
        before = None if snapshot_before is None else {"published_ms": None, "tables": None, "incomplete": None, **snapshot_before}
        return self._job | {
            "snapshot": self._job["snapshot"] or before,
            "tables": len(tables),
            "parked": sum(one.parked is not None for one in tables),
            "tables_unreported": changed,
            "work": [self._shown(name) for name in busy[:BUSY_SHOWN]],
            "work_more": max(0, len(busy) - BUSY_SHOWN),
        }

    def _table_facts(self, one: TableNow, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": self._shown(one.name),
            "path": self._shown(one.path),
            "mode": one.mode,
            "parked": None if one.parked is None else self._shown(one.parked),
            "rows_waiting": one.rows_waiting,
            "merged_up_to": one.merged_up_to,
            **facts,
        }

    def sent(self, records: Collection[Record]) -> None:
        """Record that Kafka has acknowledged these records, so that they are not written again."""
        with self._turn:
            for one in records:
                self._sent[one.key] = one.state
                self._waits.pop(one.key, None)


_NOTHING: Mapping[str, Any] = {
    "rows": None,
    "records": 0,
    "upserts": 0,
    "deletes": 0,
    "quarantined": 0,
    "rows_missing": 0,
    "source_ts_ms": None,
    "source_lag_s": None,
    "written_ms": None,
    "schema_changed_ms": None,
    "verified": None,
}
"""Facts of a table of which nothing is known since the start."""


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _ms(at_s: float) -> int:
    return round(at_s * 1000)


class Shown:
    """A function that makes a text fit for the report: without secrets, and not too long."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide

    def __call__(self, text: str) -> str:
        shown = _LOGIN.sub("://[hidden]@", self._hide(text))
        return shown if len(shown) <= TEXT_MAX else f"{shown[: TEXT_MAX - 1]}…"
