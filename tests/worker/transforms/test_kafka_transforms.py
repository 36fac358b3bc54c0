"""Kafka Connect's transforms, by its rules: keys and values, nulls, tombstones, values without schema, defaults, nested structs."""

import time
from decimal import Decimal

import pytest
from dblog.codecs.avro import DATE, DECIMAL, TIME, TIMESTAMP
from dblog.codecs.schema import Field, Kind, Schema
from dblog.errors import ConfigError
from dblog.transforms.decimals import unscaled_of
from dblog.transforms.faults import RecordError
from dblog.transforms.java_numbers import parsed_decimal
from dblog.transforms.record import Header, Record
from worker.transforms.records import (
    DEFAULTED,
    INT32,
    INT64,
    KAFKA,
    KEY,
    MAYBE_TEXT,
    ROW,
    TEXT,
    change,
    names,
    row,
    struct,
    tombstone,
    transform,
)

AMOUNT = Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
MOMENT = Schema(kind=Kind.INT64, name=TIMESTAMP, version=1)
TOMBSTONE = tombstone()


def valued(schema, value, **more):
    return Record("t", None, None, schema, value, **more)


def flat(value=None, schema=ROW):
    return valued(schema, row() if value is None else value)


# ---- fields


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"exclude": "name"}, {"id": 1, "kind": "none"}),
        ({"include": "id,kind", "exclude": "kind"}, {"id": 1}),
        ({"renames": "name:title,id:number"}, {"number": 1, "title": "a", "kind": "none"}),
        ({"include": "kind", "replace__null__with__default": "false"}, {"kind": None}),
    ],
)
def test_replace_field(options, value):
    replace = transform(f"{KAFKA}.ReplaceField$Value", **options)

    made = replace(flat())

    assert made.value == value
    assert (names(made.value_schema), made.value_schema.optional, made.value_schema.name) == (list(value), False, "p.d.t.Value")
    assert replace(flat()).value_schema is made.value_schema, "one schema object for all records of a schema"
    assert replace(TOMBSTONE) is TOMBSTONE
    assert replace(valued(None, {"id": 1, "x": 2})).value.keys() <= {"id", "x", "number"}


def test_a_rename_without_a_new_name_is_an_error_of_its_key():
    with pytest.raises(
        ConfigError, match=r"transforms\.x\.renames: Invalid value a for configuration transforms\.x\.renames: Invalid rename mapping: a"
    ):
        transform(f"{KAFKA}.ReplaceField$Value", renames="a")


def test_insert_field():
    insert = transform(
        f"{KAFKA}.InsertField$Value",
        topic__field="topic!",
        partition__field="part",
        timestamp__field="time?",
        static__field="fixed",
        static__value="x",
    )

    made = insert(valued(ROW, row(), partition=3))

    assert made.value == row(kind="none", topic="t", part=3, fixed="x")
    assert [field.schema.optional for field in made.value_schema.fields[3:]] == [False, True, True, True]
    assert made.value_schema.fields[5].schema.name == TIMESTAMP
    assert insert(valued(ROW, row(), timestamp=9)).value["time"] == 9
    assert insert(TOMBSTONE) is TOMBSTONE
    assert insert(valued(None, {"a": 1})).value == {"a": 1, "topic": "t", "fixed": "x"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "No field insertion configured"),
        ({"static__field": "a"}, "No value specified for static field: a"),
        ({"offset__field": "o"}, "a source's record has no offset yet"),
    ],
)
def test_what_insert_field_refuses(options, text):
    with pytest.raises(ConfigError, match=text):
        transform(f"{KAFKA}.InsertField$Value", **options)


def test_mask_field():
    schema = struct("s", a=INT32, b=MAYBE_TEXT, c=AMOUNT, d=DEFAULTED, e=Schema(kind=Kind.ARRAY, items=INT32), f=Schema(kind=Kind.BOOLEAN))
    value = {"a": 5, "b": None, "c": unscaled_of(AMOUNT, Decimal("1.23")), "d": "x", "e": [1], "f": True}

    made = transform(f"{KAFKA}.MaskField$Value", fields="a,b,c,d,e,f,nope")(valued(schema, value))

    assert made.value == {"a": 0, "b": None, "c": b"\x00", "d": "", "e": [], "f": False}
    assert made.value_schema is schema


