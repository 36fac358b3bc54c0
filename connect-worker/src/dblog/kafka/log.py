"""A compacted topic as a dictionary. It is read to its end and then followed by a thread; a write
returns once it has been read back.

Kafka Connect keeps its state in the same way (its ``KafkaBasedLog``): the topic is the truth, every
view is a fold of it, and a writer learns the result of its own write in the same order as everybody
else. The end of a partition comes from the broker's end offsets and from end-of-partition events,
not from the last record seen, because compaction and transaction markers leave gaps at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.kafka.clientlog import ClientLog
from dblog.kafka.fenced import FencedWriter
from dblog.kafka.standstill import Standstill
from dblog.kafka.writer import Handed, NotWrittenError, TopicWriter, Until, Write, failure_of, is_fatal, is_timeout, is_too_large

_log = structlog.get_logger("dblog.kafka.log")
E = TypeVar("E", bound=BaseException)

_POLL_S = 0.25
_RECORDS_AT_ONCE = 1000
_STOP_LIMIT_S = 5.0
_LEADERLESS_S = 0.1
_ASKED_S = 5.0
"""Interval at which the thread asks the brokers about its topic."""
_STANDSTILL_S = 30.0
_DELIVERY_TIMEOUT_MS = 30_000
_ENDED_AGAIN_S = 1.0
"""Shortest time between two replacements of a producer for fatal errors."""
_UNREPORTED_S = 5.0
"""Grace period after the delivery timeout for the client to report a record."""
_MISSING_MAX = 3
"""Number of consecutive answers without the topic before it counts as deleted. Brokers that are
starting may not know it yet.
"""
_ASKED_LIMIT_S = 10.0
_UNANSWERED_S = 3 * _ASKED_LIMIT_S
_KEY_SHOWN_BYTES = 120


class TopicReplacedError(DefiniteError):
    """The topic was deleted, or deleted and created again.

    The known state is no longer in it, and writing to it would mix two histories.
    """


class UnreadableRecordError(DblogError):
    """A record that its reader cannot use. The text gives the reason."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the topic. A ``value`` of None is a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    live: bool = True
    """True if the record arrived after the backlog had been read."""
    at_ms: int = 0
    """Kafka's time of the record, in milliseconds; 0 if it is not known."""


OnRecord = Callable[[LogRecord], None]
"""Called in the log's own thread for each record, in order. A record for which it raises is
skipped, whatever its origin, because the error would come back at every start.
"""


