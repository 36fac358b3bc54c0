import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.schema.evolve import AddColumn, DropColumn, Policy, WidenColumn, changes, planned, renaming_steps, wider
from dblog_sink.schema.types import Conversion
from dblog_sink.schema.writer_schemas import Field
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

    assert all(part in str(caught.value) for part in ("shop.orders", "column total", "string", "int"))


TEXT = t.StringType()
TARGET = (("id", LONG), ("a", INT), ("b", TEXT))


def fields(**kinds: t.DataType) -> list[Field]:
    return [Field(name, Conversion(kind, None)) for name, kind in kinds.items()]


def test_each_policy_meets_an_added_column() -> None:
    versions = {7: [*fields(id=LONG, a=INT, b=TEXT), Field("c", Conversion(INT, "int"), fill="5")]}

    for evolution in ("evolve", "lenient"):
        assert planned("s.t", TARGET, versions, Policy(evolution=evolution)).changes == (AddColumn("c", INT, "5"),)
    assert planned("s.t", TARGET, versions, Policy(fill="none")).changes == (AddColumn("c", INT),)
    ignored = planned("s.t", TARGET, versions, Policy(evolution="ignore"))
    assert (ignored.changes, [field.name for field in ignored.fields[7]]) == ((), ["id", "a", "b"])
    with pytest.raises(DefiniteError, match=r"s\.t: the source has a new column c"):
        planned("s.t", TARGET, versions, Policy(evolution="fail"))


def test_each_policy_meets_a_dropped_column() -> None:
    versions = {7: fields(id=LONG, b=TEXT)}

    for policy in (Policy(), Policy(evolution="lenient", drop="drop"), Policy(evolution="ignore", drop="drop")):
        assert planned("s.t", TARGET, versions, policy).changes == ()
    assert planned("s.t", TARGET, versions, Policy(drop="drop")).changes == (DropColumn("a"),)
    with pytest.raises(DefiniteError, match="no column a any more"):
        planned("s.t", TARGET, versions, Policy(evolution="fail"))


def test_an_older_writer_brings_no_dropped_column_back() -> None:
    versions = {5: fields(id=LONG, a=INT, b=TEXT, old=INT), 7: fields(id=LONG, a=INT, b=TEXT)}

    plan = planned("s.t", TARGET, versions, Policy(drop="drop"), newest=7)

    assert plan.changes == ()
    assert [field.name for field in plan.fields[5]] == ["id", "a", "b"]
    assert planned("s.t", TARGET, {5: versions[5][:2]}, Policy(drop="drop"), newest=7).changes == ()


def test_each_policy_meets_a_type_that_grows() -> None:
    versions = {7: fields(id=LONG, a=LONG, b=TEXT)}

    assert planned("s.t", TARGET, versions, Policy()).changes == (WidenColumn("a", LONG),)
    ignored = planned("s.t", TARGET, versions, Policy(evolution="ignore"))
    conversion = ignored.fields[7][1].conversion
    assert (ignored.changes, conversion.type) == ((), INT)
    assert conversion.failed is not None
    assert "try_cast" in conversion.convert("x")
    with pytest.raises(DefiniteError, match="column a: its type in the source became bigint"):
        planned("s.t", TARGET, versions, Policy(evolution="fail"))


def test_a_type_that_does_not_fit_gets_a_column_of_its_own_again_and_again() -> None:
    policy = Policy(incompatible="column")
    first = planned("s.t", TARGET, {7: fields(id=LONG, a=INT, b=INT), 8: fields(id=LONG, a=INT, b=t.DateType())}, policy)

    assert first.changes == (AddColumn("b__v2", INT), AddColumn("b__v3", t.DateType()))
    assert [field.name for field in first.fields[7]] == ["id", "a", "b__v2"]
    assert first.fields[8][2].member == "b"

    # Later ones find their column, or widen it.
    second = planned("s.t", first.columns, {9: fields(id=LONG, a=INT, b=LONG), 10: fields(id=LONG, a=INT, b=TEXT)}, policy, newest=8)

    assert second.changes == (WidenColumn("b__v2", LONG),)
    assert [second.fields[9][2].name, second.fields[10][2].name] == ["b__v2", "b"]


def test_a_key_column_can_only_be_widened() -> None:
    for policy in (Policy(incompatible="column"), Policy(incompatible="quarantine"), Policy()):
        with pytest.raises(DefiniteError, match="it is a key column"):
            planned("s.t", TARGET, {7: fields(id=TEXT, a=INT, b=TEXT)}, policy, keys=frozenset({"id"}))


def test_columns_that_change_names_among_themselves_go_by_way_of_a_third() -> None:
    for renames in (
        {"a": "b", "b": "a"},
        {"a": "b", "b": "c", "c": "a"},
        {"price": "price_old", "price_new": "price"},
        {"a": "c", "b": "a"},
        {"v": "V"},
    ):
        columns = [*renames, "id"]

        for name, to in renaming_steps(renames):
            assert to.lower() not in {one.lower() for one in columns if one != name}
            columns[columns.index(name)] = to

        assert columns == [*renames.values(), "id"]
        # Interrupted halfway, the rest is found from where each column is.
    assert renaming_steps({"_dblog_to_0": "b", "b": "a"})[0] == ("_dblog_to_0", "_dblog_to_1")


def test_order_and_case_of_columns_do_not_matter() -> None:
    plan = planned("s.t", TARGET, {7: fields(B=TEXT, ID=LONG, A=INT)}, Policy(evolution="fail"))

    assert (plan.changes, plan.columns) == ((), TARGET)


def test_what_a_row_of_some_columns_only_lacks_was_not_dropped_and_what_it_brings_is_added() -> None:
    target = (("id", LONG), ("old", INT))
    some = [Field("id", Conversion(LONG, "long")), Field("added", Conversion(INT, "int"))]
    policy = Policy(drop="drop")

    plan = planned("t", target, {1: some, 9: some}, policy, newest=3, partial={1, 9})

    assert plan.changes == (AddColumn("added", INT),)
    assert [change.name for change in planned("t", target, {9: some}, policy, newest=3).changes] == ["added", "old"]