def test_mask_field_with_a_replacement():
    schema = struct("s", a=INT32, b=TEXT, c=AMOUNT)
    value = {"a": 5, "b": "x", "c": unscaled_of(AMOUNT, Decimal("1.23"))}

    made = transform(f"{KAFKA}.MaskField$Value", fields="a,b,c", replacement="7.5")(valued(schema, value))

    assert made.value == {"a": 7, "b": "7.5", "c": unscaled_of(AMOUNT, Decimal("7.5"))}
    with pytest.raises(RecordError, match="the replacement does not fit a field of type int32: not a decimal number"):
        transform(f"{KAFKA}.MaskField$Value", fields="a", replacement="secret")(valued(schema, value))


@pytest.mark.parametrize("record", [TOMBSTONE, flat({"id": 1})])
def test_mask_field_needs_a_value_and_a_type_that_has_a_null(record):
    mask = transform(f"{KAFKA}.MaskField$Value", fields="id")

    if record is TOMBSTONE:
        with pytest.raises(RecordError, match="Only Map objects supported in absence of schema"):
            mask(record)
    else:
        assert mask(record).value["id"] == 0
        with pytest.raises(RecordError, match="Cannot mask value of type: bytes"):
            transform(f"{KAFKA}.MaskField$Value", fields="b")(valued(struct("s", b=Schema(kind=Kind.BYTES)), {"b": b"x"}))


def test_extract_field_by_name_and_by_path():
    record = change("c", after=row())

    assert transform(f"{KAFKA}.ExtractField$Value", field="op")(record).value == "c"
    path = transform(f"{KAFKA}.ExtractField$Value", field="after.`id`", field__syntax__version="V2")
    assert (path(record).value, path(record).value_schema) == (1, INT32)
    assert path(change("d", before=row())).value is None
    assert path(TOMBSTONE).value is None
    assert transform(f"{KAFKA}.ExtractField$Key", field="id")(record).key == 1
    assert transform(f"{KAFKA}.ExtractField$Value", field="kind")(flat()).value == "none"
    with pytest.raises(RecordError, match=r"Unknown field: after\.id"):
        transform(f"{KAFKA}.ExtractField$Value", field="after.id")(record)
    with pytest.raises(ConfigError, match=r"Incomplete backtick pair in path: \[`a\]"):
        transform(f"{KAFKA}.ExtractField$Value", field="`a", field__syntax__version="V2")


def test_hoist_field():
    hoist = transform(f"{KAFKA}.HoistField$Key", field="k")

    made = hoist(Record("t", INT32, 5, None, None))

    assert (made.key, names(made.key_schema), made.key_schema.name) == ({"k": 5}, ["k"], None)
    assert (hoist(Record("t", None, None, None, None)).key, hoist(Record("t", None, None, None, None)).key_schema) == ({"k": None}, None)


def test_value_to_key():
    key = transform(f"{KAFKA}.ValueToKey", fields="kind,id")

    made = key(flat())

    assert (made.key, names(made.key_schema), made.key_schema.name) == ({"kind": "none", "id": 1}, ["kind", "id"], None)
    assert transform(f"{KAFKA}.ValueToKey", fields="kind", replace__null__with__default="false")(flat()).key == {"kind": None}
    with pytest.raises(RecordError, match="Field does not exist: nope"):
        transform(f"{KAFKA}.ValueToKey", fields="nope")(flat())
    with pytest.raises(RecordError, match="Only Map objects supported in absence of schema"):
        key(TOMBSTONE)


