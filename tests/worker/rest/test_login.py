"""A worker that asks for a login, and its second listener that only reads."""

import asyncio
import base64
import json
import os
import re
import subprocess
import time

import httpx
import pytest
from dblog.config.login import BASIC_AUTH_EXTENSION, LOGIN_CONFIG, Logins
from dblog.config.properties import parse_properties
from dblog.config.worker import read_worker_config
from dblog.rest.identity import Identity
from dblog.rest.login import Login
from stack.process import free_port
from structlog.testing import capture_logs
from support.json_lines import json_lines
from support.worker import Worker, connector_config, running_worker

SETTINGS = read_worker_config(
    parse_properties(
        "bootstrap.servers=a:1\ngroup.id=g\nkey.converter=JsonConverter\nvalue.converter=JsonConverter\n"
        "config.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"
    )
).settings
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
WRITES = [
    ("POST", "/connectors"), ("PUT", "/connectors/a/config"), ("PATCH", "/connectors/a/config"), ("DELETE", "/connectors/a"), ("PUT", "/connectors/a/pause"),
    ("PUT", "/connectors/a/resume"), ("PUT", "/connectors/a/stop"), ("POST", "/connectors/a/restart"), ("POST", "/connectors/a/tasks/0/restart"),
    ("PATCH", "/connectors/a/offsets"), ("DELETE", "/connectors/a/offsets"), ("PUT", "/connectors/a/topics/reset"), ("POST", "/connectors/a/ddl/explain"),
    ("PUT", "/connector-plugins/MySql/config/validate"), ("PUT", "/admin/loggers/root"), ("POST", "/subjects/s/versions"), ("POST", "/subjects/s"),
    ("DELETE", "/subjects/s"), ("PUT", "/config"), ("PUT", "/mode"), ("POST", "/compatibility/subjects/s/versions"), ("POST", "/connectors/a/tasks"),
    ("PUT", "/connectors/a/fence"), ("POST", "/connectors/a/dumps"), ("PATCH", "/connectors/a/dumps/x"), ("POST", "/connectors/a/dumps/x/stop"),
    ("POST", "/connectors/a/dumps/x/tables/shop.orders/stop"), ("POST", "/schemas/together"),
]  # fmt: skip
SHOWING = [
    "/connectors/a",
    "/connectors/a/config",
    "/connectors/a/tasks",
    "/connectors?expand=info",
    "/connectors?expand=status&expand=info",
    "/connectors?expand=info&expand=status",
    "/admin/loggers",
]
READS = ["/", "/metrics", "/connectors", "/connectors?expand=status", "/connectors/a/status", "/connectors/a/tasks/0/status", "/connectors/a/topics",
         "/connectors/a/offsets", "/connectors/a/dumps", "/connector-plugins", "/connector-plugins/MySql/config", "/subjects", "/schemas/types", "/config"]  # fmt: skip


@pytest.fixture(scope="module")
def locked(kafka, servers_folder):
    """A worker with a lock, a connector `a`, and a second listener."""
    (servers_folder / "users.properties").write_text("ann=s3cret\n")
    (servers_folder / "jaas.conf").write_text(f'KafkaConnect {{ {MODULE} required file="{servers_folder}/users.properties"; }};')
    reading = f"http://127.0.0.1:{free_port()}"
    settings = {
        "rest.extension.classes": BASIC_AUTH_EXTENSION,
        LOGIN_CONFIG: str(servers_folder / "jaas.conf"),
        "dblog.rest.readonly.listener": reading,
        "dblog.rest.login.failures.per.minute": "0",  # test_identity.py has what happens to whoever guesses
        "dblog.rest.writes.per.minute": "0",
    }
    with running_worker(kafka, servers_folder, "locked", settings) as worker, httpx.Client(base_url=reading, timeout=30) as reader:
        worker.client.auth = ("ann", "s3cret")
        worker.create("a", dummy_echo=str(servers_folder / "locked-echo"))
        worker.wait_for("a", "RUNNING", "RUNNING")
        yield worker, reader


