"""Brings log rows and chunk rows into one order: the order in which everything leaves the task.

The log thread submits what the log contains, item by item. Rows of the log drop their keys from the
windows and leave at once. A watermark may close windows (``open_windows.py``), whose rows then
leave in parts (``chunk_rows.py``), with rows of the log between the parts. Each batch carries the
offsets that the log has reached before it, and the newest state of dumps. # I1 I2
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dblog.clock import Clock
from dblog.core.dumps import Dump
from dblog.core.requested import Requests
from dblog.core.watermark import WatermarkPosition
from dblog.model import Batch, Segment, TableId
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump.chunk_rows import ChunkRows
from dblog.readers.dump.closed_windows import ClosedWindows
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump_progress import DumpProgress, Moved
from dblog.readers.notifications import Notifications
from dblog.readers.queue import BlockingQueue
from dblog.readers.retrying import Retrying
from dblog.readers.tally import Tally
from dblog.transforms.stage import TransformStage

CHUNK_BATCH_RECORDS = 1000
"""Maximum number of chunk rows in a batch; of large rows, ``CHUNK_BATCH_BYTES`` is the limit.
Larger batches cost time in the producer (measured: 12 to 15 % at 20 000), and a row of the log
waits for the batches that are in the queue before it.
"""

CHUNK_BATCH_BYTES = 256 * 1024

CHUNK_PARTS_AHEAD = 3
"""Number of chunk parts that the queue may hold when another one enters. With one, the sender
sometimes waits for the log thread (a third fewer records per second); with more, a row of the log
waits longer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Effect of one batch on the offset: log offsets up to the batch, in order, and changed dump
    states.
    """

    log_offsets: tuple[Any, ...]
    dump: Dump | None = None
    requests: Requests | None = None

    @property
    def moves_dump(self) -> bool:
        """True if the step changes the offset's state of dumps."""
        return self.dump is not None or self.requests is not None


