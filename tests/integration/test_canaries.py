"""A whole run with errors, all loggers open: no secret of a configuration and no value of a row comes into lines of the log, statuses or metrics.

Keys are values of rows, too. Where they belong (topics, and the offsets of a dump under way) is not looked at.
"""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from stack import Kafka, MariaDb
from support.servers import execute, new_database, started
from support.worker import Worker, until

ROW = "canary-row-sings"
KEY = "canary-key-sings"
SECRETS = ("canary-salt-sings", "canary-registry-sings", "canary-wrong-sings", "canary-own-sings")
ROWS = 400
LOGS = {"dblog.log.format": "json", "dblog.log.level": "TRACE"}


@pytest.fixture
def mariadb(own_folder: Path) -> Iterator[MariaDb]:
    """A server of its own: every log connection of it is killed."""
    with started(MariaDb(own_folder / "mariadb", durable=False)) as server:
        yield server


@pytest.fixture
def database(mariadb: MariaDb) -> str:
    name = new_database(mariadb, "canaries")
    execute(
        mariadb,
        f"CREATE TABLE t (id VARCHAR(40) PRIMARY KEY, name VARCHAR(60) DEFAULT '{ROW}', data LONGBLOB)",
        f"INSERT INTO t SELECT CONCAT('{KEY}-', seq), '{ROW}', NULL FROM seq_1_to_{ROWS}",
        f"CREATE TABLE keyless (name VARCHAR(60)) SELECT '{ROW}' AS name",
        database=name,
    )
    return name


def test_a_run_with_errors_shows_no_secret_and_no_row(kafka: Kafka, mariadb: MariaDb, database: str, tmp_path):
    group = f"canaries-{uuid.uuid4().hex[:8]}"
    config = {
        "connector_class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database_hostname": mariadb.host,
        "database_port": str(mariadb.port),
        "database_user": mariadb.user,
        "database_password": mariadb.password,
        "database_server_id": str(uuid.uuid4().int % 2_000_000_000 + 1000),
        "database_include_list": database,
        "topic_prefix": group,
        "schema_history_internal_kafka_bootstrap_servers": kafka.bootstrap,
        "schema_history_internal_kafka_topic": f"{group}-history",
        "dblog_chunk_rows": "100",
        "dblog_metrics_server_interval_ms": "100",
        f"column_mask_hash_SHA-256_with_salt_{SECRETS[0]}": f"{database}.t.never",
        "my_own_secret": SECRETS[3],
    }
    avro = {"value_converter": "io.confluent.connect.avro.AvroConverter"}
    away = {**avro, "value_converter_schema_registry_url": f"http://u:{SECRETS[1]}@127.0.0.1:9"}
    metrics = []
    with Worker(kafka, tmp_path, group, tasks="real", **LOGS) as worker:
        worker.create("shop", **config, producer_override_max_request_size="20000").raise_for_status()
        worker.wait_for("shop", "RUNNING", "RUNNING", limit_s=60)
        until(lambda: 'dump_running{connector="shop",task="0"} 0.0' in worker.client.get("/metrics").text, limit_s=60)
        reader = execute(mariadb, "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
        for (connection,) in reader:
            execute(mariadb, f"KILL {connection}")
        execute(
            mariadb,
            f"UPDATE t SET name = '{ROW} again' WHERE id = '{KEY}-7'",
            f"ALTER TABLE t ADD more VARCHAR(60) NOT NULL DEFAULT '{ROW} more'",
            f"UPDATE t SET id = '{KEY}-moved' WHERE id = '{KEY}-8'",
            database=database,
        )
        metrics.append(worker.client.get("/metrics").text)
        # Too large for the producer, then for good: the task fails.
        execute(mariadb, f"UPDATE t SET data = REPEAT('{ROW}', 20000) WHERE id = '{KEY}-9'", database=database)
        failed = worker.wait_for("shop", "RUNNING", "FAILED", limit_s=60)
        refused = worker.create("wrong", **{**config, "topic_prefix": "wrong", "database_password": SECRETS[2]})
        worker.create("away", **{**config, **away, "topic_prefix": "away", "database_server_id": "7331"}).raise_for_status()
        until(lambda: "schema registry not available" in worker.log.read_text(), limit_s=60)
        execute(mariadb, "SET SESSION binlog_format = STATEMENT", f"UPDATE keyless SET name = '{ROW} by statement'", database=database)
        metrics.append(worker.client.get("/metrics").text)
        statuses = [json.dumps(worker.status(name)) for name in ("shop", "wrong", "away")]
        statuses.append(refused.text)
        lines = worker.log.read_text().splitlines()

    assert "20000" in failed["tasks"][0]["trace"] or "larger" in failed["tasks"][0]["trace"]
    for words in ((ROW, KEY, *SECRETS, mariadb.password),):
        for shown in (*lines, *metrics, *statuses):
            assert not [word for word in words if word in shown], shown
    of_tasks = [line for line in map(json.loads, lines) if line["logger"].startswith(("dblog.readers", "dblog.runtime", "dblog.dialects"))]
    # A dump and its end, what an alteration brings, and each of the errors: each has said something.
    told = {"dump begins", "table dumped", "the table is dumped again", "task failed", "trying again"}
    assert {line["event"] for line in of_tasks} >= told
    assert [line for line in of_tasks if "connector" not in line or "task" not in line] == []
    of_log = [
        line
        for line in of_tasks
        if line["event"] in ("schema change in the log", "log connection lost, connecting again", "reading the log")
    ]
    assert {line["event"] for line in of_log} == {"schema change in the log", "log connection lost, connecting again", "reading the log"}
    assert [line for line in of_log if ":" not in line.get("position", "")] == []
