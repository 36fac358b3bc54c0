"""Members of column lists that match nothing: named with the column that is meant, in a moment however many there are."""

import time

import pytest
from dblog.core.unmatched_columns import NAMED_MAX, describe_unmatched_columns
from dblog.model import Column, Table, TableId


def table(name, *columns):
    made = tuple(Column(name=column, type="int", type_text="int", nullable=False) for column in columns)
    return Table(id=TableId("Shop", name), columns=made, key=columns[:1])


TABLES = [table("Customers", "id", "eMail", "name"), table("orders", "id", "customer")]


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"column.exclude.list": r"shop\.customers\.email"},
        {"column.exclude.list": "shop.customers.email, SHOP.orders.customer"},
        {"column.include.list": r".*\.id,shop\.(customers|orders)\.(e?mail|customer)"},
        {"column.mask.with.4.chars": r"shop\..*\.name"},
        {"message.key.columns": r"shop\.customers:email;(.*)\.orders:customer,id"},
    ],
)
def test_members_that_match_something_are_no_warning(properties):
    assert describe_unmatched_columns(properties, TABLES) == []


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        (
            "column.exclude.list",
            r"shop\.customers\.emial,shop\.customers\.name",
            r"column.exclude.list: 'shop\.customers\.emial' matches no column of a captured table (is shop.customers.email meant?)",
        ),
        (
            "column.include.list",
            "shop.custmers.name",
            "column.include.list: 'shop.custmers.name' matches no column of a captured table (is shop.customers.name meant?)",
        ),
        (
            "column.exclude.list",
            "email",
            "column.exclude.list: 'email' matches no column of a captured table; one that comes later is matched",
        ),
        (
            "column.truncate.to.5.chars",
            r"shop\.customers\.phone.*",
            r"column.truncate.to.5.chars: 'shop\.customers\.phone.*' matches no column of a captured table; one that comes later is matched",
        ),
        (
            "column.mask.hash.SHA-256.with.salt.s3cret",
            r"shop\.orders\.custmer",
            r"column.mask.hash.SHA-256.with.salt.[hidden]: 'shop\.orders\.custmer' matches no column of a captured table (is shop.orders.customer meant?)",
        ),
        (
            "message.key.columns",
            "shop.order:id",
            "message.key.columns: 'shop.order' matches no captured table (is shop.orders meant?)",
        ),
        (
            "message.key.columns",
            "shop.orders:id,custmer",
            "message.key.columns: 'custmer' matches no column of the tables that 'shop.orders' matches (is customer meant?)",
        ),
    ],
)
def test_a_member_that_matches_nothing_is_named_with_what_is_meant(option, value, sentence):
    assert describe_unmatched_columns({option: value}, TABLES) == [sentence]


def test_without_a_captured_table_there_is_nothing_to_compare_with():
    assert describe_unmatched_columns({"column.exclude.list": "a.b.c"}, []) == []


def test_lists_of_thousands_of_patterns_and_columns_are_compared_in_seconds_and_what_was_not_is_said():
    tables = [table(f"t{number}", *(f"c{column}" for column in range(20))) for number in range(15_000)]
    known = ",".join(rf"shop\.t{number}\.c7" for number in range(10_000))
    unknown = ",".join(rf"shop\.t{number}\.d[0-9]" for number in range(10_000))

    started_s = time.process_time()
    sentences = describe_unmatched_columns({"column.exclude.list": f"{known},{unknown}"}, tables)

    assert time.process_time() - started_s < 10
    assert sentences[:1] == [
        r"column.exclude.list: 'shop\.t0\.d[0-9]' matches no column of a captured table; one that comes later is matched"
    ]
    assert sentences[-1] == "9999 members of lists of columns were not compared with the captured tables, which are too many"


def test_so_many_are_named_and_the_rest_is_counted():
    value = ",".join(f"shop.nothing.c{number}" for number in range(NAMED_MAX + 5))

    sentences = describe_unmatched_columns({"column.exclude.list": value}, TABLES)

    assert len(sentences) == NAMED_MAX + 1
    assert sentences[-1] == "5 more members of lists of columns match nothing in the captured tables"