def test_flatten():
    inner = Schema(kind=Kind.STRUCT, optional=True, fields=(Field(name="b", schema=INT32), Field(name="c", schema=DEFAULTED)))
    schema = struct("s", a=INT32, x=inner, y=Schema(kind=Kind.ARRAY, items=INT32))
    flatten = transform(f"{KAFKA}.Flatten$Value", delimiter="_")

    made = flatten(valued(schema, {"a": 1, "x": {"b": 2, "c": None}, "y": [3]}))

    assert made.value == {"a": 1, "x_b": 2, "x_c": "none", "y": [3]}
    assert [(field.name, field.schema.optional) for field in made.value_schema.fields] == [
        ("a", False),
        ("x_b", True),
        ("x_c", True),
        ("y", False),
    ]
    assert flatten(valued(schema, {"a": 1, "x": None, "y": []})).value == {"a": 1, "y": []}
    assert flatten(TOMBSTONE) is TOMBSTONE
    assert flatten(valued(None, {"a": {"b": {"c": 1}}, "d": None})).value == {"a_b_c": 1, "d": None}
    with pytest.raises(RecordError, match=r"does not support MAP for record with schemas \(for field m\)"):
        flatten(valued(struct("s", m=Schema(kind=Kind.MAP, keys=TEXT, items=TEXT)), {"m": {}}))


# ---- casts


@pytest.mark.parametrize(
    ("schema", "value", "target", "cast"),
    [
        (INT32, 300, "int8", 44),
        (INT64, -1, "boolean", True),
        (Schema(kind=Kind.FLOAT64), 1e20, "int32", 2147483647),
        (Schema(kind=Kind.FLOAT64), -2.9, "int64", -2),
        (Schema(kind=Kind.FLOAT64), 300.7, "int8", 44),
        (Schema(kind=Kind.FLOAT64), float("nan"), "int32", 0),
        (INT32, 3, "float64", 3.0),
        (INT32, 3, "string", "3"),
        (Schema(kind=Kind.FLOAT32), 1.5, "string", "1.5"),
        (Schema(kind=Kind.FLOAT64), 1e10, "string", "1.0E10"),
        (Schema(kind=Kind.BOOLEAN), True, "string", "true"),
        (Schema(kind=Kind.BOOLEAN), True, "int16", 1),
        (TEXT, "12", "int8", 12),
        (TEXT, " 1.5e1f", "float64", 15.0),
        (TEXT, "TRUE", "boolean", True),
        (TEXT, "yes", "boolean", False),
        (AMOUNT, unscaled_of(AMOUNT, Decimal("300.75")), "int8", 44),
        (AMOUNT, unscaled_of(AMOUNT, Decimal("-1.50")), "string", "-1.50"),
        (AMOUNT, unscaled_of(AMOUNT, Decimal("0.75")), "float32", 0.75),
        (Schema(kind=Kind.BYTES), b"\x01\x02", "string", "AQI="),
        (MOMENT, 1000, "int32", 1000),
        (MOMENT, 1_600_000_000_000, "string", "2020-09-13T12:26:40.000Z"),
        (Schema(kind=Kind.INT32, name=DATE, version=1), 18_000, "string", "2019-04-14"),
        (Schema(kind=Kind.INT32, name=TIME, version=1), 1000, "string", "00:00:01.000Z"),
    ],
)
def test_cast_converts_as_java_does(schema, value, target, cast):
    made = transform(f"{KAFKA}.Cast$Value", spec=f"f:{target}")(valued(struct("s", f=schema, g=TEXT), {"f": value, "g": "x"}))

    assert made.value == {"f": cast, "g": "x"}
    assert made.value_schema.fields[0].schema.name is None


@pytest.mark.parametrize("text", ["128", "1.0", "", "0x1"])
def test_a_text_that_is_no_number_of_the_type_is_an_error_without_the_text(text):
    with pytest.raises(RecordError, match="a text was out of range for the requested type INT8: not a number of 8 bits"):
        transform(f"{KAFKA}.Cast$Value", spec="f:int8")(valued(struct("s", f=TEXT), {"f": text}))


