"""What a snapshot shows of what the log has, over all small histories."""

from __future__ import annotations

import itertools
import random

import pytest
from dblog.dialects.postgres.pgoutput import visibility
from dblog.dialects.postgres.pgoutput.visibility import Logged, Snapshot

NOTHING = Snapshot(100, 100, frozenset())
TABLE, OTHER = 7, 8


def test_a_snapshot_shows_what_was_over_when_it_was_taken():
    snapshot = Snapshot.of("100:104:101,103")

    assert [snapshot.shows(xid) for xid in range(99, 106)] == [True, True, False, True, False, False, False]
    assert Snapshot.of("5:5:") == Snapshot(5, 5, frozenset())


@pytest.mark.parametrize("visible", list(itertools.product([True, False], repeat=3)))
@pytest.mark.parametrize("order", list(itertools.permutations([100, 101, 102])))
@pytest.mark.parametrize("low", [0, 1, 2, 3])
def test_a_chunk_is_proved_if_its_snapshot_shows_all_that_the_log_has_of_its_table_in_front_of_its_low_watermark(order, visible, low):
    """Three transactions, logged in any order, each of the table or of another one; any of them is not visible yet."""
    for tables in itertools.product([TABLE, OTHER], repeat=3):
        logged = Logged(NOTHING)
        for at, xid in enumerate(order):
            logged.committed(xid, (0, at), frozenset({tables[xid - 100]}))
        hidden = {xid for xid in order if not visible[xid - 100]}
        snapshot = Snapshot(min(hidden, default=103), 103, frozenset(hidden))

        lacks = [xid for at, xid in enumerate(order) if at < low and xid in hidden and tables[xid - 100] == TABLE]

        assert logged.shows(snapshot, TABLE, (0, low)) == (not lacks)
        assert not lacks or not logged.shows(snapshot, None, (0, low)), "any table counts where the number is not known"


def test_a_transaction_that_was_under_way_when_the_run_began_is_in_doubt_until_a_snapshot_or_the_log_shows_it():
    logged = Logged(Snapshot(90, 100, frozenset({90, 95})))

    assert not logged.shows(Snapshot(90, 100, frozenset({90, 95})), TABLE, (0, 0))
    logged.committed(95, (0, 5), frozenset({OTHER}))
    assert not logged.shows(Snapshot(90, 100, frozenset({90, 95})), TABLE, (0, 9)), "90 is still in doubt"
    assert logged.shows(Snapshot(95, 100, frozenset({95})), TABLE, (0, 9)), "95 is of another table"
    assert logged.shows(Snapshot(101, 101, frozenset()), TABLE, (0, 9))


def test_a_snapshot_that_is_older_than_what_was_read_lacks_it():
    logged = Logged(NOTHING)
    logged.committed(120, (0, 1), frozenset({TABLE}))

    assert not logged.shows(Snapshot(110, 110, frozenset()), TABLE, (0, 2))
    assert logged.shows(Snapshot(110, 110, frozenset()), TABLE, (0, 1)), "the window opened in front of it"


def test_numbers_of_32_bits_go_on_over_their_end():
    epoch = 1 << 32
    logged = Logged(Snapshot(epoch - 2, epoch - 2, frozenset()))
    logged.committed(0xFFFFFFFF, (0, 1), frozenset({TABLE}))
    logged.committed(3, (0, 2), frozenset({TABLE}))

    assert not logged.shows(Snapshot(epoch - 1, epoch + 4, frozenset({epoch - 1})), TABLE, (0, 2))
    assert not logged.shows(Snapshot(epoch + 3, epoch + 4, frozenset({epoch + 3})), TABLE, (0, 3))
    assert logged.shows(Snapshot(epoch + 4, epoch + 4, frozenset()), TABLE, (0, 3))


def test_of_many_transactions_the_old_ones_are_numbers_alone_and_are_counted_as_of_any_table(monkeypatch):
    monkeypatch.setattr(visibility, "RECENT_MAX", 3)
    dice = random.Random(1)
    for _ in range(300):
        logged, order = Logged(NOTHING), list(range(100, 130))
        dice.shuffle(order)
        of_table = {xid: dice.random() < 0.5 for xid in order}
        for at, xid in enumerate(order):
            logged.committed(xid, (0, at), frozenset({TABLE if of_table[xid] else OTHER}))
        hidden = frozenset(dice.sample(order, dice.randrange(4)))

        proved = logged.shows(Snapshot(min(hidden, default=130), 130, hidden), TABLE, (0, 30))

        if any(of_table[xid] for xid in hidden):
            assert not proved
        if not hidden:
            assert proved


def test_beyond_its_bound_nothing_is_proved_until_every_snapshot_shows_what_is_old(monkeypatch):
    monkeypatch.setattr(visibility, "RECENT_MAX", 1)
    monkeypatch.setattr(visibility, "RANGES_MAX", 2)
    logged = Logged(NOTHING)
    for at, xid in enumerate((101, 103, 105, 107, 109)):
        logged.committed(xid, (0, at), frozenset({OTHER}))

    assert not logged.shows(Snapshot(102, 120, frozenset({102})), TABLE, (0, 9))
    assert logged.shows(Snapshot(120, 120, frozenset()), TABLE, (0, 9))
