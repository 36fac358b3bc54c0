"""The task process over a real broker: what it sends, what it commits, and what it reports to its herder. # I1"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dblog.kafka.writer
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.core.dumprequests import DumpRequest, parse_request
from dblog.core.requested import NoRoomError, NoTableError
from dblog.errors import DefiniteError, PositionLostError, TransientError
from dblog.kafka.producer import record_producer
from dblog.model import Batch, Headers, OffsetMap, Segment
from dblog.observe.logs import TABLE
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.start import LOST_POSITION
from dblog.runtime import supervisor, unacknowledged
from dblog.runtime.control import Control
from dblog.runtime.offsets import OffsetNotStoredError, OffsetWriter
from dblog.runtime.sender import Sender
from dblog.runtime.stop import LIMIT_S, Stop
from dblog.runtime.supervisor import StartOrder, Supervisor, why_away
from stack import Kafka
from support.servers import started
from support.standing_consumers import standing_producers

TIMEOUT_S = 120.0


class Count:
    """The fold of a task whose steps are numbers."""

    def __init__(self) -> None:
        self.last = 0

    def advance(self, step: object) -> None:
        assert isinstance(step, int)
        assert step == self.last + 1, "steps arrive in order, none left out"
        self.last = step

    def offset(self) -> OffsetMap:
        return {"n": self.last}


class CountingTask:
    """A source of numbers: batch n holds one record; ``script`` may raise at a number, or hold back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partition = {"server": "p"}
        self.fold = Count()
        self.context_headers: Headers = [("context", b"yes")]
        self.next = 1
        self.stopped = 0
        self.committed: list[OffsetMap] = []
        self.left: list[list[OffsetMap]] = []

    @property
    def desk(self) -> Any:
        return self.world.desk

    def start(self, offset: OffsetMap | None) -> None:
        self.world.starts.append(offset)
        assert self.world.may_start.wait(TIMEOUT_S)
        if self.world.start_errors:
            raise self.world.start_errors.pop(0)
        if self.world.begins_at is not None:
            offset = {"n": self.world.begins_at}
        if offset is not None:
            assert isinstance(offset["n"], int)
            self.next = offset["n"] + 1
            self.fold.last = offset["n"]

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        del records_max
        if self.next == self.world.stops_at:
            self.world.send(type="stop")
            until(self.world.stop_order.ordered)
        error = self.world.poll_errors.pop(self.next, None)
        if error is not None:
            raise error
        if self.next > self.world.upto:
            threading.Event().wait(timeout_s)
            return []
        n = self.next
        self.next += 1
        value = random.randbytes(self.world.large_bytes) if n == self.world.large_at else None if n % 5 == 0 else b"v%d" % n
        if value is not None:
            value += random.randbytes(max(0, self.world.value_bytes - len(value)))  # which no compression makes smaller
        segment = Segment(self.world.topic, [b"k%d" % n], [value])
        return [Batch([segment], n, 1, 2, self.world.source_ts_us)]

    def commit(self, offset: OffsetMap) -> None:
        self.committed.append(offset)

    def stop(self) -> None:
        self.stopped += 1

    def leave(self) -> None:
        self.left.append(list(self.committed))

    def metrics(self) -> dict[str, float]:
        return {"next": float(self.next), **self.world.numbers}

    def take_topics_ahead(self) -> list[str]:
        return []

    def waits_for(self) -> str | None:
        return self.world.waits


