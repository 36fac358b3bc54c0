"""Debezium's transforms besides ExtractNewRecordState, by its rules."""

import json
import time

import pytest
from dblog.codecs.envelope import HEARTBEAT_VALUE, schema_change_value
from dblog.codecs.schema import Kind, Schema
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.partition_routing import java_hash
from dblog.transforms.record import Header, Record
from worker.transforms.records import DEBEZIUM, INT32, INT64, MAYBE_TEXT, SOURCE, TEXT, change, names, row, struct, tombstone, transform

TOMBSTONE = tombstone()
HEARTBEAT = Record("beat", None, None, HEARTBEAT_VALUE, {"ts_ms": 1})
OUTBOX = f"{DEBEZIUM}.outbox.EventRouter"
EVENT = struct(
    "p.d.outbox.Value",
    id=TEXT,
    aggregatetype=MAYBE_TEXT,
    aggregateid=TEXT,
    type=TEXT,
    payload=MAYBE_TEXT,
    tenant=INT32,
    version=INT32,
    at=Schema(kind=Kind.INT64, name="io.debezium.time.MicroTimestamp"),
)


def event(op="c", **changes):
    from dblog.codecs.envelope import envelope_schema

    value = {
        "id": "e1",
        "aggregatetype": "order",
        "aggregateid": "7",
        "type": "made",
        "payload": '{"a":1}',
        "tenant": 2,
        "version": 4,
        "at": 5_000_123,
    }
    record = change(op, after=row())
    return record.with_value(envelope_schema("p.d.outbox", EVENT, SOURCE), {**record.value, "after": value | changes})


# ---- routers


def test_logical_tables_share_a_topic_with_the_old_one_in_the_key():
    route = transform(f"{DEBEZIUM}.ByLogicalTableRouter", topic__regex=r"(.*)\.t", topic__replacement="$1.all")

    made = route(change("c", after=row()))

    assert (made.topic, made.key) == ("p.d.all", {"id": 1, "__dbz__physicalTableIdentifier": "p.d.t"})
    assert (made.key_schema.name, made.value_schema.name) == ("p.d.all.Key", "p.d.all.Envelope")
    rows = [field.schema for field in made.value_schema.fields[:2]]
    assert [(schema.name, schema.optional) for schema in rows] == [("p.d.all.Value", True)] * 2
    assert route(TOMBSTONE).topic == "p.d.all"
    assert route(TOMBSTONE).key == made.key
    assert route(HEARTBEAT) is HEARTBEAT


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"key__enforce__uniqueness": "false"}, {"id": 1}),
        ({"key__field__name": "shard"}, {"id": 1, "shard": "p.d.t"}),
        ({"key__field__regex": r".*\.(.*)", "key__field__replacement": "$1"}, {"id": 1, "__dbz__sourceIdentifier": "t"}),
        ({"key__field__regex": "other", "key__field__replacement": "x"}, {"id": 1, "__dbz__sourceIdentifier": "p.d.t"}),
    ],
)
def test_the_field_in_the_key_can_be_chosen(options, key):
    route = transform(f"{DEBEZIUM}.ToLogicalTopicRouter", topic__regex="(.*)", topic__replacement="all", **options)

    assert route(change("c", after=row())).key == key


def test_a_key_pattern_without_replacement_is_an_error_of_its_key():
    with pytest.raises(ConfigError, match=r"key\.field\.replacement must be non-empty if key\.field\.regex is set"):
        transform(f"{DEBEZIUM}.ByLogicalTableRouter", topic__regex="(.*)", topic__replacement="x", key__field__regex="(.*)")


def test_partitions_are_those_of_debezium():
    route = transform(
        f"{DEBEZIUM}.partitions.PartitionRouting", partition__payload__fields="change.name,source.table,nope", partition__topic__num="5"
    )
    expected = (java_hash(TEXT, "a") + java_hash(TEXT, "t")) % 5

    assert route(change("c", after=row())).partition == route(change("d", before=row())).partition == expected
    assert route(TOMBSTONE) is TOMBSTONE
    assert (
        transform(f"{DEBEZIUM}.partitions.PartitionRouting", partition__payload__fields="nope", partition__topic__num="5")(HEARTBEAT)
        is HEARTBEAT
    )
    with pytest.raises(ConfigError, match=r"transforms\.x\.partition\.topic\.num"):
        transform(f"{DEBEZIUM}.partitions.PartitionRouting", partition__payload__fields="a", partition__topic__num="0")