def test_cast_keeps_optional_and_casts_defaults_and_whole_values():
    schema = struct("s", f=Schema(kind=Kind.STRING, optional=True, default="5"))
    cast = transform(f"{KAFKA}.Cast$Value", spec="f:int32")

    assert cast(valued(schema, {"f": None})).value == {"f": 5}
    assert cast(valued(schema, {"f": None})).value_schema.fields[0].schema == Schema(kind=Kind.INT32, optional=True, default=5)
    whole = transform(f"{KAFKA}.Cast$Key", spec="string")(Record("t", INT32, 7, None, None))
    assert (whole.key, whole.key_schema.kind) == ("7", Kind.STRING)
    assert cast(TOMBSTONE) is TOMBSTONE
    assert cast(valued(None, {"f": "9", "g": 1})).value == {"f": 9, "g": 1}
    with pytest.raises(RecordError, match="does not support casting from STRUCT"):
        transform(f"{KAFKA}.Cast$Value", spec="after:string")(change("c", after=row()))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("", "Must specify at least one field to cast"),
        ("a:int32,string", "may only specify a single cast"),
        ("a:int33", "Invalid type found in casting spec: int33"),
        ("a:bytes", "does not support casting to BYTES"),
        ("a:b:int32", "Invalid rename mapping: a:b:int32"),
    ],
)
def test_what_cast_refuses(spec, text):
    with pytest.raises(ConfigError, match=text):
        transform(f"{KAFKA}.Cast$Value", spec=spec)


# ---- headers, schemas, topics


@pytest.mark.parametrize(("operation", "left"), [("move", {"name": "a", "kind": "none"}), ("copy", row())])
def test_header_from(operation, left):
    header = transform(
        f"{KAFKA}.HeaderFrom$Value",
        fields="id,kind" if operation == "copy" else "id",
        headers="i,k" if operation == "copy" else "i",
        operation=operation,
    )

    made = header(flat())

    assert made.value == left
    assert made.headers[0] == Header("i", INT32, 1)
    with pytest.raises(RecordError, match="Only Map objects supported in absence of schema"):
        header(TOMBSTONE)


def test_header_from_needs_as_many_headers_as_fields():
    with pytest.raises(ConfigError, match="'fields' config must have the same number of elements as 'headers' config"):
        transform(f"{KAFKA}.HeaderFrom$Value", fields="a,b", headers="a", operation="copy")


@pytest.mark.parametrize(
    ("literal", "kind", "value"),
    [
        ("text", Kind.STRING, "text"),
        ("true", Kind.BOOLEAN, True),
        ("7", Kind.INT8, 7),
        ("1.0", Kind.INT8, 1),
        ("70000", Kind.INT32, 70000),
        ("1.5", Kind.FLOAT32, 1.5),
        ('"7"', Kind.STRING, '"7"'),
        ("1.2.3", Kind.STRING, "1.2.3"),
    ],
)
def test_insert_header_writes_numbers_and_flags_as_such(literal, kind, value):
    made = transform(f"{KAFKA}.InsertHeader", header="h", value__literal=literal)(TOMBSTONE)

    assert (made.headers[0].schema.kind, made.headers[0].value) == (kind, value)


def test_insert_header_refuses_what_it_would_write_otherwise_than_connect():
    with pytest.raises(ConfigError, match=r"transforms\.x\.value\.literal.*a list or a map"):
        transform(f"{KAFKA}.InsertHeader", header="h", value__literal="[1,2]")


def test_drop_headers():
    record = tombstone(a="1", b="2")

    assert [header.name for header in transform(f"{KAFKA}.DropHeaders", headers="a")(record).headers] == ["b"]
    assert transform(f"{KAFKA}.DropHeaders", headers="c")(record) is record


def test_set_schema_metadata():
    rename = transform(f"{KAFKA}.SetSchemaMetadata$Value", schema__name="n", schema__version="3")

    made = rename(flat())

    assert (made.value_schema.name, made.value_schema.version, made.value_schema.optional) == ("n", 3, True)
    assert made.value["kind"] == "none"
    assert rename(TOMBSTONE) is TOMBSTONE
    with pytest.raises(RecordError, match="Cannot list fields on non-struct type"):
        rename(valued(TEXT, "x"))
    with pytest.raises(RecordError, match="Schema required"):
        rename(valued(None, {"a": 1}))
    with pytest.raises(ConfigError, match="Neither schema name nor version configured"):
        transform(f"{KAFKA}.SetSchemaMetadata$Value")


def test_timestamp_router_needs_a_timestamp():
    route = transform(f"{KAFKA}.TimestampRouter", topic__format="${topic}_${timestamp}", timestamp__format="yyyy.MM")

    assert route(valued(ROW, row(), timestamp=1_600_000_000_000)).topic == "t_2020.09"
    with pytest.raises(RecordError, match="Timestamp missing on record"):
        route(flat())


