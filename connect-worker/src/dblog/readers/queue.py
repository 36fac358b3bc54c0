"""The bounded queue between the readers and the sender, limited in records and in bytes. # I6

There is one producer thread (the log reader) and one consumer (the sender). A batch larger than the
whole queue passes when the queue is empty, so a single huge row cannot block forever. Closing wakes
both sides. An error given to ``fail`` reaches the consumer after the batches put before it.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from dblog.model import Batch


class QueueClosedError(Exception):
    """The queue was closed while a reader waited to put a batch: the task is stopping."""


class BlockingQueue:
    """Queue of batches with at most ``records_max`` records and ``bytes_max`` bytes (0: no byte
    limit).
    """

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
        """Total seconds for which readers have waited for room."""

    @property
    def fill(self) -> float:
        """Fill level from 0 to 1, by records or bytes, whichever is higher.

        A batch that is larger than the queue fills it.
        """
        of_bytes = self._bytes / self.bytes_max if self.bytes_max else 0.0
        return min(1.0, max(self._records / self.records_max, of_bytes))

    @property
    def records_total(self) -> int:
        """Number of records in the queue."""
        return self._records

    @property
    def bytes_total(self) -> int:
        """Number of bytes of keys and values in the queue."""
        return self._bytes

    @property
    def oldest_source_ts_us(self) -> int | None:
        """Time of the oldest change in the queue; None if no batch has a time."""
        with self._changed:
            return next((batch.source_ts_us for batch in self._batches if batch.source_ts_us is not None), None)

    def put(self, batch: Batch) -> None:
        """Append a batch, waiting while the queue is full.

        Raise QueueClosedError if the task stops meanwhile.
        """
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
        """Return batches from the queue, [] if there is none within ``timeout_s``.

        At least one batch is returned, and more as long as they stay within both limits. Raise the
        error given to ``fail`` once the queue is empty.
        """
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
        """Note the error that ended a reader, for the consumer. Only the first error is kept."""
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """Close the queue: waiting readers get QueueClosedError, a waiting consumer gets []."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_room(self, batch: Batch) -> bool:
        if not self._batches:
            return True
        if self._records + batch.records_total > self.records_max:
            return False
        return not self.bytes_max or self._bytes + batch.bytes_total <= self.bytes_max
