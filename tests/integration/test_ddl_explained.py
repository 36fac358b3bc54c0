"""``dblog ddl explain`` on a running worker: what it announces is what comes, and asking runs and registers nothing."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dblog.cli import app
from demo.pipeline import Worker
from stack import Kafka
from stack.database import Database
from stack.process import free_port, wait_until
from support.servers import execute, new_database
from typer.testing import CliRunner

pytestmark = pytest.mark.either_server


@pytest.fixture
def shop(kafka: Kafka, source: Database, own_folder: Path) -> Iterator[tuple[Worker, str]]:
    """A worker whose connector has dumped one table."""
    database = new_database(source, "explained")
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(20), d DECIMAL(5,2))",
        "INSERT INTO t VALUES (1, 2, 'x', 1.5)",
        database=database,
    )
    worker = Worker(kafka, own_folder, name=f"explained-{own_folder.name}")
    with worker:
        config = {
            "connector.class": f"io.debezium.connector.{source.flavor}.{'MySql' if source.flavor == 'mysql' else 'MariaDb'}Connector",
            "database.hostname": source.host,
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "database.server.id": "7411",
            "topic.prefix": f"ex-{source.flavor}",
            "database.include.list": database,
            "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
            "schema.history.internal.kafka.topic": f"history.{own_folder.name}",
        }
        worker.rest.create("shop", config)
        wait_until(lambda: worker.rest.dump("shop").done, timeout_s=60, what="the end of the dump")
        yield worker, database


class Gate:
    """An address that leads to another, until it is shut: then it gives its answer byte by byte, and never ends it."""

    def __init__(self, port: int, answer: bytes) -> None:
        self._to = port
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._server.getsockname()[1]
        self.shut = threading.Event()
        self._ended = threading.Event()
        self.dripping = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                threading.Thread(target=self._drip if self.shut.is_set() else self._lead, args=(peer,), daemon=True).start()

    def _lead(self, peer: socket.socket) -> None:
        def pump(one: socket.socket, other: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := one.recv(65536):
                    other.sendall(data)
            for end in (one, other):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        with peer, socket.create_connection(("127.0.0.1", self._to)) as beyond:
            back = threading.Thread(target=pump, args=(beyond, peer), daemon=True)
            back.start()
            pump(peer, beyond)
            back.join()

    def _drip(self, peer: socket.socket) -> None:
        self.dripping += 1
        with peer, contextlib.suppress(OSError):
            for number in range(len(self._answer)):
                if self._ended.wait(0.05):
                    break
                peer.sendall(self._answer[number : number + 1])
        self.dripping -= 1


def run(worker: Worker, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["ddl", "explain", "--url", worker.url, *arguments])
    return done.exit_code, done.stdout, done.stderr


def effects(worker: Worker, statement: str, *more: str) -> dict[str, Any]:
    code, out, err = run(worker, "--connector", "shop", "--json", *more, statement)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_what_a_statement_would_do_is_reported_and_nothing_is_done(shop: tuple[Worker, str], source: Database) -> None:
    worker, database = shop
    subjects = sorted(httpx.get(f"{worker.url}/subjects").json())
    before = {s: httpx.get(f"{worker.url}/subjects/{s}/versions").json() for s in subjects}

    (added,) = effects(worker, "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7 FIRST")["tables"]
    (nullable,) = effects(worker, "ALTER TABLE t ADD c INT")["tables"]
    (wider,) = effects(worker, f"ALTER TABLE {database}.t MODIFY a BIGINT NOT NULL")["tables"]
    (text,) = effects(worker, "ALTER TABLE t MODIFY a VARCHAR(20) NOT NULL")["tables"]
    (renamed,) = effects(worker, "ALTER TABLE t CHANGE b bb VARCHAR(20)")["tables"]
    (gone,) = effects(worker, "DROP TABLE t")["tables"]
    quiet = effects(worker, "CREATE PROCEDURE p() SELECT 1")
    strange = effects(worker, "ALTER TABLE t ADD c QUANTUM(3)")

    assert [(c["column"], c["change"]) for c in added["columns"]] == [("c", "added")]
    assert (added["rows"], added["dumped_again"]) == ("column c has its default in every row", True)
    assert added["delta"][0]["column"] == "c"
    assert (nullable["rows"], nullable["dumped_again"]) == (None, False)
    (value,) = [s for s in nullable["registry"] if s["subject"].endswith("t-value")]
    assert (value["level"], value["problems"], value["new_version"]) == ("BACKWARD", [], True)
    assert wider["delta"] == [{"column": "a", "effect": "widened"}]
    (value,) = [s for s in text["registry"] if s["subject"].endswith("t-value")]
    assert value["problems"]
    assert "cannot be widened" in text["delta"][0]["effect"]
    assert {(c["column"], c["change"]) for c in renamed["columns"]} == {("bb", "added"), ("b", "dropped")}
    assert renamed["rows"] == "column bb was b"
    assert gone["becomes"] is None
    assert quiet["tables"] == []
    assert not strange["understood"]
    assert {s: httpx.get(f"{worker.url}/subjects/{s}/versions").json() for s in subjects} == before
    assert sorted(httpx.get(f"{worker.url}/subjects").json()) == subjects
    assert [row[0] for row in execute(source, "SHOW COLUMNS FROM t", database=database)] == ["id", "a", "b", "d"]

    code, out, _ = run(worker, "--connector", "shop", "ALTER TABLE t MODIFY a VARCHAR(20) NOT NULL, ADD c INT AS (id) STORED")
    assert code == 0
    for line in (
        f"{database}.t: altered",
        "~ a: int",
        "+ c: int",
        "the table is dumped again",
        "refuses the new schema",
        "cannot be widened",
    ):
        assert line in out, out

    # The registry decides alike when the statement comes.
    execute(source, "ALTER TABLE t ADD c INT", "INSERT INTO t VALUES (2, 3, 'y', 2, 4)", database=database)
    wait_until(
        lambda: len(httpx.get(f"{worker.url}/subjects/ex-{source.flavor}.{database}.t-value/versions").json()) == 2,
        timeout_s=30,
        what="the new version",
    )
    assert effects(worker, "ALTER TABLE t DROP c")["tables"][0]["delta"] == [
        {"column": "c", "effect": "kept; NULL in every row written from then on"}
    ]

    code, _, err = run(worker, "--connector", "nobody", "ALTER TABLE t ADD c INT")
    assert (code, "nobody not found" in err) == (1, True)
    code, _, err = run(worker, "--connector", "shop", "  ")
    assert (code, "statement" in err) == (1, True)


def test_database_and_registry_that_never_end_their_answer_are_left_in_time(shop: tuple[Worker, str], source: Database) -> None:
    worker, database = shop
    path = f"{worker.url}/connectors/shop"
    config = httpx.get(f"{path}/config").json() | {"connection.validation.timeout.ms": "1500"}
    avro = "io.confluent.connect.avro.AvroConverter"
    greeting, head = b"\x00\x80\x00\x00\x0a" + b"8" * 1000, b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1000
    for part, port, answer_bytes in (("database", source.port, greeting), ("registry", int(worker.url.rpartition(":")[2]), head)):
        gate = Gate(port, answer_bytes)
        registry = {"value.converter": avro, "value.converter.schema.registry.url": f"http://127.0.0.1:{gate.port}"}
        through = {"database.port": str(gate.port)} if part == "database" else registry
        try:
            answer = httpx.put(f"{path}/config", json=config | through, timeout=60)
            assert answer.status_code == 200, answer.text
            gate.shut.set()

            began_s = time.monotonic()
            statement = {"statement": f"ALTER TABLE {database}.t ADD e INT"}
            answer = httpx.post(f"{path}/ddl/explain", json=statement, timeout=20)

            assert (answer.status_code, time.monotonic() - began_s < 10) == (503, True), answer.text
            assert "did not all answer within 1500 ms" in answer.json()["message"]
            httpx.put(f"{path}/stop")  # the task asks too
            wait_until(lambda gate=gate: not gate.dripping, timeout_s=10, what="the connections to be closed")
        finally:
            gate.close()


def test_a_worker_that_is_away_is_reported_with_the_way_out() -> None:
    done = CliRunner().invoke(app, ["ddl", "explain", "--url", f"http://127.0.0.1:{free_port()}", "--connector", "c", "DROP TABLE t"])

    assert done.exit_code == 1
    assert "--url" in done.stderr
