"""Roles on a worker that runs: who sees and does what, what secrets are shown, and what the audit has of it."""

import json
import re

import httpx
import pytest
from confluent_kafka import Producer
from dblog.config.passwords import hashed
from dblog.config.roles import Role
from dblog.rest import admin, connectors, ddl, dumps, offsets, plugins, signals, tasks, topics
from dblog.rest.access import Need, need
from stack.process import free_port
from support.json_lines import json_lines
from support.worker import Worker, connector_config, until

USERS = {"root": "admin", "ann": "viewer", "oli": r"operator a\d?, reader b", "eve": "admin b", "tom": "reader"}
SECRET = "sesame-open"
CONNECTOR = {"/connectors/{connector}", "/connectors/{connector}/config", "/connectors/{connector}/tasks"}


@pytest.fixture(scope="module")
def worker(kafka, servers_folder):
    """A worker whose users have hashed passwords and roles, with the connectors `a` and `b`."""
    (servers_folder / "users").write_text("".join(f"{user}={hashed(user)}\n" for user in USERS))
    (servers_folder / "roles").write_text("".join(f"{user}={roles}\n".replace("\\", "\\\\") for user, roles in USERS.items()))
    settings = {
        "dblog.rest.users.file": f"{servers_folder}/users",
        "dblog.rest.roles.file": f"{servers_folder}/roles",
        "dblog.log.format": "json",
        "dblog.rest.login.failures.per.minute": "0",
        "dblog.rest.readonly.listener": f"http://127.0.0.1:{free_port()}",
    }
    with Worker(kafka, servers_folder, "roles", **settings) as started:
        started.reading = settings["dblog.rest.readonly.listener"]
        started.client.auth = ("root", "root")
        for name, behaviour in (("a", "run"), ("b", "fail")):
            assert started.create(name, dummy_behaviour=behaviour, my_note="free text").status_code == 201
        started.wait_for("a", "RUNNING", "RUNNING")
        started.wait_for("b", "RUNNING", "FAILED")
        yield started


def ask(worker, user, method, path, body=None):
    return httpx.request(method, worker.url + path, json=body, auth=(user, user), timeout=30, verify=worker.tls)


ASKED = [
    # method, path, who may (by name)
    ("GET", "/", {"root", "ann", "oli", "eve", "tom"}),
    ("GET", "/metrics", {"root", "ann", "oli", "eve", "tom"}),
    ("GET", "/connectors/a/status", {"root", "ann", "oli", "tom"}),
    ("GET", "/connectors/a/offsets", {"root", "ann", "oli", "tom"}),
    ("GET", "/connectors/a", {"root", "ann", "oli"}),
    ("GET", "/connectors/a/config", {"root", "ann", "oli"}),
    ("GET", "/connectors/a/tasks", {"root", "ann", "oli"}),
    ("GET", "/connectors/b/config", {"root", "ann", "eve"}),
    ("GET", "/connectors/a/config/versions", {"root", "ann", "oli"}),
    ("POST", "/connectors/a/config/versions/x/restore", {"root"}),
    ("GET", "/connectors/a/log", {"root", "oli"}),
    ("GET", "/connectors/a/events", {"root", "oli"}),
    ("GET", "/connectors/a/lake", {"root", "ann", "oli", "tom"}),
    ("GET", "/sinks", {"root", "ann", "oli", "eve", "tom"}),
    ("DELETE", "/sinks/x", {"root"}),
    ("GET", "/sinks/x/tables", {"root", "ann", "oli", "eve", "tom"}),
    ("GET", "/connectors?expand=info", {"root", "ann", "oli", "eve"}),
    ("GET", "/connectors?expand=status&expand=info", {"root", "ann", "oli", "eve"}),
    ("GET", "/connectors?expand=info&expand=status", {"root", "ann", "oli", "eve"}),
    ("GET", "/admin/loggers", {"root", "ann"}),
    ("GET", "/subjects", {"root", "ann", "oli", "eve", "tom"}),
    ("PUT", "/connectors/a/pause", {"root", "oli"}),
    ("PUT", "/connectors/a/resume", {"root", "oli"}),
    ("POST", "/connectors/a/restart", {"root", "oli"}),
    ("POST", "/connectors/a/tasks/0/restart", {"root", "oli"}),
    ("PUT", "/connectors/b/resume", {"root", "eve"}),
    ("GET", "/connectors/a/dumps", {"root", "ann", "oli", "tom"}),
    ("GET", "/connectors/a/dumps/x", {"root", "ann", "oli", "tom"}),
    ("POST", "/connectors/a/dumps", {"root", "oli"}),
    ("POST", "/connectors/a/signals", {"root", "oli"}),
    ("PATCH", "/connectors/a/dumps/x", {"root", "oli"}),
    ("POST", "/connectors/a/dumps/x/pause", {"root", "oli"}),
    ("POST", "/connectors/a/dumps/x/tables/shop.orders/stop", {"root", "oli"}),
    ("POST", "/connectors/a/dumps/x/restart", {"root"}),
    ("PATCH", "/connectors/a/config", {"root"}),
    ("PATCH", "/connectors/a/offsets", {"root"}),
    ("DELETE", "/connectors/nothing", {"root"}),
    ("PUT", "/admin/loggers/root", {"root"}),
    ("POST", "/subjects/s/versions", {"root"}),
    ("POST", "/schemas/together", {"root"}),
    ("DELETE", "/subjects/s", {"root"}),
    ("PUT", "/config", {"root"}),
    ("PUT", "/connector-plugins/MySql/config/validate", {"root", "eve"}),
    ("GET", "/nothing", {"root", "ann", "oli", "eve", "tom"}),
    ("PUT", "/nothing", {"root"}),
]


