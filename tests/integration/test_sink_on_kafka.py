"""The real command on a real broker: spark-submit, the streaming query, new topics, kill -9, and SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from dblog.cluster.sinkrecords import SinkId
from dblog.cluster.sinkstore import SinkView
from dblog.kafka.log import CompactedLog
from sink.harness import Record, change, tombstone
from stack import GuardedProcess, Kafka, spark_jars
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.otlp_collector import Collector, collector
from support.registry_server import RegistryServer

ROOT = Path(__file__).parents[2]
WAIT_S = 600.0


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def produce(kafka: Kafka, records: list[Record]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for record in records:
        producer.produce(record.topic, key=record.key, value=record.value)
    producer.flush()


def submitted(kafka: Kafka, registry: RegistryServer, prefix: str, folder: Path, traces: Collector) -> GuardedProcess:
    config = folder / "sink.yaml"
    config.write_text(
        json.dumps(
            {
                "name": "it",
                "topics.pattern": rf"{prefix}\..*",
                "kafka.bootstrap.servers": kafka.bootstrap,
                "kafka.metadata.max.age.ms": 1000,
                "registry.url": registry.url,
                "target.path": str(folder / "lake"),
                "progress.file": str(folder / "progress.jsonl"),
                "tracing.enabled": True,
                "report.interval.s": 1,
            }
        )
    )
    command = [
        *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "2g"),
        *("--driver-java-options", "-Xss4m", "--conf", "spark.ui.enabled=false"),
        *("--jars", ",".join(map(str, spark_jars())), str(ROOT / "spark-sink" / "run.py"), "--config", str(config)),
        *("--set", "trigger.interval.s=0.5", "--set", "log.format=json"),
    ]
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": "",
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": traces.url,
    }
    return GuardedProcess("sink", command, log=folder / "sink.log", env=environment, cwd=folder)


def progress(folder: Path) -> list[dict[str, Any]]:
    return json_lines(folder / "progress.jsonl")


def wait(until: Callable[[], bool], what: str, sink: GuardedProcess) -> None:
    limit_s = time.monotonic() + WAIT_S
    while not until():
        assert sink.running, f"the sink ended while we waited for {what}:\n{sink.log_end()}"
        assert time.monotonic() < limit_s, f"no {what} after {WAIT_S:.0f} s:\n{sink.log_end()}"
        time.sleep(0.1)


def rows(folder: Path, table: TableSchema) -> list[tuple[int, str]]:
    """The table as delta-rs reads it: a reader that is not Spark."""
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import TableNotFoundError

    database, name = table.topic.split(".")[-2:]
    path = folder / "lake" / database / name
    try:
        table_now = DeltaTable(path)
    except TableNotFoundError:
        return []
    batches = QueryBuilder().register("t", table_now).execute("SELECT id, v FROM t")
    return sorted(row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))


@pytest.mark.parametrize("killed", [pytest.param(False, id="undisturbed"), pytest.param(True, marks=pytest.mark.long, id="through a kill")])
def test_the_command_follows_topics_and_stops_when_asked(kafka: Kafka, registry: RegistryServer, own_folder: Path, *, killed: bool) -> None:
    prefix = f"sink{uuid4().hex[:8]}"
    columns = [("id", "int"), ("v", ["null", "string"])]
    first = TableSchema(topic=f"{prefix}.shop.first", columns=columns, registry=registry)
    late = TableSchema(topic=f"{prefix}.shop.late", columns=columns, registry=registry)
    produce(kafka, [change(first, "r", {"id": key, "v": "dump"}, at=10, sequenced=True) for key in range(100)])

    with collector() as traces, submitted(kafka, registry, prefix, own_folder, traces) as sink:
        wait(lambda: len(rows(own_folder, first)) == 100, "first rows", sink)

        # A new topic of the pattern, and changes of the old one; a kill comes somewhere in the middle of them.
        produce(kafka, [change(late, "c", {"id": key, "v": "new"}, at=20 + key) for key in range(10)])
        produce(kafka, [change(first, "u", {"id": key, "v": "log"}, at=100 + key) for key in range(50)])
        if killed:
            sink.kill()
        produce(
            kafka,
            [
                change(first, "d", {"id": 0, "v": "log"}, at=500),
                tombstone(first, {"id": 0, "v": "log"}),
                change(first, "r", {"id": 0, "v": "dump"}, at=11),
            ],
        )
        if killed:
            sink.start()
        expected = [(key, "log" if key < 50 else "dump") for key in range(1, 100)]
        wait(lambda: rows(own_folder, first) == expected and len(rows(own_folder, late)) == 10, "the rows of the log", sink)
        wait(lambda: progress(own_folder)[-1]["kind"] == "idle", "the report that nothing is behind", sink)

        pid = sink.pid
        os.kill(pid, signal.SIGTERM)
        limit_s = time.monotonic() + WAIT_S
        while sink.running and time.monotonic() < limit_s:
            time.sleep(0.1)
        assert not sink.running, "SIGTERM did not end the job"

    assert {(span.service, span.attributes["db.collection.name"]) for span in traces.spans} == {
        ("dblog-sink", "shop.first"),
        ("dblog-sink", "shop.late"),
    }
    logged = [json.loads(line) for line in (own_folder / "sink.log").read_text().splitlines() if line.startswith('{"timestamp"')]
    assert {"started", "batch", "table", "idle", "stopped"} <= {line["event"] for line in logged}
    assert {line["table"] for line in logged if line["event"] == "table"} == {"shop.first", "shop.late"}
    lines = progress(own_folder)
    assert [line["lag_s"] for line in lines if line["kind"] == "idle"][-1] < 30
    reported = [line for line in lines if line["kind"] not in ("behind", "idle", "batch", "merge")]
    assert [line["kind"] for line in reported] == [*["started"] * (1 + killed), "stopped"], reported
    batches = [line["tables"]["shop.first"] for line in lines if line["kind"] == "batch" and "shop.first" in line["tables"]]
    assert batches[0]["records"] == 100
    # Written by the batch itself, or landed and merged later: the job decides by what it costs here.
    written = [*batches, *(line for line in lines if line["kind"] == "merge" and line["table"] == "shop.first")]
    assert any((one["source_lag_s"] or 0) > 0 for one in written)
    check_report(kafka, own_folder, {first.topic: len(expected), late.topic: 10})


def check_report(kafka: Kafka, folder: Path, rows_by_topic: dict[str, int]) -> None:
    """What the worker reads of the sink: its tables with their rows and freshness, and that it was stopped."""
    servers = {"bootstrap.servers": kafka.bootstrap}
    view = SinkView()
    log = CompactedLog(
        topic="__dblog-sinks",
        consumer_settings=servers,
        producer_settings=servers,
        admin_settings=servers,
        on_record=view.take,
        keeps=False,
    )
    log.start(limit_s=WAIT_S)
    log.stop()
    sink = view.sink(SinkId("it", str(folder / "lake" / "_dblog")))
    assert sink is not None
    assert (sink.word(time.time()), sink.tables, sink.parked, sink.report.records_behind) == ("STOPPED", 2, 0, 0)
    assert sink.report.lag_s is not None
    reported = {each.topic: each.table for each in view.of_topics(rows_by_topic)}
    assert {topic: table.rows for topic, table in reported.items()} == rows_by_topic
    assert all(table.source_ts_ms and table.written_ms and table.path.startswith(str(folder)) for table in reported.values())
    assert log.skipped == 0
    topic, admin = ConfigResource(ResourceType.TOPIC, "__dblog-sinks"), AdminClient(servers)
    assert admin.describe_configs([topic])[topic].result(60.0)["cleanup.policy"].value == "compact"


def test_a_configuration_at_fault_is_reported_before_spark_works() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "spark-sink" / "run.py"), "--set", "topics=a.b.c", "--set", "merge.threads=none"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert all(key in done.stderr for key in ("kafka.bootstrap.servers", "registry.url", "target.path", "merge.threads"))
