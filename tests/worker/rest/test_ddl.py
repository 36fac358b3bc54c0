"""POST /connectors/{c}/ddl/explain: what it refuses, and how."""

from __future__ import annotations

import pytest
from dblog.cli import app
from dblog.core.timeline import Database, Timeline
from dblog.readers.log.history import SchemaHistory
from dblog.readers.log.history_topic import KafkaHistoryLog
from dblog.rest.ddl import SEMICOLONS_MAX, STATEMENT_CHARACTERS_MAX
from stack.process import free_port
from support.false_server import FalseServer
from typer.testing import CliRunner


def explained(worker, name, statement):
    return worker.client.post(f"/connectors/{name}/ddl/explain", json={"statement": statement}, timeout=60)


def test_a_statement_that_is_too_long_is_refused_before_the_connector_is_looked_for(worker):
    text = "ALTER TABLE t ADD c INT, " * (STATEMENT_CHARACTERS_MAX // 25 + 1)

    answer = explained(worker, "nobody", text)

    assert answer.status_code == 400, answer.text
    assert f"at most {STATEMENT_CHARACTERS_MAX} are allowed" in answer.json()["message"]
    assert explained(worker, "nobody", text[:STATEMENT_CHARACTERS_MAX]).status_code == 404


def test_a_text_of_many_statements_is_refused_which_would_take_a_core_for_seconds(worker):
    statements = [f"ALTER TABLE t ADD c{number} INT;" for number in range(SEMICOLONS_MAX + 1)]

    answer = explained(worker, "nobody", "".join(statements))

    assert (answer.status_code, f"more than {SEMICOLONS_MAX} statements" in answer.json()["message"]) == (400, True)
    assert explained(worker, "nobody", "".join(statements[1:])).status_code == 404


@pytest.mark.parametrize("statement", [None, ["ALTER TABLE t ADD a INT"], "", "  "])
def test_no_statement_is_the_clients_fault(worker, statement):
    answer = explained(worker, "nobody", statement)

    assert answer.status_code == 400, answer.text
    assert '"statement"' in answer.json()["message"]


@pytest.mark.parametrize("login", ["canary-sings", ":canary-sings"])
def test_a_login_that_is_not_written_as_user_and_password_is_reported_before_anybody_is_asked(monkeypatch, login):
    monkeypatch.setenv("DBLOG_REST_LOGIN", login)

    ended = CliRunner().invoke(app, ["ddl", "explain", "--connector", "a", "--url", "http://127.0.0.1:9", "DROP TABLE t"])

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert (
        ended.stderr
        == "the environment variable DBLOG_REST_LOGIN has no user name and colon before the password; write it as user:password\n"
    )


def with_history(worker, kafka, name: str, port: int, *, known: bool = True) -> None:
    """A connector of a database at this port, whose history knows a database."""
    topic = f"history-of-{name}"
    if known:
        timeline = Timeline()
        timeline.databases["shop"] = Database("utf8mb4", None)
        log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, topic)
        log.ensure_topic()
        SchemaHistory(log, server="shop").save_all(timeline)
        log.close()
    worker.create(
        name,
        database_hostname="localhost",
        database_port=str(port),
        schema_history_internal_kafka_bootstrap_servers=kafka.bootstrap,
        schema_history_internal_kafka_topic=topic,
    ).raise_for_status()


def test_what_somebody_has_to_put_right_first_is_the_clients_fault_and_reported(worker, kafka, name):
    with_history(worker, kafka, name, 1, known=False)

    answer = explained(worker, name, "ALTER TABLE t ADD a INT")

    assert answer.status_code == 400, answer.text
    assert "the connector has no schema history yet, so nothing is known of its tables; let it run once" in answer.json()["message"]


def test_a_refused_login_is_the_clients_fault_and_reported_without_the_password(worker, kafka, name):
    with FalseServer(login=[b"\xff\x15\x04#28000Access denied with sesame-open"]) as server:
        with_history(worker, kafka, name, server.port)

        answer = explained(worker, name, "ALTER TABLE t ADD a INT")

    assert answer.status_code == 400, answer.text
    assert "correct database.user and database.password" in answer.json()["message"]
    assert "sesame" not in answer.text


def test_a_database_that_is_away_is_not_there_at_the_moment(worker, kafka, name):
    port = free_port()
    with_history(worker, kafka, name, port)

    answer = explained(worker, name, "ALTER TABLE t ADD a INT")

    assert answer.status_code == 503, answer.text
    assert f"nothing listens at localhost:{port}" in answer.json()["message"]
