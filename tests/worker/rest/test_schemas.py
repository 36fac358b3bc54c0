"""The worker's own schema registry, by Confluent's interface and by Confluent's Python client (D10)."""

import json
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from support.worker import running_worker

_numbers = count(1)
INT, LONG, STRING = '"int"', '"long"', '"string"'
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


def record(*fields):
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t, **more} for n, t, more in fields]})


V1 = record(("a", "int", {}))
V2 = record(("a", "int", {}), ("b", "string", {"default": ""}))
V2_BAD = record(("a", "int", {}), ("b", "string", {}))


@pytest.fixture
def subject():
    return f"s{next(_numbers)}-value"


@pytest.fixture
def registry(worker):
    with httpx.Client(base_url=worker.url, timeout=30, headers={"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE}) as client:
        yield client


def register(registry, subject, schema, **more):
    return registry.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})


def assert_error(answer, code, message):
    assert answer.status_code == int(str(code)[:3])
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json() == {"error_code": code, "message": message}


def test_a_schema_gets_an_id_and_a_version(registry, subject):
    answer = register(registry, subject, V1)

    schema_id = answer.json()["id"]
    text = json.dumps(json.loads(V1), separators=(",", ":"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    assert answer.json() == {"id": schema_id}
    assert registry.get(f"/schemas/ids/{schema_id}").json() == {"schema": text}
    assert registry.get(f"/schemas/ids/{schema_id}/schema").text == text
    assert registry.get(f"/subjects/{subject}/versions").json() == [1]
    entry = {"subject": subject, "version": 1, "id": schema_id, "schema": text}
    for version in ("1", "latest", "-1"):
        assert registry.get(f"/subjects/{subject}/versions/{version}").json() == entry
    assert registry.get(f"/subjects/{subject}/versions/1/schema").text == text
    assert registry.post(f"/subjects/{subject}", json={"schema": V1}).json() == entry
    assert {"subject": subject, "version": 1} in registry.get(f"/schemas/ids/{schema_id}/versions").json()
    assert subject in registry.get("/subjects").json()
    assert registry.get("/schemas/types").json() == ["AVRO"]


def test_the_same_schema_keeps_its_id_in_every_subject_and_spelling(registry, subject):
    first = register(registry, subject, V1).json()["id"]

    assert register(registry, subject, json.dumps(json.loads(V1), indent=4)).json()["id"] == first
    assert register(registry, f"other-{subject}", V1).json()["id"] == first
    assert registry.get(f"/subjects/{subject}/versions").json() == [1]


def test_an_incompatible_schema_is_a_conflict_and_a_compatible_one_a_new_version(registry, subject):
    register(registry, subject, V1)

    refused = register(registry, subject, V2_BAD)
    assert refused.status_code == 409
    assert refused.json()["error_code"] == 409
    assert f'Schema being registered is incompatible with an earlier schema for subject "{subject}"' in refused.json()["message"]
    assert "/b/" in refused.json()["message"]

    assert register(registry, subject, V2).status_code == 200
    assert registry.get(f"/subjects/{subject}/versions").json() == [1, 2]


def test_the_level_can_be_read_and_set_for_a_subject(registry, subject):
    register(registry, subject, V1)
    assert registry.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert_error(registry.get(f"/config/{subject}"), 40408, f"Subject '{subject}' does not have subject-level compatibility configured")
    assert registry.get(f"/config/{subject}?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}

    assert registry.put(f"/config/{subject}", json={"compatibility": "none"}).json() == {"compatibility": "NONE"}

    assert registry.get(f"/config/{subject}").json() == {"compatibilityLevel": "NONE"}
    assert register(registry, subject, V2_BAD).status_code == 200
    assert registry.put(f"/config/{subject}", json={"compatibility": "MAYBE"}).json()["error_code"] == 42203
    assert registry.delete(f"/config/{subject}").json() == {"compatibilityLevel": "NONE"}
    assert registry.get(f"/config/{subject}").status_code == 404


def test_compatibility_can_be_asked_without_registering(registry, subject):
    register(registry, subject, V1)
    url = f"/compatibility/subjects/{subject}/versions"

    assert registry.post(f"{url}/latest", json={"schema": V2}).json() == {"is_compatible": True}
    verbose = registry.post(f"{url}?verbose=true", json={"schema": V2_BAD}).json()
    assert verbose["is_compatible"] is False
    assert verbose["messages"]
    assert registry.post(f"{url}/7", json={"schema": V2}).json()["error_code"] == 40402


def test_what_does_not_exist(registry, subject):
    assert_error(registry.get(f"/subjects/{subject}/versions"), 40401, f"Subject '{subject}' not found.")
    assert_error(registry.get(f"/subjects/{subject}/versions/1"), 40401, f"Subject '{subject}' not found.")
    assert_error(registry.post(f"/subjects/{subject}", json={"schema": V1}), 40401, f"Subject '{subject}' not found.")
    assert_error(registry.get("/schemas/ids/999999"), 40403, "Schema 999999 not found")
    register(registry, subject, V1)
    assert_error(registry.get(f"/subjects/{subject}/versions/9"), 40402, "Version 9 not found.")
    assert_error(registry.post(f"/subjects/{subject}", json={"schema": V2}), 40403, "Schema not found")
    assert registry.get(f"/subjects/{subject}/versions/x").json()["error_code"] == 42202
    assert registry.get(f"/subjects/{subject}/versions/0").json()["error_code"] == 42202


@pytest.mark.parametrize("schema", ["", "{", '{"type":"record"}', '"nothing"'])
def test_an_invalid_schema_is_42201(registry, subject, schema):
    answer = register(registry, subject, schema)

    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)


@pytest.mark.parametrize("given", ["JSON", "avro", "Avro", "", ["AVRO"], 0])
def test_other_schema_types_are_refused(registry, subject, given):
    answer = register(registry, subject, V1, schemaType=given)

    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
    assert answer.json()["message"].startswith(f"Invalid schema type {given}")


@pytest.mark.parametrize("more", [{}, {"schemaType": None}, {"schemaType": "AVRO"}])
def test_a_schema_without_a_type_is_avro(registry, subject, more):
    assert register(registry, subject, V1, **more).status_code == 200
    assert "schemaType" not in registry.get(f"/subjects/{subject}/versions/1").json()


def test_delete_is_soft_first_then_permanent(registry, subject):
    first = register(registry, subject, V1).json()["id"]
    register(registry, subject, V2)
    url = f"/subjects/{subject}"

    assert registry.delete(f"{url}?permanent=true").json()["error_code"] == 40405
    assert registry.delete(f"{url}/versions/1").json() == 1
    assert registry.get(f"{url}/versions").json() == [2]
    assert registry.get(f"{url}/versions?deleted=true").json() == [1, 2]
    assert registry.delete(f"{url}/versions/1").json()["error_code"] == 40406
    assert registry.delete(url).json() == [2]
    assert subject not in registry.get("/subjects").json()
    assert subject in registry.get("/subjects?deleted=true").json()
    assert registry.delete(url).json()["error_code"] == 40404
    # What was written with the id can still be read.
    assert registry.get(f"/schemas/ids/{first}").status_code == 200
    # A subject that comes back goes on counting.
    assert register(registry, subject, V2).status_code == 200
    assert registry.get(f"{url}/versions").json() == [3]

    registry.delete(url)
    assert registry.delete(f"{url}?permanent=true").json() == [1, 2, 3]
    assert registry.get(f"{url}/versions?deleted=true").status_code == 404
    assert registry.delete(url).json()["error_code"] == 40401


def test_references_are_resolved_and_guarded(registry, subject):
    register(registry, f"base-{subject}", '{"type":"enum","name":"E","namespace":"x","symbols":["A"]}')
    schema = '{"type":"record","name":"R","fields":[{"name":"e","type":"x.E"}]}'
    references = [{"name": "x.E", "subject": f"base-{subject}", "version": 1}]

    assert register(registry, subject, schema).json()["error_code"] == 42201
    assert register(registry, subject, schema, references=references).status_code == 200
    assert registry.get(f"/subjects/{subject}/versions/1").json()["references"] == references
    assert registry.delete(f"/subjects/base-{subject}").json()["error_code"] == 42206
    for version in (4, "x", None, 10**400):
        assert register(registry, subject, schema, references=[{**references[0], "version": version}]).json()["error_code"] == 42201
    infinite = json.dumps({"schema": schema, "references": [{**references[0], "version": 9}]}).replace(": 9", ": 1e999")
    answer = registry.post(f"/subjects/{subject}/versions", content=infinite, headers={"Content-Type": "application/json"})
    assert answer.json()["error_code"] == 42201
    # The latest version is stored with its number.
    latest = [{**references[0], "version": -1}]
    assert register(registry, subject, schema, references=latest).status_code == 200
    assert registry.get(f"/subjects/{subject}/versions").json() == [1]
    assert registry.post(f"/subjects/{subject}", json={"schema": schema, "references": latest}).json()["references"] == references


def test_lists_have_an_offset_and_a_limit(registry, subject):
    registry.put(f"/config/{subject}", json={"compatibility": "NONE"})
    for number in range(4):
        register(registry, subject, record((f"f{number}", "int", {})))
    for other in ("x", "y"):
        register(registry, f"{subject}-{other}", record(("f0", "int", {})))
    first = registry.get(f"/subjects/{subject}/versions/1").json()["id"]
    subjects = [subject, f"{subject}-x", f"{subject}-y"]

    def asked(path, **query):
        return registry.get(path, params={"subjectPrefix": subject, **query}).json()

    assert asked(f"/subjects/{subject}/versions", offset=1, limit=2) == [2, 3]
    assert asked(f"/subjects/{subject}/versions", offset=3, limit=-1) == [4]
    assert asked("/subjects", limit=2) == subjects[:2]
    assert asked("/subjects", offset=2) == subjects[2:]
    assert [(entry["subject"], entry["version"]) for entry in asked("/schemas", offset=3, limit=2)] == [(subject, 4), (subjects[1], 1)]
    assert asked(f"/schemas/ids/{first}/subjects", offset=1, limit=1) == subjects[1:2]
    assert asked(f"/schemas/ids/{first}/versions", limit=1) == [{"subject": subject, "version": 1}]
    assert asked(f"/subjects/{subject}/versions", limit=0) == []
    assert registry.get("/subjects?limit=many").json() == {"error_code": 404, "message": "HTTP 404 Not Found"}


def test_modes(registry, subject):
    assert registry.get("/mode").json() == {"mode": "READWRITE"}

    assert registry.put(f"/mode/{subject}", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}

    assert register(registry, subject, V1).json()["error_code"] == 42205
    assert registry.get(f"/mode/{subject}").json() == {"mode": "READONLY"}
    assert registry.delete(f"/mode/{subject}").json() == {"mode": "READONLY"}
    assert register(registry, subject, V1).status_code == 200


def test_many_clients_at_once_get_one_id_for_one_schema_and_rising_ids_for_many(registry, worker, subject):
    def one(number):
        with httpx.Client(base_url=worker.url, timeout=60) as client:
            return [
                register(client, f"{subject}-{n}", record((f"f{subject[:-6]}_{n}", "int", {}))).json()["id"]
                for n in (number % 5, (number + 1) % 5)
            ]

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(one, range(40)))

    by_schema = {}
    for number, pair in enumerate(ids):
        for n, schema_id in zip((number % 5, (number + 1) % 5), pair, strict=True):
            by_schema.setdefault(n, set()).add(schema_id)
    assert all(len(found) == 1 for found in by_schema.values())
    assert len(set.union(*by_schema.values())) == 5


def test_many_schemas_are_registered_with_one_request_and_one_that_is_refused_harms_no_other(registry, subject):
    register(registry, subject, V1)
    schemas = [{"subject": f"{subject}/{n}", "schema": record((f"{subject}{n}".replace("-", "_"), "int", {}))} for n in range(150)]
    bad = [
        {"subject": subject, "schema": V2_BAD},
        {"subject": f"{subject}-x", "schema": "{}"},
        {"subject": "", "schema": V1},
        {"subject": f"{subject}-y"},
        7,
    ]

    answer = registry.post("/schemas/together", json=[*schemas[:100], *bad, *schemas[100:], schemas[0]])

    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    answers = answer.json()
    assert [each.get("error_code") for each in answers[100:105]] == [409, 42201, 42200, 42201, 400]
    assert answers[100]["message"] == register(registry, subject, V2_BAD).json()["message"]
    ids = [each["id"] for each in [*answers[:100], *answers[105:]]]
    assert len(set(ids)) == 150
    assert ids[150] == ids[0]
    assert registry.post("/schemas/together", json=schemas).json() == [{"id": schema_id} for schema_id in ids[:150]]
    assert [register(registry, each["subject"].replace("/", "%2F"), each["schema"]).json()["id"] for each in schemas[::50]] == ids[:150:50]


def test_versions_of_one_subject_keep_their_order_in_one_request(registry, subject):
    schemas = [{"subject": subject, "schema": text} for text in (V1, V2_BAD, V2, V1)]

    first, refused, second, again = registry.post("/schemas/together", json=schemas).json()

    assert (refused["error_code"], again) == (409, first)
    assert [registry.get(f"/subjects/{subject}/versions/{version}").json()["id"] for version in (1, 2)] == [first["id"], second["id"]]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"subject": "s", "schema": INT}, 400, "The request body must be a list of JSON objects"),
        ([{"subject": "s", "schema": INT}] * 201, 42200, "The list has 201 schemas, and 200 can be registered together"),
    ],
)
def test_a_list_of_schemas_that_is_none_is_refused(registry, body, code, message):
    assert_error(registry.post("/schemas/together", json=body), code, message)