class World:
    """A supervisor on a thread, its herder's end of the channel, and the topics it writes."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        name = uuid.uuid4().hex[:8]
        self.topic = f"numbers-{name}"
        self.offset_topic = f"offsets-{name}"
        self.upto = 20
        self.large_at: int | None = None
        self.large_bytes = 5000
        self.value_bytes = 0
        self.waits: str | None = None
        self.desk: Any = None
        self.source_ts_us: int | None = None
        self.numbers: dict[str, float] = {}
        self.may_start = threading.Event()
        self.may_start.set()
        self.begins_at: int | None = None
        """Where runs begin, whatever offset they are given: as after a position that is lost."""
        self.stops_at: int | None = None
        """The number whose poll orders the task to stop before it returns the record."""
        self.starts: list[OffsetMap | None] = []
        self.dumps: list[Sequence[DumpRequest]] = []
        self.start_errors: list[Exception] = []
        self.poll_errors: dict[int, Exception] = {}
        self.tasks: list[CountingTask] = []
        self.warnings: list[StandingWarnings] = []
        self.warned_at_start: dict[str, str] = {}
        self.reported: queue.Queue[dict[str, Any]] = queue.Queue()
        self.exit_code: int | None = None
        self._mine, theirs = socket.socketpair()
        self.stop_order = Stop(end=lambda status: None)  # it is the tests' process that would end
        self._control = Control(theirs.detach(), self.stop_order)
        self._thread = threading.Thread(target=self._run, daemon=True)
        threading.Thread(target=self._listen, daemon=True).start()

    def _run(self) -> None:
        def factory(order: StartOrder) -> CountingTask:
            self.warnings.append(order.warnings)
            self.dumps.append(order.dumps)
            for key, text in self.warned_at_start.items():
                order.warnings.raise_warning(key, text)
            task = CountingTask(self)
            self.tasks.append(task)
            return task

        self.exit_code = Supervisor(self._control, factory).run()

    def _listen(self) -> None:
        for line in self._mine.makefile():
            self.reported.put(json.loads(line))

    def start(self, *, offsets: list[dict[str, Any]] | None = None, worker: dict[str, str] | None = None, **config: str) -> None:
        settings = {
            "bootstrap.servers": self.kafka.bootstrap,
            "group.id": "g",
            "config.storage.topic": "unused-config",
            "status.storage.topic": "unused-status",
            "offset.storage.topic": self.offset_topic,
            "offset.flush.interval.ms": "200",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **(worker or {}),
        }
        self._thread.start()
        self.send(type="start", connector="c", task=0, config={"topic.prefix": "p", **config}, worker=settings, offsets=offsets or [])

    def send(self, **message: Any) -> None:
        self._mine.sendall(json.dumps(message).encode() + b"\n")

    def wait_state(self, state: str) -> dict[str, Any]:
        """The next message about that state."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if message["type"] == "state" and message["state"] == state:
                return message

    def wait_warnings(self) -> list[str]:
        """The next list of warnings."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if message["type"] == "warnings":
                return list(message["warnings"])

    def wait_answer(self, call: int) -> dict[str, Any]:
        """What a call is answered."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if message.get("call") == call:
                return message

    def wait_sent(self, records: int, *, outstanding: int) -> None:
        """The next numbers that a condition holds for."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if message["type"] == "metrics":
                values = message["values"]
                if (values.get("records_sent_total"), values.get("records_outstanding")) == (records, outstanding):
                    return

    def wait_number(self, name: str, holds: Callable[[float], bool]) -> dict[str, float]:
        """The next numbers with this one, of which that is true."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            assert message["type"] != "state" or message["state"] != "FAILED", message
            if message["type"] == "metrics" and name in message["values"] and holds(message["values"][name]):
                return dict(message["values"])

    def wait_lag(self, *, above_ms: float) -> float:
        """The next lag above that."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            message = self.reported.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if message["type"] == "metrics" and message["values"].get("lag_ms", 0.0) > above_ms:
                return float(message["values"]["lag_ms"])

    def stop(self) -> None:
        if self.exit_code is None:
            self.send(type="stop")
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def records(self, topic: str, count: int) -> list[Any]:
        """That many messages from the topic's beginning."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[Any] = []
            deadline_s = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline_s:
                found += [m for m in consumer.consume(count - len(found), timeout=0.5) if m.error() is None]
            return found
        finally:
            consumer.close()

    def all_records(self, topic: str) -> list[Any]:
        """Every message of the topic, which is written no more."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": uuid.uuid4().hex})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return self.records(topic, end)

    def unbroken(self) -> int:
        """Return the number up to which the topic has every record."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": uuid.uuid4().hex})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=TIMEOUT_S)
        finally:
            consumer.close()
        found = {m.key() for m in self.records(self.topic, end)}
        return next(n for n in range(len(found) + 1) if b"k%d" % (n + 1) not in found)

    def stored(self) -> list[int]:
        """Every offset written so far, in order, until the last one is ``upto``'s."""
        seen: list[int] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        while not seen or seen[-1] < self.upto:
            assert time.monotonic() < deadline_s, f"the offset stands at {seen[-1:]}"
            seen = [json.loads(m.value())["n"] for m in self.records(self.offset_topic, len(seen) + 1)]
        return seen


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a limit."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never became true"
        threading.Event().wait(0.02)


@pytest.fixture
def world(kafka: Kafka) -> Iterator[World]:
    made = World(kafka)
    yield made
    made.stop()


def test_warnings_are_reported_when_they_change_and_an_empty_list_once_the_task_runs(world: World) -> None:
    world.start()
    assert world.wait_warnings() == []

    world.warnings[0].raise_warning("a", "table b\udcff is not published")
    assert world.wait_warnings() == ["table b\\udcff is not published"]

    world.warnings[0].withdraw("a")
    assert world.wait_warnings() == []


def test_warnings_of_a_run_stand_while_the_next_one_starts_and_give_way_to_its_own(world: World) -> None:
    world.start(**{"errors.max.retries": "-1"})
    assert world.wait_warnings() == []
    world.warnings[0].raise_warning("lasting", "lost", lasting=True)
    world.warnings[0].raise_warning("a", "of the first run")
    until(lambda: "of the first run" in world.wait_warnings())
    world.may_start.clear()
    world.warned_at_start = {"b": "of the second run"}

    world.poll_errors[world.upto + 1] = TransientError("gone")
    world.upto += 1
    until(lambda: len(world.warnings) == 2)
    world.may_start.set()

    assert world.wait_warnings() == ["lost", "of the second run"]


