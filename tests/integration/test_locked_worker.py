"""A worker that asks for a login, with a real task: its schemas go to the worker's own registry, and the command line explains a statement with a login."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
from dblog.config.login import BASIC_AUTH_EXTENSION, LOGIN_CONFIG
from demo.pipeline import CONNECTOR_PASSWORD, CONNECTOR_USER, Worker, create_connector_user
from docs.pages import ROOT
from stack.process import wait_until
from support.servers import execute
from support.topicfold import records

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def explained(url: str, login: str | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dblog", "ddl", "explain", "--connector", "locked", "--url", url, "ALTER TABLE locked.t ADD c INT"]
    environment = {name: text for name, text in os.environ.items() if name != "DBLOG_REST_LOGIN"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment | ({"DBLOG_REST_LOGIN": login} if login else {}), timeout=60, check=False
    )


def started(url: str, login: str) -> subprocess.CompletedProcess[str]:
    """A dump of the worker's table, by the command that the chart's README has for a pod."""
    (script,) = re.findall(r"sh -c \\\n +'(.*)'$", (ROOT / "helm/README.md").read_text(), re.MULTILINE)
    for written, meant in (("http://dblog-worker.dblog.svc:8083", url), ("shop", "locked"), ("inventory\\.orders", "locked\\.t")):
        assert written in script
        script = script.replace(written, meant)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(["sh", "-c", script], input=login, capture_output=True, text=True, env=environment, timeout=60, check=False)


def test_tasks_and_command_line_work_with_a_worker_that_asks_for_a_login(kafka, mariadb, own_folder):  # number 8 of the worker's safety
    create_connector_user(mariadb)
    execute(
        mariadb,
        "CREATE DATABASE locked",
        "CREATE TABLE locked.t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO locked.t VALUES (1, 'a')",
    )
    (own_folder / "users").write_text("ann=s3cret\n")
    (own_folder / "jaas").write_text(f'KafkaConnect {{ {MODULE} required file="{own_folder}/users"; }};')
    worker = Worker(
        kafka, own_folder, name="locked", options={"rest.extension.classes": BASIC_AUTH_EXTENSION, LOGIN_CONFIG: str(own_folder / "jaas")}
    )
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": mariadb.host,
        "database.port": str(mariadb.port),
        "database.user": CONNECTOR_USER,
        "database.password": CONNECTOR_PASSWORD,
        "database.server.id": "184055",
        "topic.prefix": "locked",
        "database.include.list": "locked",
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "schema.history.internal.kafka.topic": "schemahistory.locked",
    }
    with worker, httpx.Client(base_url=worker.url, auth=("ann", "s3cret"), timeout=60) as client:
        assert httpx.get(f"{worker.url}/connectors").status_code == 401
        assert client.post("/connectors", json={"name": "locked", "config": config}).status_code == 201
        wait_until(lambda: len(list(records(kafka.bootstrap, "locked.locked.t"))) >= 1, timeout_s=60, what="the dumped row")
        execute(mariadb, "UPDATE locked.t SET v='b'")
        wait_until(lambda: len(list(records(kafka.bootstrap, "locked.locked.t"))) >= 2, timeout_s=60, what="the update")

        assert "locked.locked.t-value" in client.get("/subjects").json()
        refused, wrong, right = (explained(worker.url, login) for login in (None, "ann:wrong", "ann:s3cret"))
        dumped = started(worker.url, "ann:s3cret")
    assert [(each.returncode, "DBLOG_REST_LOGIN" in each.stderr) for each in (refused, wrong)] == [(1, True)] * 2
    assert (right.returncode, "+ c: INT" in right.stdout.upper().replace("+ C", "+ c")) == (0, True), right.stdout + right.stderr
    assert (dumped.returncode, "DONE" in dumped.stdout) == (0, True), dumped.stdout + dumped.stderr
    assert "s3cret" not in worker.log.read_text()
