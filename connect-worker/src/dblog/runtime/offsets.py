"""Writes a task's source offset to Connect's offset topic, in Connect's form.

The key is compact JSON, ``["<connector>",{"server":"<prefix>"}]``; the value is the flat offset
map, or null to delete the offset. The write is synchronous: when it returns, the offset is stored.
Source of the form: the Kafka Connect contract, offset topic.

The producer keeps an offset for as long as its broker is away. The next offset is handed over only
after the previous one was answered, so at most one record waits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from dblog.errors import DefiniteError, TransientError
from dblog.kafka.writer import Handed, NotWrittenError, TopicWriter, Write
from dblog.model import OffsetMap
from dblog.runtime.stop import STORED_BY, Stop

_REMEDIES = {
    "dblog_dump": "or reset the connector's offsets, which dumps all again",
    "dblog_dumps": "or let the dumps that were asked for end, or stop some: POST /connectors/{connector}/dumps/ID/stop",
    "dblog_xa": "or end the XA transactions that are prepared (XA RECOVER lists them)",
    "gtids": "the server's set of GTIDs has that many gaps",
}
"""Remedies by field of the offset, in addition to larger limits."""


class OffsetNotStoredError(TransientError):
    """An offset could not be stored.

    ``stalls`` is True if no broker answered, or the answer proves nothing: another producer may
    succeed. ``ended`` is True if this producer will store nothing more.
    """

    def __init__(self, message: str, *, stalls: bool, ended: bool = False) -> None:
        super().__init__(message)
        self.stalls = stalls
        self.ended = ended


@dataclass(frozen=True, slots=True)
class _Limit:
    """Time limit of one write: the configured one, or less once the task has to stop."""

    stop: Stop
    until_s: float

    def left_s(self) -> float:
        """Return the seconds that remain."""
        return self.stop.left_s(self.until_s, STORED_BY)


class OffsetWriter:
    """Writer of one task's source offset."""

    def __init__(self, writer: TopicWriter, *, connector: str, partition: Mapping[str, str], timeout_s: float, stop: Stop) -> None:
        self._writer = writer
        self._stop = stop
        self._connector = connector
        self._key = json.dumps([connector, dict(partition)], separators=(",", ":"), ensure_ascii=False).encode()
        self._timeout_s = timeout_s
        self._written: OffsetMap | None = None
        self._under_way: tuple[OffsetMap, Handed] | None = None
        """The offset that was handed over and not answered in time; None if there is none."""

    @property
    def topic(self) -> str:
        """Name of the topic that stores offsets."""
        return self._writer.topic

    def write(self, offset: OffsetMap) -> bool:
        """Store the offset. Return False if it equals the last stored one, so that nothing is
        written.

        Raise OffsetNotStoredError if Kafka does not confirm it in time, and DefiniteError, which
        names the largest field, if the offset is too large for the topic.
        """
        if offset == self._written:
            return False
        began_s = time.monotonic()
        limit = _Limit(self._stop, began_s + self._timeout_s)
        try:
            self._settle(limit)
            if offset == self._written:
                return True
            value = _json(dict(offset)).encode()
            handed = Handed()
            self._under_way = offset, handed
            self._writer.hand_over(Write(self._key, value), handed, limit=limit)
            self._writer.wait(handed, limit=limit)
        except NotWrittenError as e:
            if self._under_way is not None and not self._under_way[1].waits:
                self._under_way = None
            if e.too_large:
                raise self._too_large(offset) from e
            answered = isinstance(e.reason, KafkaError)
            reason = e.reason.name() if isinstance(e.reason, KafkaError) else f"no answer within {time.monotonic() - began_s:.1f} s"
            message = (
                f"the offset could not be written to topic {self.topic}: {reason}; records already sent will be sent again after a restart"
            )
            raise OffsetNotStoredError(message, stalls=e.unanswered or not answered, ended=e.ended) from e
        self._under_way = None
        self._written = offset
        return True

    def stored_late(self) -> OffsetMap | None:
        """Return the offset whose answer was late, once an answer proves that it is stored.

        The very object given to ``write`` is returned. Return None before that, or if nothing
        waits.
        """
        if self._under_way is None:
            return None
        self._writer.poll()
        offset, handed = self._under_way
        if handed.waits:
            return None
        self._under_way = None
        if handed.failures:
            return None
        self._written = offset
        return offset

    def close(self) -> None:
        """Discard what is not stored: nothing of an ended run may be stored after the next run's
        offsets.
        """
        self._writer.close()

    def _settle(self, limit: _Limit) -> None:
        """Wait for the answer to the previous offset. An error is an answer too: the next one may
        be sent.
        """
        if self._under_way is not None:
            offset, handed = self._under_way
            try:
                self._writer.wait(handed, limit=limit)
            except NotWrittenError:
                if handed.waits:
                    raise
            else:
                self._written = offset
            self._under_way = None

    def _too_large(self, offset: OffsetMap) -> DefiniteError:
        sizes = {name: len(_json({name: value}).encode()) for name, value in offset.items()}
        largest = max(sizes, key=sizes.__getitem__)
        more = _REMEDIES.get(largest, "").format(connector=self._connector)
        return DefiniteError(
            f"the offset of connector {self._connector} has {sum(sizes.values())} bytes, more than the topic {self.topic} takes; its field {largest} alone has "
            f"{sizes[largest]}. Raise producer.max.request.size in the worker's configuration and max.message.bytes of the topic"
            + (f", {more}" if more else "")
        )


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
