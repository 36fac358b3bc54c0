"""Whether another group of workers runs the connectors of the same config topic.

A group's coordinator keeps its own members apart and knows nothing of other groups: a second worker with another ``group.id`` on the same storage topics
would run every connector a second time. Kafka Connect says nothing of it. What a leader leaves at the brokers shows it, though: it is assigned the config
topic and has committed a claim (``kafka/group.py``) that it has not taken back. A worker that was killed is no member any more once its session has ended.

Groups that the worker's principal may not describe stay unseen, and so do two groups that start in the same moment; the herder notices those by the
status topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from dblog.core.lease import read_claim

_log = structlog.get_logger("dblog.kafka.group")

_LOOK_LIMIT_S = 3.0


@dataclass(frozen=True, slots=True)
class OtherLeader:
    """A worker of another group that leads on our config topic."""

    group: str
    url: str

    @property
    def remedy(self) -> str:
        """What an operator does about it."""
        return (
            f"Two groups on the same topics would run every connector twice. Set group.id={self.group} to make this worker a standby of that one, or "
            "give it a config.storage.topic, offset.storage.topic and status.storage.topic of its own; if that group is to end, stop its workers: "
            "this one then takes over by itself."
        )


OtherLeaderOf = Callable[[], OtherLeader | None]


def find_other_leader(
    *, group: str, topic: str, admin_settings: Mapping[str, str], consumer_settings: Mapping[str, str]
) -> OtherLeader | None:
    """The leader of a group that is not ``group``; None where there is none, or where the brokers do not tell."""
    try:
        admin = AdminClient({**admin_settings, "log_level": "2"})
        # Not describe_consumer_groups, which asks each group's coordinator: see kafka/group.py for what becomes of that when one has just moved.
        groups = admin.list_groups(timeout=_LOOK_LIMIT_S)
        assigned = _assigned(topic)
        for found in groups:
            name = found.id or ""
            if name != group and any(assigned in bytes(member.assignment or b"") for member in found.members):
                url = _leader_of(name, topic, consumer_settings)
                if url:
                    return OtherLeader(name, url)
    except KafkaException as e:
        _log.info("other groups of the config topic cannot be looked for", topic=topic, reason=str(e))
    return None


def _assigned(topic: str) -> bytes:
    """The topic as a classic consumer's assignment has it: a length, and the name."""
    name = topic.encode()
    return len(name).to_bytes(2, "big") + name


def _leader_of(group: str, topic: str, consumer_settings: Mapping[str, str]) -> str:
    """URL of the worker whose claim is the group's last; empty for programs that are no workers, and for one that has stopped in order."""
    reader = Consumer({**consumer_settings, "group.id": group, "enable.auto.commit": "false", "log_level": "2"})
    try:
        place = reader.committed([TopicPartition(topic, 0)], timeout=_LOOK_LIMIT_S)[0]
        claim = None if place.error is not None else read_claim(place.offset, place.metadata)
        return "" if claim is None else claim.leader
    finally:
        reader.close()
