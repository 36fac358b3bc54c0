"""Read-only windows over several runs on a log that nothing is written to: later chunks have later positions. # I9"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.core.watermark import Ticket
from dblog.core.window_numbers import AHEAD
from dblog.model import TableId
from dblog.readers.contract import Progress
from dblog.readers.dump.marks import MarkExchange
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import ROW_BITS, FakeProgress
from support.fake_database.follower import DATABASE, FakeFollower

ROWS = 30
T = TableId(DATABASE, "t")


@pytest.fixture
def follower() -> Iterator[FakeFollower]:
    """Of one table, in chunks of ten rows."""
    database = FakeDatabase()
    database.execute("CREATE TABLE t (id int, PRIMARY KEY (id))")
    database.insert(T, *((n,) for n in range(ROWS)))
    follower = FakeFollower(database, **{"dblog.chunk.rows": "10", "read.only": "true"})
    yield follower
    follower.task.stop()


def test_chunks_of_a_run_are_behind_those_of_one_that_was_killed_and_of_one_that_was_done(follower: FakeFollower) -> None:
    lows: list[tuple[int, int]] = []

    def marked(value: bytes) -> None:
        low, high = (json.loads(value)[name] for name in ("low", "high"))
        lows.append((low["sequence_high"], low["sequence_low"]))
        assert lows[-1] <= (high["sequence_high"], high["sequence_low"])

    follower.marked = marked
    follower.start()
    began = follower.offset
    follower.until_dumped()
    follower.offset = began  # none of it was stored
    follower.restart()
    follower.until_dumped()
    assert len(lows) == 2 * ROWS / 10

    follower.restart()
    follower.until_state(follower.ask(r"d\.t", mode="repair"), "DONE")
    assert len(lows) == 3 * ROWS / 10
    assert len({low >> ROW_BITS for _, low in lows}) == 1, "the log has not moved"
    assert follower.offset is not None
    assert follower.offset["dblog_windows"] == 6 * AHEAD

    follower.database.insert(T, (ROWS,))
    follower.until_equal("t")
    follower.until_state(follower.ask(r"d\.t", mode="repair"), "DONE")
    assert len(lows) == 4 * ROWS / 10 + 1
    assert follower.offset["dblog_windows"] == 2 * AHEAD, "numbers begin again"
    assert lows == sorted(set(lows))


def test_a_connector_that_writes_watermarks_keeps_what_its_offset_has_of_numbers(follower: FakeFollower) -> None:
    follower.start()
    follower.until_dumped()
    del follower.config["read.only"]
    follower.restart()

    assert follower.offset is not None
    assert follower.offset["dblog_windows"] == 2 * AHEAD


def test_restarts_on_a_log_that_moves_use_up_no_numbers(follower: FakeFollower) -> None:
    follower.start()
    follower.until_dumped()
    for more in range(4):
        follower.restart()
        assert follower.offset is not None
        assert follower.offset["dblog_windows"] == 4 * AHEAD
        for row in (2 * more, 2 * more + 1):
            follower.database.insert(T, (ROWS + row,))
            follower.until_equal("t")
        assert follower.offset["dblog_windows"] == 2 * AHEAD


@pytest.mark.parametrize("stored_at", [5, 6])
def test_the_first_window_of_a_run_opens_where_the_log_has_ended_and_once_an_offset_of_the_run_is_stored(stored_at: int) -> None:
    opened: list[int] = []
    any_: Any = SimpleNamespace
    asked, stopped = threading.Event(), threading.Event()
    exchange = MarkExchange(
        order=any_(watermark=lambda _token, position: opened.append(position.sequence_low)),
        windows=any_(tables_between=lambda _ticket: (T,)),
        schemas=any_(passes_over=lambda _table, _position: False),
        log=any_(wake=asked.set),
    )
    ticket = Ticket(number=7, table=T, low_token="run/7/low", high_token="run/7/high")
    exchange.first_behind(6)
    exchange.first_behind(9)
    lows: list[Progress] = []
    reader = threading.Thread(target=lambda: lows.append(exchange.low(ticket, stopped)))
    reader.start()
    assert asked.wait(10)

    def passed(entries: int) -> list[int]:
        exchange.passed(FakeProgress(server="s", number=1, entries=entries), between=True, quiet=True, not_before={})
        return opened

    seen = {}
    for at in (5, 6):
        seen[at, "not stored"] = list(passed(at)) if at <= stored_at else None
        if at == stored_at:
            asked.clear()
            exchange.stored(exchange.to_store())
        seen[at, "stored"] = list(passed(at)) if at >= stored_at else None
    reader.join(10)

    assert [where for where, found in seen.items() if found] == [(6, "stored")]
    assert opened == [(6 << ROW_BITS) + 1]
    assert asked.is_set(), "an idle log has nobody else who would have it looked at"
    assert [low.sequence[1] for low in lows] == [6 << ROW_BITS]
