"""The numbers of windows at one position of the log, over runs that end anywhere and offsets that get lost. # I9"""

from __future__ import annotations

import random

import pytest
from dblog.core import window_numbers
from dblog.core.window_numbers import AHEAD, NUMBER_MAX, WindowNumbers


@pytest.mark.parametrize("seed", range(30))
def test_a_window_of_a_later_run_is_behind_all_of_earlier_ones_wherever_those_ended(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_numbers, "AHEAD", 2)
    chance = random.Random(seed)
    stored, end = 0, 0  # of the newest offset, and of the log
    before = (-1, 0)
    """The last window of earlier runs."""
    for _ in range(40):
        run, at, newest = WindowNumbers(stored, (0, end)), end, before

        def keep(offset: int, run: WindowNumbers = run) -> None:
            nonlocal stored
            fate = chance.random()
            if fate < 0.8:
                stored = offset
            if fate < 0.6:
                run.stored(offset)  # otherwise nobody heard of it

        keep(run.to_store())
        for _ in range(chance.randrange(30)):
            if chance.random() < 0.2:
                end += 1
            if chance.random() < 0.2:
                at = end
                run.come_to((0, at))
            if chance.random() < 0.2:
                keep(run.to_store())
            if run.may_begin and chance.random() < 0.8:
                number = run.number((0, at))
                assert (at, number) > before
                assert (at, number) >= newest
                assert run.last((0, at)) == number
                newest = (at, number)
        before = newest


def test_numbers_rise_at_one_position_and_begin_again_where_the_log_has_moved() -> None:
    run = WindowNumbers(8192)
    run.stored(run.to_store())

    assert [run.number((1, 5)) for _ in range(3)] == [8193, 8194, 8195]
    assert [run.last((1, 5)), run.last((1, 6))] == [8195, 0]
    assert [run.number((1, 6)), run.number((2, 0)), run.number((2, 0))] == [1, 1, 2]
    assert run.to_store() == 8192


def test_the_offset_rises_only_over_runs_in_which_the_log_does_not_move() -> None:
    stored = 0
    for restart in range(3000):
        run = WindowNumbers(stored, (1, restart))
        run.stored(run.to_store())
        run.come_to((1, restart))
        assert run.to_store() == stored + 2 * AHEAD
        run.come_to((1, restart + 1))
        stored = run.to_store()
        run.stored(stored)
        assert stored == 2 * AHEAD
    assert run.number((1, 3001)) == 1

    for restart in range(2000):
        run = WindowNumbers(stored, (1, 3001))
        stored = run.to_store()
        assert stored == min((restart + 2) * 2 * AHEAD, NUMBER_MAX)


def test_offsets_of_a_run_whose_windows_open_slowly_are_alike() -> None:
    run = WindowNumbers()
    run.stored(run.to_store())
    made = set()
    for _ in range(1000):
        run.number((1, 5))
        made.add(run.to_store())

    assert made == {8192}


@pytest.mark.parametrize("behind", [NUMBER_MAX, 1 << 60])
def test_where_no_number_is_left_windows_open_all_the_same(behind: int) -> None:
    run = WindowNumbers(behind)

    assert run.may_begin
    assert run.to_store() == NUMBER_MAX
    assert [run.number((1, 5)), run.number((1, 5)), run.number((1, 6))] == [NUMBER_MAX, NUMBER_MAX, 1]
