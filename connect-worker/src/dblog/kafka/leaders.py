"""Asks whether the brokers would accept a record.

A caller that waits for them asks this before it blames its own client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dblog.config.named_files import files_in_memory

_ANSWER_S = 5.0


class Leaders:
    """The leaders of partitions. ``settings`` are librdkafka's for the admin client, with files as
    ``NamedFile``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def are_led(self, topics: Collection[str]) -> bool:
        """Return True if the brokers answer and each partition of ``topics`` has a leader and all
        its replicas in sync.
        """
        with files_in_memory(self._settings) as given:
            client = AdminClient({"log_level": 2, **given})
        try:
            found = client.list_topics(timeout=_ANSWER_S).topics
        except KafkaException:
            return False
        return all(
            topic in found
            and bool(found[topic].partitions)
            and all(
                partition.leader >= 0 and len(partition.isrs) == len(partition.replicas) for partition in found[topic].partitions.values()
            )
            for topic in topics
        )