class RecordOrder:
    """Order of one task's records. The log thread calls it.

    ``notifications`` makes records of changes of dumps; None makes none. ``stage`` passes records
    through the connector's chain of transforms; None if there is none.
    """

    def __init__(
        self,
        *,
        queue: BlockingQueue,
        windows: OpenWindows,
        closed: ClosedWindows[ChunkRead],
        chunk_rows: ChunkRows,
        progress: DumpProgress,
        tally: Tally,
        notifications: Notifications | None,
        retrying: Retrying,
        clock: Clock,
        stage: TransformStage | None = None,
    ) -> None:
        self._stage = stage
        self._queue = queue
        self._windows = windows
        self._closed = closed
        self._chunk_rows = chunk_rows
        self._progress = progress
        self._tally = tally
        self._notifications = notifications
        self._retrying = retrying
        self._clock = clock
        self._log_offsets: list[Any] = []
        self._part_sent_s = 0.0
        """Time of the last chunk part, or of the watermark that closed the first window."""
        self._log_is_ahead = False
        """True if rows of the log have left since the last chunk part."""

    # ---- the log

    def moved(self, log_offset: object) -> None:
        """Note the offset that the log has reached, for each item in order; the next batch carries
        it.
        """
        self._log_offsets.append(log_offset)

    def rows(
        self,
        segments: list[Segment],
        *,
        records: int,
        size_bytes: int,
        source_ts_us: int | None,
        lacking: Mapping[TableId, AbstractSet[bytes]] = MappingProxyType({}),
    ) -> None:
        """Drop the keys of these log rows from open windows, and send the rows. ``lacking``:
        ``LogRows.lacking``.
        """
        if self._closed and any(
            s.table is not None and (self._closed.is_full(s.table, len(s.keys)) or (s.table in lacking and self._closed.of(s.table)))
            for s in segments
        ):
            # The chunk rows leave before these rows, so their batches must not carry the offsets of
            # these rows. # I1
            self._log_offsets, offsets = [], self._log_offsets
            self.send_all_chunk_rows()
            self._log_offsets = offsets
        for table in lacking:
            self._fail_moving(table)
        if self._windows.any_open or self._closed:
            self._log_is_ahead = bool(self._closed)
            self._windows.note(segments, lacking)
        self._put(segments, records, size_bytes, source_ts_us)

    def watermark(self, token: str, at: WatermarkPosition) -> None:
        """Take a watermark at the log's position. The rows of the windows that it closes start to
        leave.
        """
        if not self._closed:
            self._part_sent_s, self._log_is_ahead = self._clock.monotonic_s(), False
        closed = self._windows.watermark(token, at)
        if any(self._chunk_rows.leave_whole(window) for window in closed):
            self.send_all_chunk_rows()
        elif closed:
            self.send_chunk_rows()

    def extra(self, segments: list[Segment]) -> None:
        """Send records that are not rows (heartbeats, schema changes), or only a new offset."""
        size_bytes = sum(len(k or b"") + len(v or b"") for s in segments for k, v in zip(s.keys, s.values, strict=True))
        self._put(segments, sum(len(s.values) for s in segments), size_bytes, None)

    def _fail_moving(self, table: TableId) -> None:
        """End the table in requested dumps whose chunks may miss a row with values that the log
        lacks.

        Nothing else would send these values.
        """
        moving = [one.request for one in self._progress.book.moving(table) if one.request.surrogate_key is not None]
        for request in moving:
            fault = (
                f"a change of {table} leaves out large values of a row, which may have moved past all chunks, because these are read by "
                f"{request.surrogate_key}; have the log hold whole rows (REPLICA IDENTITY FULL, binlog_row_image=FULL) and request the dump again, or request "
                "it without surrogate_key"
            )
            self._progress.fail(table, fault, dump=request.id)

    # ---- chunk rows

    @property
    def chunk_rows_wait(self) -> bool:
        """True while rows of closed windows have not left."""
        return bool(self._closed)

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Send rows of closed windows while the queue holds few; return True if some were sent.

        If none has left for ``waited_max_s`` although rows of the log have, send one part's worth
        whatever the queue holds.
        """
        sent = False
        if waited_max_s is not None and self._log_is_ahead and self._clock.monotonic_s() - self._part_sent_s >= waited_max_s:
            self._log_is_ahead = False
            records, size_bytes = self._part_records, self._part_bytes
            while self._closed and records > 0 and size_bytes > 0:
                more_records, more_bytes = self._send_part()
                records, size_bytes, sent = records - more_records, size_bytes - more_bytes, True
        while self._closed and self._has_room():
            self._send_part()
            sent = True
        return sent

    def send_all_chunk_rows(self) -> None:
        """Send all rows of closed windows, because the next item may contradict them."""
        while self._closed:
            self._send_part()

    def _has_room(self) -> bool:
        """Return True if another part delays neither a row of the log nor the log
        thread for long.
        """
        records = min(CHUNK_BATCH_RECORDS * CHUNK_PARTS_AHEAD, self._queue.records_max - self._part_records)
        size_bytes = CHUNK_BATCH_BYTES * CHUNK_PARTS_AHEAD
        if self._queue.bytes_max:
            size_bytes = min(size_bytes, self._queue.bytes_max - self._part_bytes)
        return self._queue.records_total <= records and self._queue.bytes_total <= size_bytes

    @property
    def _part_records(self) -> int:
        return max(1, min(CHUNK_BATCH_RECORDS, self._queue.records_max // 2))

    @property
    def _part_bytes(self) -> int:
        return max(1, min(CHUNK_BATCH_BYTES, self._queue.bytes_max // 2)) if self._queue.bytes_max else CHUNK_BATCH_BYTES

    def _send_part(self) -> tuple[int, int]:
        """Send one part of the first window; with its last part the dump advances.

        Return the numbers of records and bytes that were sent.
        """
        self._part_sent_s = self._clock.monotonic_s()
        part = self._chunk_rows.next_part(records_max=self._part_records, bytes_max=self._part_bytes)
        if part is None:
            return 0, 0
        records = 0 if part.rows is None else len(part.rows.keys)
        if part.rows is not None:
            passed = self._put([part.rows], records, part.size_bytes, None)
            self._chunk_rows.count_passed(sum(len(one.values) for one in passed if one.table is not None))
        if part.is_last and (markers := self._chunk_rows.end()) is not None:
            self.extra(markers)
        return records, part.size_bytes

    # ---- batches

    def _put(self, segments: list[Segment], records: int, size_bytes: int, source_ts_us: int | None) -> list[Segment]:
        """Queue records as one batch, after the chain of transforms if there is one. Return what is
        queued.
        """
        moved = self._progress.take_moved() if self._progress.moved else Moved()
        if moved.notices and self._notifications is not None:
            notifications, notices = self._notifications, list(moved.notices)
            made = self._retrying(lambda: notifications.segments(notices))
            segments = [*segments, *made]
            records += len(made)
            size_bytes += sum(len(part) for segment in made for part in (*segment.keys, *segment.values) if part is not None)
        if self._stage is not None and segments:
            stage, unpassed = self._stage, segments
            chain = self._retrying(lambda: stage.passed(unpassed))
            segments, records, size_bytes = chain.segments, chain.records, chain.size_bytes
        log_offsets, self._log_offsets = tuple(self._log_offsets), []
        step = Step(log_offsets=log_offsets, dump=moved.own, requests=moved.requests)
        if records:
            self._tally.batch(segments, source_ts_us)
        self._queue.put(Batch(segments, step, records, size_bytes, source_ts_us))
        return segments
