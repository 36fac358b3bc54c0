"""Avro schema text against Confluent's AvroData, and the plain writer against fastavro."""

import io
import json
import math

import fastavro
import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import NameAdjustment, envelope_schema, key_schema, row_schema, struct
from dblog.codecs.javatext import as_float32, double_text, float_text
from dblog.codecs.schema import Field, Kind, Schema
from dblog.dialects.mysql.binlog.source_block import source_schema
from dblog.errors import DefiniteError
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_table import RECORDED, plan_of_the_recording


def test_key_and_envelope_have_the_text_that_debezium_registers():
    plan = plan_of_the_recording()

    assert plan.topic == RECORDED["OK"]
    assert avro.avro_text(plan.key_schema) == RECORDED["KEY"]
    assert avro.avro_text(plan.value_schema) == RECORDED["VALUE"]


def test_a_frame_is_a_zero_byte_and_the_id():
    assert avro.frame(258) == b"\x00\x00\x00\x01\x02"


# --- values ----------------------------------------------------------------------------------------------------------


def read(schema, data):
    parsed = fastavro.parse_schema(json.loads(avro.avro_text(schema)))
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, parsed, None, return_record_name=False)
    assert stream.read() == b""
    return value


INTEGERS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63}
SCALARS = {
    **{kind: st.integers(-(1 << bits), (1 << bits) - 1) for kind, bits in INTEGERS.items()},
    Kind.FLOAT32: st.floats(width=32, allow_nan=False),
    Kind.FLOAT64: st.floats(allow_nan=False),
    Kind.BOOLEAN: st.booleans(),
    Kind.STRING: st.text(st.characters(exclude_categories=["Cs"])),
    Kind.BYTES: st.binary(),
}


@st.composite
def scalars(draw):
    kind = draw(st.sampled_from(sorted(SCALARS, key=lambda k: k.value)))
    default = draw(st.none() | SCALARS[kind])
    if isinstance(default, float) and math.isinf(default):
        default = 1.0
    return Schema(kind=kind, optional=draw(st.booleans()), default=default)


def nested(inner):
    names = st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=4, unique=True)

    @st.composite
    def compound(draw):
        optional = draw(st.booleans())
        match draw(st.sampled_from(["array", "map", "entries", "struct"])):
            case "array":
                return Schema(kind=Kind.ARRAY, optional=optional, items=draw(inner))
            case "map":
                return Schema(kind=Kind.MAP, optional=optional, keys=Schema(kind=Kind.STRING), items=draw(inner))
            case "entries":
                name = f"m.M{draw(st.uuids()).hex}"
                return Schema(kind=Kind.MAP, name=name, optional=optional, keys=Schema(kind=Kind.INT32), items=draw(inner))
            case _:
                fields = tuple(Field(name=n, schema=draw(inner)) for n in draw(names))
                return Schema(kind=Kind.STRUCT, name=f"s.S{draw(st.uuids()).hex}", optional=optional, fields=fields)

    return compound()


SCHEMAS = st.recursive(scalars(), nested, max_leaves=6)


def values(schema):
    """Values of a schema, and what fastavro reads of them."""
    match schema.kind:
        case Kind.STRUCT:
            plain = st.fixed_dictionaries({f.name: values(f.schema) for f in schema.fields})
        case Kind.ARRAY:
            plain = st.lists(values(schema.items), max_size=3)
        case Kind.MAP:
            plain = st.dictionaries(values(schema.keys), values(schema.items), max_size=3)
        case _:
            plain = SCALARS[schema.kind]
    return st.none() | plain if schema.optional else plain


def as_read(schema, value):
    if value is None:
        return None
    match schema.kind:
        case Kind.STRUCT:
            return {f.name: as_read(f.schema, value[f.name]) for f in schema.fields}
        case Kind.ARRAY:
            return [as_read(schema.items, item) for item in value]
        case Kind.MAP if schema.keys.kind is Kind.STRING:
            return {k: as_read(schema.items, v) for k, v in value.items()}
        case Kind.MAP:
            return [{"key": k, "value": as_read(schema.items, v)} for k, v in value.items()]
        case _:
            return value


@given(st.data())
def test_what_the_writer_writes_an_independent_reader_reads(data):
    schema = data.draw(SCHEMAS)
    value = data.draw(values(schema))

    assert read(schema, avro.encode(schema, value)) == as_read(schema, value)


def test_the_null_branch_comes_second_when_there_is_a_default():
    plain = Schema(kind=Kind.INT32, optional=True)
    with_default = Schema(kind=Kind.INT32, optional=True, default=5)

    assert (avro.null_branch(plain), avro.null_branch(with_default)) == (0, 1)
    assert [avro.encode(plain, v) for v in (None, 1)] == [b"\x00", b"\x02\x02"]
    assert [avro.encode(with_default, v) for v in (None, 1)] == [b"\x02", b"\x00\x02"]