@pytest.mark.parametrize(
    ("schema", "value", "number"),
    [
        (TEXT, "hello", 99162322),
        (TEXT, "polygenelubricants", -2147483648),
        (INT32, -5, -5),
        (INT64, 1 << 40, 256),
        (INT64, -1, 0),
        (Schema(kind=Kind.BOOLEAN), True, 1231),
        (Schema(kind=Kind.FLOAT64), 1.5, 1073217536),
        (Schema(kind=Kind.FLOAT32), 1.5, 1069547520),
        (Schema(kind=Kind.ARRAY, items=INT32), [1, 2], 994),
    ],
)
def test_hashes_are_javas(schema, value, number):
    assert java_hash(schema, value) == number


# ---- the outbox


def test_an_inserted_row_becomes_an_event():
    made = transform(OUTBOX)(event())

    assert (made.topic, made.key, made.value, made.timestamp, made.partition) == ("outbox.event.order", "7", '{"a":1}', 7, None)
    assert (made.key_schema, made.value_schema) == (TEXT, MAYBE_TEXT)
    assert made.headers == (Header("id", TEXT, "e1"),)


def test_deletes_updates_and_tombstones_make_no_event_and_other_records_pass():
    route = transform(OUTBOX)

    assert route(event("u")) is route(change("d", before=row())) is route(TOMBSTONE) is None
    assert route(HEARTBEAT) is HEARTBEAT
    with pytest.raises(RecordError, match="Unexpected update message received"):
        transform(OUTBOX, table__op__invalid__behavior="fatal")(event("u"))


def test_further_columns_go_to_headers_to_the_value_and_to_the_partition():
    route = transform(
        OUTBOX,
        table__fields__additional__placement="type:header:eventType,tenant:envelope,tenant:partition,gone:envelope",
        table__field__additional__missing="ignore",
        table__field__event__timestamp="at",
        table__field__event__schema__version="version",
    )

    made = route(event())

    assert made.value == {"payload": '{"a":1}', "tenant": 2}
    assert (made.value_schema.name, made.value_schema.version, names(made.value_schema)) == (
        "p.d.outbox.order.Value",
        4,
        ["payload", "tenant"],
    )
    assert (made.partition, made.timestamp) == (2, 5000)
    assert made.headers[1] == Header("eventType", TEXT, "made")


def test_an_empty_payload_is_a_tombstone_only_where_asked_for():
    assert transform(OUTBOX)(event(payload=" ")).value == " "
    made = transform(OUTBOX, route__tombstone__on__empty__payload="true")(event(payload=None))
    assert (made.value, made.value_schema, made.key) == (None, None, "7")


def test_json_in_the_payload_becomes_a_struct_where_asked_for():
    route = transform(OUTBOX, table__expand__json__payload="true")
    payload = {
        "n": 1,
        "big": 1 << 40,
        "f": 1.5,
        "s": "x",
        "b": True,
        "none": None,
        "o": {"p": [1, 2]},
        "rows": [{"a": 1}, {"b": "y"}],
        "empty": [],
    }

    made = route(event(payload=json.dumps(payload)))

    assert made.value == {key: value for key, value in payload.items() if key not in ("none", "empty")}
    fields = {field.name: field.schema for field in made.value_schema.fields}
    assert [fields[name].kind for name in ("n", "big", "f", "o")] == [Kind.INT32, Kind.INT64, Kind.FLOAT64, Kind.STRUCT]
    assert names(fields["rows"].items) == ["a", "b"]
    assert (made.value_schema.name, fields["o"].name) == ("payload", "payload.o")
    assert route(event(payload=json.dumps(payload))).value_schema is made.value_schema


@pytest.mark.parametrize("payload", ["text", "[1,2]", "{broken", '{"a":[1,"x"]}'])
def test_a_payload_that_cannot_be_expanded_stays_text(payload):
    made = transform(OUTBOX, table__expand__json__payload="true")(event(payload=payload))

    assert (made.value, made.value_schema) == (payload, MAYBE_TEXT)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table__field__event__payload": "gone"}, "Unable to find payload field gone in event"),
        ({"table__field__event__id": "gone"}, "Unable to find event-id field gone in event"),
        ({"route__by__field": "gone"}, "gone is not a valid field name"),
        ({"table__fields__additional__placement": "gone:header"}, "Unable to find field gone in event"),
        ({"table__field__event__timestamp": "tenant"}, "Unsupported field type int32 for event timestamp"),
    ],
)
def test_a_column_that_the_outbox_lacks_is_an_error_of_the_record(options, text):
    with pytest.raises(RecordError, match=text):
        transform(OUTBOX, **options)(event())


def test_a_wrong_placement_is_an_error_of_its_key():
    with pytest.raises(ConfigError, match=r"transforms\.x\.table\.fields\.additional\.placement.*type:hat is not field:placement"):
        transform(OUTBOX, table__fields__additional__placement="type:hat")


# ---- headers, schema changes, moments


