"""Numeric, money and floats: exact for every number that the server can print."""

import math
import struct
import time
from decimal import Decimal

import pytest
from dblog.codecs.plan import Form
from dblog.dialects.postgres.values import numbers
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.sources import PgSource
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import BadRowsError
from dblog.model import Column, TableId
from hypothesis import given
from hypothesis import strategies as st

TABLE = TableId("public", "t")


def read(name, text, *, length=None, scale=None, nullable=True, **modes):
    column = Column(name="c", type=name, type_text=name, nullable=nullable, length=length, scale=scale)
    settings = TypeModes(**modes)
    return reader(column_plan(column, settings, TABLE), settings, where="public.t.c")(text.encode())


def printed(units: int, scale: int) -> str:
    """A numeric as the server prints it: all fraction digits, no exponent, no sign of zero."""
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(scale + 1, "0")
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


@given(st.integers(-(10**60), 10**60), st.integers(0, 40))
def test_a_decimal_s_bytes_are_the_number_at_the_column_s_scale(units, scale):
    raw = read("numeric", printed(units, scale), length=60, scale=scale)

    assert int.from_bytes(raw, "big", signed=True) == units
    assert len(raw) == 1 or int.from_bytes(raw[1:], "big", signed=True) != units


@given(st.integers(-(10**60), 10**60), st.integers(0, 40))
def test_a_numeric_without_scale_has_the_fewest_fraction_digits_that_keep_it_whole(units, scale):
    value = read("numeric", printed(units, scale))

    found = int.from_bytes(value["value"], "big", signed=True)
    assert value["scale"] == 0 or found % 10 != 0
    assert found * 10 ** (scale - value["scale"]) == units


@given(st.integers(-(10**30), 10**30), st.integers(0, 30))
def test_a_numeric_as_double_is_the_nearest_one_and_as_text_what_the_server_prints(units, scale):
    text = printed(units, scale)

    assert read("numeric", text, length=40, scale=scale, decimal_handling_mode="double") == float(Decimal(text))
    assert read("numeric", text, length=40, scale=scale, decimal_handling_mode="string") == text


def test_a_numeric_of_the_longest_kind_is_read():
    digits = "7" * 131_072

    value = read("numeric", f"-{digits}.{'3' * 16_383}")

    assert value["scale"] == 16_383
    assert int.from_bytes(value["value"], "big", signed=True) % 10**20 == 10**20 - int("3" * 20)


def test_a_numeric_of_the_longest_kind_holds_up_no_others():
    def taken_s():
        began_s = time.process_time()
        read("numeric", "7" * 131_072)
        return time.process_time() - began_s

    # The square of its digits would be 0.8 s, for a row that whoever may write the table can give by the thousand.
    assert min(taken_s() for _ in range(3)) < 0.25


@pytest.mark.parametrize("damage", ["x", "-", " ", "_"])
def test_a_long_text_that_is_no_number_is_taken_for_none(damage):
    with pytest.raises(ValueError, match="^$"):
        numbers.unscaled(f"{'1' * 3000}{damage}{'1' * 3000}".encode(), 0)


@given(st.integers(1900, 9000), st.integers(0, 9), st.sampled_from(["", "-"]))
def test_a_long_numeric_is_the_number_that_its_digits_spell(count, digit, sign):
    text = f"{sign}1{str(digit) * count}"

    assert numbers.unscaled(text.encode(), 0) == int(Decimal(text))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(("length", "scale"), [(None, None), (10, 2)])
def test_what_is_no_number_is_null_in_a_decimal_that_may_be_null(text, length, scale):
    assert read("numeric", text, length=length, scale=scale) is None


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(("length", "scale"), [(None, None), (10, 2)])
@pytest.mark.parametrize("how", [{"nullable": False}, {"event_converting_failure_handling_mode": "fail"}])
def test_what_is_no_number_stops_where_null_may_not_stand_for_it(text, length, scale, how):
    with pytest.raises(BadRowsError) as e:
        read("numeric", text, length=length, scale=scale, **how)

    assert str(e.value) == (
        "public.t.c: NaN and infinity cannot be written as a decimal; set decimal.handling.mode=string (or double), or exclude the column"
    )


def test_what_is_no_number_has_debezium_s_names_as_text_and_is_itself_as_double():
    texts = ("NaN", "Infinity", "-Infinity")

    assert [read("numeric", t, decimal_handling_mode="string") for t in texts] == ["NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY"]
    assert [repr(read("numeric", t, decimal_handling_mode="double")) for t in texts] == ["nan", "inf", "-inf"]


def test_a_numeric_that_rounds_to_hundreds_is_a_decimal_without_fraction_that_has_room_for_it():
    column = Column(name="c", type="numeric", type_text="numeric(3,-2)", nullable=True, length=3, scale=-2)
    plan = column_plan(column, TypeModes(), TABLE)

    assert dict(plan.schema.parameters) == {"scale": "0", "connect.decimal.precision": "5"}
    assert reader(plan, TypeModes())(b"-12300") == numbers.unscaled_bytes(-12300)


