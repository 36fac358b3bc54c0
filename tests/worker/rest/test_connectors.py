"""`/connectors` as Kafka Connect's clients know it (Kafka's documentation, Kafka Connect, REST API)."""

import json
import time
from email.utils import parsedate_to_datetime

import httpx
import pytest
from support.json_lines import json_lines
from support.worker import connector_config, until

CONFIG = connector_config()
DEFAULT_ERROR_KEYS = {"error_code", "message"}


def assert_error(answer: httpx.Response, code: int, message: str) -> None:
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error_code": code, "message": message}


# Create.


def test_create_answers_201_with_info_and_an_absolute_location(worker, name):
    answer = worker.client.post("/connectors", json={"name": name, "config": CONFIG})

    assert answer.status_code == 201
    assert answer.headers["location"] == f"{worker.url}/connectors/{name}"
    assert answer.json() == {"name": name, "config": {**CONFIG, "name": name}, "tasks": [], "type": "source"}


def test_status_is_there_at_once_and_becomes_running_with_one_task(worker, name):
    worker.create(name)
    assert worker.status(name) is not None

    status = worker.wait_for(name, "RUNNING", "RUNNING")

    part = {"state": "RUNNING", "worker_id": worker.id, "version": "3.6.3.Final"}
    warnings = status.pop("warnings")
    assert status == {"name": name, "connector": part, "tasks": [{"id": 0, **part}], "type": "source"}
    assert isinstance(warnings, list)


def warnings_of(worker, name):
    return worker.status(name)["warnings"]


def test_the_status_has_the_warnings_that_the_answer_of_the_request_has_in_its_header(worker, name):
    answer = worker.create(name, **{"table.inclde.list": "a.b", "database.hostname": "doubtful", "dummy.behaviour": "silent"})

    texts = warnings_of(worker, name)
    assert "table.inclde.list: no such key; it is ignored. Is table.include.list meant?" in texts
    assert "no table matches" in texts
    assert all(f'99 dblog "{text[:100]}' in answer.headers["warning"].replace('\\"', '"') for text in texts)
    assert '199 dblog "database.password' in answer.headers["warning"], "an ordinary remark has a code of its own"


def test_warnings_stand_while_the_connector_is_stopped_and_go_with_the_key(worker, name):
    worker.create(name, **{"table.inclde.list": "a.b"})
    worker.wait_for(name, "RUNNING", "RUNNING")
    worker.client.put(f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    assert any(text.startswith("table.inclde.list: ") for text in warnings_of(worker, name))

    worker.client.patch(f"/connectors/{name}/config", json={"table.inclde.list": None})

    assert not any(text.startswith("table.inclde.list: ") for text in warnings_of(worker, name))


def test_warnings_of_the_task_stand_in_the_status_without_its_secrets_and_are_counted(worker, name):
    message = {"type": "warnings", "warnings": ["the publication lacks b.c for swordfish", "second"]}
    worker.create(name, **{"dummy.behaviour": "lines", "dummy.lines": json.dumps(message), "database.password": "swordfish"})

    until(lambda: "second" in warnings_of(worker, name))

    texts = warnings_of(worker, name)
    assert [text for text in texts if text.startswith("the publication lacks b.c for ") and "swordfish" not in text]
    listed = worker.client.get("/connectors", params={"expand": "status"}).json()[name]["status"]
    assert listed["warnings"] == texts
    counted = [
        text for text in texts if "written out" not in text and "Debezium" not in text and not text.startswith("database.ssl.mode: ")
    ]
    assert len(counted) < len(texts)
    assert f'dblog_connector_warnings{{connector="{name}"}} {float(len(counted))}' in worker.client.get("/metrics").text


def test_scalars_become_strings_and_the_name_is_trimmed(worker, name):
    body = json.dumps({"name": f"  {name} ", "config": {**CONFIG, "tasks.max": 1, "tombstones.on.delete": True, "x": 1.10}})

    answer = worker.client.post("/connectors", content=body.replace("1.1}", "1.10}"), headers={"content-type": "application/json"})

    config = answer.json()["config"]
    assert answer.json()["name"] == name
    assert (config["tasks.max"], config["tombstones.on.delete"], config["x"]) == ("1", "true", "1.10")


def test_a_second_connector_of_that_name_is_a_conflict(worker, name):
    worker.create(name)

    assert_error(worker.create(name), 409, f"Connector {name} already exists")


@pytest.mark.parametrize(("given", "states"), [("stopped", ("STOPPED",)), ("PAUSED", ("PAUSED",)), ("Running", ("RUNNING", "RUNNING"))])
def test_initial_state_in_any_case(worker, name, given, states):
    answer = worker.client.post("/connectors", json={"name": name, "config": CONFIG, "initial_state": given})

    assert answer.status_code == 201
    worker.wait_for(name, *states)


def test_the_simple_class_name_without_its_suffix_is_enough(worker, name):
    assert worker.create(name, connector_class="MariaDb").status_code == 201

    assert worker.client.get(f"/connectors/{name}").json()["type"] == "source"


def test_the_debezium_tutorials_connector_is_accepted(worker, name):
    # The configuration of Debezium's MySQL tutorial page, as it stands there.
    config = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": "mysql",
        "database.port": "3306",
        "database.user": "debezium",
        "database.password": "dbz",
        "database.server.id": "184054",
        "topic.prefix": "dbserver1",
        "database.include.list": "inventory",
        "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
        "schema.history.internal.kafka.topic": "schema-changes.inventory",
    }

    assert worker.client.post("/connectors", json={"name": name, "config": config}).status_code == 201


