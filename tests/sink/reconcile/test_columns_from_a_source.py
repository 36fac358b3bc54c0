"""A real worker dumps one column of a real source into the lake under writes, and a table is compared under its new name."""

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
def test_one_column_is_the_sources_after_a_dump_of_it_under_writes_and_a_renamed_table_is_compared_under_its_new_name(
    spark: SparkSession, kafka: Kafka, source: Database, tmp_path: Path, own_folder: Path
) -> None:
    database = new_database(source, "columns")
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, note VARCHAR(20))",
        "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, i, 'as it was' FROM n",
        database=database,
    )
    create_connector_user(source)
    worker = Worker(kafka, own_folder / "worker", name=database, options={"dblog.dumps.storage.replication.factor": "1"})
    worker.start()
    job = Job(spark, kafka, SimpleNamespace(url=worker.url), tmp_path)  # type: ignore[arg-type]
    job.settings |= {"chunks.wait.s": "5", "topics.exclude": r".*schema-history"}

    def lake(table: str) -> dict[int, tuple[Any, ...]]:
        path = str(tmp_path / "lake" / database / table)
        if not DeltaTable.isDeltaTable(spark, path):
            return {}
        return {row["id"]: (row["v"], row["note"]) for row in spark.read.format("delta").load(path).collect()}

    def there(table: str) -> dict[int, tuple[Any, ...]]:
        return {row[0]: tuple(row[1:]) for row in execute(source, f"SELECT id, v, note FROM {table}", database=database)}

    def dump(table: str, mode: str, **facts: Any) -> None:
        url = f"{worker.url}/connectors/{job.prefix}/dumps"
        asked = httpx.post(
            url, json={"tables": [rf"{database}\.{table}"], "mode": mode, "chunk_rows": 50, **facts}, timeout=60, verify=NO_TLS
        )
        assert asked.status_code == 202, asked.text
        made = f"{url}/{asked.json()['id']}"

        def is_done() -> bool:
            return bool(httpx.get(made, timeout=60, verify=NO_TLS).json()["status"]["state"] == "DONE")

        wait_until(is_done, timeout_s=LIMIT_S, what=f"the dump of mode {mode}", pause_s=0.5)

    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.wait(0.01):
            n += 1
            execute(
                source,
                f"UPDATE t SET v = v + 1000 WHERE id = {200 + n % 400}",
                f"DELETE FROM t WHERE id = {200 + n * 7 % 400}",
                f"INSERT INTO t VALUES ({1000 + n}, {n}, 'new')",
                database=database,
            )

    try:
        worker.rest.create(job.prefix, Connector(name=job.prefix, prefix=job.prefix, source=source, kafka=kafka, database=database).config)
        with job.running():
            wait_until(lambda: lake("t") == there("t"), timeout_s=LIMIT_S, what="the first dump", pause_s=1.0)
        path = str(tmp_path / "lake" / database / "t")
        spark.sql(f"UPDATE delta.`{path}` SET v = -1 WHERE id BETWEEN 20 AND 60 OR id BETWEEN 250 AND 300")
        spark.sql(f"UPDATE delta.`{path}` SET note = 'damaged' WHERE id BETWEEN 50 AND 80")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id BETWEEN 100 AND 110")

        with job.running():
            writer = threading.Thread(target=write)
            writer.start()
            try:
                dump("t", "columns", columns=["v"])
            finally:
                stop.set()
                writer.join()
            expected = {key: (v, "damaged" if 50 <= key <= 80 else note) for key, (v, note) in there("t").items() if not 100 <= key <= 110}
            wait_until(lambda: lake("t") == expected, timeout_s=LIMIT_S, what="the column to be the source's", pause_s=1.0)
            # The other column is as it was, and rows that the lake lacked are not made of one column.
            execute(source, "RENAME TABLE t TO u", "UPDATE u SET note = 'later' WHERE id <= 10", database=database)
            wait_until(lambda: lake("u") == there("u"), timeout_s=LIMIT_S, what="the table under its new name", pause_s=1.0)
            dump("u", "verify")
            job.wait("the verdict", lambda: job.lines("verified") != [])
        (found,) = job.lines("verified")
        assert (found["table"], found["result"], found["why"], found["equal"]) == (f"{database}.u", "equal", "", len(there("u")))
        assert lake("t") == expected, "the table of the old name stays as it was"
    finally:
        stop.set()
        worker.stop()
        execute(source, f"DROP DATABASE {database}")
