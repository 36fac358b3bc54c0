"""A RESTORE takes rows away and leaves the transaction ids, so the rows would never come again: it is noticed, and the way out works."""

from __future__ import annotations

import pytest
from dblog_sink.delta.restored import Commit, LostByRestore, loss
from dblog_sink.errors import DefiniteError
from delta.tables import DeltaTable
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def own(version: int) -> Commit:
    return Commit(version, own=True)


def back(version: int, to: int | None) -> Commit:
    return Commit(version, restored=True, to=to)


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        ([own(5), Commit(6), own(7)], None),
        ([Commit(5), back(6, 4)], None),
        ([own(5), Commit(6), back(7, 5)], None),
        ([own(5), back(6, 4)], LostByRestore(6, 5)),
        ([own(5), back(6, None)], LostByRestore(6, 5)),
        ([own(5), own(6), back(7, 5)], LostByRestore(7, 6)),
        ([own(5), back(6, 4), back(7, 5)], None),
        ([own(5), back(6, 4), own(7)], LostByRestore(6, None)),
        ([own(5), back(6, 4), own(7), back(8, 5)], LostByRestore(8, None)),
        ([own(5), Commit(6), back(7, 4), Commit(8), back(9, 6)], None),
        ([back(6, None), Commit(7)], LostByRestore(6, 5)),
        ([back(6, None), back(7, 5)], None),
        ([own(5), back(6, 4), back(7, 5), back(8, 6)], LostByRestore(8, 7)),  # back to what an undone RESTORE had left
    ],
)
def test_what_a_restore_takes_away_is_what_the_sink_wrote_in_between(commits: list[Commit], found: LostByRestore | None) -> None:
    assert loss(commits) == found


@pytest.mark.long
def test_a_restore_that_takes_rows_of_the_sink_away_stops_the_table_until_it_is_undone(sink: Sink, registry: RegistryServer) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", "string")], registry=registry)

    def version() -> int:
        return DeltaTable.forPath(sink.spark, sink.path(items)).history(1).first()["version"]

    def restore(to: int) -> None:
        sink.spark.sql(f"RESTORE TABLE delta.`{sink.path(items)}` TO VERSION AS OF {to}")

    sink.batch(change(items, "c", {"id": 1, "name": "a"}, at=100))
    first = version()
    sink.spark.sql(f"DELETE FROM delta.`{sink.path(items)}` WHERE id = 1")
    restore(first)  # it takes back what somebody else did: nothing of the sink is lost
    sink.batch(change(items, "c", {"id": 2, "name": "b"}, at=200))
    second = version()
    sink.restarted()
    restore(first)

    with pytest.raises(
        DefiniteError, match=rf"version {second + 1} of .* is a RESTORE.* undo that \(RESTORE TABLE .* TO VERSION AS OF {second}\)"
    ):
        sink.repeat(2, third := [change(items, "c", {"id": 3, "name": "c"}, at=300)])
    restore(second)
    sink.restarted().repeat(2, third)

    assert [one["id"] for one in sink.rows(items)] == [1, 2, 3]
