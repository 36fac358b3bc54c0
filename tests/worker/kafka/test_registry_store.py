"""Which id a schema gets, on a real topic."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.errors import TransientError
from dblog.kafka import fenced, registry_store
from dblog.kafka.log import CompactedLog, LogRecord
from dblog.kafka.registry_store import Reference, RegistryError, RegistryStore, schema_key


@pytest.fixture
def another_store(kafka, own_folder) -> Iterator[Callable[[], RegistryStore]]:
    """Makes stores of one topic, as workers of several groups have them."""
    client = {"bootstrap.servers": kafka.bootstrap}
    new = NewTopic(own_folder.name, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient(client)
    admin.create_topics([new])[own_folder.name].result(timeout=30)

    def make_log(topic, take) -> CompactedLog:
        return CompactedLog(topic=topic, consumer_settings=client, producer_settings=client, admin_settings=client, on_record=take)

    with contextlib.ExitStack() as opened:

        def make() -> RegistryStore:
            made = RegistryStore(own_folder.name, make_log)
            made.start()
            opened.callback(made.stop)
            return made

        yield make


@pytest.fixture
def store(another_store) -> RegistryStore:
    made = another_store()
    made.set_level(None, "NONE")
    return made


class LateProducer(Producer):
    """While ``held``, what is written does not leave; ``land`` sends it, as a network does that was slow."""

    held = False
    made: ClassVar[list[Any]] = []

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.kept: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.made.append(self)

    def produce(self, *args: Any, **more: Any) -> None:
        if self.held:
            self.kept.append((args, more))
        else:
            super().produce(*args, **more)

    def commit_transaction(self, *args: Any) -> None:
        if self.held:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's local codes are spelled so
        super().commit_transaction(*args)

    def land(self) -> None:
        kept, self.kept = self.kept, []
        for args, more in kept:
            super().produce(*args, **{**more, "on_delivery": None})
        super().flush(10)
        super().commit_transaction(10)


@pytest.fixture
def late(monkeypatch) -> type[LateProducer]:
    monkeypatch.setattr(fenced, "Producer", LateProducer)
    monkeypatch.setattr(registry_store, "WRITE_LIMIT_S", 3.0)
    monkeypatch.setattr(LateProducer, "made", [])
    return LateProducer


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


def test_each_text_is_read_once_however_many_schemas_there_are(store, monkeypatch) -> None:
    read = []
    monkeypatch.setattr(registry_store, "canonical_text", lambda text, **_: (read.append(text), text)[1])

    for number in range(100):
        store.register(f"s{number}", schema(number))

    assert len(read) == 100, "what a client wrote is read once, and what comes back from the topic is known"


def test_stores_of_two_groups_give_each_id_to_one_schema(store, another_store) -> None:
    stores = [store, another_store()]

    def register(number: int) -> tuple[int, str]:
        # Every third schema is one that both register, half of the subjects are shared.
        text = schema(number // 2) if number % 3 == 0 else schema(1000 + number)
        return stores[number % 2].register(f"s{number % 7}" if number % 4 < 2 else f"own{number}", text).id, text

    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(register, range(60)))

    fresh = another_store()
    texts = {schema_id: fresh.schema(schema_id).schema for schema_id, _ in given}
    assert [(i, json.loads(texts[i])) for i, _ in given] == [(i, json.loads(text)) for i, text in given]
    assert len(texts) == len({text for _, text in given})
    # No version was lost to another store's.
    for subject in fresh.subjects():
        assert [entry.version for entry in fresh.versions(subject)] == list(range(1, len(fresh.versions(subject)) + 1))


def test_a_decision_is_made_again_when_another_store_has_written_meanwhile(store, another_store, monkeypatch) -> None:
    other = another_store()
    store.register("s", schema(1))
    check = registry_store.check_level
    between = iter([lambda: other.register("s", schema(2))])

    def check_beside_another(*args: Any, **more: Any) -> list[str]:
        next(between, lambda: None)()
        return check(*args, **more)

    monkeypatch.setattr(registry_store, "check_level", check_beside_another)
    entry = store.register("s", schema(3))

    assert (entry.version, entry.id) == (3, 3)
    assert [(e.version, e.id, json.loads(e.schema)["name"]) for e in another_store().versions("s")] == [
        (1, 1, "R1"),
        (2, 2, "R2"),
        (3, 3, "R3"),
    ]


def test_a_write_that_timed_out_and_comes_later_takes_no_id(store, another_store, late, monkeypatch) -> None:
    store = another_store()
    monkeypatch.setattr(late, "held", True)
    with pytest.raises(TransientError):
        store.register("a", schema(1))
    (slow,) = [producer for producer in late.made if producer.kept]
    monkeypatch.setattr(late, "held", False)

    entry = store.register("a", schema(2))
    with contextlib.suppress(KafkaException):
        slow.land()
    again = store.register("a", schema(1))

    assert (entry.id, again.id) == (1, 2)
    fresh = another_store()
    assert [(e.version, e.id, json.loads(e.schema)["name"]) for e in fresh.versions("a")] == [(1, 1, "R2"), (2, 2, "R1")]


def test_the_first_owner_of_an_id_keeps_it_whoever_else_claims_it(store, another_store) -> None:
    """What a registry that knows no fence, or an earlier version of this one, has left in the topic."""
    store.register("a", schema(1))
    for subject, version, number in (("b", 1, 2), ("a", 1, 3)):
        value = {"subject": subject, "version": version, "id": 1, "schema": json.dumps(json.loads(schema(number)))}
        store.log.put(registry_store.schema_key(subject, version), json.dumps(value).encode(), limit_s=30)
    fresh = another_store()

    assert (fresh.register("b", schema(2)).id, fresh.register("a", schema(3)).id, fresh.register("c", schema(1)).id) == (2, 3, 1)
    last = another_store()
    assert {(e.subject, e.version, e.id, json.loads(e.schema)["name"]) for e in last.all()} == {
        ("a", 1, 1, "R1"),
        ("a", 2, 3, "R3"),
        ("b", 1, 2, "R2"),
        ("c", 1, 1, "R1"),
    }


class HeldLog:
    """A topic in memory: what its writer writes is read back at once."""

    def __init__(self, topic, take) -> None:
        self.topic, self._take = topic, take
        self.records: list[LogRecord] = []
        self.overtaken = 0
        self.taken = False
        self.reads = 0

    def fenced_writer(self) -> HeldLog:
        return self

    def take(self, *, limit_s: float) -> bool:
        if self.overtaken > 0:
            self.overtaken -= 1
            raise fenced.Overtaken("another worker writes the topic")
        was, self.taken = self.taken, True
        return not was

    def read_to_end(self, *, limit_s: float) -> None:
        self.reads += 1

    def read_back(self, written, *, limit_s: float) -> None:
        pass

    def write(self, writes, *, limit_s: float) -> list[tuple[int, int]]:
        for write in writes:
            self.add(write.key, write.value)
        return []

    def add(self, key: bytes, value: bytes | None) -> None:
        self.records.append(LogRecord(0, len(self.records), key, value))
        self._take(self.records[-1])

    def compacted(self) -> list[LogRecord]:
        """What is left when tombstones have gone too."""
        newest = {record.key: record for record in self.records}
        return [record for record in self.records if newest[record.key] is record and record.value is not None]


def held_store(*records: LogRecord) -> tuple[RegistryStore, HeldLog]:
    logs: list[HeldLog] = []

    def make_log(topic, take):
        logs.append(HeldLog(topic, take))
        return logs[0]

    made = RegistryStore("t", make_log)
    for record in records:
        logs[0].add(record.key, record.value)
    return made, logs[0]


@pytest.mark.parametrize("whole", [True, False])
def test_the_id_of_a_schema_that_was_deleted_for_good_is_given_to_no_other_after_compaction(whole) -> None:
    store, log = held_store()
    assert [store.register(subject, schema(number)).id for number, subject in enumerate("ab", 1)] == [1, 2]
    for permanent in (False, True):
        if whole:
            store.delete_subject("b", permanent=permanent)
        else:
            store.delete_version("b", "1", permanent=permanent)

    again, _ = held_store(*log.compacted())

    assert again.subjects(deleted=True) == ["a"]
    assert again.register("c", schema(3)).id == 3


def test_who_still_has_the_topic_reads_it_to_the_end_once_and_again_only_to_refuse() -> None:
    store, log = held_store()
    for number in range(20):
        store.register(f"s{number}", schema(number))
    assert log.reads == 1

    with pytest.raises(RegistryError):
        store.delete_subject("s1", permanent=True)
    assert log.reads == 2, "what another worker wrote may allow it"
    log.taken = False  # another worker has fenced this one
    store.register("t", schema(1))
    assert log.reads == 3


def test_the_time_of_a_write_begins_with_its_turn(monkeypatch) -> None:
    store, log = held_store()
    monkeypatch.setattr(registry_store, "WRITE_LIMIT_S", 0.5)
    with ThreadPoolExecutor(1) as pool:
        with store.writing:
            waiting = pool.submit(store.register, "a", schema(1))
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.6)
            log.overtaken = 1

        assert waiting.result(timeout=10).id == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (schema_key, b"[]"),
        (schema_key, b'"text"'),
        (schema_key, b"7"),
        (schema_key, b'{"id":8,"schema":"{}","references":[7]}'),
        (None, b"{}"),
        (b"[1]", b"{}"),
        (b"7", None),
        (b"no JSON", b"{}"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b"[1]"),
        (b'{"keytype":"CONFIG","subject":"a","magic":0}', b"[1]"),
        (b'{"keytype":"NOOP","magic":0}', b'{"idMax":"9"}'),
    ],
)
def test_a_record_that_is_no_registry_record_is_skipped(key, value) -> None:
    store, log = held_store()
    store.register("a", schema(1))

    log.add(key("a", 1) if callable(key) else key, value)

    assert [(entry.id, entry.deleted) for entry in store.versions("a")] == [(1, False)]
    assert store.register("a", schema(1)).id == 1
    assert store.register("b", schema(2)).id == 2


POISON = [
    (b"{}", b"{}"),
    (b"", b"x"),
    (b"[1]", b"[1]"),
    (json.dumps({"keytype": "CONFIG", "subject": None, "magic": 0}).encode(), b'"NONE"'),
    (json.dumps({"keytype": "CONFIG", "subject": None, "magic": 0}).encode(), b"NONE"),
    (json.dumps({"keytype": "CONFIG", "subject": [], "magic": 0}).encode(), b'{"compatibilityLevel": "NONE"}'),
    (json.dumps({"keytype": "CONFIG", "subject": None, "magic": 0}).encode(), b'{"compatibilityLevel": ["NONE"]}'),
    (json.dumps({"keytype": "MODE", "subject": {}, "magic": 0}).encode(), b'{"mode": "READONLY"}'),
    (json.dumps({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}).encode(), b'{"version": Infinity}'),
    (json.dumps({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}).encode(), b'{"version": ' + b"9" * 5000 + b"}"),
    (json.dumps({"keytype": "NOOP", "magic": 0}).encode(), b'{"idMax": 99999999999999999999}'),
    (schema_key("poisoned", 1), b'{"id": 1e400, "schema": "x"}'),
    (schema_key("poisoned", 1), b'{"id": 7, "schema": "\\"int\\"", "references": [1]}'),
    (schema_key("poisoned", 1), b"[" * 100_000),
]


def test_a_record_that_nobody_understands_ends_neither_the_registry_nor_its_next_start(kafka, own_folder, store, another_store) -> None:
    """Number 13 of the worker's safety."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for key, value in POISON:
        producer.produce(own_folder.name, key=key, value=value)
    producer.flush(30)

    entry = store.register("s", schema(1))
    again = another_store()

    assert store.log.ended is None
    assert again.skipped >= len(POISON) - 4
    assert (entry.id, again.schema(1).schema) == (1, entry.schema)


