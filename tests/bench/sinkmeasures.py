"""Each kind of work, measured: rates of filled topics read to their end, freshness at an even pace, memory over many batches."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from demo.topics import Topics, delete_topics
from sinkengines import LIMIT_S, Engine, Job, Naive, Ours, Run, program_argv, spark_conf
from sinkworks import TABLE, Memory, Paced, Records, Throughput
from stack import GuardedProcess
from stack.process import wait_until
from support.envelopes import TableSchema, decimal, int16, logical
from support.registry_server import RegistryServer

COLUMNS = [
    ("id", "long"),
    ("amount", "int"),
    ("name", "string"),
    ("price", decimal(12, 2)),
    ("kind", int16()),
    ("flag", int16()),
    ("made", logical("long", "io.debezium.time.MicroTimestamp")),
    ("seen", logical("string", "io.debezium.time.ZonedTimestamp")),
    ("note", ["null", "string"]),
    ("weight", "double"),
]
PARTITIONS = 2
"""Of every topic of a throughput work."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one sink; what the work does not ask is None."""

    records: int
    wall_s: float | None = None
    cpu_s: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None
    heap_mib: tuple[float, ...] = ()
    rss_mib: tuple[float, ...] = ()


class Field:
    """Where the engines are compared: broker, registry, folders, the engines."""

    def __init__(
        self, bootstrap: str, registry: RegistryServer, folder: Path, engines: list[Engine], report: Callable[[str], None]
    ) -> None:
        self.bootstrap, self.registry, self.folder, self.engines, self.report = bootstrap, registry, folder, engines, report
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._bases: dict[int, dict[str, Path]] = {}

    def schema(self, topic: str) -> TableSchema:
        """The worker's schema of the table; its ids are registered."""
        return TableSchema(topic=topic, columns=COLUMNS, registry=self.registry)

    def create(self, topic: str, partitions: int) -> None:
        made = self._admin.create_topics([NewTopic(topic, partitions, 1)])
        made[topic].result(30)

    def fill(self, topic: str, records: Records, *, destinations: list[str] | None = None) -> None:
        """Write the records into a new topic; with destinations it is a reserve that ``Pump`` reads."""
        partitions = 1 if destinations else PARTITIONS
        self.create(topic, partitions)
        schemas = [self.schema(one) for one in destinations or [topic]]
        folder = self.folder / "fill"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        job = {
            "bootstrap": self.bootstrap,
            "topic": topic,
            "partitions": partitions,
            "records": asdict(records),
            "reserve": destinations is not None,
            "schemas": [
                {
                    "topic": one.topic,
                    "key": one.key_schema,
                    "value": one.value_schema,
                    "key_id": one.key_schema_id,
                    "value_id": one.value_schema_id,
                }
                for one in schemas
            ],
            "spark": spark_conf(folder),
        }
        began_s = time.monotonic()
        self.program("sinkfill.py", job, folder)
        written = Topics(self.bootstrap, [topic]).records()
        assert written >= records.count, f"{topic} holds {written} records"
        self.report(f"  {topic}: {records.count:,} records in {time.monotonic() - began_s:.0f} s")

    def program(self, name: str, job: dict[str, Any], folder: Path) -> None:
        (folder / "job.json").write_text(json.dumps(job))
        with GuardedProcess(name, program_argv(name, folder / "job.json"), log=folder / "log", cwd=folder) as process:
            if process.wait(timeout_s=LIMIT_S) != 0:
                raise RuntimeError(f"{name} failed\n{process.log_end()}")

    def job(self, engine: Engine, name: str, topics: list[str], *, lake: Path | None = None, trigger_s: float = 0, **options: str) -> Job:
        if lake is None:
            lake = engine.folder / f"lake-{name}"
            shutil.rmtree(lake, ignore_errors=True)
        return Job(
            name=name,
            bootstrap=self.bootstrap,
            registry_url=self.registry.url,
            topics=topics,
            schemas={topic: json.dumps(self.schema(topic).value_schema) for topic in topics},
            lake=lake,
            trigger_s=trigger_s,
            options=options,
        )

    def base(self, rows: int) -> dict[str, Path]:
        """Each sink's lake with that many rows in its table, made once and copied for each run."""
        if rows not in self._bases:
            topic, name = f"base{rows}.shop.{TABLE}", f"base{rows}"
            self.fill(topic, Records("dump", rows))
            for engine in self.engines:
                job = self.job(engine, name, [topic])
                if isinstance(engine, Naive):
                    engine.load(job)
                else:
                    with engine.running(job) as run:
                        run.to_the_end()
            self._bases[rows] = {engine.key: engine.folder / f"lake-{name}" for engine in self.engines}
            delete_topics(self.bootstrap, topic)
            self.report(f"  base of {rows:,} rows is there")
        return self._bases[rows]

    def lake(self, engine: Engine, name: str, base: int, topic: str) -> Path:
        """A lake of its own for one run; the base's table goes on with the topic."""
        lake = engine.folder / f"lake-{name}"
        shutil.rmtree(lake, ignore_errors=True)
        if base:
            shutil.copytree(self.base(base)[engine.key], lake)
            if isinstance(engine, Ours):
                folder = self.folder / "handover"
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                self.program(
                    "sinkhandover.py", {"path": str(engine.table(lake, TABLE)), "topic": topic, "spark": spark_conf(folder)}, folder
                )
        return lake

    def same(self, lakes: dict[str, Path]) -> None:
        """Both lakes hold the same rows, or the comparison is worth nothing."""
        if len(lakes) < 2:
            return
        folder = self.folder / "check"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        paths = [str(engine.table(lakes[engine.key], TABLE)) for engine in self.engines]
        answer = folder / "answer.json"
        self.program(
            "sinkcheck.py",
            {"paths": paths, "answer": str(answer), "spark": {**spark_conf(folder), "spark.databricks.delta.snapshotPartitions": "1"}},
            folder,
        )
        found = json.loads(answer.read_text())
        if found[0] != found[1]:
            raise RuntimeError(f"the two sinks made different tables: {dict(zip([e.key for e in self.engines], found, strict=True))}")
        self.report(f"  both tables hold the same {found[0]['rows']:,} rows")


