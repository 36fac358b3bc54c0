"""What a task's process counts: above all, whether anything moves."""

import resource

import pytest
from dblog.core.ledger import Entry
from dblog.errors import TransientError
from dblog.model import Batch, Segment
from dblog.observe.jmx import CONNECT
from dblog.runtime import process_metrics as runtime_numbers
from dblog.runtime.process_metrics import ProcessMetrics, resident_bytes


class HeldTime:
    """The module's clock."""

    def __init__(self):
        self.at_s = 5000.0

    def monotonic(self):
        return self.at_s

    def time(self):
        return self.at_s

    def time_ns(self):
        return int(self.at_s * 1_000_000_000)


@pytest.fixture
def now(monkeypatch):
    held = HeldTime()
    monkeypatch.setattr(runtime_numbers, "time", held)
    return held


@pytest.fixture
def counted(now):
    return ProcessMetrics(flush_interval_s=60.0)


def stalled(counted, now, *samples, paused=False, waits_for_kafka=False, starting=False):
    """After a sample every 10 s."""
    found = 0.0
    for sample in samples:
        now.at_s += 10
        reported = counted.numbers(sample, paused=paused, waits_for_kafka=waits_for_kafka, starting=starting)
        found = reported["stalled_seconds"]
    return found


IDLE = {"connected": 1.0, "log_silent": 0.0, "log_behind_bytes": 0.0, "log_bytes_total": 50.0}
BEHIND = {**IDLE, "log_behind_bytes": 900.0}


def test_an_idle_source_is_no_stall(counted, now):
    assert stalled(counted, now, *[IDLE] * 20) == 0


def test_a_log_that_has_more_and_does_not_come_is_one(counted, now):
    assert stalled(counted, now, IDLE, *[BEHIND] * 9) == 90


def test_bytes_of_one_huge_transaction_are_life(counted, now):
    assert stalled(counted, now, *({**BEHIND, "log_bytes_total": float(n)} for n in range(20))) == 0


def test_a_server_that_is_not_heard_is_a_stall(counted, now):
    assert stalled(counted, now, IDLE, *[{**IDLE, "log_silent": 1.0}] * 7) == 70
    assert stalled(counted, now, IDLE, *[{**IDLE, "connected": 0.0}] * 7) == 70


def test_where_the_server_was_not_asked_its_silence_still_counts(counted, now):
    unasked = {name: value for name, value in IDLE.items() if name != "log_behind_bytes"}

    assert stalled(counted, now, *[unasked] * 9) == 0
    assert stalled(counted, now, *[{**unasked, "log_silent": 1.0}] * 9) == 90


def test_records_that_kafka_does_not_take_are_a_stall_and_an_acknowledgement_ends_it(counted, now):
    counted.run_begins()
    assert stalled(counted, now, *[IDLE] * 8, waits_for_kafka=True) == 80

    counted.acknowledged([Entry(None, 3)])

    assert stalled(counted, now, IDLE, waits_for_kafka=True) == 0


def test_a_pause_is_none(counted, now):
    assert stalled(counted, now, *[BEHIND] * 8, paused=True) == 0


def test_a_restart_loop_is_a_stall_however_often_its_counts_begin_again(counted, now):
    stalled(counted, now, IDLE)
    for _ in range(5):
        counted.failed(TransientError("away"), retriable=True)
        stalled(counted, now, {}, starting=True)
        counted.run_begins()
        found = stalled(counted, now, {**IDLE, "log_bytes_total": 7.0}, {**IDLE, "log_bytes_total": 7.0}, waits_for_kafka=True)

    assert found == 150


def test_a_start_that_takes_long_is_shown_and_is_no_stall_once_it_goes_well(counted, now):
    stalled(counted, now, IDLE)
    counted.failed(TransientError("away"), retriable=True)
    assert stalled(counted, now, {}, starting=True) == 10

    counted.start_begins()
    assert stalled(counted, now, *[{}] * 30, starting=True) == 10
    assert counted.numbers({}, paused=False, waits_for_kafka=False, starting=True)["starting_seconds"] == 300
    counted.start_ended(ok=True)
    counted.run_begins()

    assert stalled(counted, now, {**IDLE, "log_silent": 1.0}) == 20
    assert counted.numbers(IDLE, paused=False, waits_for_kafka=False, starting=False)["starting_seconds"] == 0


