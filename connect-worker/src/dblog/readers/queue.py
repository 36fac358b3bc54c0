"""The bounded queue between the readers and the sender: full means wait, in records and in bytes. # I6

One producer thread (the log reader), one consumer (the sender). A batch larger than the whole queue still passes when the queue is empty, so a
single huge row cannot block for ever. Closing wakes both sides; an error given to ``fail`` surfaces in the consumer after what was put before it.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from dblog.model import Batch


class QueueClosedError(Exception):
    """The queue was closed while a reader waited to put: the task is stopping."""


class BlockingQueue:
    """Batches in order, at most ``records_max`` records and ``bytes_max`` bytes (0: no byte limit) at a time."""

    def __init__(self, *, records_max: int, bytes_max: int) -> None:
        self.records_max = records_max
        self.bytes_max = bytes_max
        self._batches: deque[Batch] = deque()
        self._records = 0
        self._bytes = 0
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self.full_s = 0.0
        """How long readers have waited for room."""

    @property
    def fill(self) -> float:
        """The fuller of both bounds, 0 to 1; a batch that is larger than the queue fills it."""
        of_bytes = self._bytes / self.bytes_max if self.bytes_max else 0.0
        return min(1.0, max(self._records / self.records_max, of_bytes))

    @property
    def records_total(self) -> int:
        """Records waiting."""
        return self._records

    @property
    def bytes_total(self) -> int:
        """Bytes of keys and values waiting."""
        return self._bytes

    @property
    def oldest_source_ts_us(self) -> int | None:
        """When the oldest change was made that waits here; None without one."""
        with self._changed:
            return next((batch.source_ts_us for batch in self._batches if batch.source_ts_us is not None), None)

    def put(self, batch: Batch) -> None:
        """Append, waiting while the queue is full; QueueClosedError when the task stops meanwhile."""
        batch.queued_at_ns = time.time_ns()
        with self._changed:
            if not self._has_room(batch):
                began_s = time.monotonic()
                self._changed.wait_for(lambda: self._closed or self._has_room(batch))
                self.full_s += time.monotonic() - began_s
            if self._closed:
                raise QueueClosedError
            self._batches.append(batch)
            self._records += batch.records_total
            self._bytes += batch.bytes_total
            self._changed.notify_all()

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """What is there, [] after ``timeout_s``: at least one batch, and more while they are within both bounds. Raises what ``fail`` was given."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._closed or self._error is not None, timeout_s)
            if not self._batches:
                if self._error is not None:
                    raise self._error
                return []
            taken: list[Batch] = []
            records = size = 0
            while self._batches:
                batch = self._batches[0]
                if taken and (records + batch.records_total > records_max or size + batch.bytes_total > bytes_max):
                    break
                taken.append(self._batches.popleft())
                records += batch.records_total
                size += batch.bytes_total
            self._records -= records
            self._bytes -= size
            self._changed.notify_all()
            return taken

    def fail(self, error: BaseException) -> None:
        """A reader has ended with an error: hand it to the consumer once the batches before it are taken. The first error wins."""
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """No more batches are wanted: waiting readers get QueueClosedError, a waiting consumer gets []."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_room(self, batch: Batch) -> bool:
        if not self._batches:
            return True
        if self._records + batch.records_total > self.records_max:
            return False
        return not self.bytes_max or self._bytes + batch.bytes_total <= self.bytes_max