def test_records_and_tombstones_arrive_with_context_headers_and_the_offset_follows(world: World) -> None:
    world.start()
    world.wait_state("RUNNING")

    records = world.records(world.topic, 20)

    assert [m.key() for m in records] == [b"k%d" % n for n in range(1, 21)]
    assert [m.value() for m in records[3:6]] == [b"v4", None, b"v6"]
    assert records[0].headers() == [("context", b"yes")]
    offsets = world.stored()
    assert offsets == sorted(offsets)
    assert offsets[-1] == 20
    assert world.records(world.offset_topic, 1)[0].key() == b'["c",{"server":"p"}]'


def test_a_request_that_cannot_be_carried_out_is_answered_with_the_status_of_what_is_wrong(world: World) -> None:
    errors = {404: NoTableError("none"), 409: NoRoomError("full"), 400: DefiniteError("wrong"), 503: TransientError("later")}
    world.desk = Mock(check=Mock(side_effect=errors.values()), statuses=list)
    world.start()
    world.wait_state("RUNNING")
    request = parse_request({"tables": ["a.b"]}, id="0" * 12, connector="c", created_ms=1, requested_by="rest").to_json()

    for status, error in errors.items():
        world.send(type="dump_check", call=status, request=request)
        answer = world.wait_answer(status)
        assert answer["error"]["status"] == status
        assert str(error) in answer["error"]["message"]


def test_an_older_revision_of_a_dumps_request_never_replaces_a_younger_one(world: World) -> None:
    """A dump that was paused or stopped would go on."""
    world.desk = Mock(statuses=list)
    first = parse_request({"tables": ["a.b"]}, id="0" * 12, connector="c", created_ms=1, requested_by="rest")
    second = replace(first, revision=first.revision + 1)
    world.start(**{"retriable.restart.connector.wait.ms": "1"})
    world.wait_state("RUNNING")

    for request in (second, first):
        world.send(type="dump", request=request.to_json())
    world.send(type="dump_forget", id="another")
    until(lambda: world.desk.forget.called)

    assert [call.args for call in world.desk.take.call_args_list] == [(second,)]
    world.poll_errors[21] = TransientError("the database went away")
    world.upto = 21
    until(lambda: len(world.dumps) == 2)
    assert world.dumps[1] == [second]


def test_where_a_first_run_begins_is_stored_before_anything_is_sent(world: World) -> None:
    world.upto = 0
    world.start()
    world.wait_state("RUNNING")

    assert world.stored() == [0]


def test_a_run_that_begins_elsewhere_than_it_was_given_stores_that_before_anything_is_sent(world: World) -> None:
    """As after a lost position: a kill before the next offset would leave the lost one to the next start. # I3"""
    world.begins_at = world.upto = 5
    world.start(offsets=[{"partition": {"server": "p"}, "offset": {"n": 3}}])
    world.wait_state("RUNNING")

    assert world.starts == [{"n": 3}]
    assert world.stored() == [5]


def test_what_cannot_be_stored_at_the_start_sends_nothing(world: World) -> None:
    world.start(**{"offsets.storage.topic": "not a topic's name", "dblog.retry.timeout.ms": "500"})

    failed = world.wait_state("FAILED")

    assert "the offset could not be written to topic not a topic's name" in failed["trace"]
    assert all(task.next == 1 for task in world.tasks)


def test_a_stored_offset_is_handed_to_the_task(world: World) -> None:
    world.start(offsets=[{"partition": {"server": "other"}, "offset": {"n": 3}}, {"partition": {"server": "p"}, "offset": {"n": 15}}])

    assert [m.key() for m in world.records(world.topic, 5)] == [b"k%d" % n for n in range(16, 21)]
    assert world.starts == [{"n": 15}]


def test_a_transient_error_starts_the_task_again_where_its_records_are_stored(world: World) -> None:
    world.poll_errors[11] = TransientError("the database went away")
    world.start()

    records = world.records(world.topic, 20)

    assert [m.key() for m in records] == [b"k%d" % n for n in range(1, 21)]
    assert world.starts == [None, {"n": 10}]
    assert world.tasks[0].stopped == 1


