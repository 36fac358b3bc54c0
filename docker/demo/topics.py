"""Counts the records in the table topics by asking the broker, independently of worker and sink."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

TIMEOUT_S = 5.0


class Topics:
    """The table topics of one connector, each with one or more partitions. Any thread may ask."""

    def __init__(self, bootstrap: str, names: Sequence[str]) -> None:
        self._names = list(names)
        self._bootstrap = bootstrap
        self._admin = self._new_admin()
        self._partitions: list[TopicPartition] = []

    def records(self) -> int:
        """Return the number of records written to all existing topics, tombstones included."""
        if len({partition.topic for partition in self._partitions}) < len(self._names):
            self._find()
        if not self._partitions:
            return 0
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        newest = self._admin.list_offsets(dict.fromkeys(self._partitions, latest), request_timeout=TIMEOUT_S)
        total, failed = 0, False
        for future in newest.values():
            try:
                total += future.result(TIMEOUT_S).offset
            except (KafkaException, TimeoutError):
                failed = True
        # After a broker's restart a client may ask in vain for ever.
        if failed:
            self._admin = self._new_admin()
        return total

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _find(self) -> None:
        with contextlib.suppress(KafkaException):
            known = self._admin.list_topics(timeout=TIMEOUT_S).topics
            self._partitions = [TopicPartition(name, at) for name in self._names if name in known for at in known[name].partitions]


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete every topic that begins with the prefix, to free disk space between runs."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    names = [name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefix)]
    if names:
        for future in admin.delete_topics(names).values():
            with contextlib.suppress(KafkaException):
                future.result(30)
