"""The sinks' topic as a view: how each sink is, and each of its tables.

The topic is outside of this worker's hands: sinks write it, of any version, and it may be missing,
deleted or full of other things. So its view is bounded, and following it never ends anything else:
where it fails, the view says why, is emptied, and is read again later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from dblog.clock import Clock, SystemClock
from dblog.cluster.sinkrecords import SinkId, SinkReport, SinkTable, key_of, read_key, read_sink, read_table
from dblog.core.backoff import Backoff
from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.kafka.log import CompactedLog, LogRecord, UnreadableRecordError
from dblog.kafka.writer import Write

_log = structlog.get_logger("dblog.cluster.sinks")

SINKS_MAX = 100
TABLES_MAX = 50_000
"""Tables of all sinks together."""
GONE_REPORTS = 3
"""Reports that a sink may miss before it counts as gone."""
GONE_LEAST_S = 30.0
_OPEN_LIMIT_S = 30.0
_LOOK_S = 2.0
_STOP_LIMIT_S = 6.0
_FORGET_LIMIT_S = 30.0
_BACKOFF = Backoff(first_s=2.0, max_s=60.0)


@dataclass(frozen=True, slots=True)
class KnownSink:
    """A sink as it reported last."""

    id: SinkId
    report: SinkReport
    seen_s: float
    """Unix time of its last report: by this worker's clock if it came while the worker ran, by the sink's else."""
    tables: int
    """Number of its tables that are known here."""
    parked: int

    def is_gone(self, now_s: float) -> bool:
        """Return True if it has missed several reports, and did not say that it stops."""
        return now_s - self.seen_s > max(GONE_LEAST_S, GONE_REPORTS * self.report.interval_s)

    def word(self, now_s: float) -> str:
        """Return the word for how it is: GONE, UNKNOWN, or its own state in capitals."""
        if not self.report.is_known:
            return "UNKNOWN"
        ended = self.report.state in ("stopped", "failed")
        return "GONE" if not ended and self.is_gone(now_s) else self.report.state.upper() or "UNKNOWN"

    def lag_s(self, now_s: float) -> float | None:
        """Return how long ago its tables had everything that Kafka had, or None if it is not known.

        A sink that no longer reports falls further behind.
        """
        return None if self.report.lag_s is None else self.report.lag_s + max(0.0, now_s - self.seen_s)


@dataclass(frozen=True, slots=True)
class SinkOfTable:
    """A table of a sink."""

    sink: SinkId
    topic: str
    table: SinkTable


class SinkView:
    """The fold of the topic. Threads may share it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._reports: dict[SinkId, tuple[SinkReport, float]] = {}
        self._tables: dict[str, dict[SinkId, SinkTable]] = {}
        """Tables by topic and sink."""
        self._counts: dict[SinkId, set[str]] = {}
        """Topics of each sink's tables."""
        self._held = 0
        self.left_out = 0
        """Records of tables that were left out because the view is full."""
        self.fault = ""
        """Why the topic cannot be read. Empty while it is."""

    def take(self, record: LogRecord) -> None:
        """Fold one record. Raise UnreadableRecordError for one that is not a sink's."""
        key = read_key(record.key)
        if key is None:
            raise UnreadableRecordError("its key is not that of a sink's report")
        if key.topic is None:
            self._take_sink(key.sink, record)
        else:
            self._take_table(key.sink, key.topic, record)

    def _take_sink(self, sink: SinkId, record: LogRecord) -> None:
        report = None if record.value is None else read_sink(record.value)
        if report is None and record.value is not None:
            raise UnreadableRecordError("its value is not a report of a sink")
        with self._lock:
            if report is None:
                self._forget(sink)
                return
            # What arrives now was written now, whatever the sink's clock shows.
            now_s = self._clock.now_us() / 1_000_000
            seen_s = now_s if record.live else min(now_s, report.at_ms / 1000)
            self._reports[sink] = report, seen_s
            if len(self._reports) > SINKS_MAX:
                self._forget(min(self._reports, key=lambda each: self._reports[each][1]))

    def _take_table(self, sink: SinkId, topic: str, record: LogRecord) -> None:
        table = None if record.value is None else read_table(record.value)
        with self._lock:
            of_topic = self._tables.get(topic, {})
            if table is None:
                if of_topic.pop(sink, None) is not None:
                    self._held -= 1
                    self._counts[sink].discard(topic)
                    if not of_topic:
                        del self._tables[topic]
                return
            is_new = sink not in of_topic
            if is_new and self._held >= TABLES_MAX:
                self.left_out += 1
                return
            self._tables.setdefault(topic, of_topic)[sink] = table
            self._held += is_new
            self._counts.setdefault(sink, set()).add(topic)

    def _forget(self, sink: SinkId) -> None:
        self._reports.pop(sink, None)
        for topic in self._counts.pop(sink, ()):
            of_topic = self._tables[topic]
            del of_topic[sink]
            self._held -= 1
            if not of_topic:
                del self._tables[topic]

    def clear(self, fault: str) -> None:
        """Forget everything, because the topic cannot be read any more."""
        with self._lock:
            self._reports.clear()
            self._tables.clear()
            self._counts.clear()
            self._held = self.left_out = 0
            self.fault = fault

    def sinks(self) -> list[KnownSink]:
        """Return all sinks, in the order of their names."""
        with self._lock:
            return [self._known(sink) for sink in sorted(self._reports)]

    def sink(self, sink: SinkId) -> KnownSink | None:
        """Return one sink, or None."""
        with self._lock:
            return self._known(sink) if sink in self._reports else None

    def _known(self, sink: SinkId) -> KnownSink:
        report, seen_s = self._reports[sink]
        topics = self._counts.get(sink, ())
        return KnownSink(sink, report, seen_s, len(topics), sum(self._tables[each][sink].parked is not None for each in topics))

    def of_topics(self, topics: Iterable[str]) -> list[SinkOfTable]:
        """Return what sinks report of the tables of these topics."""
        with self._lock:
            return [SinkOfTable(sink, topic, table) for topic in topics for sink, table in sorted(self._tables.get(topic, {}).items())]

    def topics_of(self, sink: SinkId) -> list[str]:
        """Return the topics of a sink's tables, sorted."""
        with self._lock:
            return sorted(self._counts.get(sink, ()))


