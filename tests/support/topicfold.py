"""Reads table topics as a consumer, folds them by key, and compares the result with the source.

It checks I2 and I3, independently of the worker's codecs: fastavro decodes the records with the
writer schema of the registry. After a kill the worker sends records again (at least once), so only
a record that was already in the topic may go back in time.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import fastavro
import httpx
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from demo import source
from demo.compare import TableResult, compare_table
from demo.rest import NO_TLS

WIRE_HEADER = struct.Struct(">bI")
READ_TIMEOUT_S = 30.0
VIOLATIONS_MAX = 10
NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)


class Registry:
    """Writer schemas by id; each is fetched once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schemas: dict[int, Any] = {}

    def decode(self, data: bytes) -> Any:
        """Decode a value in Confluent's wire format."""
        return self.decode_with_schema(data)[0]

    def decode_with_schema(self, data: bytes) -> tuple[Any, Any]:
        """Decode a value. Return it with the parsed schema with which it was written."""
        magic, schema_id = WIRE_HEADER.unpack_from(data)
        assert magic == 0, "not Confluent's wire format"
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{schema_id}", timeout=10, verify=NO_TLS).raise_for_status().json()
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(answer["schema"]))
        schema = self._schemas[schema_id]
        return fastavro.schemaless_reader(io.BytesIO(data[WIRE_HEADER.size :]), schema), schema


@dataclass(slots=True)
class Folded:
    """A folded table topic: the newest row of each key, counts, and all steps back in time."""

    rows: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    records: int = 0
    repeated: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def fold(bootstrap: str, registry_url: str, topic: str) -> Folded:
    """Read the topic to its present end, and fold it in topic order, regardless of positions."""
    registry, folded = Registry(registry_url), Folded()
    newest: dict[bytes, tuple[int, int]] = {}
    seen: dict[bytes, set[tuple[tuple[int, int], str]]] = {}
    for key_bytes, value_bytes, kafka_offset in records(bootstrap, topic):
        folded.records += 1
        assert key_bytes is not None, f"{topic}: a table with a key has keyed records"
        if value_bytes is None:
            folded.ops["tombstone"] += 1
            continue
        key = tuple(registry.decode(key_bytes).values())
        envelope = registry.decode(value_bytes)
        op, position = envelope["op"], sequence_of(envelope)
        folded.ops[op] += 1
        if position < newest.get(key_bytes, position):
            if (position, op) in seen[key_bytes]:
                folded.repeated += 1
            elif len(folded.violations) < VIOLATIONS_MAX:
                folded.violations.append(f"{topic} key {key}: {op} at {position} after {newest[key_bytes]} ({kafka_offset})")
        else:
            newest[key_bytes] = position
        seen.setdefault(key_bytes, set()).add((position, op))
        if op == "d":
            folded.rows.pop(key, None)
        else:
            folded.rows[key] = envelope["after"]
    return folded


def sequence_of(envelope: dict[str, Any]) -> tuple[int, int]:
    """Return the record's position in the total order of the source (D7)."""
    high, low = json.loads(envelope["source"]["sequence"])
    return int(high), int(low)


def records(bootstrap: str, topic: str) -> Iterator[tuple[bytes | None, bytes | None, str]]:
    """Yield key, value and Kafka offset (as text) of every record up to the present end.

    Partitions follow one another. The topic may be written meanwhile.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "topicfold", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 3}
    )
    try:
        known = consumer.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic]
        if known.error is not None:
            return
        for partition in known.partitions:
            end = _watermarks(consumer, TopicPartition(topic, partition))[1]
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            ended = False
            while not ended:
                first = consumer.poll(READ_TIMEOUT_S)
                assert first is not None, f"{topic}: no answer from the broker in {READ_TIMEOUT_S} s"
                # consume() alone would wait for a full batch.
                for message in (first, *consumer.consume(5000, timeout=0)):
                    if (error := message.error()) is not None:
                        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's local codes are spelled so
                            raise KafkaException(error)
                        ended = True
                        continue
                    if message.offset() < end:
                        yield message.key(), message.value(), f"{topic}-{partition} offset {message.offset()}"
                    ended |= message.offset() + 1 >= end
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Return the first and the next offset.

    Retriable errors are retried: the leader of a new topic may not answer at once ("not leader for
    partition").
    """
    deadline = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=READ_TIMEOUT_S)
            return low, high
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def last_value(bootstrap: str, topic: str) -> bytes | None:
    """Return the newest value of a topic with one partition; None without a topic or a record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "topicfold", "enable.auto.commit": False, "log_level": 3})
    try:
        partition = TopicPartition(topic, 0)
        if topic not in consumer.list_topics(timeout=READ_TIMEOUT_S).topics:
            return None
        low, high = _watermarks(consumer, partition)
        if high == low:
            return None
        consumer.assign([TopicPartition(topic, 0, high - 1)])
        message = consumer.poll(READ_TIMEOUT_S)
        value: bytes | None = None if message is None or message.error() else message.value()
        return value
    finally:
        consumer.close()


def compare_topic(connect, database: str, table: str, folded: Folded) -> TableResult:
    """Compare a folded topic with the table: every row and every column (I3)."""
    described = source.describe(connect, database, table)
    names = [column.name for column in described.columns]
    return compare_table(
        table,
        columns=described.columns,
        key=described.key,
        source_rows=source.read_rows(connect, database, table, described.columns),
        lake_names=names,
        # A row written before a column was added lacks it; a reader of the topic sees NULL.
        lake_rows=([row.get(name) for name in names] for row in folded.rows.values()),
    )
