"""Signals by REST: what is taken and refused, and what the task gets. The tasks are dummies that obey the messages about dumps."""

import json
from pathlib import Path

import pytest
from support.json_lines import json_lines
from support.worker import Worker, until

ORDERS = {"data-collections": [r"shop\.orders"]}


@pytest.fixture
def told(own_folder: Path) -> Path:
    """What the task is told of dumps, a line for each message."""
    return own_folder / "dumps"


@pytest.fixture
def running(worker: Worker, name: str, told: Path) -> str:
    """A connector whose task runs."""
    worker.create(name, dummy_dumps=str(told), incremental_snapshot_chunk_size="77").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    return name


def send(worker, name, **signal):
    return worker.client.post(f"/connectors/{name}/signals", json=signal)


def messages(told, kind):
    return [message for message in json_lines(told) if message["type"] == kind]


def test_a_snapshot_that_is_asked_for_is_a_dump_with_the_signals_id(worker, running, told):
    data = {**ORDERS, "type": "blocking", "additional-conditions": [{"data-collection": r"shop\.orders", "filter": "v = 1"}]}

    answer = send(worker, running, id="mine", type="execute-snapshot", data=data)

    assert answer.status_code == 202, answer.text
    dump = answer.json()
    assert answer.headers["location"] == f"{worker.url}/connectors/{running}/dumps/{dump['id']}"
    assert (dump["requested_by"], dump["signal"], dump["chunk_rows"]) == ("signal", {"id": "mine", "blocking": True}, 77)
    assert (dump["predicate"], dump["status"]["tables_total"]) == ({r"shop\.orders": "v = 1"}, 1)
    until(lambda: [m["request"]["id"] for m in messages(told, "dump")] == [dump["id"]], what=told.read_text)
    listed = worker.client.get(f"/connectors/{running}/dumps").json()["dumps"]
    assert [each["id"] for each in listed] == [dump["id"]]
    assert worker.client.post(f"/connectors/{running}/dumps/{dump['id']}/stop").status_code == 202


def test_what_steers_dumps_is_handed_to_the_task(worker, running, told):
    answer = send(worker, running, id="p", type="pause-snapshot", data={"type": "incremental"})

    assert (answer.status_code, answer.json()) == (202, {"id": "p", "type": "pause-snapshot", "note": None})
    until(lambda: messages(told, "signal"), what=told.read_text)
    (message,) = messages(told, "signal")
    assert (message["id"], message["kind"], json.loads(message["data"])) == ("p", "pause-snapshot", {"type": "incremental"})
    assert "the log and the catalog" in send(worker, running, type="schema-changes").json()["note"]


@pytest.mark.parametrize(
    ("signal", "status", "text"),
    [
        ({"type": "execute-snapshot"}, 400, "data-collections must be a list of patterns"),
        ({"type": "execute-snapshot", "data": {"data-collections": ["nothing"]}}, 404, "no captured table matches"),
        ({"type": "execute-snapshot", "data": "{"}, 400, "its data is not JSON"),
        ({"type": "nonsense"}, 400, "its type is not known"),
        ({"id": 7, "type": "log"}, 400, "id and type must be texts"),
        ({"type": "log", "data": {"message": "m" * 9000}}, 400, "at most"),
    ],
)
def test_what_is_no_signal_is_refused_with_the_reason(worker, running, signal, status, text):
    answer = send(worker, running, **signal)

    assert (answer.status_code, text in answer.json()["message"]) == (status, True), answer.text


def test_a_filter_is_refused_where_the_connector_has_filters_switched_off(worker, running):
    worker.client.patch(f"/connectors/{running}/config", json={"dblog.signals.filters": "False"}).raise_for_status()
    worker.wait_for(running, "RUNNING", "RUNNING")
    filtered = {**ORDERS, "additional-conditions": [{"data-collection": r"shop\.orders", "filter": "v = 1"}]}

    answer = send(worker, running, type="execute-snapshot", data=filtered)

    assert (answer.status_code, "dblog.signals.filters=false" in answer.json()["message"]) == (400, True), answer.text
    until(lambda: send(worker, running, type="execute-snapshot", data=ORDERS).status_code == 202)


def test_a_connector_that_is_unknown_or_stopped_takes_none(worker, running):
    assert send(worker, "nobody", type="pause-snapshot").status_code == 404
    worker.client.put(f"/connectors/{running}/stop").raise_for_status()

    assert send(worker, running, type="pause-snapshot").status_code == 409
    assert send(worker, running, type="execute-snapshot", data=ORDERS).status_code == 409
