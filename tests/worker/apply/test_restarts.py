"""Failed connectors are started again after 0, 2, 6, 12, 20, 30, 42, 56 and then every 60 minutes, up to a number, and only where it may help."""

from itertools import pairwise

import pytest
from dblog.apply.restarts import Failure, Policy, Restarts, is_retriable, pause_s
from dblog.cluster.decisions import Fail, after_death
from dblog.cluster.records import TaskId
from dblog.core.retries import gave_up
from dblog.errors import BadRowsError, DefiniteError, TransientError
from dblog.runtime.policy import failed_trace, trace_of

MAY_PASS = Failure(0, failed_trace(TransientError("no database"), "c"))
NEEDS_A_PERSON = Failure(0, failed_trace(DefiniteError("the table is gone"), "c"))


def minutes_of_restarts(policy, minutes, *, failure=MAY_PASS):
    """The minutes at which a connector that always fails again is started again."""
    restarts, found = Restarts(policy), []
    for minute in range(minutes):
        for name in restarts.decide({"c": [failure]}, now_s=minute * 60.0).restart:
            restarts.restarted(name, now_s=minute * 60.0)
            found.append(minute)
    return found


def test_the_pauses_grow_up_to_an_hour():
    assert [pause_s(n) / 60 for n in range(10)] == [0, 2, 6, 12, 20, 30, 42, 56, 60, 60]

    found = minutes_of_restarts(Policy(restarts_max=None), 300)
    assert [b - a for a, b in pairwise(found)] == [2, 6, 12, 20, 30, 42, 56, 60, 60]
    assert found[0] == 0


def test_there_is_a_most():
    assert len(minutes_of_restarts(Policy(restarts_max=3), 1000)) == 3

    restarts = Restarts(Policy(restarts_max=0))
    restarts.restarted("c", now_s=0)
    assert "waits for a person" in restarts.decide({"c": [MAY_PASS]}, now_s=1e6).stuck["c"]


def test_what_has_run_for_the_next_pause_is_sound_and_begins_again():
    restarts = Restarts(Policy())
    for now_s in (0.0, 120.0, 480.0):
        assert restarts.decide({"c": [MAY_PASS]}, now_s=now_s).restart == ("c",)
        restarts.restarted("c", now_s=now_s)

    assert restarts.decide({"c": []}, now_s=490.0).restart == ()  # too soon
    assert "12 minutes" in restarts.decide({"c": [MAY_PASS]}, now_s=500.0).waiting["c"]
    restarts.decide({"c": []}, now_s=480.0 + 12 * 60)
    assert restarts.decide({"c": [MAY_PASS]}, now_s=480.0 + 12 * 60 + 1).restart == ("c",)


def test_what_needs_a_person_is_named_and_not_restarted_unless_asked():
    verdict = Restarts(Policy()).decide({"c": [NEEDS_A_PERSON], "d": [MAY_PASS]}, now_s=0)

    assert verdict.restart == ("d",)
    assert verdict.stuck["c"] == "task 0 is FAILED and waits for a person: DefiniteError: the table is gone"
    assert minutes_of_restarts(Policy(retriable_only=False), 5, failure=NEEDS_A_PERSON) == [0, 2]
    assert minutes_of_restarts(Policy(enabled=False), 500) == []


def test_a_connector_that_is_gone_is_forgotten():
    restarts = Restarts(Policy())
    restarts.restarted("c", now_s=0)
    restarts.decide({}, now_s=1)

    assert restarts.decide({"c": [MAY_PASS]}, now_s=2).restart == ("c",)


def death(signal_number, *, exit_code=None):
    outcome = after_death(
        TaskId("c", 0), exit_code=exit_code, signal_number=signal_number, kills=9, restart_max=3, chance=0.5, last_output=""
    )
    assert isinstance(outcome, Fail)
    return outcome.trace


@pytest.mark.parametrize(
    ("trace", "helps"),
    [
        (trace_of(TransientError("x")), True),
        (failed_trace(gave_up(TransientError("x"), tries=3, waited_s=2, limit="l"), "c"), True),
        (death(9), True),
        (death(11), False),
        (death(None, exit_code=3), False),
        (trace_of(DefiniteError("x")), False),
        (trace_of(BadRowsError("x")), False),
        (trace_of(ValueError("TransientError: x")), False),
        ("org.apache.kafka.connect.errors.RetriableException: x\n\tat a.b.C", True),
        ("org.apache.kafka.connect.errors.ConnectException: x", False),
        ("", False),
    ],
)
def test_another_try_helps_where_the_trace_shows_trouble_that_passes(trace, helps):
    assert is_retriable(trace) is helps
