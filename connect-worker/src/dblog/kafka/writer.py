"""A producer that writes records one by one, counts only what is proved to be written, and is replaced when it stalls.

A producer stalls when the brokers answer and its own records get no acknowledgement: librdkafka (2.16) may keep those of a partition that had no leader when it
first heard of it, or that it was purged of, and then writes nothing more. A new producer writes at once. Who writes decides when that is so, for only it knows
how long its records may wait; here is how a producer is replaced, and what an answer means:

- a record counts as written when it is acknowledged with its offset. A broker may call a record a duplicate that is in no log, and such an acknowledgement has
  none: it is a failure that passes;
- a record that is too large never fits, and nothing else is final. A full queue is waited for.

``BatchProducer`` (``_librdkafka.pyx``) keeps the second part of it for the rows of a task, and ``runtime/unacknowledged.py`` the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dblog.config.named_files import files_in_memory
from dblog.errors import DblogError
from dblog.kafka.clientlog import ClientLog

_log = structlog.get_logger("dblog.kafka.writer")

UNPROVED = "it was acknowledged without an offset"
"""So it may be in no log: see ``_librdkafka.UNPROVED``."""
_POLL_S = 0.1
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001  their public names


@dataclass(frozen=True, slots=True)
class Write:
    """A record to write."""

    key: bytes
    value: bytes | None


class NotWrittenError(DblogError):
    """A record that is not proved to be written. ``reason`` is the client's, or a sentence; ``unanswered``: no broker has answered, so another producer may
    fare better.
    """

    def __init__(self, reason: KafkaError | str, *, unanswered: bool = False) -> None:
        self.reason = reason
        self.unanswered = unanswered or has_ended(reason)
        super().__init__(reason.str() if isinstance(reason, KafkaError) else reason)

    @property
    def ended(self) -> bool:
        """Whether the producer writes nothing more, however long it is waited for."""
        return has_ended(self.reason)

    @property
    def too_large(self) -> bool:
        """Whether the record is larger than the producer or the topic takes: no other try helps."""
        return is_too_large(self.reason)


class Limit(Protocol):
    """How long an answer is waited for."""

    def left_s(self) -> float:
        """Seconds that are left; 0 when it is over."""


@dataclass(frozen=True, slots=True)
class Until:
    """Ends at a moment of the monotonic clock."""

    deadline_s: float

    def left_s(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.deadline_s - time.monotonic())


class Handed:
    """Records that were handed to one producer together, and what has become of them."""

    def __init__(self) -> None:
        self.count = 0
        self.written: list[tuple[int, int]] = []
        """Partition and offset of each that is proved to be written."""
        self.failures: list[KafkaError | str] = []
        self.answered_s = time.monotonic()
        """When the last answer came; at first, when they were begun."""

    @property
    def waits(self) -> bool:
        """Whether some have no answer yet."""
        return len(self.written) + len(self.failures) < self.count

    def answered(self, error: KafkaError | None, message: Message) -> None:
        """Take the client's report of one record."""
        self.answered_s = time.monotonic()
        failure, partition, offset = failure_of(error, message), message.partition(), message.offset()
        if failure is not None or partition is None or offset is None:
            self.failures.append(failure or UNPROVED)
        else:
            self.written.append((partition, offset))


@dataclass(frozen=True, slots=True)
class WhileAnswered:
    """Ends once no answer has come for that long."""

    handed: Handed
    limit_s: float

    def left_s(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.handed.answered_s + self.limit_s - time.monotonic())


