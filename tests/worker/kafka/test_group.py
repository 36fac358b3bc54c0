"""A membership without brokers: what becomes of claims whose answers do not come, or come late, and of errors that nobody expects. # I7"""

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from dblog.kafka import group
from dblog.kafka.group import Membership
from dblog.kafka.othergroups import OtherLeader

SILENCE_S = 8.0
LEASE_S = SILENCE_S * 0.8


class HeldConsumer:
    """Keeps what is committed; the test answers for the broker."""

    def __init__(self, *_settings, **_more):
        self.commits = []
        self.committed_calls = 0

    def commit(self, *, offsets, asynchronous):
        assert asynchronous
        self.commits.append(offsets)

    def committed(self, partitions, *, timeout):
        self.committed_calls += 1
        return [TopicPartition(partitions[0].topic, 0, -1001)]

    def incremental_assign(self, partitions):
        pass

    def pause(self, partitions):
        pass

    def close(self):
        pass


@pytest.fixture
def now(monkeypatch):
    at = [100.0]
    monkeypatch.setattr(group, "lease_clock_s", lambda: at[0])
    return at


def member(**options):
    made = Membership(
        group="g", topic="c", url="http://here", consumer_settings={}, silence_s=SILENCE_S, heartbeat_s=1.0, rebalance_s=60.0, **options
    )
    made.on_assign(HeldConsumer(), [TopicPartition("c", 0)])
    return made


@pytest.fixture
def membership(now):
    return member()


def test_a_claim_that_is_never_answered_holds_up_neither_the_next_one_nor_looking(membership, now):
    consumer, reader = HeldConsumer(), HeldConsumer()
    membership.observe(reader)
    membership.renew(consumer)
    now[0] += 1.5
    membership.renew(consumer)
    membership.observe(reader)
    assert (len(consumer.commits), reader.committed_calls) == (1, 1), "an answer has its time"

    now[0] += 1.0
    membership.observe(reader)
    membership.renew(consumer)
    assert (len(consumer.commits), reader.committed_calls) == (2, 2)
    membership.on_commit(None, consumer.commits[1])

    assert membership.standing.leads is False, "published by its thread"
    membership.publish()
    assert membership.standing.leads


def test_a_late_answer_gives_the_lease_of_the_claim_that_it_answers(membership, now):
    consumer, reader, leases = HeldConsumer(), HeldConsumer(), []
    membership.report_to(on_change=lambda: None, on_lease=leases.append, on_revoked=lambda: None)
    membership.observe(reader)
    first_s = now[0]
    membership.renew(consumer)
    now[0] += 3.0
    membership.renew(consumer)
    membership.on_commit(None, consumer.commits[0])
    assert leases == [first_s + LEASE_S], "not that of the claim that was sent later"
    membership.on_commit(None, consumer.commits[1])

    assert leases == [first_s + LEASE_S, first_s + 3.0 + LEASE_S]
    numbers = [claim[0].offset for claim in consumer.commits]
    assert numbers == sorted(set(numbers))


def test_a_refused_claim_is_tried_again_at_its_turn(membership, now):
    consumer, reader = HeldConsumer(), HeldConsumer()
    membership.observe(reader)
    membership.renew(consumer)
    membership.on_commit(KafkaError(KafkaError.NOT_COORDINATOR), consumer.commits[0])
    now[0] += 1.1
    membership.renew(consumer)

    assert len(consumer.commits) == 2


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._FATAL)), ValueError("nobody expects it")])  # noqa: SLF001 - librdkafka's local codes are spelled so
def test_whatever_ends_a_membership_it_joins_again(monkeypatch, error):
    monkeypatch.setattr(group, "REOPEN_S", 0.01)
    joined_again, consumers = threading.Event(), []

    class Failing(HeldConsumer):
        def subscribe(self, *_topics, **_callbacks):
            consumers.append(self)
            if len(consumers) > 2:
                joined_again.set()
            raise error

    def on_lease(_until_s):
        if isinstance(error, ValueError):
            raise error

    monkeypatch.setattr(group, "Consumer", Failing)
    made = Membership(group="g", topic="c", url="http://here", consumer_settings={}, silence_s=SILENCE_S, heartbeat_s=1.0, rebalance_s=60.0)
    made.start(on_change=lambda: None, on_lease=on_lease, on_revoked=lambda: None)
    try:
        assert joined_again.wait(10)
        assert made.standing.problem
        assert not made.standing.leads
    finally:
        made.close()


