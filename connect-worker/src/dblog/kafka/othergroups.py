"""Detects another group of workers that runs the connectors of the same config topic.

A group's coordinator keeps its own members apart and knows nothing of other groups. A second worker
with another ``group.id`` on the same storage topics would run every connector a second time; Kafka
Connect does not prevent that. But the brokers know each worker as a member that subscribes to the
config topic, and each leader by its committed claim (``kafka/group.py``). A killed worker stops
being a member when its session ends.

A released claim does not end a group that still has members: in a rolling restart a standby leads
next, as soon as it learns of the release. So a worker that wants to join waits for such a group. A
worker that is about to lead waits only for a claim that has a leader; two groups that wait to lead
would otherwise wait for each other. A waiting worker is not a member of its own group, and holds
nobody up.

Groups that the worker's principal may not describe stay unseen, and so do two groups that start at
the same moment. The herder notices those by the status topic.
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
"""Time limit of a look before leading. Tasks that run nowhere wait for it."""
_LISTINGS = 2
"""Tries to list the groups before joining: one slow broker must not let two groups run."""


@dataclass(frozen=True, slots=True)
class OtherLeader:
    """A worker of another group that leads on our config topic, or will in a moment."""

    group: str
    url: str
    """URL of the leader. Empty between two leaders."""
    topic: str

    @property
    def problem(self) -> str:
        """The reason why this worker may not run connectors."""
        if not self.url:
            return f"the workers of the group {self.group} run the connectors of the same config topic {self.topic}, one of them takes over now"
        return f"the worker {self.url} of the group {self.group} runs the connectors of the same config topic {self.topic}"

    @property
    def remedy(self) -> str:
        """The steps that an operator can take."""
        return (
            f"Two groups on the same topics would run every connector twice. Set group.id={self.group} to make this worker a standby of that one, or "
            "give it a config.storage.topic, offset.storage.topic and status.storage.topic of its own; if that group is to end, stop its workers: "
            "this one then takes over by itself."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGroups:
    """The groups other than ``group`` that use ``topic``.

    A group that the brokers do not show stops no worker.
    """

    group: str
    topic: str
    admin_settings: Mapping[str, str]
    consumer_settings: Mapping[str, str]

    def before_joining(self) -> OtherLeader | None:
        """Return the leader of another group, to ask before this worker joins its own.

        Return None if there is none, or if our own group has a leader: then this worker is one more
        standby.
        """
        groups = self._groups(listings=_LISTINGS, limit_s=_LOOK_LIMIT_S)
        other = next(self._leaders(groups), None)
        # Asked last: if no other group is found, a start costs only the listing.
        return None if other is None or self._has_leader(groups) else other

    def before_leading(self) -> OtherLeader | None:
        """Return another group's leader, to ask when this worker owns its own group's partition."""
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
                # describe_consumer_groups would ask each group's coordinator; kafka/group.py says
                # what happens if a coordinator has just moved.
                return admin.list_groups(timeout=limit_s)
            except KafkaException as e:
                reason = str(e)
        _log.warning("cannot find out whether another group uses the config topic; this worker continues", topic=self.topic, reason=reason)
        return []

    def _claim(self, found: GroupMetadata) -> Claim | None:
        """Return the last claim of a group of workers with members on the topic.

        None for other programs.
        """
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
        """Return True if members of the group subscribe to the topic, or may do so.

        The brokers report no subscriptions while a group rebalances, and a standby's assignment is
        empty.
        """
        subscribed = [bytes(member.metadata or b"") for member in found.members]
        name = self.topic.encode()
        # A classic consumer's subscription encodes a topic as its length and its name.
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
