"""Whether the log is lost before it is read: each rule alone, then races played out, whose end is what was foretold."""

from __future__ import annotations

import random
from typing import Any

import pytest
from dblog.core.lograce import AT_END_BYTES, LogLook, LogRace, Race

MB, DAY_S = 1 << 20, 86_400.0
BEHIND: dict[str, Any] = {
    "at_s": 0.0,
    "read_bytes": 0,
    "behind_bytes": 1000 * MB,
    "needed_bytes": 1000 * MB,
    "age_s": 10.0,
    "kept_s": None,
    "kept_bytes": None,
}


def behind(**changes: Any) -> LogLook:
    return LogLook(**{**BEHIND, **changes})


def test_a_log_that_is_kept_for_ever_or_read_to_its_end_is_never_lost() -> None:
    assert LogRace().looked(behind(age_s=1e9)) == Race()
    assert LogRace().looked(behind(behind_bytes=AT_END_BYTES - 1, age_s=1e9, kept_s=DAY_S, kept_bytes=1)) == Race()
    assert LogRace().looked(behind(age_s=None, kept_s=DAY_S)) == Race(), "nothing has a time"


@pytest.mark.parametrize(("share", "near"), [(0.1, 0.125), (0.64, 0.8), (0.8, 1.0), (2.0, 2.5)])
def test_the_age_and_the_size_that_are_used_count_before_any_speed_is_known(share: float, near: float) -> None:
    assert LogRace().looked(behind(age_s=share * DAY_S, kept_s=DAY_S)).near == pytest.approx(near)
    assert LogRace().looked(behind(needed_bytes=int(share * 1000 * MB), kept_bytes=1000 * MB)).near == pytest.approx(near)


def test_a_reading_that_is_half_as_fast_as_the_writing_loses_and_when_is_foretold() -> None:
    race = LogRace()
    race.looked(behind(kept_s=DAY_S, age_s=3600))
    half = race.looked(behind(kept_s=DAY_S, age_s=3620, at_s=40, read_bytes=40 * MB, behind_bytes=1040 * MB))

    assert half.left_s == pytest.approx((DAY_S - 3620) / 0.5)
    assert half.near < 0.1, "in two days"

    late = LogRace()
    late.looked(behind(kept_s=DAY_S, age_s=DAY_S - 2000))
    late_race = late.looked(behind(kept_s=DAY_S, age_s=DAY_S - 1980, at_s=40, read_bytes=40 * MB, behind_bytes=1040 * MB))
    assert late_race.left_s == pytest.approx(3960)
    assert late_race.near > 1


def test_a_size_is_reached_by_what_is_written_and_not_read() -> None:
    race = LogRace()
    race.looked(behind(kept_bytes=100_000 * MB))
    found = race.looked(behind(kept_bytes=100_000 * MB, at_s=100, read_bytes=100 * MB, behind_bytes=2000 * MB, needed_bytes=2000 * MB))

    assert found.left_s == pytest.approx(98_000 / 10)
    assert 0 < found.near < 0.8


def test_a_reading_that_catches_up_loses_nothing() -> None:
    race = LogRace()
    race.looked(behind(kept_s=DAY_S, age_s=3600, behind_bytes=2000 * MB))
    found = race.looked(behind(kept_s=DAY_S, age_s=3000, at_s=40, read_bytes=1000 * MB, behind_bytes=1500 * MB))

    assert found.left_s is None
    assert found.near == pytest.approx(3000 / DAY_S / 0.8)


def test_speeds_of_a_run_before_do_not_count() -> None:
    race = LogRace()
    race.looked(behind(kept_s=DAY_S, read_bytes=5000 * MB))
    assert race.looked(behind(kept_s=DAY_S, at_s=40, read_bytes=10, behind_bytes=5000 * MB)).left_s is None


@pytest.mark.parametrize("seed", range(100))
def test_a_race_is_lost_about_when_it_was_foretold_and_dumps_are_held_well_before(seed: int) -> None:
    chance = random.Random(seed)
    kept_s, written = chance.choice((4 * 3600.0, DAY_S, 7 * DAY_S)), chance.uniform(1, 50) * MB
    read = written * chance.uniform(0.1, 0.9)
    race, at_s, foretold = LogRace(), 0.0, []
    behind_bytes = written * chance.uniform(60, kept_s / 2)
    read_bytes, held = 0.0, False
    while (age_s := behind_bytes / written) < kept_s:
        found = race.looked(
            behind(
                at_s=at_s,
                read_bytes=int(read_bytes),
                behind_bytes=int(behind_bytes),
                needed_bytes=int(behind_bytes),
                age_s=age_s,
                kept_s=kept_s,
            )
        )
        held = held or found.near >= 1
        if found.left_s is not None:
            foretold.append(at_s + found.left_s)
        gust = chance.uniform(0.8, 1.2)
        read_bytes += read * 60 * gust
        behind_bytes += (written - read) * 60 * gust
        at_s += 60

    assert held
    assert foretold
    assert foretold[len(foretold) // 2] == pytest.approx(at_s, rel=0.3)
