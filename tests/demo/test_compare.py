"""The comparison at the end of the demo must be able to find a difference."""

import datetime as dt
from decimal import Decimal

import pytest
from demo.canonical import SourceColumn, of_lake, of_source
from demo.compare import compare_table

COLUMNS = (SourceColumn("a", "int", "int"), SourceColumn("b", "varchar", "varchar(10)"), SourceColumn("price", "decimal", "decimal(8,2)"))
SOURCE = [(1, "x", Decimal("1.50")), (1, "y", None), (2, "x", Decimal(0))]
LAKE = [(Decimal("1.5"), "x", 1, "ignored"), (Decimal("0.00"), "x", 2, "ignored"), (None, "y", 1, "ignored")]


def compared(*, lake=LAKE, source=SOURCE, names=("price", "b", "a", "_dblog_seq1"), columns=COLUMNS):
    return compare_table(
        "t",
        columns=columns,
        key=("a", "b"),
        source_rows=source,
        lake_names=list(names),
        lake_rows=lake,
        ignored=frozenset({"_dblog_seq1"}),
    )


def test_the_same_rows_in_any_order_of_rows_and_columns_are_identical():
    result = compared()

    assert result.identical
    assert (result.rows_source, result.rows_lake, result.rows_differing) == (3, 3, 0)


def test_a_changed_cell_is_found_and_named():
    result = compared(lake=[(Decimal("1.51"), "x", 1, ""), *LAKE[1:]])

    assert not result.identical
    assert (result.rows_changed, result.rows_differing, len(result.examples)) == (1, 1, 1)
    assert str(result.examples[0]) == "t[1, 'x']: price is Decimal('1.50') in the source and Decimal('1.51') in the lake"


def test_a_missing_row_is_found():
    result = compared(lake=LAKE[:-1])

    assert not result.identical
    assert (result.rows_missing, result.rows_differing) == (1, 1)
    assert str(result.examples[0]) == "t[1, 'y']: missing in the lake"


def test_an_extra_row_is_found():
    result = compared(lake=[*LAKE, (None, "ghost", 7, "")])

    assert not result.identical
    assert (result.rows_extra, result.rows_differing) == (1, 1)


def test_a_row_that_is_twice_in_the_lake_is_found():
    result = compared(lake=[*LAKE, LAKE[0]])

    assert not result.identical
    assert result.rows_doubled == 1


def test_null_is_not_zero_and_not_an_empty_text():
    assert not compared(lake=[LAKE[0], LAKE[1], (Decimal(0), "y", 1, "")]).identical
    assert not compared(source=[(1, "", None)], lake=[(None, None, 1, "")]).identical


def test_a_column_that_only_one_end_has_is_a_difference():
    missing = compared(names=("b", "a", "_dblog_seq1"), lake=[row[1:] for row in LAKE])
    extra = compared(names=("price", "b", "a", "other"))

    assert missing.columns_differing == ["price is missing in the lake"]
    assert not missing.identical
    assert extra.columns_differing == ["other is only in the lake"]
    assert not extra.identical


def test_a_table_that_is_not_in_the_lake_differs_in_every_row():
    result = compared(names=(), lake=[])

    assert not result.identical
    assert result.rows_missing == 3


def test_only_the_first_few_differences_are_kept_but_all_are_counted():
    result = compared(source=[(n, "x", None) for n in range(50)], lake=[])

    assert result.rows_missing == 50
    assert len(result.examples) == 5


def test_a_value_of_a_kind_that_the_type_cannot_have_equals_nothing():
    column = SourceColumn("n", "int", "int")
    result = compare_table("t", columns=[column], key=["n"], source_rows=[(1,)], lake_names=["n"], lake_rows=[("1",)])

    assert not result.identical
    assert (result.rows_missing, result.rows_extra) == (1, 1)


UTC = dt.UTC
MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)  # noqa: DTZ001 - a DATETIME has no zone


