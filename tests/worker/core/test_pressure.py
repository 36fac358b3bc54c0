"""How hard dumps may read, for all that may be measured: they stop before harm, and come back slowly."""

from __future__ import annotations

import itertools
import random

import pytest
from dblog.core.chunk_size import ChunkLimits
from dblog.core.pressure import EASIER_EVERY_S, FREE, HELD, SLOWER_EVERY_S, SLOWEST, Governor, Limit, Pace
from dblog.core.quantiles import p95_between

THREADS, LAG = Limit.THREADS_RUNNING, Limit.LOG_LAG
LIMITS = {THREADS: 40.0, LAG: 300_000.0}
SHARES = (0.0, 0.69, 0.75, 0.8, 0.9, 0.99, 1.0, 50.0)


def after(*shares: float | None, every_s: float = 1.0) -> list[Pace]:
    """The paces behind looks that measure these shares of a limit; None: nothing can be measured."""
    governor, paces = Governor(limits=LIMITS), []
    for second, share in enumerate(shares):
        governor = governor.looked({} if share is None else {THREADS: share * 40}, now_s=second * every_s)
        paces.append(governor.pace)
    return paces


def test_dumps_are_free_while_nothing_is_near_its_limit_and_while_nothing_can_be_measured() -> None:
    assert set(after(*[0.0, 0.69, 0.79, None] * 10)) == {FREE}


@pytest.mark.parametrize("before", [(), (0.0,) * 5, (0.85,) * 20])
def test_at_a_limit_they_are_held_at_once(before: tuple[float, ...]) -> None:
    pace = after(*before, 1.0)[-1]

    assert (pace.held, pace.state) == (True, "held")
    assert str(pace.cause) == "threads.running is 40, the limit 40 (dblog.dump.limit.threads.running)"


def test_in_front_of_it_they_become_slower_step_by_step_and_never_are_held() -> None:
    steps = [pace.step for pace in after(*[0.9] * 20)]

    assert steps == sorted(steps)
    assert steps[:4] == [1, 1, 2, 2], f"a step every {SLOWER_EVERY_S} s"
    assert steps[-1] == SLOWEST


def test_each_step_has_half_of_the_readers_and_rows_and_a_longer_rest_than_the_one_before() -> None:
    paces = [Pace(step) for step in range(SLOWEST + 1)]
    limits = ChunkLimits(rows_max=20_000, bytes_max=1 << 24)

    assert [pace.readers(8) for pace in paces] == [8, 4, 2, 1, 1]
    assert [limits.part(pace.share).rows_max for pace in paces] == [20_000, 10_000, 5_000, 2_500, 1_250]
    assert [limits.part(pace.share).bytes_max for pace in paces] == [1 << n for n in (24, 23, 22, 21, 20)]
    assert all(slow.delay_s > fast.delay_s for fast, slow in itertools.pairwise(paces))
    assert ChunkLimits(rows_max=10, bytes_max=1).part(1 / 16) == ChunkLimits(rows_max=1, bytes_max=1, time_s=1 / 16, rows_min=1)


def test_they_come_back_one_step_at_a_time_and_each_takes_a_while_in_which_all_is_well() -> None:
    paces = after(1.0, *[0.0] * 100)
    steps = [pace.step for pace in paces]
    changes = [second for second, (old, new) in enumerate(itertools.pairwise(steps), start=1) if old != new]

    assert [steps[second] for second in changes] == [4, 3, 2, 1, 0]
    assert changes == [EASIER_EVERY_S * n for n in range(1, 6)]
    assert paces[-1] == FREE


def test_a_load_that_comes_and_goes_keeps_them_slow() -> None:
    """The half of all seconds is well above, which one easy second between does not make good."""
    steps = [pace.step for pace in after(*[0.9, 0.1] * 40)]

    assert steps[10:] == [SLOWEST] * 70


def test_between_two_shares_nothing_changes() -> None:
    assert {pace.step for pace in after(0.85, *[0.75] * 100)} == {1}


def test_a_source_that_is_busy_by_itself_but_under_its_limit_does_not_hold_them_for_ever() -> None:
    assert after(1.0, *[0.85] * 11)[-1].step == SLOWEST
    assert after(1.0, *[0.95] * 60)[-1].held


def test_the_limit_that_is_nearest_decides_and_is_named() -> None:
    governor = Governor(limits=LIMITS).looked({THREADS: 36, LAG: 400_000, Limit.REPLICA_LAG: 1e9}, now_s=0)

    assert governor.pace.cause is not None
    assert (governor.pace.cause.limit, governor.pace.step) == (LAG, HELD), "what has no limit does not count"


def test_what_is_not_known_any_more_does_not_hold_for_ever_and_the_reason_stays_until_then() -> None:
    paces = after(1.0, *[None] * 60)

    assert paces[5].held
    assert paces[5].cause is not None
    assert paces[-1] == FREE


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_measured_a_limit_holds_and_nothing_becomes_easier_soon(seed: int) -> None:
    chance = random.Random(seed)
    governor, now_s, quiet_since = Governor(limits=LIMITS), 0.0, 0.0
    for _ in range(300):
        now_s += chance.choice((0.2, 1.0, 1.0, 7.0, 120.0))
        share = chance.choice((*SHARES, None))
        before = governor.pace
        governor = governor.looked(
            {} if share is None else {chance.choice((THREADS, LAG)): share * 1e9 if share >= 1 else 0.0}, now_s=now_s
        )
        pace = governor.pace

        assert pace.held or share is None or share < 1
        assert 0 <= pace.step <= HELD
        assert (pace.cause is None) == (pace.step == 0)
        assert pace.step >= before.step - 1, "one step at a time"
        assert pace.step >= before.step or now_s - quiet_since >= EASIER_EVERY_S
        if pace.step != before.step or (share or 0) >= 1:
            quiet_since = now_s


def test_most_statements_between_two_looks() -> None:
    def times(*counts: int) -> list[tuple[float, int]]:
        return list(zip((1.0, 10.0, 100.0), counts, strict=True))

    assert p95_between(times(5, 5, 5), times(100, 10, 5)) == 1.0
    assert p95_between(times(5, 5, 5), times(100, 11, 5)) == 10.0
    assert p95_between(times(5, 5, 5), times(5, 5, 6)) == 100.0
    assert p95_between(times(5, 5, 5), times(5, 5, 5)) is None, "nothing was run"
    assert p95_between(times(5, 5, 5), times(50, 4, 5)) is None, "the server began to count again"
    assert p95_between([], times(1, 1, 1)) is None
