"""Which id a schema gets, on a real topic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.kafka import registry_store
from dblog.kafka.log import CompactedLog
from dblog.kafka.registry_store import Reference, RegistryStore


@pytest.fixture
def store(kafka, own_folder) -> Iterator[RegistryStore]:
    client = {"bootstrap.servers": kafka.bootstrap}
    new = NewTopic(own_folder.name, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient(client)
    admin.create_topics([new])[own_folder.name].result(timeout=30)

    def make_log(topic, take) -> CompactedLog:
        return CompactedLog(topic=topic, consumer_settings=client, producer_settings=client, admin_settings=client, on_record=take)

    made = RegistryStore(own_folder.name, make_log)
    made.start()
    made.set_level(None, "NONE")
    yield made
    made.stop()


def schema(number: int) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": []})


def test_a_schema_has_one_id_under_all_subjects_and_another_with_other_references(store) -> None:
    first = store.register("a", schema(1))
    same = store.register("b", json.dumps(json.loads(schema(1)), indent=4))
    other = store.register("b", schema(2))
    referring = store.register("c", schema(1), [Reference("R2", "b", other.version)])

    assert [(entry.subject, entry.version, entry.id) for entry in (first, same, other, referring)] == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("b", 2, 2),
        ("c", 1, 3),
    ]


def test_a_schema_that_another_registry_wrote_in_another_spelling_keeps_its_id(store) -> None:
    value = {"subject": "a", "version": 1, "id": 7, "schema": json.dumps(json.loads(schema(1)), indent=4)}
    store.log.put(registry_store.schema_key("a", 1), json.dumps(value).encode(), limit_s=30)

    assert (store.register("b", schema(1)).id, store.register("b", schema(2)).id) == (7, 8)


def test_each_text_is_read_a_few_times_however_many_schemas_there_are(store, monkeypatch) -> None:
    read = []
    monkeypatch.setattr(registry_store, "canonical_text", lambda text, **_: (read.append(text), text)[1])

    for number in range(100):
        store.register(f"s{number}", schema(number))

    assert len(read) <= 3 * 100