def test_changed_fields_are_listed_and_can_become_a_field():
    changed = transform(f"{DEBEZIUM}.ExtractChangedRecordState", header__changed__name="Changed", header__unchanged__name="Same")
    move = transform(f"{DEBEZIUM}.HeaderToValue", headers="Changed", fields="changed", operation="move")

    made = changed(change("u", before=row(), after=row(name="b")))

    assert [(header.name, header.value) for header in made.headers] == [("Changed", ["name"]), ("Same", ["id", "kind"])]
    assert made.headers[0].schema == Schema(kind=Kind.ARRAY, name="Changed", optional=True, items=MAYBE_TEXT)
    assert [header.value for header in changed(change("c", after=row())).headers] == [[], []]
    moved = move(made)
    assert (moved.value["changed"], [header.name for header in moved.headers]) == (["name"], ["Same"])
    assert names(moved.value_schema)[-1] == "changed"


def test_headers_go_into_structs_of_the_value():
    record = change("c", after=row()).with_headers((Header("h", TEXT, "x"),))

    made = transform(f"{DEBEZIUM}.HeaderToValue", headers="h", fields="source.extra", operation="copy")(record)

    assert made.value["source"]["extra"] == "x"
    assert made.headers == record.headers
    assert transform(f"{DEBEZIUM}.HeaderToValue", headers="h", fields="new.extra", operation="copy")(record).value["new"] == {"extra": "x"}
    with pytest.raises(RecordError, match="Field 'op' is a primitive type"):
        transform(f"{DEBEZIUM}.HeaderToValue", headers="h", fields="op.extra", operation="copy")(record)


@pytest.mark.parametrize(("changes", "kept"), [([{"type": "ALTER"}], True), ([{"type": "CREATE"}], False), ([], False), (None, False)])
def test_schema_changes_are_dropped_by_their_kind(changes, kept):
    drop = transform(f"{DEBEZIUM}.SchemaChangeEventFilter", schema__change__event__exclude__list="CREATE,DATABASE")
    record = Record("p", None, None, schema_change_value("mysql", SOURCE), {"tableChanges": changes})

    assert (drop(record) is not None) is kept
    assert drop(HEARTBEAT) is HEARTBEAT


def test_an_unknown_kind_of_schema_change_is_an_error_of_its_key():
    with pytest.raises(ConfigError, match="RENAME is not a kind of change; these are CREATE, ALTER, DROP, TRUNCATE, DATABASE"):
        transform(f"{DEBEZIUM}.SchemaChangeEventFilter", schema__change__event__exclude__list="RENAME")


def moment(op="c", **changes):
    from dblog.codecs.envelope import envelope_schema

    schema = struct(
        "p.d.t.Value",
        id=INT32,
        zoned=Schema(kind=Kind.STRING, name="io.debezium.time.ZonedTimestamp"),
        milli=Schema(kind=Kind.INT64, name="io.debezium.time.Timestamp"),
        micro=Schema(kind=Kind.INT64, name="io.debezium.time.MicroTimestamp"),
        day=Schema(kind=Kind.INT32, name="io.debezium.time.Date"),
    )
    value = {"id": 1, "zoned": "2020-07-01T10:00:00.5Z", "milli": 0, "micro": 0, "day": 3}
    record = change(op, after=row())
    return record.with_value(envelope_schema("p.d.t", schema, SOURCE), {**record.value, "after": value | changes})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"zoned": "2020-07-01T12:00:00.5+02:00", "milli": -3_600_000, "micro": -3_600_000_000}),
        ({"include__list": "source:t:milli"}, {"milli": -3_600_000}),
        ({"include__list": "source:other"}, {}),
        ({"include__list": "p.d.t:zoned"}, {"zoned": "2020-07-01T12:00:00.5+02:00"}),
        ({"exclude__list": "topic:p.d.t:zoned"}, {"milli": -3_600_000, "micro": -3_600_000_000}),
        ({"exclude__list": "source:t"}, {}),
    ],
)
def test_moments_move_into_the_zone(options, expected):
    made = transform(f"{DEBEZIUM}.TimezoneConverter", converted__timezone="Europe/Berlin", **options)(moment())

    assert made.value["after"] == moment().value["after"] | expected
    assert made.value["source"]["ts_ms"] == 5


def test_moments_of_the_source_move_only_where_named():
    made = transform(f"{DEBEZIUM}.TimezoneConverter", converted__timezone="+02:30", include__list="source:t:source.ts_ms")(moment())

    assert made.value["source"]["ts_ms"] == 5 + 9_000_000
    assert made.value["after"] == moment().value["after"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"converted__timezone": "Mars/Base"}, "Invalid timezone format"),
        ({"converted__timezone": "+02:00", "include__list": "t"}, "t is not a rule of the form"),
        ({"converted__timezone": "+02:00", "include__list": "source:a", "exclude__list": "source:b"}, "Please specify only one"),
    ],
)
def test_what_timezone_converter_refuses(options, text):
    with pytest.raises(ConfigError, match=text):
        transform(f"{DEBEZIUM}.TimezoneConverter", **options)