@pytest.mark.parametrize(("method", "path", "allowed"), ASKED)
def test_each_role_does_what_it_may_and_nothing_else(worker, method, path, allowed):
    answers = {user: ask(worker, user, method, path, {} if method != "GET" else None) for user in USERS}

    assert {user for user, answer in answers.items() if answer.status_code != 403} == allowed
    for user, answer in answers.items():
        assert answer.status_code != 401
        if user not in allowed:
            assert re.search(rf"takes the role \w+.*, which {user} does not have", answer.json()["message"])


def test_every_route_has_a_role_and_what_nobody_has_thought_of_is_the_administrators():  # number 18 of the worker's safety
    routes = [
        *admin.ROUTES,
        *admin.LOGGER_ROUTES,
        *connectors.ROUTES,
        *tasks.ROUTES,
        *offsets.ROUTES,
        *topics.ROUTES,
        *ddl.ROUTES,
        *dumps.ROUTES,
        *signals.ROUTES,
        *plugins.ROUTES,
    ]
    needs = {(method, route.path): need(method, route.path.replace("{connector}", "a%2Fb")) for route in routes for method in route.methods}

    assert {wanted.connector for (_, path), wanted in needs.items() if path.startswith("/connectors/")} == {"a/b"}
    shows = {path for (method, path), wanted in needs.items() if method == "GET" and wanted.role > Role.READER}
    assert shows == CONNECTOR | {"/admin/loggers", "/admin/loggers/{logger}"}
    assert all(wanted.role >= Role.OPERATOR for (method, _), wanted in needs.items() if method not in ("GET", "HEAD"))
    assert need("BREW", "/connectors/a") == Need(Role.ADMIN, "a")
    assert need("POST", "/dumps") == Need(Role.ADMIN)


# number 24 of the worker's safety
def test_a_dump_with_sql_of_its_own_takes_an_administrator_and_its_sql_and_keys_are_shown_to_operators(worker):
    sql = {"tables": ["shop.orders"], "predicate": {"shop.orders": "a = 1"}}
    answers = {user: ask(worker, user, "POST", "/connectors/a/dumps", sql) for user in ("oli", "root")}
    keys = ask(worker, "oli", "POST", "/connectors/a/dumps", {"tables": ["shop.orders"], "keys": [[471147114711]]})

    assert {user: answer.status_code for user, answer in answers.items()} == {"oli": 403, "root": 202}
    assert "takes the role admin of the connector a, which oli does not have" in answers["oli"].json()["message"]
    assert keys.status_code == 202
    shown = {
        user: [ask(worker, user, "GET", f"/connectors/a/dumps/{answer.json()['id']}").json() for answer in (answers["root"], keys)]
        for user in ("oli", "ann", "tom")
    }
    assert [shown["oli"][0]["predicate"], shown["oli"][1]["keys"]] == [{"shop.orders": "a = 1"}, [[471147114711]]]
    for user in ("ann", "tom"):
        assert [{"predicate", "keys"} & dump.keys() for dump in shown[user]] == [set(), set()]
        assert shown[user][1]["status"]["state"] in ("WAITING", "RUNNING")
    audit = [line for line in json_lines(worker.log) if line["logger"] == "dblog.audit"]
    noted = next(line for line in audit if line.get("dump") == keys.json()["id"])
    assert (noted["user"], noted["mode"], noted["tables"]) == ("oli", "rows", ["shop.orders"])
    assert "471147114711" not in worker.log.read_text()


