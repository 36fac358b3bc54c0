"""When what was handed to the producer is pushed out: at once, but never beside a push that is not acknowledged yet."""

from __future__ import annotations

from typing import Any

import pytest
from dblog.core.ledger import Ledger
from dblog.model import Batch, Segment
from dblog.runtime.sender import GATHER_BYTES_MAX, Sender


class Brokers:
    """A producer whose acknowledgements come when the test says so; it notes every push, with what had been handed over by then."""

    def __init__(self) -> None:
        self.handed: dict[int, int] = {}
        self.pushes: list[int] = []
        self._due: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(self.handed.values())

    def produce(
        self, topic: str, partition: int, keys: list[Any], values: list[Any], start: int, stop: int, with_headers: bool, tag: int
    ) -> tuple[int, int]:
        self.handed[tag] = self.handed.get(tag, 0) + stop - start
        return stop, 0

    def serve(self, timeout_ms: int) -> tuple[dict[int, int], list[Any], list[Any]]:
        due, self._due = self._due, {}
        return due, [], []

    def flush(self, timeout_ms: int) -> None:
        self.pushes.append(sum(self.handed.values()))

    def acknowledge(self, *tags: int) -> None:
        self._due = {tag: self.handed.pop(tag) for tag in tags}


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def sender(brokers: Brokers) -> Sender:
    return Sender(brokers, context_headers=[], ensure_topic=lambda topic: None, on_error=lambda error: None)  # type: ignore[arg-type]


def send(sender: Sender, ledger: Ledger, records: int, size_bytes: int = 10) -> None:
    segment = Segment(topic="t", keys=[b"k"] * records, values=[b"v"] * records)
    batch = Batch([segment], None, records, size_bytes)
    sender.send_all([(batch, ledger.enter(None, records))])


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
