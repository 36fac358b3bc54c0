"""Consumers that can be made to stand still, as librdkafka leaves a partition behind a leader's return: nothing is fetched, and nothing is said."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Message


class StandingConsumer(Consumer):
    """A real consumer; ``stands_still`` pauses its partitions with the next poll, in the thread that polls (another one would wait for it)."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.stands_still = threading.Event()
        self.stood_still = threading.Event()

    def poll(self, timeout: float = -1) -> Message | None:
        if self.stands_still.is_set() and not self.stood_still.is_set():
            self.pause(self.assignment())
            self.stood_still.set()
        return super().poll(timeout)


def standing_consumers(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[StandingConsumer]:
    """Each consumer that the module makes from now on, in order."""
    made: list[StandingConsumer] = []

    def make(*given: Any, **named: Any) -> StandingConsumer:
        made.append(StandingConsumer(*given, **named))
        return made[-1]

    monkeypatch.setattr(module, "Consumer", make)
    return made