def test_the_example_of_debeziums_postgresql_manual_is_accepted_with_what_is_worth_attention(worker, name):
    # As it stands in Debezium's manual, PostgreSQL connector configuration example: without plugin.name.
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "192.168.99.100",
        "database.port": "5432",
        "database.user": "postgres",
        "database.password": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": "fulfillment",
        "table.include.list": "public.inventory",
    }

    answer = worker.client.post("/connectors", json={"name": name, "config": config})

    assert answer.status_code == 201
    assert "plugin.name: not set: dblog reads pgoutput" in answer.headers["Warning"]
    assert (
        "plugin.name" not in worker.client.put(f"/connectors/{name}/config", json=config | {"plugin.name": "pgoutput"}).headers["Warning"]
    )


def test_a_deleted_connector_of_postgresql_names_the_slot_that_stays(worker, name):
    config = {
        "connector.class": "PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "192.168.99.100",
        "database.user": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": "fulfillment",
    }
    worker.client.put(f"/connectors/{name}/config", json=config).raise_for_status()

    answer = worker.client.delete(f"/connectors/{name}")

    assert answer.status_code == 204
    assert "the replication slot debezium stays at 192.168.99.100:5432" in answer.headers["Warning"]
    assert "SELECT pg_drop_replication_slot('debezium');" in answer.headers["Warning"]
    worker.create(name).raise_for_status()
    assert "Warning" not in worker.client.delete(f"/connectors/{name}").headers


def test_names_with_odd_characters_can_be_made_read_and_removed(worker):
    for odd in ("my connector", "a->b", "größe", "a/b", "50%"):
        quoted = httpx.URL(worker.url).copy_with(path="/").join("connectors/").__str__() + _quoted(odd)
        created = worker.client.post("/connectors", json={"name": odd, "config": CONFIG})
        assert created.status_code == 201
        assert created.headers["location"] == quoted
        assert worker.client.get(quoted).json()["name"] == odd
        assert worker.client.get(quoted + "/config").json()["name"] == odd
        assert worker.client.delete(quoted).status_code == 204
        until(lambda url=quoted: worker.client.get(url + "/status").status_code == 404)


def _quoted(text: str) -> str:
    return "".join(chr(byte) if (chr(byte).isalnum() and byte < 128) or chr(byte) in "-._~" else f"%{byte:02X}" for byte in text.encode())


ROUTES = (
    ("GET", "", 200),
    ("GET", "/config", 200),
    ("PUT", "/config", 200),
    ("PATCH", "/config", 200),
    ("GET", "/status", 200),
    ("GET", "/tasks", 200),
    ("GET", "/offsets", 200),
    ("GET", "/topics", 200),
    ("PUT", "/topics/reset", 202),
    ("POST", "/restart", 204),
    ("PUT", "/pause", 202),
    ("PUT", "/resume", 202),
    ("PUT", "/stop", 204),
    ("DELETE", "", 204),
)


@pytest.mark.parametrize(
    "odd",
    [
        "x" * 2000,
        "\U0001f600" * 500,
        "...",
        "a/../b",
        "%2e%2e",
        "a?b#c",
        "a\\b",
        "caf\u00e9",
        "cafe\u0301",
        "a\u2028b",
        "\u202eb",
        "\u200b",
        "{}",
        "-",
    ],
)
def test_a_name_that_is_taken_works_through_every_route(worker, odd):  # number 17 of the worker's safety
    created = worker.client.post("/connectors", json={"name": odd, "config": CONFIG, "initial_state": "STOPPED"})

    assert created.status_code == 201
    assert created.headers["location"] == f"{worker.url}/connectors/{_quoted(odd)}"
    for method, path, status in ROUTES:
        body = {"json": CONFIG} if path == "/config" and method != "GET" else {}
        assert worker.client.request(method, created.headers["location"] + path, **body).status_code == status, (method, path)
    until(lambda: worker.client.get(created.headers["location"] + "/status").status_code == 404)


