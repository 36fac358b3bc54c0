"""The sink where it is not alone on one machine: executors that have only what was submitted, and tables in a store with S3's interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from confluent_kafka import Producer
from dblog_sink.config.lake_paths import CONDITIONAL
from dblog_sink.delta.jars import jars as needed_jars
from dblog_sink.job import submit
from deltalake import DeltaTable, QueryBuilder
from sink.harness import Record, change
from stack import BRIEF_JVM, Kafka, ObjectStore, s3a_jars
from support.envelopes import TableSchema
from support.registry_server import RegistryServer
from support.spark_cluster import SparkCluster

WAIT_S = 600.0


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def store(own_folder: Path) -> Iterator[ObjectStore]:
    """A store with an empty bucket ``lake``."""
    with ObjectStore(own_folder / "store") as made:
        yield made


def options_of(store: ObjectStore, log_store: str) -> list[str]:
    """spark-submit's options for the store."""
    given = {**store.spark_options, "spark.delta.logStore.s3a.impl": log_store}
    return [argument for name, value in given.items() for argument in ("--conf", f"{name}={value}")]


def fetched(store: ObjectStore, folder: Path) -> Path:
    """The tables of the store as files here."""
    client = boto3.client("s3", endpoint_url=store.address, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="bronze/shop/"):
        for found in page["Contents"]:
            file = folder / found["Key"]
            file.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("lake", found["Key"], str(file))
    return folder / "bronze"


RACE = '''
import sys
from dblog_sink.state.files import HadoopFolder
from dblog_sink.delta.session import spark_session

session = spark_session("race", {})
other = HadoopFolder(session, "s3a://lake/race")


class Late(str):
    """A text before which, when its file is open and not written yet, the other one creates the file."""

    def encode(self, *args):
        assert other.create("lease.json", "other")
        return super().encode(*args)


taken = HadoopFolder(session, "s3a://lake/race").create("lease.json", Late("late"))
assert (taken, other.read("lease.json")) == (False, "other"), (taken, other.read("lease.json"))
other.replace("lease.json", "again")
assert other.read("lease.json") == "again"
'''


APPENDS = """
from dblog_sink.delta.session import spark_session

session = spark_session("appends", {})
for _ in range(12):
    session.range(1).coalesce(1).write.format("delta").mode("append").save("s3a://lake/bronze/shop/both")
"""


