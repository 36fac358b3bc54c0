"""Hands batches to the Kafka producer and notes their acknowledgements. # I1

Every record carries a delivery callback of its batch's ledger entry: records of one batch go to several partitions, so no single record can speak
for the others. The producer's own queue is the second bound after the task's queue: while it is full the sender serves callbacks and waits. # I6
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from dblog.core.ledger import Entry
from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.model import Batch, Headers, Segment

log = structlog.get_logger(__name__)


class Sender:
    """One task's way to Kafka. ``context_headers`` go on every row record (Debezium's ``__debezium.context.*``), or are empty.

    ``ensure_topic`` is called once before the first record of a topic. ``tolerate`` True: a record that Kafka refuses is logged, counted and
    treated as delivered (errors.tolerance=all); False: it ends the task.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        context_headers: Headers,
        ensure_topic: Callable[[str], None],
        tolerate: bool = False,
    ) -> None:
        self._producer = producer
        self._context_headers = context_headers
        self._ensure_topic = ensure_topic
        self._tolerate = tolerate
        self._topics: set[str] = set()
        self._error: DblogError | None = None
        self.records_total = 0
        self.bytes_total = 0
        self.failures_total = 0

    @property
    def outstanding(self) -> int:
        """Records inside the producer."""
        return len(self._producer)

    def send(self, batch: Batch, entry: Entry) -> None:
        """Hand over all records of a batch; waits while the producer is full. Raises what an earlier delivery failed with."""

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._failed(error, message.topic())
            entry.acknowledge()

        for segment in batch.segments:
            if segment.topic not in self._topics:
                self._ensure_topic(segment.topic)
                self._topics.add(segment.topic)
            self._send_segment(segment, delivered)
        self.records_total += batch.records_total
        self.bytes_total += batch.bytes_total
        self.serve(0)

    def serve(self, timeout_s: float) -> None:
        """Run delivery callbacks; raise the first failure."""
        self._producer.poll(timeout_s)
        if self._error is not None:
            raise self._error

    def flush(self, timeout_s: float) -> int:
        """Wait until everything is delivered; returns how many records are still out."""
        left: int = self._producer.flush(timeout_s)
        return left

    def _send_segment(self, segment: Segment, delivered: Callable[..., None]) -> None:
        produce = self._producer.produce
        topic = segment.topic
        base: Headers = self._context_headers if segment.context_headers else []
        extra = segment.headers
        arguments: dict[str, Any] = {"on_delivery": delivered}
        if base:
            arguments["headers"] = base
        if segment.partition is not None:
            arguments["partition"] = segment.partition
        for index, (key, value) in enumerate(zip(segment.keys, segment.values, strict=True)):
            more = arguments if not extra or index not in extra else {**arguments, "headers": [*extra[index], *base]}
            try:
                produce(topic, value, key, **more)
            except BufferError:
                self._produce_when_there_is_room(topic, value, key, more)
            except KafkaException as e:
                self._refused(e, topic, value, delivered)

    def _produce_when_there_is_room(self, topic: str, value: bytes | None, key: bytes | None, more: dict[str, Any]) -> None:
        while True:
            self.serve(0.1)
            try:
                self._producer.produce(topic, value, key, **more)
            except BufferError:
                continue
            return

    def _refused(self, e: KafkaException, topic: str, value: bytes | None, delivered: Callable[..., None]) -> None:
        error = e.args[0]
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            message = (
                f"a record of {len(value or b'')} bytes for topic {topic} is larger than the producer allows; raise producer.override.max.request.size "
                "(and the topic's max.message.bytes)"
            )
            failure: DblogError = DefiniteError(message)
        else:
            failure = DefiniteError(f"the producer refused a record for topic {topic}: {error.name()}")
        if not self._tolerate:
            raise failure from e
        self.failures_total += 1
        log.error("record skipped by errors.tolerance=all", topic=topic, reason=str(failure))
        delivered(None, None)

    def _failed(self, error: KafkaError, topic: str) -> None:
        if self._tolerate and not error.fatal():
            self.failures_total += 1
            log.error("record skipped by errors.tolerance=all", topic=topic, reason=error.name())
            return
        if self._error is None:
            text = f"Kafka did not take a record for topic {topic}: {error.name()} ({error.str()})"
            if error.retriable():
                self._error = TransientError(text)
            else:
                self._error = DefiniteError(f"{text}; check the topic, its limits and the ACLs, then restart the task")
