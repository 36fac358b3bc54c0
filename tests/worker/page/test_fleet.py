"""The word for each connector, the sentence beside it, and their order."""

import pytest
from dblog.page.fleet import Health, facts_of, listed, split

NOW_S = 1_790_000_000.0
TRACE = (
    "DefiniteError: the user 'cdc' lacks REPLICATION SLAVE; run: GRANT REPLICATION SLAVE ON *.* TO 'cdc'@'%'\n"
    "Caused by: SessionError\n"
    "Once the cause is gone: POST /connectors/shop/restart?includeTasks=true&onlyFailed=true"
)


def facts(name="shop", *, connector="RUNNING", task="RUNNING", trace=None, target="STARTED", age_s=0.0, waits=None, warnings=0, **numbers):
    known = {"log_last_record_timestamp_seconds": NOW_S - 5, **numbers}
    status = {"connector": {"state": connector}, "tasks": [{"state": task, **({"trace": trace} if trace else {})}] if task else []}
    return facts_of(
        name,
        config={"topic.prefix": name},
        system="MariaDB",
        target=target,
        status=status,
        numbers=known,
        reported_s=NOW_S - age_s,
        waits=waits,
        restarts={},
        rates={},
        warnings=warnings,
        now_s=NOW_S,
    )


@pytest.mark.parametrize(
    ("given", "word", "sentence"),
    [
        ({}, Health.RUNNING, ""),
        ({"log_last_record_timestamp_seconds": NOW_S - 61}, Health.IDLE, ""),
        ({"log_last_record_timestamp_seconds": NOW_S - 61, "dump_running": 1.0}, Health.RUNNING, ""),
        ({"log_last_record_timestamp_seconds": NOW_S - 61, "records_outstanding": 3.0}, Health.RUNNING, ""),
        ({"stalled_seconds": 61.0, "kafka_away": 1.0}, Health.STALLED, "records wait for Kafka, whose brokers do not answer"),
        ({"stalled_seconds": 61.0, "connected": 0.0}, Health.STALLED, "the connection to the database is not open"),
        ({"stalled_seconds": 59.0}, Health.RUNNING, ""),
        ({"age_s": 31.0}, Health.STALLED, "has not reported for 31"),
        ({"waits": "no broker answers at b:9092"}, Health.STALLED, "no broker answers at b:9092"),
        ({"task": "FAILED", "trace": TRACE}, Health.FAILED, "lacks REPLICATION SLAVE; run: GRANT"),
        ({"connector": "FAILED", "task": None}, Health.FAILED, "without a reason"),
        ({"task": "UNASSIGNED"}, Health.STARTING, ""),
        ({"task": None}, Health.STARTING, ""),
        ({"target": "PAUSED", "task": "PAUSED"}, Health.PAUSED, ""),
        ({"target": "STOPPED", "task": None}, Health.STOPPED, ""),
        ({"target": "PAUSED", "task": "FAILED", "trace": TRACE}, Health.FAILED, "lacks REPLICATION SLAVE"),
    ],
)
def test_each_state_has_its_word_and_says_why(given, word, sentence):
    found = facts(**given)

    assert found.health is word
    assert sentence in found.sentence
    assert bool(found.sentence) == bool(sentence)


def test_a_trace_is_a_sentence_and_a_remedy_and_the_rest_is_folded():
    sentence, remedy = split(TRACE)

    assert sentence == "the user 'cdc' lacks REPLICATION SLAVE; run: GRANT REPLICATION SLAVE ON *.* TO 'cdc'@'%'"
    assert remedy == "Once the cause is gone, restart its failed parts."
    assert split("") == ("", "")
    assert split("one line") == ("one line", "")


def test_what_is_wrong_comes_first_then_doubts_then_the_greatest_lag():
    found = [
        facts("calm", lag_ms=10.0),
        facts("late", lag_ms=90_000.0),
        facts("doubtful", warnings=2),
        facts("paused", target="PAUSED", task="PAUSED"),
        facts("broken", task="FAILED", trace=TRACE),
        facts("stuck", stalled_seconds=100.0),
    ]

    assert [each.name for each in listed(found).rows][:5] == ["broken", "stuck", "doubtful", "late", "calm"]
    assert listed(found).counts[Health.RUNNING] == 3
    assert listed(found).attention == 3


def test_the_list_is_searched_filtered_and_paged():
    many = [facts(f"shop-{number:03}") for number in range(120)] + [facts("Billing", task="FAILED")]

    assert [each.name for each in listed(many, search="bILL").rows] == ["Billing"]
    assert [each.name for each in listed(many, health=Health.FAILED).rows] == ["Billing"]
    second = listed(many, search="shop", page=2, size=50)
    assert (second.found, second.pages, second.page, second.rows[0].name) == (120, 3, 2, "shop-050")
    assert listed(many, page=99, size=50).page == 3
    assert listed([], page=0).pages == 1


def test_a_lag_is_not_shown_of_what_does_not_run_and_numbers_of_a_silent_process_are_not_either():
    assert facts(lag_ms=2000.0).lag_s == 2.0
    assert facts(lag_ms=2000.0, target="PAUSED", task="PAUSED").lag_s is None
    assert facts(lag_ms=2000.0, age_s=40.0).lag_s is None
