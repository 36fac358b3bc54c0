"""How long the sink waits after a failure, and when a table is parked for it."""

from __future__ import annotations

from dblog_sink.batches.failures import Failures, pause_s
from dblog_sink.config import job_options

PARKS = {
    "kafka.bootstrap.servers": "b:9092",
    "topics": "p.a.b",
    "registry.url": "http://r",
    "target.path": "/lake",
    "table.all.match": ".*",
    "table.all.failure": "park",
    "table.all.failure.retries": "1",
}


def test_pauses_double_from_a_second_on_and_stay_at_their_limit_however_often_it_fails() -> None:
    assert [pause_s(attempt, pause_max_s=30.0) for attempt in (1, 2, 5, 6, 100_000)] == [1.0, 2.0, 16.0, 30.0, 30.0]


def test_no_table_is_parked_for_failures_while_the_lease_has_lapsed() -> None:
    held = False
    failures = Failures(job_options.parse(PARKS), may_commit=lambda: held)
    refused = RuntimeError("Delta's observer: the lease could not be renewed for 9 s")

    assert [failures.judge("p.a.b", refused) for _ in range(5)] == ["retry"] * 5

    held = True
    assert [failures.judge("p.a.b", refused) for _ in range(2)] == ["retry", "park"]
