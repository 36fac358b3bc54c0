"""Writes the sink's report to its compacted topic, with the job's Kafka client in the JVM.

The topic is created first, compacted: a broker that creates topics by itself would make one whose
records expire. Each call has an end (``WRITE_S``), and records that were not acknowledged are
simply written again by the next call, so nothing queues up. The caller has a thread of its own;
no batch waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.errors import TransientError
from dblog_sink.kafka import brokers

WRITE_S = 10.0
"""Seconds after which a write without an acknowledgement counts as failed."""
_MS = 1000
_BUFFER_BYTES = 4 << 20
_EXISTS = "TopicExistsException"


class ReportTopic:
    """A producer for one topic. All methods belong to one thread."""

    def __init__(self, session: SparkSession, settings: Settings, topic: str) -> None:
        self.topic = topic
        self._session = session
        self._settings = settings
        self._jvm: Any = session.sparkContext._jvm  # noqa: SLF001  PySpark has no client of its own
        self._producer: Any = None

    def write(self, records: Sequence[tuple[str, str]]) -> list[bool]:
        """Write keys and values, and return for each whether Kafka has acknowledged it.

        Raise TransientError with the reason if the first one could not be written; the others are
        not tried then, because each would wait as long.
        """
        limit_s = time.monotonic() + WRITE_S
        try:
            if self._producer is None:
                self._create()
                self._producer = self._opened()
            if faults := self._sent(records[:1], limit_s):
                raise TransientError(next(iter(faults.values())))
            faults = self._sent(records[1:], limit_s)
        except (Py4JError, OSError) as e:
            raise TransientError(_reason(e)) from e
        return [True, *(at not in faults for at in range(len(records) - 1))][: len(records)]

    def _sent(self, records: Sequence[tuple[str, str]], limit_s: float) -> dict[int, str]:
        """Write records and wait for their acknowledgements. Return the reasons of those that failed."""
        make, send = self._jvm.org.apache.kafka.clients.producer.ProducerRecord, self._producer.send
        futures: list[Any] = []
        faults: dict[int, str] = {}
        for at, (key, value) in enumerate(records):
            if time.monotonic() >= limit_s:
                faults |= dict.fromkeys(range(at, len(records)), "the brokers are too slow")
                break
            futures.append(send(make(self.topic, key, value)))
        self._producer.flush()
        for at, future in enumerate(futures):
            try:
                future.get()
            except Py4JJavaError as e:
                faults[at] = _reason(e)
        return faults

    def close(self) -> None:
        """Close the producer without waiting for its records."""
        if self._producer is not None:
            self._producer.close(self._jvm.java.time.Duration.ofMillis(0))
            self._producer = None

    def _opened(self) -> Any:
        properties = self._jvm.java.util.Properties()
        own = {
            "acks": "all",
            "enable.idempotence": "false",
            # One at a time, or a retried record would arrive after a newer one of its key.
            "max.in.flight.requests.per.connection": "1",
            "max.block.ms": str(int(WRITE_S * _MS)),
            "request.timeout.ms": str(int(WRITE_S * _MS / 2)),
            "delivery.timeout.ms": str(int(WRITE_S * _MS)),
            "linger.ms": "50",
            "buffer.memory": str(_BUFFER_BYTES),
            "compression.type": "gzip",
        }
        for key, value in (brokers.client_properties(self._settings) | own).items():
            properties.setProperty(key, value)
        text = self._jvm.org.apache.kafka.common.serialization.StringSerializer
        return self._jvm.org.apache.kafka.clients.producer.KafkaProducer(properties, text(), text())

    def _create(self) -> None:
        """Create the topic if it does not exist. A right that is missing shows at the first write."""
        with brokers.admin(self._session, self._settings) as (jvm, admin):
            asked = jvm.org.apache.kafka.clients.admin.ListTopicsOptions().timeoutMs(int(WRITE_S * _MS))
            if admin.listTopics(asked).names().get().contains(self.topic):
                return
            none = jvm.java.util.Optional.empty()
            new = jvm.org.apache.kafka.clients.admin.NewTopic(self.topic, jvm.java.util.Optional.of(1), none)
            settings = jvm.java.util.HashMap()
            settings.put("cleanup.policy", "compact")
            topics = jvm.java.util.ArrayList()
            topics.add(new.configs(settings))
            create = jvm.org.apache.kafka.clients.admin.CreateTopicsOptions().timeoutMs(int(WRITE_S * _MS))
            try:
                admin.createTopics(topics, create).all().get()
            except Py4JJavaError as e:
                if _EXISTS not in brokers.trouble(e)[1]:
                    raise


def _reason(error: Exception) -> str:
    return brokers.trouble(error)[1]
