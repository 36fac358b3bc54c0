import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.evolve import AddColumn, WidenColumn, changes, wider
from pyspark.sql import types as t

BYTE, SHORT, INT, LONG = t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType()


@pytest.mark.parametrize(
    ("target", "incoming", "expected"),
    [
        (INT, INT, INT),
        (INT, LONG, LONG),
        (LONG, INT, LONG),
        (SHORT, BYTE, SHORT),
        (SHORT, t.BooleanType(), SHORT),
        (t.FloatType(), t.DoubleType(), t.DoubleType()),
        (t.DoubleType(), t.FloatType(), t.DoubleType()),
        (INT, t.DoubleType(), t.DoubleType()),
        (t.DoubleType(), INT, t.DoubleType()),
        (t.DecimalType(10, 2), t.DecimalType(12, 2), t.DecimalType(12, 2)),
        (t.DecimalType(10, 2), t.DecimalType(10, 4), t.DecimalType(12, 4)),
        (t.DecimalType(10, 2), t.DecimalType(8, 2), t.DecimalType(10, 2)),
        (INT, t.DecimalType(5, 2), t.DecimalType(12, 2)),
        (LONG, t.DecimalType(20, 0), t.DecimalType(20, 0)),
        (t.DecimalType(20, 0), LONG, t.DecimalType(20, 0)),
        (t.DateType(), t.TimestampNTZType(), t.TimestampNTZType()),
    ],
)
def test_a_type_that_holds_both_is_found(target: t.DataType, incoming: t.DataType, expected: t.DataType) -> None:
    assert wider(target, incoming) == expected


@pytest.mark.parametrize(
    ("target", "incoming"),
    [
        (t.StringType(), INT),
        (INT, t.StringType()),
        (LONG, t.DoubleType()),
        (t.DoubleType(), LONG),
        (t.BooleanType(), SHORT),
        (t.DecimalType(38, 10), t.DecimalType(38, 12)),
        (t.TimestampType(), t.TimestampNTZType()),
        (t.BinaryType(), t.StringType()),
    ],
)
def test_no_value_is_ever_cast_to_a_type_that_may_lose_it(target: t.DataType, incoming: t.DataType) -> None:
    assert wider(target, incoming) is None


def test_new_columns_are_added_and_old_ones_kept() -> None:
    target = (("id", LONG), ("gone", INT), ("n", INT))

    assert changes("a.b", target, (("id", LONG), ("N", LONG), ("fresh", t.StringType()))) == [
        WidenColumn("n", LONG),
        AddColumn("fresh", t.StringType()),
    ]


def test_an_impossible_change_names_table_column_and_types() -> None:
    with pytest.raises(DefiniteError) as caught:
        changes("shop.orders", (("total", INT),), (("total", t.StringType()),))

    assert all(word in str(caught.value) for word in ("shop.orders", "column total", "string", "int"))