def test_dumped_rows_can_look_like_inserts():
    convert = transform("io.debezium.connector.mysql.transforms.ReadToInsertEvent")

    assert convert(change("r", after=row())).value["op"] == "c"
    assert convert(change("u", after=row())).value["op"] == "u"
    assert convert(TOMBSTONE) is TOMBSTONE


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps({"a": [{f"k{number}": 1} for number in range(20_000)]}),
        json.dumps({"a": [{"b": [{f"k{number}": 1 for number in range(20_000)}]}, {"b": [{}] * 20_000}]}),
    ],
    ids=["objects of an array", "objects of arrays of arrays"],
)
def test_objects_without_common_fields_are_left_as_text_soon(payload):  # number 17 of the worker's safety
    made = transform(OUTBOX, table__expand__json__payload="true")
    began = time.process_time()

    assert made(event(payload=payload)).value == payload

    assert time.process_time() - began < 10


def test_the_hash_of_a_long_array_takes_time_by_its_length():
    began = time.process_time()
    java_hash(Schema(kind=Kind.ARRAY, items=INT32), [7] * 300_000)
    assert time.process_time() - began < 5


def test_the_hash_of_a_long_decimal_is_that_of_all_its_digits():
    schema = Schema(kind=Kind.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters=(("scale", "2"),))
    numbers = [10**40 + 1, 10**40 + 2]
    first, second = (java_hash(schema, number.to_bytes(20, "big", signed=True)) for number in numbers)
    assert second - first == 31


MESSAGE = struct(
    "io.debezium.connector.postgresql.MessageValue",
    op=MAYBE_TEXT,
    source=SOURCE,
    message=struct("io.debezium.connector.postgresql.Message", prefix=MAYBE_TEXT, content=Schema(kind=Kind.BYTES, optional=True)),
)


def message(content):
    return Record("p.message", TEXT, "outbox", MESSAGE, {"op": "m", "source": {}, "message": {"prefix": "outbox", "content": content}})


def test_a_logical_message_of_json_becomes_an_insert_that_the_outbox_takes():
    decode = transform("io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent")
    content = b'{"id":"e1","aggregatetype":"order","aggregateid":"7","payload":"x","none":null}'

    made = decode(message(content))

    assert (made.key, made.key_schema, made.value["op"], made.value["after"]["aggregateid"]) == (None, None, "c", "7")
    assert (made.value_schema.name, names(made.value_schema)) == (f"{MESSAGE.name}.Envelope", ["op", "source", "after"])
    assert "none" not in made.value["after"]
    assert transform(OUTBOX)(made).topic == "outbox.event.order"
    assert decode(message(content)).value_schema is made.value_schema
    assert decode(HEARTBEAT) is HEARTBEAT
    assert decode(TOMBSTONE) is TOMBSTONE


@pytest.mark.parametrize("content", [b"text", b"[1]", b"{", b"\xff", b""])
def test_a_message_that_is_no_json_object_is_an_error_without_its_content(content):
    decode = transform("io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent")

    with pytest.raises(RecordError, match="the content of a logical message is not a JSON object"):
        decode(message(content))


def test_vectors_become_json_texts():
    floats = Schema(kind=Kind.ARRAY, name="io.debezium.data.FloatVector", optional=True, items=Schema(kind=Kind.FLOAT32))
    sparse = struct(
        "io.debezium.data.SparseDoubleVector",
        dimensions=Schema(kind=Kind.INT16),
        vector=Schema(kind=Kind.MAP, keys=Schema(kind=Kind.INT16), items=Schema(kind=Kind.FLOAT64)),
    )
    schema = struct("s", id=INT32, f=floats, s=sparse, inside=struct("i", f=floats).as_optional())
    convert = transform(f"{DEBEZIUM}.VectorToJsonConverter")

    made = convert(
        Record(
            "t", None, None, schema, {"id": 1, "f": [1.5, -2.0], "s": {"dimensions": 5, "vector": {3: 2.0, 1: 1.5}}, "inside": {"f": None}}
        )
    )

    assert made.value == {
        "id": 1,
        "f": '{ "values": [1.5, -2.0] }',
        "s": '{ "dimensions": 5, "vector": { "1": 1.5, "3": 2.0 } }',
        "inside": {"f": None},
    }
    assert [field.schema.name for field in made.value_schema.fields] == [None, "io.debezium.data.Json", "io.debezium.data.Json", "i"]
    assert (
        convert(Record("t", None, None, schema, {"id": 1, "f": None, "s": {"dimensions": 1, "vector": {}}, "inside": None})).value["inside"]
        is None
    )
