"""The stage between encoders and queue: what is written after the chain, with which schemas and headers, and what fails."""

import gc
import json

import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import envelope_schema
from dblog.codecs.schema import Kind, Schema
from dblog.errors import DefiniteError
from dblog.kafka.converters import ByteArrayConverter, JsonConverter, NumberConverter
from dblog.model import Segment, TableId
from dblog.transforms import expanded_json
from dblog.transforms.configuration import chain_of
from dblog.transforms.dead_letters import DeadLetters
from dblog.transforms.expanded_json import JsonRules
from dblog.transforms.stage import TransformStage
from worker.transforms.records import DEBEZIUM, ENVELOPE, INT32, KAFKA, KEY, SOURCE, TEXT, change, row, struct

BARE = JsonConverter({"schemas.enable": "false"}, option_prefix="")


class Registry:
    """An Avro converter whose frames name topic and schema."""

    is_avro = True

    def __init__(self):
        self.asked = []

    def prefix(self, topic, schema):
        self.asked.append((topic, schema.name))
        return f"{topic}|{schema.name}|".encode()


def stage(converter=BARE, *, tolerate=False, context=(), **options):
    given = {"transforms": "x", **{f"transforms.x.{name.replace('__', '.')}": value for name, value in options.items()}}
    return TransformStage(chain_of(given), key_converter=converter, value_converter=converter, context_headers=context, tolerate=tolerate)


def segment(*records, headers=None, **more):
    keys = [None if one.key is None else avro.encode(KEY, one.key) for one in records]
    values = [None if one.value is None else avro.encode(ENVELOPE, one.value) for one in records]
    return Segment("p.d.t", keys, values, TableId("d", "t"), headers or {}, schemas=(KEY, ENVELOPE), **more)


def test_runs_of_one_topic_stay_one_segment_and_keep_their_order():
    router = stage(type=f"{DEBEZIUM}.ContentBasedRouter", language="jsr223.groovy", topic__expression="value.after.id > 2 ? 'big' : null")
    rows = [change("c", after=row(id=number)) for number in (1, 2, 3, 4, 1)]

    passed = router.passed([segment(*rows)])

    assert [(one.topic, [json.loads(key)["id"] for key in one.keys]) for one in passed.segments] == [
        ("p.d.t", [1, 2]),
        ("big", [3, 4]),
        ("p.d.t", [1]),
    ]
    assert passed.records == 5
    assert passed.size_bytes == sum(len(part) for one in passed.segments for part in (*one.keys, *one.values))
    assert {one.table for one in passed.segments} == {TableId("d", "t")}


def test_what_no_transform_touches_keeps_the_encoders_bytes_behind_the_frame_of_the_new_topic():
    registry = Registry()
    router = stage(
        registry, type=f"{DEBEZIUM}.ToLogicalTopicRouter", topic__regex="(.*)", topic__replacement="all", key__enforce__uniqueness="false"
    )
    one = segment(change("c", after=row()), change("c", after=row(id=2)))

    passed = router.passed([one])

    assert passed.segments[0].values == [b"all|all.Envelope|" + value for value in one.values]
    assert passed.segments[0].keys == [b"all|all.Key|" + key for key in one.keys]
    assert sorted(registry.asked) == [("all", "all.Envelope"), ("all", "all.Key")], "asked once for each schema"


TIMES = struct("p.d.t.Value", id=INT32, at=Schema(kind=Kind.STRING, name="io.debezium.time.ZonedTime"))


@pytest.mark.parametrize("value", ["24:00:00Z", "10:00:00+24:00"])
def test_a_value_that_a_transform_does_not_expect_is_an_error_of_its_record(value):  # number 17 of the worker's safety
    """PostgreSQL has 24:00 as a time, and a server may send any text."""
    schema = envelope_schema("p.d.t", TIMES, SOURCE)
    record = change("c", after={"id": 1, "at": value})
    one = Segment(
        "p.d.t", [avro.encode(KEY, record.key)], [avro.encode(schema, record.value)], TableId("d", "t"), {}, schemas=(KEY, schema)
    )
    zone = {"type": f"{DEBEZIUM}.TimezoneConverter", "converted__timezone": "Europe/Berlin"}
    tolerant = stage(**zone, tolerate=True)

    with pytest.raises(
        DefiniteError, match=r"table d.t cannot be handled: transform x .*it cannot take one of the record's values"
    ) as raised:
        stage(**zone).passed([one])
    assert value not in str(raised.value)
    assert (tolerant.passed([one]).segments, tolerant.failed_total) == ([], 1)


