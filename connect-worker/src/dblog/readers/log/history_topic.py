"""The schema history log as a Kafka topic: one partition, compacted if we create it, written
synchronously.

An existing topic is used as it is (Debezium's own has cleanup.policy=delete and unlimited
retention), but it must have exactly one partition. A retention limit is reported, because a table
without changes for longer than the retention would lose its schema (Debezium's manual, "MySQL
connector", Database schema history connector configuration properties).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from dblog.abort import Abort
from dblog.config.named_files import files_in_memory
from dblog.errors import DefiniteError, RecordTooLargeError, TransientError
from dblog.kafka.clientlog import ClientLog
from dblog.kafka.writer import Handed, NotWrittenError, TopicWriter, WhileAnswered, Write
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Size limit of a record in the client, before compression. A table of 4096 columns in ten versions
stays below.
"""

TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "segment.ms": str(5 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.01",
    "max.message.bytes": str(16 * 1024 * 1024),
}
"""Settings of a new topic: the smallest segments that Kafka allows, and a cleaner that always finds
work, so a start reads little more than one record per table.
"""

COMPRESSED_FROM_BYTES = 128 * 1024
"""Size from which a record is compressed. Every record is a batch of its own, which is expensive to
unpack, and the cleaner leaves the newest segment alone. So the more records fit into a segment, the
more a start reads. Large records are compressed because a topic that we did not create may accept
only 1 MiB.

Measured with 50 tables of 16 columns: after 100 statements 150 records and 0.15 to 0.25 s to
recover; after 20 000 statements 10 900 records and 0.38 s at once, 350 records and 0.13 s twenty
seconds later (all compressed: 5 400 records and 0.91 s, 2 500 and 0.56 s).
"""

POLL_S = 0.1

FORGETS = "history topic forgets"
"""Key of the standing warning about the topic's retention."""

ABORT_REQUEST_S = 10.0


_KEPT_FOR_GOOD_MS = 5 * 365 * 24 * 3600 * 1000
"""Retention in milliseconds that counts as unlimited. Debezium sets 2^63 - 1 ms when it creates the
topic (KafkaSchemaHistory.java), and its check takes five years as unlimited.
"""


