"""By which columns a table is read where a request names one, and which column can be none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog.core.surrogate import keyed_by
from dblog.errors import DefiniteError
from dblog.model import Column, Index, Table, TableId


def column(name: str, kind: str = "int", *, nullable: bool = False, generated: bool = False, hidden: bool = False) -> Column:
    return Column(name=name, type=kind, type_text=kind, nullable=nullable, generated=generated, hidden=hidden)


ORDERS = Table(
    id=TableId("shop", "orders"),
    columns=(
        column("Id"),
        column("part"),
        column("at", "datetime"),
        column("code", "varchar"),
        column("maybe", nullable=True),
        column("made", generated=True),
        column("ratio", "double"),
        column("note", "text"),
        column("doc", "json"),
        column("row_hash", hidden=True),
        column("plain"),
    ),
    key=("Id", "part"),
    indexes=(
        Index(name="PRIMARY", columns=("Id", "part"), unique=True),
        Index(name="code", columns=("CODE",), unique=True),
        Index(name="at", columns=("at",), unique=False),
        Index(name="part", columns=("part", "Id"), unique=False),
        Index(name="plain", columns=("plain", "code"), unique=False),
    ),
)
KEYLESS = replace(
    ORDERS,
    columns=tuple(each for each in ORDERS.columns if each.type != "json"),
    key=(),
    primary_key=False,
    indexes=tuple(index for index in ORDERS.indexes if not index.unique),
)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (None, ("Id", "part")),
        ("id", ("Id", "part")),
        ("AT", ("at", "Id", "part")),
        ("part", ("part", "Id")),
        ("code", ("code",)),
    ],
)
def test_the_key_follows_a_column_whose_values_may_stand_in_several_rows(name: str | None, key: tuple[str, ...]) -> None:
    found = keyed_by(ORDERS, name)

    assert found.key == key
    assert found.primary_key == (key == ORDERS.key), "the index of the primary key is used for its own order alone"
    assert (found.id, found.columns) == (ORDERS.id, ORDERS.columns)


def test_a_table_without_a_key_is_read_by_the_column_alone() -> None:
    assert keyed_by(KEYLESS, "at").key == ("at",)
    assert keyed_by(KEYLESS, "plain").key == ("plain",), "any index that begins with it has this order"
    assert keyed_by(KEYLESS, None).key == ()


@pytest.mark.parametrize(
    ("table", "name", "reason"),
    [
        (ORDERS, "codes", "shop.orders has no column codes .*; is code meant?"),
        (ORDERS, "elsewhere", "has no column elsewhere .*; name one that it has"),
        (ORDERS, "row_hash", "has no column row_hash"),
        (ORDERS, "maybe", "column maybe, which may be NULL, .*; name a column that is NOT NULL"),
        (ORDERS, "made", "made, which is generated"),
        (ORDERS, "ratio", "ratio, which is of the type double"),
        (ORDERS, "note", "note, which is of the type text"),
        (ORDERS, "plain", "no index in the order of plain, Id, part, .*; create an index on plain"),
        (KEYLESS, "Id", "no index in the order of Id,"),
        (replace(KEYLESS, columns=ORDERS.columns), "at", "has no key, and the kinds of values in its column doc are asked for by key"),
        (
            replace(ORDERS, indexes=(Index(name="f", columns=("at",), unique=False, functional=True),)),
            "at",
            "no index in the order of at, Id, part",
        ),
    ],
)
def test_a_column_that_cannot_bound_chunks_is_refused_with_the_remedy(table: Table, name: str, reason: str) -> None:
    with pytest.raises(DefiniteError, match=reason):
        keyed_by(table, name)


def test_a_unique_index_of_a_part_of_the_column_neither_makes_it_a_key_nor_orders_by_it() -> None:
    cut = Index(name="code", columns=("code",), unique=True, partial=True)

    with pytest.raises(DefiniteError, match="has no index in the order of code, Id, part"):
        keyed_by(replace(ORDERS, indexes=(cut,)), "code")
