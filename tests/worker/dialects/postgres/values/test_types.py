"""Plans of columns: what is left out, what mappers do, defaults, and the options that are refused."""

import pytest
from dblog.codecs.plan import ColumnPlan, Form
from dblog.codecs.rewrites import Hash, Mask, Truncate
from dblog.dialects.postgres.values.declared import UNLIMITED, declared_length, declared_scale, declared_type
from dblog.dialects.postgres.values.fields import reader, unavailable
from dblog.dialects.postgres.values.sources import PgSource
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import DefiniteError
from dblog.model import Column, TableId
from support.postgres_type_cases import CASES

TABLE = TableId("shop", "orders")
PLAIN = TypeModes()


def column(name, type_text=None, **more):
    return Column(name="c", type=name, type_text=type_text or name, **{"nullable": True, **more})


def default_of(name, text, **more):
    modes = TypeModes(**{key: more.pop(key) for key in list(more) if hasattr(PLAIN, key)})
    return column_plan(column(name, has_default=True, default=text, **more), modes, TABLE).schema.default


@pytest.mark.parametrize(
    "name", ["box", "circle", "tsquery", "pg_lsn", "composite", "isbn13", "int4multirange", "refcursor", "shop.price", "xid"]
)
def test_a_type_that_debezium_does_not_know_is_left_out_of_row_and_key(name):
    plan = column_plan(column(name), PLAIN, TABLE)

    assert (plan.included, plan.schema, plan.key_schema) == (False, None, None)
    assert unavailable(plan, PLAIN) is None


@pytest.mark.parametrize("name", ["tsquery", "composite", "int4multirange", "shop.price", "shop.box"])
def test_an_unknown_type_that_is_asked_for_is_the_bytes_of_its_text(name):
    modes = TypeModes(include_unknown_datatypes=True)
    plan = column_plan(column(name), modes, TABLE)

    assert (plan.included, plan.source, plan.form) == (True, PgSource.TEXT, Form.BYTES)
    assert reader(plan, modes)("(1,\u017e)".encode()) == "(1,\u017e)".encode()


def test_an_excluded_column_has_no_schema_but_one_for_a_key():
    plan = column_plan(column("int4"), PLAIN, TABLE, included=False)

    assert (plan.included, plan.schema) == (False, None)
    assert plan.key_schema == column_plan(column("int4"), PLAIN, TABLE).schema
    assert reader(plan, PLAIN)(b"7") == 7


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("time.precision.mode", "exact"),
        ("decimal.handling.mode", "exact"),
        ("binary.handling.mode", "raw"),
        ("hstore.handling.mode", "text"),
        ("interval.handling.mode", "iso"),
        ("event.converting.failure.handling.mode", "ignore"),
    ],
)
def test_a_mode_that_the_connector_does_not_have_is_refused_by_name(option, value):
    with pytest.raises(DefiniteError, match=f"{option}={value} is not supported by this connector; use one of"):
        TypeModes.from_settings({option: value})


@pytest.mark.parametrize("value", ["-1", "two", ""])
def test_fraction_digits_that_are_no_number_are_refused(value):
    with pytest.raises(DefiniteError, match=f"money.fraction.digits={value} is not a number of digits; use 0 or more"):
        TypeModes.from_settings({"money.fraction.digits": value})


def test_a_placeholder_that_is_not_hexadecimal_is_refused():
    with pytest.raises(DefiniteError, match=r"unavailable.value.placeholder=hex:xy is not hexadecimal; write two digits"):
        TypeModes.from_settings({"unavailable.value.placeholder": "hex:xy"})


def test_options_are_read_as_text_and_as_parsed_values():
    parsed = TypeModes.from_settings({"include.unknown.datatypes": True, "money.fraction.digits": 3, "hstore.handling.mode": " MAP "})
    written = TypeModes.from_settings({"include.unknown.datatypes": "true", "money.fraction.digits": "3", "hstore.handling.mode": "map"})

    assert parsed == written == TypeModes(include_unknown_datatypes=True, money_fraction_digits=3, hstore_handling_mode="map")
    assert TypeModes.from_settings({}) == PLAIN


def test_a_plan_of_another_dialect_has_no_reader():
    with pytest.raises(AssertionError, match="plans of PostgreSQL's columns"):
        reader(ColumnPlan(name="c", source=PgSource.INT, form=Form.INT), PLAIN)


# --- what mappers do -------------------------------------------------------------------------------------------------


def test_mappers_are_asked_with_schema_table_and_column_or_type():
    asked = []
    modes = TypeModes(
        column_propagate_source_type=lambda name: asked.append(name) or False,
        datatype_propagate_source_type=lambda name: asked.append(name) or name == "shop.orders.numeric",
        column_rewrite=asked.append,
    )

    plan = column_plan(column("numeric", "numeric(8,3)", length=8, scale=3), modes, TABLE)

    assert asked == ["shop.orders.c", "shop.orders.c", "shop.orders.numeric"]
    assert dict(plan.schema.parameters[2:]) == {
        "__debezium.source.column.type": "NUMERIC",
        "__debezium.source.column.length": "8",
        "__debezium.source.column.scale": "3",
        "__debezium.source.column.name": "c",
    }
    assert plan.key_schema.parameters == plan.schema.parameters[:2]