def test_what_an_ended_run_has_not_sent_and_stored_is_discarded_before_the_next_one_starts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records and its offset would come after those of the next run. # I2"""
    closed: list[str] = []
    for kind in (Sender, OffsetWriter):

        def close(this: Any, *, name: str = kind.__name__, close: Callable[[Any], None] = kind.close) -> None:
            closed.append(name)
            close(this)

        monkeypatch.setattr(kind, "close", close)
    world.poll_errors[11] = TransientError("the database went away")
    world.start(**{"errors.max.retries": "-1", "retriable.restart.connector.wait.ms": "1"})

    until(lambda: len(world.starts) == 2)

    assert sorted(closed) == ["OffsetWriter", "Sender"]


@pytest.mark.parametrize("mode", ["when_needed", "always", "initial", "no_data", ""])
def test_a_position_that_one_run_finds_lost_is_left_to_the_next_start_to_check(world: World, mode: str) -> None:
    """The server may have failed to read its log for a moment. A start asks it, and dumps again where the position is lost indeed."""
    world.poll_errors[11] = PositionLostError("the server cannot send it")
    world.start(**{"errors.max.retries": "0", "retriable.restart.connector.wait.ms": "0"}, **{"snapshot.mode": mode} if mode else {})

    world.records(world.topic, 20)

    assert world.starts == [None, {"n": 10}]
    world.stop()
    assert world.stored()[-1] == 20


