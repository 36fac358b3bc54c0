import io
import json

import fastavro
import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.schema.schema_size import TYPES_MAX
from dblog_sink.schema.writer_schemas import REFERENCES, Envelope, KeySchema, NotRows, Unreadable, key_schema, value_schema
from pyspark.sql import types as t
from support.envelopes import TableSchema, decimal, int16, logical
from support.registry_server import RegistryServer

POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "y", "type": "double"},
        {"name": "wkb", "type": ["null", "bytes"]},
        {"name": "srid", "type": ["null", "int"]},
    ],
    "connect.name": "io.debezium.data.geometry.Point",
}


def table(registry: RegistryServer, *columns, **settings) -> TableSchema:
    return TableSchema(topic="p.shop.t", columns=[("id", "long"), *columns], registry=registry, **settings)


def read(made: TableSchema) -> Envelope:
    found = value_schema(7, json.dumps(made.value_schema))
    assert isinstance(found, Envelope)
    return found


def test_an_envelope_is_known_by_its_fields(registry: RegistryServer) -> None:
    envelope = read(table(registry, ("name", ["null", "string"])))

    assert [field.name for field in envelope.fields] == ["id", "name"]
    assert envelope.has_before
    assert envelope.source_fields == {"sequence", "file", "pos", "row", "ts_ms"}


def test_a_hyphen_in_a_topic_prefix_is_no_obstacle_for_avro_of_spark(registry: RegistryServer, spark) -> None:
    made = TableSchema(
        topic="my-app.9shop.t",
        columns=[("id", "long"), ("a", ["null", POINT]), ("b", ["null", "io.debezium.data.geometry.Point"])],
        registry=registry,
    )
    envelope = read(made)
    key = key_schema(8, json.dumps(made.key_schema))

    parser = spark._jvm.org.apache.avro.Schema.Parser
    for text in (envelope.writer_text, envelope.reader_text, envelope.reader_text_with_before, key.writer_text, key.reader_text):
        assert "my_app._9shop.t" in parser().parse(text).getFullName()


def test_the_reader_schema_reads_what_the_writer_wrote_and_nothing_else(registry: RegistryServer) -> None:
    made = table(registry, ("price", ["null", decimal(12, 2)]), ("a", ["null", POINT]), ("b", ["null", "io.debezium.data.geometry.Point"]))
    envelope = read(made)
    row = {"id": 1, "price": None, "a": {"x": 1.0, "y": 2.0, "wkb": b"w", "srid": None}, "b": None}
    body = made.value_bytes("u", before=row, after=row, pos=99)[5:]

    found = fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(json.loads(envelope.writer_text)), fastavro.parse_schema(json.loads(envelope.reader_text))
    )

    assert found["after"] == row
    assert found["source"]["pos"] == 99
    assert set(found) == {"after", "source", "op"}
    assert "connect.name" not in envelope.writer_text + envelope.reader_text


def test_the_old_row_is_read_only_where_it_is_wanted(registry: RegistryServer) -> None:
    envelope = read(table(registry))

    assert '"before"' not in envelope.reader_text
    assert '"before"' in envelope.reader_text_with_before
    assert not read(table(registry, before=False)).has_before


@pytest.mark.parametrize(
    ("avro", "spark"),
    [
        ("boolean", t.BooleanType()),
        ("int", t.IntegerType()),
        (int16(), t.ShortType()),
        ({"type": "int", "connect.type": "int8"}, t.ByteType()),
        ("long", t.LongType()),
        ("float", t.FloatType()),
        ("double", t.DoubleType()),
        ("bytes", t.BinaryType()),
        (decimal(20, 0), t.DecimalType(20, 0)),
        (decimal(38, 30), t.DecimalType(38, 30)),
        (decimal(65, 30), t.StringType()),
        (logical("int", "io.debezium.time.Date"), t.DateType()),
        (logical("int", "io.debezium.time.Year"), t.IntegerType()),
        (logical("int", "io.debezium.time.Time"), t.LongType()),
        (logical("long", "io.debezium.time.MicroTime"), t.LongType()),
        (logical("long", "io.debezium.time.Timestamp"), t.TimestampNTZType()),
        (logical("long", "io.debezium.time.MicroTimestamp"), t.TimestampNTZType()),
        (logical("string", "io.debezium.time.ZonedTimestamp"), t.TimestampType()),
        ({**logical("int", "org.apache.kafka.connect.data.Date"), "logicalType": "date"}, t.DateType()),
        ({**logical("long", "org.apache.kafka.connect.data.Timestamp"), "logicalType": "timestamp-millis"}, t.TimestampNTZType()),
        ({"type": "long", "logicalType": "timestamp-micros"}, t.TimestampType()),
        (logical("bytes", "io.debezium.data.Bits"), t.BinaryType()),
        (logical("string", "io.debezium.data.Json"), t.StringType()),
        (logical("string", "some.future.Name"), t.StringType()),
        ({"type": "array", "items": ["null", "float"]}, t.ArrayType(t.FloatType())),
        ({"type": "map", "values": ["null", "string"]}, t.MapType(t.StringType(), t.StringType())),
    ],
)
def test_a_logical_type_decides_the_spark_type(registry: RegistryServer, avro, spark: t.DataType) -> None:
    by_name = {field.name: field.conversion.type for field in read(table(registry, ("c", ["null", avro]))).fields}

    assert by_name["c"] == spark


