"""ExtractNewRecordState, by Debezium's rules: every option, with nulls, tombstones, truncates and records that are no rows."""

from itertools import product

import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import HEARTBEAT_VALUE
from dblog.codecs.schema import Kind, Schema
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.reading import reader
from dblog.transforms.record import Header, Record
from worker.transforms.records import DEBEZIUM, ENVELOPE, KEY, MAYBE_TEXT, change, names, row, source, tombstone, transform

UNWRAP = f"{DEBEZIUM}.ExtractNewRecordState"


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_a_row_replaces_its_envelope_and_its_schema_is_required(op):
    made = transform(UNWRAP)(change(op, after=row()))

    assert made.value == row()
    assert (made.value_schema.name, made.value_schema.optional, names(made.value_schema)) == ("p.d.t.Value", False, ["id", "name", "kind"])
    assert (made.topic, made.key) == ("p.d.t", {"id": 1})


@pytest.mark.parametrize(
    ("mode", "of_delete", "keeps_tombstone"),
    [
        ("drop", "nothing", False),
        ("tombstone", "null with schema", False),
        ("delete-to-tombstone", "null", False),
        ("rewrite", "row", False),
        ("rewrite-with-tombstone", "row", True),
    ],
)
def test_what_becomes_of_a_delete_and_its_tombstone(mode, of_delete, keeps_tombstone):
    unwrap = transform(UNWRAP, delete__tombstone__handling__mode=mode)

    made, after = unwrap(change("d", before=row())), unwrap(tombstone())

    assert (after is not None) is keeps_tombstone
    if of_delete == "nothing":
        assert made is None
    elif of_delete == "row":
        assert made.value == row(kind="none", __deleted="true")
    else:
        assert made.value is None
        assert (made.value_schema is not None) is (of_delete == "null with schema")


def test_rewritten_rows_say_that_they_are_not_deleted():
    made = transform(UNWRAP, delete__tombstone__handling__mode="rewrite")(change("u", before=row(), after=row(name="b")))

    assert made.value == row(name="b", kind="none", __deleted="false")
    assert names(made.value_schema)[-1] == "__deleted"


def test_null_stays_null_in_rewritten_rows_where_defaults_are_not_wanted():
    unwrap = transform(UNWRAP, delete__tombstone__handling__mode="rewrite", replace__null__with__default="false")

    assert unwrap(change("c", after=row())).value["kind"] is None


def test_fields_of_the_envelope_and_its_blocks_are_added_under_their_names():
    unwrap = transform(UNWRAP, add__fields="op,table,source.ts_ms,source.db:DB,id,nope,snapshot", add__fields__prefix="_")

    made = unwrap(change("c", after=row()))

    assert made.value == row(_op="c", _table="t", _source_ts_ms=5, _DB="d", _id=None, _snapshot=None)
    added = {field.name: field.schema for field in made.value_schema.fields[3:]}
    assert all(schema.optional and schema.default is None for schema in added.values())
    assert added["_source_ts_ms"].kind is Kind.INT64


def test_fields_are_added_as_headers_also_to_a_tombstone():
    unwrap = transform(UNWRAP, add__headers="op,source.db", delete__tombstone__handling__mode="rewrite-with-tombstone")

    assert unwrap(change("c", after=row())).headers == (
        Header("__op", MAYBE_TEXT, "c"),
        Header("__source_db", MAYBE_TEXT, "d"),
    )
    assert [(header.name, header.value) for header in unwrap(tombstone()).headers] == [("__op", "d")]


def test_a_field_of_the_row_names_the_topic_of_the_row_before_in_a_delete():
    unwrap = transform(UNWRAP, route__by__field="name")

    assert unwrap(change("c", after=row(name="x"))).topic == "x"
    assert unwrap(change("d", before=row(name="y"))).topic == "y"
    assert unwrap(change("c", after=row(name=" "))).topic == "p.d.t"
    with pytest.raises(RecordError, match="Field 'id' is not of type STRING"):
        transform(UNWRAP, route__by__field="id")(change("c", after=row()))


@pytest.mark.parametrize(
    ("options", "value", "key"),
    [
        ({}, {"id", "kind"}, {"id"}),
        ({"drop__fields__keep__schema__compatible": "false"}, {"kind"}, {"id"}),
        ({"drop__fields__keep__schema__compatible": "false", "drop__fields__from__key": "true"}, {"kind"}, set()),
    ],
)
def test_fields_that_a_header_lists_are_left_out(options, value, key):
    listed = Header("drop", Schema(kind=Kind.ARRAY, items=MAYBE_TEXT), ["name", "id"])
    unwrap = transform(UNWRAP, drop__fields__header__name="drop", **options)

    made = unwrap(change("c", after=row()).with_headers((listed,)))

    assert (set(made.value), set(made.key)) == (value, key)


def test_a_truncate_is_dropped_and_what_is_no_row_passes():
    unwrap = transform(UNWRAP)
    heartbeat = Record("beat", None, None, HEARTBEAT_VALUE, {"ts_ms": 1})

    assert (
        unwrap(change("t", before=None, after=row()).with_value(change("c", after=row()).value_schema, {"op": "t", "source": {}})) is None
    )
    assert unwrap(heartbeat) is heartbeat


@pytest.mark.parametrize("fields", ["op:a:b", ":x"])
def test_a_wrong_reference_is_an_error_of_its_key(fields):
    with pytest.raises(ConfigError, match=r"transforms\.x\.add\.fields.*Unexpected field name"):
        transform(UNWRAP, add__fields=fields)


def test_an_added_field_that_the_row_has_already_is_an_error_of_the_record():
    with pytest.raises(RecordError, match="field name duplication name"):
        transform(UNWRAP, add__fields="op:name", add__fields__prefix="")(change("c", after=row()))


MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
ADDED = (
    {},
    {"add__fields": "op,source.ts_ms,snapshot,transaction.id"},
    {"add__headers": "op,db"},
    {"replace__null__with__default": "false", "add__fields": "ts_us"},
)


@pytest.mark.parametrize(("mode", "options"), list(product(MODES, ADDED)))
def test_a_row_that_is_cut_out_of_the_bytes_is_the_row_that_is_read(mode, options):
    unwrap = transform(UNWRAP, delete__tombstone__handling__mode=mode, **options)
    block = {"id": "t1", "total_order": 1, "data_collection_order": 2}
    changes = [
        change("c", after=row(name=None)),
        change("r", after=row(id=1 << 20), source=source(snapshot="incremental")),
        change("u", before=row(name="x" * 200), after=row(kind="k"), transaction=block),
        change("d", before=row()),
        change("t", after=row()).with_value(ENVELOPE, {"source": source(), "op": "t"}),
    ]

    for record in changes:
        data = avro.encode(ENVELOPE, record.value)
        unread = Record.unread("p.d.t", (KEY, b"\x02", reader(KEY)), (ENVELOPE, data, reader(ENVELOPE)), headers=(), partition=None)
        # What is read is what the bytes hold: a default stands for what the record leaves out.
        whole = record.with_value(ENVELOPE, reader(ENVELOPE)(data))
        cut, made = unwrap(unread), unwrap(whole)
        assert (cut is None) is (made is None)
        if cut is not None and made is not None:
            assert (cut.value, cut.value_schema, cut.headers) == (made.value, made.value_schema, made.headers)
