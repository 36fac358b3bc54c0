"""How many records the table topics hold, asked from the broker: progress that neither worker nor sink can make up."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 5.0


class Topics:
    """Counts records of one connector's table topics (one partition each or more)."""

    def __init__(self, bootstrap: str, names: Sequence[str]) -> None:
        self._names = list(names)
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo-counter", "enable.auto.commit": False, "log_level": 3})
        self._partitions: list[TopicPartition] = []

    def records(self) -> int:
        """Records written so far to all topics that exist, tombstones too."""
        if len({partition.topic for partition in self._partitions}) < len(self._names):
            self._find()
        total = 0
        for partition in self._partitions:
            with contextlib.suppress(KafkaException):
                total += self._consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)[1]
        return total

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _find(self) -> None:
        with contextlib.suppress(KafkaException):
            known = self._consumer.list_topics(timeout=TIMEOUT_S).topics
            self._partitions = [TopicPartition(name, at) for name in self._names if name in known for at in known[name].partitions]


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete every topic that begins with the prefix, to free the disk between runs."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    names = [name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefix)]
    if names:
        for future in admin.delete_topics(names).values():
            with contextlib.suppress(KafkaException):
                future.result(30)
