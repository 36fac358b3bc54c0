"""Dumps that are asked for by REST and by the command line, of a real worker over a real database and Kafka: kills in between, a second worker, and the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from demo.pipeline import Connector, Worker, create_connector_user, task_pids
from demo.rest import NO_TLS
from stack import Kafka, MariaDb
from stack.process import wait_until
from support.fingerprints import fingerprints, prints_of
from support.servers import execute, new_database
from support.topicfold import Registry, fold, records

ROWS = 5_000


def test_a_dump_is_asked_for_steered_killed_and_ends_with_every_row_in_the_topic(kafka: Kafka, mariadb: MariaDb, own_folder: Path) -> None:
    database, name = new_database(mariadb, "dumps"), "dumps"
    execute(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)", database=database)
    execute(mariadb, f"INSERT INTO t SELECT seq, seq FROM seq_1_to_{ROWS}", database=database)
    create_connector_user(mariadb)
    worker = Worker(
        kafka, own_folder / "worker", name=name, options={"offset.flush.interval.ms": "200", "dblog.dumps.storage.replication.factor": "1"}
    )
    connector = Connector(name=name, prefix=name, source=mariadb, kafka=kafka, database=database)
    topic, url = f"{name}.{database}.t", f"/connectors/{name}/dumps"

    def rest(method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, f"{worker.url}{path}", json=body, timeout=60, verify=NO_TLS)

    def state(identity: str) -> str:
        answer = rest("GET", f"{url}/{identity}")
        return str(answer.json()["status"]["state"]) if answer.is_success else answer.text

    def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "dblog", "dumps", *arguments, "--url", worker.url]
        return subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)

    def sent() -> int:
        return sum(1 for _ in records(kafka.bootstrap, topic))

    def after() -> list[Any]:
        registry = Registry(worker.url)
        return [registry.decode(value)["after"] for _, value, _ in records(kafka.bootstrap, topic) if value is not None]

    worker.start()
    try:
        worker.rest.create(name, {**connector.config, "snapshot.mode": "no_data"})
        wait_until(lambda: worker.rest.state(name) == "RUNNING", timeout_s=60, what="the task")
        refused = rest("POST", url, {"tables": [rf"{database}\.t"], "predicate": {".*": "v = "}})
        assert (refused.status_code, "does not take the predicate" in refused.text) == (400, True)
        assert rest("POST", url, {"tables": ["nothing"]}).status_code == 404

        # A paused connector takes it, checked like any other, and begins when it goes on.
        rest("PUT", f"/connectors/{name}/pause")
        wait_until(lambda: worker.rest.state(name) == "PAUSED", timeout_s=60, what="the connector's pause")
        asked = rest("POST", url, {"tables": [rf"{database}\.t"], "chunk_rows": 100, "delay_ms": 1_000})
        assert asked.status_code == 202, asked.text
        assert state(asked.json()["id"]) == "WAITING"
        rest("PUT", f"/connectors/{name}/resume")
        identity = asked.json()["id"]
        wait_until(lambda: sent() >= 100, timeout_s=60, what="the first chunk")
        for pid in task_pids(worker.pid):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: state(identity) == "RUNNING", timeout_s=60, what="the dump to go on")
        assert cli("pause", name, identity).returncode == 0
        wait_until(lambda: state(identity) == "PAUSED", timeout_s=60, what="the pause")
        worker.kill()
        worker.start()
        wait_until(lambda: state(identity) == "PAUSED", timeout_s=60, what="the pause behind a kill of the worker")
        assert rest("PATCH", f"{url}/{identity}", {"delay_ms": 0, "chunk_rows": 5_000}).is_success
        assert cli("resume", name, identity).returncode == 0
        watched = cli("watch", name, identity)

        assert watched.returncode == 0, watched.stdout + watched.stderr
        detail = rest("GET", f"{url}/{identity}").json()["status"]
        assert (detail["state"], detail["tables_done"], detail["tables_total"]) == ("DONE", 1, 1)
        assert detail["bytes"] > detail["rows"] * 8, "over all kills"
        (table,) = rest("GET", f"{url}/{identity}?map=true").json()["status"]["tables"]
        assert (set(table["map"]), table["proof"]["high"]["pos"] > 0) == ({1.0}, True)
        folded = fold(kafka.bootstrap, worker.url, topic)
        assert {key[0]: row["v"] for key, row in folded.rows.items()} == {n: n for n in range(1, ROWS + 1)}
        assert folded.violations == []

        def forgotten() -> bool:
            offset = rest("GET", f"/connectors/{name}/offsets").json()["offsets"][0]["offset"]
            return identity not in str(offset.get("dblog_dumps"))

        wait_until(forgotten, timeout_s=60, what="the end to be noted, and to leave the offset")
        assert identity in cli("list", name).stdout
        assert json.loads(rest("GET", url).text)

        # Without rows: what the markers say of them is what the topic has.
        watched = cli("start", name, rf"{database}\.t", "--mode", "verify", "--watch")
        assert watched.returncode == 0, watched.stdout + watched.stderr
        registry = Registry(worker.url)
        markers = [registry.decode(value) for _, value, _ in records(kafka.bootstrap, f"{name}.dblog.chunks") if value is not None]
        verified = [marker for marker in markers if marker["mode"] == "verify"]
        assert {one for marker in verified for one in prints_of(marker)} == fingerprints(folded.rows.values(), verified[0]["schemas"])

        # A column by itself; the table's next version of whole rows is registered behind it.
        before = sent()
        execute(mariadb, "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7", "UPDATE t SET v = -v WHERE id = 1", database=database)
        wait_until(lambda: sent() > before, timeout_s=60, what="the log to come to the new column")
        watched = cli("start", name, rf"{database}\.t", "--mode", "columns", "--column", "w", "--watch")
        assert watched.returncode == 0, watched.stdout + watched.stderr
        execute(mariadb, "ALTER TABLE t ADD COLUMN x INT DEFAULT 3", "INSERT INTO t VALUES (-1, 0, 1, 2)", database=database)
        newest = {"id": -1, "v": 0, "w": 1, "x": 2}
        wait_until(lambda: newest in after(), timeout_s=60, what="a row of the newest columns")
        assert sum(row == {"id": row["id"], "w": 7} for row in after()) == ROWS
    finally:
        worker.stop()
        execute(mariadb, f"DROP DATABASE {database}")
