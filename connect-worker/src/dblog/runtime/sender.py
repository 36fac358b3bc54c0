"""Hands batches to the Kafka producer and notes their acknowledgements. # I1

Every record carries the number of its batch, and the producer counts acknowledgements per batch:
the records of one batch go to several partitions, so no single record can speak for the others. A
record that Kafka refused acknowledges nothing. So the ledger never passes its batch, however late
the failure is noticed. The producer's queue is a second bound, besides the task's queue: while it
is full, the sender takes acknowledgements and waits. # I6
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import structlog
from confluent_kafka import KafkaError

from dblog.core.ledger import Entry
from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.kafka._librdkafka import QUEUE_FULL, BatchProducer, RecordHeaders
from dblog.kafka.retriable import RETRIABLE
from dblog.model import Batch, Headers, Segment, TableId
from dblog.observe.numbers import KAFKA_ERRORS, OTHER
from dblog.runtime import too_large
from dblog.runtime.stop import SENT_BY, Stop
from dblog.runtime.too_large import Requests

log = structlog.get_logger(__name__)

FULL_WAIT_MS = 100

PUSH_WAIT_MS = 1
PUSH_WAIT_BYTES_MAX = 64 * 1024
"""Size up to which the sender waits for a push. librdkafka pushes while it is waited for, so a few
records leave at once; with more, the next records are prepared meanwhile.
"""

GATHER_BYTES_MAX = 256 * 1024
"""Size up to which records gather in the producer before the task's queue has to hold them.

