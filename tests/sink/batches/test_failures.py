"""How long the sink waits after a failure."""

from __future__ import annotations

from dblog_sink.batches.failures import pause_s


def test_pauses_double_from_a_second_on_and_stay_at_their_limit_however_often_it_fails() -> None:
    assert [pause_s(attempt, pause_max_s=30.0) for attempt in (1, 2, 5, 6, 100_000)] == [1.0, 2.0, 16.0, 30.0, 30.0]
