"""When a table is complete in a snapshot, by what is noted of its records that never came and of its dumps."""

from __future__ import annotations

import pytest
from dblog_sink.reconcile.chunk_ledger import Loss
from dblog_sink.snapshots.entries import incomplete, missing_since
from dblog_sink.state.notes import RecordsMissing, State
from dblog_sink.state.snapshot import Frontier, Snapshot

TOPIC = "p.shop.t"
NEVER_CAME = "records of the source never came; dump the table again"
SNAPSHOT = Snapshot(number=3, frontier=Frontier(position=(1, 99)), kafka_ms=900)


@pytest.mark.parametrize(
    ("dumped_ms", "repaired", "reason"),
    [
        (-1, None, NEVER_CAME),
        (500, None, NEVER_CAME),
        (501, None, None),
        (501, False, NEVER_CAME),  # some rows came again
        (501, True, None),
        (-1, True, None),  # the table was empty
    ],
)
def test_records_that_never_came_are_missing_until_the_table_is_dumped_and_markers_tell_how_much_of_it_was(
    dumped_ms: int, repaired: bool | None, reason: str | None
) -> None:
    assert incomplete(SNAPSHOT, TOPIC, dumped_ms=dumped_ms, missing_ms=500, repaired=repaired) == reason


def test_a_table_of_which_all_came_needs_no_dump() -> None:
    assert incomplete(SNAPSHOT, TOPIC, dumped_ms=-1, missing_ms=-1, repaired=False) is None


def test_the_latest_time_at_which_records_were_missing_counts_noted_or_not() -> None:
    state = State()
    state.take(RecordsMissing("p.a", 5))
    state.take(RecordsMissing("p.b", 9))

    assert missing_since(state, [RecordsMissing("p.a", 7), RecordsMissing("p.b", 8, (1, 3)), RecordsMissing("p.c", 1, (1, 4))]) == {
        "p.a": Loss(7),  # of a sink that did not note the position
        "p.b": Loss(9, (1, 3)),
        "p.c": Loss(1, (1, 4)),
    }
    again = [RecordsMissing("p.b", 8, (1, 3))]
    assert missing_since(state, again, repaired={"p.a", "p.b"}) == {"p.b": Loss(8, (1, 3))}, (
        "p.a was complete since, p.b too, and has lost again"
    )