def test_confluents_own_client_works_against_it(worker, subject):
    program = Path(__file__).parents[2] / "support" / "confluent_registry_client.py"

    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), worker.url, subject, V1, V2, V2_BAD],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 0, ended.stderr


def records_of(kafka, topic):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test", "enable.partition.eof": "true"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


def test_the_topic_has_confluents_records_and_a_new_worker_goes_on_from_it(kafka, own_folder):
    group = own_folder.name
    with running_worker(kafka, own_folder, group) as worker:
        assert register(worker.client, "a-value", INT).json() == {"id": 1}
        assert register(worker.client, "a-value", LONG).json() == {"id": 2}
        worker.client.put("/config/a-value", json={"compatibility": "NONE"})
        worker.client.delete("/subjects/a-value/versions/1")
        worker.client.delete("/subjects/a-value")
        worker.process.kill()
        worker.process.start()
        assert register(worker.client, "b-value", LONG).json() == {"id": 2}
        assert register(worker.client, "b-value", STRING).status_code == 409
        assert register(worker.client, "c-value", STRING).json() == {"id": 3}

    assert records_of(kafka, f"{group}-schemas")[:6] == [
        (
            b'{"keytype":"SCHEMA","subject":"a-value","version":1,"magic":1}',
            b'{"subject":"a-value","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
        ),
        (
            b'{"keytype":"SCHEMA","subject":"a-value","version":2,"magic":1}',
            b'{"subject":"a-value","version":2,"id":2,"schema":"\\"long\\"","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","subject":"a-value","magic":0}', b'{"compatibilityLevel":"NONE"}'),
        (
            b'{"keytype":"SCHEMA","subject":"a-value","version":1,"magic":1}',
            b'{"subject":"a-value","version":1,"id":1,"schema":"\\"int\\"","deleted":true}',
        ),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a-value","magic":0}', b'{"subject":"a-value","version":2}'),
        (
            b'{"keytype":"SCHEMA","subject":"b-value","version":1,"magic":1}',
            b'{"subject":"b-value","version":1,"id":2,"schema":"\\"long\\"","deleted":false}',
        ),
    ]


