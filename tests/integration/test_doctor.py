"""``dblog doctor`` on a real server: what is missing, what is too much, and that the statements it prints do what they say."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from dblog.cli import app
from dblog.doctor import read_connector
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database
from typer.testing import CliRunner


def new_account(source: Database, *privileges: str) -> tuple[str, dict[str, str]]:
    """An account with these, as SQL writes it, and a connector's options that log in with it."""
    name = f"u{uuid.uuid4().hex[:12]}"
    who = f"'{name}'@'{source.host}'"
    execute(source, f"CREATE USER {who} IDENTIFIED BY 'canary-secret'", *(f"GRANT {one} TO {who}" for one in privileges))
    return who, {"database.user": name, "database.password": "canary-secret"}


# number 34 of the worker's safety
def test_the_doctor_names_missing_and_superfluous_privileges_and_its_statements_mend_both(source: Database, tmp_path) -> None:
    database, marks = new_database(source, "doctor"), f"marks_{uuid.uuid4().hex[:8]}"
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    who, login = new_account(source, f"SELECT, DELETE ON `{database}`.*", "RELOAD ON *.*")
    file = tmp_path / "connector.json"
    config = Follower(source, database, **login, **{"dblog.watermark.table": f"{marks}.watermark"}).config
    file.write_text(json.dumps({"name": "shop", "config": config}))

    def asked():
        return CliRunner().invoke(app, ["doctor", str(file)])

    first = asked()
    grants, revokes = (re.findall(rf"{word} [^;]+(?=;)", first.output.split("\nThe last one lets ")[0]) for word in ("GRANT", "REVOKE"))
    revokes = revokes or re.findall(r"REVOKE [^;]+(?=;)", first.output)
    assert first.exit_code == 1, first.output
    assert [grant.partition(" ON ")[0] for grant in grants][1:] == ["GRANT REPLICATION SLAVE", "GRANT CREATE, SELECT, INSERT, UPDATE"]
    assert sorted(revoke.partition(" FROM ")[0] for revoke in revokes) == [f"REVOKE DELETE ON `{database}`.*", "REVOKE RELOAD ON *.*"]
    execute(source, *grants, *revokes)
    last = asked()
    assert (last.exit_code, "REVOKE" in last.output) == (0, False), last.output
    assert "the connector can run" in last.output
    assert "canary" not in first.output + last.output
    execute(source, f"DROP USER {who}")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.*", "ALL ON `{marks}`.*"], "database"),
        (["ALL ON *.*"], "table"),
        (["ALL ON *.*", "ALL ON `{marks}`.*", "ALL ON `{database}`.*"], "everything"),
    ],
    ids=["as Debezium asks for", "all", "all at each level"],
)
def test_a_connector_that_can_run_can_run_after_all_the_statements_of_the_doctor(
    source: Database, tmp_path, given: list[str], named: str
) -> None:
    database, marks = new_database(source, "doctor"), f"marks_{uuid.uuid4().hex[:8]}"
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    who, login = new_account(source, *(one.format(marks=marks, database=database) for one in given))
    account = {**login, "dblog.watermark.table": f"{marks}.watermark"}
    lists = {"database": {}, "table": {"table.include.list": rf"{database}\.t"}, "everything": {"database.include.list": ""}}[named]
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "shop", "config": Follower(source, database, **account, **lists).config}))

    def asked():
        return CliRunner().invoke(app, ["doctor", str(file)])

    first = asked()
    statements = re.findall(r"^(?:GRANT|REVOKE) [^;]+(?=;)", first.output, re.MULTILINE)
    assert first.exit_code == 0, first.output
    assert any(statement.startswith("REVOKE ") for statement in statements), first.output
    execute(source, *statements)
    last = asked()
    assert (last.exit_code, "REVOKE" in last.output) == (0, False), last.output
    assert "the connector can run" in last.output
    execute(source, f"DROP USER {who}")


def test_an_administrator_is_told_to_give_the_connector_an_account_of_its_own(source: Database, tmp_path) -> None:
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "shop", "config": Follower(source, new_database(source, "doctor")).config}))

    found = CliRunner().invoke(app, ["doctor", str(file)])

    assert (found.exit_code, "REVOKE" in found.output) == (0, False), found.output
    assert "make an account for the connector alone" in found.output


def test_a_file_that_is_no_configuration_and_a_connector_of_no_kind_are_told(tmp_path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{")
    broken = CliRunner().invoke(app, ["doctor", str(file)])
    file.write_text("{}")
    empty = CliRunner().invoke(app, ["doctor", str(file)])

    assert (broken.exit_code, empty.exit_code) == (2, 1)
    assert "cannot be read as a connector's configuration" in broken.output
    assert "Connector config contains no connector type" in empty.output


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shop.yaml", 'state: running\nconfig:\n  connector.class: "{kind}"\n  tasks.max: 1\n'),
        ("shop.yml", 'connector.class: "{kind}"\ntasks.max: 1\n'),
        ("shop.json", '{{"name": "shop", "state": "running", "config": {{"connector.class": "{kind}", "tasks.max": 1}}}}'),
        ("shop.properties", "connector.class={kind}\ntasks.max: 1\n"),
    ],
)
def test_a_file_is_read_in_each_form_that_a_connector_has(tmp_path, name, text) -> None:
    kind = "io.debezium.connector.mariadb.MariaDbConnector"
    file = tmp_path / name
    file.write_text(text.format(kind=kind))

    assert read_connector(file) == {"name": "shop", "connector.class": kind, "tasks.max": "1"}


def test_yaml_that_is_none_is_told_without_its_values(tmp_path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("config: {database.password: [canary-secret}\n")

    told = CliRunner().invoke(app, ["doctor", str(file)])

    assert (told.exit_code, "canary" in told.output) == (2, False)
    assert f"the file {file} is not YAML at line 1" in told.output
