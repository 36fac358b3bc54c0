"""Counts for the metrics of one task process: offsets, errors, acknowledgements, latencies, stalls.

The sender's thread updates the counts once per poll, batch or commit, and reads them all once a
second. They survive a restart of the run within the process.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path

from dblog.core.ledger import Entry
from dblog.model import Batch
from dblog.observe.numbers import KAFKA_ERRORS, REGISTRY_REQUESTS, Counts, Histogram, Recent, named, share_below

LAGS_KEPT = 300
"""Number of lag samples that are kept: one a second, five minutes in all."""

COMMITS_SEEN = 1.5
"""Shortest span of the means over commits, in flush intervals. With 1.0, a commit that is slightly
late would leave an interval without a sample.
"""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")
_MOVES = ("log_bytes_total", "dump_rows_total", "dump_chunks_total", "records_polled_total", "records_acknowledged_total")
"""Counters that show progress: the task is not stalled while one of them rises."""


class ProcessMetrics:
    """Metric counts of one task process, over all its runs."""

    def __init__(self, *, flush_interval_s: float) -> None:
        now_s = time.monotonic()
        self._started_at_s = time.time()
        self._flush_interval_s = flush_interval_s
        self._errors: Counter[tuple[str, bool]] = Counter()
        self._tries = 0
        self._commits = Counts(2)
        self._commit_took = Histogram()
        self._committed_at_s: float | None = None
        self._uncommitted_since_s: float | None = None
        self._polled = self._acknowledged = 0
        self._acknowledged_at_s: float | None = None
        self._queued, self._arrived = Histogram(), Histogram()
        self._polls, self._sizes, self._writes = Recent(now_s), Recent(now_s), Recent(now_s)
        self._active, self._running, self._paused = Recent(now_s), Recent(now_s), Recent(now_s)
        over_s = max(Recent.HALF_S, COMMITS_SEEN * flush_interval_s)
        self._commit_times, self._commit_good, self._commit_bad = (Recent(now_s, over_s) for _ in range(3))
        self._flushed_at_s = now_s
        self._lags_ms: deque[float] = deque(maxlen=LAGS_KEPT)
        self._errors_at_s: float | None = None
        self._moved_at_s = now_s
        self._counted: tuple[float, ...] | None = None
        self._start_began_s: float | None = None

    # ---- counting

    def start_begins(self) -> None:
        """Note that a start is under way, until ``start_ended`` is called."""
        self._start_began_s = time.monotonic()

    def start_ended(self, *, ok: bool) -> None:
        """Note that the start has ended.

        A successful start does not count as a stall, however long it took. A failed one does: the
        time spent on it brought no progress.
        """
        now_s = time.monotonic()
        began_s, self._start_began_s = self._start_began_s, None
        if ok and began_s is not None:
            self._moved_at_s = min(now_s, self._moved_at_s + now_s - began_s)

    def run_begins(self) -> None:
        """Forget the counters of the previous run: the new run's begin at zero, which is no
        progress.
        """
        self._counted = None
        self._flushed_at_s = time.monotonic()

    def failed(self, error: BaseException, *, retriable: bool) -> None:
        """Count a run that ended with this error."""
        self._errors[type(error).__name__, retriable] += 1
        self._tries += retriable
        self._errors_at_s = time.time()

    def polled(self, batches: list[Batch], took_s: float) -> None:
        """Count the batches that one poll took out of the queue, and the seconds that the poll
        took.
        """
        now_s, now_us = time.monotonic(), time.time_ns() // 1000
        records = sum(batch.records_total for batch in batches)
        self._polled += records
        self._polls.add(took_s * 1000, now_s)
        self._sizes.add(float(records), now_s)
        for batch in batches:
            if batch.source_ts_us is not None:
                self._queued.observe((now_us - batch.source_ts_us) / 1_000_000)

    def acknowledged(self, entries: list[Entry]) -> None:
        """Count batches whose records Kafka has all acknowledged."""
        now_us = time.time_ns() // 1000
        records = 0
        for entry in entries:
            records += entry.records
            if entry.source_ts_us is not None:
                self._arrived.observe((now_us - entry.source_ts_us) / 1_000_000)
        if records:
            self._acknowledged += records
            self._acknowledged_at_s = now_us / 1_000_000
            self._writes.add(float(records), time.monotonic())
        if self._uncommitted_since_s is None:
            self._uncommitted_since_s = time.monotonic()

    def committed(self, took_s: float, *, ok: bool) -> None:
        """Count an attempt to store an offset, and the seconds that it took."""
        now_s = time.monotonic()
        self._commits.add("ok" if ok else "failed")
        self._commit_took.observe(took_s)
        self._flushed(took_s, now_s, ok=ok)
        if ok:
            self._committed_at_s = time.time()

    def nothing_to_commit(self) -> None:
        """Note that every acknowledged record is covered by the stored offset."""
        self._uncommitted_since_s = None

    def _flushed(self, took_s: float, now_s: float, *, ok: bool) -> None:
        self._flushed_at_s = now_s
        self._commit_times.add(took_s * 1000, now_s)
        self._commit_good.add(float(ok), now_s)
        self._commit_bad.add(float(not ok), now_s)

    # ---- reporting

    def numbers(self, of_run: Mapping[str, float], *, paused: bool, waits_for_kafka: bool, starting: bool) -> dict[str, float]:
        """Return all metrics of the task by name, including those of its run.

        ``waits_for_kafka`` is True while records are not acknowledged; ``starting`` is True while
        no run reads from the source.
        """
        now_s = time.monotonic()
        own = {
            **of_run,
            "records_polled_total": float(self._polled),
            "records_acknowledged_total": float(self._acknowledged),
        }
        self._sample(own, now_s, paused=paused, starting=starting)
        if not starting and self._uncommitted_since_s is None and now_s - self._flushed_at_s >= self._flush_interval_s:
            # Connect counts a flush without anything to store as a successful commit.
            self._flushed(0.0, now_s, ok=True)
        own["starting_seconds"] = 0.0 if self._start_began_s is None else now_s - self._start_began_s
        own["stalled_seconds"] = self._stalled_s(own, now_s, should=starting or waits_for_kafka or _should_move(own), paused=paused)
        if "lag_ms" in own:
            own["lag_seconds"] = own["lag_ms"] / 1000
        return {**own, **self._of_process(), **self._of_offsets(now_s), **self._of_clients(), **self._for_jmx(now_s)}

    def _stalled_s(self, numbers: Mapping[str, float], now_s: float, *, should: bool, paused: bool) -> float:
        counted = tuple(numbers.get(name, 0.0) for name in _MOVES)
        moved = self._counted is not None and any(now > was for now, was in zip(counted, self._counted, strict=True))
        self._counted = counted
        if moved or paused or not should:
            self._moved_at_s = now_s
        until_s = now_s if self._start_began_s is None else self._start_began_s
        return max(0.0, until_s - self._moved_at_s)

    def _sample(self, numbers: Mapping[str, float], now_s: float, *, paused: bool, starting: bool) -> None:
        if "lag_ms" in numbers:
            self._lags_ms.append(numbers["lag_ms"])
        self._active.add(numbers.get("records_outstanding", 0.0), now_s)
        self._running.add(float(not paused and not starting), now_s)
        self._paused.add(float(paused), now_s)

    def _of_process(self) -> dict[str, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        errors = {named("errors_total", name, str(again).lower()): float(n) for (name, again), n in self._errors.items()}
        return {
            "started_timestamp_seconds": self._started_at_s,
            "process_cpu_seconds_total": used.ru_utime + used.ru_stime,
            "process_resident_memory_bytes": resident_bytes(used),
            named("restarts_total", "error"): float(self._tries),
            **errors,
        }

    def _of_offsets(self, now_s: float) -> dict[str, float]:
        out = {
            "offset_flush_interval_seconds": self._flush_interval_s,
            "offset_uncommitted_seconds": 0.0 if self._uncommitted_since_s is None else now_s - self._uncommitted_since_s,
            **self._commits.numbers("offset_commits_total"),
            **self._commit_took.numbers("offset_commit_duration_seconds"),
        }
        if self._committed_at_s is not None:
            out["offset_last_commit_timestamp_seconds"] = self._committed_at_s
        return out

    def _of_clients(self) -> dict[str, float]:
        out = {
            **KAFKA_ERRORS.numbers("kafka_errors_total"),
            **REGISTRY_REQUESTS.numbers("registry_requests_total"),
            **self._queued.numbers("event_latency_seconds", "queued"),
            **self._arrived.numbers("event_latency_seconds", "acknowledged"),
        }
        if self._acknowledged_at_s is not None:
            out["last_acknowledged_timestamp_seconds"] = self._acknowledged_at_s
        return out

    def _for_jmx(self, now_s: float) -> dict[str, float]:
        """Return the values that only Connect's and Debezium's JMX metrics have.

        The means span 30 to 60 seconds, those over commits a few flush intervals, and the lag's
        quantiles five minutes.
        """
        lags = sorted(self._lags_ms)
        out = {
            "jmx:poll_batch_max_ms": self._polls.greatest(now_s),
            "jmx:poll_batch_avg_ms": self._polls.mean(now_s),
            "jmx:poll_rate": self._sizes.rate(now_s),
            "jmx:batch_size_max": self._sizes.greatest(now_s),
            "jmx:batch_size_avg": self._sizes.mean(now_s),
            "jmx:write_rate": self._writes.rate(now_s),
            "jmx:active_max": self._active.greatest(now_s),
            "jmx:active_avg": self._active.mean(now_s),
            "jmx:running_ratio": self._running.mean(now_s),
            "jmx:pause_ratio": self._paused.mean(now_s),
            "jmx:commit_max_ms": self._commit_times.greatest(now_s),
            "jmx:commit_avg_ms": self._commit_times.mean(now_s),
            "jmx:commit_good": self._commit_good.mean(now_s),
            "jmx:commit_bad": self._commit_bad.mean(now_s),
            "jmx:errors": float(sum(self._errors.values())),
        }
        if lags:
            out |= {
                "jmx:lag_min_ms": lags[0],
                "jmx:lag_max_ms": lags[-1],
                "jmx:lag_avg_ms": sum(lags) / len(lags),
                "jmx:lag_p50_ms": share_below(lags, 0.5),
                "jmx:lag_p95_ms": share_below(lags, 0.95),
                "jmx:lag_p99_ms": share_below(lags, 0.99),
            }
        if self._errors_at_s is not None:
            out["jmx:error_at_ms"] = self._errors_at_s * 1000
        return out


def _should_move(numbers: Mapping[str, float]) -> bool:
    """Return True if a run has work to do, or cannot know whether it has."""
    waits = numbers.get("log_behind_bytes") or numbers.get("queue_records") or numbers.get("log_silent")
    return bool(waits) or numbers.get("connected") == 0.0


def resident_bytes(used: resource.struct_rusage, statm: Path = _STATM) -> float:
    """Return the resident memory of this process in bytes.

    Without proc(5), return the peak from getrusage(2) instead (kilobytes on Linux, bytes on macOS).
    """
    try:
        return float(int(statm.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES)
    except FileNotFoundError:
        return float(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
