"""The queue is bounded whatever comes, and nothing waits for ever. # I6"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from dblog.errors import TransientError
from dblog.model import Batch
from dblog.readers.queue import BlockingQueue, QueueClosedError


def batch(records: int, size_bytes: int = 1) -> Batch:
    return Batch([], None, records, size_bytes)


class Putter:
    """A thread that puts; ``done`` is set when it got through."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self.error = e
        self.done.set()


def test_a_full_queue_makes_the_reader_wait_until_there_is_room() -> None:
    queue = BlockingQueue(records_max=10, bytes_max=0)
    queue.put(batch(10))
    putter = Putter(lambda: queue.put(batch(1)))

    assert not putter.done.wait(0.05)
    taken = queue.poll(timeout_s=1, records_max=10, bytes_max=1 << 20)

    assert len(taken) == 1
    assert putter.done.wait(5)
    assert queue.records_total == 1


def test_the_byte_limit_holds_as_well() -> None:
    queue = BlockingQueue(records_max=1000, bytes_max=100)
    queue.put(batch(1, 60))
    putter = Putter(lambda: queue.put(batch(1, 60)))

    assert not putter.done.wait(0.05)
    queue.poll(timeout_s=1, records_max=10, bytes_max=1 << 20)

    assert putter.done.wait(5)
    assert queue.bytes_total == 60


def test_a_batch_larger_than_the_queue_passes_when_the_queue_is_empty() -> None:
    queue = BlockingQueue(records_max=3, bytes_max=10)
    queue.put(batch(500, 10_000))

    assert [b.records_total for b in queue.poll(timeout_s=1, records_max=1, bytes_max=1 << 20)] == [500]


def test_poll_gives_whole_batches_up_to_the_maximum_and_at_least_one() -> None:
    queue = BlockingQueue(records_max=100, bytes_max=0)
    for _ in range(3):
        queue.put(batch(4))

    assert len(queue.poll(timeout_s=1, records_max=8, bytes_max=1 << 20)) == 2
    assert len(queue.poll(timeout_s=1, records_max=1, bytes_max=1 << 20)) == 1
    assert queue.poll(timeout_s=0.01, records_max=1, bytes_max=1 << 20) == []


def test_poll_takes_no_more_bytes_than_it_may_but_one_batch_whatever_its_size() -> None:
    queue = BlockingQueue(records_max=100, bytes_max=0)
    for _ in range(4):
        queue.put(batch(1, 40))

    assert len(queue.poll(timeout_s=1, records_max=100, bytes_max=80)) == 2
    assert len(queue.poll(timeout_s=1, records_max=100, bytes_max=79)) == 1
    assert len(queue.poll(timeout_s=1, records_max=100, bytes_max=1)) == 1
    assert queue.bytes_total == 0


def test_an_error_surfaces_after_what_was_put_before_it() -> None:
    queue = BlockingQueue(records_max=100, bytes_max=0)
    queue.put(batch(1))
    queue.fail(TransientError("first"))
    queue.fail(TransientError("second"))

    assert len(queue.poll(timeout_s=1, records_max=8, bytes_max=1 << 20)) == 1
    with pytest.raises(TransientError, match="first"):
        queue.poll(timeout_s=1, records_max=8, bytes_max=1 << 20)


def test_closing_frees_a_waiting_reader() -> None:
    queue = BlockingQueue(records_max=1, bytes_max=0)
    queue.put(batch(1))
    putter = Putter(lambda: queue.put(batch(1)))

    queue.close()

    assert putter.done.wait(5)
    assert isinstance(putter.error, QueueClosedError)