def test_names_in_two_normal_forms_are_two_connectors(worker):  # number 17
    one, other = "caf\u00e9-2", "cafe\u0301-2"
    for name in (one, other):
        assert worker.client.post("/connectors", json={"name": name, "config": CONFIG, "initial_state": "STOPPED"}).status_code == 201
    assert {one, other} <= set(worker.client.get("/connectors").json())

    worker.gone(one)

    assert worker.client.get(f"/connectors/{other}").json()["name"] == other
    worker.gone(other)


# Refusals.


def test_a_name_is_required(worker):
    answer = worker.client.post("/connectors", json={"config": CONFIG})

    assert answer.status_code == 400
    assert "String may not be empty" in answer.json()["message"]


def test_a_name_with_control_characters_is_refused(worker):
    answer = worker.client.post("/connectors", json={"name": "a\x01b", "config": CONFIG})

    assert answer.status_code == 400
    assert "control sequences" in answer.json()["message"]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (".", "a dot or two"),
        (" .. ", "a dot or two"),
        ("x" * 2001, "more than 2000 bytes"),
        ("x" * 10_000, "more than 2000 bytes"),
        ("\U0001f600" * 501, "more than 2000 bytes"),
        ("", "may not be empty"),
        (" \t ", "may not be empty"),
        ("\u2003", "may not be empty"),
        ("a\x00b", "control sequences"),
        ("a\nb", "control sequences"),
        ("a\x85b", "control sequences"),
    ],
)
def test_a_name_that_no_route_could_carry_is_refused(worker, odd, reason):  # number 17 of the worker's safety
    answers = [worker.client.post("/connectors", json={"name": odd, "config": CONFIG})]
    if odd.strip():
        path = "".join(f"%{byte:02X}" for byte in odd.strip().encode())
        answers.append(worker.client.put(f"/connectors/{path}/config", json=CONFIG))

    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert reason in answer.json()["message"]
    assert not {odd, odd.strip()} & set(worker.client.get("/connectors").json())


@pytest.mark.parametrize("name", [rb"\ud800", rb"a\udfffb", b"a\xed\xa0\x80"])
def test_a_name_that_is_no_unicode_is_refused(worker, name):  # number 17
    answer = worker.client.post(
        "/connectors", content=b'{"name": "' + name + b'", "config": {}}', headers={"content-type": "application/json"}
    )

    assert answer.status_code == 400
    assert "not Unicode" in answer.json()["message"]


def test_another_name_in_the_configuration_is_refused(worker):
    answer = worker.client.post("/connectors", json={"name": "a", "config": {**CONFIG, "name": "b"}})

    assert_error(answer, 400, "Connector name configuration (b) doesn't match connector name in the URL (a)")


def test_a_configuration_without_class_is_refused(worker):
    answer = worker.client.post("/connectors", json={"name": "a", "config": {}})

    assert_error(answer, 400, "Connector config contains no connector type")


def test_an_unknown_class_is_refused_with_the_known_ones(worker):
    answer = worker.client.post("/connectors", json={"name": "a", "config": {"connector.class": "org.example.Nope"}})

    assert answer.status_code == 400
    message = answer.json()["message"]
    prefix = (
        "Failed to find any class that implements Connector and which name matches org.example.Nope, available connectors are: PluginDesc{"
    )
    assert message.startswith(prefix)
    assert "io.debezium.connector.mysql.MySqlConnector" in message


def test_an_invalid_configuration_is_refused_with_all_its_errors(worker):
    config = {key: text for key, text in CONFIG.items() if key != "topic.prefix"} | {"tasks.max": "abc"}

    answer = worker.client.post("/connectors", json={"name": "a", "config": config})

    assert_error(
        answer,
        400,
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Invalid value abc for configuration tasks.max: Not a number of type INT\n"
        "The 'topic.prefix' value is invalid: A value is required\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`",
    )
    assert worker.client.get("/connectors/a").status_code == 404


def test_a_null_value_is_refused(worker):
    answer = worker.client.post("/connectors", json={"name": "a", "config": {**CONFIG, "database.port": None}})

    assert answer.status_code == 400
    assert "Null value can not be supplied as the configuration value." in answer.json()["message"]