def test_a_null_stays_null_and_an_absent_field_gets_its_default():
    schema = struct("s", ("a", Schema(kind=Kind.INT32, optional=True, default=5)))

    assert read(schema, avro.encode(schema, {"a": None})) == {"a": None}
    assert read(schema, avro.encode(schema, {})) == {"a": 5}


def test_a_null_for_a_required_field_is_its_default_or_refused():
    assert avro.encode(Schema(kind=Kind.INT32, default=5), None) == b"\x0a"
    with pytest.raises(DefiniteError, match="null for a required int32"):
        avro.encode(Schema(kind=Kind.INT32), None)


def test_a_field_that_the_schema_has_not_is_a_bug():
    with pytest.raises(AssertionError, match="no such field"):
        avro.encode(struct("s", ("a", Schema(kind=Kind.INT32))), {"a": 1, "b": 2})


def test_decimals_are_read_back_with_their_scale():
    plan = plan_of_the_recording()
    row = {"region": "de", "id": 1, "price": b"\x00\x96", "state": "a", "at": "x", "place": None, "spot": {"x": 1.0, "y": 2.0}, "small": -1}
    source = {"version": "v", "connector": "mysql", "name": "p", "ts_ms": 1, "db": "db", "server_id": 1, "file": "f", "pos": 4, "row": 0}

    value = read(plan.value_schema, avro.encode(plan.value_schema, {"after": row, "source": source, "op": "c"}))

    assert str(value["after"]["price"]) == "1.50"
    assert value["after"]["spot"] == {"x": 1.0, "y": 2.0, "wkb": None, "srid": None}
    assert value["source"]["snapshot"] == "false"
    assert value["before"] is None


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_hyphen_in_the_topic_prefix_stays_in_the_namespace_unless_names_are_adjusted():
    """As Confluent's converter 7.0.16 (Avro 1.11) wrote it for Debezium 3.6.1."""
    fields = [("id", Schema(kind=Kind.INT32))]

    assert json.loads(avro.avro_text(key_schema("my-app.db.t", fields)))["namespace"] == "my-app.db.t"
    assert json.loads(avro.avro_text(key_schema("my-app.db.t", fields, adjustment=NameAdjustment.AVRO)))["namespace"] == "my_app.db.t"
    assert (
        json.loads(avro.avro_text(key_schema("my-app.db.t", fields, adjustment=NameAdjustment.AVRO_UNICODE)))["namespace"]
        == "my_u002dapp.db.t"
    )


def test_the_error_of_an_illegal_schema_name_names_the_option_that_helps():
    with pytest.raises(DefiniteError, match=r"my-app\.db\.t: .*schema\.name\.adjustment\.mode=avro"):
        avro.avro_text(Schema(kind=Kind.STRUCT, name="my.own-name"), subject="my-app.db.t")


def test_the_error_of_an_illegal_column_name_names_the_option_that_helps():
    with pytest.raises(DefiniteError, match=r"column name 'a b' .*field\.name\.adjustment\.mode=avro"):
        avro.avro_text(key_schema("t", [("a b", Schema(kind=Kind.INT32))]))


def test_two_different_structs_of_one_name_are_refused():
    a = struct("n.X", ("a", Schema(kind=Kind.INT32)))
    b = struct("n.X", ("b", Schema(kind=Kind.INT32)))

    with pytest.raises(DefiniteError, match=r"share the Avro name n\.X"):
        avro.avro_text(struct("n.Y", ("a", a), ("b", b)))


def test_a_record_of_another_namespace_is_referred_to_by_its_full_name():
    inner = struct("other.X", ("a", Schema(kind=Kind.INT32)))

    text = avro.avro_text(struct("n.Y", ("a", inner), ("b", inner)))

    assert '{"name":"b","type":"other.X"}' in text


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_the_text_is_legal_avro(connector):
    value = envelope_schema("p.db.t", row_schema("p.db.t", [("id", Schema(kind=Kind.INT32))]), source_schema(connector))

    fastavro.parse_schema(json.loads(avro.avro_text(value)))


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-3, "0.001"), (9.99e-4, "9.99E-4"), (1234567.0, "1234567.0"), (1e7, "1.0E7"), (1e-5, "1.0E-5"), (100.0, "100.0"), (0.0, "0.0"), (-0.0, "-0.0"),
     (1.7976931348623157e308, "1.7976931348623157E308"), (123456789.123, "1.23456789123E8"), (-2.5, "-2.5"), (math.inf, "Infinity"), (math.nan, "NaN")],
)  # fmt: skip
def test_doubles_are_spelt_as_java_does(value, text):
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "0.001"), (0.1, "0.1"), (16777216.0, "1.6777216E7"), (3.4028234663852886e38, "3.4028235E38"), (115340.77, "115340.77")],
)
def test_floats_are_spelt_as_java_does(value, text):
    assert float_text(as_float32(value)) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_floats_text_reads_back_as_the_same_float(value):
    assert as_float32(float(float_text(value))) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_doubles_text_reads_back_as_the_same_double(value):
    assert float(double_text(value)) == value
