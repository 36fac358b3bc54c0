"""Counts of a task's records and chunks for metrics, updated once per batch or chunk, never per
row.

The log thread and the dump threads count; the sender's thread reads the counts once a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dblog.clock import Clock
from dblog.model import Segment
from dblog.observe.numbers import Counts, Histogram

TABLES_MAX = 100
"""Number of tables that are counted separately, unless dblog.metrics.tables.max is set."""


SELECTS_MAX, SELECTS_OVER_S = 200, 30.0


class Tally:
    """Counts of one run of a task."""

    def __init__(self, clock: Clock, *, tables_max: int = TABLES_MAX) -> None:
        self._clock = clock
        self._topics = Counts(tables_max)
        self._read = Histogram()
        self._proof_retries = 0
        self._rows_dropped = 0
        self._selects: deque[tuple[float, float]] = deque(maxlen=SELECTS_MAX)
        self.chunks = 0
        self.chunk_at_us: int | None = None
        """Time when the last chunk was finished; None before the first."""

    def batch(self, segments: Sequence[Segment], source_ts_us: int | None) -> None:
        """Count records on their way to the queue. ``source_ts_us`` is given if they are rows of
        the log.
        """
        for segment in segments:
            self._topics.add(segment.topic, len(segment.values))
        if source_ts_us is not None:
            self._read.observe((self._clock.now_us() - source_ts_us) / 1_000_000)

    def chunk(self, *, dropped: int) -> None:
        """Count a finished chunk, and the number of its rows that were dropped."""
        self.chunks += 1
        self._rows_dropped += dropped
        self.chunk_at_us = self._clock.now_us()

    def selected(self, took_s: float) -> None:
        """Note the seconds that a chunk's SELECT took."""
        self._selects.append((self._clock.monotonic_s(), took_s))

    def select_p95_ms(self) -> float | None:
        """Return the 95th percentile of recent SELECTs' durations; None without any."""
        since_s = self._clock.monotonic_s() - SELECTS_OVER_S
        took_s = sorted(took for at, took in tuple(self._selects) if at >= since_s)
        return took_s[-(-len(took_s) * 95 // 100) - 1] * 1000 if took_s else None

    def proof_retried(self) -> None:
        """Count a snapshot that did not show its watermark."""
        self._proof_retries += 1

    def numbers(self) -> dict[str, float]:
        """Return the metrics by name for the herder."""
        return {
            "proof_retries_total": float(self._proof_retries),
            "window_rows_dropped_total": float(self._rows_dropped),
            "dump_chunks_total": float(self.chunks),
            **self._topics.numbers("topic_records_total"),
            **self._read.numbers("event_latency_seconds", "read"),
        }