def throughput(field: Field, work: Throughput, records: Records, *, rounds: int) -> dict[str, list[Measured]]:
    """The sinks read one topic to its end in turn."""
    topic = f"{work.name}.shop.{TABLE}"
    if records.base:
        field.base(records.base)
    field.fill(topic, records)
    results: dict[str, list[Measured]] = {engine.key: [] for engine in field.engines}
    for at in range(rounds):
        lakes: dict[str, Path] = {}
        for engine in field.engines:
            lakes[engine.key] = field.lake(engine, work.name, records.base, topic)
            with engine.running(field.job(engine, work.name, [topic], lake=lakes[engine.key])) as run:
                wall_s = run.to_the_end()
                results[engine.key].append(Measured(records.count, wall_s, run.cpu_s))
            field.report(f"  {engine.key}: {records.count / wall_s:,.0f} rows/s, {run.cpu_s:.0f} CPU-s")
        if at == 0:
            field.same(lakes)
        for lake in lakes.values():
            shutil.rmtree(lake)
    delete_topics(field.bootstrap, topic)
    return results


def half_rate(field: Field, work: Throughput, records: Records, per_s: float, *, seconds: float) -> dict[str, list[Measured]]:
    """Freshness of our sink at that rate, on the same base; the changes go on where the others ended."""
    more = replace(records, count=int(per_s * seconds), first=records.count)
    paced = Paced(f"{work.name}_half", per_s=int(per_s), seconds=seconds, tables=1, goal_p99_s=work.half_rate_p99_s or 0)
    return freshness(field, paced, more, engines=[e for e in field.engines if isinstance(e, Ours)])


