"""Arrays: their text as the server quotes it, the elements of every type, and what Debezium's schema has no room for."""

import pytest
from dblog.codecs.plan import Form
from dblog.codecs.schema import Kind
from dblog.dialects.postgres.values.arrays import elements
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.inexpressible import InexpressibleError
from dblog.dialects.postgres.values.sources import PgSource
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import BadRowsError
from dblog.model import Column, TableId
from hypothesis import given
from hypothesis import strategies as st

TABLE = TableId("public", "t")


def plan_of(name, **more):
    modes = TypeModes(**{key: more.pop(key) for key in list(more) if hasattr(TypeModes(), key)})
    column = Column(name="c", type=name, type_text=f"{name.removeprefix('_')}[]", **{"nullable": True, **more})
    return column_plan(column, modes, TABLE), modes


def read(name, text, **more):
    return reader(*plan_of(name, **more))(text.encode())


def quoted(element: bytes | None, delimiter: bytes) -> bytes:
    """As array_out does it: quotes around what is empty, spells NULL, or has a brace, the delimiter, a quote, a backslash or white space."""
    if element is None:
        return b"NULL"
    special = any(char in element for char in (b"{", b"}", b'"', b"\\", delimiter)) or any(chr(char) in " \t\n\r\v\f" for char in element)
    if element and not special and element.upper() != b"NULL":
        return element
    return b'"' + element.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


any_element = (
    st.none() | st.binary(max_size=6) | st.sampled_from([b"NULL", b"null", b"", b"{", b"}", b'"', b"\\", b",", b":", b";", b" a ", b'\\"'])
)


@given(st.lists(any_element, max_size=6), st.sampled_from([b",", b":", b";"]))
def test_an_array_is_cut_at_the_delimiters_that_are_not_quoted(values, delimiter):
    text = b"{" + delimiter.join(quoted(value, delimiter) for value in values) + b"}"

    assert elements(text, delimiter) == values
    assert elements(b"[3:%d]=" % (2 + len(values)) + text, delimiter) == values


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[1:1][-2:-1]={{1,2}}", '{{"a b",c},{"d",e}}', '{{a,"b c"}}'])
def test_an_array_of_two_dimensions_cannot_be_written(text):
    with pytest.raises(InexpressibleError, match="more than one dimension cannot be written; exclude the column"):
        elements(text.encode())


@pytest.mark.parametrize("text", ["", "1", "{1", "1}", '{"a}', '{"a"b}', '{"a",}', '{"a"}}', "[1:2]", '{"\\"}'])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        elements(text.encode())


def test_two_dimensions_are_null_or_an_error_as_other_values_without_room():
    assert read("_int4", "{{1}}") is None
    for more in ({"nullable": False}, {"event_converting_failure_handling_mode": "fail"}):
        with pytest.raises(BadRowsError, match="column c: an array of more than one dimension"):
            read("_int4", "{{1}}", **more)


def test_elements_are_read_as_values_of_their_type_in_every_mode():
    assert read("_bool", "{t,f,NULL}") == [True, False, None]
    assert read("_timestamp", '{"2020-01-01 00:00:00.5",infinity}', length=3) == [1_577_836_800_500, 9_223_372_036_825_200]
    assert read("_timestamptz", '{"2020-01-01 00:00:00.5+00",-infinity}') == ["2020-01-01T00:00:00.500000Z", "-infinity"]
    assert read("_time", "{24:00:00}", time_precision_mode="nanoseconds") == [86_400_000_000_000]
    assert read("_numeric", "{1.50,NaN}", decimal_handling_mode="string") == ["1.50", "NAN"]
    assert read("_numeric", "{1.50}") == [{"scale": 1, "value": b"\x0f"}]
    assert read("_bytea", '{"\\\\x00ff"}', binary_handling_mode="base64") == ["AP8="]
    assert read("_hstore", '{"\\"a\\"=>\\"1\\"",NULL}', hstore_handling_mode="map") == [{"a": "1"}, None]
    assert read("_geometry", "{010700000000000000:NULL}") == [{"wkb": bytes.fromhex("010700000000000000"), "srid": None}, None]
    assert read("_vector", '{"[1,2]","[3,4]"}') == [[1.0, 2.0], [3.0, 4.0]]


def test_a_number_without_room_in_an_array_leaves_out_the_whole_array():
    assert read("_numeric", "{1.5,NaN}", length=5, scale=1) is None
    assert read("_timestamp", '{"2300-01-01 00:00:00"}', time_precision_mode="nanoseconds") is None


@pytest.mark.parametrize(
    ("name", "text"), [("_enum", "{sad,NULL}"), ("_tsvector", "{'a',NULL}"), ("_vector", '{NULL,"[1]"}'), ("_isbn", "{NULL}")]
)
def test_null_among_elements_that_debezium_requires_leaves_out_the_whole_array(name, text):
    assert plan_of(name, members=("sad",))[0].schema.items.optional is False
    assert read(name, text, members=("sad",)) is None
    with pytest.raises(BadRowsError, match="an array with a NULL in it cannot be written"):
        read(name, text, members=("sad",), nullable=False)


@pytest.mark.parametrize("name", ["_money", "_name", "_interval", "_varbit", "_xml", "_point", "_refcursor"])
@pytest.mark.parametrize("included", [False, True])
def test_arrays_that_debezium_never_writes_are_left_out_in_every_mode(name, included):
    plan, _ = plan_of(name, include_unknown_datatypes=included)

    assert (plan.included, plan.schema, plan.key_schema) == (False, None, None)


def test_arrays_of_unknown_types_are_texts_as_bytes_where_they_are_asked_for():
    for name, text, expected in (
        ("_pg_lsn", "{16/B374D848}", [b"16/B374D848"]),
        ("_bit", "{101,1}", [b"101", b"1"]),
        ("app._money", '{"a b"}', [b"a b"]),
        ("app._box", "{x,y}", [b"x", b"y"]),
        ("_box", "{(3,4),(1,2);(1,1),(0,0)}", [b"(3.0,4.0),(1.0,2.0)", b"(1.0,1.0),(0.0,0.0)"]),
        ("_composite", '{"(1,a)"}', [b"(1,a)"]),
    ):
        assert plan_of(name)[0].schema is None
        plan, _ = plan_of(name, include_unknown_datatypes=True)
        assert (plan.schema.kind, plan.schema.items.kind, plan.schema.items.optional) == (Kind.ARRAY, Kind.BYTES, False)
        assert read(name, text, include_unknown_datatypes=True) == expected


def test_a_compiled_reader_leaves_arrays_to_their_own():
    plan, _ = plan_of("_int4")

    assert (plan.source, plan.form) == (PgSource.VALUE, Form.VALUE)


def test_a_type_whose_name_begins_with_an_underscore_is_no_array():
    column = Column(name="c", type="app._kind", type_text="app._kind", nullable=True)
    modes = TypeModes(include_unknown_datatypes=True)
    plan = column_plan(column, modes, TABLE)

    assert plan.schema.kind is Kind.BYTES
    assert reader(plan, modes)(b"{x}") == b"{x}"