class Job:
    """The sink by spark-submit, once to the end of what Kafka has, from a folder in which nothing of its code is."""

    def __init__(self, kafka: Kafka, registry: RegistryServer, folder: Path, lake: str) -> None:
        self.prefix = f"c{uuid4().hex[:8]}"
        self.table = TableSchema(topic=f"{self.prefix}.shop.t", columns=[("id", "int"), ("v", ["null", "string"])], registry=registry)
        self.lake, self.folder, self._kafka = lake, folder, kafka
        folder.mkdir()
        self._config = folder / "sink.yaml"
        self._config.write_text(
            json.dumps(
                {
                    "name": "it",
                    "topics": self.table.topic,
                    "kafka.bootstrap.servers": kafka.bootstrap,
                    "registry.url": registry.url,
                    "target.path": lake,
                    "trigger.once": True,
                    "rewrite.rows.max": 0,
                    "storage.shared.mount": True,
                }
            )
        )
        self.program, self._code = submit.archive(folder)

    def run(self, *records: Record, jars: list[Path], spark: list[str], refused: bool = False) -> str:
        """Send the records and let the sink work them off, unless it refuses to start; its log."""
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap})
        for record in records:
            producer.produce(record.topic, key=record.key, value=record.value)
        producer.flush()
        shared = ["--driver-memory=1g", f"--driver-java-options={BRIEF_JVM} -Xss4m", "--conf", "spark.ui.enabled=false"]
        line = submit.line(
            spark=[*shared, *spark],
            sink=[],
            files=[self._config],
            jars=[*needed_jars(os.environ), *jars],
            program=self.program,
            code=self._code,
            properties={},
        )
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_GATEWAY_PORT")}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        ended = subprocess.run(line, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert (ended.returncode != 0) == refused, ended.stdout[-2000:] + ended.stderr[-6000:]
        return ended.stderr

    def rows(self, lake: Path) -> list[tuple[int, str]]:
        """The table by a reader that is not Spark."""
        batches = QueryBuilder().register("t", DeltaTable(lake / "shop" / "t")).execute("SELECT id, v FROM t")
        return sorted(row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def first(self) -> list[Record]:
        return [change(self.table, "r", {"id": n, "v": "dump"}, at=10, sequenced=True) for n in range(20)]

    def later(self) -> list[Record]:
        return [
            *(change(self.table, "u", {"id": n, "v": "log"}, at=100 + n, sequenced=True) for n in range(10)),
            change(self.table, "d", {"id": 19, "v": "dump"}, at=200, sequenced=True),
            change(self.table, "r", {"id": 19, "v": "dump"}, at=11, sequenced=True),
        ]

    @property
    def expected(self) -> list[tuple[int, str]]:
        return [(n, "log" if n < 10 else "dump") for n in range(19)]


@pytest.mark.long
def test_executors_of_a_cluster_get_what_they_need_by_what_is_submitted(kafka: Kafka, registry: RegistryServer, own_folder: Path) -> None:
    lake = own_folder / "lake"
    job = Job(kafka, registry, own_folder / "driver", str(lake))
    with SparkCluster(own_folder / "cluster") as cluster:
        spark = [
            "--master",
            cluster.master,
            "--conf",
            "spark.executor.memory=800m",
            "--conf",
            f"spark.executor.extraJavaOptions={BRIEF_JVM}",
        ]
        job.run(*job.first(), jars=[], spark=spark)
        assert job.rows(lake) == [(n, "dump") for n in range(20)]

        job.run(*job.later(), jars=[], spark=spark)
        assert job.rows(lake) == job.expected

        for n in (0, 1):  # each of the two had executors of both runs
            assert len(list(cluster.work(n).glob("app-*/*/delta-spark_*.jar"))) == 2


@pytest.mark.long
def test_tables_and_state_in_a_store_with_the_interface_of_s3(
    kafka: Kafka, registry: RegistryServer, own_folder: Path, store: ObjectStore
) -> None:
    job = Job(kafka, registry, own_folder / "driver", "s3a://lake/bronze")
    spark = ["--master", "local[2]", *options_of(store, CONDITIONAL)]

    job.run(*job.first(), jars=s3a_jars(), spark=spark)
    assert job.rows(fetched(store, own_folder / "first")) == [(n, "dump") for n in range(20)]

    store.fail(refused=0.02, lost=0.02, seed=3)
    job.run(*job.later(), jars=s3a_jars(), spark=spark)
    assert min(store.counts()[kind] for kind in ("refused", "lost")) > 0
    store.fail()
    assert job.rows(fetched(store, own_folder / "later")) == job.expected


@pytest.mark.long
def test_a_log_store_for_one_driver_alone_is_refused_in_a_store_with_the_interface_of_s3(
    kafka: Kafka, registry: RegistryServer, own_folder: Path, store: ObjectStore
) -> None:
    job = Job(kafka, registry, own_folder / "driver", "s3a://lake/bronze")

    printed = job.run(
        jars=s3a_jars(), spark=["--master", "local[1]", *options_of(store, "io.delta.storage.S3SingleDriverLogStore")], refused=True
    )

    assert (
        "two drivers can overwrite each other's Delta commits. Set spark.delta.logStore.s3a.impl=dblog.sink.S3ConditionalLogStore"
        in printed
    )


@pytest.mark.long
def test_of_two_that_take_the_lease_in_a_store_at_once_one_gets_it(
    kafka: Kafka, registry: RegistryServer, own_folder: Path, store: ObjectStore
) -> None:
    job = Job(kafka, registry, own_folder / "driver", "s3a://lake/bronze")
    job.program.write_text(RACE)

    job.run(jars=s3a_jars(), spark=["--master", "local[1]", *options_of(store, CONDITIONAL)])


@pytest.mark.long
def test_appends_of_two_drivers_at_once_to_one_table_all_arrive(
    kafka: Kafka, registry: RegistryServer, own_folder: Path, store: ObjectStore
) -> None:
    made = [Job(kafka, registry, own_folder / f"driver{n}", "s3a://lake/bronze") for n in range(2)]
    for job in made:
        job.program.write_text(APPENDS)

    def run(job: Job) -> str:
        return job.run(jars=s3a_jars(), spark=["--master", "local[1]", *options_of(store, CONDITIONAL)])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, made))

    fetched(store, own_folder / "both")
    commits = sorted((own_folder / "both" / "bronze" / "shop" / "both" / "_delta_log").glob("*.json"))
    assert [int(one.stem) for one in commits] == list(range(2 * 12))
    rows = QueryBuilder().register("t", DeltaTable(own_folder / "both" / "bronze" / "shop" / "both")).execute("SELECT count(*) FROM t")
    assert sum(batch.columns[0].to_pylist()[0] for batch in rows) == 2 * 12