def freshness(field: Field, work: Paced, records: Records, *, engines: list[Engine]) -> dict[str, list[Measured]]:
    """Records come at an even pace; a record is visible when the batch that it is in is committed."""
    reserve = f"reserve.{work.name}"
    results: dict[str, list[Measured]] = {}
    for engine in engines:
        names = [TABLE] if work.tables == 1 else [f"t{n:03}" for n in range(work.tables)]
        topics = [f"{engine.key}_{work.name}.shop.{name}" for name in names]
        field.fill(f"{reserve}.{engine.key}", records, destinations=topics)
        for topic in topics:
            field.create(topic, 1)
        lake = field.lake(engine, work.name, records.base, topics[0])
        with engine.running(field.job(engine, work.name, topics, lake=lake, trigger_s=2)) as run:
            run.started()
            pump = Pump(field.bootstrap, f"{reserve}.{engine.key}", records.count, work.per_s)
            pump.run()
            ends = Offsets(field.bootstrap, topics)
            wait_until(lambda ends=ends: ends.all_in(committed(run.checkpoint)), timeout_s=LIMIT_S, what="the last batch", pause_s=0.2)
            delays = ends.delays_s(run.checkpoint)
        delays = delays[len(delays) // 5 :]  # the first fifth warms the JVM
        quantiles = statistics.quantiles([delay for _, delay in delays], n=100)
        results[engine.key] = [Measured(records.count, pump.seconds, None, quantiles[49], quantiles[98])]
        field.report(
            f"  {engine.key}: p50 {quantiles[49]:.1f} s, p99 {quantiles[98]:.1f} s at {records.count / pump.seconds:,.0f} records/s"
        )
        for topic in (*topics, f"{reserve}.{engine.key}"):
            delete_topics(field.bootstrap, topic)
        shutil.rmtree(lake)
    return results


def memory(field: Field, work: Memory, batches: int) -> dict[str, list[Measured]]:
    """The heap of our sink's driver after a full collection, and what is resident, six times during the batches."""
    records = Records("change", batches * work.records_per_batch, base=20_000)
    topic = f"{work.name}.shop.{TABLE}"
    field.fill(topic, records)
    engine = next(e for e in field.engines if isinstance(e, Ours))
    heap: list[float] = []
    resident: list[float] = []
    watermarks = [max(5, batches * part // 6) for part in range(1, 7)]
    options = {"batch.records.max": str(work.records_per_batch)}
    with engine.running(field.job(engine, work.name, [topic], **options)) as run:
        run.started()
        for watermark in watermarks:
            wait_until(
                lambda watermark=watermark: len(run.lines("batch")) >= watermark - 1 or not run.process.running,
                timeout_s=LIMIT_S,
                what=f"batch {watermark}",
            )
            if not run.process.running:
                raise RuntimeError(f"the sink ended before batch {watermark}\n{run.process.log_end()}")
            heap.append(_heap_mib(run))
            resident.append(sum(_resident_mib(pid) for pid in run.pids()))
            field.report(f"  batch {len(run.lines('batch'))}: heap {heap[-1]:.0f} MiB, resident {resident[-1]:.0f} MiB")
    delete_topics(field.bootstrap, topic)
    return {engine.key: [Measured(records.count, heap_mib=tuple(heap), rss_mib=tuple(resident))]}


def _heap_mib(run: Run) -> float:
    """What is reachable: the collection and the count are one. The size of the generations just after holds what was allocated meanwhile."""
    jvm = next(pid for pid in run.pids() if Path(f"/proc/{pid}/comm").read_text().strip() == "java")
    out = subprocess.run(["jcmd", str(jvm), "GC.class_histogram"], check=True, capture_output=True, text=True, timeout=60).stdout
    return int(next(line for line in out.splitlines() if line.startswith("Total")).split()[2]) / 2**20


def _resident_mib(pid: int) -> float:
    """0 of a process that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


class Pump:
    """Copies records of a reserve topic to the topics in their header, so many a second, stamped with the moment."""

    def __init__(self, bootstrap: str, reserve: str, count: int, per_s: float) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "pump", "enable.auto.commit": False, "fetch.min.bytes": 1})
        self._consumer.assign([TopicPartition(reserve, 0, 0)])
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "1"})
        self._count, self._per_s = count, per_s
        self.seconds = 0.0

    def run(self) -> None:
        """Returns when the last one is acknowledged."""
        waiting = deque(self._consumer.consume(1000, timeout=30))  # the first fetch is not part of the pace
        began_s = time.monotonic()
        sent = 0
        while sent < self._count:
            due = min(self._count, int((time.monotonic() - began_s) * self._per_s))
            while sent < due:
                if not waiting:
                    waiting.extend(self._consumer.consume(1000, timeout=1))
                    continue
                record = waiting.popleft()
                destination = dict(record.headers())["to"].decode()
                self._producer.produce(destination, key=record.key(), value=record.value(), partition=0)
                sent += 1
            self._producer.poll(0)
            time.sleep(0.005)
        self._producer.flush(30)
        self.seconds = time.monotonic() - began_s
        self._consumer.close()


def committed(checkpoint: Path) -> dict[str, int]:
    """End offsets of the last committed batch: topic to offset of partition 0."""
    done = _batches(checkpoint)
    return done[-1][1] if done else {}


def _batches(checkpoint: Path) -> list[tuple[float, dict[str, int]]]:
    """(moment of the commit, end offsets) of each committed batch, in order; Spark's checkpoint has both."""
    found = []
    folder = checkpoint / "commits"
    numbers = sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit()) if folder.exists() else []
    for number in numbers:
        offsets = json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        found.append(((folder / str(number)).stat().st_mtime, {topic: ends["0"] for topic, ends in offsets.items() if "0" in ends}))
    return found


class Offsets:
    """The ends of some topics of one partition, and when each of their records was produced."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self._consumer_of = {
            "bootstrap.servers": bootstrap,
            "group.id": "offsets",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
        }
        consumer = Consumer(self._consumer_of)
        self.ends = {topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1] for topic in topics}
        consumer.close()

    def all_in(self, done: dict[str, int]) -> bool:
        return all(done.get(topic, 0) >= end for topic, end in self.ends.items())

    def delays_s(self, checkpoint: Path) -> list[tuple[float, float]]:
        """(moment of the produce, delay) of every record in order of time."""
        batches = _batches(checkpoint)
        consumer = Consumer(self._consumer_of)
        consumer.assign([TopicPartition(topic, 0, 0) for topic in self.ends])
        total, found = sum(self.ends.values()), []
        at = dict.fromkeys(self.ends, 0)
        while len(found) < total:
            for record in consumer.consume(5_000, timeout=5):
                topic, offset = record.topic(), record.offset()
                while batches[at[topic]][1].get(topic, 0) <= offset:
                    at[topic] += 1
                produced_s = record.timestamp()[1] / 1000
                found.append((produced_s, batches[at[topic]][0] - produced_s))
        consumer.close()
        return sorted(found)
