"""The rule about another server, over every combination of what was read, what the server has, and what it can still get."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from dblog.core.successor import WAIT_MAX_S, Answer, Answering, Receives, Verdict, Waits, Why, verdict_on

AGES = (None, 0.0, WAIT_MAX_S, WAIT_MAX_S + 1, WAIT_MAX_S + 3601)
LAGS = (None, 0.0, 3600.0)
WAITED = (0.0, WAIT_MAX_S, WAIT_MAX_S + 1, WAIT_MAX_S + 3601)
EVERY = [
    Answering(
        same_history=same,
        dropped=dropped,
        lacks=lacks,
        lacks_its_own=lacks and own,
        receives=receives,
        lag_s=lag_s,
        waited_s=waited_s,
        read_age_s=age_s,
    )
    for same, dropped, lacks, own, receives, lag_s, waited_s, age_s in itertools.product(
        (True, False), (True, False), (True, False), (True, False), Receives, LAGS, WAITED, AGES
    )
]


def test_each_server_gets_the_answer_of_the_table() -> None:
    for server in EVERY:
        in_vain = server.waited_s - (server.lag_s or 0.0) > WAIT_MAX_S
        lags = server.lag_s is not None and server.read_age_s is not None and server.read_age_s - server.lag_s <= WAIT_MAX_S
        lost = (
            not server.same_history
            or server.dropped
            or (server.lacks_its_own and server.receives is not Receives.REPLAYS)
            or (server.lacks and server.receives is Receives.NOTHING)
            or (server.lacks and server.receives is not Receives.REPLAYS and in_vain and not lags)
        )
        wanted = Answer.LOST if lost else Answer.WAITS if server.lacks else Answer.GOES_ON
        assert verdict_on(server).answer is wanted, server


def test_a_server_that_lacks_anything_never_goes_on() -> None:
    assert {verdict_on(server).answer for server in EVERY if server.lacks} == {Answer.WAITS, Answer.LOST}


def test_every_fact_has_one_answer() -> None:
    """The sentence for a person follows from the fact alone."""
    found = {(verdict.why, verdict.answer) for verdict in map(verdict_on, EVERY)}
    assert {why for why, _ in found} == set(Why)
    assert len(found) == len(Why)


def test_getting_more_is_never_worse() -> None:
    order = [Receives.NOTHING, Receives.FOLLOWS, Receives.REPLAYS]
    ranks = {Answer.LOST: 0, Answer.WAITS: 1}
    for lag_s, waited_s, age_s, own in itertools.product(LAGS, WAITED, AGES, (True, False)):
        server = Answering(lacks=True, lacks_its_own=own, lag_s=lag_s, waited_s=waited_s, read_age_s=age_s)
        answers = [ranks[verdict_on(replace(server, receives=receives)).answer] for receives in order]
        assert answers == sorted(answers)


@pytest.mark.parametrize("age_s", AGES)
def test_a_standby_that_replays_the_history_that_was_read_is_always_waited_for(age_s: float | None) -> None:
    """A crashed standby replays again, and has shown what it does not have for a moment."""
    server = Answering(lacks=True, lacks_its_own=True, receives=Receives.REPLAYS, read_age_s=age_s)
    assert verdict_on(server) == Verdict(Answer.WAITS, Why.MAY_COME)


@pytest.mark.parametrize("receives", [Receives.STOPPED, Receives.DISCONNECTED, Receives.FOLLOWS, Receives.UNKNOWN])
@pytest.mark.parametrize("lag_s", LAGS)
@pytest.mark.parametrize("age_s", AGES)
def test_however_old_what_was_read_is_a_lack_is_waited_for_from_when_it_is_seen(
    receives: Receives, lag_s: float | None, age_s: float | None
) -> None:
    server = Answering(lacks=True, receives=receives, lag_s=lag_s, waited_s=WAIT_MAX_S, read_age_s=age_s)
    assert verdict_on(server) == Verdict(Answer.WAITS, Why.MAY_COME)


def test_a_replica_that_reports_a_long_lag_is_waited_for_that_much_longer() -> None:
    late = Answering(lacks=True, receives=Receives.FOLLOWS, lag_s=3600.0, waited_s=9000.0, read_age_s=3600.0 + WAIT_MAX_S)
    assert verdict_on(late) == Verdict(Answer.WAITS, Why.MAY_COME)
    assert verdict_on(replace(late, waited_s=3600.0 + WAIT_MAX_S, read_age_s=99999.0)) == Verdict(Answer.WAITS, Why.MAY_COME)
    assert verdict_on(replace(late, read_age_s=3600.0 + WAIT_MAX_S + 1)) == Verdict(Answer.LOST, Why.WAITED_IN_VAIN)


def test_a_wait_lasts_while_the_server_comes_no_further() -> None:
    waits = Waits()
    assert [waits.waited_s("a:3306", "u:5-9", now_s=now_s) for now_s in (100.0, 130.0, 700.0)] == [0.0, 30.0, 600.0]
    assert waits.waited_s("b:3306", "u:5-9", now_s=700.0) == 0.0, "another server"
    assert waits.waited_s("a:3306", "u:8-9", now_s=710.0) == 0.0, "some have come"
    waits.over("a:3306")
    waits.over("c:3306")
    assert waits.waited_s("a:3306", "u:8-9", now_s=720.0) == 0.0
    assert waits.waited_s("b:3306", "u:5-9", now_s=760.0) == 60.0
