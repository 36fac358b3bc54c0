"""What an attempt that failed half-way leaves to the next one, without Spark: nothing is written twice, and nothing is taken for written."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from dblog_sink.batches.failures import Failures
from dblog_sink.batches.merge_by_batches import MergeByBatches
from dblog_sink.batches.micro_batch import BatchWriter
from dblog_sink.batches.schedule import Due, Table
from dblog_sink.config import job_options
from dblog_sink.delta.merge import Txn
from dblog_sink.errors import TransientError

SETTINGS = job_options.parse(
    {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b,p.a.c", "registry.url": "http://r", "target.path": "/lake"}
)


class Merging(MergeByBatches):
    """The merges, which only note what they would apply: the bounds of the records, and whether these may have been tried before."""

    def __init__(self, parts: Any) -> None:
        super().__init__(parts, outside_snapshots=lambda _topic, records: records)
        self.applied: list[tuple[Any, int, bool]] = []

    def _apply(self, topic: str, txn: Txn, raw: Any, *, repeated: bool) -> None:
        del topic
        self.applied.append((raw, txn.version, repeated))


def test_a_merge_that_failed_behind_its_commit_is_not_part_of_the_next_one() -> None:
    """The next one is of more batches, so its transaction id does not guard the rows that are there: a list of changes would get them twice."""
    written, merged_up_to = {"p.a.b": -1}, {"p.a.b": -1}
    parts = SimpleNamespace(
        settings=SETTINGS,
        applier=SimpleNamespace(last_written=lambda topic, _app_id: written[topic]),
        landing=SimpleNamespace(id="landing", records=lambda _topic, *, after, to, rows: (after, to)),
        control=SimpleNamespace(state=SimpleNamespace(merged_up_to=merged_up_to)),
        book=SimpleNamespace(table={"p.a.b": Table("p.a.b")}.__getitem__),
        merge_failures=Failures(SETTINGS, may_commit=lambda: True),
        ending=SimpleNamespace(is_set=lambda: False),
    )
    merging = Merging(parts)
    merging.merge(Due("p.a.b", 3, 1))
    written["p.a.b"] = merged_up_to["p.a.b"] = 3

    written["p.a.b"] = 5
    merging.ended(Due("p.a.b", 5, 1), None, OSError("the store is away"), 1.0)
    merging.merge(Due("p.a.b", 8, 1))

    assert merging.applied == [((-1, 3), 3, False), ((3, 5), 5, True), ((5, 8), 8, False)]


def batch_writer(landing: Any = None) -> BatchWriter:
    """A writer that has nothing but a landing table."""
    parts: Any = SimpleNamespace(
        settings=SETTINGS,
        applier=None,
        landing=landing,
        control=None,
        book=SimpleNamespace(landed=lambda _sequence, _rows: None),
        progress=None,
        batch_failures=None,
    )
    others: Any = dict.fromkeys(("by_batches", "scheduler", "arrivals", "query_id_of", "topic_ids", "offsets"))
    return BatchWriter(parts, **others)


class LandingTable:
    """A landing table that takes a transaction id once, as Delta does."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self._done: set[Txn] = set()

    def append(self, raw: Any, topics: list[str], *, txn: Txn, **_: Any) -> None:
        if txn not in self._done:
            self._done.add(txn)
            self.rows.update({topic: raw[topic] for topic in topics})


def test_a_batch_that_lands_a_table_more_when_it_is_repeated_lands_each_once() -> None:
    landing, raw = LandingTable(), {"p.a.b": 1, "p.a.c": 2}
    writer = batch_writer(landing)

    writer._land(raw, {"p.a.b": 1}, None, 7, "q", Txn("sink/q", 7))  # type: ignore[arg-type]
    for landed in ({"p.a.b"}, {"p.a.b", "p.a.c"}):
        writer._land(raw, raw, frozenset(landed), 7, "q", Txn("sink/q", 7))  # type: ignore[arg-type]

    assert landing.rows == raw


@pytest.mark.parametrize("written", [False, True])
def test_records_of_a_table_that_its_batch_parks_land_and_wait_unless_the_table_has_them(written: bool) -> None:
    """What lands and waits for nobody is dropped with its group of batches."""
    landing, waits, parked = LandingTable(), Counter[str](), dict[str, str]()
    writer = batch_writer(landing)
    writer._applier = SimpleNamespace(is_written=lambda _topic, _txn: written)  # type: ignore[assignment]
    writer._book = SimpleNamespace(landed=lambda _sequence, rows: waits.update(rows), park=parked.__setitem__)  # type: ignore[assignment]
    stats: Any = SimpleNamespace(topic="p.a.b", records=3)

    writer._park({"p.a.b": 3}, stats, OSError("no place\nat all"), 7, "q", Txn("sink/q", 7))  # type: ignore[arg-type]

    assert landing.rows == waits == ({} if written else {"p.a.b": 3})
    assert parked == {"p.a.b": "no place"}


def test_a_batch_for_which_the_stop_came_while_it_waited_for_its_turn_does_not_begin() -> None:
    """The stop holds the turn while it ends the threads; a batch that began then would write beside the next process."""
    writer = batch_writer()

    class Turn:
        held = False

        def acquire(self, *, timeout: float) -> bool:
            del timeout
            writer.stopped.set()
            self.held = True
            return True

        def release(self) -> None:
            self.held = False

    writer.running = turn = Turn()  # type: ignore[assignment]

    with pytest.raises(TransientError, match="the query is being stopped"):
        writer(None, 0)  # type: ignore[arg-type]  it is not looked at

    assert not turn.held