def test_a_header_whose_text_is_not_unicode_is_an_error_of_its_record_and_bytes_stay():
    one = outbox({"mark": "\ud800"})
    chain = {
        "transforms": "e,h",
        "transforms.e.type": f"{DEBEZIUM}.outbox.EventRouter",
        "transforms.e.table.expand.json.payload": "true",
        "transforms.h.type": f"{KAFKA}.HeaderFrom$Value",
        "transforms.h.fields": "mark",
        "transforms.h.headers": "mark",
        "transforms.h.operation": "move",
    }
    tolerant = TransformStage(chain_of(chain), key_converter=BARE, value_converter=BARE, tolerate=True)
    kept = stage(type=f"{KAFKA}.InsertHeader", header="x", value__literal="y").passed(
        [segment(change("c", after=row()), headers={0: [("h", b"\xff")]})]
    )

    assert (tolerant.passed([one]).segments, tolerant.failed_total) == ([], 1)
    assert kept.segments[0].headers == {0: [("h", b"\xff"), ("x", b"y")]}


OUTBOX = struct("p.d.o.Value", id=INT32, aggregatetype=TEXT, aggregateid=TEXT, payload=TEXT)
OUTBOX_ENVELOPE = envelope_schema("p.d.o", OUTBOX, SOURCE)


def outbox(payload):
    record = change("c", after={"id": 1, "aggregatetype": "a", "aggregateid": "1", "payload": json.dumps(payload)})
    value = avro.encode(OUTBOX_ENVELOPE, record.value)
    return Segment("p.d.o", [avro.encode(KEY, record.key)], [value], None, {}, schemas=(KEY, OUTBOX_ENVELOPE))


@pytest.mark.parametrize("converter", [BARE, JsonConverter({}, option_prefix=""), Registry()])
def test_schemas_of_payloads_take_bounded_memory_however_many_there_are(monkeypatch, converter):  # number 17
    """Whoever writes an outbox decides how many schemas its payloads have, and how large they are."""
    monkeypatch.setattr(expanded_json, "_ALL_FIELDS_MAX", 500)
    chain = {"transforms": "e,h", "transforms.h.type": f"{KAFKA}.HoistField$Value", "transforms.h.field": "event"}
    chain |= {"transforms.e.type": f"{DEBEZIUM}.outbox.EventRouter", "transforms.e.table.expand.json.payload": "true"}
    router = TransformStage(chain_of(chain), key_converter=converter, value_converter=converter)

    def kept():
        gc.collect()
        return sum(type(each) is Schema for each in gc.get_objects())

    before = kept()
    for number in range(60):
        passed = router.passed([outbox({f"n{id(router)}_{number}_{field}": 1 for field in range(50)})])
        assert len(passed.segments[0].values) == 1

    assert kept() - before < 1500, "3000 without the bound"
    assert router.passed([outbox({f"n{id(router)}_0_1": 1})]).records == 1


def test_a_payload_of_too_many_fields_is_left_as_text():
    schema, value = expanded_json.expanded(json.dumps({f"n{number}": 1 for number in range(10_001)}), TEXT, name="p", rules=JsonRules())

    assert (schema, type(value)) == (TEXT, str)
    assert expanded_json.expanded('{"a": 1}', TEXT, name="p", rules=JsonRules())[1] == {"a": 1}


