"""Which group of workers keeps another one waiting, from what brokers report; real groups do so in ``rest/test_two_workers.py``. # I7"""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import GroupMember, GroupMetadata
from dblog.core.lease import Claim
from dblog.kafka import othergroups
from dblog.kafka.othergroups import OtherGroups
from structlog.testing import capture_logs

TOPIC = "dblog-config"


def claim(leader):
    return Claim(number=7, leader=leader, incarnation="0f", silence_s=10.0).metadata()


def listed(name, *, topic=TOPIC, members=1, balances=False):
    found = GroupMetadata()
    found.id = name
    for _ in range(members):
        member = GroupMember()
        # Version, no topics, no user data: a standby's, reported also while its group balances itself.
        member.assignment = b"\0\1\0\0\0\0\0\0\0\0"
        # Version, one topic, no user data.
        member.metadata = b"" if balances else b"\0\1\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\0\0\0\0"
        found.members.append(member)
    return found


@pytest.fixture
def brokers(monkeypatch):
    """What the brokers report: a list of groups, and by group what it has committed; an error is raised in its turn."""
    reported = SimpleNamespace(listings=[], committed={}, asked=[])

    class Admin:
        def __init__(self, _settings):
            pass

        def list_groups(self, *, timeout):
            answer = reported.listings.pop(0)
            if isinstance(answer, KafkaException):
                raise answer
            return answer

    class Reader:
        def __init__(self, settings):
            self.group = settings["group.id"]

        def committed(self, partitions, *, timeout):
            reported.asked.append(self.group)
            metadata = reported.committed.get(self.group)
            if isinstance(metadata, KafkaException):
                raise metadata
            return [TopicPartition(TOPIC, 0) if metadata is None else TopicPartition(TOPIC, 0, 7, metadata)]

        def close(self):
            pass

    monkeypatch.setattr(othergroups, "AdminClient", Admin)
    monkeypatch.setattr(othergroups, "Consumer", Reader)
    return reported


@pytest.fixture
def groups():
    return OtherGroups(group="ours", topic=TOPIC, admin_settings={}, consumer_settings={})


def timed_out():
    return KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's local codes are spelled so


@pytest.mark.parametrize("balances", [False, True], ids=["stable", "balances itself"])
@pytest.mark.parametrize("leader", ["http://theirs", ""], ids=["leads", "between two leaders"])
def test_a_group_with_members_keeps_a_worker_from_joining_though_its_leader_has_just_stopped(brokers, groups, leader, balances):
    brokers.listings = [[listed("theirs", balances=balances)]]
    brokers.committed = {"theirs": claim(leader)}

    other = groups.before_joining()

    assert other is not None
    assert (other.group, other.url) == ("theirs", leader)
    assert f"the same config topic {TOPIC}" in other.problem


def test_a_worker_that_is_about_to_lead_makes_way_for_a_leader_and_not_for_others_that_wait(brokers, groups):
    brokers.committed = {"theirs": claim("http://theirs"), "waits": claim("")}
    brokers.listings = [[listed("waits")], [listed("waits"), listed("theirs")]]

    assert groups.before_leading() is None
    assert groups.before_leading().url == "http://theirs"


@pytest.mark.parametrize(
    ("group", "metadata"),
    [
        (listed("theirs", members=0), claim("http://theirs")),
        (listed("theirs", topic="other-config"), claim("http://theirs")),
        (listed("theirs", topic=f"x{TOPIC}"), claim("http://theirs")),
        (listed("a-tool"), None),
        (listed("a-tool"), "read to here"),
        (listed("a-tool", balances=True), ""),
    ],
    ids=["no members", "another topic", "another topic's end", "no claim", "a tool's commit", "a tool's group balances itself"],
)
def test_what_runs_no_connectors_of_the_topic_keeps_nobody_waiting(brokers, groups, group, metadata):
    brokers.listings = [[group], [group]]
    brokers.committed = {group.id: metadata}

    assert groups.before_joining() is None
    assert groups.before_leading() is None


def test_a_new_worker_of_a_group_that_has_its_leader_joins_it_whoever_else_leads(brokers, groups):
    both = [listed("ours"), listed("theirs")]
    brokers.listings = [both, both]
    brokers.committed = {"ours": claim("http://ours"), "theirs": claim("http://theirs")}

    assert groups.before_joining() is None
    assert groups.before_leading() is not None, "the claim of its own group may be one that nobody renews"


def test_where_there_is_no_other_group_a_start_asks_for_the_listing_alone(brokers, groups):
    brokers.listings = [[listed("ours")]]
    brokers.committed = {"ours": claim("http://ours")}

    assert groups.before_joining() is None
    assert brokers.asked == []


def test_a_group_that_cannot_be_read_does_not_hide_the_next_one_and_is_reported(brokers, groups):
    brokers.listings = [[listed("a-tool"), listed("theirs")]]
    brokers.committed = {"a-tool": timed_out(), "theirs": claim("http://theirs")}

    with capture_logs() as lines:
        other = groups.before_joining()

    assert other is not None
    assert other.group == "theirs"
    assert [(line["log_level"], line["other"]) for line in lines] == [("warning", "a-tool")]


def test_a_listing_that_comes_late_is_asked_for_again_before_a_worker_joins(brokers, groups):
    brokers.listings = [timed_out(), [listed("theirs")]]
    brokers.committed = {"theirs": claim("http://theirs")}

    assert groups.before_joining() is not None


def test_brokers_that_do_not_show_keep_nobody_from_work_and_are_reported(brokers, groups):
    brokers.listings = [timed_out() for _ in range(3)]

    with capture_logs() as lines:
        assert groups.before_joining() is None
        assert groups.before_leading() is None

    assert [line["log_level"] for line in lines] == ["warning", "warning"]