@pytest.mark.parametrize("name", ["io.debezium.connector.common.Heartbeat", "io.debezium.connector.mariadb.SchemaChangeValue"])
def test_heartbeats_and_schema_changes_are_no_rows(name: str) -> None:
    namespace, _, short = name.rpartition(".")
    schema = {"type": "record", "name": short, "namespace": namespace, "fields": [{"name": "ts_ms", "type": "long"}], "connect.name": name}

    assert value_schema(1, json.dumps(schema)) == NotRows(name)


def test_an_unwrapped_row_is_not_taken_for_an_envelope() -> None:
    found = value_schema(
        1, json.dumps({"type": "record", "name": "Value", "namespace": "p.a.b", "fields": [{"name": "id", "type": "int"}]})
    )

    assert isinstance(found, Unreadable)
    assert "records=unwrapped" in found.reason


def test_a_bare_string_is_no_envelope_and_no_key() -> None:
    assert isinstance(value_schema(1, '"string"'), Unreadable)
    assert isinstance(key_schema(1, '"string"'), Unreadable)


def test_a_key_has_its_columns_in_key_order(registry: RegistryServer) -> None:
    made = table(registry, ("line", "int"), key=("line", "id"))
    found = key_schema(3, json.dumps(made.key_schema))

    assert isinstance(found, KeySchema)
    assert [field.name for field in found.fields] == ["line", "id"]


@pytest.mark.parametrize(("first", "second"), [("Name", "name"), ("x", "_dblog_seq1")])
def test_column_names_that_delta_or_the_sink_cannot_hold_are_refused(registry: RegistryServer, first: str, second: str) -> None:
    with pytest.raises(DefiniteError, match=second):
        read(table(registry, (first, "int"), (second, "int")))


def test_a_union_of_two_types_is_refused_by_name(registry: RegistryServer) -> None:
    found = value_schema(1, json.dumps(table(registry, ("odd", ["null", "int", "string"])).value_schema))

    assert isinstance(found, Unreadable)
    assert "column odd: a union of 2 types" in found.reason


def test_rows_of_some_columns_only_are_known_by_a_parameter_of_their_schema(registry: RegistryServer) -> None:
    schema = table(registry, ("name", ["null", "string"])).value_schema
    schema["fields"][0]["type"][1]["connect.parameters"] = {"io.dblog.partial": "true"}
    row = {"type": "struct", "fields": [{"type": "int64", "field": "id"}], "name": "p.shop.t.Value", "optional": True}
    source = {"type": "struct", "fields": [{"type": "string", "field": "file"}], "name": "s", "field": "source"}
    marked = row | {"parameters": {"io.dblog.partial": "true"}}

    def in_json(image: dict) -> str:
        fields = [image | {"field": "before"}, image | {"field": "after"}, source, {"type": "string", "field": "op"}]
        return json.dumps({"schema": {"type": "struct", "fields": fields, "name": "p.shop.t.Envelope"}}, separators=(",", ":"))[:-1]

    found = [value_schema(7, text) for text in (json.dumps(schema), in_json(marked), in_json(row))]

    assert [one.partial for one in found if isinstance(one, Envelope)] == [True, True, False]


def envelope_text(column, *, references=()) -> str:
    """An envelope whose row has one column of this type, beside an id."""

    def record(name, **fields):
        return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}

    row = record("Value", id="int", c=column)
    schema = record("Envelope", op="string", source=record("Source", ts_ms="long"), after=["null", row])
    return json.dumps({REFERENCES: list(references), "schema": schema} if references else schema)


def twice(name, held, again):
    """A record that has a type twice; ``again`` is its name."""
    return {"type": "record", "name": name, "fields": [{"name": "a", "type": held}, {"name": "b", "type": again}]}


def doubled(times):
    """Records that each have the one before twice."""
    made = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for number in range(1, times + 1):
        made = twice(f"R{number}", made, f"R{number - 1}")
    return made


def test_a_schema_that_grows_without_bound_is_unreadable_at_once() -> None:  # number 37 of the sink's safety
    others = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}]
    others += [twice(f"R{number}", f"R{number - 1}", f"R{number - 1}") for number in range(1, 60)]

    for text in (envelope_text(doubled(60)), envelope_text("R59", references=others), json.dumps(doubled(60))):
        for reading in (value_schema, key_schema):
            found = reading(1, text)
            assert isinstance(found, Unreadable)
            assert f"more than {TYPES_MAX} types" in found.reason


