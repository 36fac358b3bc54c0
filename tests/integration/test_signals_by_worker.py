"""A signal in the source's table, with a real worker over Kafka, under writes: its dump is listed, steered by REST, survives kills, and ends once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo.pipeline import Connector, Worker, task_pids
from demo.rest import NO_TLS
from stack import Kafka
from stack.database import Database
from stack.process import wait_until
from support.servers import connected, execute
from support.topicfold import fold, records
from support.written_table import filled, rows_of, writing

ROWS = 3_000


@pytest.mark.either_server
def test_a_dump_that_a_signal_asked_for_is_steered_like_any_other_and_ends_once(kafka: Kafka, source: Database, own_folder: Path) -> None:
    database, name = filled(source, "signalled", ROWS), f"signalled_{source.flavor}"
    execute(source, "CREATE TABLE debezium_signal (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))", database=database)
    worker = Worker(
        kafka, own_folder / "worker", name=name, options={"offset.flush.interval.ms": "200", "dblog.dumps.storage.replication.factor": "1"}
    )
    options = {
        "snapshot.mode": "no_data",
        "signal.data.collection": f"{database}.debezium_signal",
        "incremental.snapshot.chunk.size": "20",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{name}.told",
    }
    connector = Connector(name=name, prefix=name, source=source, kafka=kafka, database=database, options=options)
    url = f"/connectors/{name}/dumps"

    def rest(method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, f"{worker.url}{path}", json=body, timeout=60, verify=NO_TLS)

    def send(identity: str, kind: str, data: Any) -> None:
        text = json.dumps(data).replace("\\", "\\\\")
        execute(source, f"INSERT INTO debezium_signal VALUES ('{identity}', '{kind}', '{text}')", database=database)

    def listed() -> dict[str, Any]:
        """The one dump that a signal asked for, as REST shows it."""
        found = [each for each in rest("GET", url).json()["dumps"] if each["requested_by"] == "signal"]
        return found[0] if found else {}

    def becomes(state: str) -> None:
        wait_until(lambda: listed().get("status", {}).get("state") == state, timeout_s=90, what=f"the dump to be {state}")

    worker.start()
    try:
        worker.rest.create(name, connector.config)
        wait_until(lambda: worker.rest.state(name) == "RUNNING", timeout_s=60, what="the task")
        with writing(source, database, ROWS):
            with connected(source, database=database) as locking, locking.cursor() as cursor:
                cursor.execute("LOCK TABLES t WRITE")  # no row is read until the pause is asked for
                send("mine", "execute-snapshot", {"data-collections": [rf"{database}\.t"]})
                wait_until(lambda: "revision" in listed(), timeout_s=60, what="the signal's dump to be stored")
                assert rest("POST", f"{url}/{listed()['id']}/pause").status_code == 202
            becomes("PAUSED")
            for pid in task_pids(worker.pid):
                os.kill(pid, signal.SIGKILL)
            worker.kill()
            worker.start()
            becomes("PAUSED")
            assert rest("POST", f"/connectors/{name}/signals", {"type": "resume-snapshot"}).status_code == 202
            becomes("DONE")

        assert listed()["status"]["rows"] == ROWS
        told = list(records(kafka.bootstrap, f"{name}.told"))
        expected = rows_of(source, database)

        def is_equal() -> bool:
            folded = fold(kafka.bootstrap, worker.url, f"{name}.{database}.t")
            assert folded.violations == []
            return {key[0]: row["v"] for key, row in folded.rows.items()} == expected

        wait_until(is_equal, timeout_s=60, what="the folded topic to be the source", pause_s=0.5)
        assert len(told) > 4

        def forgotten() -> bool:
            offset = rest("GET", f"/connectors/{name}/offsets").json()["offsets"][0]["offset"]
            return "mine" not in str(offset.get("dblog_dumps"))

        wait_until(forgotten, timeout_s=60, what="the end to be noted, and to leave the offset")
        assert len([each for each in rest("GET", url).json()["dumps"] if each["requested_by"] == "signal"]) == 1
    finally:
        worker.stop()
        execute(source, f"DROP DATABASE {database}")
