"""A real worker shows which rows of the lake are not those of a real source under writes, and repairs them: damaged, deleted and invented in Delta."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from delta.tables import DeltaTable
from demo.pipeline import Connector, Worker, create_connector_user
from demo.postgres.shop import PUBLICATION
from demo.rest import NO_TLS
from pyspark.sql import SparkSession
from sink.job import Job
from stack import Kafka, Postgres
from stack.database import Database
from stack.process import wait_until
from support import postgres as postgresql
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


POSTGRES_COLUMNS = """
    at timestamptz(3) NULL, instant timestamptz NULL, second timestamptz(0) NULL, moment timestamp, day date, clock time(2), zoned timetz, price numeric(12, 3),
    huge numeric(65, 2), any_size numeric, half real, whole double precision, bits bit(12), some_bits varbit(20), sold boolean, doc json, binary_doc jsonb,
    place point, data bytea, choice choice, lasts interval, named uuid, numbers int[], texts text[], prices numeric(5, 2)[], days date[], spans int4range,
    address inet, cash money, apart text, bytes_apart bytea"""
POSTGRES_VALUES = """
    timestamptz '2026-01-01 00:00:00.120Z' + i * interval '1 s', timestamptz '2026-01-01 00:00:00.000001Z' + i * interval '1 s',
    timestamptz '2026-01-01Z' + i * interval '1 s', timestamp '0001-01-01 23:59:59.999999' + i * interval '1 day', date '1969-12-31' + i, '12:34:56.78',
    '12:34:56.789+02', i / 8.0 - 50, (500 - i) * 1e40, i * 10::numeric ^ (i % 90 - 40), i / 3.0, i / 7.0, i::bit(12), i::bit(10), i % 2 = 0,
    json_build_object('n', i), jsonb_build_object('n', i), point(i, -i), ('x' || i)::bytea, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END::choice,
    i * interval '1 day 00:00:01.25', md5(i::text)::uuid, ARRAY[i, NULL, -i], ARRAY['', NULL, 'x' || i], ARRAY[i / 8.0], ARRAY[date '2026-01-01' + i],
    int4range(i, i + 5), '10.0.0.1', i, (SELECT string_agg(md5((i * n)::text), '') FROM generate_series(1, 100) n),
    (SELECT string_agg(sha256((i * n)::text::bytea), '') FROM generate_series(1, 100) n)"""
"""The same of PostgreSQL, and two that are stored apart from their row: an update that leaves them alone does not bring them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A table ``t`` of 1000 rows, and how to talk to its database, which records call ``name``."""

    server: Database
    name: str
    ask: Callable[..., list[tuple[Any, ...]]]
    options: dict[str, str] = field(default_factory=dict)


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def origin(request: pytest.FixtureRequest) -> Iterator[Origin]:
    server: Database = request.getfixturevalue(request.param)
    if isinstance(server, Postgres):
        yield from _of_postgres(server)
        return
    name = new_database(server, "repaired")
    origin = Origin(server, name, lambda *statements: execute(server, *statements, database=name))
    origin.ask(
        f"CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT, {COLUMNS})",
        f"INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT CONCAT('k', i), i, {VALUES} FROM n",
    )
    yield origin
    origin.ask(f"DROP DATABASE {name}")


def _of_postgres(server: Postgres) -> Iterator[Origin]:
    database = postgresql.new_database(server, "repaired")
    origin = Origin(
        server, "public", lambda *statements: postgresql.execute(server, *statements, database=database), {"database.dbname": database}
    )
    origin.ask(
        "CREATE TYPE choice AS ENUM ('a', 'b')",
        f'CREATE TABLE t (id varchar(20) COLLATE "und-x-icu" PRIMARY KEY, v int, {POSTGRES_COLUMNS})',
        f"INSERT INTO t SELECT 'k' || i, i, {POSTGRES_VALUES} FROM generate_series(1, 1000) i",
        f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
    )
    yield origin
    origin.ask(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{database}'")


@pytest.mark.long
def test_rows_damaged_deleted_and_invented_in_delta_are_found_and_are_the_sources_after_a_repair_dump_under_writes(
    spark: SparkSession, kafka: Kafka, origin: Origin, tmp_path: Path, own_folder: Path
) -> None:
    create_connector_user(origin.server)
    name = f"repaired_{origin.server.flavor}"
    worker = Worker(kafka, own_folder / "worker", name=name, options={"dblog.dumps.storage.replication.factor": "1"})
    worker.start()
    job = Job(spark, kafka, SimpleNamespace(url=worker.url), tmp_path)  # type: ignore[arg-type]
    job.settings |= {"chunks.wait.s": "5", "topics.exclude": r".*schema-history"}
    path = str(tmp_path / "lake" / origin.name / "t")

    def lake() -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["v"]) for row in spark.read.format("delta").load(path).collect())

    def there() -> list[tuple[Any, ...]]:
        return sorted(origin.ask("SELECT id, v FROM t"))

    def is_equal() -> bool:
        return DeltaTable.isDeltaTable(spark, path) and lake() == there()

    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.wait(0.01):
            n += 1
            origin.ask(
                f"UPDATE t SET v = v + 1000000 WHERE id = 'k{120 + n % 800}'",
                f"DELETE FROM t WHERE id = 'k{120 + n * 7 % 800}'",
                f"INSERT INTO t (id, v) VALUES ('new{n}', {n})",
            )

    def dump(mode: str) -> None:
        url = f"{worker.url}/connectors/{job.prefix}/dumps"
        asked = httpx.post(url, json={"tables": [rf"{origin.name}\.t"], "mode": mode, "chunk_rows": 100}, timeout=60, verify=NO_TLS)
        assert asked.status_code == 202, asked.text
        made = f"{url}/{asked.json()['id']}"

        def is_done() -> bool:
            return bool(httpx.get(made, timeout=60, verify=NO_TLS).json()["status"]["state"] == "DONE")

        wait_until(is_done, timeout_s=LIMIT_S, what=f"the dump of mode {mode}", pause_s=0.5)

    def verified(count: int) -> dict[str, Any]:
        job.wait(f"verdict {count}", lambda: len(job.lines("verified")) >= count)
        return job.lines("verified")[count - 1]

    try:
        connector = Connector(
            name=job.prefix, prefix=job.prefix, source=origin.server, kafka=kafka, database=origin.name, options=origin.options
        )
        worker.rest.create(job.prefix, connector.config)
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