def test_another_group_is_looked_for_before_each_term_and_not_before_each_claim(now):
    consumer, reader, looks = HeldConsumer(), HeldConsumer(), []
    others = SimpleNamespace(before_leading=lambda: looks.append(now[0]))
    membership = member(others=others)
    membership.observe(reader)
    began_s = now[0]
    for _ in range(3):
        assert not membership.makes_way()
        membership.renew(consumer)
        membership.on_commit(None, consumer.commits[-1])
        now[0] += 1.1
    assert (len(consumer.commits), looks) == (3, [began_s])

    now[0] += SILENCE_S
    others.before_leading = lambda: OtherLeader("theirs", "http://theirs", "c")

    assert membership.makes_way()
    assert "the worker http://theirs of the group theirs runs the connectors" in membership.standing.problem


@pytest.mark.parametrize("answer", [None, KafkaError(KafkaError._TIMED_OUT)])  # noqa: SLF001 - librdkafka's local codes are spelled so
def test_a_member_whose_claims_have_no_answer_though_another_client_has_them_joins_again(now, answer):
    consumer, reader = HeldConsumer(), HeldConsumer()
    membership = member()

    def live() -> None:
        for _ in range(100):
            membership.observe(reader)
            membership.renew(consumer)
            if answer is not None:
                membership.on_commit(answer, consumer.commits[-1])
            membership.require_answers()
            now[0] += 1.0

    with pytest.raises(KafkaException, match="answered this member nothing"):
        live()
    assert 130.0 <= now[0] < 140.0


def test_a_member_waits_while_the_brokers_answer_nobody_or_refuse_its_claims(now):
    consumer = HeldConsumer()

    def away(*_, **__):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    nobody, refused = member(), member()
    for _ in range(300):
        nobody.observe(SimpleNamespace(committed=away))
        nobody.renew(consumer)
        nobody.require_answers()
        refused.observe(HeldConsumer())
        refused.renew(consumer)
        refused.on_commit(KafkaError(KafkaError.NOT_COORDINATOR), consumer.commits[-1])
        refused.require_answers()
        now[0] += 1.0


def test_a_leaders_reader_does_not_stand_still_for_a_look_that_failed_before_it_led(now):
    consumer, membership = HeldConsumer(), member()
    membership.observe(HeldConsumer())
    now[0] += 1.0

    def away(*_, **__):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    membership.observe(SimpleNamespace(committed=away))
    for _ in range(60):
        membership.renew(consumer)
        membership.on_commit(None, consumer.commits[-1])
        membership.observe(SimpleNamespace(committed=away))
        assert not membership._reader_stalls()  # noqa: SLF001
        now[0] += 1.0
    membership.publish()
    assert membership.standing.leads


def test_a_member_that_the_group_never_answers_joins_again_and_one_that_stands_by_does_not(monkeypatch, now):
    monkeypatch.setattr(group, "REOPEN_S", 0.01)
    monkeypatch.setattr(group, "_POLL_S", 0.0)
    members, joined_again = [], threading.Event()

    class Member(HeldConsumer):
        def __init__(self, *settings, **more):
            super().__init__()
            self.joins = "partition.assignment.strategy" in settings[0]

        def subscribe(self, *_topics, on_assign, **_callbacks):
            members.append(self)
            if len(members) == 2:
                on_assign(self, [])
                joined_again.set()

        def poll(self, _timeout_s):
            now[0] += 0.5

        def unsubscribe(self):
            pass

        def memberid(self):
            return ""

    monkeypatch.setattr(group, "Consumer", Member)
    made = Membership(group="g", topic="c", url="http://here", consumer_settings={}, silence_s=SILENCE_S, heartbeat_s=1.0, rebalance_s=60.0)
    made.start(on_change=lambda: None, on_lease=lambda _: None, on_revoked=lambda: None)
    try:
        assert joined_again.wait(60)
        stands_by_until_s = now[0] + 1000
        while now[0] < stands_by_until_s:
            threading.Event().wait(0.01)
        assert len(members) == 2
    finally:
        made.close()
