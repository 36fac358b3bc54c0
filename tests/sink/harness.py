"""A sink without Kafka: batches are static frames shaped like Spark's Kafka source, handed to the foreachBatch function itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from dblog_sink import config
from dblog_sink.batch import BatchWriter
from dblog_sink.progress import Progress
from dblog_sink.quarantine import Quarantine
from dblog_sink.registry import Registry
from dblog_sink.session import SessionPool
from pyspark.sql import DataFrame, SparkSession
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

_KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One Kafka record. ``offset`` None: the next one of its topic partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int | None = None


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
    partition: int = 0,
    ts_ms: int = 1_700_000_000_000,
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
        sequence=(file, at << 23 | row_number) if sequenced else None,
        lsn=at if table.connector == "postgresql" else None,
        ts_ms=ts_ms,
    )
    return Record(topic=table.topic, key=key, value=value, partition=partition)


def tombstone(table: TableSchema, row: Mapping[str, Any]) -> Record:
    """The null value that follows a delete."""
    return Record(topic=table.topic, key=table.key_bytes({name: row[name] for name in table.key}), value=None)


@dataclass
class Sink:
    """One sink over one folder. ``restarted()`` is the same sink after its process died; ``generation`` stands for the checkpoint's id."""

    spark: SparkSession
    registry: RegistryServer
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    generation: str = "g1"
    batch_id: int = 0
    _offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    _writer: BatchWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restarted()

    @property
    def writer(self) -> BatchWriter:
        """The function that foreachBatch would call."""
        if self._writer is None:
            given = {
                "kafka.bootstrap.servers": "unused",
                "topics.pattern": "unused",
                "registry.url": self.registry.url,
                "registry.unknown.wait.s": "0",
                "target.path": str(self.folder / "lake"),
                "merge.threads": "2",
            } | self.settings
            settings = config.parse(given)
            self._writer = BatchWriter(
                settings=settings,
                registry=Registry(
                    settings["registry.url"],
                    auth=settings["registry.auth"],
                    wait_max_s=settings["registry.wait.max.s"],
                    unknown_wait_s=settings["registry.unknown.wait.s"],
                ),
                pool=SessionPool(self.spark, settings["merge.threads"]),
                quarantine=Quarantine(
                    f"{settings.state_path}/quarantine",
                    rows_max=settings["quarantine.rows.max"],
                    fraction_max=settings["quarantine.fraction.max"],
                ),
                progress=Progress(self.folder / "progress.jsonl"),
                generation=lambda _: self.generation,
                sleep=lambda _: None,
            )
        return self._writer

    def restarted(self) -> Sink:
        """Forget everything that was in memory."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return self

    def batch(self, *records: Record) -> None:
        """Write the next batch."""
        self.repeat(self.batch_id, records)
        self.batch_id += 1

    def repeat(self, batch_id: int, records: Sequence[Record]) -> None:
        """Write a batch under a number of the caller's choice."""
        self.writer(self.frame(records), batch_id)

    def frame(self, records: Sequence[Record]) -> DataFrame:
        """The records as Spark's Kafka source shows them."""
        when = datetime(2026, 1, 1, tzinfo=UTC)
        rows = []
        for record in records:
            place = (record.topic, record.partition)
            offset = self._offsets.get(place, 0) if record.offset is None else record.offset
            self._offsets[place] = offset + 1
            rows.append((record.key, record.value, record.topic, record.partition, offset, when, 0))
        return self.spark.createDataFrame(rows, _KAFKA)

    def path(self, table: TableSchema) -> str:
        """Where the table's mirror is."""
        database, name = table.topic.split(".")[-2:]
        return str(self.folder / "lake" / database / name)

    def read(self, table: TableSchema) -> DataFrame:
        """The mirror's newest version."""
        return self.spark.read.format("delta").load(self.path(table))

    def rows(self, table: TableSchema, *, order: str = "id") -> list[dict[str, Any]]:
        """The mirror's rows without guard columns."""
        names = [name for name in self.read(table).columns if not name.startswith("_dblog_")]
        return [row.asDict() for row in self.read(table).select(*names).orderBy(order).collect()]

    def quarantined(self) -> list[dict[str, Any]]:
        """What is in quarantine, if anything ever was."""
        path = self.folder / "lake" / "_dblog" / "quarantine"
        return (
            [row.asDict() for row in self.spark.read.format("delta").load(str(path)).orderBy("topic", "partition", "offset").collect()]
            if path.exists()
            else []
        )