class TopicWriter:
    """The producer of one topic. Any thread may write."""

    def __init__(self, topic: str, settings: Mapping[str, Any], *, partition: int = -1, **callbacks: Any) -> None:
        """``settings``: librdkafka's, files as ``NamedFile``; ``partition`` -1: by the partitioner. ``callbacks`` are confluent-kafka's, such as ``error_cb``.
        Raises KafkaException naming a setting that is wrong.
        """
        self.topic = topic
        self._settings = dict(settings)
        self._partition = partition
        self._callbacks = {"logger": ClientLog(f"topic {topic}"), **callbacks}
        self._lock = threading.Lock()
        self._producer = self._new()

    def _new(self) -> Producer:
        with files_in_memory(self._settings) as settings:
            return Producer(settings, **self._callbacks)

    def write(self, writes: Sequence[Write], *, limit: Limit, handed: Handed | None = None) -> list[tuple[int, int]]:
        """Write in order, and return partition and offset of each. NotWrittenError: some are not proved to be written, and those before may be.

        ``handed`` takes the answers, also those that come after the limit.
        """
        handed, producer = handed or Handed(), self._producer
        for one in writes:
            self._hand_over(producer, one, handed, limit)
        self._wait(producer, handed, limit)
        return handed.written

    def hand_over(self, one: Write, handed: Handed, *, limit: Limit) -> None:
        """Give a record to the producer, and wait while its queue is full. NotWrittenError where it does not take the record."""
        self._hand_over(self._producer, one, handed, limit)

    def wait(self, handed: Handed, *, limit: Limit) -> None:
        """Return when each of these records is proved to be written; NotWrittenError where one is not, or has no answer in time."""
        self._wait(self._producer, handed, limit)

    def send(self, one: Write, report: Any) -> None:
        """Give a record to the producer without waiting; ``report`` is called as confluent-kafka calls ``on_delivery``, by a thread that polls."""
        try:
            self._produce(self._producer, one, report)
        except BufferError as e:
            raise NotWrittenError(str(e)) from e

    def poll(self) -> None:
        """Take the answers that have come."""
        self._producer.poll(0)

    def flush(self, limit_s: float) -> None:
        """Wait until everything has an answer."""
        self._producer.flush(limit_s)

    def replace(self, stalled: str | None) -> None:
        """Write on with another producer. Of what the former one holds a request that is under way may still succeed; the rest fails as purged. ``stalled``:
        how the former one stalled, for the log; None where it did not.
        """
        with self._lock:
            former, self._producer = self._producer, self._new()
        if stalled is not None:
            _log.warning("the writer of a topic stood still; a new one writes on", topic=self.topic, reason=stalled)
        former.purge()
        former.poll(0)

    def close(self) -> None:
        """Drop what is not written, and write nothing more."""
        self._producer.purge()
        self._producer.poll(0)

    def _hand_over(self, producer: Producer, one: Write, handed: Handed, limit: Limit) -> None:
        while True:
            try:
                self._produce(producer, one, handed.answered)
            except BufferError as e:
                left_s = limit.left_s()
                if left_s <= 0:
                    raise NotWrittenError(str(e), unanswered=True) from e
                producer.poll(min(left_s, _POLL_S))
            else:
                handed.count += 1
                return

    def _wait(self, producer: Producer, handed: Handed, limit: Limit) -> None:
        while handed.waits and (left_s := limit.left_s()) > 0:
            producer.poll(min(left_s, _POLL_S))
        if handed.failures:
            raise NotWrittenError(handed.failures[0], unanswered=is_timeout(handed.failures[0]))
        if handed.waits:
            raise NotWrittenError(f"{len(handed.written)} of {handed.count} records were acknowledged in time", unanswered=True)

    def _produce(self, producer: Producer, one: Write, report: Any) -> None:
        try:
            producer.produce(self.topic, one.value, one.key, partition=self._partition, on_delivery=report)
        except KafkaException as e:
            raise NotWrittenError(e.args[0]) from e


def failure_of(error: KafkaError | None, message: Message) -> KafkaError | str | None:
    """Why a record of which the client reports does not count as written; None where it does."""
    return error or (UNPROVED if message.offset() is None else None)


def is_too_large(error: KafkaError | str | None) -> bool:
    """Whether the record never fits."""
    return isinstance(error, KafkaError) and error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def has_ended(error: KafkaError | str | None) -> bool:
    """Whether the producer takes nothing more, or has dropped the record unanswered."""
    return is_fatal(error) or (isinstance(error, KafkaError) and error.code() in _PURGED)


def is_fatal(error: KafkaError | str | None) -> bool:
    """Whether only another producer writes after this error."""
    return isinstance(error, KafkaError) and (error.fatal() or error.code() == KafkaError._FATAL)  # noqa: SLF001  its public name


def is_timeout(error: KafkaError | str | None) -> bool:
    """Whether the record has had no answer within its delivery timeout."""
    return isinstance(error, KafkaError) and error.code() == KafkaError._MSG_TIMED_OUT  # noqa: SLF001  its public name