def test_a_database_that_is_away_is_an_error_of_its_host_name(worker):
    answer = worker.create("a", database_hostname="away")

    assert answer.status_code == 400
    assert "Error while validating connector config: Connection to away:3306 refused." in answer.json()["message"]


def test_a_database_that_hangs_is_an_error_after_its_limit(worker):
    answer = worker.create("a", database_hostname="slow", connection_validation_timeout_ms="100")

    assert answer.status_code == 400
    assert "the database did not answer within 100 ms (connection.validation.timeout.ms)" in answer.json()["message"]


def test_a_missing_privilege_is_an_error_of_the_key_that_the_check_names(worker):
    answer = worker.client.put(
        "/connector-plugins/MySqlConnector/config/validate", json=connector_config(name="a", database_hostname="strict")
    )

    found = {entry["value"]["name"]: entry["value"]["errors"] for entry in answer.json()["configs"] if entry["value"]["errors"]}
    assert found == {"database.user": ["the user lacks REPLICATION SLAVE; run: GRANT REPLICATION SLAVE ON *.* TO u"]}


def test_no_password_comes_back_in_an_error(worker):
    answer = worker.create("a", database_hostname="leaky")

    assert answer.status_code == 400
    assert "sesame-open" not in answer.text
    assert "login with [hidden] refused" in answer.json()["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b'{"name":"a","config":{"a":{"b":"c"}}}', b'{"name":"a","config":{},"colour":"red"}']
)
def test_a_body_that_is_no_connector_is_a_bad_request(worker, body):
    answer = worker.client.post("/connectors", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert set(answer.json()) == DEFAULT_ERROR_KEYS


def test_an_unknown_initial_state_is_a_bad_request(worker):
    answer = worker.client.post("/connectors", json={"name": "a", "config": CONFIG, "initial_state": "DANCING"})

    assert answer.status_code == 400


# Read and change.


def test_what_does_not_exist_is_404(worker):
    get = worker.client.get
    assert_error(get("/connectors/no"), 404, "Connector no not found")
    assert_error(get("/connectors/no/config"), 404, "Connector no not found")
    assert_error(get("/connectors/no/tasks"), 404, "Connector no not found")
    assert_error(get("/connectors/no/offsets"), 404, "Connector no not found")
    assert_error(get("/connectors/no/status"), 404, "No status found for connector no")
    assert_error(get("/connectors/no/tasks/0/status"), 404, "No status found for task no-0")
    assert_error(get("/connectors/no/tasks/x/status"), 404, "HTTP 404 Not Found")
    assert_error(worker.client.delete("/connectors/no"), 404, "Connector no not found")
    assert_error(worker.client.put("/connectors/no/pause"), 404, "Unknown connector no")
    assert_error(worker.client.put("/connectors/no/resume"), 404, "Unknown connector no")
    assert_error(worker.client.put("/connectors/no/stop"), 404, "Unknown connector no")
    assert_error(worker.client.post("/connectors/no/restart"), 404, "Unknown connector: no")
    assert_error(worker.client.post("/connectors/no/restart?includeTasks=true"), 404, "Unknown connector: no")
    assert_error(worker.client.post("/connectors/no/tasks/0/restart"), 404, "Unknown connector: no")
    assert_error(worker.client.patch("/connectors/no/config", json={}), 404, "Connector no not found")


def test_get_config_equals_what_was_put_plus_the_name(worker, name):
    created = worker.client.put(f"/connectors/{name}/config", json=CONFIG)
    again = worker.client.put(f"/connectors/{name}/config", json={**CONFIG, "max.batch.size": "1000"})

    assert (created.status_code, again.status_code) == (201, 200)
    assert created.headers["location"] == f"{worker.url}/connectors/{name}"
    assert worker.client.get(f"/connectors/{name}/config").json() == {**CONFIG, "max.batch.size": "1000", "name": name}


def test_a_changed_configuration_reaches_the_task(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    worker.client.put(f"/connectors/{name}/config", json=connector_config(dummy_echo=str(echo), max_batch_size="7"))

    starts = until(lambda: len(lines := json_lines(echo)) == 2 and lines)
    assert [start["config"].get("max.batch.size") for start in starts] == [None, "7"]
    tasks = worker.client.get(f"/connectors/{name}/tasks").json()
    assert [task["id"] for task in tasks] == [{"connector": name, "task": 0}]
    assert tasks[0]["config"]["max.batch.size"] == "7"
    assert tasks[0]["config"]["task.class"] == "io.debezium.connector.mysql.MySqlConnectorTask"
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_an_unchanged_configuration_restarts_nothing(worker, name, own_folder):
    echo = own_folder / "echo"
    config = connector_config(dummy_echo=str(echo))
    worker.client.put(f"/connectors/{name}/config", json=config)
    worker.wait_for(name, "RUNNING", "RUNNING")

    assert worker.client.put(f"/connectors/{name}/config", json=config).status_code == 200
    worker.client.put(f"/connectors/{name}/pause")
    worker.wait_for(name, "PAUSED", "PAUSED")

    assert len(echo.read_text().splitlines()) == 1


def test_patch_merges_and_null_removes(worker, name):
    worker.create(name, max_batch_size="7", poll_interval_ms="50")

    answer = worker.client.patch(f"/connectors/{name}/config", json={"max.batch.size": None, "poll.interval.ms": 60, "x.y": "z"})

    config = answer.json()["config"]
    assert answer.status_code == 200
    assert "max.batch.size" not in config
    assert (config["poll.interval.ms"], config["x.y"]) == ("60", "z")
    assert worker.client.get(f"/connectors/{name}/config").json() == config
    assert worker.client.patch(f"/connectors/{name}/config", json={}).status_code == 200
    assert worker.client.patch(f"/connectors/{name}/config", json={"name": "other"}).status_code == 400
    assert worker.client.patch(f"/connectors/{name}/config", json={"tasks.max": "0"}).status_code == 400


def test_delete_takes_the_connector_at_once_and_its_status_when_it_has_stopped(worker, name):
    worker.create(name, dummy_behaviour="deaf")
    worker.wait_for(name, "RUNNING", "RUNNING")

    assert worker.client.delete(f"/connectors/{name}").status_code == 204

    assert worker.client.get(f"/connectors/{name}").status_code == 404
    assert name not in worker.client.get("/connectors").json()
    status = worker.status(name)
    assert status is not None
    assert status["type"] == "unknown"
    until(lambda: worker.status(name) is None, limit_s=60)


def test_a_name_can_be_used_again_after_delete(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")
    worker.gone(name)

    assert worker.create(name).status_code == 201
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_the_list_expands(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")
    get = worker.client.get

    assert name in get("/connectors").json()
    assert set(get("/connectors?expand=status").json()[name]) == {"status"}
    assert set(get("/connectors?expand=info").json()[name]) == {"info"}
    both = get("/connectors?expand=status&expand=info").json()[name]
    assert both["status"] == worker.status(name)
    assert both["info"] == get(f"/connectors/{name}").json()
    assert get("/connectors?expand=nonsense").json()[name] == {}
    assert get("/connectors?expand=status,info").json()[name] == {}


# Lifecycle.


def test_pause_and_resume_are_202_and_repeatable(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")

    for _ in range(2):
        answer = worker.client.put(f"/connectors/{name}/pause")
        assert (answer.status_code, answer.content) == (202, b"")
    worker.wait_for(name, "PAUSED", "PAUSED")
    for _ in range(2):
        assert worker.client.put(f"/connectors/{name}/resume").status_code == 202
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_stop_is_204_takes_the_tasks_away_and_resume_brings_them_back(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")

    for _ in range(2):
        assert worker.client.put(f"/connectors/{name}/stop").status_code == 204
    worker.wait_for(name, "STOPPED")
    assert worker.client.get(f"/connectors/{name}/tasks").json() == []
    assert worker.client.get(f"/connectors/{name}").json()["tasks"] == []

    assert worker.client.put(f"/connectors/{name}/resume").status_code == 202
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_a_failed_task_shows_its_trace_without_the_password_and_stays_failed(worker, name):
    worker.create(name, dummy_behaviour="fail")

    status = worker.wait_for(name, "RUNNING", "FAILED")
    assert status["tasks"][0]["trace"] == "no luck with [hidden]"
    assert worker.client.get(f"/connectors/{name}/tasks/0/status").json() == status["tasks"][0]

    worker.client.put(f"/connectors/{name}/pause")
    worker.wait_for(name, "PAUSED", "FAILED")
    worker.client.put(f"/connectors/{name}/resume")
    worker.wait_for(name, "RUNNING", "FAILED")


def test_a_task_that_ends_without_a_word_fails_with_its_last_words(worker, name):
    worker.create(name, dummy_behaviour="exit")

    trace = worker.wait_for(name, "RUNNING", "FAILED")["tasks"][0]["trace"]

    assert "exit code 3" in trace
    assert "last words of the dummy" in trace


def test_a_new_configuration_heals_a_failed_task(worker, name):
    worker.create(name, dummy_behaviour="fail")
    worker.wait_for(name, "RUNNING", "FAILED")

    worker.client.patch(f"/connectors/{name}/config", json={"dummy.behaviour": None})

    worker.wait_for(name, "RUNNING", "RUNNING")


def test_a_restart_of_the_connector_alone_is_204_and_leaves_the_task(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    answer = worker.client.post(f"/connectors/{name}/restart")

    assert (answer.status_code, answer.content) == (204, b"")
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert len(echo.read_text().splitlines()) == 1


def test_a_restart_with_tasks_is_202_with_what_will_be_restarted(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    answer = worker.client.post(f"/connectors/{name}/restart?includeTasks=True")

    assert answer.status_code == 202
    assert answer.json()["connector"]["state"] == "RESTARTING"
    assert [task["state"] for task in answer.json()["tasks"]] == ["RESTARTING"]
    until(lambda: len(echo.read_text().splitlines()) == 2)
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_a_restart_of_what_failed_leaves_a_healthy_task_alone(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    answer = worker.client.post(f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    assert answer.status_code == 202
    assert answer.json()["connector"]["state"] == "RUNNING"
    worker.client.put(f"/connectors/{name}/pause")
    worker.wait_for(name, "PAUSED", "PAUSED")
    assert len(echo.read_text().splitlines()) == 1


def test_a_restart_of_what_failed_starts_the_failed_task_again(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo), dummy_behaviour="fail")
    worker.wait_for(name, "RUNNING", "FAILED")

    worker.client.post(f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    until(lambda: len(echo.read_text().splitlines()) == 2)
    worker.wait_for(name, "RUNNING", "FAILED")


def test_a_task_restart_is_204_and_an_unknown_task_404(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    answer = worker.client.post(f"/connectors/{name}/tasks/0/restart")

    assert (answer.status_code, answer.content) == (204, b"")
    until(lambda: len(echo.read_text().splitlines()) == 2)
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert_error(worker.client.post(f"/connectors/{name}/tasks/5/restart"), 404, f"Unknown task: {name}-5")


def test_a_task_gets_everything_it_needs_to_start(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")

    start = json.loads(echo.read_text())

    assert start["type"] == "start"
    assert (start["connector"], start["task"], start["target"], start["offsets"]) == (name, 0, "STARTED", [])
    assert start["worker"].items() - worker.properties.items() == {("dblog.rest.own.token", start["worker"]["dblog.rest.own.token"])}
    assert start["hidden"] == {"sesame-open": "[hidden]"}
    assert start["worker_url"] == worker.url
    assert start["config"]["database.password"] == "sesame-open"


def test_internal_calls_are_closed_to_the_unsigned(worker, name):
    worker.create(name)

    assert_error(worker.client.post(f"/connectors/{name}/tasks", json=[]), 400, "Internal request missing required signature")
    assert_error(worker.client.put(f"/connectors/{name}/fence"), 400, "Internal request missing required signature")
    signed = {"x-connect-authorization": "AAAA", "x-connect-request-signature-algorithm": "HmacSHA256"}
    answer = worker.client.post(f"/connectors/{name}/tasks", json=[], headers=signed)
    assert_error(answer, 403, "Internal request contained invalid signature.")


# The interface itself.


def test_unknown_paths_methods_and_types(worker):
    client = worker.client
    assert_error(client.get("/nowhere"), 404, "HTTP 404 Not Found")
    assert_error(client.delete("/connectors"), 405, "HTTP 405 Method Not Allowed")
    answer = client.post("/connectors", content=b"name=a", headers={"content-type": "application/x-www-form-urlencoded"})
    assert_error(answer, 415, "HTTP 415 Unsupported Media Type: send Content-Type: application/json")
    assert_error(client.get("/connectors", headers={"accept": "text/html"}), 406, "HTTP 406 Not Acceptable")


def test_trailing_slashes_head_and_options(worker, name):
    client = worker.client
    worker.create(name)
    for path in ("/connectors/", "/connector-plugins/", "/admin/loggers/", f"/connectors/{name}/"):
        assert client.get(path).status_code == 200, path
    head = client.head("/connectors")
    assert (head.status_code, head.content) == (200, b"")
    options = client.options(f"/connectors/{name}")
    assert options.status_code == 200
    assert {"GET", "DELETE"} <= set(options.headers["allow"].replace(" ", "").split(","))


def test_root_has_exactly_three_keys(worker):
    answer = worker.client.get("/").json()

    assert set(answer) == {"version", "commit", "kafka_cluster_id"}
    assert answer["version"] == "4.3.0"
    assert answer["kafka_cluster_id"]


def test_health(worker):
    answer = worker.client.get("/health")

    text = "Worker has completed startup and is ready to handle requests."
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "message": text})


@pytest.mark.parametrize("origin", ["http://page.example", "https://console.corp.example"])
def test_a_browser_page_of_an_allowed_origin_may_call(worker, origin):
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "Accept,Content-Type,Origin,X-Requested-With"}
    preflight = worker.client.options("/connectors", headers={"origin": origin, **asked})
    answer = worker.client.get("/connectors", headers={"origin": origin})
    change = worker.client.post("/connectors/nobody/restart", headers={"origin": origin})

    assert (preflight.status_code, preflight.headers.get("access-control-allow-origin")) == (200, origin)
    assert "X-Requested-With" in preflight.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-origin"] == origin
    assert (change.status_code, change.headers["access-control-allow-origin"]) == (404, origin)


def test_a_browser_page_of_an_allowed_origin_cannot_send_a_login(worker):  # number 6 of the worker's safety
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    preflight = worker.client.options("/connectors", headers={"origin": "http://page.example", **asked})

    assert preflight.status_code == 400
    assert "authorization" not in preflight.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in preflight.headers


def test_a_browser_page_of_another_origin_is_not_named_in_the_answer(worker):
    for origin in ("https://corp.example.evil", "http://console.corp.example"):
        answer = worker.client.get("/connectors", headers={"origin": origin})
        assert "access-control-allow-origin" not in answer.headers
        assert worker.client.post("/connectors/nobody/restart", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 200), ("GET", "/connectors/nobody", 404), ("PATCH", "/health", 405)])
def test_every_answer_has_the_headers_of_the_workers_file_beside_its_own(worker, method, path, status):
    answer = worker.client.request(method, path)

    assert answer.status_code == status
    assert answer.headers["cache-control"] == "no-cache, no-store"
    assert abs(parsedate_to_datetime(answer.headers["expires"]).timestamp() - time.time()) < 60
    assert answer.headers.get_list("content-type") == ["application/json"]
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_metrics_have_connects_and_debeziums_names(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")

    def text():
        found = worker.client.get("/metrics").text
        return found if f'source_record_write_total{{connector="{name}"' in found else None

    metrics = until(text)

    assert f'kafka_connect_source_task_source_record_write_total{{connector="{name}",task="0"}} 42.0' in metrics
    assert f'kafka_connect_connector_task_status{{connector="{name}",status="running",task="0"}} 1.0' in metrics
    assert 'debezium_metrics_MilliSecondsBehindSource{context="streaming",name="shop",plugin="mysql",task="0"} 7.0' in metrics
    assert "kafka_connect_worker_connector_count" in metrics
    (plugin,) = (each for each in worker.client.get("/connector-plugins").json() if each["class"].endswith(".MySqlConnector"))
    for part in ("class", "type", "version"):
        assert f'kafka_connect_connector_connector_{part}{{connector="{name}",connector_{part}="{plugin[part]}"}} 1.0' in metrics


def test_loggers_can_be_read_and_set(worker):
    client = worker.client
    everything = client.get("/admin/loggers").json()
    assert everything["root"] == {"level": "INFO", "last_modified": everything["root"]["last_modified"]}

    assert "dblog.rest" in client.put("/admin/loggers/dblog.rest", json={"level": "debug"}).json()
    assert client.get("/admin/loggers/dblog.rest").json()["level"] == "DEBUG"
    assert_error(client.get("/admin/loggers/no.such"), 404, "Logger no.such not found.")
    assert_error(
        client.put("/admin/loggers/no.such", json={"level": "INFO"}), 404, "Logger no.such not found. GET /admin/loggers lists them."
    )
    assert "no.such" not in client.get("/admin/loggers").json()
    assert {"dblog.cluster.herder", "dblog.readers", "dblog.rest"} <= set(everything)  # number 17 of the worker's safety
    assert_error(client.put("/admin/loggers/dblog", json={}), 400, "Desired 'level' parameter was not specified in request.")
    levels = "There are ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF."
    assert_error(client.put("/admin/loggers/dblog", json={"level": "LOUD"}), 404, f"invalid log level 'LOUD'. {levels}")
    assert client.put("/admin/loggers/dblog.rest?scope=CLUSTER", json={"level": "ERROR"}).status_code == 204
    until(lambda: client.get("/admin/loggers/dblog.rest").json()["level"] == "ERROR")
    client.put("/admin/loggers/dblog.rest", json={"level": "INFO"})  # other tests read these lines


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("io.debezium", "dblog.readers, dblog.dialects"),
        ("io.debezium.connector.mysql", "dblog.readers, dblog.dialects"),
        ("org.apache.kafka.connect.runtime.WorkerSourceTask", "dblog.cluster, dblog.runtime, dblog.rest"),
        ("org.apache.kafka.clients", "dblog.kafka"),
    ],
)
def test_a_logger_of_a_jvms_is_answered_with_those_that_tell_the_same_here(worker, name, ours):
    known = worker.client.get("/admin/loggers").json()

    message = f"Logger {name} not found. What Kafka Connect and Debezium log there has the loggers {ours}. GET /admin/loggers lists them."
    assert_error(worker.client.put(f"/admin/loggers/{name}", json={"level": "DEBUG"}), 404, message)
    assert set(ours.split(", ")) <= set(known)
    assert worker.client.get("/admin/loggers").json() == known


def test_the_topics_in_use_of_a_deleted_connector_are_forgotten(worker, name):  # number 17
    worker.create(name)
    until(lambda: worker.client.get(f"/connectors/{name}/topics").json()[name]["topics"], what=lambda: "a topic in use")

    worker.gone(name)

    until(lambda: not worker.client.get(f"/connectors/{name}/topics").json()[name]["topics"], what=lambda: "the topics to be forgotten")


def test_topics_in_use_are_noted_and_can_be_reset(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")

    until(lambda: worker.client.get(f"/connectors/{name}/topics").json() == {name: {"topics": ["shop.shop.orders"]}})

    answer = worker.client.put(f"/connectors/{name}/topics/reset")
    assert (answer.status_code, answer.content) == (202, b"")
    assert worker.client.get(f"/connectors/{name}/topics").json() == {name: {"topics": []}}
    assert worker.client.get("/connectors/no/topics").json() == {"no": {"topics": []}}
    assert worker.client.put("/connectors/no/topics/reset").status_code == 202


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("schema.registry.url", "ftp://127.0.0.1:8081", "has not the form http://host:port"),
        ("basic.auth.user.info", "nocolon", "has not the form user:password"),
        ("bearer.auth.token", "tök", "is not a token"),
        ("request.header.X-Team", "café", "is not a value of an HTTP header"),
        ("proxy.port", "x", "is not a port"),
    ],
)
def test_a_converter_whose_registry_could_not_be_asked_is_refused(worker, kafka, name, option, text, reason):  # number 17
    prefix = "value.converter."
    config = {
        **CONFIG,
        "dummy.reachable": "true",
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        f"{prefix}schema.registry.url": "http://127.0.0.1:1",
        f"{prefix}basic.auth.credentials.source": "USER_INFO",
        f"{prefix}basic.auth.user.info": "user:password",
        f"{prefix}proxy.host": "127.0.0.1",
        prefix + option: text,
    }

    answer = worker.client.post("/connectors", json={"name": name, "config": config})

    assert answer.status_code == 400, answer.text
    assert "contains the following 1 error(s)" in answer.json()["message"]
    assert reason in answer.json()["message"]


def test_what_is_accepted_and_probably_not_meant_is_logged_and_in_a_header(worker, name):
    other, doubts = f"{name}-other", {"table_inclde_list": "a.b", "database_hostname": "doubtful", "database_server_id": "77001"}
    made = worker.create(name, **doubts)
    again = worker.client.put(f"/connectors/{name}/config", json=connector_config(**doubts))
    second = worker.create(other, **doubts, topic_prefix=other)
    worker.gone(other)

    key = "table.inclde.list: no such key; it is ignored. Is table.include.list meant?"
    shared = f"database.server.id: 77001 is also that of connector {name} on the same server"
    assert (made.status_code, again.status_code, second.status_code) == (201, 200, 201)
    for answer in (made, again, second):
        assert f'299 dblog "{key}"' in answer.headers["Warning"]
        assert '299 dblog "no table matches"' in answer.headers["Warning"]
    assert [shared in answer.headers["Warning"] for answer in (made, again, second)] == [False, False, True]
    lines = [line for line in worker.log.read_text().splitlines() if "connector accepted with a doubt" in line and name in line]
    assert any(key in line for line in lines)
    assert any(shared in line for line in lines)
    assert sum("database.password: written out, so it is stored as it is" in line for line in lines) == 3  # once a request
    assert "Warning" not in worker.client.get(f"/connectors/{name}").headers
