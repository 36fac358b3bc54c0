"""Which dump thread reads which table: each table one thread at a time, and none is forgotten. # I3"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from dblog.clock import SystemClock
from dblog.core.dumps import dump_of
from dblog.core.watermark import Windows
from dblog.model import TableId
from dblog.readers.binlog_task import BinlogTask
from dblog.readers.interleaved import ChunkRead, Interleaver
from dblog.readers.queue import BlockingQueue
from support.follower import Follower

ORDERS = TableId("shop", "orders")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> BinlogTask:
    """A task that is not connected, with a dump of one table."""
    nowhere: Any = SimpleNamespace(flavor="mysql", host="nowhere", port=1, user="u", password="p")
    task = Follower(nowhere, "shop").task
    windows: Windows[ChunkRead] = Windows(run="run", keys_max=10)
    task._interleaver = Interleaver(
        windows=windows,
        queue=BlockingQueue(records_max=10, bytes_max=0),
        clock=SystemClock(),
        encoder_of=lambda _: None,
        marker_segment=lambda _: None,
        run="run",
    )
    task._interleaver.change_dump(lambda _: dump_of("d", [ORDERS]))
    task._schemas = Mock()
    monkeypatch.setattr(task, "_start_chunk_readers", lambda: None)
    return task


def test_a_table_that_is_dumped_again_waits_for_the_reader_that_is_not_through_with_it(task: BinlogTask) -> None:
    """It has read the table to its end, and does not know yet that there is more."""
    interleaver: Any = task._interleaver
    assert task._next_table(0) == ORDERS
    interleaver.change_dump(lambda d: d.started(ORDERS, key=("id",), upto=(1,)).advanced(ORDERS, after=(1,), rows=1, done=True))

    task._dump_again({ORDERS: "a column was added"})

    assert task._next_table(1) is None
    task._put_back(ORDERS)
    assert task._next_table(0) == ORDERS


def test_a_table_that_took_another_s_name_waits_for_the_reader_that_is_not_through_with_it(task: BinlogTask) -> None:
    interleaver: Any = task._interleaver
    new = TableId("shop", "orders_new")
    task._selection = Mock(includes=lambda _: True)
    assert task._next_table(0) == ORDERS
    interleaver.change_dump(lambda d: d.dropped(ORDERS))

    task._renamed([(new, ORDERS)])

    assert task._next_table(1) is None
    task._put_back(ORDERS)
    assert task._next_table(0) == ORDERS
