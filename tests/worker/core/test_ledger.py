"""Only the acknowledged prefix counts. # I1"""

from __future__ import annotations

from itertools import permutations

import pytest
from dblog.core.ledger import Ledger


def test_every_order_of_acknowledgements_yields_exactly_the_acknowledged_prefix() -> None:
    for order in permutations(range(4)):
        ledger = Ledger()
        entries = [ledger.enter(step, 1) for step in range(4)]
        done: set[int] = set()
        taken: list[object] = []
        for index in order:
            entries[index].acknowledge()
            done.add(index)
            taken += ledger.take_steps()
            prefix = next((i for i in range(4) if i not in done), 4)
            assert taken == list(range(prefix))
        assert ledger.batches_total == 0


def test_a_batch_counts_only_when_all_its_records_are_acknowledged() -> None:
    ledger = Ledger()
    entry = ledger.enter("a", 3)

    entry.acknowledge(2)
    assert ledger.take_steps() == []
    entry.acknowledge()

    assert ledger.take_steps() == ["a"]


def test_an_empty_batch_moves_the_offset_behind_those_before_it() -> None:
    ledger = Ledger()
    entry = ledger.enter("rows", 1)
    ledger.enter("position only", 0)

    assert ledger.take_steps() == []
    entry.acknowledge()

    assert ledger.take_steps() == ["rows", "position only"]


def test_more_acknowledgements_than_records_are_a_bug_of_ours() -> None:
    entry = Ledger().enter("a", 1)
    entry.acknowledge()

    with pytest.raises(AssertionError):
        entry.acknowledge()
