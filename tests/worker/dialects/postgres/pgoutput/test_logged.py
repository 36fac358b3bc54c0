"""The compiled notes of what the log has, and their reference implementation: alike over random histories, and bounded."""

from __future__ import annotations

import random

import pytest
from dblog.dialects.postgres.pgoutput import visibility
from dblog.dialects.postgres.pgoutput._fast import FastLogged, LogDecoder
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.visibility import Logged, Snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pgoutput_log import Stream

BITS = 32
TABLES = [frozenset({7}), frozenset({8}), frozenset({7, 8}), frozenset()]


def snapshot(dice: random.Random, xmin: int) -> Snapshot:
    xmax = xmin + dice.randrange(12)
    return Snapshot(xmin, xmax, frozenset(xid for xid in range(xmin, xmax) if dice.random() < 0.3))


@settings(max_examples=80)
@given(
    seed=st.integers(0, 1 << 32),
    begin=st.sampled_from([3, 700, (1 << BITS) - 5, (7 << BITS) + 2]),
    recent_max=st.sampled_from([1, 2, 5, 60]),
    ranges_max=st.sampled_from([1, 3, 100]),
)
def test_both_prove_the_same_chunks(seed: int, begin: int, recent_max: int, ranges_max: int) -> None:
    dice = random.Random(seed)
    first = snapshot(dice, begin)
    fast = FastLogged(first, recent_max=recent_max, ranges_max=ranges_max)
    newest = first.xmax

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visibility, "RECENT_MAX", recent_max)
        patch.setattr(visibility, "RANGES_MAX", ranges_max)
        slow = Logged(first)
        for at in range(80):
            newest += dice.randrange(3)
            if dice.random() < 0.8:
                xid = max(begin, newest - dice.randrange(12)) & (1 << BITS) - 1
                position, tables = (dice.randrange(2), at), dice.choice(TABLES)
                slow.committed(xid, position, tables)
                fast.committed(xid, position, tables)
            else:
                shown = snapshot(dice, max(begin, newest - dice.randrange(16)))
                low = (dice.randrange(2), dice.randrange(at + 1))
                relation = dice.choice([7, 8, None])
                assert fast.shows(shown, relation, low) == slow.shows(shown, relation, low)


@pytest.mark.parametrize("step", [1, 2])
def test_many_transactions_are_noted_alike(step: int) -> None:
    begin = Snapshot(100, 100, frozenset())
    fast, slow = FastLogged(begin), Logged(begin)
    order = list(range(100, 100 + 80_000 * step, step))
    for at in range(0, len(order) - 20, 10):
        order[at : at + 20] = reversed(order[at : at + 20])

    for at, xid in enumerate(order):
        fast.committed(xid, (1, at), TABLES[at % 2])
        slow.committed(xid, (1, at), TABLES[at % 2])

    for hidden in (order[0], order[-1], order[-3], order[1000], order[-1] + 1):
        shown = Snapshot(hidden, order[-1] + 2, frozenset({hidden}))
        for low in ((1, 0), (1, len(order)), (0, 9), (2, 0)):
            for relation in (7, 8, 9, None):
                assert fast.shows(shown, relation, low) == slow.shows(shown, relation, low)


def test_a_decoder_notes_its_transactions_in_it_at_their_positions() -> None:
    stream = Stream().begin(0x1_0000_0F00, xid=701).relation(7, "t", ["id:int4"]).insert(7, [b"1"]).commit()
    logged = FastLogged(Snapshot(700, 700, frozenset()))
    decoder = LogDecoder(resolve=lambda *_: None, committed=logged, database="db")
    decoder.start(LogOffset(lsn=7), epoch=2, now_us=lambda: 1)
    decoder.feed(stream.bytes())
    while decoder.held:
        decoder.feed(b"")

    lacking = Snapshot(700, 702, frozenset({701}))
    at = (2 << BITS | 1, 0xF00 >> 3 << 34)
    assert not logged.shows(lacking, 7, (at[0], at[1] + 1))
    assert logged.shows(lacking, 7, at)
    assert logged.shows(lacking, 8, (at[0] + 1, 0))
