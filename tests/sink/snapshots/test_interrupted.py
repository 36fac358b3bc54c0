"""Snapshots that are interrupted: what lands for a table that is parked or resumed meanwhile is merged once, and by then the table shows all of it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.snapshots.manifest import as_of
from dblog_sink.state.crash_points import nothing
from sink.harness import Sink, change
from sink.snapshots.test_manifest import Kill, content, killing, later, published, state_path
from sink.transfers import Source, gtid
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

LEFT, RIGHT, TRANSFERS = "p.bank.left", "p.bank.right", "p.bank.transfers"


@pytest.fixture
def source(sink: Sink, registry: RegistryServer) -> Source:
    """A source whose accounts are opened, and in a snapshot."""
    made = Source(registry)
    made.opened()
    sink.settings |= made.settings | {"control.interval.s": "0"}
    sink.land(*made.records)
    assert sink.publish()
    return made


def land(sink: Sink, source: Source, *, transactions: int = 1, seed: int = 0) -> None:
    """Land some transactions, each as a batch; Kafka gets them after everything that the test does."""
    dice = random.Random(seed)
    for _ in range(transactions):
        begin = len(source.records)
        source.moved(dice)
        sink.land(*(replace(record, at=later()) for record in source.records[begin:]))


def fails_once(sink: Sink, topic: str, error: Exception, *, behind: bool = False) -> None:
    """The next time, the topic's table cannot be written; ``behind``: it is written, and then it fails."""
    apply, failing = sink.applier.apply, [True]

    def failed(stats: Any, *args: Any, **kwargs: Any) -> Any:
        fails = stats.topic == topic and failing
        found = apply(stats, *args, **kwargs) if behind or not fails else None
        if fails:
            failing.clear()
            raise error
        return found

    sink.applier.apply = failed  # type: ignore[method-assign]


def all_is_there(sink: Sink, source: Source) -> None:
    """The next snapshot holds what the source has."""
    land(sink, source, seed=9)
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert content(newest) == source.states[gtid(source.number)]
    assert all(entry.complete for entry in newest.tables.values())


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "failed"])
def test_a_table_that_is_resumed_before_a_snapshot_without_it_is_carried_out_again_is_in_the_next_one(
    sink: Sink, source: Source, how: str
) -> None:
    sink.book.park(LEFT, "under repair")
    land(sink, source, transactions=3)
    if how == "killed":
        sink.killed().reached = killing({"snapshot_chosen"}, [])
        with pytest.raises(Kill):
            sink.publish()
        sink.killed().reached = nothing
    else:
        fails_once(sink, RIGHT, RuntimeError("the store is away for a moment"))
        with pytest.raises(RuntimeError):
            sink.publish()

    sink.book.unpark(LEFT)
    assert sink.publish()

    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.left"].reason == "parked: a moment ago"
    assert {row["v"] for row in newest.frame("bank.left", incomplete=True).collect()} == {100}
    assert len(sink.book.waiting()[LEFT]) == 3
    all_is_there(sink, source)
    assert not any(sink.book.waiting().values())


@pytest.mark.long
def test_a_table_that_is_resumed_while_a_snapshot_without_it_is_chosen_is_in_the_next_one(
    sink: Sink, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.restarted().settings |= {"table.left.match": r"bank\.left", "table.left.failure": "park"}
    fails_once(sink, LEFT, DefiniteError("out of order"))
    land(sink, source, transactions=3)
    assert sink.publish()
    assert LEFT in sink.book.parked()
    land(sink, source)
    record = sink.control.record

    def resumed(notes: Any, step: str, *, at_once: bool = False) -> None:
        record(notes, step, at_once=at_once)
        if step == "snapshot_chosen":
            sink.book.unpark(LEFT)  # by a command, in another thread

    with monkeypatch.context() as patch:
        patch.setattr(sink.control, "record", resumed)
        assert sink.publish()

    assert as_of(sink.spark, state_path(sink)).tables["bank.left"].reason == "parked: a moment ago"
    assert len(sink.book.waiting()[LEFT]) == 4
    all_is_there(sink, source)


@pytest.mark.long
def test_what_lands_late_for_a_batch_of_a_snapshot_is_in_the_next_one(sink: Sink, source: Source, registry: RegistryServer) -> None:
    """A batch that was tried once may land the rest of it when it is repeated: behind what was measured."""
    late = TableSchema(topic="p.bank.late", columns=[("id", "int"), ("v", "int")], registry=registry)
    land(sink, source)
    batch = sink.batch_id - 1
    sink.killed().reached = killing({"snapshot_chosen"}, [])
    with pytest.raises(Kill):
        sink.publish()
    sink.killed().reached = nothing

    sink.repeat(batch, [change(late, "r", {"id": 1, "v": 1}, at=500, sequenced=True)])
    assert [at.number for at in published(sink)][:2] == [2, 1]

    assert [row["id"] for row in sink.read(late).collect()] == [1]
    assert not any(sink.book.waiting().values())


@pytest.mark.long
def test_a_list_of_changes_that_is_parked_for_a_failure_behind_its_commit_is_in_the_snapshot(sink: Sink, source: Source) -> None:
    sink.restarted().settings |= {"table.list.match": r"bank\.transfers", "table.list.failure": "park", "table.list.failure.retries": "0"}
    land(sink, source, transactions=6)
    fails_once(sink, TRANSFERS, RuntimeError("the store was away when the rows were counted"), behind=True)
    assert sink.publish()
    assert TRANSFERS in sink.book.parked()
    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.transfers"].complete
    assert content(newest) == source.states[gtid(source.number)]
    ((_, position, _),) = sink.control.state.append_positions[TRANSFERS].values()
    assert (position >> 23) // 1000 == source.states[gtid(source.number)].transfers[-1]

    sink.book.unpark(TRANSFERS)

    all_is_there(sink, source)


@pytest.mark.long
def test_a_list_of_changes_that_is_parked_behind_its_commit_before_the_snapshot_is_finished_is_in_it(sink: Sink, source: Source) -> None:
    land(sink, source, transactions=6)
    sink.killed().reached = killing({"published"}, [])
    with pytest.raises(Kill):
        sink.publish()
    sink.killed().reached = nothing
    sink.book.park(TRANSFERS, "under repair")
    assert sink.publish()
    assert as_of(sink.spark, state_path(sink)).tables["bank.transfers"].complete

    sink.book.unpark(TRANSFERS)

    all_is_there(sink, source)


@pytest.mark.long
def test_what_comes_when_the_manifest_was_switched_off_waits_for_the_snapshot_that_is_unfinished(sink: Sink, source: Source) -> None:
    land(sink, source, transactions=4)
    sink.killed().reached = killing({"snapshot_chosen"}, [])
    with pytest.raises(Kill):
        sink.publish()
    sink.killed().reached = nothing
    sink.settings["manifest.interval.s"] = "0"
    chosen = gtid(source.number)

    land(sink, source, transactions=2, seed=1)
    sink.drain()

    last = published(sink)[0]
    assert last.transaction == chosen
    assert content(last) == source.states[chosen]
    now = source.states[gtid(source.number)]
    assert tuple(sorted(row["n"] for row in sink.read(source.transfers).collect())) == now.transfers
    assert {row["id"]: row["v"] for row in sink.rows(source.left)} == now.left
    assert not any(sink.book.waiting().values())
