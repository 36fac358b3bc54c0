"""A sink without Kafka: batches are static frames shaped like Spark's Kafka source, handed to the foreachBatch function itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from dblog_sink.batches.micro_batch import BatchWriter
from dblog_sink.batches.table_book import TableBook
from dblog_sink.config import job_options
from dblog_sink.config.lake_paths import CONDITIONAL
from dblog_sink.delta.session import spark_session
from dblog_sink.job.build import Pipeline, built
from dblog_sink.observe.progress import Progress
from dblog_sink.query.freshest import fresh
from dblog_sink.snapshots.waivers import Offsets, TopicOffsets
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.crash_points import nothing
from dblog_sink.tables.apply import Applier
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from stack import BRIEF_JVM, s3a_jars, spark_jars
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

KAFKA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One Kafka record. ``offset`` None: the next one of its topic partition. ``at``: when Kafka got it."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int | None = None
    at: datetime = _WHEN


def change(
    table: TableSchema,
    op: str,
    row: Mapping[str, Any],
    *,
    at: int,
    file: int = 1,
    row_number: int = 0,
    before: Mapping[str, Any] | None = None,
    sequenced: bool = False,
    sequence: tuple[int, int] | None = None,
    partition: int = 0,
    ts_ms: int = 1_700_000_000_000,
    transaction: tuple[str, int, int] | None = None,
    server: int = 1,
    gtid: str | None = None,
    snapshot: str | None = None,
) -> Record:
    """A row event at position ``at`` of log file ``file``; ``row`` is the new image, or the old one of a delete."""
    key = table.key_bytes({name: row[name] for name in table.key})
    value = table.value_bytes(
        op,
        before=(before or row) if op == "d" else before,
        after=None if op == "d" else row,
        file=f"binlog.{file:06d}",
        pos=at,
        row=row_number,
        sequence=(file, at << 23 | row_number) if sequenced else sequence,
        lsn=at if table.connector == "postgresql" else None,
        ts_ms=ts_ms,
        transaction=transaction,
        server=server,
        gtid=gtid,
        snapshot=snapshot,
    )
    return Record(topic=table.topic, key=key, value=value, partition=partition)


def tombstone(table: TableSchema, row: Mapping[str, Any]) -> Record:
    """The null value that follows a delete."""
    return Record(topic=table.topic, key=table.key_bytes({name: row[name] for name in table.key}), value=None)


def local_session(folder: Path, *, lasting: bool = False) -> SparkSession:
    """Return a session on two cores with Kafka, Avro and Delta, configured as the job configures its own. ``lasting``: for a campaign of many minutes."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return spark_session(
        "sink-tests",
        {
            "spark.master": "local[2]",
            "spark.jars": ",".join(str(jar) for jar in (*spark_jars(), *s3a_jars())),
            "spark.delta.logStore.s3a.impl": CONDITIONAL,
            "spark.driver.memory": "2g",
            # Room from the beginning: a heap and a metaspace that grow are collected each time. The optimising compiler would earn what it costs only after
            # more minutes than one of several processes has for its share of the sink's files: half of the CPU of the first four went into it, and the 16
            # tests of delta/test_upsert.py took 253 s of CPU with it and 164 s without.
            "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Xms1g -Xmn500m -XX:MetaspaceSize=512m {BRIEF_JVM}{' -XX:TieredStopAtLevel=4' * lasting}",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.log.level": "ERROR",
        },
    )


@dataclass
class HeldLease:
    """A lease that is held until a test says otherwise."""

    lost: str | None = None
    is_gone: bool = False
    lapses: int = 0


