"""How long a dump will take, and how wrong that has been: nothing is made up, and what came is what answers are judged by."""

from __future__ import annotations

import random
from typing import Any

import pytest
from dblog.core.chunkmap import CELLS_MAX, cells_of, left_of
from dblog.core.estimates import EndEstimate
from dblog.core.table_dump import KeyRange

ROWS = 100_000


def steady(estimate: EndEstimate, *, rate: float, rows: int, began_s: float = 0.0, done: int = 0, estimated: int | None = ROWS) -> float:
    """So many rows at that rate; the time behind them."""
    now_s, end = began_s, done + rows
    while done < end:
        estimate.look(now_s, done=done, left=None if estimated is None else max(0, estimated - done))
        now_s += 1
        done = min(end, int(done + rate))
    return now_s


def test_at_a_steady_rate_the_answers_were_right() -> None:
    estimate = EndEstimate()

    steady(estimate, rate=1000, rows=60_000)

    assert estimate.rate == 1000
    assert estimate.eta_s == pytest.approx(41, abs=2)
    assert estimate.error == pytest.approx(0, abs=0.02)


def test_an_answer_is_judged_by_the_time_that_a_quarter_of_what_was_left_took() -> None:
    estimate = EndEstimate()
    estimate.look(0, done=0, left=1000)
    estimate.look(10, done=200, left=800)
    assert estimate.eta_s == 40
    estimate.look(30, done=399, left=601)
    assert estimate.error is None
    estimate.look(50, done=400, left=600)

    assert estimate.error == 0.75, "a quarter of what was left should have taken 10 s, and took 40 s"


def test_statistics_that_count_half_of_the_rows_show_at_the_end() -> None:
    estimate = EndEstimate()
    estimate.look(0, done=0, left=1000)
    estimate.look(2, done=100, left=900)
    assert estimate.eta_s == 18
    estimate.end(2 + 36)

    assert estimate.error == 0.5


def test_nothing_is_foretold_without_an_estimate_without_a_rate_or_before_a_second() -> None:
    estimate = EndEstimate()
    estimate.look(0, done=0, left=10)
    assert (estimate.rate, estimate.eta_s, estimate.error) == (None, None, None)
    steady(estimate, rate=1000, rows=50_000, estimated=None)

    assert (estimate.rate, estimate.eta_s, estimate.error) == (1000, None, None)

    still = EndEstimate()
    for second in range(100):
        still.look(second, done=5, left=10)
    assert (still.rate, still.eta_s, still.error) == (0, None, None)


def test_a_rest_counts_for_nothing_and_so_does_what_was_read_before_it_began_again() -> None:
    estimate = EndEstimate()
    now_s = steady(estimate, rate=1000, rows=20_000)
    estimate.rest()
    now_s = steady(estimate, rate=1000, rows=40_000, began_s=now_s + 3600, done=20_000)
    steady(estimate, rate=1000, rows=60_000, began_s=now_s, done=0)

    assert estimate.error == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("seed", range(100))
def test_whatever_comes_rates_times_and_errors_are_none_or_not_negative(seed: int) -> None:
    chance, estimate, now_s, done = random.Random(seed), EndEstimate(), 0.0, 0
    for _ in range(200):
        now_s += chance.choice((0.0, 0.1, 1.0, 100.0))
        done = chance.choice((done, done + 1, done + 10_000, 0))
        match chance.randrange(20):
            case 0:
                estimate.rest()
            case 1:
                estimate.end(now_s)
            case _:
                estimate.look(now_s, done=done, left=chance.choice((None, 0, 1, 10**9)))
        assert all(value is None or value >= 0 for value in (estimate.rate, estimate.eta_s, estimate.error))


@pytest.mark.parametrize("rows", [0, 1, 99, 100, 5_000, 1_000_000])
@pytest.mark.parametrize("estimated", [None, 0, 1, 250, 20_000, 10**9])
@pytest.mark.parametrize("done", [False, True])
def test_a_map_has_what_was_read_in_key_order_and_is_whole_only_at_the_end(rows: int, estimated: int | None, done: bool) -> None:
    cells = cells_of(rows, estimated, done=done)

    if cells is None:
        assert estimated is None
        assert not done
        return
    assert 1 <= len(cells) <= CELLS_MAX
    assert cells == sorted(cells, reverse=True)
    assert all(0 <= cell <= 1 for cell in cells)
    assert (cells[-1] == 1) == done
    if not done:
        assert estimated is not None
        assert sum(cells) / len(cells) == pytest.approx(rows / max(estimated, rows + 1), abs=0.02)


def test_a_table_that_several_read_has_its_gaps_where_its_numbers_say() -> None:
    def parts(*bounds: tuple[Any, Any]) -> list[KeyRange]:
        return [KeyRange(None if after is None else (after,), (upto,)) for after, upto in bounds]

    left = left_of(parts((1300, 1500), (1700, 2000)), rows=500, rows_left=500)

    assert left == [[0.3, 0.5], [0.7, 1.0]], "keys from 1000 on, though nobody knows the first one"
    assert cells_of(500, 1000, done=False, left=left) == [1, 1, 1, 0, 0, 1, 1, 0, 0, 0]
    assert left_of(parts((1, 5)), rows=5, rows_left=5) is None, "one range needs no numbers"
    assert left_of(parts(("a", "b"), ("c", "d")), rows=5, rows_left=5) is None
    assert left_of(parts((None, 5), (6, 9)), rows=5, rows_left=5) is None
    assert left_of(parts((1, 5), (6, 9)), rows=50, rows_left=0) is None
    assert left_of(parts((5, 5), (9, 9)), rows=50, rows_left=5) is None
    for rows in range(0, 3000, 100):
        found = left_of(parts((-7, 5), (6, 900)), rows=rows, rows_left=3000 - rows)
        assert found is not None
        assert all(0 <= after <= upto <= 1 for after, upto in found)
        cells = cells_of(rows, 3000, done=False, left=found)
        assert cells is not None
        assert all(0 <= cell <= 1 for cell in cells)
        assert cells[-1] < 1


def test_a_table_that_is_read_in_part_has_whole_cells_a_part_of_one_and_empty_ones() -> None:
    assert cells_of(250, 500, done=False) == [1, 1, 0.5, 0, 0]
