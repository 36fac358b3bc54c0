"""The tables that have a SELECT of their own: each statement has its table in the list, and each table its statement."""

import pytest
from dblog.config.namespaces import Namespace
from dblog.config.select_overrides import LIST, PREFIX, select_overrides


def test_each_table_of_the_list_has_its_statement() -> None:
    statements, errors = select_overrides(
        {LIST: " shop.orders , shop.items", f"{PREFIX}shop.orders": "SELECT 1", f"{PREFIX}shop.items": "SELECT 2"}
    )

    assert statements == {"shop.orders": "SELECT 1", "shop.items": "SELECT 2"}
    assert errors == {}
    assert select_overrides({}) == ({}, {})


@pytest.mark.parametrize(
    ("properties", "key", "reason"),
    [
        ({LIST: "shop.orders"}, LIST, "shop.orders has no SELECT; give it in snapshot.select.statement.overrides.shop.orders"),
        ({LIST: "shop.orders", f"{PREFIX}shop.orders": " "}, LIST, "shop.orders has no SELECT"),
        ({LIST: "orders", f"{PREFIX}orders": "SELECT 1"}, LIST, "orders is not a table; write it as database.table"),
        ({f"{PREFIX}shop.orders": "SELECT 1"}, f"{PREFIX}shop.orders", "does not name shop.orders, so its SELECT would not be used"),
        ({LIST: "a.b,A.B", f"{PREFIX}a.b": "SELECT 1", f"{PREFIX}A.B": "SELECT 1"}, LIST, "a table is named twice"),
    ],
)
def test_what_would_dump_a_table_whole_without_a_word_is_an_error(properties: dict[str, str], key: str, reason: str) -> None:
    errors = select_overrides(properties)[1]

    assert list(errors) == [key]
    assert reason in errors[key][0]


def test_tables_in_schemas_are_named_as_such_and_differ_by_case() -> None:
    both = {LIST: "a.b,A.B", f"{PREFIX}a.b": "SELECT 1", f"{PREFIX}A.B": "SELECT 2"}

    assert select_overrides(both, namespace=Namespace.SCHEMA) == ({"a.b": "SELECT 1", "A.B": "SELECT 2"}, {})
    assert select_overrides({LIST: "b"}, namespace=Namespace.SCHEMA)[1] == {LIST: ["b is not a table; write it as schema.table"]}
    assert select_overrides({LIST: "a.b,a.b", f"{PREFIX}a.b": "SELECT 1"}, namespace=Namespace.SCHEMA)[1] == {
        LIST: ["a table is named twice; name each once"]
    }
