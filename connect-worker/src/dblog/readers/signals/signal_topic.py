"""Signals from a topic: records of partition 0 with topic.prefix as key, as in Debezium's Kafka
channel.

The offset after a signal is part of the state that the signal changes, so both enter the source
offset together. No kill loses a signal or makes it be carried out twice. # I1

The first start begins at the group's committed offset, where Debezium may have left it. Later it
shows others how far signals have been read. If the topic is not available, the log is still
followed, and the topic is tried again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from dblog.config.named_files import files_in_memory
from dblog.core.backoff import Backoff
from dblog.core.requested import Requests
from dblog.errors import ConfigError
from dblog.kafka.clientlog import ClientLog
from dblog.kafka.standstill import Standstill
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.signals.signals import SignalDesk
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

POLL_S = 0.5
ASKED_S = 10.0
END_ASKED_S = 10.0
STANDSTILL_S = 30.0
UNREADABLE = "signal topic"
"""Key of the standing warning about a topic that cannot be read."""
BACKOFF = Backoff(first_s=0.5, max_s=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTopicSettings:
    """Settings for reading signals from a topic."""

    client: Mapping[str, Any]
    """librdkafka's settings for the connection; its files are still to be read."""
    topic: str
    group: str
    key: str
    """Key of the records that are for this connector."""


class SignalTopic:
    """Reader of the signal topic in one run; ``run`` is the body of its thread."""

    def __init__(
        self,
        settings: SignalTopicSettings,
        *,
        desk: SignalDesk,
        progress: DumpProgress,
        stopped: threading.Event,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._warnings = warnings or StandingWarnings()
        self._settings = settings
        self._desk = desk
        self._progress = progress
        self._stopped = stopped
        self._stored: int | None = None
        self._committed: int | None = None

    def stored(self, requests: Requests) -> None:
        """Note that the offset with these requests is stored."""
        self._stored = requests.signals_read.get(self._settings.topic)

    def run(self) -> None:
        """Read until the task stops."""
        failures = 0
        while not self._stopped.is_set():
            try:
                self._read()
            except (KafkaException, ConfigError) as e:
                failures += 1
                delay_s = BACKOFF.delay_s(failures, chance=random.random())  # noqa: S311 - jitter, no secret
                reason = e.args[0].str() if isinstance(e, KafkaException) else str(e)
                log.warning(
                    "the topic of signals cannot be read, trying again",
                    topic=self._settings.topic,
                    reason=reason,
                    delay_s=round(delay_s, 2),
                )
                text = f"the topic of signals {self._settings.topic} cannot be read, so no signal in it is carried out: {reason}"
                self._warnings.raise_warning(UNREADABLE, text)
                self._stopped.wait(delay_s)

    def _read(self) -> None:
        settings = self._settings
        with files_in_memory(settings.client) as client:
            consumer = Consumer(
                {
                    "log_level": 2,
                    **client,
                    "group.id": settings.group,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                },
                logger=ClientLog("signals"),
            )
        try:
            begin = self._begin(consumer)
            consumer.assign([TopicPartition(settings.topic, 0, begin)])
            log.info("reading signals from a topic", topic=settings.topic, offset=begin if begin >= 0 else None)
            reached = max(begin, 0)
            standstill, asked_s = Standstill(limit_s=STANDSTILL_S), time.monotonic()
            while not self._stopped.is_set():
                message = consumer.poll(POLL_S)
                error = message.error() if message is not None else None
                if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # it may be created later
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  its public name
                    raise KafkaException(error)
                if message is not None:
                    self._warnings.withdraw(UNREADABLE)
                    reached = self._take(message)
                self._commit(consumer)
                if time.monotonic() - asked_s >= END_ASKED_S:
                    asked_s = time.monotonic()
                    self._look(consumer, reached, standstill)
        finally:
            consumer.close()

    def _begin(self, consumer: Consumer) -> int:
        known = self._progress.requests.signals_read.get(self._settings.topic)
        if known is not None:
            return known
        (found,) = consumer.committed([TopicPartition(self._settings.topic, 0)], timeout=ASKED_S)
        return found.offset if found.offset >= 0 else OFFSET_BEGINNING

    def _look(self, consumer: Consumer, reached: int, standstill: Standstill) -> None:
        """Check that the consumer makes progress.

        Raise KafkaException if it stands still although there are signals.
        """
        try:
            ends = consumer.get_watermark_offsets(TopicPartition(self._settings.topic, 0), timeout=ASKED_S)
        except KafkaException as e:
            if e.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
                raise
            ends = None
        if ends is None:
            standstill.forget()
        elif standstill.seen({0: reached}, {0: ends[1]}, time.monotonic()):
            raise KafkaException(KafkaError(KafkaError._FAIL, f"no signal came for {STANDSTILL_S:g} s though there are some"))  # noqa: SLF001

    def _take(self, message: Message) -> int:
        """Take a record, and return the offset after it; for the end of the partition, return that
        offset.
        """
        topic, offset = self._settings.topic, message.offset()
        assert offset is not None, "a record that has come has an offset, and so has an end"
        if message.error() is not None:
            return offset
        key, value = message.key(), message.value()

        def read(requests: Requests) -> Requests:
            return requests.with_signals_read(topic, offset + 1)

        if key == self._settings.key.encode() and value is not None:
            self._desk.take_json(value, f"{topic}:{offset}", read)
        else:
            self._progress.change_requests(read)
        return offset + 1

    def _commit(self, consumer: Consumer) -> None:
        stored = self._stored
        if stored is not None and stored != self._committed:
            self._committed = stored
            consumer.commit(offsets=[TopicPartition(self._settings.topic, 0, stored)], asynchronous=True)