@pytest.mark.parametrize("mode", ["when_needed", "always"])
def test_a_position_that_runs_find_lost_again_and_again_is_a_start_that_knows_it(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The starts in between have found nothing: only reading shows it, and only a dump ends it."""
    monkeypatch.setattr(supervisor.Supervisor, "_wait", lambda _self, _delay_s: None)
    monkeypatch.setattr(supervisor, "LOSSES_S", 0.0)
    errors = [PositionLostError("the server cannot send it") for _ in range(supervisor.LOSSES_MIN)]
    monkeypatch.setattr(world, "poll_errors", _Repeated(world.poll_errors, 11, errors))
    world.start(**{"snapshot.mode": mode, "errors.max.retries": "0"})

    world.records(world.topic, 20)

    assert world.starts == [None, *[{"n": 10}] * (supervisor.LOSSES_MIN - 1), {"n": 10, LOST_POSITION: "the server cannot send it"}]
    world.stop()
    assert world.stored()[-1] == 20


class _Repeated(dict[int, Exception]):
    """Errors of polls, of which that at one number comes several times."""

    def __init__(self, others: dict[int, Exception], number: int, errors: list[Exception]) -> None:
        super().__init__(others)
        self._number = number
        self._errors = errors

    def pop(self, number: int, default: Exception | None = None) -> Exception | None:  # type: ignore[override]
        """Return the next error of this poll."""
        return self._errors.pop() if number == self._number and self._errors else super().pop(number, default)


@pytest.mark.parametrize("mode", ["initial", "no_data", ""])
def test_a_position_that_runs_find_lost_again_and_again_fails_the_task_where_a_start_would_fail(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(supervisor.Supervisor, "_wait", lambda _self, _delay_s: None)
    monkeypatch.setattr(supervisor, "LOSSES_S", 0.0)
    errors = [PositionLostError("the server has purged it") for _ in range(supervisor.LOSSES_MIN)]
    monkeypatch.setattr(world, "poll_errors", _Repeated(world.poll_errors, 11, errors))
    world.start(**{"snapshot.mode": mode} if mode else {})

    assert world.wait_state("FAILED")["trace"].startswith("PositionLostError: the server has purged it")
    assert world.starts == [None, *[{"n": 10}] * (supervisor.LOSSES_MIN - 1)]


def test_records_that_the_producer_has_forgotten_are_sent_by_another_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Forgetful:
        """Takes records and keeps them, as librdkafka does with those of a partition that had no leader when it first heard of it; no trouble shows."""

        def __init__(self, producer: Any) -> None:
            self._producer = producer

        def __len__(self) -> int:
            return len(self._producer)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def serve(self, timeout_ms: int) -> tuple[dict[int, int], list[Any], list[Any]]:
            self._producer.serve(timeout_ms)
            return {}, [], []

    def first_forgets(name: str, settings: Any, headers: Any) -> Any:
        made.append(name)
        where = settings if len(made) > 1 else {**settings, "bootstrap.servers": "127.0.0.1:9"}
        producer = record_producer(name, where, headers)
        return producer if len(made) > 1 else Forgetful(producer)

    monkeypatch.setattr(supervisor, "record_producer", first_forgets)
    monkeypatch.setattr(unacknowledged, "LIMIT_S", 1.0)
    monkeypatch.setattr(unacknowledged, "AGAIN_S", 0.5)
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    for future in admin.create_topics([NewTopic(world.topic, 1, 1)]).values():
        future.result(30)

    world.start()

    assert [m.key() for m in world.records(world.topic, 20)] == [b"k%d" % n for n in range(1, 21)]
    assert (len(made), len(world.starts)) == (2, 2)


def test_offsets_whose_producer_has_stalled_are_stored_by_another_run_and_the_state_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacknowledged, "LIMIT_S", 5.0)
    monkeypatch.setattr(unacknowledged, "AGAIN_S", 0.5)
    producers = standing_producers(monkeypatch, dblog.kafka.writer)
    world.start(worker={"offset.flush.timeout.ms": "3000"})
    world.wait_state("RUNNING")
    producers[0].stands_still.set()
    world.upto = 40

    traces = []
    until(lambda: traces.append(world.wait_state("RUNNING")["trace"] or "") or "no offset has been stored since" in traces[-1])
    assert world.stored()[-1] == 40

    assert "no answer within" in traces[-1]
    assert (len(producers), len(world.starts)) == (2, 2)
    assert producers[0].kept_total == 1, "what waits is one offset, however long"


def test_an_offset_that_could_not_be_stored_is_tried_again_and_given_up_by_nobody_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses, refused, write = threading.Event(), list[OffsetMap](), OffsetWriter.write

    def refusing(writer: OffsetWriter, offset: OffsetMap) -> bool:
        if refuses.is_set():
            refused.append(offset)
            message = "the broker is not ready"
            raise OffsetNotStoredError(message, stalls=False)
        return write(writer, offset)

    monkeypatch.setattr(OffsetWriter, "write", refusing)
    world.start()
    assert world.stored()[-1] == 20
    refuses.set()
    world.upto = 40

    until(lambda: refused.count({"n": 40}) > 1)
    assert {"n": 40} not in world.tasks[0].committed, "the database may forget only what is stored"

    refuses.clear()
    assert world.stored()[-1] == 40
    until(lambda: world.tasks[0].committed[-1] == {"n": 40})


def test_an_offset_that_is_confirmed_late_is_all_that_the_database_may_forget_and_where_the_next_run_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's slot moves up to a confirmed offset: it gives nothing older, and what is younger may still be lost. # I1"""
    silent, confirmed, unanswered = threading.Event(), threading.Event(), list[OffsetMap]()
    write, stored_late = OffsetWriter.write, OffsetWriter.stored_late

    def written(writer: OffsetWriter, offset: OffsetMap) -> bool:
        if silent.is_set():
            unanswered.append(offset)
            message = "no answer"
            raise OffsetNotStoredError(message, stalls=True)
        return write(writer, offset)

    def answered(writer: OffsetWriter) -> OffsetMap | None:
        if silent.is_set():
            return {"n": 20} if confirmed.is_set() else None
        return stored_late(writer)

    monkeypatch.setattr(OffsetWriter, "write", written)
    monkeypatch.setattr(OffsetWriter, "stored_late", answered)
    world.upto = 0
    world.start(**{"retriable.restart.connector.wait.ms": "1"})
    world.wait_state("RUNNING")
    silent.set()
    for upto in (20, 40):
        world.upto = upto
        until(lambda: {"n": world.upto} in unanswered)

    confirmed.set()

    (task,) = world.tasks
    until(lambda: task.committed[1:] != [])
    assert task.committed[1] == {"n": 20}
    assert {"n": 40} not in task.committed
    world.poll_errors[41] = TransientError("the database went away")
    world.upto = 41
    until(lambda: len(world.starts) > 1)
    assert world.starts[1] == {"n": 20}
    silent.clear()


def test_a_definite_error_is_failed_with_its_sentence_and_what_was_sent_is_committed(world: World) -> None:
    world.poll_errors[8] = DefiniteError("shop.orders cannot be decoded at binlog.000001:4; do this")
    world.start()

    failed = world.wait_state("FAILED")

    assert failed["trace"].startswith("DefiniteError: shop.orders cannot be decoded at binlog.000001:4; do this")
    assert "Traceback" not in failed["trace"]
    world.upto = 7
    assert world.stored()[-1] == 7
    until(lambda: world.exit_code == 1)


def test_a_bug_is_failed_with_its_trace(world: World) -> None:
    world.poll_errors[1] = AssertionError("two and two")
    world.start()

    failed = world.wait_state("FAILED")

    assert "bug in dblog" in failed["trace"]
    assert "two and two" in failed["trace"]


def test_a_name_that_is_no_unicode_and_a_list_without_end_are_reported_as_a_text_that_can_be_stored(world: World) -> None:
    name = b"b\xff".decode(errors="surrogateescape")
    world.poll_errors[1] = DefiniteError(f"the column {name} is unknown: " + "x" * 20_000_000)
    world.start()

    failed = world.wait_state("FAILED")

    assert "the column b\\udcff is unknown" in failed["trace"]
    assert len(failed["trace"].encode()) < 2_000_000


def test_a_bug_that_recurses_is_failed_with_the_beginning_and_the_end_of_its_trace(world: World) -> None:
    def even() -> None:
        odd()

    def odd() -> None:
        even()

    with pytest.raises(RecursionError) as recursion:
        even()
    world.poll_errors[1] = recursion.value
    world.start()

    failed = world.wait_state("FAILED")

    assert "maximum recursion depth" in failed["trace"]
    assert failed["trace"].count("\n") < 130


def test_trying_again_ends_after_the_retry_timeout(world: World) -> None:
    world.start_errors = [TransientError("the registry is away")] * 100
    world.start(**{"dblog.retry.timeout.ms": "500"})

    failed = world.wait_state("FAILED")

    assert "gave up after" in failed["trace"]
    assert "the registry is away" in failed["trace"]
    assert len(world.starts) >= 2


def test_losses_with_stored_records_in_between_are_no_series(world: World) -> None:
    world.poll_errors = {n: TransientError("the database is away") for n in (5, 9, 14)}
    world.start(**{"errors.max.retries": "1", "retriable.restart.connector.wait.ms": "1"})

    records = world.records(world.topic, 20)

    assert [m.key() for m in records] == [b"k%d" % n for n in range(1, 21)]
    assert world.starts == [None, {"n": 4}, {"n": 8}, {"n": 13}]


def test_what_is_waited_for_is_reported_beside_the_state_and_never_abandoned(world: World) -> None:
    """More failures than any default limit in time would allow come here at once; the state is UNASSIGNED until the task has run."""
    world.start_errors = [
        TransientError("the registry is away"),
        TransientError("the registry is away"),
        TransientError("the database is away"),
    ]
    world.start()

    assert world.wait_state("UNASSIGNED")["trace"] == "trying again: the registry is away"
    assert world.wait_state("UNASSIGNED")["trace"] == "trying again: the database is away"
    assert world.wait_state("RUNNING")["trace"] is None

    world.waits = "the log is not read: the database is away"
    assert world.wait_state("RUNNING")["trace"] == world.waits
    world.waits = None
    assert world.wait_state("RUNNING")["trace"] is None
    assert len(world.tasks) == 4


def test_a_start_that_hangs_reports_numbers_meanwhile(world: World) -> None:
    world.may_start.clear()
    world.start()

    first = world.wait_number("starting_seconds", lambda seconds: seconds > 0.5)
    world.wait_number("starting_seconds", lambda seconds: seconds > first["starting_seconds"])
    assert first["stalled_seconds"] < 1
    world.may_start.set()

    assert world.wait_number("records_sent_total", lambda count: count == 20)["starting_seconds"] == 0


@pytest.mark.parametrize("named", ["this", "another", None])
def test_what_is_acknowledged_is_counted_for_the_topics_that_what_is_read_is_counted_for(world: World, named: str | None) -> None:
    if named is not None:
        world.numbers = {f"topic_records_total|{world.topic if named == 'this' else named}": 20.0}
    world.start()

    numbers = world.wait_number("records_acknowledged_total", lambda count: count == 20)

    shown = {name.partition("|")[2]: count for name, count in numbers.items() if name.startswith("topic_records_acknowledged_total|")}
    assert shown == ({} if named is None else {world.topic if named == "this" else "other": 20.0})


def test_lag_is_the_age_of_the_oldest_change_that_kafka_has_not_acknowledged(own_folder: Path) -> None:
    """Of a frozen broker nothing is heard: what was handed over before grows old."""
    with started(Kafka(own_folder)) as broker:
        world = World(broker)
        world.upto = 1
        world.source_ts_us = time.time_ns() // 1000 - 3_000_000
        world.start()
        world.wait_state("RUNNING")
        until(lambda: world.tasks[0].committed[-1:] == [{"n": 1}])
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            world.upto = 2
            first = world.wait_lag(above_ms=3_000)
            world.wait_lag(above_ms=first + 1_500)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        until(lambda: world.tasks[0].committed[-1:] == [{"n": 2}])
        world.stop()


def test_a_paused_task_sends_nothing_until_it_is_resumed(world: World) -> None:
    world.upto = 3
    world.start()
    assert len(world.records(world.topic, 3)) == 3

    world.send(type="pause")
    world.wait_state("PAUSED")
    world.upto = 6
    paused_at = world.tasks[0].next
    threading.Event().wait(0.2)
    assert world.tasks[0].next == paused_at
    world.send(type="resume")
    world.wait_state("RUNNING")

    assert [m.key() for m in world.records(world.topic, 6)][-1] == b"k6"


def test_a_pause_that_comes_while_the_task_waits_for_another_try_is_obeyed(world: World) -> None:
    world.start_errors = [TransientError("the database is away")]
    world.start(**{"retriable.restart.connector.wait.ms": "600000"})
    world.wait_state("UNASSIGNED")

    world.send(type="pause")

    assert world.wait_state("PAUSED")["trace"] == "trying again: the database is away"
    assert world.starts == [None]


def test_a_task_that_fails_after_a_pause_goes_on_from_the_offset_that_the_pause_stored(world: World) -> None:
    """PostgreSQL's slot has been confirmed up to there: an older offset would be taken for a lost position."""
    world.upto = 3
    world.start(worker={"offset.flush.interval.ms": "600000"})
    world.records(world.topic, 3)
    world.send(type="pause")
    world.wait_state("PAUSED")
    until(lambda: world.tasks[0].committed[-1:] == [{"n": 3}])

    world.poll_errors[4] = TransientError("the database has restarted meanwhile")
    world.upto = 5
    world.send(type="resume")

    assert [m.key() for m in world.records(world.topic, 5)] == [b"k%d" % n for n in range(1, 6)]
    assert world.starts == [None, {"n": 3}]


def test_a_stop_commits_what_has_been_sent(world: World) -> None:
    world.start()
    assert len(world.records(world.topic, 20)) == 20

    world.stop()

    assert world.exit_code == 0
    assert world.stored()[-1] == 20
    assert world.tasks[0].committed[-1] == {"n": 20}


def test_a_stop_waits_for_the_acknowledgement_of_what_was_just_sent(world: World) -> None:
    """More than a request's bytes, so that the brokers have not answered when the task looks at its order."""
    world.upto = world.stops_at = 1
    world.value_bytes = 900_000
    world.start(worker={"offset.flush.interval.ms": "600000"})

    assert world.stored() == [0, 1]
    world.stop()
    assert world.exit_code == 0


def test_what_others_keep_for_a_task_is_given_up_behind_an_ordered_stop_alone_once_all_is_stored(world: World) -> None:
    world.poll_errors[11] = TransientError("the database went away")
    world.start()
    assert len(world.records(world.topic, 20)) == 20

    world.stop()

    assert [task.left for task in world.tasks[:-1]] == [[]]
    assert [committed[-1] for committed in world.tasks[-1].left] == [{"n": 20}]


def test_a_task_that_fails_gives_nothing_up(world: World) -> None:
    world.poll_errors[8] = DefiniteError("shop.orders cannot be decoded")
    world.start()
    world.wait_state("FAILED")

    world.stop()

    assert [task.left for task in world.tasks] == [[]]


def test_a_stop_in_front_of_brokers_that_take_nothing_more_stores_what_they_had_acknowledged(world: World, own_folder: Path) -> None:
    """The offsets go to brokers that answer. The producer is full, and would wait for its own for ever. # I1"""
    with started(Kafka(own_folder)) as broker:
        world.upto = 3
        full = {"producer.override.bootstrap.servers": broker.bootstrap, "producer.override.queue.buffering.max.messages": "10"}
        world.start(worker={"offset.flush.interval.ms": "600000"}, **full)
        world.wait_state("RUNNING")
        world.wait_sent(3, outstanding=0)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            world.upto = 1000
            (task,) = world.tasks
            until(lambda: task.next > 13)
            began_s = time.monotonic()

            world.stop()

            assert time.monotonic() - began_s < LIMIT_S
        finally:
            os.kill(broker.pid, signal.SIGCONT)
    world.upto = 3
    assert world.stored() == [0, 3]


@pytest.mark.parametrize(("protocol", "seen"), [("SSL", "a listener without TLS"), ("SASL_PLAINTEXT", "no login at this port")])
def test_brokers_that_speak_another_protocol_are_what_a_task_waits_for(
    world: World, monkeypatch: pytest.MonkeyPatch, protocol: str, seen: str
) -> None:
    monkeypatch.setattr(supervisor, "AWAY_REPORTED_S", 0.1)
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="canary-word";'
    override = {"security.protocol": protocol, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    world.start(**{f"producer.override.{key}": text for key, text in override.items()})

    trace, until_s = "", time.monotonic() + 20
    while seen not in trace and time.monotonic() < until_s:
        trace = world.wait_state("RUNNING").get("trace") or ""

    assert trace.startswith(f"Kafka acknowledges nothing (the broker at {world.kafka.bootstrap} ")
    assert seen in trace
    assert "canary" not in trace
    world.stop()


def test_a_record_that_is_too_large_names_topic_and_remedy(world: World) -> None:
    world.start(**{"producer.override.max.request.size": "1000"})
    world.wait_state("RUNNING")
    until(lambda: bool(world.tasks))
    task = world.tasks[0]
    until(lambda: task.next == 21)
    huge = Batch([Segment(world.topic, [b"k"], [b"x" * 5000])], 21, 1, 5000)
    task.poll = lambda **_: [huge]  # type: ignore[method-assign]

    failed = world.wait_state("FAILED")

    assert world.topic in failed["trace"]
    assert "producer.override.max.request.size" in failed["trace"]
    assert failed["trace"].endswith("POST /connectors/c/restart?includeTasks=true&onlyFailed=true")


def test_a_client_setting_that_loads_code_fails_the_task_before_any_client_is_made(world: World) -> None:
    world.start(**{"producer.override.plugin.library.paths": "/x.so"})

    failed = world.wait_state("FAILED")

    assert "producer.override.plugin.library.paths: this setting of a Kafka client may not be given" in failed["trace"]
    assert not world.tasks


def test_the_override_policy_is_asked_again_when_the_task_starts(world: World) -> None:
    world.start(worker={"connector.client.config.override.policy": "None"}, **{"producer.override.linger.ms": "5"})

    failed = world.wait_state("FAILED")

    assert "The 'None' policy does not allow 'linger.ms' to be overridden" in failed["trace"]
    assert not world.tasks


def test_an_allowlist_of_the_worker_is_asked_when_the_task_starts(world: World) -> None:
    policy = {"connector.client.config.override.policy": "Allowlist", "connector.client.config.override.allowlist": "acks"}
    world.start(worker=policy, **{"producer.override.linger.ms": "5", "producer.override.acks": "all"})

    failed = world.wait_state("FAILED")

    assert "The 'Allowlist' policy does not allow 'linger.ms' to be overridden" in failed["trace"]
    assert "'acks'" not in failed["trace"]


def test_the_offset_never_passes_a_record_that_the_broker_refused(world: World) -> None:
    """The topic takes small records only, and each is a request of its own. Those after the large one must not carry the offset over it. # I1"""
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    for made in admin.create_topics([NewTopic(world.topic, 1, 1, config={"max.message.bytes": "500"})]).values():
        made.result()
    world.large_at = 10
    world.start(**{"producer.override.batch.num.messages": "1"})

    failed = world.wait_state("FAILED")

    assert f"Kafka did not take a record of {5000 + len(b'k10')} bytes for topic {world.topic}: MSG_SIZE_TOO_LARGE" in failed["trace"]
    until(lambda: world.exit_code == 1)
    (task,) = world.tasks
    assert task.committed, "the start at least"
    assert max(offset["n"] for offset in task.committed) <= world.unbroken()
    assert world.unbroken() < world.large_at


@pytest.mark.parametrize(("tolerance", "bytes_max"), [(None, 20_000), (None, 5000), ("none", 20_000), ("all", 20_000)])
def test_a_topic_that_takes_less_than_a_request_gets_every_record_that_fits(world: World, tolerance: str | None, bytes_max: int) -> None:
    """None: no record is too large, only their requests are, which Java's client would divide. With a large one, it alone is left out, or the task fails. # I5"""
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    for made in admin.create_topics([NewTopic(world.topic, 1, 1, config={"max.message.bytes": str(bytes_max)})]).values():
        made.result()
    world.upto, world.value_bytes = (300 if bytes_max > 16_384 else 40), 1000
    world.large_at, world.large_bytes = (None if tolerance is None else 150), 30_000
    world.start(**{"errors.max.retries": "0", "errors.tolerance": tolerance or "none", "producer.override.linger.ms": "100"})

    if tolerance == "none":
        failed = world.wait_state("FAILED")
        assert f"a record of {30_000 + len(b'k150')} bytes for topic {world.topic}" in failed["trace"]
    else:
        until(lambda: any("sends small requests until its task is restarted" in text for text in world.wait_warnings()))
        assert world.stored()[-1] == world.upto
        wanted = {b"k%d" % n for n in range(1, world.upto + 1)} - ({b"k150"} if tolerance else set())
        assert {m.key() for m in world.all_records(world.topic)} == wanted


def test_the_first_record_of_a_topic_is_reported_once(world: World) -> None:
    world.start()
    world.records(world.topic, 20)
    world.stop()

    reported = []
    while not world.reported.empty():
        reported.append(world.reported.get())
    assert [m["topic"] for m in reported if m["type"] == "topic"] == [world.topic]


def test_a_level_that_is_set_at_the_worker_reaches_a_running_task(world: World) -> None:  # number 17 of the worker's safety
    world.start()
    world.wait_state("RUNNING")

    world.send(type="level", logger="dblog.runtime.sender", level="DEBUG")

    until(lambda: TABLE.own().get("dblog.runtime.sender") == "DEBUG")


def test_brokers_that_restart_are_away_and_not_reported_to_want_a_login() -> None:
    closed = "b:9092/1: Disconnected: connection closed by peer (after 3207ms in state UP)"

    assert why_away(KafkaError(KafkaError._TRANSPORT, closed), None) == closed  # noqa: SLF001 - librdkafka's local codes are spelled so


def test_the_error_that_all_brokers_are_down_does_not_hide_why() -> None:
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")  # noqa: SLF001 - librdkafka's local codes are spelled so

    assert why_away(down, None) == "1/1 brokers are down"
    assert why_away(down, "connection refused") == "connection refused"
    assert why_away(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "connection refused") == "connection refused"