def test_a_numeric_of_more_fraction_digits_than_digits_has_an_avro_precision_that_holds_its_scale():
    column = Column(name="c", type="numeric", type_text="numeric(2,5)", nullable=True, length=2, scale=5)
    plan = column_plan(column, TypeModes(), TABLE)

    assert dict(plan.schema.parameters) == {"scale": "5", "connect.decimal.precision": "5"}
    assert reader(plan, TypeModes())(b"0.00012") == bytes([12])


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "00"), (1, "01"), (127, "7f"), (128, "0080"), (-1, "ff"), (-128, "80"), (-129, "ff7f"), (255, "00ff")]
)
def test_unscaled_bytes_are_the_shortest_twos_complement(value, expected):
    assert numbers.unscaled_bytes(value).hex() == expected


@given(st.floats(width=32))
def test_a_real_is_the_32_bit_float_that_the_server_has(value):
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), f"{value:.9g}")

    assert struct.pack("<f", read("float4", text)) == struct.pack("<f", value) or math.isnan(value)


@given(st.floats())
def test_a_double_is_read_exactly(value):
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))

    assert struct.pack("<d", read("float8", text)) == struct.pack("<d", value) or math.isnan(value)


@pytest.mark.parametrize(
    ("text", "digits", "amount"),
    [
        ("$1,234.50", 2, "1234.50"),
        ("-$1,234.50", 2, "-1234.50"),
        ("($0.01)", 2, "-0.01"),
        ("$-1.00", 2, "-1.00"),
        ("$0.00", 2, "0.00"),
        ("-$92,233,720,368,547,758.08", 2, "-92233720368547758.08"),
        ("1.234.567,89 \u20ac", 2, "1234567.89"),
        ("-0,50 \u20ac", 2, "-0.50"),
        ("1\u202f234,50 \u20ac", 2, "1234.50"),
        ("Fr. 1'234.50", 2, "1234.50"),
        ("12,34,567.89", 2, "1234567.89"),
        ("\uffe51,234", 2, "1234"),
        ("\uffe51,234,567", 0, "1234567"),
        ("\uffe5-1", 0, "-1"),
        ("KD 1.234", 3, "1.234"),
        ("1.234,567 KD", 3, "1234.567"),
        ("1,00-", 2, "-1.00"),
    ],
)
def test_money_is_read_in_the_notation_of_many_locales(text, digits, amount):
    assert str(numbers.money(text, digits)) == amount


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 4))
def test_money_is_rounded_half_up_to_the_digits_that_the_option_wants(cents, digits):
    text = f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"

    raw = read("money", text, money_fraction_digits=digits)

    factor = 10**digits
    expected = (abs(cents) * factor * 2 + 100) // 200 * (-1 if cents < 0 else 1)
    assert int.from_bytes(raw, "big", signed=True) == expected


def test_money_has_no_symbol_in_the_other_modes():
    assert read("money", "-$1,234.50", decimal_handling_mode="string") == "-1234.50"
    assert read("money", "-$1,234.50", decimal_handling_mode="double") == -1234.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int4", "secret"),
        ("bool", "secret"),
        ("numeric", "secret"),
        ("money", "secret"),
        ("float8", "secret"),
        ("bytea", "secret"),
        ("uuid[]", ""),
    ],
)
def test_a_text_that_is_none_of_the_type_is_an_error_that_does_not_quote_it(name, text):
    name = name.replace("uuid[]", "_uuid")
    with pytest.raises(BadRowsError) as e:
        read(name, text or "secret")

    assert "public.t.c: the server's text is not one of type" in str(e.value)
    assert "secret" not in str(e.value)
    assert e.value.__cause__ is None
    assert e.value.__suppress_context__


def test_a_compiled_reader_is_told_how_numbers_are_written():
    def of(name, **more):
        modes = {key: more.pop(key) for key in list(more) if key.endswith("mode")}
        plan = column_plan(Column(name="c", type=name, type_text=name, nullable=True, **more), TypeModes(**modes), TABLE)
        return plan.source, plan.form, plan.unfit

    assert of("int2") == of("oid") == (PgSource.INT, Form.INT, "keep")
    assert of("bool") == (PgSource.BOOL, Form.BOOLEAN, "keep")
    assert of("float4") == (PgSource.FLOAT4, Form.FLOAT32, "keep")
    assert of("float8") == (PgSource.FLOAT8, Form.FLOAT64, "keep")
    assert of("numeric", length=5, scale=1) == (PgSource.NUMERIC, Form.DECIMAL, "null")
    assert of("numeric") == (PgSource.VALUE, Form.VALUE, "null")
    assert of("numeric", decimal_handling_mode="string") == (PgSource.NUMERIC, Form.DECIMAL_TEXT, "keep")
    assert of("numeric", decimal_handling_mode="double") == (PgSource.NUMERIC, Form.DECIMAL_DOUBLE, "keep")
    assert of("money") == (PgSource.VALUE, Form.VALUE, "keep")
