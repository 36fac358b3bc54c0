"""When an ALTER changes the order of a key, so that a dump under way begins its table again. # I3"""

import pytest
from dblog.core.changes import AlterTable, Unknown
from dblog.core.key_order import reordered
from dblog.model import Column, Table, TableId

T = TableId("shop", "t")


def table(key=("k",), **column):
    columns = (
        Column(
            name="k",
            **{"type": "varchar", "type_text": "varchar(9)", "nullable": False, "charset": "utf8mb4", "collation": "utf8mb4_bin"} | column,
        ),
        Column(name="v", type="int", type_text="int", nullable=True),
    )
    return Table(id=T, columns=columns, key=key)


def after(old, new):
    return list(reordered([AlterTable(T, new)], lambda _: old))


@pytest.mark.parametrize(
    "new",
    [
        {"collation": "utf8mb4_general_ci"},
        {"charset": "latin1", "collation": "latin1_bin"},
        {"type": "varbinary", "charset": None, "collation": None},
        {"type": "int", "charset": None, "collation": None},
    ],
)
def test_another_collation_charset_or_type_of_a_key_column_is_another_order(new):
    assert after(table(), table(**new)) == [T]


def test_members_that_move_are_another_order_and_more_at_the_end_are_not():
    old = table(type="enum", members=("a", "b"))

    assert after(old, table(type="enum", members=("a", "b", "c"))) == []
    assert after(old, table(type="enum", members=("b", "a"))) == [T]


def test_a_longer_text_another_column_and_a_table_that_was_not_known_are_none():
    assert after(table(), table(type_text="varchar(90)", length=90)) == []
    assert after(None, table()) == []


def test_another_key_and_a_statement_that_is_not_understood_may_be():
    assert after(table(), table(key=("v",))) == [T]
    assert list(reordered([Unknown((T,), "why")], lambda _: None)) == [T]