@pytest.mark.parametrize(
    ("column", "source", "lake"),
    [
        (SourceColumn("c", "datetime", "datetime(6)", 6), MOMENT, MOMENT),
        (SourceColumn("c", "datetime", "datetime(6)", 6), MOMENT, 1709168523456789),
        (SourceColumn("c", "datetime", "datetime(3)", 3), MOMENT.replace(microsecond=456000), 1709168523456),
        (SourceColumn("c", "timestamp", "timestamp(6)", 6), MOMENT, MOMENT.replace(tzinfo=UTC)),
        (SourceColumn("c", "timestamp", "timestamp(6)", 6), MOMENT, "2024-02-29T01:02:03.456789Z"),
        (
            SourceColumn("c", "timestamp", "timestamp(6)", 6),
            MOMENT,
            (MOMENT + dt.timedelta(hours=2)).replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
        (SourceColumn("c", "time", "time(6)", 6), -dt.timedelta(hours=838, microseconds=1), -838 * 3600 * 10**6 - 1),
        (SourceColumn("c", "date", "date"), dt.date(1000, 1, 1), dt.date(1000, 1, 1)),
        (SourceColumn("c", "date", "date"), dt.date(1970, 1, 2), 1),
        (SourceColumn("c", "bit", "bit(12)"), b"\x0f\x01", b"\x01\x0f"),
        (SourceColumn("c", "bit", "bit(1)"), b"\x01", True),
        (SourceColumn("c", "float", "float"), 115340.7734375, 115340.7734375),
        (SourceColumn("c", "json", "json"), '{"k": [1, 2.5], "a": null}', '{"a":null,"k":[1,2.5]}'),
        (SourceColumn("c", "bigint", "bigint unsigned"), 2**64 - 1, Decimal(2**64 - 1)),
        (SourceColumn("c", "blob", "blob"), b"\x00\xff", b"\x00\xff"),
        (SourceColumn("c", "text", "text"), None, None),
        (SourceColumn("c", "timestamptz", "timestamp with time zone", 6), MOMENT.replace(tzinfo=UTC), "2024-02-29T01:02:03.456789Z"),
        (SourceColumn("c", "interval", "interval", 6), dt.timedelta(days=-1, microseconds=1), -86_399_999_999),
        (SourceColumn("c", "bit", "bit"), "000100001111", b"\x0f\x01"),
        (SourceColumn("c", "varbit", "bit varying"), "", b""),
        (SourceColumn("c", "numeric", "numeric"), Decimal("1E+20"), "100000000000000000000"),
        (SourceColumn("c", "money", "money"), Decimal("-0.01"), Decimal("-0.01")),
        (SourceColumn("c", "bytea", "bytea"), memoryview(b"\x00\xff"), b"\x00\xff"),
        (SourceColumn("c", "bool", "boolean"), True, True),
        (SourceColumn("c", "point", "point"), "(-180,0.1)", {"x": -180.0, "y": 0.1, "wkb": b"", "srid": None}),
        (SourceColumn("c", "_text", "text[]"), [None, "NULL", ""], [None, "NULL", ""]),
    ],
)
def test_both_ends_of_a_type_meet_in_one_value(column, source, lake):
    read_source, read_lake = of_source(column), of_lake(column)

    assert (source if read_source is None else read_source(source)) == (lake if read_lake is None else read_lake(lake))


@pytest.mark.parametrize(
    ("column", "source", "lake"),
    [
        (SourceColumn("c", "datetime", "datetime(6)", 6), MOMENT, MOMENT + dt.timedelta(microseconds=1)),
        (SourceColumn("c", "time", "time(6)", 6), dt.timedelta(0), 1),
        (SourceColumn("c", "bit", "bit(12)"), b"\x0f\x01", b"\x0f\x01"),
        (SourceColumn("c", "float", "float"), 115340.7734375, 115341.0),
        (SourceColumn("c", "json", "json"), '{"k": 1}', '{"k": "1"}'),
        (SourceColumn("c", "json", "json"), '{"k": 1}', "not json"),
        (SourceColumn("c", "text", "text"), "a", "a "),
        (SourceColumn("c", "blob", "blob"), b"a", "a"),
        (SourceColumn("c", "double", "double"), 0.1, 0.1 + 2**-56),
        (SourceColumn("c", "bool", "boolean"), True, 1),
        (SourceColumn("c", "varbit", "bit varying"), "1", b"\x02"),
        (SourceColumn("c", "point", "point"), "(1,2)", {"x": 2.0, "y": 1.0}),
        (SourceColumn("c", "_int4", "integer[]"), [1, 2], [2, 1]),
    ],
)
def test_values_that_differ_stay_different(column, source, lake):
    read_source, read_lake = of_source(column), of_lake(column)

    assert (source if read_source is None else read_source(source)) != (lake if read_lake is None else read_lake(lake))
