"""Dumps that are asked for by REST and by the command line, of a real worker over a real database under writes and Kafka: kills in between, a second worker, and
the end: the folded topic is the source, and the chunk markers are right about it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo.pipeline import Connector, Worker, task_pids
from demo.rest import NO_TLS
from stack import Kafka
from stack.database import Database
from stack.process import wait_until
from support.chunk_digests import check_chunks
from support.fingerprints import fingerprints, prints_of
from support.servers import execute
from support.topicfold import Registry, fold, records
from support.written_table import filled, rows_of, writing

ROWS = 5_000


@pytest.mark.either_server
def test_a_dump_is_asked_for_steered_killed_and_ends_with_every_row_in_the_topic(kafka: Kafka, source: Database, own_folder: Path) -> None:
    database, name = filled(source, "dumps", ROWS), f"dumps_{source.flavor}"
    worker = Worker(
        kafka, own_folder / "worker", name=name, options={"offset.flush.interval.ms": "200", "dblog.dumps.storage.replication.factor": "1"}
    )
    connector = Connector(name=name, prefix=name, source=source, kafka=kafka, database=database)
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

    def decoded() -> list[Any]:
        registry = Registry(worker.url)
        return [registry.decode(value) for _, value, _ in records(kafka.bootstrap, topic) if value is not None]

    def dumped() -> int:
        return sum(record["op"] == "r" for record in decoded())

    def markers(identity: str) -> list[Any]:
        registry = Registry(worker.url)
        found = [registry.decode(value) for _, value, _ in records(kafka.bootstrap, f"__dblog-chunks.{name}") if value is not None]
        return [marker for marker in found if marker["dump"] == identity]

    worker.start()
    try:
        worker.rest.create(name, {**connector.config, "snapshot.mode": "no_data"})
        wait_until(lambda: worker.rest.state(name) == "RUNNING", timeout_s=60, what="the task")
        refused = rest("POST", url, {"tables": [rf"{database}\.t"], "predicate": {".*": "v = "}})
        assert (refused.status_code, "does not take the predicate" in refused.text) == (400, True)
        assert rest("POST", url, {"tables": ["nothing"]}).status_code == 404

        with writing(source, database, ROWS):
            # A paused connector takes it, checked like any other, and begins when it goes on.
            rest("PUT", f"/connectors/{name}/pause")
            wait_until(lambda: worker.rest.state(name) == "PAUSED", timeout_s=60, what="the connector's pause")
            asked = rest("POST", url, {"tables": [rf"{database}\.t"], "chunk_rows": 100, "delay_ms": 1_000})
            assert asked.status_code == 202, asked.text
            assert state(asked.json()["id"]) == "WAITING"
            rest("PUT", f"/connectors/{name}/resume")
            identity = asked.json()["id"]
            wait_until(lambda: dumped() >= 100, timeout_s=60, what="the first chunk")
            for pid in task_pids(worker.pid):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: state(identity) == "RUNNING", timeout_s=60, what="the dump to go on")
            assert cli("pause", name, identity).returncode == 0
            wait_until(lambda: state(identity) == "PAUSED", timeout_s=60, what="the pause")
            worker.kill()
            worker.start()
            wait_until(lambda: state(identity) == "PAUSED", timeout_s=60, what="the pause behind a kill of the worker")
            assert rest("PATCH", f"{url}/{identity}", {"delay_ms": 0, "chunk_rows": 1_000}).is_success
            assert cli("resume", name, identity).returncode == 0
            watched = cli("watch", name, identity)

            assert watched.returncode == 0, watched.stdout + watched.stderr
        detail = rest("GET", f"{url}/{identity}").json()["status"]
        assert (detail["state"], detail["tables_done"], detail["tables_total"]) == ("DONE", 1, 1)
        assert detail["bytes"] > detail["rows"] * 8, "over all kills"
        (table,) = rest("GET", f"{url}/{identity}?map=true").json()["status"]["tables"]
        assert (set(table["map"]), table["proof"]["high"]["pos"] > 0) == ({1.0}, True)
        expected = rows_of(source, database)

        def is_equal() -> bool:
            return {key[0]: row["v"] for key, row in fold(kafka.bootstrap, worker.url, topic).rows.items()} == expected

        wait_until(is_equal, timeout_s=60, what="the folded topic to be the source", pause_s=0.5)
        folded = fold(kafka.bootstrap, worker.url, topic)
        assert folded.violations == []
        assert check_chunks(kafka.bootstrap, Registry(worker.url), topic, markers(identity)) > 0

        def forgotten() -> bool:
            offset = rest("GET", f"/connectors/{name}/offsets").json()["offsets"][0]["offset"]
            return identity not in str(offset.get("dblog_dumps"))

        wait_until(forgotten, timeout_s=60, what="the end to be noted, and to leave the offset")
        assert identity in cli("list", name).stdout
        assert json.loads(rest("GET", url).text)

        # Without rows: what the markers say of them is what the topic has.
        watched = cli("start", name, rf"{database}\.t", "--mode", "verify", "--watch")
        assert watched.returncode == 0, watched.stdout + watched.stderr
        verified = markers(watched.stdout.split()[1])
        assert {marker["mode"] for marker in verified} == {"verify"}
        assert {one for marker in verified for one in prints_of(marker)} == fingerprints(folded.rows.values(), verified[0]["schemas"])

        # A column by itself; the table's next version of whole rows is registered behind it.
        before = sent()
        execute(source, "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7", "UPDATE t SET v = -v WHERE id = 1", database=database)
        wait_until(lambda: sent() > before, timeout_s=60, what="the log to come to the new column")
        watched = cli("start", name, rf"{database}\.t", "--mode", "columns", "--column", "w", "--watch")
        assert watched.returncode == 0, watched.stdout + watched.stderr
        execute(source, "ALTER TABLE t ADD COLUMN x INT DEFAULT 3", "INSERT INTO t VALUES (-1, 0, 1, 2)", database=database)
        newest = {"id": -1, "v": 0, "w": 1, "x": 2}
        wait_until(lambda: newest in [record["after"] for record in decoded()], timeout_s=60, what="a row of the newest columns")
        assert sum(record["after"] == {"id": record["after"]["id"], "w": 7} for record in decoded() if record["op"] == "r") == ROWS
    finally:
        worker.stop()
        execute(source, f"DROP DATABASE {database}")


@pytest.mark.long
def test_a_dump_is_carried_on_by_the_other_worker_of_the_group_under_writes(kafka: Kafka, source: Database, own_folder: Path) -> None:
    database, name = filled(source, "handed", ROWS), f"handed_{source.flavor}"
    options = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "offset.flush.interval.ms": "200"}
    first, second = (Worker(kafka, own_folder / side, name=name, options=options) for side in "ab")
    connector = Connector(name=name, prefix=name, source=source, kafka=kafka, database=database)
    topic = f"{name}.{database}.t"

    def status(worker: Worker, identity: str) -> dict[str, Any]:
        try:
            answer = httpx.get(f"{worker.url}/connectors/{name}/dumps/{identity}", timeout=60, verify=NO_TLS)
        except httpx.ConnectError:  # it does not listen yet
            return {}
        found: dict[str, Any] = answer.json()["status"] if answer.is_success else {}
        return found

    first.start()
    try:
        first.rest.create(name, {**connector.config, "snapshot.mode": "no_data"})
        wait_until(lambda: first.rest.state(name) == "RUNNING", timeout_s=60, what="the task")
        second.ready = lambda: True  # type: ignore[method-assign]
        second.start()
        with writing(source, database, ROWS):
            asked = httpx.post(
                f"{first.url}/connectors/{name}/dumps",
                json={"tables": [rf"{database}\.t"], "chunk_rows": 100, "delay_ms": 500},
                timeout=60,
                verify=NO_TLS,
            )
            assert asked.status_code == 202, asked.text
            identity = asked.json()["id"]
            wait_until(lambda: status(first, identity).get("rows", 0) >= 200, timeout_s=60, what="the first chunks")
            first.kill()
            wait_until(lambda: status(second, identity).get("state") == "RUNNING", timeout_s=120, what="the other worker to go on")
            patched = httpx.patch(
                f"{second.url}/connectors/{name}/dumps/{identity}", json={"delay_ms": 0, "chunk_rows": 500}, timeout=60, verify=NO_TLS
            )
            assert patched.is_success, patched.text
            wait_until(lambda: status(second, identity).get("state") == "DONE", timeout_s=120, what="the end")

        assert status(second, identity)["rows"] >= ROWS
        expected = rows_of(source, database)

        def is_equal() -> bool:
            return {key[0]: row["v"] for key, row in fold(kafka.bootstrap, second.url, topic).rows.items()} == expected

        wait_until(is_equal, timeout_s=60, what="the folded topic to be the source", pause_s=0.5)
        assert fold(kafka.bootstrap, second.url, topic).violations == []
    finally:
        first.stop()
        second.stop()
        execute(source, f"DROP DATABASE {database}")
