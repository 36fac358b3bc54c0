"""Writes a task's source offset to Connect's offset topic, in Connect's form.

Key: compact JSON ``["<connector>",{"server":"<prefix>"}]``; value: the flat offset map, or null to forget it. The write is synchronous: after it
returns the offset is stored. Source of the form: the Kafka Connect contract, offset topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, Producer

from dblog.errors import TransientError
from dblog.model import OffsetMap
from dblog.runtime.stop import STORED_BY, Stop

_FLUSH_S = 0.1


class OffsetWriter:
    """One task's line in the offset topic."""

    def __init__(
        self, producer: Producer, *, topic: str, connector: str, partition: Mapping[str, str], timeout_s: float, stop: Stop
    ) -> None:
        self._producer = producer
        self._stop = stop
        self._topic = topic
        self._key = json.dumps([connector, dict(partition)], separators=(",", ":"), ensure_ascii=False).encode()
        self._timeout_s = timeout_s
        self._written: OffsetMap | None = None

    def write(self, offset: OffsetMap) -> bool:
        """Store the offset unless it is the one stored last; True when something was written. TransientError when Kafka did not take it in time."""
        if offset == self._written:
            return False
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failures.append(error)

        value = json.dumps(dict(offset), separators=(",", ":"), ensure_ascii=False).encode()
        self._producer.produce(self._topic, value, self._key, on_delivery=delivered)
        began_s = time.monotonic()
        while (left := self._producer.flush(_FLUSH_S)) and self._stop.left_s(began_s + self._timeout_s, STORED_BY):
            pass
        if left or failures:
            reason = failures[0].name() if failures else f"no answer within {time.monotonic() - began_s:.1f} s"
            message = (
                f"the offset could not be written to topic {self._topic}: {reason}; records already sent will be sent again after a restart"
            )
            raise TransientError(message)
        self._written = dict(offset)
        return True