# number 24
def test_keys_of_rows_and_sql_in_offsets_are_shown_to_operators_alone(worker, kafka):
    states = {
        "dblog_dump": '{"tables":[{"after":[471147114711]}]}',
        "dblog_dumps": '{"filter":"salary > 471147114711"}',
        "incremental_snapshot_primary_key": "471147114711",
        "incremental_snapshot_collections": '[{"incremental_snapshot_collections_additional_condition":"salary > 471147114711"}]',
        "a field of later": 471147114711,
    }
    position = {"file": "bin.000003", "pos": 4, "snapshot": "INITIAL", "transaction_data_collection_order_shop.a": 2, "row": None}
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    key = json.dumps(["a", {"server": "elsewhere"}], separators=(",", ":"))
    producer.produce(f"{worker.group}-offset", key=key, value=json.dumps({**position, **states}))
    producer.flush(30)

    def offset(user):
        entries = ask(worker, user, "GET", "/connectors/a/offsets").json()["offsets"]
        return next((entry["offset"] for entry in entries if entry["partition"] == {"server": "elsewhere"}), None)

    whole = until(lambda: offset("root"), what=lambda: "the offset that was written")
    read_only = httpx.get(f"{worker.reading}/connectors/a/offsets", timeout=30)

    assert whole == offset("oli") == {**position, **states}
    assert offset("ann") == offset("tom") == {**position, **dict.fromkeys(states, "[hidden]")}
    assert (read_only.status_code, "471147114711" in read_only.text, "bin.000003" in read_only.text) == (200, False, True)
    hidden = {"offsets": [{"partition": {"server": "shop"}, "offset": offset("tom")}]}
    answer = ask(worker, "root", "PATCH", "/connectors/a/offsets", hidden)
    assert (answer.status_code, "dblog_dump stands for one that is not shown" in answer.json()["message"]) == (400, True)


def test_lists_leave_out_what_is_not_for_who_asks(worker):
    assert {user: ask(worker, user, "GET", "/connectors").json() for user in USERS} == {
        "root": ["a", "b"], "ann": ["a", "b"], "oli": ["a", "b"], "eve": ["b"], "tom": ["a", "b"],
    }  # fmt: skip
    for both in ("expand=info&expand=status", "expand=status&expand=info"):
        assert list(ask(worker, "oli", "GET", f"/connectors?{both}").json()) == ["a"]


def test_a_connector_is_made_by_an_administrator_of_its_name_alone(worker):
    answers = {name: ask(worker, "eve", "POST", "/connectors", {"name": name, "config": connector_config()}) for name in ("b", "c")}

    assert {name: answer.status_code for name, answer in answers.items()} == {"b": 409, "c": 403}
    assert "the role admin of the connector c" in answers["c"].json()["message"]


@pytest.mark.parametrize("path", ["/connectors/b", "/connectors/b/config", "/connectors/b/tasks", "/connectors?expand=info"])
def test_passwords_of_a_configuration_are_shown_to_its_administrator_alone(worker, path):  # number 28 of the worker's safety
    shown = {user: ask(worker, user, "GET", path).text for user in ("root", "eve", "ann")}

    assert SECRET in shown["root"]
    assert SECRET in shown["eve"]
    assert SECRET not in shown["ann"]
    assert '"database.password":"[hidden]"' in shown["ann"]
    assert '"my.note":"free text"' in shown["ann"]


def test_what_an_operator_is_answered_has_no_password_either(worker):
    answer = ask(worker, "oli", "POST", "/connectors/a/restart?includeTasks=true")

    assert answer.status_code == 202
    assert SECRET not in answer.text


