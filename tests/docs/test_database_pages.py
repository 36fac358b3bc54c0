"""Who follows the page of a database on a server of their own has nothing left to do: each command runs there, and the doctor agrees."""

import json
from pathlib import Path
from typing import Any

import pytest
from dblog.cli import app
from dblog.dialects.guide import CLOUDS, PAGES, Hosting, Topic, section
from docs.database_pages import ERRORS, PASSWORD, SELF_HOSTED, DatabasePage, messages
from docs.pages import ROOT, anchors
from stack import MariaDb, MySql, Postgres
from stack.database import Database
from support import postgres as on_postgres
from support import servers as on_mysql
from support.servers import started
from typer.testing import CliRunner

CANARY = "canary-of-a-page"
UNPREPARED = {
    "mysql": {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "MINIMAL",
        "gtid_mode": "OFF",
        "enforce_gtid_consistency": "OFF",
        "binlog_expire_logs_seconds": "3600",
    },
    "mariadb": {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "NO_LOG",
        "gtid_strict_mode": "OFF",
        "expire_logs_days": "0.1",
    },
}
TLS_OF_MYSQL = {"database.ssl.mode": "verify_ca"}
OPTIONAL_OF_MARIADB = "SLAVE MONITOR"
"""A grant that the page has for connectors that read a replica; elsewhere the doctor finds it to be too much."""

each_page = pytest.mark.parametrize("flavor", sorted(PAGES))


def asked(tmp_path: Path, server: Database, page: DatabasePage, **changes: str) -> tuple[int, str]:
    """Run the doctor on the page's connector, whose server is this one. Return exit status and output."""
    connector: dict[str, Any] = json.loads(page.connector())
    address = {"database.hostname": server.host, "database.port": str(server.port), "database.password": CANARY}
    connector["config"] |= address | changes
    file = tmp_path / "connector.json"
    file.write_text(json.dumps(connector))
    found = CliRunner().invoke(app, ["doctor", str(file)])
    assert CANARY not in found.output
    return found.exit_code, found.output


@pytest.mark.parametrize("kind", [MySql, MariaDb])
def test_a_server_of_the_mysql_family_is_ready_when_all_commands_of_its_page_have_run(
    kind: type[Database], own_folder: Path, tmp_path: Path
):
    page = DatabasePage(PAGES[kind.flavor])
    with started(kind(own_folder, options=UNPREPARED[kind.flavor], durable=False)) as server:
        on_mysql.execute(server, "CREATE DATABASE shop", "CREATE TABLE shop.customers (id INT PRIMARY KEY, name VARCHAR(50))")
        administrator = {"database.user": server.user, "database.password": server.password}
        status, output = asked(tmp_path, server, page, **administrator)
        assert (status, f"{page.name}#server-settings" in output) == (1, True), output

        ran = [statement.replace(PASSWORD, f"'{CANARY}'") for step, _ in page.steps() for statement in page.statements(step)]
        with_tls = [statement for statement in ran if "REQUIRE SSL" in statement]
        on_mysql.execute(server, *(statement for statement in ran if kind is MySql or statement not in with_tls))
        tls = TLS_OF_MYSQL | {"database.ssl.truststore": str(server.data / "ca.pem")} if kind is MySql else {}
        status, output = asked(tmp_path, server, page, **tls)
        assert status == 0, output
        assert [
            line for line in output.splitlines() if "(more:" in line and "privileges that the connector does not need" not in line
        ] == [], output
        assert [line for line in output.splitlines() if line.startswith("REVOKE") and OPTIONAL_OF_MARIADB not in line] == [], output

        on_mysql.execute(server, *with_tls)  # MariaDB's account cannot log in without a certificate from now on
        server.options.clear()
        server.restart(options=page.options())
        rows = on_mysql.execute(server, "SHOW GLOBAL VARIABLES")
        variables = {str(name): str(value) for name, value in rows}
        wanted = {name: value for name, value in page.options().items() if name != "log_bin"}
        assert {name: variables[name].removesuffix(".000000") for name in wanted} == wanted


def test_a_postgresql_is_ready_when_all_commands_of_its_page_have_run(own_folder: Path, tmp_path: Path):
    page = DatabasePage(PAGES["postgres"])
    with started(Postgres(own_folder, options={"wal_level": "replica"}, durable=False)) as server:
        on_postgres.execute(server, "CREATE DATABASE shopdb")
        tables = [f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, name VARCHAR(50))" for name in ("customers", "orders")]
        on_postgres.execute(server, "CREATE SCHEMA shop", *tables, database="shopdb")
        status, output = asked(tmp_path, server, page, **{"database.user": server.user, "database.password": server.password})
        assert (status, f"{page.name}#server-settings" in output) == (1, True), output

        for step, _ in page.steps():
            statements = [statement.replace(PASSWORD, f"'{CANARY}'") for statement in page.statements(step)]
            on_postgres.execute(server, *statements, database="shopdb")
            if step == Topic.SETTINGS.value:
                server.restart()
        status, output = asked(tmp_path, server, page)

        assert (status, "(more:" in output) == (0, False), output


@each_page
def test_every_section_that_a_finding_names_is_on_its_page(flavor: str):
    page = DatabasePage(PAGES[flavor])
    topics = [topic for topic in Topic if topic is not Topic.PUBLICATION or flavor == "postgres"]

    named = {section(flavor, topic, hosting) for topic in topics for hosting in Hosting}

    assert {one for one in named if one.partition("#")[2] not in anchors(page.text)} == set()
    assert {one.partition("#")[0] for one in named} == {page.name}
    assert [heading for heading, _ in page.steps()] == [*(topic.value for topic in topics), "Check"]
    assert CLOUDS[flavor] == {hosting for hosting in Hosting if hosting.value in page.headings() and hosting.value != SELF_HOSTED}


@each_page
def test_the_section_of_a_service_has_its_retention_and_what_does_not_work_there(flavor: str):
    page = DatabasePage(PAGES[flavor])

    for hosting in CLOUDS[flavor]:
        text = page.section(hosting.value)
        like_rds = "As for RDS" in text
        assert "**Does not work there:**" in text, hosting
        assert like_rds or all(f"**{word}" in text for word in ("Log retention.", "Replicas.", "TLS.")), hosting
    assert page.headings()[-2:] == [ERRORS, "Sources"]


@pytest.fixture(scope="module")
def known() -> list[str]:
    return list(messages(ROOT / "connect-worker" / "src" / "dblog"))


@each_page
def test_the_texts_that_a_page_explains_are_those_of_the_program(flavor: str, known: list[str]):
    # A text with a value at its end, or in it, as `binlog_format=`, is the beginning of what is said.
    assert [text for text in DatabasePage(PAGES[flavor]).errors() if not any(text in message for message in known)] == []