def test_dropped_records_are_counted_and_finished_segments_pass():
    drop = stage(type=f"{KAFKA}.Filter")
    marker = Segment("chunks", [b"k"], [b"v"])

    passed = drop.passed([segment(change("c", after=row())), marker])

    assert (passed.segments, passed.records, passed.size_bytes, drop.dropped_total) == ([marker], 1, 2, 1)


def test_a_delete_without_schema_is_null_and_one_with_schema_is_what_json_makes_of_null():
    whole = JsonConverter({}, option_prefix="")
    delete = segment(change("d", before=row()))
    unwrap = {"type": f"{DEBEZIUM}.ExtractNewRecordState"}

    assert stage(whole, **unwrap, delete__tombstone__handling__mode="delete-to-tombstone").passed([delete]).segments[0].values == [None]
    left = json.loads(stage(whole, **unwrap).passed([delete]).segments[0].values[0])
    assert (left["payload"], left["schema"]["name"]) == (None, "p.d.t.Value")
    assert stage(Registry(), **unwrap).passed([delete]).segments[0].values == [None]


def test_headers_are_written_in_full_only_where_the_chain_has_changed_them():
    insert = stage(context=[("ctx", b"1")], type=f"{KAFKA}.InsertHeader", header="h", value__literal="x")
    same = stage(context=[("ctx", b"1")], type=f"{KAFKA}.DropHeaders", headers="other")
    one = segment(change("c", after=row()), change("d", before=row()), headers={1: [("own", b"2"), ("null", None)]})

    changed, kept = insert.passed([one]).segments[0], same.passed([one]).segments

    assert changed.headers == {0: [("ctx", b"1"), ("h", b"x")], 1: [("own", b"2"), ("null", None), ("ctx", b"1"), ("h", b"x")]}
    assert not changed.context_headers
    assert [(part.context_headers, part.headers) for part in kept] == [
        (True, {}),
        (False, {0: [("own", b"2"), ("null", None), ("ctx", b"1")]}),
    ]


def test_added_structs_and_numbers_are_texts_in_headers():
    unwrap = stage(type=f"{DEBEZIUM}.ExtractNewRecordState", add__headers="op,source.ts_ms,transaction.id")

    assert unwrap.passed([segment(change("c", after=row()))]).segments[0].headers == {
        0: [("__op", b"c"), ("__source_ts_ms", b"5"), ("__transaction_id", None)]
    }


@pytest.mark.parametrize("converter", [NumberConverter("Long"), ByteArrayConverter()])
def test_a_converter_that_cannot_write_the_value_fails_the_record_without_its_values(converter):
    hoist = stage(converter, type=f"{KAFKA}.HoistField$Value", field="v")
    deleted = segment(change("d", before=row(name="secret")).with_value(None, None))

    with pytest.raises(DefiniteError, match=r"a record of table d\.t cannot be handled: the (key|value) converter cannot write") as caught:
        hoist.passed([deleted])
    assert "secret" not in str(caught.value)


def test_a_value_without_schema_is_json_with_a_null_schema():
    hoist = stage(JsonConverter({}, option_prefix=""), type=f"{KAFKA}.HoistField$Value", field="v")

    assert hoist.passed([segment(change("d", before=row()).with_value(None, None))]).segments[0].values == [
        b'{"schema":null,"payload":{"v":null}}'
    ]


def test_tolerated_failures_are_counted_and_others_pass():
    key = stage(tolerate=True, type=f"{KAFKA}.ValueToKey", fields="op")
    passed = key.passed([segment(change("c", after=row()), change("d", before=row()).with_value(None, None))])

    assert [json.loads(one) for one in passed.segments[0].keys] == [{"op": "c"}]
    assert key.failed_total == 1


def test_a_registry_that_refuses_a_schema_is_not_a_fault_of_the_record():
    class Refusing(Registry):
        def prefix(self, topic, schema):
            raise DefiniteError("409")

    with pytest.raises(DefiniteError, match="^409$"):
        stage(Refusing(), tolerate=True, type=f"{KAFKA}.InsertHeader", header="h", value__literal="x").passed(
            [segment(change("c", after=row()))]
        )


