"""Dumps on demand by REST: what is taken and refused, what the task gets, what is kept, and who may. The tasks are dummies that obey the messages about dumps."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from dblog.cluster.dumpstore import ENDED_KEPT, OPEN_MAX
from support.dummy_dumps import DEAF, DONE, FAILED
from support.json_lines import json_lines
from support.worker import Worker, until

ORDERS = {"tables": [r"shop\.orders"]}


@pytest.fixture
def told(own_folder: Path) -> Path:
    """What the task is told of dumps, a line for each message."""
    return own_folder / "dumps"


@pytest.fixture
def running(worker: Worker, name: str, told: Path) -> str:
    """A connector whose task runs."""
    worker.create(name, dummy_dumps=str(told)).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    return name


@pytest.fixture(scope="module")
def shared(worker: Worker) -> Iterator[str]:
    """A connector for tests that look at no dump but their own."""
    name = "shared-dumps"
    worker.create(name).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    yield name
    worker.gone(name)


def messages(told, kind):
    return [message for message in json_lines(told) if message["type"] == kind]


def post(worker, name, body, path=""):
    return worker.client.post(f"/connectors/{name}/dumps{path}", json=body)


def requested(worker, name, **body):
    answer = post(worker, name, ORDERS | body)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def detail(worker, name, dump):
    answer = worker.client.get(f"/connectors/{name}/dumps/{dump}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def state_of(worker, name, dump):
    return detail(worker, name, dump)["status"]["state"]


def becomes(worker, name, dump, state):
    until(lambda: state_of(worker, name, dump) == state, what=lambda: f"{dump} to be {state}: {detail(worker, name, dump)}")


def test_a_dump_that_the_task_has_checked_is_taken_and_runs(worker, running, told):
    answer = post(worker, running, {"tables": [r"shop\..*"], "chunk_rows": 8192, "predicate": {r"shop\.orders": "status = 'open'"}})

    assert answer.status_code == 202, answer.text
    taken = answer.json()
    assert answer.headers["location"] == f"{worker.url}/connectors/{running}/dumps/{taken['id']}"
    assert (len(taken["id"]), taken["revision"], taken["requested_by"], taken["mode"]) == (12, 1, "rest", "rows")
    assert (taken["status"]["state"], taken["status"]["tables_total"]) == ("WAITING", 2)
    becomes(worker, running, taken["id"], "RUNNING")
    shown = detail(worker, running, taken["id"])
    assert {name: value for name, value in shown.items() if name != "status"} == {
        name: value for name, value in taken.items() if name != "status"
    }
    assert [table["table"] for table in shown["status"]["tables"]] == ["shop.orders", "shop.items"]
    assert [message["request"] for message in messages(told, "dump")] == [
        {name: value for name, value in taken.items() if name != "status"}
    ]
    listed = worker.client.get(f"/connectors/{running}/dumps").json()["dumps"]
    assert [(each["id"], each["status"]["state"], each["status"]["rows"]) for each in listed] == [(taken["id"], "RUNNING", 1000)]
    assert not {"predicate", "keys"} & listed[0].keys()
    assert "tables" not in listed[0]["status"]


REFUSED = [
    ({}, 400, "tables: it must be a list of patterns"),
    ([], 400, "body: it must be a JSON object"),
    (ORDERS | {"chunk_rows": 0}, 400, "chunk_rows: it must be a whole number from 1"),
    (ORDERS | {"mode": "repair", "keys": [[1]]}, 400, "the sink could not know which of its rows are out of scope"),
    (ORDERS | {"keys": [["a"]]}, 400, "the key of shop.orders is an INT"),
    (ORDERS | {"predicate": {"shop.orders": "syntax error"}}, 400, "the database does not take it as SQL"),
    ({"tables": ["other.table"]}, 404, "no captured table matches; see table.include.list"),
    (ORDERS | {"keys": [["x" * 1000]] * 400}, 400, "at most 262144 are allowed"),
]


def test_a_dump_that_cannot_be_is_refused_with_a_sentence_and_nothing_of_it_is_kept(worker, running, told):
    for body, status, reason in REFUSED:
        answer = post(worker, running, body)
        assert (answer.status_code, reason in answer.json()["message"]) == (status, True), (body, answer.text)

    assert worker.client.get(f"/connectors/{running}/dumps").json() == {"dumps": []}
    assert messages(told, "dump") == []


def test_a_body_that_is_no_json_is_refused(worker, shared):
    answer = worker.client.post(f"/connectors/{shared}/dumps", content=b'{"tables": [', headers={"content-type": "application/json"})

    assert (answer.status_code, "not valid JSON" in answer.json()["message"]) == (400, True)


def test_a_dump_of_a_connector_that_nobody_knows_is_not_found(worker):
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", ORDERS),
        ("GET", "/d3f1a2b3c4d5", None),
        ("PATCH", "/d3f1a2b3c4d5", {"delay_ms": 1}),
        ("POST", "/d3f1a2b3c4d5/pause", None),
    ):
        answer = worker.client.request(method, f"/connectors/nobody/dumps{path}", json=body)
        assert (answer.status_code, answer.json()["message"]) == (404, "Connector nobody not found"), (method, path)


def test_a_dump_that_nobody_has_requested_is_not_found(worker, shared):
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"delay_ms": 1}),
        ("POST", "/stop", None),
        ("POST", "/tables/shop.orders/stop", None),
    ):
        answer = worker.client.request(method, f"/connectors/{shared}/dumps/d3f1a2b3c4d5{path}", json=body)
        assert answer.status_code == 404, (method, path)
        assert f"GET /connectors/{shared}/dumps lists" in answer.json()["message"]


def test_a_dump_of_a_stopped_connector_is_refused_with_what_to_do(worker, running):
    worker.client.put(f"/connectors/{running}/stop")
    worker.wait_for(running, "STOPPED")

    answer = post(worker, running, ORDERS)

    assert answer.status_code == 409
    assert answer.json()["message"].endswith(f"PUT /connectors/{running}/resume, then request the dump again")


def test_a_dump_of_a_connector_whose_task_has_failed_is_refused_with_what_to_do(worker, name):
    worker.create(name, dummy_behaviour="fail").raise_for_status()
    worker.wait_for(name, "RUNNING", "FAILED")

    answer = post(worker, name, ORDERS)

    assert answer.status_code == 409
    assert f"GET /connectors/{name}/status has the reason" in answer.json()["message"]


def test_a_paused_connector_takes_a_dump_which_waits_until_it_goes_on(worker, running):
    worker.client.put(f"/connectors/{running}/pause")
    worker.wait_for(running, "PAUSED", "PAUSED")

    dump = requested(worker, running)

    shown = detail(worker, running, dump)["status"]
    assert (shown["state"], shown["reason"]) == ("WAITING", "the connector is paused: PUT /connectors/NAME/resume lets it go on")
    worker.client.put(f"/connectors/{running}/resume")
    becomes(worker, running, dump, "RUNNING")


@pytest.mark.parametrize(
    ("check", "status", "reason"),
    [
        ("silent", 504, "has not checked the request within 1 s (connection.validation.timeout.ms), and nothing is dumped"),
        ("away", 503, "the database does not answer"),
        ("end", 503, "ended while it checked the request"),
    ],
)
def test_a_request_that_nobody_can_check_is_not_kept(worker, name, check, status, reason):
    worker.create(name, dummy_check=check, connection_validation_timeout_ms="1000").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")

    answer = post(worker, name, ORDERS)

    assert (answer.status_code, reason in answer.json()["message"]) == (status, True), answer.text
    assert worker.client.get(f"/connectors/{name}/dumps").json() == {"dumps": []}


def test_checks_that_nobody_waits_for_any_more_make_room_for_others(worker, name):
    worker.create(name, dummy_check="silent", connection_validation_timeout_ms="1").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")

    assert {post(worker, name, ORDERS).status_code for _ in range(20)} == {504}


def test_a_dump_is_made_faster_paused_and_resumed_while_it_runs(worker, running, told):
    dump = requested(worker, running)
    path = f"/connectors/{running}/dumps/{dump}"

    faster = worker.client.patch(path, json={"chunk_rows": 50_000, "parallelism": 4})
    paused = worker.client.post(f"{path}/pause")

    assert (faster.status_code, faster.json()["revision"], faster.json()["chunk_rows"], faster.json()["delay_ms"]) == (200, 2, 50_000, 0)
    assert (paused.status_code, paused.json()["revision"], paused.json()["wanted"]) == (202, 3, "PAUSED")
    becomes(worker, running, dump, "PAUSED")
    assert worker.client.post(f"{path}/pause").json()["revision"] == 3, "there is nothing to change"
    assert worker.client.post(f"{path}/resume").json()["revision"] == 4
    becomes(worker, running, dump, "RUNNING")
    got = [(m["request"]["revision"], m["request"]["parallelism"], m["request"]["wanted"]) for m in messages(told, "dump")]
    assert got == [(1, 1, "RUNNING"), (2, 4, "RUNNING"), (3, 4, "PAUSED"), (4, 4, "RUNNING")]


def test_what_a_change_may_not_do_is_refused(worker, shared):
    dump = requested(worker, shared)

    for body, reason in (
        ({}, "there is nothing to change"),
        ({"chunk_rows": 0}, "chunk_rows: it must be a whole number from 1"),
        ({"tables": ["a"]}, "tables: it stays as it is while the dump runs"),
        ({"wanted": "PAUSED"}, "wanted: it is not changed so; use pause, resume or stop"),
    ):
        answer = worker.client.patch(f"/connectors/{shared}/dumps/{dump}", json=body)
        assert (answer.status_code, reason in answer.json()["message"]) == (400, True), (body, answer.text)

    assert detail(worker, shared, dump)["revision"] == 1


def test_one_table_of_a_dump_is_paused_resumed_and_stopped(worker, shared):
    dump = requested(worker, shared, tables=[r"shop\..*"])
    path = f"/connectors/{shared}/dumps/{dump}/tables"

    for table, verb in (("shop.orders", "pause"), ("shop%2Eitems", "stop"), ("shop.orders", "resume")):
        answer = worker.client.post(f"{path}/{table}/{verb}")
        assert answer.status_code == 202, answer.text

    assert answer.json()["tables_wanted"] == {"shop.items": "STOPPED"}
    again, unknown = worker.client.post(f"{path}/shop.items/resume"), worker.client.post(f"{path}/other.t/pause")
    assert (again.status_code, "cannot be taken back" in again.json()["message"]) == (409, True)
    assert (unknown.status_code, "none of its patterns matches that name" in unknown.json()["message"]) == (404, True)


def test_a_table_is_steered_by_any_spelling_of_its_name_and_one_that_the_dump_does_not_have_is_not_found(worker, running):
    dump = requested(worker, running, tables=[r"shop\..*"])
    becomes(worker, running, dump, "RUNNING")
    path = f"/connectors/{running}/dumps/{dump}/tables"

    paused, unknown = worker.client.post(f"{path}/SHOP.Orders/pause"), worker.client.post(f"{path}/shop.nothing/pause")

    assert (paused.status_code, paused.json()["tables_wanted"]) == (202, {"shop.orders": "PAUSED"})
    assert (unknown.status_code, "has no table shop.nothing" in unknown.json()["message"]) == (404, True)


def test_a_name_is_looked_for_among_all_tables_of_a_dump_of_which_the_status_shows_200(worker, name, told):
    many = ",".join(f"shop.t{n}" for n in range(203))
    worker.create(name, dummy_dumps=str(told), dummy_tables=many).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    dump = requested(worker, name, tables=[r"shop\..*"])
    becomes(worker, name, dump, "RUNNING")
    path = f"/connectors/{name}/dumps/{dump}/tables"

    paused, unknown = worker.client.post(f"{path}/Shop.T202/pause"), worker.client.post(f"{path}/shop.t203/pause")

    assert len(detail(worker, name, dump)["status"]["tables"]) == 200
    assert (paused.status_code, paused.json()["tables_wanted"]) == (202, {"shop.t202": "PAUSED"})
    assert (unknown.status_code, "has no table shop.t203; GET /connectors" in unknown.json()["message"]) == (404, True)
    worker.client.put(f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    assert worker.client.post(f"{path}/shop.t203/pause").status_code == 202, "nobody knows the tables now"


def test_a_dump_that_is_being_stopped_goes_no_other_way(worker, running):
    dump = requested(worker, running)
    worker.client.put(f"/connectors/{running}/stop")
    worker.wait_for(running, "STOPPED")
    path = f"/connectors/{running}/dumps/{dump}"
    assert worker.client.post(f"{path}/stop").status_code == 202, "it ends when the task runs again"

    answers = [worker.client.post(f"{path}/resume"), worker.client.patch(path, json={"delay_ms": 1})]

    assert [(answer.status_code, "cannot be taken back" in answer.json()["message"]) for answer in answers] == [(409, True)] * 2
    shown = detail(worker, running, dump)["status"]
    assert (shown["state"], "the connector is stopped" in shown["reason"]) == ("WAITING", True)
    worker.client.put(f"/connectors/{running}/resume")
    becomes(worker, running, dump, "STOPPED")


@pytest.mark.parametrize(("delay_ms", "state", "reason"), [(DONE, "DONE", None), (FAILED, "FAILED", "the table shop.orders was dropped")])
def test_the_end_of_a_dump_is_kept_the_task_may_forget_it_and_nothing_of_it_can_be_changed(worker, running, told, delay_ms, state, reason):
    dump = requested(worker, running)
    path = f"/connectors/{running}/dumps/{dump}"

    worker.client.patch(path, json={"delay_ms": delay_ms})

    until(lambda: messages(told, "dump_forget"), what=lambda: "the task to be told")
    assert messages(told, "dump_forget") == [{"type": "dump_forget", "id": dump}]
    shown = detail(worker, running, dump)["status"]
    assert (shown["state"], shown["reason"], shown["rows"], shown["ended_ms"] is not None) == (state, reason, 2000, True)
    for answer in (worker.client.patch(path, json={"delay_ms": 1}), worker.client.post(f"{path}/stop")):
        assert (answer.status_code, f"has ended ({state})" in answer.json()["message"]) == (409, True)


def test_an_end_that_is_reported_again_is_answered_again_and_stored_once(worker, running, told):
    dump = requested(worker, running, delay_ms=DEAF)

    until(lambda: len(messages(told, "dump_forget")) >= 3, what=lambda: "the task to be told again and again")

    assert state_of(worker, running, dump) == "DONE"
    assert len(records_of(worker, running, dump)) == 2, "the request and its end"


def records_of(worker, name, dump):
    """The values of a request in the topic, in order."""
    consumer = Consumer({"bootstrap.servers": worker.properties["bootstrap.servers"], "group.id": "test", "enable.partition.eof": "true"})
    try:
        consumer.assign([TopicPartition(f"{worker.group}-config-dumps", 0, 0)])
        values = []
        while not (message := consumer.poll(10)).error():
            if json.loads(message.key()) == [name, dump]:
                values.append(message.value() and json.loads(message.value()))
        return values
    finally:
        consumer.close()


@pytest.mark.parametrize("change", ["reset", "alter"])
def test_behind_a_change_of_offsets_the_first_dump_waits_until_the_next_task_reports_its_own(worker, name, change):
    worker.create(name, dummy_initial="10").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    until(lambda: detail(worker, name, "initial")["status"]["state"] == "DONE")
    worker.client.put(f"/connectors/{name}/stop").raise_for_status()
    worker.wait_for(name, "STOPPED")
    if change == "alter":
        entry = {"partition": {"server": "shop"}, "offset": {"file": "bin.000001", "pos": 4}}
        until(lambda: worker.client.patch(f"/connectors/{name}/offsets", json={"offsets": [entry]}).status_code == 200)
    else:
        until(lambda: worker.client.delete(f"/connectors/{name}/offsets").status_code == 200)

    status = detail(worker, name, "initial")["status"]
    assert (status["state"], status["rows"], status["tables_total"]) == ("WAITING", 0, None)
    assert "the connector is stopped" in status["reason"]
    assert [each["status"]["state"] for each in worker.client.get(f"/connectors/{name}/dumps").json()["dumps"]] == ["WAITING"]
    worker.client.put(f"/connectors/{name}/resume").raise_for_status()

    until(lambda: detail(worker, name, "initial")["status"]["state"] == "DONE")
    assert detail(worker, name, "initial")["status"]["rows"] == 1000


def test_the_first_dump_is_listed_and_shown_and_follows_the_connector(worker, name):
    worker.create(name, dummy_initial="3").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    dump = requested(worker, name)
    becomes(worker, name, dump, "RUNNING")

    listed = worker.client.get(f"/connectors/{name}/dumps").json()["dumps"]

    assert [(each["id"], each["requested_by"]) for each in listed] == [("initial", "connector"), (dump, "rest")]
    shown = detail(worker, name, "initial")["status"]
    assert (shown["state"], shown["tables_done"], shown["tables_total"], shown["rows"], shown["rows_estimated"]) == (
        "RUNNING",
        3,
        10,
        300,
        1000,
    )
    (table,) = worker.client.get(f"/connectors/{name}/dumps/{dump}", params={"map": "true"}).json()["status"]["tables"]
    assert (len(table["map"]), table["map"][:6]) == (100, [1, 1, 1, 1, 1, 0]), "500 rows of 10 000"
    assert "map" not in detail(worker, name, dump)["status"]["tables"][0]
    answer = worker.client.post(f"/connectors/{name}/dumps/initial/pause")
    assert (answer.status_code, f"PUT /connectors/{name}/pause" in answer.json()["message"]) == (409, True)


def test_a_task_that_is_killed_gets_what_has_not_ended_again_with_its_newest_revision(worker, name, told, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_dumps=str(told), dummy_echo=str(echo)).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    ended, first, second = (requested(worker, name) for _ in range(3))
    worker.client.patch(f"/connectors/{name}/dumps/{ended}", json={"delay_ms": DONE})
    worker.client.patch(f"/connectors/{name}/dumps/{first}", json={"priority": 7})
    until(lambda: messages(told, "dump_forget"))

    os.kill(json.loads(echo.read_text().splitlines()[0])["pid"], signal.SIGKILL)

    until(lambda: len(messages(told, "start")) == 2)
    assert [(each["id"], each["revision"], each["priority"]) for each in messages(told, "start")[1]["dumps"]] == [
        (first, 2, 7),
        (second, 1, 0),
    ]
    becomes(worker, name, first, "RUNNING")


def test_requests_go_with_their_connector(worker, name, told):
    worker.create(name, dummy_dumps=str(told)).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    dump = requested(worker, name)

    worker.gone(name)

    assert worker.client.get(f"/connectors/{name}/dumps/{dump}").status_code == 404
    assert records_of(worker, name, dump)[-1] is None
    worker.create(name, dummy_dumps=str(told)).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert worker.client.get(f"/connectors/{name}/dumps").json() == {"dumps": []}
    assert messages(told, "start")[-1]["dumps"] == []


def test_a_connector_has_no_more_than_so_many_dumps_that_have_not_ended(worker, running):
    for _ in range(OPEN_MAX):
        requested(worker, running, wanted="PAUSED")

    answer = post(worker, running, ORDERS)

    assert (answer.status_code, "wait for them, or stop some" in answer.json()["message"]) == (409, True)
    assert len(worker.client.get(f"/connectors/{running}/dumps").json()["dumps"]) == OPEN_MAX


@pytest.mark.long
def test_of_the_dumps_that_have_ended_the_newest_hundred_are_kept(worker, running):
    dumps = []
    for _ in range(ENDED_KEPT + 3):
        dumps.append(requested(worker, running, delay_ms=DONE))
        if len(dumps) % OPEN_MAX == 0:
            until(
                lambda: all(each["status"]["state"] == "DONE" for each in worker.client.get(f"/connectors/{running}/dumps").json()["dumps"])
            )

    def kept():
        return [each["id"] for each in worker.client.get(f"/connectors/{running}/dumps").json()["dumps"]]

    until(lambda: kept() == dumps[3:], what=lambda: f"{len(kept())} of {len(dumps)} are kept")
    assert worker.client.get(f"/connectors/{running}/dumps/{dumps[0]}").status_code == 404
