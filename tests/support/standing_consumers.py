"""Consumers and producers that stand still on demand, as librdkafka's sometimes do.

After a leader's return, librdkafka may fetch or send nothing and report nothing.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer


class StandingConsumer(Consumer):
    """A real consumer. Once ``stands_still`` is set, its next poll pauses its partitions.

    ``partitions`` limits that to some; None stands for all. The polling thread pauses them, because
    another thread would wait for the poll.
    """

    def __init__(self, *given: Any, partitions: set[int] | None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._partitions = partitions
        self.stands_still = threading.Event()
        self.stood_still = threading.Event()

    def poll(self, timeout: float = -1) -> Message | None:
        if self.stands_still.is_set() and not self.stood_still.is_set():
            self.pause([one for one in self.assignment() if self._partitions is None or one.partition in self._partitions])
            self.stood_still.set()
        return super().poll(timeout)


def standing_consumers(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, *, partitions: set[int] | None = None
) -> list[StandingConsumer]:
    """Replace the module's Consumer. Return the list of consumers that it makes from now on."""
    made: list[StandingConsumer] = []

    def make(*given: Any, **named: Any) -> StandingConsumer:
        made.append(StandingConsumer(*given, partitions=partitions, **named))
        return made[-1]

    monkeypatch.setattr(module, "Consumer", make)
    return made


class StandingProducer(Producer):
    """A real producer. While ``stands_still`` is set, its records wait for an unreachable broker.

    They wait until their delivery timeout, or for ever if ``reports`` is False.
    """

    def __init__(self, settings: dict[str, Any], *, reports: bool, **named: Any) -> None:
        super().__init__(settings, **named)
        void = {"bootstrap.servers": "127.0.0.1:9", "log_level": "0"}
        self._nowhere = Producer({**settings, **void, **({} if reports else {"delivery.timeout.ms": "0"})}, **named)
        self.stands_still = threading.Event()
        self.kept_total = 0
        """Number of records produced while it stood still."""
        self.proves_nothing = threading.Event()
        """While set, records are written, but acknowledged without their offsets."""

        self.has_ended = threading.Event()
        """While set, no record is accepted, as after a fatal error."""

    def produce(self, *given: Any, **named: Any) -> None:
        if self.has_ended.is_set():
            raise KafkaException(KafkaError(KafkaError._FATAL, "Fatal error: the sequence of records is broken"))  # noqa: SLF001
        if self.proves_nothing.is_set() and (report := named.get("on_delivery")) is not None:
            named["on_delivery"] = lambda error, message: report(error, Message(topic=message.topic(), partition=message.partition()))
        if self.stands_still.is_set():
            self.kept_total += 1
            self._nowhere.produce(*given, **named)
        else:
            super().produce(*given, **named)

    def poll(self, timeout: float = -1) -> int:
        return self._nowhere.poll(0) + super().poll(timeout)

    def purge(self, *given: Any, **named: Any) -> None:
        self._nowhere.purge(*given, **named)
        super().purge(*given, **named)


def standing_producers(monkeypatch: pytest.MonkeyPatch, module: ModuleType, *, reports: bool = True) -> list[StandingProducer]:
    """Replace the module's Producer. Return the list of producers that it makes from now on."""
    made: list[StandingProducer] = []

    def make(*given: Any, **named: Any) -> StandingProducer:
        made.append(StandingProducer(*given, reports=reports, **named))
        return made[-1]

    monkeypatch.setattr(module, "Producer", make)
    return made