@pytest.mark.parametrize(
    ("schema", "value", "options", "made"),
    [
        (INT64, 1_600_000_000, {"target__type": "Timestamp", "unix__precision": "seconds"}, 1_600_000_000_000),
        (
            INT64,
            1_600_000_000_123_456,
            {"target__type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS", "unix__precision": "microseconds"},
            "2020-09-13T12:26:40.123",
        ),
        (MOMENT, 1_600_000_000_123, {"target__type": "unix", "unix__precision": "seconds"}, 1_600_000_000),
        (MOMENT, -1500, {"target__type": "unix", "unix__precision": "seconds"}, -1),
        (MOMENT, 1_600_000_000_123, {"target__type": "Date"}, 18518),
        (MOMENT, 1_600_000_000_123, {"target__type": "Time"}, 44_800_123),
        (TEXT, "13/09/2020 12:26", {"target__type": "unix", "format": "dd/MM/yyyy HH:mm"}, 1_599_999_960_000),
        (TEXT, "2020-09-13+0200", {"target__type": "Timestamp", "format": "yyyy-MM-ddZ"}, 1_599_948_000_000),
        (Schema(kind=Kind.INT32, name=DATE, version=1), 1, {"target__type": "string", "format": "yyMMdd EEE"}, "700102 Fri"),
    ],
)
def test_timestamp_converter(schema, value, options, made):
    convert = transform(f"{KAFKA}.TimestampConverter$Value", field="f", **options)
    optional = schema.as_optional()

    record = convert(valued(struct("s", f=optional, g=DEFAULTED), {"f": value, "g": None}))

    assert record.value == {"f": made, "g": "none"}
    assert record.value_schema.fields[0].schema.optional
    assert convert(valued(struct("s", f=optional, g=TEXT), {"f": None, "g": "x"})).value["f"] is None
    assert transform(f"{KAFKA}.TimestampConverter$Value", **options)(valued(schema, value)).value == made
    assert convert(TOMBSTONE).value is None


def test_a_text_of_another_form_is_an_error_without_the_text():
    convert = transform(f"{KAFKA}.TimestampConverter$Value", field="f", target__type="unix", format="yyyy")

    with pytest.raises(RecordError, match=r"Could not parse timestamp: the value does not match pattern \(yyyy\)"):
        convert(valued(struct("s", f=TEXT), {"f": "soon"}))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target__type": "string"}, "requires format option to be specified"),
        ({"target__type": "string", "format": "YYYY"}, "the letter Y of a date pattern is not known here"),
        ({"target__type": "string", "format": "'open"}, "Unterminated quote"),
        ({"target__type": "epoch"}, "String must be one of: string, unix, Date, Time, Timestamp"),
        ({"target__type": "unix", "unix__precision": "days"}, "String must be one of: nanoseconds"),
    ],
)
def test_what_timestamp_converter_refuses(options, text):
    with pytest.raises(ConfigError, match=text):
        transform(f"{KAFKA}.TimestampConverter$Value", **options)


def test_transforms_leave_the_record_that_they_get_as_it_is():
    record, value = flat(), row()

    for name, options in (
        ("ReplaceField$Value", {"exclude": "name"}),
        ("InsertField$Value", {"static__field": "x", "static__value": "y"}),
        ("MaskField$Value", {"fields": "name"}),
    ):
        transform(f"{KAFKA}.{name}", **options)(record)

    assert record.value == value
    assert record.key_schema is None
    assert KEY.fields[0].name == "id"


def test_a_text_is_read_as_a_moment_in_linear_time():  # number 9 of the worker's safety
    """Fields of a pattern are not tried with fewer digits. Seven of them took half a minute."""
    pattern = "1".join("yMdHms" * 5)
    convert = transform(f"{KAFKA}.TimestampConverter$Value", target__type="Timestamp", format=pattern)
    began = time.process_time()
    with pytest.raises(RecordError, match="does not match pattern"):
        convert(valued(TEXT, "1" * 60))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "9" * 500])
def test_a_number_that_no_field_has_masks_none(text):
    """As an integer it would have a billion digits."""
    with pytest.raises(ValueError, match="not a decimal number"):
        parsed_decimal(text)
