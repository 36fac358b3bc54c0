"""Which tables may be repaired without a request: all cases of the rule."""

from __future__ import annotations

from itertools import product

import pytest
from dblog.core.unrequested_repairs import UnrequestedRepairs
from dblog.model import TableId

T = TableId("d", "t")


@pytest.mark.parametrize("skipped", [set(), {"t"}, {"d"}, {"d", "t"}, {"c", "u"}])
def test_no_row_that_skipped_operations_keeps_is_taken_away_unasked(skipped: set[str]) -> None:
    rule = UnrequestedRepairs.skipping(skipped)

    for removed in (set[TableId](), {T}):
        kept = "d" in skipped or ("t" in skipped and bool(removed))
        assert rule.allows(T, removed) is not kept
    assert rule.of_removals is skipped.isdisjoint({"d", "t"})


def test_deletes_of_a_gap_leave_the_lake_under_the_default() -> None:
    for keeps_deletes, keeps_removals in product([False, True], repeat=2):
        assert UnrequestedRepairs(keeps_deletes, keeps_removals).allows(T, ()) is not keeps_deletes
