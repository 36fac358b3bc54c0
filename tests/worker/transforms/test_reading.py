"""What transforms read of the compiled encoders' bytes, on random tables of all types."""

from __future__ import annotations

from dataclasses import replace

from dblog.codecs import avro
from dblog.codecs.schema import Field, Kind, Schema
from dblog.dialects.mysql.binlog import row_image
from dblog.dialects.mysql.binlog._fast import compile_plan
from dblog.transforms.reading import reader
from dblog.transforms.skipping import is_null, plain_skipper, skipper
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mysql_log import WRITE, rows_body
from support.mysql_tables import contexts, rows_of, tables


@settings(max_examples=40)
@given(st.data())
def test_a_row_without_frame_is_read_as_it_was_stored(data: st.DataObject) -> None:
    made = data.draw(tables())
    rows = data.draw(st.lists(rows_of(made), min_size=1, max_size=3))
    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))
    context = data.draw(contexts())
    framed = compile_plan(made.plan, row_image).encode_rows("c", body, context)
    plan = replace(made.plan, key_prefix=b"", value_prefix=b"")

    keys, values, _ = compile_plan(plan, row_image).encode_rows("c", body, context)

    assert keys == [None if key is None else key[5:] for key in framed[0]]
    assert values == [value and value[5:] for value in framed[1]]
    before, after = (field.schema for field in plan.value_schema.fields[:2])
    read = reader(plan.value_schema)
    for key, value in zip(keys, values, strict=True):
        assert value is not None
        envelope = read(value)
        assert "snapshot" not in envelope["source"]
        written = bytearray()
        avro.writer(plan.value_schema)(written, envelope)
        assert bytes(written) == value, "what is read is what was written"
        assert key is None or (plan.key_schema is not None and avro.encode(plan.key_schema, reader(plan.key_schema)(key)) == key)
        assert skipper(plan.value_schema)(value, 0) == len(value)
        assert is_null(before, value, 0)
        assert not is_null(after, value, 1)
        end = plain_skipper(after)(value, 2)
        assert reader(replace(after, optional=False))(value[2:end]) == envelope["after"]


def test_a_map_whose_keys_are_no_texts_is_read_as_a_map() -> None:
    sparse = Schema(kind=Kind.MAP, keys=Schema(kind=Kind.INT16), items=Schema(kind=Kind.FLOAT64))
    schema = Schema(
        kind=Kind.STRUCT,
        fields=(
            Field(name="one", schema=sparse.as_optional()),
            Field(name="none", schema=sparse.as_optional()),
            Field(name="many", schema=Schema(kind=Kind.ARRAY, items=sparse)),
            Field(name="named", schema=Schema(kind=Kind.MAP, keys=Schema(kind=Kind.STRING), items=sparse)),
        ),
    )
    value = {"one": {3: 1.5, 7: -2.0}, "none": None, "many": [{1: 0.0}, {}], "named": {"a": {2: 4.0}}}
    data = avro.encode(schema, value)

    assert reader(schema)(data) == value
    assert skipper(schema)(data, 0) == len(data)
