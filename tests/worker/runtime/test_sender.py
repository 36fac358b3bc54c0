"""When what was handed to the producer is pushed out: at once, but never beside a push that is not acknowledged yet."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.clock import SystemClock
from dblog.core.ledger import Ledger
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.producer import record_producer
from dblog.model import Batch, Segment, TableId
from dblog.readers.tally import Tally
from dblog.runtime.sender import GATHER_BYTES_MAX, Sender
from dblog.runtime.too_large import RequestRefusedError, Requests
from stack import Kafka
from support.worker import until


class Brokers:
    """A producer whose acknowledgements come when the test wants; it notes every push, with what had been handed over by then."""

    def __init__(self) -> None:
        self.handed: dict[int, int] = {}
        self.pushes: list[int] = []
        self.refuses = 0
        self._due: dict[int, int] = {}
        self._failures: list[tuple[int, str, KafkaError, int]] = []

    def __len__(self) -> int:
        """Reports that nobody has taken count as out, as librdkafka has it."""
        return sum(self.handed.values()) + sum(self._due.values()) + len(self._failures)

    def produce(
        self, topic: str, partition: int, keys: list[Any], values: list[Any], start: int, stop: int, with_headers: bool, tag: int
    ) -> tuple[int, int]:
        if self.refuses:
            return start, self.refuses
        self.handed[tag] = self.handed.get(tag, 0) + stop - start
        return stop, 0

    def serve(self, timeout_ms: int) -> tuple[dict[int, int], list[Any], list[Any]]:
        due, self._due = self._due, {}
        failures, self._failures = self._failures, []
        return due, failures, []

    def flush(self, timeout_ms: int) -> None:
        self.pushes.append(sum(self.handed.values()))

    def acknowledge(self, *tags: int) -> None:
        self._due = {tag: self.handed.pop(tag) for tag in tags}

    def fail(self, tag: int, code: int, *, retriable: bool = False, fatal: bool = False, record_bytes: int = 2) -> None:
        self.handed[tag] -= 1
        self._failures.append((tag, "t", KafkaError(code, "no", fatal, retriable), record_bytes))


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def sender(brokers: Brokers) -> Sender:
    return Sender(brokers, context_headers=[], ensure_topics=lambda topics: None, on_error=lambda error: None)  # type: ignore[arg-type]


@pytest.fixture
def tolerant(brokers: Brokers) -> Sender:
    return Sender(brokers, context_headers=[], ensure_topics=lambda topics: None, on_error=lambda error: None, tolerate=True)  # type: ignore[arg-type]


def send(sender: Sender, ledger: Ledger, records: int, size_bytes: int = 10) -> None:
    segment = Segment(topic="t", keys=[b"k"] * records, values=[b"v"] * records)
    batch = Batch([segment], None, records, size_bytes)
    sender.send_all([(batch, ledger.enter(ledger.batches_total, records))])


def test_what_comes_alone_is_pushed_at_once(sender: Sender, brokers: Brokers) -> None:
    send(sender, Ledger(), 3)

    assert brokers.pushes == [3]
    assert not sender.waits


def test_what_comes_while_a_push_is_under_way_goes_with_the_next_one(sender: Sender, brokers: Brokers) -> None:
    ledger = Ledger()
    send(sender, ledger, 3)
    send(sender, ledger, 4)
    send(sender, ledger, 5)
    assert brokers.pushes == [3]
    assert sender.waits

    brokers.acknowledge(1)
    sender.serve(0)

    assert brokers.pushes == [3, 9]
    assert not sender.waits


def test_no_more_than_a_request_gathers(sender: Sender, brokers: Brokers) -> None:
    ledger = Ledger()
    send(sender, ledger, 1, GATHER_BYTES_MAX * 2)
    assert not sender.busy
    send(sender, ledger, 1, GATHER_BYTES_MAX)
    assert sender.busy

    brokers.acknowledge(1)
    sender.serve(0)

    assert not sender.busy


def test_nothing_is_pushed_when_nothing_is_there(sender: Sender, brokers: Brokers) -> None:
    sender.send_all([])
    sender.serve(0)

    assert brokers.pushes == []


@pytest.mark.parametrize("served_before", [True, False], ids=["served before the last flush", "served by the last flush"])
def test_a_record_that_kafka_refused_stops_the_ledger_at_its_batch(sender: Sender, brokers: Brokers, served_before: bool) -> None:
    """Its batch and all behind it are never committed, whoever meets the failure first and whatever is acknowledged behind it. # I1"""
    ledger = Ledger()
    for records in (1, 2, 1):
        send(sender, ledger, records)
    brokers.fail(2, KafkaError.MSG_SIZE_TOO_LARGE)
    brokers.acknowledge(1, 2, 3)

    if served_before:
        with pytest.raises(DefiniteError, match="MSG_SIZE_TOO_LARGE.*raise max.message.bytes of the topic"):
            sender.serve(0)
    with contextlib.suppress(DefiniteError):
        sender.flush(1.0)

    assert ledger.take_steps() == [0]
    with pytest.raises(DefiniteError):
        sender.serve(0)