@pytest.mark.parametrize(("method", "path"), [*WRITES, *(("GET", path) for path in (*SHOWING, *READS)), ("GET", "/nothing")])
@pytest.mark.parametrize("auth", [None, ("ann", "wrong"), ("nobody", "s3cret")])
def test_nothing_is_done_or_shown_without_a_login(locked, method, path, auth):  # number 8 of the worker's safety
    worker, _ = locked

    answer = httpx.request(
        method, worker.url + path, content=b"" if method == "GET" else b"{}", headers={"content-type": "application/json"}, auth=auth
    )

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Basic realm="dblog"')
    assert "User cannot access the resource." in answer.text
    of_connect = path in ("/", "/metrics") or path.startswith(("/connector", "/admin"))
    assert answer.headers["content-type"].startswith("text/plain" if of_connect else "application/json")


def test_with_a_login_all_is_as_ever_and_health_asks_for_none(locked):
    worker, _ = locked

    assert worker.client.get("/connectors/a/config").json()["database.hostname"] == "db"
    assert worker.client.put("/connectors/a/pause").status_code == 202
    worker.wait_for("a", "PAUSED", "PAUSED")
    assert worker.client.put("/connectors/a/resume").status_code == 202
    worker.wait_for("a", "RUNNING", "RUNNING")
    assert httpx.get(worker.url + "/health").status_code == 200
    assert worker.client.post("/subjects/s/versions", json={"schema": '"int"'}).status_code == 200


def test_the_listener_of_admin_asks_for_the_login_too(kafka, servers_folder):
    (servers_folder / "admins").write_text("ann=s3cret\n")
    admin = f"http://127.0.0.1:{free_port()}"
    settings = {"dblog.rest.users.file": f"{servers_folder}/admins", "admin.listeners": admin}
    with running_worker(kafka, servers_folder, "admins", settings):
        answers = [httpx.put(f"{admin}/admin/loggers/root", json={"level": "INFO"}, auth=auth) for auth in (None, ("ann", "s3cret"))]

    assert [answer.status_code for answer in answers] == [401, 200]


def test_a_task_has_a_token_for_the_registry_and_for_nothing_else(locked, servers_folder):  # number 8
    worker, _ = locked
    token = json_lines(servers_folder / "locked-echo")[0]["worker"]["dblog.rest.own.token"]
    with httpx.Client(base_url=worker.url, headers={"authorization": f"Bearer {token}"}) as client:
        assert client.get("/subjects").status_code == 200
        assert client.post("/subjects/t/versions", json={"schema": '"long"'}).status_code == 200
        assert client.post("/subjects/t", json={"schema": '"long"'}).status_code == 200
        changes = [("DELETE", "/subjects/t"), ("DELETE", "/subjects/t/versions/1"), ("PUT", "/config"), ("PUT", "/mode")]
        assert [client.request(method, path, json={}).status_code for method, path in changes] == [403] * len(changes)
        assert [client.get(path).status_code for path in (*SHOWING, "/", "/metrics")] == [401] * (len(SHOWING) + 2)
        of_connect = [(method, path) for method, path in WRITES if path.startswith(("/connector", "/admin"))]
        assert [client.request(method, path, json={}).status_code for method, path in of_connect] == [401] * len(of_connect)
    assert httpx.get(worker.url + "/subjects", headers={"authorization": "Bearer x"}).status_code == 401
    assert token not in worker.log.read_text()


def test_the_second_listener_reads_without_a_login(locked):  # number 8
    _, reader = locked

    assert {path: reader.get(path).status_code for path in (*READS, "/health")} == dict.fromkeys((*READS, "/health"), 200)
    assert reader.head("/connectors").status_code == 200
    assert reader.get("/connectors/a/status").json()["connector"]["state"] == "RUNNING"
    assert reader.get("/nothing").status_code == 404
    assert reader.get("/connectors/none/status").status_code == 404