def test_starts_that_take_long_and_fail_are_a_stall(counted, now):
    stalled(counted, now, IDLE)
    for _ in range(3):
        counted.start_begins()
        now.at_s += 30
        counted.start_ended(ok=False)
        found = stalled(counted, now, {}, starting=True)

    assert found == 120


def test_a_pause_during_a_start_is_not_made_up_for(counted, now):
    counted.start_begins()
    stalled(counted, now, *[{}] * 5, starting=True, paused=True)
    counted.start_ended(ok=True)
    counted.run_begins()

    assert stalled(counted, now, BEHIND) == 10


def test_errors_and_tries_are_counted_by_class(counted):
    counted.failed(TransientError("away"), retriable=True)
    counted.failed(ValueError("row value"), retriable=False)
    found = counted.numbers({}, paused=False, waits_for_kafka=False, starting=True)

    assert found["errors_total|TransientError|true"] == found["errors_total|ValueError|false"] == 1
    assert found["restarts_total|error"] == 1
    assert not any("row value" in name for name in found)


def test_progress_that_is_not_stored_grows_old_until_it_is(counted, now):
    def uncommitted():
        return counted.numbers({}, paused=False, waits_for_kafka=False, starting=False)["offset_uncommitted_seconds"]

    before = uncommitted()
    counted.acknowledged([Entry(None, 1)])
    now.at_s += 40
    waits = uncommitted()
    counted.committed(5.0, ok=False)
    failed = uncommitted()
    counted.nothing_to_commit()
    counted.committed(0.1, ok=True)

    assert (before, waits, failed, uncommitted()) == (0, 40, 40, 0)


def shares_of_commits(counted, now, over_s):
    """How many commits went well and how many did not, as Connect's metrics have it, once a second."""
    found = set()
    for _ in range(over_s):
        now.at_s += 1
        values = counted.numbers(IDLE, paused=False, waits_for_kafka=False, starting=False)
        shares = {each.name: each.of(values, now.at_s) for each in CONNECT if each.name.endswith("_percentage")}
        found.add((shares["offset_commit_success_percentage"], shares["offset_commit_failure_percentage"]))
    return found


def test_no_commit_has_failed_before_the_first_one(counted, now):
    assert shares_of_commits(counted, now, 59) == {(0, 0)}


def test_flushes_of_an_idle_connector_go_well(counted, now):
    counted.committed(0.1, ok=True)

    assert shares_of_commits(counted, now, 600) == {(1, 0)}
    assert counted.numbers(IDLE, paused=False, waits_for_kafka=False, starting=False)["offset_commits_total|ok"] == 1


def test_flushes_that_fail_are_not_made_up_for_while_progress_waits(counted, now):
    counted.run_begins()
    for _ in range(8):
        counted.acknowledged([Entry(None, 1)])
        counted.committed(5.0, ok=False)
        found = shares_of_commits(counted, now, 60)

    assert found == {(0, 1)}


def test_a_start_that_takes_long_has_no_commits(counted, now):
    now.at_s += 300
    counted.numbers({}, paused=False, waits_for_kafka=False, starting=True)
    counted.run_begins()

    assert shares_of_commits(counted, now, 59) == {(0, 0)}


def test_latencies_are_those_of_the_batch_s_change(counted, now):
    changed_us = int((now.at_s - 2) * 1_000_000)
    counted.polled([Batch([Segment("t", [b"k"], [b"v"])], None, 1, 2, changed_us)], 0.001)
    now.at_s += 5
    counted.acknowledged([Entry(None, 1, changed_us), Entry(None, 1)])
    found = counted.numbers({}, paused=False, waits_for_kafka=False, starting=False)

    assert found["event_latency_seconds|queued|sum"] == pytest.approx(2)
    assert found["event_latency_seconds|acknowledged|sum"] == pytest.approx(7)
    assert found["event_latency_seconds|acknowledged|+Inf"] == 1
    assert (found["records_polled_total"], found["records_acknowledged_total"]) == (1, 2)


def test_memory_is_known_without_proc(tmp_path):
    used = resource.getrusage(resource.RUSAGE_SELF)

    assert 0 < resident_bytes(used) <= resident_bytes(used, tmp_path / "statm") * 1.1
