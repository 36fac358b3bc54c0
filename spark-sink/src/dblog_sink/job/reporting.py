"""Writes the sink's report to its topic now and then, in a thread of its own.

Nothing waits for it: a broker that does not answer delays the next report and nothing else, and a
report that fails is logged once until one succeeds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dblog_sink.batches.parts import Parts
from dblog_sink.config.job_options import Settings
from dblog_sink.errors import TransientError
from dblog_sink.observe.logs import Hidden
from dblog_sink.observe.report import Report, TableNow

log = logging.getLogger(__name__)

TABLES_AT_ONCE = 200
"""Records of tables in one report. All of 10 000 busy tables are written again within 50 reports."""


class Topic(Protocol):
    """The topic of the reports (``kafka/report_topic.py``)."""

    topic: str

    def write(self, records: Sequence[tuple[str, str]]) -> list[bool]:
        """Write keys and values. Return for each whether it was acknowledged, or raise TransientError."""
        ...

    def close(self) -> None:
        """Close the topic without waiting."""
        ...


class Reporting:
    """The thread that writes the reports of one job."""

    def __init__(self, report: Report, open_topic: Callable[[], Topic], *, interval_s: float) -> None:
        """Create the thread. It calls ``open_topic`` itself before its first report."""
        self._report = report
        self._open_topic = open_topic
        self._interval_s = interval_s
        self._tables: Callable[[], Sequence[TableNow]] = tuple
        self._snapshot: Callable[[], Mapping[str, Any] | None] = lambda: None
        self._ending = threading.Event()
        self._fails = False
        self._thread = threading.Thread(target=self._run, name="dblog-report", daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def follow(self, parts: Parts) -> None:
        """Report on the tables of a job that has been built."""
        tables = Tables(parts)
        self._tables, self._snapshot = tables.now, tables.snapshot

    def close(self, wait_s: float) -> None:
        """Write a last report, with the end of the job, and wait for it at most ``wait_s``."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        topic: Topic | None = None
        while True:
            ends = self._ending.wait(0.0 if topic is None else self._interval_s)
            try:
                topic = topic or self._open_topic()
                self._write(topic)
            except Exception as e:  # noqa: BLE001  the report is worth less than the job
                self._failed(topic, e)
                topic = topic if isinstance(e, TransientError) else None
                ends = ends or (topic is None and self._ending.wait(self._interval_s))
            if ends:
                break
        if topic is not None:
            try:
                topic.close()
            except Exception as e:  # noqa: BLE001  the JVM may be gone
                log.debug("the report's producer is not closed: %s", type(e).__name__)

    def _write(self, topic: Topic) -> None:
        due = self._report.due(self._tables(), snapshot_before=self._snapshot(), now_s=time.time(), limit=TABLES_AT_ONCE)
        done = topic.write([(one.key, one.value) for one in due])
        self._report.sent([one for one, acknowledged in zip(due, done, strict=True) if acknowledged])
        if self._fails:
            self._fails = False
            log.info("the sink reports to topic %s again", topic.topic)

    def _failed(self, topic: Topic | None, error: Exception) -> None:
        if self._fails or self._ending.is_set():
            return
        self._fails = True
        name = "its topic" if topic is None else f"topic {topic.topic}"
        reason = str(error) if isinstance(error, TransientError) else type(error).__name__
        log.warning(
            "the sink cannot report to %s (%s); its tables are written all the same, and the next report is tried in %.0f s. Let its principal CREATE, "
            "DESCRIBE and WRITE the topic, or set report.topic= to report nothing",
            name,
            reason,
            self._interval_s,
        )


class Tables:
    """The state of a job's tables, for the report."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._named: dict[str, tuple[str, str, str]] = {}
        """Topic to name, path and mode of its table, which the settings compute by regular expressions."""

    def now(self) -> list[TableNow]:
        """Return the state of all tables that the job has met."""
        book, merged_up_to = self._parts.book, self._parts.control.state.merged_up_to
        with book.turn:
            found = [(one.topic, one.rows_waiting, one.parked, one.busy) for one in book.tables.values()]
        return [
            TableNow(
                topic=topic,
                name=named[0],
                path=named[1],
                mode=named[2],
                rows_waiting=waiting,
                parked=parked,
                busy=busy,
                merged_up_to=merged_up_to.get(topic),
            )
            for topic, waiting, parked, busy in found
            if (named := self._of(topic)) is not None
        ]

    def _of(self, topic: str) -> tuple[str, str, str] | None:
        if topic not in self._named:
            spec = self._parts.settings.table(topic)
            if spec is None:
                return None
            self._named[topic] = (spec.name, spec.path, spec.mode)
        return self._named[topic]

    def snapshot(self) -> Mapping[str, Any] | None:
        """Return number and source's time of the snapshot that was published last, or None."""
        state = self._parts.control.state
        last = state.snapshot
        if last is None or last.number != state.snapshot_published:
            return None
        return {"number": last.number, "source_ts_ms": last.ts_ms}


def report_of(settings: Settings, *, program: str) -> Report:
    """Return an empty report of the job."""
    return Report(
        name=settings["name"],
        state_path=settings.state_path,
        lake=settings.base_path,
        topics=settings["topics"] if settings["topics"] is not None else settings["topics.pattern"],
        program=program,
        interval_s=settings["report.interval.s"],
        began_s=time.time(),
        hide=Hidden(settings.secrets),
    )
