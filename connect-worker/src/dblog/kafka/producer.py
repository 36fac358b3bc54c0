"""The producers of a task, one for records and one for offsets, with settings that neither lose nor
reorder records.

Users write Java client properties (``producer.*`` in the worker, ``producer.override.*`` in the
connector); config/worker.py translates them for librdkafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dblog.kafka._librdkafka import BatchProducer
from dblog.kafka.writer import TopicWriter

DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "batch.size": 1000000,
    "compression.codec": "lz4",
    "delivery.timeout.ms": 0,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "queue.buffering.max.messages": 200000,
    "queue.buffering.max.kbytes": 65536,
    "partitioner": "murmur2_random",
    "log_level": 2,
}
"""librdkafka settings of a task's producers.

``delivery.timeout.ms`` 0 means forever: a broker that is away delays records and never drops them.
murmur2 is the Java client's partitioner, so a key keeps its partition when a connector moves from
Kafka Connect. Connect's producer keeps order with one request in flight; idempotence keeps it with
five. Batches that are handed over are sent at once or wait for the previous one
(runtime/sender.py). The fast metadata refresh is for dumps of many tables, which meet new topics
all the time and would wait 100 ms for each batch of them.
"""


def record_producer(client_id: str, settings: Mapping[str, Any], headers: Sequence[tuple[str, bytes | None]] = ()) -> BatchProducer:
    """Return the producer of rows.

    ``settings`` are librdkafka's and override the defaults. ``headers`` are those that most records
    carry. Raise KafkaException naming a setting that is wrong.
    """
    merged = {**DEFAULTS, "client.id": client_id, **settings}
    return BatchProducer({name: _text(value) for name, value in merged.items()}, headers)


def offset_writer(topic: str, client_id: str, settings: Mapping[str, Any], **callbacks: Any) -> TopicWriter:
    """Return the writer of a task's offsets, one record at a time.

    ``callbacks`` have names with underscores. Whatever ``acks`` the rows have, an offset counts
    only once it has an offset of its own, which a broker gives with acks=1 and all alone. # I1
    """
    given = {name: value for name, value in settings.items() if name not in ("acks", "request.required.acks")}
    return TopicWriter(topic, {**DEFAULTS, "client.id": client_id, **given, "linger.ms": 0}, **callbacks)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