def test_registrations_that_wait_for_their_turn_are_written_together_and_one_that_is_refused_harms_no_other(store, monkeypatch) -> None:
    store.set_level(None, "FULL")
    store.register("s0", schema(0))
    transactions: list[int] = []
    write = fenced.FencedWriter.write

    def counted(self, writes, *, limit_s):
        transactions.append(len(writes))
        return write(self, writes, limit_s=limit_s)

    monkeypatch.setattr(fenced.FencedWriter, "write", counted)
    refused = json.dumps({"type": "record", "name": "R0", "fields": [{"name": "new", "type": "int"}]})
    wanted = [*((f"s{n}", schema(n)) for n in range(1, 13)), ("s0", refused), ("twin a", schema(99)), ("twin b", schema(99))]

    with ThreadPoolExecutor(len(wanted)) as pool:
        with store.writing:
            waiting = [pool.submit(store.register, *each) for each in wanted]
            until(lambda: len(store._waiting) == len(wanted))  # noqa: SLF001
        answers = [each.exception(30) or each.result() for each in waiting]

    assert isinstance(answers[12], RegistryError)
    assert answers[12].code == 409
    entries = [each for each in answers if not isinstance(each, Exception)]
    assert sorted({entry.id for entry in entries}) == list(range(2, 15))
    assert entries[-1].id == entries[-2].id, "one schema has one id"
    assert [store.version(subject, "latest") for subject, _ in [*wanted[:12], *wanted[13:]]] == entries
    assert transactions == [14]


