"""A SELECT of the user's own: its condition is taken, and what no range of keys can be cut from is refused with the reason."""

import pytest
from dblog.config.select_overrides import LIST, PREFIX
from dblog.dialects.mysql.ddl.overrides import Overrides, condition_of
from dblog.errors import ConfigError, DefiniteError
from dblog.model import TableId

ORDERS = TableId("shop", "orders")


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM shop.orders WHERE status = 'open'", "status = 'open'"),
        ("select *\nfrom `shop` . `Orders`\nwhere id > 5 and (a = 1 or b = 2)\norder by id desc, v;", "id > 5 and (a = 1 or b = 2)"),
        ("SELECT * FROM orders WHERE note = 'ORDER BY; LIMIT 5' AND `limit` = 3", "note = 'ORDER BY; LIMIT 5' AND `limit` = 3"),
        ("SELECT * FROM shop.orders WHERE orders.limit = 3", "orders.limit = 3"),
        ("SELECT * FROM shop.orders WHERE id IN (SELECT id FROM shop.open LIMIT 5)", "id IN (SELECT id FROM shop.open LIMIT 5)"),
        ("SELECT * FROM shop.orders ORDER BY id", None),
        ("SELECT * FROM shop.orders;", None),
    ],
)
def test_of_a_statement_the_condition_is_taken(statement: str, condition: str | None) -> None:
    assert condition_of(statement, ORDERS) == condition


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("", "it is not a SELECT"),
        ("DELETE FROM shop.orders", "it is not a SELECT"),
        ("SELECT id FROM shop.orders", "it must select all columns by \\*"),
        ("SELECT *, 1 FROM shop.orders", "it must select all columns by \\*"),
        ("SELECT DISTINCT * FROM shop.orders", "it must select all columns by \\*"),
        ("SELECT * FROM shop.items WHERE id = 1", "it reads from another table than shop.orders"),
        ("SELECT * FROM (SELECT * FROM shop.orders) x", "it reads from another table"),
        ("SELECT * FROM x.y.z", "it reads from another table"),
        ("SELECT * FROM shop.orders o WHERE o.id = 1", "the table is followed by something other than WHERE"),
        ("SELECT * FROM shop.orders JOIN shop.items USING (id) WHERE id = 1", "something other than WHERE"),
        ("SELECT * FROM shop.orders, shop.items WHERE 1", "something other than WHERE"),
        ("SELECT * FROM shop.orders LIMIT 5", "it has a LIMIT"),
        ("SELECT * FROM shop.orders ORDER BY id LIMIT 5", "it has a LIMIT"),
        ("SELECT * FROM shop.orders WHERE id > 1 LIMIT 5", "it has a LIMIT"),
        ("SELECT * FROM shop.orders WHERE id > 1 GROUP BY id", "it groups rows"),
        ("SELECT * FROM shop.orders WHERE id > 1 UNION SELECT * FROM shop.items", "it is a UNION"),
        ("SELECT * FROM shop.orders WHERE id > 1 FOR UPDATE", "it locks rows"),
        ("SELECT * FROM shop.orders WHERE id > 1 INTO OUTFILE 'x'", "it writes its rows elsewhere"),
        ("SELECT * FROM shop.orders WHERE id > 1; DROP TABLE shop.orders", "there is more than one statement"),
        ("SELECT * FROM shop.orders WHERE id > 1) OR (1", "it closes a bracket that it has not opened"),
        ("SELECT * FROM shop.orders WHERE id = ?", "it has a question mark"),
        ("SELECT * FROM shop.orders WHERE", "it is empty"),
    ],
)
def test_what_cannot_be_cut_into_ranges_of_keys_is_refused_with_the_form_to_write(statement: str, reason: str) -> None:
    with pytest.raises(DefiniteError, match=f"{reason}.*write it as SELECT \\* FROM database.table WHERE condition"):
        condition_of(statement, ORDERS)


def test_every_statement_at_fault_is_named_by_its_key_and_tables_are_known_without_case() -> None:
    given = {
        LIST: "shop.orders,shop.items",
        f"{PREFIX}shop.orders": "SELECT * FROM shop.orders WHERE id = 1",
        f"{PREFIX}shop.items": "SELECT 1",
    }

    with pytest.raises(ConfigError) as raised:
        Overrides(given)

    assert list(raised.value.errors) == [f"{PREFIX}shop.items"]
    assert (
        Overrides({name: text for name, text in given.items() if "items" not in name} | {LIST: "shop.orders"}).condition(
            TableId("Shop", "ORDERS")
        )
        == "id = 1"
    )
    assert Overrides({}).condition(ORDERS) is None
