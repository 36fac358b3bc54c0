"""The registry's decisions without a broker: its topic is a list."""

from __future__ import annotations

import json

import pytest
from dblog.kafka import registry_store
from dblog.kafka.log import LogRecord
from dblog.kafka.registry_store import Reference, RegistryStore


class Topic:
    """What is written is read back at once."""

    is_open = True

    def __init__(self, take) -> None:
        self.take = take
        self.offset = 0

    def put_all(self, writes, *, limit_s: float) -> None:
        del limit_s
        for write in writes:
            self.take(LogRecord(partition=0, offset=self.offset, timestamp_ms=0, key=write.key, value=write.value))
            self.offset += 1

    def read_to_end(self, *, limit_s: float) -> None:
        del limit_s


@pytest.fixture
def store() -> RegistryStore:
    made = RegistryStore("_schemas", lambda _, take: Topic(take))  # type: ignore[arg-type,return-value]
    made.set_level(None, "NONE")
    return made


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
    store.log.take(
        LogRecord(partition=0, offset=0, timestamp_ms=0, key=registry_store.schema_key("a", 1), value=json.dumps(value).encode())
    )

    assert (store.register("b", schema(1)).id, store.register("b", schema(2)).id) == (7, 8)


def test_each_text_is_read_a_few_times_however_many_schemas_there_are(store, monkeypatch) -> None:
    read = []
    monkeypatch.setattr(registry_store, "canonical_text", lambda text, **_: (read.append(text), text)[1])

    for number in range(100):
        store.register(f"s{number}", schema(number))

    assert len(read) <= 3 * 100
