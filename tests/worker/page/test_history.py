"""The series behind the charts: rates from counters, rings of fixed size, and what is not known stays unknown."""

import math

import pytest
from dblog.page.history import BYTES_EACH, CONNECTORS_MAX, REACHES, History

FIVE_MINUTES, HOUR, DAY = REACHES
T = 1_790_000_000.0


def sample(history, at_s, *, name="shop", reported_s=None, **numbers):
    history.record(at_s, {name: ({key.replace("__", "|"): value for key, value in numbers.items()}, reported_s or at_s)})


def test_a_counter_becomes_a_rate_per_second_between_two_reports():
    history = History()
    sample(history, T, events_total__create=100.0, lag_ms=250.0)
    sample(history, T + 5, events_total__create=150.0, lag_ms=500.0)

    assert history.now("shop")["create"] == pytest.approx(10.0)
    assert history.series("shop", FIVE_MINUTES, ["create", "lag_s"], T + 5) == {
        "create": [*[None] * 59, 10.0],
        "lag_s": [*[None] * 58, 0.25, 0.5],
    }


def test_a_counter_that_begins_again_belongs_to_a_new_process_and_gives_no_negative_rate():
    history = History()
    sample(history, T, records_acknowledged_total=1000.0)
    sample(history, T + 5, records_acknowledged_total=50.0)

    assert history.now("shop")["acknowledged"] == pytest.approx(10.0)


def test_a_dump_that_goes_on_after_a_restart_with_all_its_rows_is_no_peak():
    history = History()
    sample(history, T, records_acknowledged_total=0.0)
    sample(history, T + 5, records_acknowledged_total=0.0, dump_rows_total=500_000.0)
    assert "dumped" not in history.now("shop")

    sample(history, T + 10, records_acknowledged_total=0.0, dump_rows_total=500_010.0)
    assert history.now("shop")["dumped"] == pytest.approx(2.0)


def test_a_slot_holds_the_mean_of_a_rate_and_the_peak_of_a_lag():
    history = History()
    for step, (events, lag_ms) in enumerate([(0.0, 0.0), (100.0, 9000.0), (100.0, 0.0)]):
        sample(history, T + 10 + 5 * step, events_total__update=events, lag_ms=lag_ms)

    slot = {name: values[-1] for name, values in history.series("shop", HOUR, ["update", "lag_s"], T + 20).items()}

    assert slot == {"update": 10.0, "lag_s": 9.0}


def test_what_was_not_measured_is_a_gap_and_old_slots_fall_out():
    history = History()
    sample(history, T, lag_ms=1000.0)
    sample(history, T + 20, lag_ms=2000.0)
    assert history.series("shop", FIVE_MINUTES, ["lag_s"], T + 25)["lag_s"][-6:] == [1.0, None, None, None, 2.0, None]

    sample(history, T + 10_000, lag_ms=3000.0)
    seen = history.series("shop", FIVE_MINUTES, ["lag_s"], T + 10_000)["lag_s"]
    assert (seen[-1], set(seen[:-1])) == (3.0, {None})
    assert history.series("shop", FIVE_MINUTES, ["lag_s"], T + 20_000)["lag_s"] == [None] * 60


def test_a_report_that_is_old_is_not_drawn_and_a_clock_that_is_set_back_breaks_nothing():
    history = History()
    sample(history, T, lag_ms=1000.0)
    sample(history, T + 5, reported_s=T - 40, lag_ms=7000.0)
    sample(history, T - 600, reported_s=T - 600, lag_ms=8000.0)

    assert history.series("shop", FIVE_MINUTES, ["lag_s"], T + 5)["lag_s"][-2:] == [1.0, None]


def test_a_paused_connector_is_not_late():
    history = History()
    sample(history, T, lag_ms=1000.0, paused=1.0, log_behind_bytes=5.0)

    assert history.series(None, FIVE_MINUTES, ["lag_s"], T)["lag_s"] == [None] * 60
    assert history.now("shop") == {"behind_bytes": 5.0}


def test_the_mean_age_of_changes_stays_known_while_none_come():
    history = History()
    read = "event_latency_seconds__read__"
    for at_s, number, total in ((T, 0.0, 0.0), (T + 5, 10.0, 2.0), (T + 10, 10.0, 2.0)):
        sample(history, at_s, **{f"{read}+Inf": number, f"{read}sum": total})

    assert history.now("shop")["read_s"] == pytest.approx(0.2)


def test_memory_is_bounded_by_connectors_and_a_deleted_one_is_forgotten():
    history = History()
    many = {f"c{number}": ({"lag_ms": 1.0}, T) for number in range(CONNECTORS_MAX + 50)}
    history.record(T, many)

    assert history.bytes_held == (CONNECTORS_MAX + 1) * BYTES_EACH
    assert BYTES_EACH < 16 * 1024

    history.record(T + 5, {"c1": ({"lag_ms": 1.0}, T + 5)})
    assert history.bytes_held == 2 * BYTES_EACH
    assert history.now("c2") == {}


def test_all_connectors_together_are_their_sum_and_the_greatest_lag():
    history = History()
    for at_s, events in ((T, 0.0), (T + 5, 50.0)):
        history.record(at_s, {name: ({"events_total|delete": events, "lag_ms": lag}, at_s) for name, lag in (("a", 100.0), ("b", 300.0))})

    slot = {name: values[-1] for name, values in history.series(None, FIVE_MINUTES, ["delete", "lag_s"], T + 5).items()}

    assert slot == {"delete": 20.0, "lag_s": pytest.approx(0.3, abs=0.001)}
    assert not any(math.isnan(value) for value in slot.values())
