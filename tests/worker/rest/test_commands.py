"""The commands that steer connectors, against a worker that runs: what the page does, in the terminal."""

import json
import os
import stat

import pytest
from dblog.cli import app
from dblog.operate.output import yaml_of
from support.worker import Worker, connector_config, until
from typer.testing import CliRunner

OFFSET = {"file": "mysql-bin.000012", "pos": 4000, "ts_sec": 1}


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    file = tmp_path / "of" / "contexts.json"
    monkeypatch.setenv("DBLOG_CONTEXTS", str(file))
    return file


def command(*arguments, typed=""):
    return CliRunner().invoke(app, list(arguments), input=typed)


def done(*arguments, typed=""):
    ended = command(*arguments, typed=typed)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_connector_is_created_compared_changed_back_steered_and_deleted(worker: Worker, name: str, contexts, tmp_path, monkeypatch):
    done("context", "set", "here", "--url", worker.url)
    file = tmp_path / "one.json"
    config = {**connector_config(topic_prefix=name), "my.note": "first"}
    file.write_text(json.dumps({"name": name, "config": config}))

    assert "was created" in done("connectors", "create", str(file))
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert name in done("connectors", "list")
    assert json.loads(done("connectors", "get", name, "-o", "json"))["my.note"] == "first"
    assert "RUNNING" in done("connectors", "describe", name)
    assert "RUNNING" in done("tasks", "list", name)

    file.write_text(json.dumps({"name": name, "config": {**config, "my.note": "second", "database.password": "another-one"}}))
    compared = command("connectors", "diff", str(file))
    assert compared.exit_code == 1
    assert "first" in compared.stdout
    assert "another-one" not in compared.output, "a secret is not echoed"
    worker.client.patch(f"/connectors/{name}/config", json={"my.note": "second"}).raise_for_status()
    version = json.loads(done("connectors", "history", name, "-o", "json"))[-1]["version"]
    assert "my.note" in done("connectors", "history", name)
    done("connectors", "rollback", name, str(version), "--yes")
    assert worker.client.get(f"/connectors/{name}/config").json()["my.note"] == "first"

    monkeypatch.setenv("EDITOR", "sed -i s/first/third/")
    assert "was changed" in done("connectors", "edit", name, "--yes")
    assert worker.client.get(f"/connectors/{name}/config").json()["my.note"] == "third"
    assert "nothing was changed" in done("connectors", "edit", name, "--yes")

    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        done("connectors", verb, name)
        worker.wait_for(name, state, state)
    done("connectors", "restart", name)
    done("tasks", "restart", name, "0")
    until(lambda: f"PUT path=/connectors/{name}/pause" in done("log", name, "-n", "500"))
    assert "change" in done("events", name, "--kind", "change")
    assert command("events", name, "--kind", "nonsense").exit_code == 1

    refused = command("connectors", "delete", name)
    assert refused.exit_code == 2, "nobody can be asked"
    assert worker.status(name) is not None
    assert "topics with the records stay" in command("connectors", "delete", name, "--yes").output
    until(lambda: worker.status(name) is None)


def test_a_position_is_tried_dry_and_then_set(worker: Worker, name: str, contexts):
    done("context", "set", "here", "--url", worker.url)
    worker.create(name).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    done("connectors", "stop", name)
    until(lambda: worker.status(name)["tasks"] == [])
    prefix = worker.client.get(f"/connectors/{name}/config").json()["topic.prefix"]
    body = {"offsets": [{"partition": {"server": prefix}, "offset": OFFSET}]}
    worker.client.patch(f"/connectors/{name}/offsets", json=body).raise_for_status()
    wanted = ["--file", "mysql-bin.000012", "--pos", "1500"]

    tried = done("offsets", "set", name, *wanted, "--dry-run")
    assert "Read 2.4" in tried
    assert json.loads(done("offsets", "get", name, "-o", "json"))["offset"]["pos"] == 4000

    done("offsets", "set", name, *wanted, "--yes")
    assert "byte 1" in done("offsets", "get", name)
    assert json.loads(done("offsets", "get", name, "-o", "json"))["offset"]["pos"] == 1500
    assert command("offsets", "set", name, "--file", "x", "--pos", "y", "--yes").exit_code == 1
    assert "no stored position any more" in done("offsets", "reset", name, "--yes")


def test_contexts_are_for_their_owner_alone_and_their_password_is_never_shown(worker: Worker, contexts):
    done("context", "set", "prod", "--url", worker.url, "--user", "eve", typed="open-sesame\n")
    assert stat.S_IMODE(contexts.stat().st_mode) == 0o600
    assert "open-sesame" in contexts.read_text()
    for form in ("table", "json", "yaml"):
        assert "open-sesame" not in done("context", "list", "-o", form)

    contexts.chmod(0o644)
    refused = command("connectors", "list")
    assert refused.exit_code == 1
    assert "chmod 600" in refused.output
    contexts.chmod(0o600)
    assert command("connectors", "list", "--context", "none").exit_code == 1
    done("context", "set", "other", "--url", worker.url)
    done("context", "use", "prod")
    done("context", "delete", "prod")
    assert "open-sesame" not in contexts.read_text()
    assert os.listdir(contexts.parent) == ["contexts.json"]  # noqa: PTH208  no half-written file is left


def test_what_is_wrong_is_said_with_its_exit_status(worker: Worker, contexts):
    assert command("connectors", "describe", "none", "--url", worker.url).exit_code == 1
    assert command("connectors", "list", "--url", "http://127.0.0.1:1").exit_code == 1
    assert command("connectors", "list", "-o", "xml", "--url", worker.url).exit_code == 2
    assert command("sinks", "list", "--url", worker.url).exit_code == 0
    assert "root" in done("loggers", "list", "--url", worker.url)
    assert "dblog.page" in done("loggers", "set", "dblog.page", "DEBUG", "--url", worker.url)
    assert "Exit status 0" in done("connectors", "--help")


def test_yaml_is_read_back_as_what_it_was():
    import yaml

    value = {"a": [1, None, "x: y", {"b": "- c"}], "#": {}, "no": [], "t": True, "é": "\u202e\n"}

    assert yaml.safe_load(yaml_of(value)) == value