class SinkTopic:
    """Follows the topic in a thread of its own, and opens it again after any failure."""

    def __init__(
        self, view: SinkView, make_log: Callable[[Callable[[LogRecord], None]], CompactedLog], *, ensure: Callable[[], None]
    ) -> None:
        """Create the follower. ``ensure`` creates the topic if it is missing; it may fail."""
        self._view = view
        self._make_log = make_log
        self._ensure = ensure
        self._log: CompactedLog | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sinks", daemon=True)

    def start(self) -> None:
        """Begin to follow the topic. A second call has no effect."""
        if not self._thread.is_alive() and not self._stopping.is_set():
            self._thread.start()

    def forget(self, sink: SinkId) -> None:
        """Remove a sink and its tables from the topic. Return when that has been read back.

        Raise TransientError if the topic cannot be written now, DefiniteError for a sink that still
        reports: its next report would bring it back.
        """
        known, log = self._view.sink(sink), self._log
        if known is not None and known.word(time.time()) not in ("GONE", "FAILED", "STOPPED", "UNKNOWN"):
            raise DefiniteError(f"the sink {sink.name} still reports; stop it first, then remove it")
        if log is None:
            raise TransientError(f"the sinks' topic is not open: {self._view.fault or 'it is being read'}")
        keys = [key_of(sink, topic) for topic in (*self._view.topics_of(sink), None)]
        log.put_all([Write(key, None) for key in keys], limit_s=_FORGET_LIMIT_S)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_LIMIT_S)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self._follow()
            except Exception as e:  # noqa: BLE001  the page's column is worth less than the worker
                failures = 1 if not self._view.fault else failures + 1
                reason = str(e) if isinstance(e, DblogError) else type(e).__name__
                if failures == 1:
                    _log.warning("the sinks' topic cannot be followed; the page does not show the lake", reason=reason)
                self._view.clear(reason)
                self._stopping.wait(_BACKOFF.delay_s(failures, chance=0.5))

    def _follow(self) -> None:
        """Follow the topic until the worker stops. Raise the error that ends it."""
        self._ensure()
        log = self._make_log(self._view.take)
        try:
            log.start(limit_s=_OPEN_LIMIT_S)
            self._view.fault = ""
            self._log = log
            while not self._stopping.wait(_LOOK_S):
                if log.ended is not None:
                    raise log.ended
        finally:
            self._log = None
            log.stop()