@pytest.mark.parametrize("auth", [None, ("ann", "s3cret")])
def test_the_second_listener_changes_nothing_and_shows_no_configuration_to_anybody(locked, auth):  # number 8
    worker, reader = locked

    asked = [(method, path, json.dumps(connector_config(name="b"))) for method, path in WRITES] + [("GET", path, "") for path in SHOWING]
    for method, path, body in asked:
        answer = reader.request(method, path, content=body, headers={"content-type": "application/json"}, auth=auth)
        assert (method, path, answer.status_code) == (method, path, 403)
        assert "only reads" in answer.json()["message"]
    assert reader.options("/connectors").status_code == 403
    assert worker.client.get("/connectors").json() == ["a"]
    assert worker.status("a")["connector"]["state"] == "RUNNING"
    assert not any("sesame-open" in reader.get(path).text for path in (*READS, *SHOWING))


def test_refused_logins_are_few_lines_of_the_log_that_state_why_and_no_name(monkeypatch):
    identity = Identity(SETTINGS, logins=Logins({"ann": "s3cret"}))
    app = Login(_nothing, identity=identity, own_token="")
    clock_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock_s[0])

    async def ask():
        for given in ["", *(header(name, "my-pass-word") for name in ("my-user\n", "ann", "ann", "nobody"))]:
            headers = [(b"authorization", given.encode())] if given else []
            scope = {"type": "http", "path": "/connectors", "method": "GET", "headers": headers, "client": ("10.0.0.7", 1)}
            await app(scope, _nothing, _nothing)

    with capture_logs() as lines:
        asyncio.run(ask())
        clock_s[0] += 11
        asyncio.run(ask())

    line = {"event": "logins refused", "log_level": "warning", "last_client": "10.0.0.7"}
    assert lines == [
        line | {"since_last_line": 1, "reasons": "no login: 1"},
        line | {"since_last_line": 5, "reasons": "no login: 1, no such user: 2, wrong password: 2"},
    ]


def test_a_worker_counts_refused_logins_and_shows_no_name(locked):
    worker, _ = locked
    for number in range(50):
        httpx.get(worker.url + "/connectors", auth=("my-pass-word", f"{number}"))

    log = worker.log.read_text()
    assert 1 <= log.count("logins refused") < 20
    assert "my-pass-word" not in log
    assert re.search(r"since_last_line=\d+ reasons=[a-z ]+: \d", log)


async def _nothing(*_):
    return None


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("host", "without", "warning"),
    [
        ("127.0.0.1", "read", ""),
        ("0.0.0.0", "read", "clients on other machines may only read"),  # noqa: S104  that is the point
        ("", "all", "anybody who reaches the rest interface may run connectors"),
    ],
)
def test_a_worker_that_is_open_beyond_its_machine_reports_it_once(kafka, own_folder, host, without, warning):  # number 8
    settings = {"rest.advertised.host.name": "127.0.0.1", "dblog.rest.without.login": without}
    worker = Worker(kafka, own_folder, own_folder.name, **settings)
    worker.properties["listeners"] = f"http://{host}:{worker.port}"
    worker.write_properties()
    with worker:
        log = worker.log.read_text()
        assert worker.client.post("/connectors", json={}).status_code == 400, "anybody who is on this machine may do everything"

    assert log.count("the rest interface") == bool(warning)
    assert warning in log
    assert ("BasicAuthSecurityRestExtension" in log) is bool(warning)


def test_a_worker_that_must_not_be_open_does_not_start_without_a_login(kafka, own_folder):
    worker = Worker(kafka, own_folder, own_folder.name, **{"dblog.rest.without.login": "refuse"})
    worker.properties["listeners"] = f"http://:{worker.port}"
    file = worker.write_properties()

    ended = subprocess.run(
        [*worker.process.argv], check=False, env={**os.environ, **worker.process.env}, capture_output=True, text=True, timeout=60
    )

    assert (ended.returncode, file.exists()) == (1, True)
    assert (
        f"anybody who reaches *:{worker.port} would not be asked for a login; configure one, or set dblog.rest.without.login"
        in ended.stderr
    )