class KafkaHistoryLog:
    """Kafka topic with the schema history; implements ``readers.log.history.HistoryLog``.

    ``client`` holds librdkafka's properties for the connection (bootstrap.servers, security), with
    files as ``NamedFile``. The first use connects. ``idle_timeout_s`` limits the time that a read
    makes no progress before it raises TransientError. ``abort`` ends a read between two requests,
    which then have a short timeout because librdkafka's own waits cannot be interrupted.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        topic: str,
        *,
        request_timeout_s: float = 30.0,
        idle_timeout_s: float = 30.0,
        abort: Abort | None = None,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._aborted = threading.Event()
        if abort is not None:
            abort.on(self._aborted.set)
            request_timeout_s = min(request_timeout_s, ABORT_REQUEST_S)
        self._client = dict(client)
        self._topic = topic
        self._request_timeout_s = request_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._warnings = warnings or StandingWarnings()
        self._writers: dict[str, TopicWriter] = {}
        """Writers by the compression of their records."""

    def ensure_topic(self) -> bool:
        """Create the topic if it is missing, with the broker's default replication. Return True if
        created.
        """
        with files_in_memory(self._client) as client:
            admin = AdminClient({"log_level": 2, **client})
        partitions = self._partitions(admin)
        if partitions is None:
            topic = NewTopic(self._topic, num_partitions=1, replication_factor=-1, config=TOPIC_SETTINGS)
            try:
                admin.create_topics([topic], operation_timeout=self._request_timeout_s)[self._topic].result(self._request_timeout_s)
            except KafkaException as e:
                if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._error("cannot be created", e.args[0]) from e
            except TimeoutError as e:
                raise TransientError(f"the schema history topic {self._topic} was not created in {self._request_timeout_s:g} s") from e
            else:
                return True
            partitions = self._partitions(admin)
        if partitions not in (None, 1):
            raise DefiniteError(
                f"the schema history topic {self._topic} has {partitions} partitions, so its order is lost; it must have one: "
                "name another topic in schema.history.internal.kafka.topic"
            )
        self._warn_of_retention(admin)
        return False

    def read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield every record up to the present end; none if there is no topic."""
        with files_in_memory(self._client) as client:
            consumer = Consumer(
                {
                    **client,
                    "group.id": f"dblog-history-{self._topic}",  # librdkafka requires a group; it is never joined or committed to
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    # The end is known only when a fetch returns empty. The default of 500 ms would
                    # delay every start.
                    "fetch.wait.max.ms": 10,
                    "isolation.level": "read_committed",
                    "fetch.message.max.bytes": VALUE_BYTES_MAX // 4,
                    "receive.message.max.bytes": VALUE_BYTES_MAX * 2,
                },
                logger=ClientLog(f"topic {self._topic}"),
            )
        try:
            if self._partitions(consumer) is None:
                return
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            idle_s = 0.0
            while True:
                self._require_wanted()
                messages: list[Message] = consumer.consume(1000, POLL_S)
                idle_s = 0.0 if messages else idle_s + POLL_S
                if idle_s > self._idle_timeout_s:
                    raise TransientError(
                        f"the schema history topic {self._topic} gave nothing for {self._idle_timeout_s:g} s before its end"
                    )
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield message.key(), message.value()
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public constants begin so
                        return
                    elif not error.retriable() and error.fatal():
                        raise self._error("cannot be read", error)
        except KafkaException as e:
            raise self._error("cannot be read", e.args[0]) from e
        finally:
            consumer.close()

    def write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        """Write the records and wait for every acknowledgement.

        A large and a small record of one call may change places, so each key may occur only once
        per call. Raise TransientError if the result is not known in time. The next call then uses
        new producers, since these may have stalled.
        """
        handed: dict[str, Handed] = {}
        try:
            for key, value in records:
                compression = "zstd" if value is not None and len(value) >= COMPRESSED_FROM_BYTES else "none"
                own = handed.setdefault(compression, Handed())
                self._writer(compression).hand_over(Write(key, value), own, limit=WhileAnswered(own, self._request_timeout_s * 2))
            for compression, own in handed.items():
                self._writer(compression).wait(own, limit=WhileAnswered(own, self._request_timeout_s * 2))
        except NotWrittenError as e:
            if e.unanswered:
                for compression in handed:
                    self._writer(compression).replace(str(e))
            if isinstance(e.reason, KafkaError):
                raise self._error("cannot be written", e.reason) from e
            raise TransientError(f"the schema history topic {self._topic} was not written: {e}") from e

    def close(self) -> None:
        """Drop the producers; ``write`` has left nothing in them."""
        self._writers.clear()

    def _writer(self, compression: str) -> TopicWriter:
        writer = self._writers.get(compression)
        if writer is None:
            writer = self._writers[compression] = TopicWriter(
                self._topic,
                {
                    **self._client,
                    "acks": "all",
                    # Keeps the order without idempotence, which costs half a second at the first
                    # record.
                    "max.in.flight.requests.per.connection": 1,
                    "compression.type": compression,
                    "linger.ms": 0,
                    "message.max.bytes": VALUE_BYTES_MAX,
                    "message.timeout.ms": int(self._request_timeout_s * 1000),
                },
                partition=0,
            )
        return writer

    def _require_wanted(self) -> None:
        if self._aborted.is_set():
            raise TransientError(f"the schema history topic {self._topic} was not read in time")

    def _partitions(self, client: AdminClient | Consumer) -> int | None:
        self._require_wanted()
        try:
            # Ask for all topics: a request for one topic by name makes a broker with auto-creation
            # create it, with a retention and without compaction.
            topic = client.list_topics(timeout=self._request_timeout_s).topics.get(self._topic)
        except KafkaException as e:
            raise self._error("cannot be looked up", e.args[0]) from e
        if topic is None:
            return None
        if topic.error is not None:
            if topic.error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
                return None
            raise self._error("cannot be looked up", topic.error)
        return len(topic.partitions) or None

    def _warn_of_retention(self, admin: AdminClient) -> None:
        self._require_wanted()
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            settings = admin.describe_configs([resource], request_timeout=self._request_timeout_s)[resource].result(self._request_timeout_s)
        except (KafkaException, TimeoutError):
            return  # not allowed to look, but the topic still works
        policy = settings["cleanup.policy"].value if "cleanup.policy" in settings else ""
        forgets = [name for name in ("retention.ms", "retention.bytes") if name in settings and _forgets(name, settings[name].value)]
        if "delete" in policy and forgets:
            # Not by compaction: Debezium's own records have no key, and a compacted topic drops
            # them and rejects further ones.
            limits = ",".join(f"{name}=-1" for name in forgets)
            remedy = f"kafka-configs --alter --entity-type topics --entity-name {self._topic} --add-config {limits}"
            log.warning(
                "the schema history topic forgets by age or size; a quiet table would lose its schema",
                topic=self._topic,
                settings=forgets,
                remedy=remedy,
            )
            text = f"the schema history topic {self._topic} forgets by age or size ({', '.join(forgets)}); a quiet table would lose its schema: {remedy}"
            self._warnings.raise_warning(FORGETS, text)

    def _error(self, what: str, error: KafkaError) -> TransientError | DefiniteError:
        text = f"the schema history topic {self._topic} {what}: {error.str()}"
        definite = {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant the worker's user DESCRIBE, CREATE, READ and WRITE on it",
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant the worker's user CREATE, or create the topic by hand (one partition, compacted)",
            KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic",
            KafkaError.TOPIC_EXCEPTION: "name another topic in schema.history.internal.kafka.topic",
            KafkaError.POLICY_VIOLATION: "create the topic by hand (one partition, compacted)",
        }
        remedy = definite.get(error.code())
        if remedy is None:
            return TransientError(text)
        kind = RecordTooLargeError if error.code() == KafkaError.MSG_SIZE_TOO_LARGE else DefiniteError
        return kind(f"{text}; {remedy}")


def _forgets(name: str, value: str | None) -> bool:
    """Return True if this limit of the topic deletes records."""
    if value is None or value == "-1":
        return False
    return not (name == "retention.ms" and value.isdecimal() and int(value) >= _KEPT_FOR_GOOD_MS)