def test_versions_of_one_subject_that_wait_together_are_registered_one_after_the_other(store) -> None:
    with ThreadPoolExecutor(5) as pool:
        with store.writing:
            waiting = [pool.submit(store.register, "s", schema(n)) for n in range(5)]
            until(lambda: len(store._waiting) == 5)  # noqa: SLF001
        entries = [each.result(30) for each in waiting]

    assert sorted(entry.version for entry in entries) == [1, 2, 3, 4, 5]
    assert len({entry.id for entry in entries}) == 5


def until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(2000):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("it never became true")


def test_a_store_that_stops_ends_the_waits_of_those_who_have_not_had_their_turn(store) -> None:
    with ThreadPoolExecutor(3) as pool, store.writing:
        waiting = [pool.submit(store.register, "s", schema(n)) for n in range(3)]
        store.stop()

        for answer in waiting:
            with pytest.raises(TransientError, match="this worker stops"):
                answer.result(10)


def test_references_that_double_at_every_level_are_visited_once(store) -> None:
    """Number 12 of the worker's safety."""
    store.register("t0", json.dumps({"type": "record", "name": "T0", "fields": []}))
    for n in range(1, 25):
        fields = [{"name": name, "type": f"T{n - 1}"} for name in "ab"]
        references = [Reference(f"T{n - 1}", f"t{n - 1}", 1), Reference(f"T{n - 1}", f"t{n - 1}", 1)]
        store.register(f"t{n}", json.dumps({"type": "record", "name": f"T{n}", "fields": fields}), references)

    assert store.problems("t24", json.dumps({"type": "record", "name": "T24", "fields": []}), (), "AVRO", None) == []


