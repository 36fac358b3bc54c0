"""The job's own runner on a real broker, in a thread of the tests' Spark session: what tests of the running sink share."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from dblog_sink.config import job_options
from dblog_sink.job import commands
from dblog_sink.job.commands import Command
from dblog_sink.job.runner import Runner
from dblog_sink.job.start import fenced
from dblog_sink.observe.progress import Progress
from dblog_sink.observe.traces import Traces
from dblog_sink.state.files import LocalFolder
from dblog_sink.state.lease import Lease
from pyspark.sql import Row, SparkSession
from sink.harness import Record, in_order
from stack import Kafka
from stack.process import wait_until
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.registry_server import RegistryServer

LIMIT_S = 600.0


class Job:
    """The job's own runner in a thread of the tests' Spark session, on topics of its own."""

    def __init__(self, spark: SparkSession, kafka: Kafka, registry: RegistryServer, folder: Path) -> None:
        self.spark, self.registry, self.folder = spark, registry, folder
        self.prefix = f"t{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        self.settings = {
            "name": self.prefix,
            "kafka.bootstrap.servers": kafka.bootstrap,
            "topics.pattern": rf"{self.prefix}\..*",
            "kafka.metadata.max.age.ms": "1000",
            "registry.url": registry.url,
            "registry.unknown.wait.s": "0",
            "target.path": str(folder / "lake"),
            "trigger.interval.s": "0.5",
            "merge.threads": "2",
        }
        self.progress = folder / "progress.jsonl"
        self.status: int | None = None
        self._contents: dict[Path, tuple[tuple[int, int], list[Row]]] = {}
        self.listener: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _facts: None
        self.traces: Traces | None = None

    def table(self, name: str, *columns: tuple[str, Any]) -> TableSchema:
        return TableSchema(
            topic=f"{self.prefix}.shop.{name}", columns=[("id", "long"), *(columns or [("v", "string")])], registry=self.registry
        )

    def create(self, *tables: TableSchema) -> None:
        for future in self.admin.create_topics([NewTopic(table.topic, 1, 1) for table in tables]).values():
            future.result(LIMIT_S)

    def send(self, *records: Record, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        """Send the records, again those that were refused: a producer may know a topic as deleted that was just made again."""
        left, deadline_s = self._refused(records, headers), time.monotonic() + LIMIT_S
        while left:
            assert time.monotonic() < deadline_s, f"{len(left)} records were refused"
            self._producer.list_topics(timeout=LIMIT_S)
            left = self._refused(left, headers)

    def _refused(self, records: Sequence[Record], headers: Sequence[tuple[str, bytes]]) -> list[Record]:
        """Send the records once, and return those that nobody took."""
        refused: list[Record] = []

        def produce(record: Record) -> None:
            def delivered(error: KafkaError | None, _: Message) -> None:
                if error is not None:
                    refused.append(record)

            try:
                self._producer.produce(
                    record.topic, key=record.key, value=record.value, partition=0, headers=list(headers), on_delivery=delivered
                )
            except KafkaException as e:
                if e.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                    raise
                refused.append(record)

        for record in records:
            produce(record)
        assert self._producer.flush(LIMIT_S) == 0, "records that nobody has acknowledged"
        return refused

    @contextmanager
    def running(self, **options: str) -> Iterator[None]:
        settings = job_options.parse(self.settings | {key.replace("__", "."): value for key, value in options.items()})
        stopping = threading.Event()
        lease = Lease(LocalFolder(Path(settings.state_path)), name="t", where="t")
        fence = fenced(self.spark, settings, lease)
        try:
            progress = Progress(self.progress, listener=self.listener)
            runner = Runner(self.spark, settings, progress, stopping, lease, fence, traces=self.traces)

            def run() -> None:
                self.status = runner.run()

            thread = threading.Thread(target=run)
            thread.start()
            try:
                yield
            finally:
                stopping.set()
                thread.join(LIMIT_S)
        finally:
            fence.remove()
            lease.give_back()

    def lines(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in json_lines(self.progress) if line["kind"] == kind]

    def rows(self, table: TableSchema) -> list[tuple[Any, ...]]:
        names = [name for name, _ in table.columns]
        return [tuple(row[name] for name in names) for row in in_order(self._content("shop", table.topic.split(".")[-1]), "id")]

    def wait(self, what: str, condition) -> None:
        def met() -> bool:
            failed = self.lines("failed")
            assert not failed, failed
            return condition()

        wait_until(met, timeout_s=LIMIT_S, what=what, pause_s=0.3)

    def ask(self, verb: str, table: str | None = None, *, refused: bool = False) -> None:
        before = len(self.lines("command"))
        commands.ask(LocalFolder(self.folder / "lake" / "_dblog" / "commands"), Command(verb=verb, table=table))
        self.wait(f"{verb} to be done", lambda: len(self.lines("command")) > before)
        assert ("failed" in self.lines("command")[-1]) == refused

    def quarantined(self) -> list[str]:
        return [row["reason"] for row in in_order(self._content("_dblog", "quarantine"), "offset")]

    def _content(self, database: str, table: str) -> list[Row]:
        """All rows of a table, none before it is there. Whoever waits asks again and again: Spark reads each version once."""
        path = self.folder / "lake" / database / table
        commits = sorted((path / "_delta_log").glob("*.json"))
        if not commits:
            return []
        version = commits[-1].stat()
        if (known := self._contents.get(path)) is None or known[0] != (version.st_ino, version.st_mtime_ns):
            known = ((version.st_ino, version.st_mtime_ns), self.spark.read.format("delta").load(str(path)).collect())
            self._contents[path] = known
        return known[1]
