"""Who leads, and until when: the rules without a broker. Every step of a history is taken at every moment that matters."""

from itertools import permutations

import pytest
from dblog.core.lease import LEASE_SHARE, Claim, Leadership, read_claim

SILENCE_S = 10.0


def worker(name: str) -> Leadership:
    return Leadership(leader=f"http://{name}", incarnation=name, silence_s=SILENCE_S)


def lead(leadership: Leadership, *, at_s: float) -> Claim:
    """The steps of a worker that gets the partition of a group without a claim."""
    leadership.assign()
    leadership.observe(None, asked_while_assigned=True, at_s=at_s)
    claim = leadership.next_claim()
    leadership.taken(claim, sent_at_s=at_s, now_s=at_s)
    return claim


def test_a_claim_survives_its_way_through_the_group():
    claim = worker("a").next_claim()

    assert read_claim(claim.number, claim.metadata()) == claim


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "",
        "no json",
        "[]",
        '{"leader": 1}',
        "[" * 4096,
        f'{{"leader": "a", "incarnation": "b", "silence.ms": 1{"0" * 400}}}',
    ],
)
def test_what_another_program_committed_is_no_leader(metadata):
    found = read_claim(7, metadata)

    assert found is not None
    assert (found.number, found.leader) == (7, "")
    assert read_claim(-1001, None) is None


def test_a_lease_begins_when_its_claim_was_sent_not_when_it_was_answered():
    one = worker("a")
    one.assign()
    one.observe(None, asked_while_assigned=True, at_s=0)

    one.taken(one.next_claim(), sent_at_s=100.0, now_s=105.0)

    assert one.leads(100.0 + SILENCE_S * LEASE_SHARE - 0.01)
    assert not one.leads(100.0 + SILENCE_S * LEASE_SHARE)


def test_a_claim_of_a_run_that_is_known_to_have_ended_is_not_waited_for_and_any_other_is():
    left = lead(worker("a"), at_s=0.0)

    for ended, may in ([("a",), True], [("b",), False]):
        one = Leadership(leader="http://a", incarnation="a again", silence_s=SILENCE_S, ended=ended)
        one.assign()
        one.observe(left, asked_while_assigned=True, at_s=1.0)
        assert one.may_claim(1.0) is may
        assert one.next_claim().number == left.number + 1


def test_an_answer_that_comes_after_the_lease_it_gives_gives_none():
    one = worker("a")
    one.assign()
    one.observe(None, asked_while_assigned=True, at_s=0)

    one.taken(one.next_claim(), sent_at_s=0.0, now_s=SILENCE_S)

    assert not one.leads(SILENCE_S)
    assert one.term == 0


def test_nobody_claims_before_it_has_looked_behind_its_assignment():
    one = worker("a")
    one.observe(None, asked_while_assigned=False, at_s=0)
    one.assign()

    assert not one.may_claim(1.0)
    one.observe(None, asked_while_assigned=False, at_s=1)
    assert not one.may_claim(1.0)
    one.observe(None, asked_while_assigned=True, at_s=1)
    assert one.may_claim(1.0)


def test_a_leader_that_fell_silent_is_waited_for_and_one_that_left_is_not():
    old, new = worker("old"), worker("new")
    claim = lead(old, at_s=0)
    new.assign()
    new.observe(claim, asked_while_assigned=True, at_s=3)

    assert not new.may_claim(3 + SILENCE_S - 0.01)
    assert new.may_claim(3 + SILENCE_S)
    goodbye = old.next_claim(release=True)
    new.observe(goodbye, asked_while_assigned=True, at_s=4)
    assert new.may_claim(4.0)


def test_a_claim_that_moves_is_of_a_worker_that_runs_and_one_that_stands_may_be_left_behind():
    old, new = worker("old"), worker("new")
    new.observe(lead(old, at_s=0), asked_while_assigned=False, at_s=0)
    assert new.other is not None
    assert not new.other_is_alive

    new.observe(old.next_claim(), asked_while_assigned=False, at_s=1)

    assert new.other_is_alive
    new.observe(old.next_claim(release=True), asked_while_assigned=False, at_s=2)
    assert not new.other_is_alive


def test_a_lease_that_is_renewed_keeps_its_term_and_one_that_lapsed_begins_another():
    one = worker("a")
    lead(one, at_s=0)
    assert one.term == 1
    one.taken(one.next_claim(), sent_at_s=5, now_s=5)
    assert one.term == 1
    one.taken(one.next_claim(), sent_at_s=50, now_s=50)
    assert one.term == 2
    one.lose()
    assert not one.leads(51)


def test_in_every_order_of_events_two_workers_never_lead_at_once():
    """A leads; then in any order: its last renewal is sent, it loses the partition (known to it or not), B gets it, B looks, time passes."""
    steps = ("renew", "assign", "look", "look", "wait", "wait", "wait")
    for order in set(permutations(steps)):
        a, b, now_s, number_taken = worker("a"), worker("b"), 0.0, True
        claim = lead(a, at_s=now_s)
        for step in order:
            match step:
                case "renew" if number_taken:
                    claim = a.next_claim()
                    a.taken(claim, sent_at_s=now_s, now_s=now_s)
                case "assign":
                    # The coordinator takes no claim of the one that was thrown out, which need not know it.
                    number_taken = False
                    b.assign()
                case "look":
                    b.observe(claim, asked_while_assigned=b.assigned, at_s=now_s)
                case "wait":
                    now_s += SILENCE_S / 2
                case _:
                    pass
            if b.may_claim(now_s):
                assert not a.leads(now_s), order


def test_a_leader_knows_whether_anybody_else_has_led_since_its_term_before():
    one, two = worker("a"), worker("b")
    first = lead(one, at_s=0.0)
    assert not one.again, "there was no term before"
    one.lose()
    one.assign()
    one.observe(first, asked_while_assigned=True, at_s=20.0)
    second = one.next_claim()
    one.taken(second, sent_at_s=20.0, now_s=20.0)
    assert one.again

    one.lose()
    two.assign()
    two.observe(second, asked_while_assigned=True, at_s=40.0)
    others = two.next_claim()
    one.assign()
    one.observe(others, asked_while_assigned=True, at_s=60.0)
    one.taken(one.next_claim(), sent_at_s=80.0, now_s=80.0)
    assert not one.again

    one.lose()
    one.assign()
    one.make_way()
    one.taken(one.next_claim(), sent_at_s=100.0, now_s=100.0)
    assert (one.term, one.again) == (4, False)