An idempotent librdkafka producer has one request in flight per partition, because it counts
messages against the five requests of the protocol. If another request is ready meanwhile, its
broker thread spins, which takes up to a third of all CPU time. So records are pushed only when no
earlier push is unacknowledged. Until then they gather: first here, up to a size that fits one
request, then in the task's queue. The slower the broker, the larger the requests. Gathered records
are ready after their linger of 1 ms even without a push, so an acknowledgement that arrives soon
finds them waiting.
"""


class Sender:
    """Sender of one task's records to Kafka.

    ``context_headers`` are set on every row record (Debezium's ``__debezium.context.*``) and may be
    empty; the producer was made with the same headers. ``ensure_topics`` is called before the first
    records of new topics, with all new topics at once. ``on_error`` is called with every error that
    the client has with the brokers. If ``tolerate`` is True, a record that Kafka refuses is logged,
    counted and treated as delivered (errors.tolerance=all); otherwise it ends the task. ``requests``
    are the greatest that the producer sends.
    """

    def __init__(
        self,
        producer: BatchProducer,
        *,
        context_headers: Headers,
        ensure_topics: Callable[[Collection[str]], None],
        on_error: Callable[[KafkaError], None],
        stop: Stop | None = None,
        tolerate: bool = False,
        requests: Requests = Requests.SINGLE,
    ) -> None:
        self._producer = producer
        self._requests = requests
        self._stop = stop or Stop()
        self._context_headers = context_headers
        self._ensure_topics = ensure_topics
        self._on_error = on_error
        self._tolerate = tolerate
        self._topics: set[str] = set()
        self._step_headers: Headers = []
        self._lent: tuple[RecordHeaders, RecordHeaders] | None = None
        self._entries: dict[int, Entry] = {}
        self._records_of: dict[int, list[tuple[str, int, TableId | None, str]]] = {}
        self._acknowledged_of: Counter[str] = Counter()
        self._batches_total = 0
        self._pushed_to = 0
        self._gathered_bytes = 0
        self._error: DblogError | None = None
        self.records_total = 0
        self.bytes_total = 0
        self.failures_total = 0

    @property
    def outstanding(self) -> int:
        """Number of records inside the producer."""
        return len(self._producer)

    def topics_under_way(self) -> set[str]:
        """Return the topics of all batches that are not fully acknowledged."""
        return {topic for parts in self._records_of.values() for topic, *_ in parts}

    @property
    def waits(self) -> bool:
        """True while records are gathered that are pushed once the last push is acknowledged."""
        return self._gathered_bytes > 0

    @property
    def busy(self) -> bool:
        """True if enough is gathered that further batches should wait in the task's queue."""
        return self._gathered_bytes >= GATHER_BYTES_MAX

    def acknowledged_of(self, topics: Collection[str]) -> dict[str, int]:
        """Return the number of acknowledged records by topic.

        Topics not in ``topics`` are counted together as ``other``. Return nothing if ``topics`` is
        empty.
        """
        counts: Counter[str] = Counter()
        if topics:
            for topic, count in self._acknowledged_of.items():
                counts[topic if topic in topics else OTHER] += count
        return dict(counts)

    def send_all(self, batches: Sequence[tuple[Batch, Entry]], headers: Headers | None = None) -> None:
        """Hand over the batches of one poll, and push them out unless an earlier push is
        unacknowledged.

        ``headers`` are set on each of these records in addition to the context headers.
        """
        if headers is not None:
            self._step_headers = headers
            self._lent = RecordHeaders([*self._context_headers, *headers]), RecordHeaders(headers)
        self._ensure(batch for batch, _ in batches)
        for batch, entry in batches:
            self._send(batch, entry)
        self._push()

    def _send(self, batch: Batch, entry: Entry) -> None:
        """Hand over all records of a batch, waiting while the producer is full.

        Raise the error of an earlier delivery that failed, and TransientError if the task has to
        stop while the producer is full.
        """
        self._batches_total += 1
        tag = self._batches_total
        if batch.records_total:
            self._entries[tag] = entry
            self._records_of[tag] = [(one.topic, len(one.values), one.table, one.way_out) for one in batch.segments]
            if self._lent is not None:
                self._producer.lend(tag, *self._lent)
        for segment in batch.segments:
            self._send_segment(segment, tag)
        self.records_total += batch.records_total
        self.bytes_total += batch.bytes_total
        self._gathered_bytes += batch.bytes_total
        self._take(0)

    def serve(self, timeout_s: float) -> None:
        """Take acknowledgements, waiting up to ``timeout_s`` for the first, and push what waited
        for them.

        Raise the error of the first delivery that failed.
        """
        self._take(timeout_s)
        self._push()

    def _ensure(self, batches: Iterable[Batch]) -> None:
        """Create the topics of these batches that are new.

        All are asked for together: a dump brings many topics at once, and a broker takes as long
        for one as for many.
        """
        new = {segment.topic: None for batch in batches for segment in batch.segments if segment.topic not in self._topics}
        if new:
            self._ensure_topics(new.keys())
            self._topics.update(new)

    def _push(self) -> None:
        under_way = bool(self._entries) and next(iter(self._entries)) <= self._pushed_to
        if not under_way and self._gathered_bytes:
            few = self._gathered_bytes < PUSH_WAIT_BYTES_MAX
            self._pushed_to, self._gathered_bytes = self._batches_total, 0
            self._producer.flush(PUSH_WAIT_MS if few else 0)

    def _take(self, timeout_s: float) -> None:
        acknowledged, failures, errors = self._producer.serve(int(timeout_s * 1000))
        for error in errors:
            self._on_error(error)
        for tag, topic, error, record_bytes in sorted(failures, key=_by_size):  # usually none
            self._failed(error, topic, tag, record_bytes)
        for tag, records in acknowledged.items():
            self._acknowledge(tag, records)
        if self._error is not None:
            raise self._error

    def flush(self, timeout_s: float) -> None:
        """Wait until everything is delivered, for ``timeout_s`` at most, and less if the task has
        to stop.
        """
        until_s = time.monotonic() + timeout_s
        while len(self._producer) and (left_s := self._stop.left_s(until_s, SENT_BY)):
            self._producer.flush(min(FULL_WAIT_MS, int(left_s * 1000)))
            self.serve(0)

    def close(self) -> None:
        """Discard what is not delivered: nothing of an ended run may reach Kafka after the next
        run's records. # I2
        """
        self._producer.close()

    def _send_segment(self, segment: Segment, tag: int) -> None:
        start = 0
        for index, extra in sorted(segment.headers.items()):  # usually none
            self._send_records(segment, start, index, tag)
            context = self._context_headers if segment.context_headers else ()
            self._send_record(segment, index, [*extra, *context, *self._step_headers], tag)
            start = index + 1
        self._send_records(segment, start, len(segment.keys), tag)

    def _send_records(self, segment: Segment, start: int, stop: int, tag: int) -> None:
        partition = -1 if segment.partition is None else segment.partition
        with_headers = segment.context_headers and bool(self._context_headers)
        while start < stop:
            start, code = self._producer.produce(segment.topic, partition, segment.keys, segment.values, start, stop, with_headers, tag)
            if code:
                start += self._not_taken(code, segment, start, tag)

    def _send_record(self, segment: Segment, index: int, headers: Headers, tag: int) -> None:
        partition = -1 if segment.partition is None else segment.partition
        key, value = segment.keys[index], segment.values[index]
        while code := self._producer.produce_one(segment.topic, partition, key, value, headers, tag):
            if self._not_taken(code, segment, index, tag):
                return

    def _not_taken(self, code: int, segment: Segment, index: int, tag: int) -> int:
        """Return how many records were dealt with: 0 after waiting for space, 1 if the record was
        refused.
        """
        if code == QUEUE_FULL:
            if self._stop.ordered():
                message = "the task stops, and the producer takes no more records"
                raise TransientError(message)
            self.serve(FULL_WAIT_MS / 1000)  # which also pushes
            return 0
        self._refused(KafkaError(code), segment, index)
        self._acknowledge(tag, 1)
        return 1

    def _acknowledge(self, tag: int, records: int) -> None:
        entry = self._entries[tag]
        entry.acknowledge(records)
        if entry.outstanding == 0:
            del self._entries[tag]
            if self._lent is not None:
                self._producer.take_back(tag)
            for topic, count, *_ in self._records_of.pop(tag):
                self._acknowledged_of[topic] += count

    def _refused(self, error: KafkaError, segment: Segment, index: int) -> None:
        topic = segment.topic
        if error.code() in too_large.CODES:
            record_bytes = len(segment.keys[index] or b"") + len(segment.values[index] or b"")
            failure: DblogError = too_large.refused_by_producer(topic, [segment.table], record_bytes, segment.way_out)
        elif error.code() in RETRIABLE:
            failure = TransientError(f"the producer refused a record for topic {topic}: {error.name()}")
        else:
            failure = DefiniteError(f"the producer refused a record for topic {topic}: {error.name()}")
        if not self._tolerate or isinstance(failure, TransientError):
            raise failure
        self.failures_total += 1
        log.error("record skipped by errors.tolerance=all", topic=topic, reason=str(failure))

    def _failed(self, error: KafkaError, topic: str, tag: int, record_bytes: int) -> None:
        """Note the failed delivery of a record.

        A retriable error, and the end of the producer, make the task restart from its stored
        offset.
        """
        KAFKA_ERRORS.add(error.name())
        failure = self._failure(error, topic, tag, record_bytes)
        passes = isinstance(failure, TransientError)
        if self._tolerate and not passes:
            self.failures_total += 1
            log.error("record skipped by errors.tolerance=all", topic=topic, reason=str(failure))
            self._acknowledge(tag, 1)
            return
        if self._error is None or (isinstance(self._error, TransientError) and not passes):
            self._error = failure

    def _failure(self, error: KafkaError, topic: str, tag: int, record_bytes: int) -> DblogError:
        text = f"{error.name()} ({error.str()})"
        if error.code() in too_large.CODES:
            if not too_large.is_alone(self._requests, record_bytes):
                return too_large.request_refused(topic, record_bytes, too_large.next_requests(self._requests, tolerate=self._tolerate))
            parts = [(table, way_out) for name, _, table, way_out in self._records_of[tag] if name == topic]
            tables, ways_out = zip(*parts, strict=True)
            return too_large.refused_by_broker(topic, tables, record_bytes, text, next(filter(None, ways_out), ""))
        text = f"Kafka did not take a record for topic {topic}: {text}"
        if error.retriable() or error.fatal():
            return TransientError(text)
        return DefiniteError(f"{text}; check the topic, its limits and the ACLs, then restart the task")


def _by_size(failure: tuple[int, str, KafkaError, int]) -> int:
    """Order failures so that the largest record comes first."""
    return -failure[-1]