def test_the_first_mapper_that_names_a_column_is_its_only_one():
    modes = TypeModes(column_propagate_source_type=lambda _: True, column_rewrite=lambda _: Mask("*"))

    assert column_plan(column("text"), modes, TABLE).schema.parameters == (("masked", "true"),)


@pytest.mark.parametrize("asked", [Mask("***"), Hash("SHA-256", "salt", 2)])
def test_masks_and_hashes_change_texts_and_leave_the_key_alone(asked):
    modes = TypeModes(column_rewrite=lambda _: asked)
    changed = {case.column.type for case in CASES if getattr(column_plan(case.column, modes, TABLE), "rewrite", None)}

    assert changed == {"text", "varchar", "bpchar", "char", "name", "enum", "citext"}
    for case in CASES:
        plan = column_plan(case.column, modes, TABLE)
        if plan.schema is not None:
            assert ("masked", "true") in plan.schema.parameters
            assert ("masked", "true") not in plan.key_schema.parameters


def test_a_hash_is_no_longer_than_the_column():
    modes = TypeModes(column_rewrite=lambda _: Hash("SHA-256", "salt", 2))
    plans = [
        column_plan(c, modes, TABLE) for c in (column("varchar", length=10), column("text"), column("varchar"), column("bpchar", length=1))
    ]

    assert [plan.rewrite.length for plan in plans] == [10, 0, 0, 1]


def test_a_cut_leaves_columns_that_are_short_enough_as_they_are():
    modes = TypeModes(column_rewrite=lambda _: Truncate(10))
    columns = {
        "short": column("varchar", length=10),
        "long": column("varchar", length=11),
        "text": column("text"),
        "bytes": column("bytea"),
        "zoned": column("timestamptz"),
        "number": column("int8"),
        "array": column("_text"),
    }
    plans = {name: column_plan(c, modes, TABLE) for name, c in columns.items()}

    assert {name: bool(plan.rewrite) for name, plan in plans.items()} == {
        "short": False, "long": True, "text": True, "bytes": True, "zoned": True, "number": False, "array": False,
    }  # fmt: skip
    assert {name for name, plan in plans.items() if plan.schema.parameters} == set(columns) - {"short"}


def test_comments_are_the_schema_s_doc_where_they_are_asked_for():
    commented = column("text", comment="why")

    assert column_plan(commented, PLAIN, TABLE).schema.doc is None
    assert column_plan(commented, TypeModes(include_schema_comments=True), TABLE).schema.doc == "why"


# --- the declared type -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("integer", "int4"),
        ("integer[]", "_int4"),
        ("character varying(10)", "varchar"),
        ("character varying(10)[]", "_varchar"),
        ("character(3)", "bpchar"),
        ('"char"', "char"),
        ("timestamp(3) without time zone", "timestamp"),
        ("timestamp with time zone[]", "_timestamptz"),
        ("time(6) with time zone", "timetz"),
        ("interval day to second(3)", "interval"),
        ("interval(3)", "interval"),
        ("bit varying", "varbit"),
        ("double precision", "float8"),
        ("numeric(3,-2)", "numeric"),
        ("geometry(Point,4326)", "geometry"),
        ("postgis.geometry(Point,4326)", "geometry"),
        ("shop.price", "price"),
        ('shop."Odd ""name"".x"', 'Odd "name".x'),
        ('"My.Schema"."T"[]', "_T"),
    ],
)
def test_the_declared_type_s_name_is_the_one_of_pg_type(text, name):
    assert declared_type(column("any", text)) == name


def test_length_and_scale_are_those_of_the_driver():
    def of(name, **more):
        return declared_length(column(name, **more)), declared_scale(column(name, **more))

    assert of("int4") == of("_int4") == (10, 0)
    assert of("numeric") == (131_089, 0)
    assert of("numeric", length=5, scale=2) == of("_numeric", length=5, scale=2) == (5, 2)
    assert of("text") == of("uuid") == of("varchar") == (UNLIMITED, 0)
    assert [of("timestamp", length=p) for p in (None, 0, 1, 2, 6)] == [(29, 6), (22, 0), (25, 1), (25, 2), (29, 6)]
    assert of("float8") == (17, 17)


# --- defaults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "more", "expected"),
    [
        ("bool", "TRUE", {}, True),
        ("int4", " 7 ", {}, 7),
        ("int4", "no", {}, None),
        ("int8", "1e3", {}, None),
        ("float8", "NaN", {}, None),
        ("numeric", "NaN", {"decimal_handling_mode": "string"}, None),
        ("numeric", "1e3", {"decimal_handling_mode": "string"}, "1000"),
        ("numeric", "1.5", {"decimal_handling_mode": "double"}, 1.5),
        ("numeric", "1", {"decimal_handling_mode": "string", "length": 5, "scale": 2}, "1.00"),
        ("numeric", "1.23", {"length": 5, "scale": 1}, None),
        ("numeric", "12300", {"length": 3, "scale": -2}, b"\x30\x0c"),
        ("text", "it's", {}, "it's"),
        ("varbit", "B'101'", {}, b"\x05"),
        ("timestamptz", "infinity", {}, "infinity"),
        ("interval", "01:00:00", {"interval_handling_mode": "string"}, "P0Y0M0DT1H0M0S"),
        ("text", "x", {"generated": True}, None),
        ("point", "(1,2)", {}, None),
    ],
)
def test_a_literal_is_the_default_where_the_type_has_defaults_and_it_fits(name, text, more, expected):
    assert default_of(name, text, **more) == expected