@dataclass
class Sink:
    """One sink over one folder. ``restarted()`` is the same sink after its process died; ``query_id`` stands for the checkpoint."""

    spark: SparkSession
    registry: RegistryServer
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    lake: str = ""
    """Where the tables are; in the folder if nothing is given."""
    query_id: str = "q1"
    batch_id: int = 0
    topic_id: str = "t1"
    compacted: set[str] = field(default_factory=set)
    """Compacted topics: of each key the last record stays."""
    merge_only: bool = False
    """This Delta lacks what the sink's own upsert calls."""
    reached: Callable[[str], None] = nothing
    kafka: TopicOffsets = lambda _: ({}, {}, {})
    """What the brokers answer about topics: the first offsets, the end offsets, and how far the query has read."""
    history: dict[str, Sequence[Record]] = field(default_factory=dict)
    """What Kafka has of topics that are not read yet."""
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """By topic and partition, the offset of the next record; empty where all topics were deleted and created again."""
    now_s: Callable[[], float] = time.time
    """The clock by which snapshots age."""
    _pipeline: Pipeline | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restarted()

    @property
    def base(self) -> str:
        """The path of all tables."""
        return self.lake or str(self.folder / "lake")

    @property
    def given(self) -> dict[str, str]:
        """The configuration."""
        return {
            "kafka.bootstrap.servers": "unused",
            "topics.pattern": "unused",
            "registry.url": self.registry.url,
            "registry.unknown.wait.s": "0",
            "target.path": self.base,
            "merge.threads": "2",
            # Everything is applied at once unless a test sets it otherwise, however slow the machine is.
            "trigger.interval.s": "1000",
            # Notes are written when the process ends: a commit less for each batch.
            "control.interval.s": "1000",
        } | self.settings

    @property
    def pipeline(self) -> Pipeline:
        """The parts of the job, built at their first use after a start."""
        if self._pipeline is None:
            self._pipeline = built(
                self.spark,
                job_options.parse(self.given),
                Progress(self.folder / "progress.jsonl"),
                query_id_of=lambda _: self.query_id,
                topic_ids=lambda topics: dict.fromkeys(topics, self.topic_id),
                ends=lambda topics: {
                    topic: {partition: end for (one, partition), end in self.next_offsets.items() if one == topic} for topic in topics
                },
                compacted=lambda topic: topic in self.compacted,
                offsets=self._offsets_of,
                merge_only=self.merge_only,
                so_far=lambda _, topic: self.frame(self.history[topic]) if topic in self.history else None,
                reached=self.reached,
                now_s=self._snapshot_now_s,
            )
        return self._pipeline

    @property
    def writer(self) -> BatchWriter:
        """The function that foreachBatch would call."""
        return self.pipeline.writer

    @property
    def book(self) -> TableBook:
        """What waits, and what is parked."""
        return self.pipeline.parts.book

    @property
    def control(self) -> ControlTable:
        """The sink's own state."""
        return self.pipeline.parts.control

    @property
    def applier(self) -> Applier:
        """What writes tables."""
        return self.pipeline.parts.applier

    def drain(self) -> None:
        """Merge everything that has landed."""
        self.pipeline.scheduler.drain()

    def publish(self) -> bool:
        """One snapshot, without the clock and the threads around it; whether there was one."""
        publisher = self.pipeline.publisher
        assert publisher is not None
        return publisher.publish_next()

    def _offsets_of(self, topics: Collection[str]) -> tuple[Offsets, Offsets, Offsets]:
        return self.kafka(topics)

    def _snapshot_now_s(self) -> float:
        return self.now_s()

    def killed(self) -> Sink:
        """Forget everything that was in memory and not written, as a kill does."""
        if self._pipeline is not None:
            self._pipeline.writer.abandon()
            self._pipeline = None
        return self

    def restarted(self) -> Sink:
        """Forget everything that was in memory."""
        if self._pipeline is not None:
            self._pipeline.writer.close()
            self._pipeline = None
        return self

    def lose(self, state: str) -> None:
        """Delete one of the sink's own tables."""
        self.remove(f"{self.base}/_dblog/{state}")

    def remove(self, path: str) -> None:
        """Delete a table behind Delta's back."""
        at = self.spark._jvm.org.apache.hadoop.fs.Path(path)
        at.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()).delete(at, True)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def batch(self, *records: Record) -> None:
        """Write the next batch."""
        self.repeat(self.batch_id, records)
        self.batch_id += 1

    def repeat(self, batch_id: int, records: Sequence[Record]) -> None:
        """Write a batch under a number of the caller's choice."""
        self.writer(self.frame(records), batch_id)
        self.drain()

    def land(self, *records: Record) -> None:
        """Write the next batch, and let what lands wait."""
        self.writer(self.frame(records), self.batch_id)
        self.batch_id += 1

    def fresh(self, table: TableSchema, *, order: str = "id") -> list[dict[str, Any]]:
        """The view's rows without guard columns."""
        return _without_guards(fresh(self.spark, job_options.parse(self.given), table.topic), order)

    def frame(self, records: Sequence[Record]) -> DataFrame:
        """The records as Spark's Kafka source shows them."""
        return self.spark.createDataFrame(self.table(records))  # Arrow: the JVM reads it without a Python worker

    def table(self, records: Sequence[Record]) -> pa.Table:
        """The same outside Spark."""
        columns: dict[str, list[Any]] = {name: [] for name in KAFKA.names}
        for record in records:
            partition = (record.topic, record.partition)
            offset = self.next_offsets.get(partition, 0) if record.offset is None else record.offset
            self.next_offsets[partition] = offset + 1
            row = (record.key, record.value, record.topic, record.partition, offset, record.at, 0)
            for values, value in zip(columns.values(), row, strict=True):
                values.append(value)
        return pa.table(columns, schema=KAFKA)

    def path(self, table: TableSchema) -> str:
        """Where the table's mirror is."""
        database, name = table.topic.split(".")[-2:]
        return f"{self.base}/{database}/{name}"

    def read(self, table: TableSchema) -> DataFrame:
        """The mirror's newest version."""
        return self.spark.read.format("delta").load(self.path(table))

    def rows(self, table: TableSchema, *, order: str = "id") -> list[dict[str, Any]]:
        """The mirror's rows without guard columns."""
        return _without_guards(self.read(table), order)

    def quarantined(self) -> list[dict[str, Any]]:
        """What is in quarantine, if anything ever was."""
        path = f"{self.base}/_dblog/quarantine"
        found = self.spark.read.format("delta").load(path).collect() if DeltaTable.isDeltaTable(self.spark, path) else []
        return [row.asDict() for row in in_order(found, "topic", "partition", "offset")]


def in_order(rows: Iterable[Row], *names: str) -> list[Row]:
    """Rows sorted by these columns, NULL first. Here and not in Spark, where it costs two jobs more."""
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in names])


def _without_guards(frame: DataFrame, order: str) -> list[dict[str, Any]]:
    names = [name for name in frame.columns if not name.startswith("_dblog_")]
    return [row.asDict() for row in in_order(frame.select(*names).collect(), order)]
