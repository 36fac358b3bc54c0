"""What the brokers say, asked by the job's own Kafka client in the JVM: which cluster it is, and where its partitions begin and end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from dblog_sink.config import Settings

Ends = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


@contextmanager
def _admin(session: SparkSession, settings: Settings) -> Iterator[tuple[Any, Any]]:
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001  PySpark has no client of its own
    properties = jvm.java.util.Properties()
    for key, value in settings.kafka.items():
        properties.setProperty(key.removeprefix("kafka."), value)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        yield jvm, admin
    finally:
        admin.close()


def cluster_id(session: SparkSession, settings: Settings) -> str:
    """The id of the Kafka cluster; empty if it has none."""
    with _admin(session, settings) as (_, admin):
        return str(admin.describeCluster().clusterId().get() or "")


def compacted(session: SparkSession, settings: Settings, topic: str) -> bool:
    """Whether the broker may drop a topic's records because later ones have their keys."""
    with _admin(session, settings) as (jvm, admin):
        resource = jvm.org.apache.kafka.common.config.ConfigResource(jvm.org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic)
        names = jvm.java.util.ArrayList()
        names.add(resource)
        policy = admin.describeConfigs(names).all().get().get(resource).get("cleanup.policy")
        return policy is not None and "compact" in str(policy.value())


def ends(session: SparkSession, settings: Settings, topics: Collection[str]) -> tuple[Ends, Ends]:
    """(first, end) offsets of those of the topics that are there."""
    with _admin(session, settings) as (jvm, admin):
        there = set(admin.listTopics().names().get()) & set(topics)
        names = jvm.java.util.ArrayList()
        for topic in sorted(there):
            names.add(topic)
        described = admin.describeTopics(names).allTopicNames().get()
        places = [(topic, int(one.partition())) for topic in sorted(there) for one in described.get(topic).partitions()]
        found: list[Ends] = []
        for spec in (jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest(), jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()):
            wanted = jvm.java.util.HashMap()
            keys = {place: jvm.org.apache.kafka.common.TopicPartition(*place) for place in places}
            for key in keys.values():
                wanted.put(key, spec)
            offsets = admin.listOffsets(wanted)
            at: Ends = {}
            for (topic, partition), key in keys.items():
                at.setdefault(topic, {})[partition] = int(offsets.partitionResult(key).get().offset())
            found.append(at)
        return found[0], found[1]