@dataclass(frozen=True, slots=True)
class _Later:
    """A record that is written without waiting, with the values to try if it is too large."""

    key: bytes
    value: bytes | None
    number: int
    smaller: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Futures of the questions that the brokers were asked about the topic."""

    admin: AdminClient
    topic: Any
    ends: Mapping[TopicPartition, Any]

    @property
    def answered(self) -> bool:
        return bool(self.topic.done()) and all(future.done() for future in self.ends.values())


class CompactedLog:
    """One topic, followed as long as the process runs.

    ``start`` and ``stop`` belong to one thread. ``put``, ``read_to_end`` and ``items`` may be
    called from any thread except the log's own.
    """

    def __init__(
        self,
        *,
        topic: str,
        consumer_settings: Mapping[str, str],
        producer_settings: Mapping[str, str],
        admin_settings: Mapping[str, str],
        on_record: OnRecord | None = None,
        keeps: bool = True,
    ) -> None:
        """Create the log of a topic. With ``keeps`` False it is no dictionary: only ``on_record``
        gets the records.
        """
        self.topic = topic
        self._keeps = keeps
        self.skipped = 0
        """Number of unreadable records since this process started."""
        self._consumer_settings = consumer_settings
        self._producer_settings = producer_settings
        self._admin_settings = admin_settings
        self._admin: AdminClient | None = None
        self._on_record = on_record
        self._consumer: Consumer | None = None
        self._writer: TopicWriter | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._moved = threading.Condition()
        self._reached: dict[int, int] = {}
        self._items: dict[bytes, bytes] = {}
        self._put_count = 0
        self._newest_put: dict[bytes, int] = {}
        self._again: list[_Later] = []
        self._backlog_read = False
        self._failure: BaseException | None = None
        self._topic_id: str | None = None
        self._under_way: dict[int, tuple[_Later, float]] = {}
        """Unacknowledged records by number, oldest first, with the time the producer got each."""
        self._timed_out_s = 0.0
        """Time when a record last exceeded the delivery timeout."""
        self._given_up: list[tuple[Handed, float]] = []
        """Records whose writer gave up waiting, with the time the producer got them."""
        self._ended: str | None = None
        """The fatal error after which the producer takes no more records. None while it does."""
        self._ended_at_s = 0.0
        """Time when the producer was last replaced after a fatal error."""
        self._answered_since_s: float | None = None
        """Time since which the brokers have always answered about the topic's ends, or None."""

    def start(self, *, limit_s: float) -> None:
        """Read the whole topic, then keep following it.

        Raise TransientError if that takes longer than ``limit_s``.
        """
        try:
            self._open(time.monotonic() + limit_s)
        except BaseException:
            # Another try starts from nothing.
            self.stop()
            raise

    def _open(self, deadline: float) -> None:
        self._stopping = threading.Event()
        self._failure = None
        self._under_way.clear()
        self._timed_out_s, self._answered_since_s = 0.0, None
        self._given_up, self._ended = [], None
        consumer = self._consumer = self._new_consumer()
        self._writer = self._new_writer()
        admin = self._admin = self._new_admin()
        partitions = self._partitions(consumer, deadline)
        try:
            self._topic_id = self._described(self._ask_for_topic(admin))
        except LookupError:
            raise TransientError(f"the topic {self.topic} cannot be opened: it does not exist") from None
        self._reached = dict.fromkeys(partitions, 0)
        consumer.assign([TopicPartition(self.topic, p, 0) for p in partitions])
        self._thread = threading.Thread(target=self._follow, args=(consumer, self._stopping), name=f"log-{self.topic}", daemon=True)
        self._thread.start()
        self.read_to_end(limit_s=max(0.0, deadline - time.monotonic()))
        with self._moved:
            self._backlog_read = True

    def stop(self) -> None:
        """End the thread and close both clients. Nothing may be put afterwards."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_LIMIT_S)
        if self._writer is not None:
            self._writer.flush(_STOP_LIMIT_S)
        if self._consumer is not None and (self._thread is None or not self._thread.is_alive()):
            self._consumer.close()
        self._consumer = None
        self._writer = None
        self._admin = None
        self._thread = None
        with self._moved:
            self._backlog_read = False

    @property
    def is_open(self) -> bool:
        """True once the backlog has been read and the topic is followed."""
        return self._backlog_read

    def read_to_end(self, *, limit_s: float) -> None:
        """Wait until every record that the topic holds now has been read."""
        deadline = time.monotonic() + limit_s
        for partition, end in self._end_offsets(deadline).items():
            self._wait_for(partition, end, deadline)

    def put(self, key: bytes, value: bytes | None, *, limit_s: float) -> None:
        """Write one record and wait until it has been read back."""
        self.put_all([Write(key, value)], limit_s=limit_s)

    def put_all(self, writes: Sequence[Write], *, limit_s: float) -> None:
        """Write records in order and wait until the last has been read back.

        Raise TransientError if that is not known after ``limit_s``, and DefiniteError if a record
        is larger than the topic accepts. Records before the failed one may have been written.
        """
        writer = self._writer
        if writer is None:
            raise TransientError(f"the topic {self.topic} is not open")
        deadline = time.monotonic() + limit_s
        reached = dict(self._reached)
        handed, began_s = Handed(), time.monotonic()
        try:
            done = writer.write(writes, limit=Until(deadline), handed=handed)
        except NotWrittenError as e:
            self._note(e.reason)
            if handed.waits:
                if limit_s >= self._delivery_timeout_s:
                    self._timed_out_s = time.monotonic()
                with self._moved:
                    self._given_up.append((handed, began_s))
            raise self._not_written(e, limit_s) from e
        for partition, offset in done:
            if offset < reached.get(partition, 0):
                raise self._end(self._replaced("its records begin again"))
            self._wait_for(partition, offset + 1, deadline)

    def _not_written(self, error: NotWrittenError, limit_s: float) -> DefiniteError | TransientError:
        if error.too_large:
            return DefiniteError(
                f"a record is larger than the topic {self.topic} takes; make its content smaller, or raise producer.max.request.size in the worker's "
                "configuration and max.message.bytes of the topic"
            )
        if error.unanswered and not isinstance(error.reason, KafkaError):
            return TransientError(f"writing to the topic {self.topic} took longer than {limit_s:.0f} s; are the brokers reachable?")
        return TransientError(f"writing to the topic {self.topic} failed: {error.reason}")

    def fenced_writer(self) -> FencedWriter:
        """Return a writer that excludes all other writers of this topic.

        The caller waits for the offsets it wrote with ``read_back``.
        """
        return FencedWriter(self.topic, self._producer_settings)

    def read_back(self, written: Sequence[tuple[int, int]], *, limit_s: float) -> None:
        """Wait until the records at these partitions and offsets have been read."""
        deadline = time.monotonic() + limit_s
        for partition, offset in written:
            self._wait_for(partition, offset + 1, deadline)

    def put_later(self, key: bytes, value: bytes | None, *, smaller: Sequence[bytes | None] = ()) -> None:
        """Write a record without waiting.

        A record that the brokers did not accept is sent again unless a newer one of its key has
        been put. ``smaller`` are values to try in turn if the record is larger than the topic
        accepts.
        """
        with self._moved:
            self._put_count += 1
            number = self._newest_put[key] = self._put_count
        self._send_later(_Later(key, value, number, tuple(smaller)))

    def _send_later(self, later: _Later) -> None:
        def delivered(failure: KafkaError | None, message: Message) -> None:
            error = failure_of(failure, message)
            with self._moved:
                if self._under_way.get(later.number, (None, 0.0))[0] is not later:
                    return  # another producer has sent it again
                del self._under_way[later.number]
            again = self._write_again(later, error)
            self._note(error)
            if error is not None:
                _log.warning("record not written", topic=self.topic, reason=str(error), again=again)

        with self._moved:  # otherwise it may reach a producer that is just being replaced
            writer = self._writer
            if writer is None or self._stopping.is_set():
                return
            self._under_way[later.number] = later, time.monotonic()
            try:
                writer.send(Write(later.key, later.value), delivered)
            except NotWrittenError as e:
                del self._under_way[later.number]
                self._note(e.reason)
                _log.warning("record not written", topic=self.topic, reason=str(e), again=self._write_again(later, e.reason))
        writer.poll()

    def _note(self, error: KafkaError | str | None, at_s: float | None = None) -> None:
        """Note the state of the producer that an error shows.

        ``at_s`` is when it came, if not now.
        """
        if is_timeout(error):
            self._timed_out_s = time.monotonic() if at_s is None else at_s
        elif is_fatal(error):
            self._ended = str(error)

    def _write_again(self, later: _Later, error: KafkaError | str | None) -> bool:
        """Return True if the record will be sent again.

        It will not if it was written, if a newer record of its key has been put, or if it can never
        fit.
        """
        with self._moved:
            newest = self._newest_put.get(later.key) == later.number
            fits = error is None or not is_too_large(error)
            again = newest and error is not None and (fits or bool(later.smaller))
            if again:
                self._again.append(later if fits else replace(later, value=later.smaller[0], smaller=later.smaller[1:]))
            elif newest:
                del self._newest_put[later.key]
            return again

    def _send_again(self) -> None:
        with self._moved:
            waiting, self._again = self._again, []
        for later in waiting:
            if self._newest_put.get(later.key) == later.number:
                self._send_later(later)

    def abandon(self) -> None:
        """Drop unacknowledged records of ``put_later``, which may no longer be true.

        A request that is under way may still succeed.
        """
        with self._moved:
            self._newest_put.clear()
            self._again.clear()
        self._write_on(stalled=None)

    def _write_on(self, *, stalled: str | None) -> None:
        """Replace the producer and send pending records again.

        A producer that was purged or has lost its leader may write nothing more (librdkafka 2.16).
        """
        with self._moved:
            self._again += [later for later, _ in self._under_way.values() if self._newest_put.get(later.key) == later.number]
            self._under_way.clear()
            self._given_up, self._ended = [], None
            if self._writer is not None:
                self._writer.replace(stalled)

    def flush(self, *, limit_s: float) -> None:
        """Wait until the records that were put have been acknowledged."""
        if self._writer is not None:
            self._writer.flush(limit_s)

    def items(self) -> dict[bytes, bytes]:
        """Return a copy of the dictionary."""
        with self._moved:
            return dict(self._items)

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None."""
        with self._moved:
            return self._items.get(key)

    @property
    def ended(self) -> BaseException | None:
        """The error that ended the thread, or None while it runs."""
        return self._failure

    def _partitions(self, consumer: Consumer, deadline: float) -> list[int]:
        while True:
            reason = "it does not exist"
            try:
                metadata = consumer.list_topics(self.topic, timeout=max(0.1, min(5.0, deadline - time.monotonic())))
                found = metadata.topics[self.topic]
                if found.error is None and found.partitions:
                    return sorted(found.partitions)
                if found.error is not None:
                    reason = str(found.error)
                    if found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        raise DefiniteError(
                            f"the topic {self.topic} may not be read: {reason}; grant the worker's principal READ and WRITE on it"
                        )
            except KafkaException as e:
                reason = str(e)
            if time.monotonic() >= deadline:
                raise TransientError(f"the topic {self.topic} cannot be opened: {reason}")
            self._stopping.wait(0.1)

    def _end_offsets(self, deadline: float) -> dict[int, int]:
        # Asked through an admin client: the consumer's calls would wait for a poll that runs in
        # another thread (confluent-kafka 2.16).
        asked = self._newest()
        while True:
            admin = self._admin
            if admin is None:
                raise TransientError(f"the topic {self.topic} is not open")
            limit_s = max(0.1, deadline - time.monotonic())
            futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=limit_s)
            try:
                return {target.partition: int(future.result(timeout=limit_s + 1.0).offset) for target, future in futures.items()}
            except (KafkaException, TimeoutError) as e:
                # A topic that was just created, or whose broker was just lost, has no leader for a
                # moment. The client calls these errors not retriable, so the ones that cannot pass
                # are named here.
                refused = isinstance(e, KafkaException) and e.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                if refused or self._stopping.is_set() or time.monotonic() >= deadline:
                    raise TransientError(f"the end of the topic {self.topic} cannot be read: {e}") from e
            self._stopping.wait(_LEADERLESS_S)
            # After a broker's restart this client would ask with the old leader epoch forever; a
            # new client does not.
            self._admin = self._new_admin()

    def _newest(self) -> dict[TopicPartition, OffsetSpec]:
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return {TopicPartition(self.topic, partition): newest for partition in self._reached}

    def _new_consumer(self) -> Consumer:
        return Consumer(
            {
                "group.id": "dblog-unused",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "100",
                "fetch.queue.backoff.ms": "10",
                "reconnect.backoff.max.ms": "2000",
                "topic.metadata.refresh.interval.ms": "30000",
                **self._consumer_settings,
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
            },
            logger=ClientLog(f"topic {self.topic}"),
        )

    def _new_writer(self) -> TopicWriter:
        return TopicWriter(
            self.topic,
            {
                "linger.ms": "0",
                "delivery.timeout.ms": str(_DELIVERY_TIMEOUT_MS),
                # a broker that refuses a record for its size refuses the whole batch
                "batch.num.messages": "1",
                "partitioner": "murmur2_random",
                "reconnect.backoff.max.ms": "2000",
                **self._producer_settings,
                "acks": "all",
                "enable.idempotence": "true",
            },
        )

    def _new_admin(self) -> AdminClient:
        return AdminClient({"reconnect.backoff.max.ms": "2000", **self._admin_settings, "log_level": "2"})

    def _wait_for(self, partition: int, end: int, deadline: float) -> None:
        with self._moved:
            while self._reached[partition] < end:
                if isinstance(self._failure, TopicReplacedError):
                    raise self._failure
                if self._failure is not None:
                    raise TransientError(f"the topic {self.topic} is no longer followed: {self._failure}") from self._failure
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    raise TransientError(f"the topic {self.topic} could not be read to its end in time")
                self._moved.wait(remaining_s)

    def _follow(self, consumer: Consumer, stopping: threading.Event) -> None:
        asked: _Asked | None = None
        asked_s = -_ASKED_S
        missing = 0
        standstill = Standstill(limit_s=_STANDSTILL_S)
        try:
            while not stopping.is_set():
                first = consumer.poll(_POLL_S)
                now_s = time.monotonic()
                if asked is None and now_s - asked_s >= _ASKED_S:
                    asked, asked_s = self._ask(), now_s
                elif asked is not None and now_s - asked_s >= _UNANSWERED_S:
                    # Its client was replaced in the meantime.
                    asked, asked_s = None, now_s
                elif asked is not None and asked.answered:
                    missing = self._compare(asked.topic, missing)
                    ends = self._ends(asked, standstill)
                    if stuck := standstill.seen(self._reached, ends, now_s):
                        consumer = self._consumer = self._instead_of(consumer, stuck)
                        standstill.forget()
                        first = None  # the new consumer reads it again
                    self._look_at_writer(now_s if ends else None)
                    asked, asked_s = None, now_s
                if self._writer is not None:
                    # Serves the delivery reports of put_later, which no caller waits for.
                    self._writer.poll()
                    self._replace_ended()
                    self._send_again()
                if first is None or stopping.is_set():
                    continue
                # consume() alone waits for a full batch or its timeout. After a poll it returns at
                # once what the local queue holds.
                self._take([first, *consumer.consume(_RECORDS_AT_ONCE, timeout=0)])
        except BaseException as e:
            self._end(e)
            if not isinstance(e, TopicReplacedError):
                raise

    def _end(self, error: E) -> E:
        with self._moved:
            known = self._failure is not None
            self._failure = self._failure or error
            self._moved.notify_all()
        if not known:
            _log.error("following a topic ended", topic=self.topic, reason=str(error) or repr(error))
        return error

    # Checks whether the topic is still the one that was opened, and whether this reader still reads
    # it.

    def _ask(self) -> _Asked | None:
        admin = self._admin
        if admin is None:
            return None
        return _Asked(
            admin,
            self._ask_for_topic(admin),
            admin.list_offsets(self._newest(), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ASKED_LIMIT_S),
        )

    def _ends(self, asked: _Asked, standstill: Standstill) -> dict[int, int]:
        """Return the ends of the partitions, or an empty dictionary if they are unknown."""
        try:
            return {target.partition: int(future.result(timeout=0).offset) for target, future in asked.ends.items()}
        except (KafkaException, TimeoutError):
            standstill.forget()
            if asked.topic.exception() is None and self._admin is asked.admin:
                # The brokers answer, but this client asks with an old leader epoch forever (as in
                # _end_offsets).
                self._admin = self._new_admin()
            return {}

    @property
    def _delivery_timeout_s(self) -> float:
        return int(self._producer_settings.get("delivery.timeout.ms", _DELIVERY_TIMEOUT_MS)) / 1000

    def _replace_ended(self) -> None:
        """Replace the producer after a fatal error, which no waiting can fix."""
        now_s = time.monotonic()
        if self._ended is not None and now_s - self._ended_at_s >= _ENDED_AGAIN_S:
            self._ended_at_s = now_s
            self._write_on(stalled=f"it takes nothing more ({self._ended})")

    def _oldest_given_up_s(self, now_s: float) -> float:
        """Return when the producer got the oldest unanswered record whose writer gave up waiting.

        Return ``now_s`` if there is none.
        """
        with self._moved:
            given_up = self._given_up
            self._given_up = [(handed, since_s) for handed, since_s in given_up if handed.waits]
        for handed, _ in given_up:
            for failure in handed.failures:
                self._note(failure, handed.answered_s)
        return min((since_s for _, since_s in self._given_up), default=now_s)

    def _look_at_writer(self, now_s: float | None) -> None:
        """Replace the producer if a record exceeds its delivery timeout though the brokers answer.

        ``now_s`` is None if the brokers do not answer. The next record would fare no better, and
        librdkafka never reports a record whose partition had no leader when the producer started.
        """
        self._answered_since_s = None if now_s is None else self._answered_since_s or now_s
        if now_s is None or self._answered_since_s is None:
            return
        timeout_s = self._delivery_timeout_s
        oldest_s = self._oldest_given_up_s(now_s)
        with self._moved:
            oldest_s = min(oldest_s, next((since_s for _, since_s in self._under_way.values()), now_s))
        waits = now_s - max(oldest_s, self._answered_since_s) >= timeout_s + _UNREPORTED_S
        if waits or self._timed_out_s - self._answered_since_s >= timeout_s:
            self._answered_since_s = None
            self._write_on(stalled=f"a record had no answer for {timeout_s:g} s, though the brokers answer")

    def _instead_of(self, stuck: Consumer, partitions: list[int]) -> Consumer:
        _log.warning("the reader of a topic stalled; a new one continues", topic=self.topic, partitions=partitions, limit_s=_STANDSTILL_S)
        consumer = self._new_consumer()
        consumer.assign([TopicPartition(self.topic, partition, offset) for partition, offset in self._reached.items()])
        stuck.close()
        return consumer

    def _ask_for_topic(self, admin: AdminClient) -> Any:
        """Return a future of the topic's description."""
        return admin.describe_topics(TopicCollection([self.topic]), request_timeout=_ASKED_LIMIT_S)[self.topic]

    def _described(self, asked: Any) -> str | None:
        """Return the topic's id.

        Return None if the brokers do not report one (older versions, or no answer in time). Raises
        LookupError if there is no such topic.
        """
        try:
            found = str(asked.result(timeout=_ASKED_LIMIT_S).topic_id)
        except KafkaException as e:
            if e.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise LookupError(self.topic) from e
            return None
        except TimeoutError:
            return None
        return found

    def _compare(self, asked: Any, missing: int) -> int:
        """Return how many consecutive times the topic was missing.

        Raise TopicReplacedError if the topic is not the one that was opened.
        """
        try:
            found = self._described(asked)
        except LookupError:
            if missing + 1 >= _MISSING_MAX:
                raise self._replaced("it does not exist any more") from None
            return missing + 1
        if found is not None and self._topic_id is not None and found != self._topic_id:
            raise self._replaced("it has another id")
        return 0

    def _replaced(self, how: str) -> TopicReplacedError:
        return TopicReplacedError(
            f"the topic {self.topic} was deleted or replaced while this worker used it ({how}). Nothing more is written to it. Restore it, or make it "
            "again (compacted) and post its content again, then start the worker again"
        )

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:  # noqa: SLF001  its public name
                    self._advance(partition, offset)
                elif error.fatal():
                    raise TransientError(f"reading the topic {self.topic} failed: {error}")
                else:
                    _log.warning("reading a topic", topic=self.topic, reason=str(error))
                continue
            if partition is None or offset is None:
                continue
            key, value = _as_bytes(message.key()), _as_bytes(message.value())
            if offset < self._reached.get(partition, 0):
                raise self._replaced("its records begin again")
            record = LogRecord(partition, offset, key, value, self._backlog_read, max(0, message.timestamp()[1]))
            if self._on_record is not None:
                # Called before the offset is advanced: a caller that waits for its own write finds
                # the fold done.
                try:
                    self._on_record(record)
                except Exception as e:  # noqa: BLE001  any error of the fold
                    self._skip(record, e)
            with self._moved:
                if key is not None and self._keeps:
                    if value is None:
                        self._items.pop(key, None)
                    else:
                        self._items[key] = value
            self._advance(partition, offset + 1)

    def _skip(self, record: LogRecord, error: Exception) -> None:
        self.skipped += 1
        reason = str(error) if isinstance(error, UnreadableRecordError) else f"it cannot be read ({type(error).__name__})"
        _log.error(
            "record skipped", topic=self.topic, partition=record.partition, offset=record.offset, key=_shown(record.key), reason=reason
        )

    def _advance(self, partition: int, offset: int) -> None:
        with self._moved:
            if offset > self._reached.get(partition, 0):
                self._reached[partition] = offset
            self._moved.notify_all()


def _shown(key: bytes | None) -> str:
    """Return the beginning of a key, printable."""
    text = "none" if key is None else key[:_KEY_SHOWN_BYTES].decode(errors="replace")
    return text if text.isprintable() else repr(text)[1:-1]


def _as_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
