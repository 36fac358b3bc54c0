"""Column types and defaults, with Debezium 3.6.3 as the oracle (tests/support/debezium/record.py)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import row_schema
from dblog.codecs.plan import Form, Source
from dblog.codecs.schema import Kind
from dblog.dialects.mariadb import types as mariadb
from dblog.dialects.mysql.binlog.events import read_table_map
from dblog.dialects.mysql.binlog.table_map_schema import Charsets, seen_of
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.flavor import mysql_flavor
from dblog.dialects.mysql.ddl.parser import parse
from dblog.dialects.mysql.values import types as mysql
from dblog.dialects.mysql.values.decimals import unscaled_bytes
from dblog.dialects.mysql.values.types import TypeModes, column_plan
from dblog.errors import DefiniteError
from dblog.model import Column, TableId
from support.mysql_log import table_map_body
from support.type_cases import CASES, MODES, column, ddl, default

TABLE = TableId("db", "t")
RECORDED = json.loads((Path(__file__).parents[4] / "support" / "debezium" / "types.json").read_text())


def modes_of(properties):
    propagate = (lambda name: name == "db.t.c") if "column.propagate.source.type" in properties else None
    return TypeModes.from_settings(properties, column_propagate=propagate)


def field_text(column_, modes):
    schema = row_schema("p.db.t", [("c", column_plan(column_, modes, TABLE).schema)])
    text = avro.avro_text(replace(schema, optional=False))
    return text.partition('"fields":[')[2].rpartition('],"connect.name":')[0]


@pytest.mark.parametrize("properties", MODES, ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()) or "defaults")
def test_every_type_in_every_mode_has_the_schema_text_that_debezium_registers(properties):
    modes = modes_of(properties)
    expected = RECORDED["{}"] | RECORDED[json.dumps(properties)]

    differences = {ddl(c): (field_text(c, modes), expected[ddl(c)]) for c in CASES if field_text(c, modes) != expected[ddl(c)]}

    assert differences == {}


@pytest.mark.parametrize("properties", MODES, ids=str)
def test_the_zero_of_every_required_column_is_a_value_of_its_schema(properties):
    for c in CASES:
        plan = column_plan(c, modes_of(properties), TABLE)
        if not plan.schema.optional:
            assert avro.encode(plan.schema, plan.zero) == avro.encode(replace(plan.schema, default=None), plan.zero)
            assert plan.schema.default is None or plan.zero == plan.schema.default


OTHERWISE_ON_PURPOSE = {
    "`c` varchar(10) CHARACTER SET utf8mb4 DEFAULT 'quo\"te\\tab\t'": "the server reads the backslash as an escape; Debezium keeps it",
}


def test_statements_that_our_parser_reads_end_in_the_same_schemas():
    context = Context(
        flavor=mysql_flavor(), table=lambda _: None, default_database="db", server_charset="utf8mb4", server_collation="utf8mb4_0900_ai_ci",
        explicit_timestamps=True,
    )  # fmt: skip

    different = set()
    for c in CASES:
        (change,) = parse(f"CREATE TABLE db.t ({ddl(c)})", context)
        if field_text(change.table.columns[0], PLAIN) != RECORDED["{}"][ddl(c)]:
            different.add(ddl(c))

    assert different == set(OTHERWISE_ON_PURPOSE)


PLAIN = TypeModes()


@pytest.mark.parametrize(
    ("column_", "modes", "source", "form"),
    [
        (column("tinyint(1)", length=1), {}, Source.INT8, Form.INT),
        (column("smallint unsigned"), {}, Source.INT16, Form.INT),
        (column("mediumint"), {}, Source.INT24, Form.INT),
        (column("int"), {}, Source.INT32, Form.INT),
        (column("bigint"), {}, Source.INT64, Form.INT),
        (column("bigint unsigned"), {}, Source.INT64, Form.UNSIGNED_WRAPPED),
        (column("bigint unsigned"), {"bigint.unsigned.handling.mode": "precise"}, Source.INT64, Form.DECIMAL),
        (column("float"), {}, Source.FLOAT, Form.FLOAT32),
        (column("float(7,3)", length=7, scale=3), {}, Source.FLOAT, Form.FLOAT64),
        (column("double"), {}, Source.DOUBLE, Form.FLOAT64),
        (column("decimal(10,2)", length=10, scale=2), {}, Source.DECIMAL, Form.DECIMAL),
        (column("decimal(10,2)", length=10, scale=2), {"decimal.handling.mode": "string"}, Source.DECIMAL, Form.DECIMAL_TEXT),
        (column("decimal(10,2)", length=10, scale=2), {"decimal.handling.mode": "double"}, Source.DECIMAL, Form.DECIMAL_DOUBLE),
        (column("bit(1)", length=1), {}, Source.BIT, Form.BOOLEAN),
        (column("bit(7)", length=7), {}, Source.BIT, Form.BITS),
        (column("varchar(5)", length=5, charset="latin1"), {}, Source.TEXT, Form.TEXT),
        (column("text", charset="utf8mb4"), {}, Source.TEXT, Form.TEXT),
        (column("blob"), {}, Source.BINARY, Form.BYTES),
        (column("blob"), {"binary.handling.mode": "base64"}, Source.BINARY, Form.BASE64),
        (column("blob"), {"binary.handling.mode": "base64-url-safe"}, Source.BINARY, Form.BASE64_URL),
        (column("blob"), {"binary.handling.mode": "hex"}, Source.BINARY, Form.HEX),
        (column("json"), {}, Source.JSON, Form.TEXT),
        (column("enum('a')", members=("a",)), {}, Source.ENUM, Form.TEXT),
        (column("set('a')", members=("a",)), {}, Source.SET, Form.TEXT),
        (column("year"), {}, Source.YEAR, Form.INT),
        (column("date"), {}, Source.DATE, Form.DAYS),
        (column("date"), {"time.precision.mode": "isostring"}, Source.DATE, Form.ISO_DATE),
        (column("time(3)", length=3), {}, Source.TIME, Form.MICROS),
        (column("time"), {"time.precision.mode": "connect"}, Source.TIME, Form.MILLIS),
        (column("time"), {"time.precision.mode": "isostring"}, Source.TIME, Form.ISO_TIME),
        (column("time"), {"time.precision.mode": "nanoseconds"}, Source.TIME, Form.NANOS),
        (column("datetime(3)", length=3), {}, Source.DATETIME, Form.MILLIS),
        (column("datetime(4)", length=4), {}, Source.DATETIME, Form.MICROS),
        (column("datetime"), {"time.precision.mode": "microseconds"}, Source.DATETIME, Form.MICROS),
        (column("datetime(6)", length=6), {"time.precision.mode": "connect"}, Source.DATETIME, Form.MILLIS),
        (column("datetime"), {"time.precision.mode": "isostring"}, Source.DATETIME, Form.ISO_TIMESTAMP),
        (column("timestamp"), {"time.precision.mode": "connect"}, Source.TIMESTAMP, Form.ZONED_TIMESTAMP),
        (column("point"), {}, Source.GEOMETRY, Form.POINT),
        (column("multipolygon"), {}, Source.GEOMETRY, Form.GEOMETRY),
        (column("vector(3)", length=3), {}, Source.VECTOR, Form.FLOAT_VECTOR),
    ],
    ids=lambda x: x.type_text if isinstance(x, Column) else None,
)
def test_source_and_form_follow_type_and_mode(column_, modes, source, form):
    plan = column_plan(column_, TypeModes.from_settings(modes), TABLE)

    assert (plan.source, plan.form) == (source, form)


def test_temporal_schema_names_are_those_of_the_manual():
    names = {
        mode: [column_plan(column(t, length=p), TypeModes(time_precision_mode=mode), TABLE).schema.name for t, p in TEMPORAL]
        for mode in ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
    }

    debezium, connect = "io.debezium.time.", "org.apache.kafka.connect.data."
    zoned = debezium + "ZonedTimestamp"
    assert names == {
        "adaptive_time_microseconds": [debezium + n for n in ("Date", "MicroTime", "MicroTime", "Timestamp", "MicroTimestamp")] + [zoned],
        "connect": [connect + n for n in ("Date", "Time", "Time", "Timestamp", "Timestamp")] + [zoned],
        "isostring": [debezium + n for n in ("IsoDate", "IsoTime", "IsoTime", "IsoTimestamp", "IsoTimestamp")] + [zoned],
        "microseconds": [debezium + n for n in ("Date", "MicroTime", "MicroTime", "MicroTimestamp", "MicroTimestamp")] + [zoned],
        "nanoseconds": [debezium + n for n in ("Date", "NanoTime", "NanoTime", "NanoTimestamp", "NanoTimestamp")] + [zoned],
    }


TEMPORAL = [("date", None), ("time(3)", 3), ("time(6)", 6), ("datetime(3)", 3), ("datetime(6)", 6), ("timestamp(6)", 6)]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("time.precision.mode", "adaptive"),
        ("decimal.handling.mode", "exact"),
        ("binary.handling.mode", "raw"),
        ("bigint.unsigned.handling.mode", "x"),
    ],
)
def test_a_mode_that_the_connector_does_not_have_is_refused_by_name(option, value):
    with pytest.raises(DefiniteError, match=f"{option}={value} is not supported"):
        TypeModes.from_settings({option: value})


def test_a_type_that_cannot_be_captured_names_table_column_type_and_the_way_out():
    with pytest.raises(DefiniteError) as e:
        column_plan(column("xmltype"), PLAIN, TABLE)

    assert "db.t: column c has type xmltype" in str(e.value)
    assert "column.exclude.list=db.t.c" in str(e.value)


def test_an_excluded_column_keeps_its_source_and_has_no_schema():
    plan = column_plan(column("int unsigned"), PLAIN, TABLE, included=False)

    assert (plan.included, plan.schema, plan.source, plan.unsigned) == (False, None, Source.INT32, True)


def test_a_column_of_unknown_type_can_be_excluded():
    assert column_plan(column("xmltype"), PLAIN, TABLE, included=False).included is False


def test_spellings_of_create_table_mean_what_information_schema_calls_them():
    for spelling, plain in [("integer", "int"), ("numeric(5,1)", "decimal(5,1)"), ("boolean", "tinyint(1)"), ("real", "double")]:
        length, scale = (5, 1) if "(5" in spelling else (None, None)
        assert column_plan(column(spelling, length=length, scale=scale), PLAIN, TABLE).schema == (
            column_plan(column(plain, length=length, scale=scale), PLAIN, TABLE).schema
        )


def test_text_in_the_binary_character_set_is_bytes():
    assert column_plan(column("text", charset="binary"), PLAIN, TABLE).form is Form.BYTES


@pytest.mark.parametrize(
    ("type_text", "text", "more", "expected"),
    [
        ("bit(1)", "b'1'", {"length": 1}, True),
        ("bit(9)", "0x0101", {"length": 9}, b"\x01\x01"),
        ("bit(9)", "257", {"length": 9}, b"\x01\x01"),
        ("int", "true", {}, 1),
        ("int", "0x10", {}, 16),
        ("int", "not a number", {}, None),
        ("decimal(10,2)", "-1.005", {"length": 10, "scale": 2}, unscaled_bytes(-101)),
        ("varbinary(4)", "0x6162", {"length": 4}, b"ab"),
        ("date", "2020-1-2 03:04:05", {}, 18263),
        ("date", "2020-00-10", {}, None),
        ("datetime", "2020-02-30 00:00:00", {}, None),
        ("time", "1 02:03:04", {}, (26 * 3600 + 3 * 60 + 4) * 1_000_000),
        ("time", "1234", {}, (12 * 60 + 34) * 1_000_000),
    ],
)
def test_defaults_are_read_in_every_spelling_that_servers_show(type_text, text, more, expected):
    assert column_plan(default(type_text, text, **more), PLAIN, TABLE).schema.default == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "00"), (1, "01"), (127, "7f"), (128, "0080"), (-1, "ff"), (-128, "80"), (-129, "ff7f"), (255, "00ff")]
)
def test_unscaled_bytes_are_the_shortest_twos_complement(value, expected):
    assert unscaled_bytes(value).hex() == expected


def test_mariadb_knows_its_own_types_and_json_is_text():
    plans = {t: mariadb.column_plan(column(t), PLAIN, TABLE) for t in ("uuid", "inet4", "inet6", "json", "int")}

    assert {t: (p.source, p.form, p.schema.name) for t, p in plans.items()} == {
        "uuid": (Source.UUID, Form.TEXT, "io.debezium.data.Uuid"),
        "inet4": (Source.INET4, Form.TEXT, None),
        "inet6": (Source.INET6, Form.TEXT, None),
        "json": (Source.TEXT, Form.TEXT, None),
        "int": (Source.INT32, Form.INT, None),
    }
    with pytest.raises(DefiniteError, match="cannot capture"):
        mariadb.column_plan(column("xmltype"), PLAIN, TABLE)


def test_datatype_propagation_is_asked_with_database_table_and_type():
    asked = []
    modes = TypeModes(datatype_propagate_source_type=lambda name: asked.append(name) or name == "db.t.INT UNSIGNED")

    parameters = dict(column_plan(column("int(10) unsigned", length=10), modes, TABLE).schema.parameters)

    assert asked == ["db.t.INT UNSIGNED"]
    assert parameters == {
        "__debezium.source.column.type": "INT UNSIGNED",
        "__debezium.source.column.length": "10",
        "__debezium.source.column.name": "c",
    }


@pytest.mark.parametrize(
    ("text", "length", "reported"), [("datetime", 0, None), ("time(3)", 3, "3"), ("timestamp", 0, None), ("bit(1)", 1, "1")]
)
def test_a_time_without_fraction_digits_is_propagated_without_a_length(text: str, length: int, reported: str | None):
    modes = TypeModes(column_propagate_source_type=lambda _: True)

    parameters = dict(column_plan(column(text, length=length), modes, TABLE).schema.parameters)

    assert parameters.get("__debezium.source.column.length") == reported


def test_tinyint_is_int16_as_consumers_of_debezium_3_6_expect():
    assert column_plan(column("tinyint"), PLAIN, TABLE).schema.kind is Kind.INT16


IMPOSSIBLE = [
    *((f"{kind}({digits})", digits, None) for kind in ("time", "datetime", "timestamp") for digits in (7, 255, 1 << 31, -1)),
    *(("decimal", digits, scale) for digits, scale in ((66, 0), (0, 0), (10, 11), (65, 39), (10, -5), (1 << 31, 0))),
    ("bit", 65, None),
    ("bit", 1 << 40, None),
    ("binary", 1 << 30, None),
    ("char", -1, None),
    ("varbinary", 1 << 62, None),
]
"""What a server may send for a length, though none has such a column."""


# number 32 of the worker's safety
@pytest.mark.parametrize("dialect", [mysql, mariadb])
@pytest.mark.parametrize(("text", "length", "scale"), IMPOSSIBLE)
def test_a_length_that_no_server_has_reaches_no_compiled_code(dialect, text: str, length: int, scale: int | None):
    given = replace(column(text), length=length, scale=scale)

    for included in (True, False):
        with pytest.raises(DefiniteError, match=r"db\.t: the server gives column c, .*; see what answers at database\.hostname"):
            dialect.column_plan(given, PLAIN, TABLE, included=included)


# number 32 of the worker's safety
def test_a_table_map_of_timestamps_with_255_fraction_digits_is_refused():
    seen = seen_of(read_table_map(table_map_body(5, "db", "t", bytes([17]), b"\xff")), Charsets(collations={}, widths={}))

    with pytest.raises(DefiniteError, match="that the type cannot have"):
        column_plan(seen.columns[0], PLAIN, TABLE)


def test_a_converter_makes_boolean_columns_of_its_tinyints_alone():
    modes = TypeModes(boolean_column=lambda name, width: name == "db.t.c" and width == 1)
    flag = default("tinyint(1)", "1", length=1)

    made = column_plan(flag, modes, TABLE)

    assert (made.form, made.schema.kind, made.schema.default, made.schema.optional) == (Form.BOOLEAN, Kind.BOOLEAN, True, True)
    assert column_plan(replace(flag, length=4), modes, TABLE).schema.kind is Kind.INT16
    assert column_plan(replace(flag, type="int", type_text="int"), modes, TABLE).schema.kind is Kind.INT32
    assert column_plan(replace(flag, name="d"), modes, TABLE).schema.kind is Kind.INT16