@pytest.mark.parametrize("tolerate", [True, False])
def test_a_refused_request_of_many_records_shows_no_record_as_too_large(brokers: Brokers, tolerate: bool) -> None:
    """Its good records must not be passed over with the bad one, so a run with small requests has to show which one that is. # I5"""
    sender = Sender(
        brokers,  # type: ignore[arg-type]
        context_headers=[],
        ensure_topics=lambda topics: None,
        on_error=lambda error: None,
        tolerate=tolerate,
        requests=Requests.ANY,
    )
    ledger = Ledger()
    send(sender, ledger, 3)
    for record_bytes in (2, 5000, 2):
        brokers.fail(1, KafkaError.MSG_SIZE_TOO_LARGE, record_bytes=record_bytes)

    with pytest.raises(RequestRefusedError, match="records for topic t as too large, the largest of 5000 bytes"):
        sender.serve(0)

    assert ledger.take_steps() == []
    assert sender.failures_total == 0


@pytest.mark.parametrize("by", ["producer", "broker"])
def test_a_record_that_is_too_large_is_named_by_topic_table_size_and_every_way_out(sender: Sender, brokers: Brokers, by: str) -> None:
    ledger = Ledger()
    segment = Segment(topic="t", keys=[b"key"], values=[b"value"], table=TableId("shop", "orders"), way_out="leave it out")
    batch = Batch([segment], None, 1, 8)
    brokers.refuses = KafkaError.MSG_SIZE_TOO_LARGE if by == "producer" else 0

    def trial() -> None:
        sender.send_all([(batch, ledger.enter(1, 1))])
        brokers.fail(1, KafkaError.MSG_SIZE_TOO_LARGE, record_bytes=8)
        sender.serve(0)

    with pytest.raises(DefiniteError, match="record of 8 bytes of table shop.orders for topic t") as raised:
        trial()

    limit = "producer.override.max.request.size" if by == "producer" else "kafka-configs.sh"
    assert all(
        text in str(raised.value) for text in (limit, "max.message.bytes", "or leave it out", "restart the task, which sends it again")
    )
    assert ledger.take_steps() == []


@pytest.mark.parametrize(("code", "fatal"), [(KafkaError.NOT_ENOUGH_REPLICAS, False), (KafkaError.UNKNOWN_PRODUCER_ID, True)])
def test_what_passes_by_itself_and_the_end_of_a_producer_are_answered_by_a_new_start(
    tolerant: Sender, brokers: Brokers, code: int, fatal: bool
) -> None:
    """Also where bad records are tolerated: this one is not bad."""
    ledger = Ledger()
    send(tolerant, ledger, 1)
    brokers.fail(1, code, retriable=not fatal, fatal=fatal)

    with pytest.raises(TransientError):
        tolerant.serve(0)

    assert ledger.take_steps() == []


def test_a_bad_record_that_is_tolerated_counts_as_dealt_with(tolerant: Sender, brokers: Brokers) -> None:
    ledger = Ledger()
    send(tolerant, ledger, 2)
    brokers.fail(1, KafkaError.MSG_SIZE_TOO_LARGE)
    brokers.acknowledge(1)

    tolerant.serve(0)

    assert ledger.take_steps() == [0]
    assert tolerant.failures_total == 1


@pytest.mark.parametrize("tolerate", [True, False])
def test_a_producer_that_has_ended_takes_nothing_and_nothing_counts_as_dealt_with(brokers: Brokers, tolerate: bool) -> None:
    """Librdkafka's producer ends in a thread of its own; the next record may meet that before its reports do. # I1"""
    brokers.refuses = KafkaError._FATAL  # noqa: SLF001 - librdkafka's local codes are spelled so
    sender = Sender(brokers, context_headers=[], ensure_topics=lambda topics: None, on_error=lambda error: None, tolerate=tolerate)  # type: ignore[arg-type]
    ledger = Ledger()

    with pytest.raises(TransientError):
        send(sender, ledger, 2)

    assert ledger.take_steps() == []


def test_acknowledgements_are_shown_by_the_topics_that_were_read_first_whatever_order_they_come_in(
    sender: Sender, brokers: Brokers
) -> None:
    tally, ledger = Tally(SystemClock(), tables_max=2), Ledger()
    for topic in ("a", "b", "c", "b"):
        batch = Batch([Segment(topic=topic, keys=[b"k"], values=[b"v"])], None, 1, 2)
        tally.batch(batch.segments, None)
        sender.send_all([(batch, ledger.enter(ledger.batches_total, 1))])
    brokers.acknowledge(3)
    sender.serve(0)
    brokers.acknowledge(2, 4, 1)
    sender.serve(0)

    read = {name.partition("|")[2]: count for name, count in tally.numbers().items() if name.startswith("topic_records_total|")}
    assert sender.acknowledged_of(read.keys()) == read == {"a": 1, "b": 2, "other": 1}
    assert sender.acknowledged_of([]) == {}


def test_nothing_of_an_ended_run_reaches_kafka_after_it(kafka: Kafka) -> None:
    """A topic that is missing holds the records back in the producer until the run has ended."""
    topic, settings = f"ended-{uuid.uuid4().hex[:8]}", {"bootstrap.servers": kafka.bootstrap}
    waiting = {**settings, "allow.auto.create.topics": False, "topic.metadata.refresh.interval.ms": 100}
    producer = record_producer("ended", waiting)
    ended = Sender(producer, context_headers=[], ensure_topics=lambda topics: None, on_error=lambda error: None)
    ended.send_all([(Batch([Segment(topic=topic, keys=[b"k"], values=[b"of the ended run"])], None, 1, 10), Ledger().enter(1, 1))])
    assert len(producer)

    ended.close()

    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    until(lambda: not len(producer))
    after = Producer(settings)
    after.produce(topic, b"of the next run")
    assert not after.flush(60)
    consumer = Consumer({**settings, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        message = consumer.consume(1, timeout=60)[0]
        assert (message.offset(), message.value()) == (0, b"of the next run")
    finally:
        consumer.close()
