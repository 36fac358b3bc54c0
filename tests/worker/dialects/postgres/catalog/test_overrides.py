"""A SELECT of the user's own: its condition is taken, and what no range of keys can be cut from is refused with the reason."""

import pytest
from dblog.config.select_overrides import LIST, PREFIX
from dblog.dialects.postgres.catalog.overrides import Overrides, condition_of
from dblog.errors import ConfigError, DefiniteError
from dblog.model import TableId

ORDERS = TableId("shop", "orders")


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM shop.orders WHERE status = 'open'", "status = 'open'"),
        ('select *\nfrom "shop" . Orders\nwhere id > 5 and (a = 1 or b = 2)\norder by id desc, v;', "id > 5 and (a = 1 or b = 2)"),
        ("SELECT * FROM ONLY shop.orders WHERE note = 'ORDER BY; LIMIT 5'", "note = 'ORDER BY; LIMIT 5'"),
        ("SELECT * FROM shop.orders WHERE note LIKE'\\' AND note <> 'LIMIT 5'", "note LIKE'\\' AND note <> 'LIMIT 5'"),
        ("SELECT * FROM shop.orders WHERE a$for = 1 AND é$limit = 2", "a$for = 1 AND é$limit = 2"),
        ('SELECT * FROM shop.orders WHERE "limit" = 3', '"limit" = 3'),
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
        ("", "it must select all columns by \\*"),
        ("DELETE FROM shop.orders", "it must select all columns by \\*"),
        ("SELECT id FROM shop.orders", "it must select all columns by \\*"),
        ("SELECT * FROM orders WHERE id = 1", "it must select all columns by \\* of one table"),
        ("SELECT * FROM shop.items WHERE id = 1", "it reads another table, shop.items"),
        ('SELECT * FROM shop."Orders" WHERE id = 1', "it reads another table, shop.Orders"),
        ("SELECT * FROM shop.orders o WHERE o.id = 1", "the table is followed by something other than WHERE"),
        ("SELECT * FROM shop.orders JOIN shop.items USING (id) WHERE id = 1", "something other than WHERE"),
        ("SELECT * FROM shop.orders WHERE id > 1 LIMIT 5", "it has LIMIT"),
        ("SELECT * FROM shop.orders WHERE id > 1 UNION SELECT * FROM shop.items", "it has UNION"),
        ("SELECT * FROM shop.orders WHERE id > 1 FOR UPDATE", "it has FOR"),
        ("SELECT * FROM shop.orders WHERE id > 1; DROP TABLE shop.orders", "it has a semicolon"),
        ("SELECT * FROM shop.orders WHERE id > 1) OR (1 = 1", "it closes a bracket that it has not opened"),
        ("SELECT * FROM shop.orders WHERE", "it is empty"),
        ("SELECT * FROM shop.orders WHERE note <> $$a$$", "it has a dollar"),
        ("SELECT * FROM shop.orders WHERE note <> E'a'", "it has an escape string"),
    ],
)
def test_what_cannot_be_cut_into_ranges_of_keys_is_refused_with_the_form_to_write(statement: str, reason: str) -> None:
    with pytest.raises(DefiniteError, match=f"{reason}.*write it as SELECT \\* FROM schema.table WHERE condition"):
        condition_of(statement, ORDERS)


def test_every_statement_at_fault_is_named_by_its_key() -> None:
    given = {
        LIST: "shop.orders,shop.items",
        f"{PREFIX}shop.orders": "SELECT * FROM shop.orders WHERE id = 1",
        f"{PREFIX}shop.items": "SELECT 1",
    }

    with pytest.raises(ConfigError) as raised:
        Overrides(given)

    assert list(raised.value.errors) == [f"{PREFIX}shop.items"]


def test_two_tables_whose_names_differ_in_case_are_two() -> None:
    overrides = Overrides(
        {
            LIST: "shop.orders,shop.Orders",
            f"{PREFIX}shop.orders": "SELECT * FROM shop.orders WHERE id = 1",
            f"{PREFIX}shop.Orders": 'SELECT * FROM shop."Orders" WHERE id = 2',
        }
    )

    assert (overrides.condition(ORDERS), overrides.condition(TableId("shop", "Orders"))) == ("id = 1", "id = 2")
    assert overrides.condition(TableId("shop", "items")) is None