def test_too_long_a_chain_of_references_is_refused(store) -> None:
    """Number 12."""
    store.register("t0", json.dumps({"type": "record", "name": "T0", "fields": []}))

    def chain(length: int) -> None:
        for n in range(1, length):
            text = json.dumps({"type": "record", "name": f"T{n}", "fields": [{"name": "a", "type": f"T{n - 1}"}]})
            store.register(f"t{n}", text, [Reference(f"T{n - 1}", f"t{n - 1}", 1)])

    with pytest.raises(RegistryError, match="over 50 steps"):
        chain(60)


def nested(levels: int) -> str:
    """Records inside each other, and one array."""
    kind: Any = {"type": "array", "items": "int"}
    for number in range(levels):
        kind = {"type": "record", "name": f"N{number}", "fields": [{"name": "f", "type": kind}]}
    return json.dumps(kind, separators=(",", ":"))


def test_a_schema_too_deep_to_read_keeps_no_other_from_being_registered() -> None:
    """An earlier version took such a schema, and Confluent's registry takes it still."""
    store, log = held_store()
    store.set_level(None, "NONE")
    for version, levels in enumerate((197, 250, 300), 1):
        log.add(schema_key("deep", version), json.dumps({"id": version, "schema": nested(levels)}).encode())

    assert store.register("a", schema(1)).id == 4
    assert store.register("deep", schema(2)).version == 4
    assert store.schema(1).schema == nested(197)


def test_no_depth_that_is_taken_is_too_deep_later() -> None:
    store, _ = held_store()
    store.set_level(None, "FULL_TRANSITIVE")
    deepest = 0

    def register(subject: str, text: str, frames: int = 40) -> int:
        """With as many frames below it as a request has."""
        return store.register(subject, text).id if frames == 0 else register(subject, text, frames - 1)

    for levels in range(1, 230, 3):
        try:
            register(f"s{levels}", nested(levels))
        except RegistryError as e:
            assert e.code == 42201  # noqa: PT017  the others are taken
        else:
            deepest = levels
            # It can be compared, and others can be registered beside it.
            register(f"s{levels}", json.dumps({**json.loads(nested(levels)), "doc": "x"}))
        register(f"other{levels}", schema(levels))

    assert 50 <= deepest <= 70


@pytest.mark.parametrize("last", [{"key": ("s", 1), "id": (1 << 31) - 1}, {"key": ("s", (1 << 31) - 1), "id": 1}])
def test_a_registration_ends_when_the_numbers_are_used_up(last) -> None:
    store, log = held_store()
    store.set_level(None, "NONE")
    log.add(schema_key(*last["key"]), json.dumps({"id": last["id"], "schema": schema(1)}).encode())
    records = len(log.records)

    with pytest.raises(RegistryError, match="the last one there is") as refused:
        store.register("s", schema(2))

    assert (refused.value.code, len(log.records)) == (50001, records)
    assert store.register("t", schema(1)).id == last["id"], "what has an id keeps it"


