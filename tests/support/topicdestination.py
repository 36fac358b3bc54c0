"""The table topics as the destination of a run, for tests of the worker without Spark.

They contain every record, not only the resulting rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from demo.compare import TableResult
from demo.pipeline import Worker
from demo.screen import Numbers
from demo.shop import DATABASE, TABLES
from demo.topics import Topics
from stack import Kafka
from stack.process import GuardedProcess
from support.topicfold import Folded, compare_topic, fold, last_value


class TableTopics:
    """A ``demo.destination.Destination``; ``folded`` has the folded topic of each table."""

    def __init__(self, kafka: Kafka, *, prefix: str) -> None:
        self.folded: dict[str, Folded] = {}
        self._kafka, self._prefix = kafka, prefix
        self._registry_url = ""

    programs: Sequence[GuardedProcess] = ()

    def start(self, worker: Worker) -> None:
        self._registry_url = worker.url

    def check(self) -> None:
        """Do nothing: a topic cannot fail."""

    def missing(self) -> list[str]:
        return [table for table in TABLES if b"sentinel" not in (last_value(self._kafka.bootstrap, self._topic(table)) or b"")]

    def moved(self) -> int:
        return Topics(self._kafka.bootstrap, [self._topic(table) for table in TABLES]).records()

    def kill(self) -> None:
        """Do nothing: there is no process."""

    def compare(self, connect, table: str) -> TableResult:
        self.folded[table] = fold(self._kafka.bootstrap, self._registry_url, self._topic(table))
        return compare_topic(connect, DATABASE, table, self.folded[table])

    def sample(self, numbers: Numbers) -> None:
        """Do nothing: there is no lake."""

    def _topic(self, table: str) -> str:
        return f"{self._prefix}.{DATABASE}.{table}"
