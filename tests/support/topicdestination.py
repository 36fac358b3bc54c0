"""The topics themselves as a run's far end: tests of the worker need no Spark, and see every record, not only what is left of them."""

from __future__ import annotations

import contextlib

from demo.compare import TableResult
from demo.pipeline import Worker
from demo.progress import Numbers
from demo.shop import DATABASE, TABLES
from demo.topics import Topics
from stack import Kafka
from support.topicfold import Folded, compare_topic, fold, last_value


class TableTopics:
    """Implements ``demo.destination.Destination``; ``folded`` keeps what each table's topic came to."""

    def __init__(self, kafka: Kafka, *, prefix: str) -> None:
        self.folded: dict[str, Folded] = {}
        self._kafka, self._prefix = kafka, prefix
        self._registry_url = ""

    def start(self, ending: contextlib.ExitStack, worker: Worker) -> None:
        self._registry_url = worker.url

    def check(self) -> None:
        """A topic cannot fail."""

    def arrived(self) -> bool:
        return all(b"sentinel" in (last_value(self._kafka.bootstrap, self._topic(table)) or b"") for table in TABLES)

    def moved(self) -> int:
        return Topics(self._kafka.bootstrap, [self._topic(table) for table in TABLES]).records()

    def kill(self) -> None:
        """There is no process."""

    def compare(self, connect, table: str) -> TableResult:
        self.folded[table] = fold(self._kafka.bootstrap, self._registry_url, self._topic(table))
        return compare_topic(connect, DATABASE, table, self.folded[table])

    def sample(self, numbers: Numbers) -> None:
        """There is no lake."""

    def _topic(self, table: str) -> str:
        return f"{self._prefix}.{DATABASE}.{table}"