def test_a_registration_ends_when_what_it_writes_is_never_read_back(monkeypatch) -> None:
    store, log = held_store()
    written: list[Any] = []
    monkeypatch.setattr(log, "write", lambda writes, **_: written.extend(writes) or [])

    with pytest.raises(TransientError, match="another program writes t"):
        store.register("s", schema(1))

    assert len(written) <= 20


def test_a_reference_to_the_latest_version_is_stored_with_its_number_and_guards_it() -> None:
    store, log = held_store()
    store.set_level(None, "NONE")
    referring = json.dumps({"type": "record", "name": "R", "fields": [{"name": "e", "type": "E"}]})
    enums = [json.dumps({"type": "enum", "name": "E", "symbols": list(symbols)}) for symbols in ("A", "AB", "ABC")]
    store.register("e", enums[0])
    store.register("e", enums[1])

    entry = store.register("r", referring, [Reference("E", "e", -1)])
    store.register("e", enums[2])

    assert entry.references == (Reference("E", "e", 2),)
    assert store.lookup("r", referring, [Reference("E", "e", 2)], "AVRO") == entry
    with pytest.raises(RegistryError) as refused:
        store.delete_version("e", "2", permanent=False)
    assert refused.value.code == 42206
    # What an earlier version stored as it was given guards every version.
    log.add(
        schema_key("old", 1),
        json.dumps({"id": 9, "schema": referring, "references": [{"name": "E", "subject": "e", "version": -1}]}).encode(),
    )
    with pytest.raises(RegistryError) as refused:
        store.delete_version("e", "1", permanent=False)
    assert refused.value.code == 42206


def test_a_reference_that_is_none_in_the_topic_is_skipped_and_breaks_no_registration() -> None:
    store, log = held_store()
    for reference in (
        {"name": [], "subject": "e", "version": 1},
        {"name": "E", "subject": {}, "version": 1},
        {"name": "E", "subject": "e", "version": []},
    ):
        log.add(schema_key("odd", 1), json.dumps({"id": 1, "schema": schema(1), "references": [reference]}).encode())

    assert store.skipped == 3
    assert store.register("s", schema(1)).id == 1


def test_versions_and_references_too_large_to_read_in_a_second_are_refused() -> None:
    store, _ = held_store()
    store.set_level(None, "BACKWARD_TRANSITIVE")
    doc = "x" * 950_000
    for number in range(11):
        store.register(f"r{number}", json.dumps({"type": "record", "name": f"R{number}", "doc": doc, "fields": []}))
    for number in range(10):
        store.register("many", json.dumps({"type": "record", "name": "M", "doc": doc + str(number), "fields": []}))

    with pytest.raises(RegistryError, match="characters together"):
        store.register("s", schema(1), [Reference(f"R{number}", f"r{number}", 1) for number in range(11)])
    store.register("many", json.dumps({"type": "record", "name": "M", "doc": doc, "fields": []}))
    with pytest.raises(RegistryError, match="too large to compare") as refused:
        store.register("many", schema(1))
    assert refused.value.code == 409


def test_texts_are_compared_without_the_lock_that_readers_wait_for_and_each_once(monkeypatch) -> None:
    """A reader is the loop that answers every request, and a subject may have many versions of a megabyte."""
    made, _ = held_store()
    made.set_level("s", "NONE")
    read = []

    def canonical(text, **_):
        read.append(text)
        with ThreadPoolExecutor(1) as reader:
            assert reader.submit(made.subjects).result(timeout=10) in ([], ["s"]), "a reader does not wait"
        return text

    monkeypatch.setattr(registry_store, "canonical_text", canonical)

    for number in range(50):
        made.register("s", schema(number))
    made.lookup("s", schema(7), (), "AVRO")

    assert len(read) <= 3 * 50


def test_a_schema_whose_record_kafka_would_not_take_is_invalid_and_writes_nothing() -> None:
    made, log = held_store()
    text = json.dumps({"type": "record", "name": "R", "fields": [], "doc": '"' * 490_000})

    with pytest.raises(RegistryError, match="more than 999000 bytes") as raised:
        made.register("s", text)
    assert (raised.value.status, log.records) == (422, [])
    assert made.register("s", schema(1)).id == 1
