"""Members of column lists that match nothing: named with the column that is meant, in a moment however many there are."""

import time

import pytest
from dblog.core.unmatched_columns import NAMED_MAX, describe_unmatched_columns
from dblog.model import Column, Table, TableId


def table(name, *columns):
    made = tuple(Column(name=column, type="int", type_text="int", nullable=False) for column in columns)
    return Table(id=TableId("Shop", name), columns=made, key=columns[:1])


TABLES = [table("Customers", "id", "eMail", "name", "pass$"), table("orders", "id", "customer"), table("Orders", "id", "old")]
LATER = "; one that comes later is matched"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"column.exclude.list": None, "message.key.columns": ""},
        {"column.exclude.list": r"shop\.customers\.email"},
        {"column.exclude.list": "shop.customers.email, SHOP.orders.customer"},
        {"column.exclude.list": r"Shop\.Customers\.pass\$"},
        {"column.include.list": r".*\.id,shop\.(customers|orders)\.(e?mail|customer)"},
        {"column.include.list": r"(?-i:Shop)\.orders\.id"},
        {"column.mask.with.4.chars": r"shop\..*\.name"},
        {"message.key.columns": r"shop\.customers:email;(.*)\.orders:customer,id"},
        {"message.key.columns": "shop.orders:old"},
    ],
)
def test_members_that_match_something_are_no_warning(properties):
    assert describe_unmatched_columns(properties, TABLES) == []


NO_COLUMN = "matches no column of a captured table"


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        (
            "column.exclude.list",
            r"shop\.customers\.name,shop\.customers\.emial",
            f"column.exclude.list: member 2 {NO_COLUMN} (is Shop.Customers.eMail meant?)",
        ),
        ("column.include.list", "shop.custmers.name", f"column.include.list: member 1 {NO_COLUMN} (is Shop.Customers.name meant?)"),
        ("column.exclude.list", "shop.customers.pass$", rf"column.exclude.list: member 1 {NO_COLUMN} (is Shop.Customers.pass\$ meant?)"),
        ("column.exclude.list", "email", f"column.exclude.list: member 1 {NO_COLUMN}{LATER}"),
        ("column.truncate.to.5.chars", r"shop\.customers\.phone.*", f"column.truncate.to.5.chars: member 1 {NO_COLUMN}{LATER}"),
        (
            "column.mask.hash.SHA-256.with.salt.s3cret",
            r"shop\.orders\.custmer",
            f"column.mask.hash.SHA-256.with.salt.[hidden]: member 1 {NO_COLUMN} (is Shop.orders.customer meant?)",
        ),
        (
            "message.key.columns",
            "shop.customers:id;shop.order:id",
            "message.key.columns: the tables of part 2 match no captured table (is Shop.Orders meant?)",
        ),
        (
            "message.key.columns",
            "shop.orders:id,custmer",
            "message.key.columns: column 2 of part 1 matches no column of its tables (is customer meant?)",
        ),
    ],
)
def test_a_member_that_matches_nothing_is_named_with_what_is_meant(option, value, sentence):
    assert describe_unmatched_columns({option: value}, TABLES) == [sentence]


@pytest.mark.parametrize("option", ["column.exclude.list", "column.mask.with.4.chars", "message.key.columns"])
@pytest.mark.parametrize("value", ["pa55word", "pa55word,tail99", r"\Qpa55word\E.*", " pa55word "])
def test_no_part_of_a_value_is_shown(option, value):
    """It may have come from a config provider, for somebody who may not read it."""
    (*sentences,) = describe_unmatched_columns({option: f"{value}:id" if option == "message.key.columns" else value}, TABLES)

    assert sentences
    assert not any("pa55" in sentence or "tail" in sentence for sentence in sentences)


def test_without_a_captured_table_there_is_nothing_to_compare_with():
    assert describe_unmatched_columns({"column.exclude.list": "a.b.c"}, []) == []


@pytest.fixture(scope="module")
def many():
    return [table(f"t{number}", *(f"c{column}" for column in range(20))) for number in range(15_000)]


PATTERNS = ",".join(rf"shop\.t{number}\.d[0-9]" for number in range(10_000))


@pytest.mark.parametrize(
    ("properties", "last"),
    [
        ({}, None),
        ({"column.exclude.list": ",".join(rf"shop\.t{number}\.c7" for number in range(10_000))}, None),
        (
            {"column.exclude.list": PATTERNS},
            "9999 members of lists of columns were not compared with the captured tables, which are too many",
        ),
        (
            {"message.key.columns": ";".join([".*:id"] * 1000)},
            "1000 members of lists of columns were not compared with the captured tables, which are too many",
        ),
    ],
)
def test_thousands_of_members_and_tables_are_compared_in_seconds_and_what_was_not_is_said(many, properties, last):
    started_s = time.process_time()
    sentences = describe_unmatched_columns(properties, many)

    assert time.process_time() - started_s < 5
    assert (sentences[-1] if sentences else None) == last


def test_so_many_are_named_and_compared_with_columns_and_the_rest_is_counted():
    columns = table("wide", *(f"quite_a_long_name_{number}" for number in range(100)))
    value = ",".join(f"shop.wide.quite_a_lnog_name_{number}" for number in range(2000))

    started_s = time.process_time()
    sentences = describe_unmatched_columns({"column.exclude.list": value}, [columns])

    assert time.process_time() - started_s < 3
    assert len(sentences) == NAMED_MAX + 1
    assert sentences[-1] == "1980 more members of lists of columns match nothing in the captured tables"
