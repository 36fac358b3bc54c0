"""`/connectors/{c}/offsets`: read, alter, reset (KIP-875)."""

import base64
import json
import re
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from support.json_lines import json_lines
from support.worker import until

DONE = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However, if this connector manages offsets "
    "externally, they will need to be manually {} in the system that the connector uses."
)
PLACE = {"file": "bin.000001", "pos": 4}


@pytest.fixture
def stopped(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")
    worker.client.put(f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    return name


def test_offsets_go_there_and_back_and_are_seen_at_once(worker, stopped):
    url = f"/connectors/{stopped}/offsets"
    entry = {
        "partition": {"server": "shop"},
        "offset": {
            "file": "bin.000003",
            "pos": 5_000_000_000,
            "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7",
            "row": None,
            "snapshot": True,
        },
    }

    assert worker.client.get(url).json() == {"offsets": []}
    answer = worker.client.patch(url, json={"offsets": [entry]})
    assert (answer.status_code, answer.json()) == (200, {"message": DONE.format("altered", "altered")})
    assert worker.client.get(url).json() == {"offsets": [entry]}

    worker.client.patch(url, json={"offsets": [{"partition": {"server": "shop"}, "offset": None}]})
    assert worker.client.get(url).json() == {"offsets": []}
    worker.client.patch(url, json={"offsets": [entry]})

    answer = worker.client.delete(url)
    assert (answer.status_code, answer.json()) == (200, {"message": DONE.format("reset", "reset")})
    assert worker.client.get(url).json() == {"offsets": []}


def test_a_task_that_starts_is_given_the_altered_offsets(worker, name, own_folder):
    echo = own_folder / "echo"
    worker.create(name, dummy_echo=str(echo))
    worker.wait_for(name, "RUNNING", "RUNNING")
    worker.client.put(f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    entry = {"partition": {"server": "shop"}, "offset": {"file": "bin.000003", "pos": 4}}
    worker.client.patch(f"/connectors/{name}/offsets", json={"offsets": [entry]})

    worker.client.put(f"/connectors/{name}/resume")

    until(lambda: len(json_lines(echo)) == 2)
    assert json_lines(echo)[1]["offsets"] == [entry]


def test_only_a_stopped_connectors_offsets_may_be_changed(worker, name):
    worker.create(name)
    message = (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by "
        f"issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
    )
    for answer in (
        worker.client.delete(f"/connectors/{name}/offsets"),
        worker.client.patch(f"/connectors/{name}/offsets", json={"offsets": [{"partition": {"server": "shop"}, "offset": PLACE}]}),
    ):
        assert (answer.status_code, answer.json()["message"]) == (400, message)


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": None}, []])
def test_offsets_must_be_given(worker, stopped, body):
    answer = worker.client.patch(f"/connectors/{stopped}/offsets", json=body)

    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert (answer.status_code, answer.json()["message"]) == (400, message)


def test_nested_values_are_refused(worker, stopped):
    body = {"offsets": [{"partition": {"server": "shop"}, "offset": {"pos": {"a": 1}}}]}

    answer = worker.client.patch(f"/connectors/{stopped}/offsets", json=body)

    assert answer.status_code == 400
    assert answer.json()["message"] == "Offsets may only contain primitive types as values, but field pos contains MAP"


def test_offsets_outlive_their_connector(worker, stopped):
    entry = {"partition": {"server": "shop"}, "offset": {"file": "bin.000001", "pos": 1}}
    worker.client.patch(f"/connectors/{stopped}/offsets", json={"offsets": [entry]})

    worker.gone(stopped)
    worker.create(stopped)

    assert worker.client.get(f"/connectors/{stopped}/offsets").json() == {"offsets": [entry]}


@pytest.mark.parametrize(("field", "meant"), [("gtid", "gtids"), ("Pos", "pos"), ("snapshots", "snapshot"), ("zzz", None)])
def test_a_field_that_the_connector_does_not_know_is_refused_with_the_one_that_is_meant(worker, stopped, field, meant):
    url = f"/connectors/{stopped}/offsets"

    answer = worker.client.patch(url, json={"offsets": [{"partition": {"server": "shop"}, "offset": {**PLACE, field: "1-2-3"}}]})

    message = answer.json()["message"]
    assert (answer.status_code, f"a field '{field}', which the connector does not know" in message) == (400, True)
    assert (f"Is {meant} meant?" if meant else "The fields are dblog_dump") in message
    assert "file, gtids, pos" in message
    assert worker.client.get(url).json() == {"offsets": []}


def test_fields_of_a_debezium_that_hands_over_and_of_an_offset_of_dblog_are_taken(worker, stopped):
    fields = {
        "snapshot_completed": True,
        "transaction_id": None,
        "transaction_data_collection_order_db.t": 3,
        "incremental_snapshot_primary_key": "ac",
        "dblog_windows": 8192,
    }

    answer = worker.client.patch(
        f"/connectors/{stopped}/offsets", json={"offsets": [{"partition": {"server": "shop"}, "offset": {**PLACE, **fields}}]}
    )

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("partition", "offset", "word"),
    [
        ({"server": "shop"}, {**PLACE, "pos": "abc"}, "pos"),
        ({"server": "shop"}, {**PLACE, "pos": -1}, "pos"),
        ({"server": "shop"}, {**PLACE, "pos": 1.5}, "pos"),
        ({"server": "shop"}, {**PLACE, "pos": True}, "pos"),
        ({"server": "shop"}, {**PLACE, "pos": 10**30}, "pos"),
        ({"server": "shop"}, {"pos": 4}, "file"),
        ({"server": "shop"}, {"file": "nonsense", "pos": 4}, "log file"),
        ({"server": "shop"}, {"file": "bin." + "9" * 5000, "pos": 4}, "file"),
        ({"server": "shop"}, {**PLACE, "gtids": "nonsense"}, "GTID"),
        ({"server": "shop"}, {**PLACE, "gtids": 7}, "gtids"),
        ({"server": "shop"}, {**PLACE, "row": "x"}, "row"),
        ({"server": "shop"}, {**PLACE, "dblog_dump": "{"}, "dblog_dump"),
        ({"server": "shop"}, {**PLACE, "dblog_windows": -1}, "dblog_windows must be a whole number"),
        ({"server": "shop"}, {}, "file"),
        ({"server": "another"}, PLACE, "source partition"),
        ({"server": "shop", "x": 1}, PLACE, "source partition"),
        ({}, PLACE, "source partition"),
    ],
)
def test_an_offset_that_the_connector_could_not_start_from_is_refused(
    worker, stopped, partition, offset, word
):  # number 16 of the worker's safety
    url = f"/connectors/{stopped}/offsets"

    answer = worker.client.patch(url, json={"offsets": [{"partition": partition, "offset": offset}]})

    assert answer.status_code == 400, answer.text
    assert word in answer.json()["message"]
    assert worker.client.get(url).json() == {"offsets": []}


def test_an_offset_that_unpacks_to_hundreds_of_megabytes_costs_neither_memory_nor_other_requests(worker, stopped):
    def largest_bytes():
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker.process.pid}/status").read_text())[1]) * 1024

    table = b'{"table":["a","b"],"rows":0,"chunks":0},'
    tables = base64.b85encode(zlib.compress(b"[" + table * (300_000_000 // len(table)) + table[:-1] + b"]")).decode()
    dump = json.dumps({"format": 2, "id": "d", "finished": 0, "finished_rows": 0, "joins": 0, "tables": tables})
    before_bytes = largest_bytes()

    with ThreadPoolExecutor(1) as pool:
        url = f"/connectors/{stopped}/offsets"
        offsets = {"offsets": [{"partition": {"server": "shop"}, "offset": {**PLACE, "dblog_dump": dump}}]}
        answer = pool.submit(worker.client.patch, url, json=offsets)
        slowest_s = 0.0
        while not answer.done():
            began_s = time.monotonic()
            assert httpx.get(worker.url).status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - began_s)

    assert (answer.result().status_code, "reset the connector's offsets" in answer.result().json()["message"]) == (400, True)
    assert largest_bytes() - before_bytes < 100 << 20
    assert slowest_s < 1.0


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused(worker, stopped, text):  # number 16
    body = json.dumps({"offsets": [{"partition": {"server": "shop"}, "offset": {**PLACE, "ts_sec": 0}}]}).replace("0}", f"{text}}}")

    answer = worker.client.patch(f"/connectors/{stopped}/offsets", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400, answer.text


def test_an_offset_that_another_program_wrote_is_still_shown_as_json(worker, stopped, kafka):  # number 16
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(f"{worker.group}-offset", key=json.dumps([stopped, {"server": "shop"}], separators=(",", ":")), value=b'{"pos": NaN}')
    producer.flush(30)

    shown = until(lambda: worker.client.get(f"/connectors/{stopped}/offsets").json()["offsets"], what=lambda: "the foreign offset")

    assert shown == [{"partition": {"server": "shop"}, "offset": {"pos": None}}]
