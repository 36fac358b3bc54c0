"""Which indexes give a table's rows in the order of some columns, as the server has them now."""

from __future__ import annotations

import re

import pytest
from dblog.dialects.mysql.catalog.index_orders import Part, order_fault, read_parts
from dblog.model import Table, TableId

T = TableId("shop", "orders")
WITH_KEY = Table(id=T, columns=(), key=("Id", "part"))
WITHOUT = Table(id=T, columns=())


def index(name: str, *columns: str, kind: str = "BTREE", hidden: bool = False) -> list[Part]:
    """A column with ``-`` in front is descending, with ``*`` behind it is a part of it."""
    return [
        Part(index=name, column=each.strip("-*"), descending=each[:1] == "-", partial=each[-1:] == "*", kind=kind, hidden=hidden)
        for each in columns
    ]


PRIMARY = index("PRIMARY", "id", "part")


@pytest.mark.parametrize(
    ("key", "parts", "fault"),
    [
        (("At", "Id", "part"), index("a", "at"), None),
        (("at", "Id", "part"), index("a", "at", "part"), "its index a goes on with other columns than at, Id, part"),
        (("at",), index("a", "at", "other"), None),
        (("at",), index("a", "-at"), None),
        (("at", "Id", "part"), index("a", "-at"), "its index a has descending and ascending columns"),
        (("at", "Id", "part"), index("a", "-at", "-id", "-part"), None),
        (("at", "Id", "part"), index("a", "at", "-id"), "its index a has descending and ascending columns"),
        (("at",), index("a", "at*"), "its index a has a part of a column only"),
        (("at", "Id", "part"), index("a", "at", "id*"), "its index a has a part of a column only"),
        (("at",), index("a", "at", kind="HASH"), "its index a is of the kind HASH, which has no order"),
        (("at",), index("a", "at", hidden=True), "its index a is hidden from the optimizer"),
        (
            ("at",),
            index("a", "at", kind="HASH") + index("b", "at", hidden=True),
            "its index a is of the kind HASH.*; its index b is hidden",
        ),
        (("at",), index("a", "at", kind="HASH") + index("b", "at"), None),
        (("at",), index("a", "other", "at"), "no index begins with at"),
        (("at", "Id", "part"), index("a", "at", ""), "goes on with other columns"),
    ],
)
def test_an_index_orders_rows_where_it_is_a_tree_of_these_columns_in_one_direction(
    key: tuple[str, ...], parts: list[Part], fault: str | None
) -> None:
    found = order_fault(WITH_KEY, key, [*PRIMARY, *parts])

    assert found is None if fault is None else re.search(fault, found or "")


def test_the_key_stands_behind_the_columns_of_an_index_as_its_own_index_has_it() -> None:
    down = index("PRIMARY", "-id", "part")

    assert order_fault(WITH_KEY, ("at", "Id"), [*down, *index("a", "at")]) is not None
    assert order_fault(WITH_KEY, ("at", "Id"), [*down, *index("a", "-at")]) is None
    assert order_fault(WITH_KEY, ("at", "Id", "part"), index("a", "at")) is None, "a key that is no primary key"
    assert order_fault(WITHOUT, ("at",), index("a", "at")) is None


@pytest.mark.parametrize("count", [2, 20])
def test_few_tables_are_asked_by_their_names_and_many_by_their_database(count: int) -> None:
    asked = []

    def execute(sql: str, parameters: tuple[str, ...]) -> list[tuple[object, ...]]:
        asked.append(parameters)
        names = [parameters[1]] if len(parameters) > 1 else [f"t{n}" for n in range(count + 5)]
        return [row for name in names for row in ((name, "a", "At", "D", 3, "btree", "NO"), (name, "a", None, None, None, "btree", "YES"))]

    found = read_parts(execute, [TableId("d", f"t{n}") for n in range(count)] + [TableId("e", "t")], hidden="'NO'")

    assert asked == ([("d", "t0"), ("d", "t1"), ("e", "t")] if count == 2 else [("d",), ("e", "t")])
    assert list(found) == [*(TableId("d", f"t{n}") for n in range(count)), TableId("e", "t")]
    assert found[TableId("e", "t")] == [
        Part(index="a", column="at", descending=True, partial=True, kind="BTREE", hidden=False),
        Part(index="a", column="", descending=False, partial=False, kind="BTREE", hidden=True),
    ]