@pytest.mark.parametrize(
    "held",
    [
        {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]},
        {"type": "record", "name": "T", "fields": [{"name": "all", "type": {"type": "array", "items": {"type": "map", "values": "T"}}}]},
        twice("T", {"type": "record", "name": "U", "fields": [{"name": "t", "type": ["null", "T"]}]}, "U"),
    ],
)
def test_a_type_that_holds_itself_makes_its_records_unreadable(held) -> None:
    for found in (value_schema(1, envelope_text(held)), key_schema(1, json.dumps(held))):
        assert isinstance(found, Unreadable)
        assert "its type T holds itself" in found.reason


@pytest.mark.parametrize(
    "text",
    [
        "{nope",
        "[1, 2]",
        "5",
        '{"type": "record"}',
        '{"type": "record", "name": "X"}',
        '{"type": "record", "name": 5, "fields": []}',
        '{"type": "record", "name": "E", "fields": [{"name": 5, "type": "int"}]}',
        '{"type": "record", "name": "E", "fields": [{"name": "a"}]}',
        envelope_text({"foo": 1}),
        envelope_text(5),
        envelope_text({"type": "bytes", "logicalType": "decimal"}),
        envelope_text({"type": "bytes", "logicalType": "decimal", "precision": "x"}),
        envelope_text({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": -5}),
        envelope_text({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9}),
        envelope_text({"type": "bytes", "connect.default": "\u0416"}),
        "[" * 100_000,
    ],
)
def test_what_is_no_schema_makes_its_records_unreadable_and_is_no_error(text) -> None:
    assert isinstance(value_schema(1, text), Unreadable)
    assert isinstance(key_schema(1, text), Unreadable) or "Envelope" in text


def test_a_schema_that_is_nested_too_deeply_is_unreadable() -> None:
    assert isinstance(
        value_schema(1, envelope_text("X").replace('"X"', '{"type":"array","items":' * 3000 + '"int"' + "}" * 3000)), Unreadable
    )


def test_a_schema_that_others_define_over_several_steps_is_whole() -> None:
    others = [twice("R0", "int", "string"), twice("R1", "R0", "R0"), twice("R2", "R1", "R0")]

    found = value_schema(1, envelope_text("R2", references=others))

    assert isinstance(found, Envelope)
    for text in (found.writer_text, found.reader_text, found.reader_text_with_before):
        fastavro.parse_schema(json.loads(text))
    assert [found.writer_text.count(f'"name":"R{number}"') for number in range(3)] == [1, 1, 1]


def with_source(**fields: object) -> str:
    """An envelope whose source block has these fields."""
    schema = json.loads(envelope_text("int"))
    schema["fields"][1]["type"] = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }
    return json.dumps(schema)


POISON = {
    "no row": json.dumps({"type": "record", "name": "E", "fields": [{"name": n, "type": "string"} for n in ("op", "source", "after")]}),
    "two types": envelope_text(["null", "int", "string"]),
    "unknown type": envelope_text("nowhere.Defined"),
    "no digits": envelope_text({"type": "bytes", "logicalType": "decimal", "precision": 0}),
    "name": envelope_text({"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}),
    "name of a type": envelope_text({"type": "enum", "name": "9", "symbols": ["A"]}),
    "defined twice": envelope_text({"type": "record", "name": "Value", "fields": [{"name": "a", "type": "int"}]}),
    "no symbols": envelope_text({"type": "enum", "name": "N", "symbols": []}),
    "symbols": envelope_text({"type": "enum", "name": "N", "symbols": ["A", "A"]}),
    "symbols that are none": envelope_text({"type": "enum", "name": "N", "symbols": "AB"}),
    "size": envelope_text({"type": "fixed", "name": "N", "size": -1}),
    "large size": envelope_text({"type": "fixed", "name": "N", "size": 1 << 31}),
    "union in union": envelope_text({"type": "array", "items": ["null", ["null", "int"]]}),
    "position": with_source(file="string", pos="boolean"),
    "position of structs": with_source(file="string", pos={"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]}),
    "file": with_source(file="long", pos="long"),
}
"""Schemas that Spark's Avro, or the statement that reads records with them, refuses with an error of Java."""


@pytest.mark.parametrize("name", POISON)
def test_a_schema_that_no_plan_can_have_makes_its_records_unreadable_and_stops_nobody(name: str) -> None:  # number 37 of the sink's safety
    assert isinstance(value_schema(1, POISON[name]), Unreadable)


@pytest.mark.parametrize(
    "kind", [{"type": "map", "values": "int"}, {"type": "enum", "name": "N", "symbols": []}, ["null", "int", "string"]]
)
def test_a_key_by_which_no_row_is_known_is_unreadable(kind: object) -> None:  # number 37 of the sink's safety
    text = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": kind}]})

    assert isinstance(key_schema(1, text), Unreadable)


def test_a_number_below_its_digits_has_as_many_digits_as_its_scale() -> None:
    found = value_schema(1, envelope_text({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}))

    assert isinstance(found, Envelope)
    assert [field.conversion.type for field in found.fields if field.name == "c"] == [t.DecimalType(5, 5)]
