"""The page on a worker that runs, with dummy tasks: create, edit, pause, dump, delete, and the audit lines behind them."""

import json
import re

import httpx
import pytest
from support.json_lines import json_lines
from support.worker import Worker, connector_config, until

SCRIPT = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def worker(kafka, servers_folder):
    with Worker(kafka, servers_folder, "page", **{"dblog.log.format": "json"}) as started:
        yield started


def post(worker, path, **fields):
    return worker.client.post(f"/ui{path}", json=fields, headers=SCRIPT)


def texts(answer):
    return re.sub(r"<[^>]+>", " ", answer.text)


def test_a_connector_is_created_from_a_paste_steered_and_deleted(worker):
    config = connector_config(database_hostname="strict", topic_prefix="paste")
    text = json.dumps({"name": "paste", "config": config})
    refused = post(worker, "/new", text=text, step="create")
    assert refused.status_code == 200
    assert "database.user" in refused.text
    assert "run: GRANT REPLICATION SLAVE ON *.* TO u" in texts(refused)
    assert config["database.password"] not in refused.text
    assert worker.status("paste") is None

    good = json.dumps({"name": "paste", "config": {**config, "database.hostname": "db"}})
    assert "can be created" in texts(post(worker, "/new", text=good, step="check"))
    assert worker.status("paste") is None
    created = post(worker, "/new", text=good, step="create")
    assert created.headers["hx-redirect"] == "/ui/connectors/paste"
    worker.wait_for("paste", "RUNNING", "RUNNING")

    until(lambda: "RUNNING" in worker.client.get("/ui/connectors/paste").text)
    assert "Paused: paste." in post(worker, "/connectors/paste/do/pause").text
    worker.wait_for("paste", "PAUSED", "PAUSED")
    assert post(worker, "/connectors/paste/do/resume").status_code == 200
    worker.wait_for("paste", "RUNNING", "RUNNING")
    assert post(worker, "/connectors/paste/do/restart").status_code == 200
    assert post(worker, "/connectors/paste/tasks/0/restart").status_code == 200

    deleted = post(worker, "/connectors/paste/do/delete")
    assert deleted.headers["hx-redirect"] == "/ui"
    until(lambda: worker.status("paste") is None)
    audit = [line for line in json_lines(worker.log) if line["logger"] == "dblog.audit" and line.get("connector") == "paste"]
    assert {"PUT /connectors/paste/pause", "DELETE /connectors/paste"} <= {f"{line['method']} {line['path']}" for line in audit}
    assert not any(line["path"].startswith("/ui") for line in audit)


def test_a_configuration_is_edited_with_the_difference_and_the_answer_beside_each_field(worker):
    assert worker.create("edit", topic_prefix="edit").status_code == 201
    path = "/connectors/edit/config/edit"

    wrong = post(worker, path, step="check", **{"f.database.port": "many", "f.database.password": ""})
    assert 'aria-invalid="true"' in wrong.text
    assert 'value="many"' in wrong.text
    checked = post(worker, path, step="check", more="database.port=3307", **{"f.database.password": "another-secret"})
    assert "Apply 2 changes" in texts(checked)
    assert "another-secret" not in checked.text
    assert worker.client.get("/connectors/edit/config").json().get("database.port") is None

    applied = post(worker, path, step="apply", more="database.port=3307", **{"f.database.password": "another-secret"})
    assert applied.headers["hx-redirect"] == "/ui/connectors/edit/config"
    stored = worker.client.get("/connectors/edit/config").json()
    assert (stored["database.port"], stored["database.password"]) == ("3307", "another-secret")
    assert "another-secret" not in worker.client.get("/ui/connectors/edit/config").text
    worker.gone("edit")


def test_a_dump_is_started_slowed_paused_and_stopped(worker):
    assert worker.create("dumped", topic_prefix="dumped").status_code == 201
    worker.wait_for("dumped", "RUNNING", "RUNNING")
    refused = post(worker, "/connectors/dumped/dumps", tables="none")
    assert (refused.status_code, "no captured table matches" in refused.text) == (404, True)

    started = post(worker, "/connectors/dumped/dumps", tables="shop\\.orders\nshop\\.items", mode="rows")
    url = started.headers["hx-redirect"].removeprefix("/ui")
    assert post(worker, f"{url}/speed", chunk_rows="500").status_code == 200
    assert post(worker, f"{url}/tables/shop.items/pause").status_code == 200
    assert post(worker, f"{url}/pause").status_code == 200
    until(lambda: "PAUSED" in texts(worker.client.get(f"/ui{url}")))
    assert "rows have been sent and stay" in worker.client.get(f"/ui{url}/confirm/stop", headers=SCRIPT).text
    assert post(worker, f"{url}/stop").status_code == 200
    until(lambda: "STOPPED" in texts(worker.client.get(f"/ui{url}")))
    assert post(worker, f"{url}/resume").status_code == 409
    worker.gone("dumped")


def test_a_worker_without_the_page_has_no_such_address(kafka, own_folder):
    with Worker(kafka, own_folder, "pageless", **{"dblog.ui.enable": "false"}) as started:
        assert started.client.get("/ui").status_code == 404
        assert httpx.get(f"{started.url}/connectors").status_code == 200
