"""JSON against Kafka Connect 4.3's JsonConverter: the expected texts were printed by it."""

import base64
import json

import pytest
from dblog.codecs.envelope import struct
from dblog.codecs.json import DECIMAL, JsonForm, schema_text, value_writer
from dblog.codecs.schema import Kind, Schema
from dblog.codecs.text import string_text
from dblog.errors import DefiniteError
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_table import RECORDED, plan_of_the_recording

BARE = JsonForm(schemas_enable=False)


def optional(kind, **more):
    return Schema(kind=kind, optional=True, **more)


def decimal(scale, **more):
    return Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(scale)),), optional=True, **more)


MIXED = struct(
    None,
    ("d", decimal(10)),
    ("d2", decimal(0)),
    ("f", Schema(kind=Kind.FLOAT32)),
    ("g", Schema(kind=Kind.FLOAT64)),
    ("h", Schema(kind=Kind.FLOAT64)),
    ("s", Schema(kind=Kind.STRING)),
    ("o", optional(Kind.INT32, default=5)),
    ("m", optional(Kind.MAP, keys=Schema(kind=Kind.STRING), items=Schema(kind=Kind.INT32))),
    ("m2", optional(Kind.MAP, keys=Schema(kind=Kind.INT32), items=Schema(kind=Kind.INT32))),
    ("ar", optional(Kind.ARRAY, items=Schema(kind=Kind.FLOAT32))),
    ("by", optional(Kind.BYTES)),
)
MIXED_VALUE = {
    "d": b"\x01",
    "d2": (-123456789012345678901234567890).to_bytes(13, "big", signed=True),
    "f": 0.1,
    "g": 1e21,
    "h": float("nan"),
    "s": 'a\x01\x1f"\\/é\u2028\x7f😀\n',
    "m": {"k": 1},
    "m2": {2: 1},
    "ar": [1.5],
    "by": b"\xff\x00",
}


@pytest.mark.parametrize(
    ("numeric", "d", "d2"), [(False, '"AQ=="', '"/nEW8Ak8jB8RscD1Lg=="'), (True, "1E-10", "-123456789012345678901234567890")]
)
def test_values_are_written_as_kafkas_converter_does(numeric, d, d2):
    text = value_writer(MIXED, JsonForm(schemas_enable=False, decimal_numeric=numeric))(MIXED_VALUE).decode()

    expected = (
        '{"d":%s,"d2":%s,"f":0.1,"g":1.0E21,"h":"NaN","s":"a\\u0001\\u001F\\"\\\\/é\u2028\x7f\\uD83D\\uDE00\\n",'
        '"o":5,"m":{"k":1},"m2":[[2,1]],"ar":[1.5],"by":"/wA="}'
    )
    assert text == expected % (d, d2)


def test_the_schema_of_an_envelope_is_written_as_kafkas_converter_does():
    assert schema_text(plan_of_the_recording().value_schema, JsonForm()) == RECORDED["JSON"]


@pytest.mark.parametrize(("numeric", "default"), [(False, '"AJY="'), (True, "1.50")])
def test_with_schemas_a_record_is_schema_and_payload(numeric, default):
    schema = Schema(
        kind=Kind.STRUCT,
        name="r",
        version=3,
        doc="dd",
        parameters=(("p", "q"),),
        fields=struct(
            None,
            ("d", decimal(2, default=b"\x00\x96")),
            ("m", optional(Kind.MAP, keys=Schema(kind=Kind.INT32), items=optional(Kind.STRING))),
        ).fields,
    )

    text = value_writer(schema, JsonForm(decimal_numeric=numeric, replace_null_with_default=False))({}).decode()

    expected = (
        '{"schema":{"type":"struct","fields":[{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
        '"parameters":{"scale":"2"},"default":DEFAULT,"field":"d"},{"type":"map","keys":{"type":"int32","optional":false},'
        '"values":{"type":"string","optional":true},"optional":true,"field":"m"}],"optional":false,"name":"r","version":3,"doc":"dd",'
        '"parameters":{"p":"q"}},"payload":{"d":null,"m":null}}'
    )
    assert text == expected.replace("DEFAULT", default)


def test_a_null_becomes_the_default_unless_configured_otherwise():
    schema = struct("s", ("a", optional(Kind.INT32, default=5)))

    assert value_writer(schema, BARE)({"a": None}) == b'{"a":5}'
    assert value_writer(schema, JsonForm(schemas_enable=False, replace_null_with_default=False))({"a": None}) == b'{"a":null}'


def test_a_null_for_a_required_field_is_refused():
    with pytest.raises(DefiniteError, match="null for a required string"):
        value_writer(struct("s", ("a", Schema(kind=Kind.STRING))), BARE)({})


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
def test_what_is_written_a_json_parser_reads_back(text, data, integer, number, flag):
    schema = struct(
        "s",
        ("text", Schema(kind=Kind.STRING)),
        ("data", Schema(kind=Kind.BYTES)),
        ("integer", Schema(kind=Kind.INT64)),
        ("number", Schema(kind=Kind.FLOAT64)),
        ("flag", Schema(kind=Kind.BOOLEAN)),
    )
    value = {"text": text, "data": data, "integer": integer, "number": number, "flag": flag}

    read = json.loads(value_writer(schema, JsonForm())(value))

    assert read["payload"] | {"data": base64.b64decode(read["payload"]["data"])} == value
    assert [f["field"] for f in read["schema"]["fields"]] == list(value)


def test_the_string_form_of_a_struct_leaves_nulls_out():
    schema = struct(
        "k",
        ("id", Schema(kind=Kind.INT32)),
        ("name", optional(Kind.STRING)),
        ("d", decimal(2)),
        ("t", optional(Kind.INT32, name="org.apache.kafka.connect.data.Date", version=1)),
        ("f", optional(Kind.FLOAT64)),
        ("n", optional(Kind.STRING)),
        ("bo", optional(Kind.BOOLEAN)),
        ("l", optional(Kind.ARRAY, items=Schema(kind=Kind.INT32))),
    )
    value = {"id": 1, "name": 'x "q", y', "d": b"\x00\x96", "t": 1, "f": 1e7, "n": None, "bo": True, "l": [1, 2]}

    assert string_text(schema, value) == 'Struct{id=1,name=x "q", y,d=1.50,t=Fri Jan 02 00:00:00 UTC 1970,f=1.0E7,bo=true,l=[1, 2]}'
