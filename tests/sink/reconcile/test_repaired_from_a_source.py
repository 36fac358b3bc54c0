"""A real worker shows which rows of the lake are not those of a real source under writes, and repairs them: damaged, deleted and invented in Delta."""

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
COLUMNS = """
    at TIMESTAMP(3) NULL, instant TIMESTAMP(6) NULL, second TIMESTAMP NULL, moment DATETIME(6), day DATE, clock TIME(2), price DECIMAL(12, 3),
    huge DECIMAL(65, 2), half FLOAT, whole DOUBLE, bits BIT(12), born YEAR, big BIGINT UNSIGNED, doc JSON, place POINT, data VARBINARY(20),
    choice ENUM('a', 'b'), several SET('x', 'y')"""
VALUES = """
    TIMESTAMP('2026-01-01 00:00:00.120') + INTERVAL i SECOND, TIMESTAMP('2026-01-01 00:00:00.000001') + INTERVAL i SECOND,
    TIMESTAMP('2026-01-01 00:00:00') + INTERVAL i SECOND, TIMESTAMP('1000-01-01 23:59:59.999999') + INTERVAL i DAY, DATE('1969-12-31') + INTERVAL i DAY,
    '-12:34:56.78', i / 8 - 50, (500 - i) * 1e40, i / 3, i / 7, i, 1901 + i % 200, 18446744073709551615 - i, CONCAT('{"n": ', i, '}'), POINT(i, -i),
    CONCAT('x', i), IF(i % 2, 'a', 'b'), IF(i % 3, 'x,y', '')"""
"""A column of each kind that comes back from Delta in another way."""


@pytest.mark.long
def test_rows_damaged_deleted_and_invented_in_delta_are_found_and_are_the_sources_after_a_repair_dump_under_writes(
    spark: SparkSession, kafka: Kafka, source: Database, tmp_path: Path, own_folder: Path
) -> None:
    database = new_database(source, "repaired")
    execute(
        source,
        f"CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT, {COLUMNS})",
        f"INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT CONCAT('k', i), i, {VALUES} FROM n",
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
                f"UPDATE t SET v = v + 1000000 WHERE id = 'k{120 + n % 800}'",
                f"DELETE FROM t WHERE id = 'k{120 + n * 7 % 800}'",
                f"INSERT INTO t (id, v) VALUES ('new{n}', {n})",
                database=database,
            )

    def dump(mode: str) -> None:
        url = f"{worker.url}/connectors/{job.prefix}/dumps"
        asked = httpx.post(url, json={"tables": [rf"{database}\.t"], "mode": mode, "chunk_rows": 100}, timeout=60, verify=NO_TLS)
        assert asked.status_code == 202, asked.text
        made = f"{url}/{asked.json()['id']}"

        def is_done() -> bool:
            return bool(httpx.get(made, timeout=60, verify=NO_TLS).json()["status"]["state"] == "DONE")

        wait_until(is_done, timeout_s=LIMIT_S, what=f"the dump of mode {mode}", pause_s=0.5)

    def verified(count: int) -> dict[str, Any]:
        job.wait(f"verdict {count}", lambda: len(job.lines("verified")) >= count)
        return job.lines("verified")[count - 1]

    try:
        worker.rest.create(job.prefix, Connector(name=job.prefix, prefix=job.prefix, source=source, kafka=kafka, database=database).config)
        with job.running():
            wait_until(is_equal, timeout_s=LIMIT_S, what="the first dump", pause_s=1.0)
            dump("verify")
            first = verified(1)
            assert (first["result"], first["why"], first["equal"], first["changed"]) == ("equal", "", 1000, 0)
        spark.sql(f"UPDATE delta.`{path}` SET v = -1 WHERE v BETWEEN 20 AND 40 OR v BETWEEN 150 AND 160")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE v BETWEEN 60 AND 130")
        ghosts = spark.read.format("delta").load(path).where("v BETWEEN 1 AND 9").selectExpr("* EXCEPT (id)", "concat('ghost', id) AS id")
        ghosts.write.format("delta").mode("append").save(path)
        assert not is_equal()

        with job.running():
            writer = threading.Thread(target=write)
            writer.start()
            try:
                dump("verify")
                found = verified(2)
                dump("repair")
            finally:
                stop.set()
                writer.join()
            job.wait("the outcome", lambda: job.lines("ghosts") != [])
            assert [(line["result"], line["why"]) for line in job.lines("ghosts")] == [("removed", "")]
            wait_until(is_equal, timeout_s=LIMIT_S, what="the lake to be the source's", pause_s=1.0)
            dump("verify")
            last = verified(3)
        assert job.lines("ghosts")[0]["rows"] >= 9
        assert (found["result"], found["why"], found["invented"]) == ("differing", "", 9)
        assert 21 <= found["differing"] <= 32
        assert 60 <= found["missing"] <= 71
        assert found["equal"] > 0
        assert (last["result"], last["why"], last["equal"]) == ("equal", "", len(there()))
    finally:
        stop.set()
        worker.stop()
        execute(source, f"DROP DATABASE {database}")
