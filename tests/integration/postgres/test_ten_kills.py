"""``kill -9`` of task, worker and server, in the dump and in the log, loses, doubles and reorders nothing (I1, I2, I3): topics are folded and compared."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from stack import Kafka, Postgres
from support.postgres import connected, execute, new_database
from support.topicfold import fold
from support.worker import Worker, until

ROWS = 20_000
KILLS = ("task", "server", "task", "worker", "task", "server", "worker", "task", "server", "task")


class Writer(threading.Thread):
    """Transactions of a few rows each, over and over; one that the server did not survive is forgotten."""

    def __init__(self, server: Postgres, database: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._database = server, database
        self._dice = random.Random(seed)
        self._ended = threading.Event()
        self._pause = threading.Lock()
        self.committed = 0

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(psycopg2.Error), connected(self._server, database=self._database) as connection:
                connection.autocommit = False
                with connection.cursor() as cursor:
                    while not self._ended.wait(0.002):
                        for _ in range(self._dice.choice((1, 1, 1, 5, 40))):
                            cursor.execute(*self._change())
                        connection.commit()
                        self.committed += 1
            self._ended.wait(0.05)

    def _change(self) -> tuple[str, tuple[Any, ...]]:
        dice, id_ = self._dice, self._dice.randrange(ROWS)
        match dice.randrange(6):
            case 0:
                return "DELETE FROM plain WHERE id = %s", (id_,)
            case 1:
                return "INSERT INTO plain VALUES (%s, %s, 0) ON CONFLICT (id) DO UPDATE SET n = plain.n + 1", (id_, f"again {id_}")
            case 2:
                return "UPDATE plain SET id = id + %s WHERE id = %s", (10 * ROWS, id_)
            case 3:
                return "UPDATE keyed SET v = v || 'x' WHERE a = %s", (id_ % 100,)
            case 4:
                return "INSERT INTO keyed VALUES (%s, %s, 'new') ON CONFLICT DO NOTHING", (id_ % 100, f"key {id_}")
            case _:
                return "UPDATE plain SET n = n + 1, name = %s WHERE id BETWEEN %s AND %s", (f"name {dice.random()}", id_, id_ + 3)

    def stop(self) -> None:
        self._ended.set()
        self.join(30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    """One that can be killed; its commits survive that."""
    with Postgres(tmp_path / "postgres", durable=True) as server:
        yield server


def task_of(worker: Worker) -> int | None:
    """The process of the worker's task."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if b"task" in words and int(parent) == worker.process.pid:
                    return int(folder.name)
    return None


@pytest.mark.parametrize(
    ("windows", "kills"),
    [
        pytest.param("written", KILLS[:4], id="four"),
        pytest.param("written", KILLS, id="written", marks=pytest.mark.long),
        pytest.param("read-only", KILLS, id="read-only", marks=pytest.mark.long),
    ],
)
def test_folding_the_topics_gives_the_source_after_kills(
    kafka: Kafka, server: Postgres, tmp_path: Path, windows: str, kills: tuple[str, ...]
) -> None:
    database = new_database(server)
    group = f"kills-{uuid.uuid4().hex[:8]}"
    execute(
        server,
        "CREATE TABLE plain (id BIGINT PRIMARY KEY, name TEXT, n INT NOT NULL)",
        "CREATE TABLE keyed (a INT, b TEXT, v TEXT, PRIMARY KEY (b, a))",
        f"INSERT INTO plain SELECT n, 'row ' || n, 0 FROM generate_series(0, {ROWS - 1}) n",
        f"INSERT INTO keyed SELECT n % 100, 'key ' || n, 'old' FROM generate_series(0, {ROWS // 4}) n",
        database=database,
    )
    config = {
        "connector_class": "io.debezium.connector.postgresql.PostgresConnector",
        "database_hostname": server.host,
        "database_port": str(server.port),
        "database_user": server.user,
        "database_password": server.password,
        "database_dbname": database,
        "database_server_id": "",
        "plugin_name": "pgoutput",
        "slot_name": group.replace("-", "_"),
        "schema_include_list": "public",
        "topic_prefix": group,
        "dblog_chunk_rows": "500",
        "dblog_chunk_delay_ms": "20",
        "key_converter": "io.confluent.connect.avro.AvroConverter",
        "value_converter": "io.confluent.connect.avro.AvroConverter",
        "read_only": str(windows == "read-only").lower(),
    }
    config = {name.replace("_", "."): text for name, text in config.items() if text}
    dice = random.Random(7)
    writer = Writer(server, database, 1)
    with Worker(kafka, tmp_path, group, tasks="real") as worker:
        worker.client.post("/connectors", json={"name": "shop", "config": config}).raise_for_status()
        worker.wait_for("shop", "RUNNING", "RUNNING", limit_s=60)
        writer.start()
        for kill in kills:
            seen = writer.committed
            until(lambda seen=seen: writer.committed > seen + dice.randrange(20, 400), limit_s=60)
            match kill:
                case "task":
                    pid = until(lambda: task_of(worker), limit_s=60)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                case "worker":
                    worker.process.kill()
                    worker.process.start()
                case "server":
                    server.kill()
                    server.start()
        writer.stop()
        execute(server, "INSERT INTO plain VALUES (-1, 'sentinel', 0)", "INSERT INTO keyed VALUES (-1, 'sentinel', '')", database=database)

        def arrived() -> bool:
            numbers = worker.client.get("/metrics").text
            return 'dump_running{connector="shop",task="0"} 0.0' in numbers and all(
                any("sentinel" in str(row) for row in fold(kafka.bootstrap, worker.url, f"{group}.public.{table}").rows.values())
                for table in ("plain", "keyed")
            )

        until(arrived, limit_s=120, what=lambda: f"the sentinels to arrive, not {worker.status('shop')}")
        folded = {table: fold(kafka.bootstrap, worker.url, f"{group}.public.{table}") for table in ("plain", "keyed")}

    for table, found in folded.items():
        with connected(server, database=database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            names = [column.name for column in cursor.description]
            wanted = sorted(str(dict(zip(names, row, strict=True))) for row in cursor.fetchall())
        assert found.violations == []
        assert sorted(str(row) for row in found.rows.values()) == wanted, table
        assert found.ops["r"] > 0
