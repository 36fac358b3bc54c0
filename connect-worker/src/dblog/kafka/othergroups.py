"""Whether another group of workers runs the connectors of the same config topic.

A group's coordinator keeps its own members apart and knows nothing of other groups: a second worker with another ``group.id`` on the same storage topics
would run every connector a second time. Kafka Connect has nothing on it. What workers leave at the brokers shows it, though: they are members that
subscribe to the config topic, and whoever led has committed a claim (``kafka/group.py``). A worker that was killed is no member any more once its
session has ended.

A claim that was taken back does not end a group that still has members: in a rolling restart a standby leads next, as soon as it hears of it. So a worker
that wants to join waits for such a group. One that is about to lead waits for a claim that stands alone: two groups that wait to lead would otherwise
wait for each other. A worker that waits is no member of its own group, and holds nobody up.

Groups that the worker's principal may not describe stay unseen, and so do two groups that start in the same moment; the herder notices those by the
status topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, GroupMetadata

from dblog.core.lease import Claim, read_claim

_log = structlog.get_logger("dblog.kafka.group")

_LOOK_LIMIT_S = 3.0
_MOMENT_S = 1.0
"""Of a look before leading: tasks that run nowhere wait for it."""
_LISTINGS = 2
"""Before a worker joins: one slow broker must not be why two groups run."""


@dataclass(frozen=True, slots=True)
class OtherLeader:
    """A worker of another group that leads on our config topic, or will in a moment."""

    group: str
    url: str
    """Empty between two leaders."""
    topic: str

    @property
    def problem(self) -> str:
        """What keeps this worker from running connectors."""
        if not self.url:
            return f"the workers of the group {self.group} run the connectors of the same config topic {self.topic}, one of them takes over now"
        return f"the worker {self.url} of the group {self.group} runs the connectors of the same config topic {self.topic}"

    @property
    def remedy(self) -> str:
        """What an operator does about it."""
        return (
            f"Two groups on the same topics would run every connector twice. Set group.id={self.group} to make this worker a standby of that one, or "
            "give it a config.storage.topic, offset.storage.topic and status.storage.topic of its own; if that group is to end, stop its workers: "
            "this one then takes over by itself."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGroups:
    """The groups beside ``group`` that use ``topic``. A group that the brokers do not show keeps no worker from its work."""

    group: str
    topic: str
    admin_settings: Mapping[str, str]
    consumer_settings: Mapping[str, str]

    def before_joining(self) -> OtherLeader | None:
        """Who runs the connectors in another group; None where nobody does, and where our own group has a leader: then this worker is one more standby."""
        groups = self._groups(listings=_LISTINGS, limit_s=_LOOK_LIMIT_S)
        other = next(self._leaders(groups), None)
        # Asked last: where nobody is found, a start costs no more than the listing.
        return None if other is None or self._has_leader(groups) else other

    def before_leading(self) -> OtherLeader | None:
        """Who leads in another group, asked when this worker has the config topic in its own."""
        return next((other for other in self._leaders(self._groups(listings=1, limit_s=_MOMENT_S)) if other.url), None)

    def _leaders(self, groups: list[GroupMetadata]) -> Iterator[OtherLeader]:
        for found in groups:
            if found.id != self.group and (claim := self._claim(found)) is not None:
                yield OtherLeader(str(found.id), claim.leader, self.topic)

    def _has_leader(self, groups: list[GroupMetadata]) -> bool:
        own = next((found for found in groups if found.id == self.group), None)
        claim = None if own is None else self._claim(own)
        return claim is not None and bool(claim.leader)

    def _groups(self, *, listings: int, limit_s: float) -> list[GroupMetadata]:
        reason = ""
        for _ in range(listings):
            try:
                admin = AdminClient({**self.admin_settings, "log_level": "2"})
                # Not describe_consumer_groups, which asks each group's coordinator: see kafka/group.py for what becomes of that when one has just moved.
                return admin.list_groups(timeout=limit_s)
            except KafkaException as e:
                reason = str(e)
        _log.warning("it is not known whether another group uses the config topic; this worker goes on", topic=self.topic, reason=reason)
        return []

    def _claim(self, found: GroupMetadata) -> Claim | None:
        """The last claim of a group of workers that has members on the topic; None for programs that are no workers."""
        if not self._may_be_on_topic(found):
            return None
        try:
            claim = self._committed(str(found.id))
        except KafkaException as e:
            _log.warning(
                "it is not known whether a group runs connectors of the config topic", topic=self.topic, other=found.id, reason=str(e)
            )
            return None
        return claim if claim is not None and claim.incarnation else None

    def _may_be_on_topic(self, found: GroupMetadata) -> bool:
        """While a group balances itself, the topics that its members subscribe to are not reported, and a standby's assignment has none."""
        subscribed = [bytes(member.metadata or b"") for member in found.members]
        name = self.topic.encode()
        # A classic consumer's subscription has a topic as its length and its name.
        return any(not topics or len(name).to_bytes(2, "big") + name in topics for topics in subscribed)

    def _committed(self, group: str) -> Claim | None:
        reader = Consumer({**self.consumer_settings, "group.id": group, "enable.auto.commit": "false", "log_level": "2"})
        try:
            committed = reader.committed([TopicPartition(self.topic, 0)], timeout=_LOOK_LIMIT_S)[0]
            if committed.error is not None:
                raise KafkaException(committed.error)
            return read_claim(committed.offset, committed.metadata)
        finally:
            reader.close()