@pytest.mark.parametrize("text", ["now()", "(now() + '1 day'::interval)", "shop.made(1, 'x'::text)", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"])
def test_what_a_function_or_the_clock_gives_has_the_zero_of_the_type(text):
    assert default_of("timestamp", text, default_is_expression=True) == 0
    assert default_of("text", text, default_is_expression=True) == ""


@pytest.mark.parametrize("text", ["(1 + 2)", "CURRENT_USER", "('a'::text || 'b'::text)"])
def test_any_other_expression_is_no_default(text):
    assert default_of("text", text, default_is_expression=True) is None


def test_a_column_of_a_domain_has_no_default_as_in_debezium():
    assert column_plan(column("int4", "positive", has_default=True, default="3"), PLAIN, TABLE).schema.default is None


def test_a_default_stands_for_null_where_the_column_takes_none():
    assert column_plan(column("int4", "integer", nullable=False, has_default=True, default="7"), PLAIN, TABLE).zero == 7
    assert column_plan(column("int4", "integer", nullable=False), PLAIN, TABLE).zero == 0


# --- unchanged TOAST values ------------------------------------------------------------------------------------------


def placeholder(name, **more):
    modes = TypeModes(**{key: more.pop(key) for key in list(more) if hasattr(PLAIN, key)})
    return unavailable(column_plan(column(name, **more), modes, TABLE), modes)


HEX = {"unavailable_value_placeholder": "hex:80ff41"}


def test_a_placeholder_fits_the_schema_of_every_type_that_can_be_moved_out_of_the_row():
    text = "__debezium_unavailable_value"

    assert placeholder("text") == placeholder("jsonb") == placeholder("numeric", decimal_handling_mode="string") == text
    assert placeholder("bytea") == text.encode()
    assert placeholder("bytea", binary_handling_mode="base64") == text
    assert placeholder("hstore") == f'{{"{text}":"{text}"}}'
    assert placeholder("hstore", hstore_handling_mode="map") == {text: text}
    assert placeholder("_text") == placeholder("_inet") == placeholder("_bytea", binary_handling_mode="hex") == [text]
    assert placeholder("_hstore") == [f'{{"{text}":"{text}"}}']
    assert placeholder("_date", time_precision_mode="isostring") == [text]
    assert placeholder("tsquery", include_unknown_datatypes=True) == text.encode()


def test_numbers_take_the_bytes_of_the_placeholder_as_java_does_with_their_sign():
    assert placeholder("_int4", **HEX) == placeholder("_date", **HEX) == [-128, -1, 65]
    assert placeholder("vector", **HEX) == placeholder("_float8", **HEX) == [-128.0, -1.0, 65.0]
    assert placeholder("_vector", **HEX) == [[-128.0, -1.0, 65.0]]
    assert placeholder("text", **HEX) == "\ufffd\ufffdA"


def test_a_uuid_of_the_placeholder_is_java_s_name_uuid():
    assert placeholder("_uuid") == ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]


def test_types_for_which_debezium_has_no_placeholder_have_its_bytes():
    text = b"__debezium_unavailable_value"
    bits = [True] + [False] * 7 + [True] * 8 + [False, True] + [False] * 5 + [True]
    assert placeholder("geometry") == placeholder("geography") == {"wkb": text, "srid": None}
    assert placeholder("_geometry") == placeholder("_geography") == [{"wkb": text, "srid": None}]
    assert placeholder("numeric") == {"scale": 0, "value": text}
    assert placeholder("_numeric") == [{"scale": 0, "value": text}]
    assert placeholder("_numeric", decimal_handling_mode="double", **HEX) == [-128.0, -1.0, 65.0]
    assert placeholder("_bool", **HEX) == bits
    assert placeholder("_timestamp", **HEX) == placeholder("_time", **HEX) == [-128, -1, 65]
    assert placeholder("sparsevec", **HEX) == {"dimensions": 3, "vector": {1: -128.0, 2: -1.0, 3: 65.0}}


def test_a_decimal_has_the_placeholder_where_it_is_wide_enough_to_be_stored_apart():
    assert placeholder("numeric", length=38, scale=2, **HEX) is None
    assert placeholder("numeric", length=39, scale=2, **HEX) == b"\x80\xffA"
    assert placeholder("_numeric", length=10, scale=2, **HEX) == [b"\x80", b"\xff", b"A"]


@pytest.mark.parametrize("name", ["int4", "float8", "bool", "date", "timestamp", "interval", "money", "point"])
def test_a_type_that_is_never_stored_apart_has_none(name):
    assert placeholder(name) is None