def large(fields):
    return record(*((f"f{number}", "int", {}) for number in range(fields)))


def nested(depth):
    schema = "int"
    for number in range(depth):
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": schema}]}
    return json.dumps(schema)


HOSTILE = {
    "25 000 fields": large(25_000),
    "100 000 fields": large(100_000),
    "a megabyte of text": record(("a", "int", {"doc": "x" * 900_000})),
    "10 000 aliases": record(("a", "int", {"aliases": [f"x{n}" for n in range(10_000)]})),
    "a number of 5000 digits": '{"type": "int", "x": ' + "9" * 5000 + "}",
    "no number": '{"type": "int", "x": 1e999}',
    "half a pair": r'{"type": "int", "x": "\ud800"}',
    "a recursive name": record(("a", ["null", "R"], {})),
    "a name that is itself": '{"type": "R"}',
    "205 records in each other": nested(205),
    "201 arrays in each other": '{"type": "array", "items": ' * 201 + '"int"' + "}" * 201,
    "brackets": "[" * 200_000,
    "a union of 16 000": json.dumps([{"type": "fixed", "name": f"F{n}", "size": 1} for n in range(16_000)]),
    "another union of 16 000": json.dumps([{"type": "fixed", "name": f"G{n}", "size": 1} for n in range(16_000)]),
    "an enum of 90 000": json.dumps({"type": "enum", "name": "E", "symbols": [f"a{n}" for n in range(90_000)]}),
    "another enum of 90 000": json.dumps({"type": "enum", "name": "E", "symbols": [f"b{n}" for n in range(90_000)]}),
}


def test_hostile_schemas_are_answered_soon_and_hold_up_nobody(registry, worker, subject):  # number 17 of the worker's safety
    """GET / beside them takes 20 to 60 ms on two idle cores; where the loop were held up it would take as long as they do."""
    waited_s: list[float] = []
    stop = threading.Event()

    def ask():
        with httpx.Client(base_url=worker.url, timeout=60) as client:
            while not stop.is_set():
                began_s = time.monotonic()
                client.get("/")
                waited_s.append(time.monotonic() - began_s)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        took = {}
        for number, (name, schema) in enumerate(HOSTILE.items()):
            for more in ("", " "):  # the second spelling is the same schema
                began_s = time.monotonic()
                answer = register(registry, f"{subject}{'' if 'of' in name else number}", schema + more)
                took[name] = time.monotonic() - began_s
                assert answer.status_code < 500, (name, answer.text[:200])
    finally:
        stop.set()
        asking.join()

    assert max(took.values()) < 8, took
    assert statistics.median(waited_s) < 0.2
    assert max(waited_s) < 1
    assert register(registry, f"{subject}-afterwards", V1).status_code == 200
