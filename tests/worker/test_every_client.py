"""Every client of the brokers that lives longer than one call: what becomes of it when it stalls, and of an acknowledgement without an offset.

A client stalls when the brokers answer and its own requests do not: it has to be replaced, and somebody told. The table in docs/cluster.md lists all of them, and
the last test here holds the list to the source.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dblog
import dblog.kafka.fenced
import dblog.kafka.log
import dblog.kafka.writer
import dblog.readers.log.history_topic
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.errors import TransientError
from dblog.kafka.fenced import FencedWriter
from dblog.kafka.log import CompactedLog
from dblog.kafka.producer import offset_writer
from dblog.kafka.writer import Write
from dblog.readers.log.history_topic import KafkaHistoryLog
from dblog.runtime.offsets import OffsetWriter
from dblog.runtime.stop import Stop
from stack import Kafka
from structlog.testing import capture_logs
from support.standing_consumers import StandingProducer, standing_consumers, standing_producers
from support.worker import until

LIMIT_S = 120


class Offsets:
    """A task's producer of offsets. A run replaces it: runtime/test_supervisor.py has that."""

    module = dblog.kafka.writer

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._made = lambda: OffsetWriter(
            offset_writer(topic, "c", {"bootstrap.servers": kafka.bootstrap}),
            connector="c",
            partition={"server": "p"},
            timeout_s=2,
            stop=Stop(),
        )
        self._writer = self._made()

    def write(self, value: str) -> None:
        assert self._writer.write({"value": value})

    def heal(self) -> None:
        self._writer.close()
        self._writer = self._made()

    def close(self) -> None:
        self._writer.close()


class History:
    """The schema history's."""

    module = dblog.kafka.writer

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, topic, request_timeout_s=1)

    def write(self, value: str) -> None:
        self._log.write([(b"k", value.encode())])

    def heal(self) -> None:
        """It has replaced its producer by itself."""

    def close(self) -> None:
        self._log.close()


class Compacted:
    """That of the worker's topics: configuration, offsets, status, requests of dumps, schemas."""

    module = dblog.kafka.writer

    def __init__(self, kafka: Kafka, topic: str) -> None:
        client = {"bootstrap.servers": kafka.bootstrap}
        self._log = CompactedLog(
            topic=topic, consumer_settings=client, producer_settings={**client, "delivery.timeout.ms": "3000"}, admin_settings=client
        )
        self._log.start(limit_s=LIMIT_S)

    def write(self, value: str) -> None:
        self._log.put(b"k", value.encode(), limit_s=6)

    def heal(self) -> None:
        """Wait until it has replaced its producer, which it does once the brokers have answered for a while."""

        def works() -> bool:
            try:
                self._log.put(b"k", b"healed", limit_s=6)
            except TransientError:
                return False
            return True

        until(works)

    def close(self) -> None:
        self._log.stop()


class Fenced:
    """That of a topic with several writers, in transactions."""

    module = dblog.kafka.fenced

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._writer = FencedWriter(topic, {"bootstrap.servers": kafka.bootstrap})

    def write(self, value: str) -> None:
        self._writer.take(limit_s=LIMIT_S)
        self._writer.write([Write(b"k", value.encode())], limit_s=3)

    def heal(self) -> None:
        """Who could not write takes the topic again, with another producer."""

    def close(self) -> None:
        self._writer.close()


WRITERS: list[Any] = [Offsets, History, Compacted, Fenced]


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"clients-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})])[name].result(30)
    return name


@pytest.fixture(params=WRITERS, ids=lambda kind: kind.__name__.lower())
def writing(
    request: pytest.FixtureRequest, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, list[StandingProducer]]]:
    """A writer of each kind, and the producers that it has made."""
    monkeypatch.setattr(dblog.kafka.log, "_ASKED_S", 0.1)
    monkeypatch.setattr(dblog.kafka.log, "_UNREPORTED_S", 1.0)
    made = standing_producers(monkeypatch, request.param.module)
    writer = request.param(kafka, topic)
    yield writer, made
    writer.close()


def values(kafka: Kafka, topic: str) -> list[bytes | None]:
    """What the topic holds now, oldest first."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": "read_committed"})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        deadline_s = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline_s:
            if (message := consumer.poll(0.2)) is not None and message.error() is None:
                found.append(message.value())
            if consumer.position([TopicPartition(topic, 0)])[0].offset >= end:
                return found
        raise AssertionError(f"the topic was not read to its end: {found}")
    finally:
        consumer.close()


def test_a_writer_that_stalls_fails_in_time_and_another_producer_writes_on(
    writing: tuple[Any, list[StandingProducer]], kafka: Kafka, topic: str
) -> None:
    writer, producers = writing
    writer.write("first")
    stalled = len(producers)
    for producer in producers:
        producer.stands_still.set()

    with pytest.raises(TransientError):
        writer.write("second")
    writer.heal()
    writer.write("third")

    assert len(producers) > stalled
    found = values(kafka, topic)
    assert b"third" in (found[-1] or b"")
    assert not any(b"second" in (value or b"") for value in found)


def test_an_acknowledgement_without_an_offset_is_a_failure_that_passes(writing: tuple[Any, list[StandingProducer]]) -> None:
    writer, producers = writing
    writer.write("first")
    for producer in producers:
        producer.proves_nothing.set()

    with pytest.raises(TransientError):
        writer.write("second")
    for producer in producers:
        producer.proves_nothing.clear()
    writer.write("third")


def test_the_history_says_that_its_producer_was_replaced(kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = standing_producers(monkeypatch, dblog.kafka.writer)
    history = History(kafka, topic)
    history.write("first")
    made[0].stands_still.set()

    with capture_logs() as lines, pytest.raises(TransientError, match=topic):
        history.write("second")

    assert [line["topic"] for line in lines if "the writer of a topic stalled" in line["event"]] == [topic]


def test_a_reader_of_the_history_that_stalls_is_given_up_and_the_next_one_reads_all(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, topic, idle_timeout_s=1)
    log.write([(b"k%d" % number, b"v") for number in range(3000)])
    with monkeypatch.context() as patch:
        readers = standing_consumers(patch, dblog.readers.log.history_topic, partitions=set())
        reading = log.read()
        next(reading)
        readers[0].pause(readers[0].assignment())
        with pytest.raises(TransientError, match="gave nothing"):
            list(reading)

    assert len(list(log.read())) == 3000


def test_each_place_that_makes_a_client_is_in_the_table() -> None:
    source = Path(dblog.__file__).parent
    makes = re.compile(r"(?<!\w)(?:Producer|Consumer|AdminClient|BatchProducer)\(\s*(?!BaseException)")
    places = {str(path.relative_to(source)) for path in source.rglob("*.py") if makes.search(path.read_text())}
    table = (source.parents[1] / "docs" / "cluster.md").read_text()

    assert {place for place in places if f"`{place}" not in table} == set()
