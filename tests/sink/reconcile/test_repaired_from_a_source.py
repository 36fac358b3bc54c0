"""A real worker repairs the lake of a real source under writes: rows damaged, deleted and invented in Delta are the source's again."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from delta.tables import DeltaTable
from demo.pipeline import Connector, Worker, create_connector_user
from demo.rest import NO_TLS
from pyspark.sql import SparkSession
from sink.job import Job
from stack import Kafka
from stack.database import Database
from stack.process import wait_until
from support.servers import execute, new_database

LIMIT_S = 300.0


@pytest.mark.long
def test_rows_damaged_deleted_and_invented_in_delta_are_the_sources_after_a_repair_dump_under_writes(
    spark: SparkSession, kafka: Kafka, source: Database, tmp_path: Path, own_folder: Path
) -> None:
    database = new_database(source, "repaired")
    execute(
        source,
        "CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT)",
        "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT CONCAT('k', i), i FROM n",
        database=database,
    )
    create_connector_user(source)
    worker = Worker(kafka, own_folder / "worker", name=database, options={"dblog.dumps.storage.replication.factor": "1"})
    worker.start()
    job = Job(spark, kafka, SimpleNamespace(url=worker.url), tmp_path)  # type: ignore[arg-type]
    job.settings |= {"chunks.wait.s": "5", "topics.exclude": r".*schema-history"}
    path = str(tmp_path / "lake" / database / "t")

    def lake() -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["v"]) for row in spark.read.format("delta").load(path).collect())

    def there() -> list[tuple[Any, ...]]:
        return sorted(execute(source, "SELECT id, v FROM t", database=database))

    def is_equal() -> bool:
        return DeltaTable.isDeltaTable(spark, path) and lake() == there()

    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.wait(0.01):
            n += 1
            execute(
                source,
                f"UPDATE t SET v = v + 1000000 WHERE id = 'k{n % 1000}'",
                f"DELETE FROM t WHERE id = 'k{n * 7 % 1000}'",
                f"INSERT INTO t VALUES ('new{n}', {n})",
                database=database,
            )

    try:
        worker.rest.create(job.prefix, Connector(name=job.prefix, prefix=job.prefix, source=source, kafka=kafka, database=database).config)
        with job.running():
            wait_until(is_equal, timeout_s=LIMIT_S, what="the first dump", pause_s=1.0)
        spark.sql(f"UPDATE delta.`{path}` SET v = -1 WHERE v BETWEEN 100 AND 150")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE v BETWEEN 200 AND 250")
        spark.sql(
            f"INSERT INTO delta.`{path}` SELECT concat('ghost', id), v, _dblog_seq1, _dblog_seq2 FROM delta.`{path}` WHERE v BETWEEN 1 AND 9"
        )
        assert not is_equal()

        with job.running():
            writer = threading.Thread(target=write)
            writer.start()
            try:
                url = f"{worker.url}/connectors/{job.prefix}/dumps"
                body = {"tables": [rf"{database}\.t"], "mode": "repair", "chunk_rows": 100}
                asked = httpx.post(url, json=body, timeout=60, verify=NO_TLS)
                assert asked.status_code == 202, asked.text
                dump = f"{url}/{asked.json()['id']}"

                def is_done() -> bool:
                    return bool(httpx.get(dump, timeout=60, verify=NO_TLS).json()["status"]["state"] == "DONE")

                wait_until(is_done, timeout_s=LIMIT_S, what="the dump", pause_s=0.5)
            finally:
                stop.set()
                writer.join()
            job.wait("the outcome", lambda: job.lines("ghosts") != [])
            assert [(line["result"], line["why"]) for line in job.lines("ghosts")] == [("removed", "")]
            wait_until(is_equal, timeout_s=LIMIT_S, what="the lake to be the source's", pause_s=1.0)
        assert job.lines("ghosts")[0]["rows"] >= 9
    finally:
        stop.set()
        worker.stop()
        execute(source, f"DROP DATABASE {database}")
