"""Judges each connector in one word, with the sentence and the remedy where something is wrong, and
orders them so that what is wrong comes first. Pure.

Connect's state alone does not say whether data flows: a task is RUNNING while its database has
nothing new, and while nothing moves though it should. So RUNNING is divided here: STALLED if a task
waits for something, if nothing moves though something should (``stalled_seconds``), or if its
process has not reported for a while; IDLE if it is well and has had nothing to do for a minute.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from dblog.page.formats import duration
from dblog.page.lake import BAD_WORDS, Lake
from dblog.runtime.policy import ONCE_GONE

STALLED_S = 60.0
"""Seconds without any movement from which on a task counts as stalled; those of the alert DblogStalled."""
SILENT_S = 30.0
"""Age of a task's report after which its process counts as hanging, as in /metrics."""
IDLE_S = 60.0


class Health(IntEnum):
    """The word for a connector, worst first."""

    FAILED = 0
    STALLED = 1
    STARTING = 2
    RUNNING = 3
    IDLE = 4
    PAUSED = 5
    STOPPED = 6


MEANINGS = {
    Health.FAILED: "has ended with an error and does not go on by itself",
    Health.STALLED: "should read and does not",
    Health.STARTING: "is about to run",
    Health.RUNNING: "reads changes or rows",
    Health.IDLE: "is well, and its source has had nothing new for a minute",
    Health.PAUSED: "reads nothing until it is resumed",
    Health.STOPPED: "has no task until it is resumed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One connector as the overview shows it. A number that is unknown is None."""

    name: str
    system: str
    prefix: str
    health: Health
    sentence: str = ""
    """Says what is wrong, or why nothing runs. Empty where all is well."""
    remedy: str = ""
    trace: str = ""
    """The whole text of the failure."""
    warnings: int = 0
    tasks: int = 0
    tasks_failed: int = 0
    lag_s: float | None = None
    source_lag_s: float | None = None
    """Age of the newest changes when the worker has read them, on average over 5 s."""
    kafka_lag_s: float | None = None
    """Time from there until Kafka has acknowledged them."""
    lake_lag_s: float | None = None
    """Time from Kafka to the lake, of the sink that is the furthest behind. None without a sink."""
    lake_word: str = ""
    """The worst word of its sinks, or empty without one."""
    lake_parked: int = 0
    """Tables that a sink has parked."""
    behind_bytes: float | None = None
    margin_bytes: float | None = None
    """Bytes of log before the stored position that the server still keeps."""
    race_left_s: float | None = None
    """Time until the server drops log that was not read, at the speeds of now."""
    changes_per_s: float | None = None
    dumped_per_s: float | None = None
    bytes_per_s: float | None = None
    last_change_s: float | None = None
    """Unix time of the newest change that was read."""
    heard_s: float | None = None
    """Unix time of the newest bytes from the server, heartbeats included."""
    dump: Mapping[str, float] | None = None
    """Numbers of the connector's own dump while it runs: tables_done, tables_total, rows, rows_estimated, eta_s."""
    restarts: Mapping[str, int] = field(default_factory=dict)

    @property
    def needs_attention(self) -> bool:
        """True if something is wrong or in doubt."""
        return self.health <= Health.STALLED or self.doubts > 0

    @property
    def doubts(self) -> int:
        """Number of things that are in doubt though it may run: warnings, and its tables in the lake."""
        return self.warnings + self.lake_parked + (self.lake_word in BAD_WORDS)

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Sorts what is wrong first, then doubts, then the greatest lag."""
        return (min(self.health, Health.STARTING), -min(1, self.doubts), -(self.lag_s or 0.0), self.name)


def facts_of(
    name: str,
    *,
    config: Mapping[str, str],
    system: str,
    target: str,
    status: Mapping[str, Any] | None,
    numbers: Mapping[str, float] | None,
    reported_s: float | None,
    waits: str | None,
    restarts: Mapping[str, int],
    rates: Mapping[str, float],
    warnings: int,
    now_s: float,
    lake: Lake | None = None,
) -> Facts:
    """Return the facts of a connector from its status and the newest report of its task.

    ``numbers`` None stands for a task that does not run on this worker.
    """
    tasks: Sequence[Mapping[str, Any]] = status["tasks"] if status is not None else ()
    known = numbers if numbers is not None and reported_s is not None and now_s - reported_s <= SILENT_S else {}
    health, text = _judged(target, status, tasks, numbers, reported_s, waits, known, now_s)
    sentence, remedy = split(text)
    if health is Health.STALLED and not remedy:
        remedy = "It goes on by itself once what it waits for is there; nothing is lost meanwhile, as long as the source keeps its log."
    read_s, acknowledged_s = rates.get("read_s"), rates.get("acknowledged_s")
    has_changes = [rates[each] for each in ("create", "update", "delete") if each in rates]
    return Facts(
        name=name,
        system=system,
        prefix=config.get("topic.prefix", ""),
        health=health,
        sentence=sentence,
        remedy=remedy,
        trace=text if "\n" in text.strip() else "",
        warnings=warnings,
        tasks=len(tasks),
        tasks_failed=sum(task["state"] == "FAILED" for task in tasks),
        lag_s=known["lag_ms"] / 1000 if "lag_ms" in known and health not in (Health.PAUSED, Health.FAILED) else None,
        source_lag_s=read_s,
        kafka_lag_s=None if read_s is None or acknowledged_s is None else max(0.0, acknowledged_s - read_s),
        lake_lag_s=None if lake is None else lake.lag_s,
        lake_word="" if lake is None else lake.word,
        lake_parked=0 if lake is None else len(lake.parked),
        behind_bytes=known.get("log_behind_bytes"),
        margin_bytes=known.get("log_purge_margin_bytes"),
        race_left_s=known.get("log_race_left_seconds"),
        changes_per_s=sum(has_changes) if has_changes else None,
        dumped_per_s=rates.get("dumped"),
        bytes_per_s=rates.get("bytes"),
        last_change_s=known.get("log_last_record_timestamp_seconds"),
        heard_s=known.get("log_last_heard_timestamp_seconds"),
        dump=_dump(known, runs=health <= Health.IDLE),
        restarts=restarts,
    )


def _judged(
    target: str,
    status: Mapping[str, Any] | None,
    tasks: Sequence[Mapping[str, Any]],
    numbers: Mapping[str, float] | None,
    reported_s: float | None,
    waits: str | None,
    known: Mapping[str, float],
    now_s: float,
) -> tuple[Health, str]:
    """Return the word, and the text that says why."""
    if status is not None:
        for part in (status["connector"], *tasks):
            if part["state"] == "FAILED":
                return Health.FAILED, str(part.get("trace") or "It has failed without a reason.")
    if target == "STOPPED":
        return Health.STOPPED, ""
    if target == "PAUSED":
        return Health.PAUSED, ""
    trace = next((str(task["trace"]) for task in tasks if task.get("trace")), "") or (
        str(status["connector"].get("trace") or "") if status is not None else ""
    )
    if status is None or not tasks or any(task["state"] in ("UNASSIGNED", "RESTARTING") for task in tasks):
        return (Health.STALLED if waits else Health.STARTING), waits or trace
    if waits or trace:
        return Health.STALLED, waits or trace
    if numbers is not None and reported_s is not None and now_s - reported_s > SILENT_S:
        text = f"The task's process has not reported for {duration(now_s - reported_s)}: it hangs, or this machine is overloaded."
        return Health.STALLED, f"{text}\n{ONCE_GONE}Restart ends the process and starts another."
    stalled_s = known.get("stalled_seconds", 0.0)
    if stalled_s > STALLED_S:
        return Health.STALLED, f"Nothing has moved for {duration(stalled_s)}, though {_should(known)}."
    last_s = max(
        (known.get(each, 0.0) for each in ("log_last_record_timestamp_seconds", "last_acknowledged_timestamp_seconds")), default=0.0
    )
    is_idle = known and not known.get("dump_running") and now_s - last_s > IDLE_S and known.get("records_outstanding", 0) == 0
    return (Health.IDLE if is_idle else Health.RUNNING), ""


def _should(known: Mapping[str, float]) -> str:
    if known.get("kafka_away"):
        return "records wait for Kafka, whose brokers do not answer"
    if not known.get("connected", 1.0):
        return "the connection to the database is not open"
    if known.get("log_silent"):
        return "the database is connected and has missed its heartbeats"
    if known.get("records_outstanding"):
        return "records wait for Kafka's acknowledgement"
    return "the database's log has more"


def _dump(known: Mapping[str, float], *, runs: bool) -> dict[str, float] | None:
    if not known.get("dump_running"):
        return None
    names = {
        "tables_done": "dump_tables_done",
        "tables_total": "dump_tables_total",
        "rows": "dump_rows_total",
        "rows_estimated": "dump_rows_estimated",
        "rows_per_s": "dump_rows_per_second",
        "eta_s": "dump_eta_seconds",
    }
    if not runs:
        del names["rows_per_s"], names["eta_s"]
    return {name: known[metric] for name, metric in names.items() if metric in known}


_CLASS = re.compile(r"^[A-Za-z_.]*(?:Error|Exception): ")


def split(text: str) -> tuple[str, str]:
    """Return the sentence of a trace, and the remedy that it ends with.

    The lines between, causes and frames, are left to the whole text.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "", ""
    sentence = _CLASS.sub("", lines[0])
    last = lines[-1] if len(lines) > 1 and lines[-1].startswith(ONCE_GONE) else ""
    if not last:
        return sentence, ""
    what = last.removeprefix(ONCE_GONE)
    return sentence, "Once the cause is gone, restart its failed parts." if what.startswith("POST ") else last


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of the list of connectors."""

    rows: tuple[Facts, ...]
    found: int
    """Number of connectors that match, on all pages."""
    total: int
    page: int
    pages: int
    counts: Mapping[Health, int]
    """Number of all connectors with each word."""
    attention: int


def listed(facts: Iterable[Facts], *, search: str = "", health: Health | None = None, page: int = 1, size: int = 50) -> Listed:
    """Return one page of the connectors that match, what is wrong first.

    ``search`` is part of a name, a topic prefix or a kind of database, in any case.
    """
    everything = list(facts)
    wanted = search.strip().casefold()
    found = [
        each
        for each in everything
        if (health is None or each.health is health)
        and (not wanted or any(wanted in text.casefold() for text in (each.name, each.prefix, each.system)))
    ]
    found.sort(key=lambda each: each.order)
    pages = max(1, -(-len(found) // size))
    page = min(max(1, page), pages)
    counts = Counter(each.health for each in everything)
    return Listed(
        rows=tuple(found[(page - 1) * size : page * size]),
        found=len(found),
        total=len(everything),
        page=page,
        pages=pages,
        counts={each: counts[each] for each in Health},
        attention=sum(each.needs_attention for each in everything),
    )
