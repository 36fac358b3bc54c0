"""The whole pipeline under a real Prometheus: every panel has data, and faults of worker, brokers and sink fire their alerts."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from dblog_sink.cli import main as sink_command
from demo.pipeline import Sink, Worker
from monitoring.boards import concrete, queries
from monitoring.live import address, create, frozen, shop, wait_for, watching
from stack import Kafka, MariaDb, Prometheus
from stack.process import free_port, wait_until
from support.servers import execute, started

FACTOR = 20.0

NOTHING_WITHOUT_TROUBLE = {
    "fleet: Days to the end of certificates": "nothing here speaks TLS",
    "fleet: Connectors that are not as wanted": "no program applies connectors from files here",
    "fleet: Last round in which all was as wanted": "no program applies connectors from files here",
    "connector: Errors of Kafka clients": "there was none",
    "connector: Errors": "there was none",
    "connector: Log retention": "this MariaDB keeps its log for ever",
    "connector: Registry": "there was no request in the last moments: schemas are registered once",
    "connector: Filtered": "no filter leaves anything out",
    "connector: DDL statements": "there was none behind the dump",
    "dump: Rows estimated": "the dump is over",
    "dump: Rows a second": "the dump is over",
    "dump: Time to the end": "the dump is over",
    "dump: Tables being read": "the dump is over",
    "dump: Time to each table's end": "the dump is over",
    "dump: Windows read again": "no window was thrown away",
    "sink: Records lost in Kafka": "none was lost",
    "sink: Chunks compared with their markers": "a chunk is judged when its partitions are read past its end",
}
"""Panels that may show nothing, and why."""


def counting_sink(kafka: Kafka, folder: Path, worker: Worker, prefix: str) -> tuple[Sink, str]:
    """The sink with its metrics served, chunk markers among its topics; and its address."""
    listen = f"127.0.0.1:{free_port()}"
    sink = Sink(kafka, folder, registry_url=worker.url, prefix=prefix, database=prefix, name="alerts")
    config = json.loads(sink.config_file.read_text())
    config |= {
        "topics.pattern": rf"{prefix}\.({prefix}|dblog)\..*",
        "metrics.listen": listen,
        "registry.unknown.wait.s": 1,
        "log.format": "json",
    }
    sink.config_file.write_text(json.dumps(config))
    return sink, listen


def empty_panels(prometheus: Prometheus) -> set[str]:
    return {name for name, query in queries() if not prometheus.query(concrete(query, interval="2m"))}


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_panels_have_data_and_faults_of_every_part_are_reported(own_folder: Path) -> None:
    with (
        started(Kafka(own_folder / "kafka")) as kafka,
        started(MariaDb(own_folder / "mariadb", durable=False)) as source,
        Worker(kafka, own_folder / "worker", name="alerts") as worker,
    ):
        connector = shop(kafka, source, "store", max__queue__size="256", max__batch__size="64", heartbeat__interval__ms="1000")
        create(worker, connector)
        sink, listen = counting_sink(kafka, own_folder / "sink", worker, "store")
        with sink, watching(own_folder, {"worker": [address(worker.url)], "sink": [listen]}, factor=FACTOR) as prometheus:
            rows_in_the_lake(prometheus, 3)
            for key in range(10, 15):  # rates need more than one moment
                execute(source, f"INSERT INTO store.orders VALUES ({key}, 'e')", "UPDATE store.orders SET note = 'u' WHERE id = 1")
            rows_in_the_lake(prometheus, 8)
            wait_until(
                lambda: empty_panels(prometheus) <= set(NOTHING_WITHOUT_TROUBLE),
                timeout_s=60,
                what=f"panels: {sorted(empty_panels(prometheus) - set(NOTHING_WITHOUT_TROUBLE))}",
                pause_s=1.0,
            )
            assert set(NOTHING_WITHOUT_TROUBLE) <= {name for name, _ in queries()}

            kill_the_task_again_and_again(worker, prometheus)
            freeze_the_brokers(kafka, source, prometheus)
            park_a_table(sink, prometheus)
            send_what_cannot_be_read(kafka, prometheus)
            sink.kill()
            wait_for(prometheus, "DblogSinkDown")


def rows_in_the_lake(prometheus: Prometheus, count: int) -> None:
    wait_until(
        lambda: prometheus.query(f'dblog_sink_table_rows{{table="store.orders"}} == {count}') != [],
        timeout_s=600,
        what=f"{count} rows in the lake",
        pause_s=0.5,
    )


def kill_the_task_again_and_again(worker: Worker, prometheus: Prometheus) -> None:
    killed: set[int] = set()

    def fired() -> bool:
        pid = worker.task_pid()
        if pid is not None and pid not in killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        return "DblogTaskRestarts" in prometheus.firing()

    wait_until(fired, timeout_s=180, what="DblogTaskRestarts", pause_s=1.0)
    wait_until(lambda: worker.rest.state("store") == "RUNNING" and worker.task_pid() is not None, timeout_s=180, what="the task to run")


def freeze_the_brokers(kafka: Kafka, source: MariaDb, prometheus: Prometheus) -> None:
    with frozen(kafka):
        execute(source, "INSERT INTO store.orders SELECT seq, REPEAT('x', 100) FROM seq_1000_to_9000", database="store")
        # A worker that has lost its group stops its tasks, whose numbers go with them.
        wait_for(prometheus, "DblogNoLeader", "DblogSinkLag", timeout_s=240)
    rows_in_the_lake(prometheus, 8 + 8001)


def park_a_table(sink: Sink, prometheus: Prometheus) -> None:
    asked = ["--config", str(sink.config_file)]
    assert sink_command(["park", "store.orders", "--reason", "a test", *asked]) == 0
    wait_for(prometheus, "DblogSinkTableParked")
    assert sink_command(["resume", "store.orders", *asked]) == 0
    wait_until(lambda: "DblogSinkTableParked" not in prometheus.firing(), timeout_s=120, what="the table to be resumed")


def send_what_cannot_be_read(kafka: Kafka, prometheus: Prometheus) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("store.store.orders", key=b"\x00\x00\x00\x27\x0fkey", value=b"\x00\x00\x00\x27\x0fvalue")
    assert producer.flush(60) == 0
    wait_for(prometheus, "DblogSinkQuarantine")
