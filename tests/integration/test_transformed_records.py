"""A real worker with transforms, over a real database under writes, with kills: the folded topic is the source, as without transforms."""

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
from stack import Kafka, MariaDb
from stack.process import wait_until
from support.servers import execute
from support.topicfold import Registry, records
from support.written_table import filled, rows_of, writing

ROWS = 1_000
JSON = "org.apache.kafka.connect.json.JsonConverter"
UNWRAP = {
    "transforms": "unwrap,route",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": "op,source.sequence",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": r".*\.(.*)\.t",
    "transforms.route.replacement": "lake.$1",
}
OUTBOX = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.expand.json.payload": "true",
    "transforms.outbox.table.fields.additional.placement": "type:header:eventType",
    "transforms.outbox.predicate": "events",
    "predicates": "events",
    "predicates.events.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.events.pattern": r".*\.outbox",
}


@pytest.mark.long
def test_unwrapped_rows_fold_to_the_source_whatever_is_killed(kafka: Kafka, mariadb: MariaDb, own_folder: Path) -> None:
    database, name = filled(mariadb, "transformed", ROWS), "transformed"
    worker = Worker(kafka, own_folder / "worker", name=name, options={"offset.flush.interval.ms": "200"})
    topic = f"lake.{database}"

    def folded() -> dict[Any, Any]:
        registry, rows = Registry(worker.url), {}
        for key, value, _ in records(kafka.bootstrap, topic):
            assert key is not None
            row = None if value is None else registry.decode(value)
            assert row is None or set(row) == {"id", "v", "__op", "__source_sequence"}
            if row is None:
                rows.pop(registry.decode(key)["id"], None)
            else:
                rows[row["id"]] = row["v"]
        return rows

    with worker:
        refused = worker.rest  # a wrong option is an answer of the worker, not a failed task
        config = Connector(name=name, prefix=name, source=mariadb, kafka=kafka, database=database, options=UNWRAP).config
        wrong = httpx.post(
            f"{worker.url}/connectors",
            json={"name": name, "config": {**config, "transforms.unwrap.delete.tombstone.handling.mode": "gone"}},
            timeout=60,
            verify=NO_TLS,
        )
        assert (wrong.status_code, "transforms.unwrap.delete.tombstone.handling.mode" in wrong.text) == (400, True)
        refused.create(name, config)
        with writing(mariadb, database, ROWS):
            for least in (ROWS // 2, ROWS + 50):
                wait_until(lambda least=least: sum(1 for _ in records(kafka.bootstrap, topic)) >= least, timeout_s=180, what="records")
                for pid in task_pids(worker.pid):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: worker.rest.dump(name).done, timeout_s=180, what="the dump")
        expected = rows_of(mariadb, database)

        wait_until(lambda: folded() == expected, timeout_s=120, what="the topic to be the table")

        assert next(iter(records(kafka.bootstrap, f"__dblog-chunks.{name}")), None) is None, "unwrapped rows have no markers"


@pytest.mark.long
def test_rows_of_an_outbox_become_events(kafka: Kafka, mariadb: MariaDb, own_folder: Path) -> None:
    database, name = filled(mariadb, "outboxed", 3), "outboxed"
    create = (
        "CREATE TABLE outbox (id CHAR(2) PRIMARY KEY, aggregatetype VARCHAR(20) NOT NULL, aggregateid VARCHAR(20) NOT NULL,"
        " type VARCHAR(20) NOT NULL, payload JSON)"
    )
    execute(mariadb, create, """INSERT INTO outbox VALUES ('e1', 'order', '7', 'made', '{"a": 1}')""", database=database)
    with Worker(kafka, own_folder / "worker", name=name) as worker:
        worker.rest.create(name, Connector(name=name, prefix=name, source=mariadb, kafka=kafka, database=database, options=OUTBOX).config)
        wait_until(lambda: worker.rest.dump(name).done, timeout_s=120, what="the dump")
        execute(
            mariadb,
            """INSERT INTO outbox VALUES ('e2', 'order', '7', 'sent', '{"a": 2, "b": ["x"]}')""",
            "DELETE FROM outbox",
            "INSERT INTO t VALUES (4, 4)",
            database=database,
        )

        wait_until(lambda: sum(1 for _ in records(kafka.bootstrap, f"{name}.{database}.t")) == 4, timeout_s=60, what="the other table")

        events = [(key, json.loads(value or b"null")) for key, value, _ in records(kafka.bootstrap, "outbox.event.order")]
        assert events == [(b"7", {"a": 1}), (b"7", {"a": 2, "b": ["x"]})]
