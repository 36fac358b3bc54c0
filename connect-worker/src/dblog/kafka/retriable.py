"""Kafka's errors that may pass when the same thing is tried again.

For brokers' errors the protocol's table of error codes decides ("Retriable" column, Kafka protocol
guide, Error Codes). librdkafka uses negative codes for local events. A delivery report has only the
code, so the flag is decided here.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

RETRIABLE: frozenset[int] = frozenset(
    {
        KafkaError.INVALID_MSG,  # CORRUPT_MESSAGE: damaged on its way
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's local codes are spelled so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - deleted meanwhile: a new start makes it again
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001 - the end of one producer: the next one continues from the offset
        KafkaError._STATE,  # noqa: SLF001
        KafkaError._PURGE_QUEUE,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    }
)
