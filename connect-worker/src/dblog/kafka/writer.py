"""A producer that writes records one by one, counts only those that are proved to be written, and
is replaced when it stalls.

A producer stalls when the brokers answer but its records get no acknowledgement. librdkafka (2.16)
may keep the records of a partition that had no leader when it first saw the partition, or after a
purge, and then writes nothing more; a new producer writes at once. The caller decides when a
producer has stalled, because only it knows how long its records may wait. This module replaces the
producer and interprets answers:

- a record counts as written when it is acknowledged with its offset. A broker may call a record a
  duplicate that is in no log; its acknowledgement has no offset, and counts as a failure that may
  pass;
- only a record that is too large never fits; other failures may pass. A full queue is waited for.

For the rows of a task ``BatchProducer`` (``_librdkafka.pyx``) interprets answers and
``runtime/unacknowledged.py`` detects the stall.
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
"""Failure of a record that may be in no log: see ``_librdkafka.UNPROVED``."""
_POLL_S = 0.1
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001  their public names


@dataclass(frozen=True, slots=True)
class Write:
    """A record to write."""

    key: bytes
    value: bytes | None


class NotWrittenError(DblogError):
    """Raised for a record that is not proved to be written.

    ``reason`` is the client's error or a sentence. ``unanswered`` is True if no broker has
    answered, so that another producer may fare better.
    """

    def __init__(self, reason: KafkaError | str, *, unanswered: bool = False) -> None:
        self.reason = reason
        self.unanswered = unanswered or has_ended(reason)
        super().__init__(reason.str() if isinstance(reason, KafkaError) else reason)

    @property
    def ended(self) -> bool:
        """True if the producer writes nothing more, however long the caller waits."""
        return has_ended(self.reason)

    @property
    def too_large(self) -> bool:
        """True if the record is larger than the producer or the topic accepts.

        No other try helps.
        """
        return is_too_large(self.reason)


class Limit(Protocol):
    """A limit on the wait for an answer."""

    def left_s(self) -> float:
        """Return the seconds left, 0 when it is over."""


@dataclass(frozen=True, slots=True)
class Until:
    """A limit that ends at a moment of the monotonic clock."""

    deadline_s: float

    def left_s(self) -> float:
        """Return the seconds left."""
        return max(0.0, self.deadline_s - time.monotonic())


class Handed:
    """Records that one producer got together, and their outcomes."""

    def __init__(self) -> None:
        self.count = 0
        self.written: list[tuple[int, int]] = []
        """Partition and offset of each record that is proved to be written."""
        self.failures: list[KafkaError | str] = []
        self.answered_s = time.monotonic()
        """Time of the last answer, or of creation before the first."""

    @property
    def waits(self) -> bool:
        """True if some records have no answer yet."""
        return len(self.written) + len(self.failures) < self.count

    def answered(self, error: KafkaError | None, message: Message) -> None:
        """Note the client's report of one record."""
        self.answered_s = time.monotonic()
        failure, partition, offset = failure_of(error, message), message.partition(), message.offset()
        if failure is not None or partition is None or offset is None:
            self.failures.append(failure or UNPROVED)
        else:
            self.written.append((partition, offset))


@dataclass(frozen=True, slots=True)
class WhileAnswered:
    """A limit that ends once no answer has come for ``limit_s``."""

    handed: Handed
    limit_s: float

    def left_s(self) -> float:
        """Return the seconds left."""
        return max(0.0, self.handed.answered_s + self.limit_s - time.monotonic())


class TopicWriter:
    """The producer of one topic. Any thread may write."""

    def __init__(self, topic: str, settings: Mapping[str, Any], *, partition: int = -1, **callbacks: Any) -> None:
        """Create the producer. Raise KafkaException naming a setting that is wrong.

        ``settings`` are librdkafka's, with files as ``NamedFile``. ``partition`` -1 leaves the
        choice to the partitioner. ``callbacks`` are confluent-kafka's, such as ``error_cb``.
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
        """Write records in order. Return the partition and offset of each.

        ``handed`` collects the answers, also those after the limit. Raise NotWrittenError if some
        records are not proved to be written; others may be.
        """
        handed, producer = handed or Handed(), self._producer
        for one in writes:
            self._hand_over(producer, one, handed, limit)
        self._wait(producer, handed, limit)
        return handed.written

    def hand_over(self, one: Write, handed: Handed, *, limit: Limit) -> None:
        """Give a record to the producer. Wait while the producer's queue is full.

        Raise NotWrittenError if the producer does not accept the record.
        """
        self._hand_over(self._producer, one, handed, limit)

    def wait(self, handed: Handed, *, limit: Limit) -> None:
        """Wait until each of these records is proved to be written.

        Raise NotWrittenError if one is not, or has no answer in time.
        """
        self._wait(self._producer, handed, limit)

    def send(self, one: Write, report: Any) -> None:
        """Give a record to the producer without waiting.

        ``report`` is called like confluent-kafka's ``on_delivery``, by the thread that polls. Raise
        NotWrittenError if the producer's queue is full.
        """
        try:
            self._produce(self._producer, one, report)
        except BufferError as e:
            raise NotWrittenError(str(e)) from e

    def poll(self) -> None:
        """Process the answers that have arrived."""
        self._producer.poll(0)

    def flush(self, limit_s: float) -> None:
        """Wait until every record has an answer, at most ``limit_s``."""
        self._producer.flush(limit_s)

    def replace(self, stalled: str | None) -> None:
        """Replace the producer.

        Requests of the former one that are under way may still succeed; its other records fail as
        purged. ``stalled`` is the reason of the stall for the log, or None if there was none.
        """
        with self._lock:
            former, self._producer = self._producer, self._new()
        if stalled is not None:
            _log.warning("the writer of a topic stalled; a new one continues", topic=self.topic, reason=stalled)
        former.purge()
        former.poll(0)

    def close(self) -> None:
        """Drop unwritten records. Nothing may be written afterwards."""
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
    """Return why a reported record does not count as written, or None if it does."""
    return error or (UNPROVED if message.offset() is None else None)


def is_too_large(error: KafkaError | str | None) -> bool:
    """Return True if the record can never fit."""
    return isinstance(error, KafkaError) and error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def has_ended(error: KafkaError | str | None) -> bool:
    """Return True if the producer accepts nothing more, or has dropped the record unanswered."""
    return is_fatal(error) or (isinstance(error, KafkaError) and error.code() in _PURGED)


def is_fatal(error: KafkaError | str | None) -> bool:
    """Return True if only another producer can write after this error."""
    return isinstance(error, KafkaError) and (error.fatal() or error.code() == KafkaError._FATAL)  # noqa: SLF001  its public name


def is_timeout(error: KafkaError | str | None) -> bool:
    """Return True if the record had no answer within its delivery timeout."""
    return isinstance(error, KafkaError) and error.code() == KafkaError._MSG_TIMED_OUT  # noqa: SLF001  its public name
