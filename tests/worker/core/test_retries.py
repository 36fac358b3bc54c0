"""How often trouble is tried again, after which pause, and what ends it: Debezium's keys and ours."""

import pytest
from dblog.core.retries import Retries, RetryPolicy
from dblog.errors import DefiniteError, TransientError

AWAY = TransientError("the database is away")


def pauses(policy: RetryPolicy, *times_s: float) -> list[float]:
    retries = Retries(policy)
    return [retries.failed(AWAY, now_s=at, chance=0.999) for at in times_s]


def test_without_keys_trouble_is_tried_again_for_ever_with_growing_pauses():
    found = pauses(RetryPolicy.of({}), *range(0, 10_000, 1000))

    assert found == sorted(found)
    assert found[0] < 0.3
    assert found[-1] == pytest.approx(30, rel=0.01)


@pytest.mark.parametrize(("retries_max", "tries"), [("0", 0), ("2", 2)])
def test_errors_max_retries_is_the_number_of_retries_and_none_is_none(retries_max, tries):
    retries = Retries(RetryPolicy.of({"errors.max.retries": retries_max}))
    for at in range(tries):
        retries.failed(AWAY, now_s=at, chance=0)

    with pytest.raises(
        DefiniteError, match=rf"gave up after {tries + 1} tries in {tries} s \(errors.max.retries={retries_max}\): the database is away"
    ):
        retries.failed(AWAY, now_s=tries, chance=0)


def test_minus_one_is_no_limit():
    assert len(pauses(RetryPolicy.of({"errors.max.retries": "-1", "dblog.retry.timeout.ms": "-1"}), *range(500))) == 500


def test_the_pause_is_the_configured_one():
    assert pauses(RetryPolicy.of({"retriable.restart.connector.wait.ms": "1500"}), 0, 1, 2) == [1.5, 1.5, 1.5]


def test_a_limited_number_of_tries_comes_at_debezium_s_pace_or_a_restart_of_the_server_would_outlast_it():
    assert pauses(RetryPolicy.of({"errors.max.retries": "3"}), 0, 10, 20) == [10.0, 10.0, 10.0]
    assert pauses(RetryPolicy.of({"errors.max.retries": "3", "retriable.restart.connector.wait.ms": "50"}), 0, 1) == [0.05, 0.05]


def test_trouble_that_lasts_longer_than_the_timeout_is_definite_and_new_trouble_counts_again():
    retries = Retries(RetryPolicy.of({"dblog.retry.timeout.ms": "10000"}))
    retries.failed(AWAY, now_s=0, chance=0)
    retries.failed(AWAY, now_s=10, chance=0)
    retries.succeeded()
    retries.failed(AWAY, now_s=100, chance=0)

    with pytest.raises(DefiniteError, match=r"dblog.retry.timeout.ms=10000"):
        retries.failed(AWAY, now_s=111, chance=0)