def test_the_snapshot_marker_of_a_logged_row_is_not_set_as_in_debezium():
    unwrap = stage(type=f"{DEBEZIUM}.ExtractNewRecordState", add__fields="snapshot")
    dumped = change("r", after=row())
    dumped.value["source"]["snapshot"] = "incremental"

    values = unwrap.passed([segment(change("c", after=row()), dumped)]).segments[0].values

    assert [json.loads(value)["__snapshot"] for value in values] == [None, "incremental"]


@pytest.mark.parametrize(("tolerate", "kept"), [(False, None), (True, 1)])
def test_no_row_comes_into_a_topic_of_the_connectors_state(tolerate, kept):  # number 13 of the worker's safety
    given = {
        "transforms": "x",
        "transforms.x.type": f"{DEBEZIUM}.ContentBasedRouter",
        "transforms.x.language": "jsr223.groovy",
        "transforms.x.topic.expression": "value.after.name",
    }
    router = TransformStage(
        chain_of(given), key_converter=BARE, value_converter=BARE, tolerate=tolerate, kept_topics={"own-history": "dblog.history.topic"}
    )
    rows = [segment(change("c", after=row(id=1, name="own-history")), change("c", after=row(id=2, name="others")))]

    if not tolerate:
        with pytest.raises(
            DefiniteError, match=r"table d\.t cannot be handled: the transforms bring it into the topic of dblog\.history\.topic"
        ):
            router.passed(rows)
    else:
        assert [one.topic for one in router.passed(rows).segments] == ["others"]
        assert router.failed_total == kept


def failing(**more):
    letters = DeadLetters(topic="failed", connector="c", task=0, **more)
    given = {"transforms": "x", "transforms.x.type": f"{KAFKA}.Cast$Value", "transforms.x.spec": "name:int32"}
    chain = {**given, "transforms": "u,x", "transforms.u.type": f"{DEBEZIUM}.ExtractNewRecordState"}
    return TransformStage(chain_of(chain), key_converter=BARE, value_converter=BARE, tolerate=True, dead_letters=letters)


def test_a_dead_letter_says_where_the_record_stands_and_why_and_holds_no_column():
    passed = failing().passed([segment(change("c", after=row(name="secret")), change("c", after=row(name="7")))])

    letter, rows = passed.segments
    (about,) = map(json.loads, letter.values)
    assert (letter.topic, letter.table, letter.keys, letter.headers) == ("failed", None, [about["key_sha256"].encode()], {})
    assert (about["topic"], about["table"], about["op"], about["stage"]) == ("p.d.t", "d.t", "c", "TRANSFORMATION")
    assert about["class"] == f"{KAFKA}.Cast$Value"
    assert "secret" not in letter.values[0].decode()
    assert [json.loads(value)["name"] for value in rows.values] == [7]
    assert passed.records == 2


def test_a_dead_letter_has_the_whole_record_and_connects_headers_if_asked_for():
    (letter,) = failing(whole=True, headers=True).passed([segment(change("c", after=row(name="secret")))]).segments

    about = json.loads(letter.values[0])
    headers = dict(letter.headers[0])
    assert about["value"]["payload"]["after"]["name"] == "secret"
    assert about["key"]["payload"] == {"id": 1}
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.connector.name"] == b"c"
    assert b"secret" not in b"".join(headers.values())


def test_a_dead_letter_of_a_tombstone_has_no_value():
    hoist = {"transforms": "x", "transforms.x.type": f"{KAFKA}.HoistField$Value", "transforms.x.field": "v"}
    letters = DeadLetters(topic="failed", connector="c", task=0, whole=True)
    numbers = NumberConverter("Long")
    tolerant = TransformStage(chain_of(hoist), key_converter=numbers, value_converter=numbers, tolerate=True, dead_letters=letters)

    (letter,) = tolerant.passed([segment(change("d", before=row()).with_value(None, None))]).segments

    about = json.loads(letter.values[0])
    assert (about["stage"], about["value"], about["key"]["payload"]) == ("KEY_CONVERTER", None, {"id": 1})