def test_the_places_in_the_code_where_a_task_failed_are_for_operators(worker):
    assert worker.create("a9", dummy_behaviour="fault").status_code == 201
    whole = worker.wait_for("a9", "RUNNING", "FAILED")["tasks"][0]["trace"]
    paths = {
        "/connectors/a9/status": lambda answer: answer["tasks"][0]["trace"],
        "/connectors/a9/tasks/0/status": lambda answer: answer["trace"],
        "/connectors?expand=status": lambda answer: answer["a9"]["status"]["tasks"][0]["trace"],
    }
    shown = {
        user: {path: trace(ask(worker, user, "GET", path).json()) for path, trace in paths.items()}
        for user in ("root", "oli", "ann", "tom")
    }
    worker.gone("a9")

    assert 'dummy_task.py", line' in whole
    assert "ValueError: invalid literal" in whole
    for user in ("root", "oli"):
        assert set(shown[user].values()) == {whole}
    for user in ("ann", "tom"):
        (trace,) = set(shown[user].values())
        assert [line.partition(":")[0] for line in trace.splitlines()] == [
            "Unexpected ValueError", "Once the cause is gone",
        ]  # fmt: skip


def test_a_hidden_value_cannot_become_a_password(worker):
    shown = ask(worker, "ann", "GET", "/connectors/a/config").json()
    answer = ask(worker, "root", "PUT", "/connectors/a/config", shown)

    assert answer.status_code == 400
    assert "[hidden] in database.password stands for what is not shown" in answer.json()["message"]
    assert ask(worker, "root", "GET", "/connectors/a/config").json()["database.password"] == SECRET


def test_a_login_in_an_address_and_a_salt_in_a_key_are_not_replaced_by_what_is_shown(worker):
    key = "column.mask.hash.SHA-256.with.salt."
    config = connector_config(database_password=SECRET, topic_prefix="salted") | {"my.url": "http://u:pw@registry", f"{key}Alpine": "d.t.c"}
    assert ask(worker, "root", "PUT", "/connectors/salted/config", config).status_code == 201

    shown = ask(worker, "ann", "GET", "/connectors/salted/config").json()
    address, salt = ({name: text} for name, text in shown.items() if name in ("my.url", f"{key}[hidden]"))
    answers = [ask(worker, "root", "PATCH", "/connectors/salted/config", body) for body in (address, salt)]

    assert (address, salt) == ({"my.url": "http://[hidden]@registry"}, {f"{key}[hidden]": "d.t.c"})
    assert [(one.status_code, "stands for what is not shown" in one.json()["message"]) for one in answers] == [(400, True)] * 2
    assert ask(worker, "root", "PATCH", "/connectors/salted/config", {"my.note": "a [hidden] thing"}).status_code == 200
    worker.gone("salted")


def test_the_audit_has_who_did_what_with_the_keys_and_no_secret(worker):  # number 27 of the worker's safety
    def lines():
        return [line for line in json_lines(worker.log) if line["logger"] == "dblog.audit"]

    before = len(lines())
    ask(worker, "root", "PATCH", "/connectors/a/config", {"my.note": "other", "database.password": "new-canary", "my.secret": "canary"})
    ask(worker, "root", "PATCH", "/connectors/a/config", {"my.note": None, "my.secret": None, "database.password": SECRET})
    ask(worker, "tom", "DELETE", "/connectors/a")
    ask(worker, "root", "GET", "/connectors/a")
    ask(worker, "root", "PUT", "/connector-plugins/MySql/config/validate", {"name": "b", "database.hostname": "db.example"})
    ask(worker, "oli", "PUT", "/connectors/a/pause")
    ask(worker, "oli", "PUT", "/connectors/a/resume")
    httpx.put(f"{worker.url}/connectors/a/pause", auth=("root", "guess"), verify=worker.tls)
    found = lines()[before:]

    assert [(line["event"], line["user"], line["method"], line["connector"], line["status"]) for line in found] == [
        ("change", "root", "PATCH", "a", 200),
        ("change", "root", "PATCH", "a", 200),
        ("change refused", "tom", "DELETE", "a", 403),
        ("check refused", "root", "PUT", "b", 400),
        ("change", "oli", "PUT", "a", 202),
        ("change", "oli", "PUT", "a", 202),
    ]
    assert found[0]["set"] == {"my.note": "other", "database.password": "[hidden]", "my.secret": "[hidden]"}
    assert (found[1]["set"], found[1]["removed"]) == ({"database.password": "[hidden]"}, ["my.note", "my.secret"])
    assert found[3]["host"] == "db.example"
    assert {line["client"] for line in found} == {"127.0.0.1"}
    assert {line["way"] for line in found} == {"password"}
    assert "canary" not in worker.log.read_text()
