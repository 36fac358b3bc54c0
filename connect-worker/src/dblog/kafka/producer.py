"""The producer that carries records to Kafka: Connect's property names in, librdkafka's out.

Users write Java client properties (``producer.*`` in the worker, ``producer.override.*`` in the connector). Names that both clients share pass
through; those spelled otherwise are translated here; those without meaning for librdkafka are refused by name when they would change what is
delivered, and logged once when they only tune the JVM.
Source of the names: the Kafka producer configuration reference and librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from confluent_kafka import Producer

log = structlog.get_logger(__name__)

RENAMED = {
    "max.request.size": "message.max.bytes",
    "max.block.ms": None,
    "buffer.memory": None,
    "delivery.timeout.ms": "message.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "request.timeout.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "ssl.truststore.location": None,
    "ssl.truststore.password": None,
    "ssl.truststore.type": None,
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
    "ssl.keystore.type": None,
    "ssl.key.password": "ssl.key.password",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "metric.reporters": None,
    "interceptor.classes": None,
    "key.serializer": None,
    "value.serializer": None,
    "partitioner.class": None,
    "partitioner.ignore.keys": None,
    "client.dns.lookup": "client.dns.lookup",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "max.in.flight.requests.per.connection": "max.in.flight.requests.per.connection",
    "transaction.timeout.ms": "transaction.timeout.ms",
    "retries": "retries",
}
"""Java name -> librdkafka name; None: has no counterpart and changes nothing that is delivered, so it is left out with a log line."""

DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "batch.size": 524288,
    "compression.type": "lz4",
    "message.timeout.ms": 0,
    "queue.buffering.max.messages": 200000,
    "queue.buffering.max.kbytes": 131072,
    "partitioner": "murmur2_random",
}
"""``message.timeout.ms`` 0 is for ever: a broker that is away delays records, it never drops them. murmur2 is the Java client's partitioner,
so a key keeps its partition when a connector moves over."""


def librdkafka_properties(java: Mapping[str, str]) -> dict[str, Any]:
    """The client properties in librdkafka's spelling; ``delivery.timeout.ms`` at Java's maximum means for ever."""
    out: dict[str, Any] = {}
    for name, value in java.items():
        translated = RENAMED.get(name, name)
        if translated is None:
            log.info("client property has no meaning here and is left out", property=name)
            continue
        if translated == "message.timeout.ms" and int(value) >= 2**31 - 1:
            out[translated] = 0
        elif name == "sasl.jaas.config":
            out.update(_sasl_of_jaas(value))
        else:
            out[translated] = value
    return out


def record_producer(bootstrap_servers: str, client_id: str, overrides: Mapping[str, str], **more: Any) -> Producer:  # noqa: ANN401
    """The producer of one task; ``overrides`` are Java properties, ``more`` are librdkafka's own (callbacks)."""
    return Producer(
        {**DEFAULTS, "bootstrap.servers": bootstrap_servers, "client.id": client_id, **librdkafka_properties(overrides), **more}
    )


def _sasl_of_jaas(text: str) -> dict[str, str]:
    """User and password out of a PlainLoginModule or ScramLoginModule line; librdkafka takes them as properties of their own."""
    found: dict[str, str] = {}
    for part in text.rstrip("; ").split():
        key, separator, value = part.partition("=")
        if separator and key in {"username", "password"}:
            found[f"sasl.{key}"] = value.strip('";')
    return found
