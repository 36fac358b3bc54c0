"""The time for which Delta is set to keep versions covers their age and the promise after it."""

from __future__ import annotations

import itertools

from dblog_sink.delta.retention import kept_h, least_h, rests


def test_what_is_set_is_enough_for_a_version_that_grows_old_until_it_is_committed_again() -> None:
    hours = (0.0, 0.5, 23.0, 24.0, 25.0, 169.0, 9 * 24.0, 8760.0)
    for age_h, keep_h in itertools.product(hours, repeat=2):
        kept = kept_h(age_h, keep_h)

        assert kept >= age_h + keep_h, "what was promised a moment ago"
        assert kept >= least_h(age_h, keep_h), "it is not set each time"
        older_h = next(older for older in range(int(age_h), int(age_h) + 50) if rests(older) and older > age_h)
        assert kept >= older_h + keep_h, "the next look, when it rests, finds it readable"
