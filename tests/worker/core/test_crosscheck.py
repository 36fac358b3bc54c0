"""A schema meets what the log says of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog.core.crosscheck import Agreed, Mismatch, Repaired, Seen, cross_check
from dblog.model import Column, Table, TableId

COLUMNS = (
    Column(name="id", type="int", type_text="int", nullable=False),
    Column(name="v", type="varchar", type_text="varchar(5)", nullable=True, length=5, has_default=True, default="x"),
)
TABLE = Table(id=TableId("d", "t"), columns=COLUMNS, key=("id",))


def merge(known: Column, seen: Column) -> Column:
    return known if known.type == seen.type else replace(seen, comment=known.comment)


def bare(*columns: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=type_, type_text=type_, nullable=True) for name, type_ in columns)


def check(seen: Seen):
    return cross_check(TABLE, seen, merge)


def test_a_table_that_is_as_the_log_says_is_used_as_it_is() -> None:
    assert check(Seen(columns=bare(("ID", "int"), ("v", "varchar")), named=True, key=("id",))) == Agreed()
    assert check(Seen(columns=bare(("", "int"), ("", "varchar")), named=False)) == Agreed()


@pytest.mark.parametrize(
    ("columns", "names", "reason"),
    [
        ((("id", "int"), ("v", "varchar"), ("w", "date")), ["id", "v", "w"], "column w is new"),
        ((("id", "int"),), ["id"], "column v is gone"),
        ((("v", "varchar"), ("id", "int")), ["v", "id"], "another order"),
        ((("id", "int"), ("v", "text")), ["id", "v"], "column v is text"),
    ],
)
def test_names_in_the_log_put_a_table_right(columns, names: list[str], reason: str) -> None:
    verdict = check(Seen(columns=bare(*columns), named=True))

    assert isinstance(verdict, Repaired)
    assert [column.name for column in verdict.table.columns] == names
    assert reason in "; ".join(verdict.reasons)
    assert verdict.table.column("id") == COLUMNS[0]


def test_the_key_of_the_log_counts_and_a_lost_key_column_ends_the_key() -> None:
    other = check(Seen(columns=bare(("id", "int"), ("v", "varchar")), named=True, key=("v",)))
    lost = check(Seen(columns=bare(("v", "varchar")), named=True))

    assert isinstance(other, Repaired)
    assert isinstance(lost, Repaired)
    assert other.table.key == ("v",)
    assert lost.table.key == ()


@pytest.mark.parametrize("columns", [(("", "int"),), (("", "int"), ("", "date")), (("", "int"), ("", "varchar"), ("", "int"))])
def test_without_names_a_disagreement_is_not_put_right(columns) -> None:
    verdict = check(Seen(columns=bare(*columns), named=False))

    assert isinstance(verdict, Mismatch)
    assert "d.t" in verdict.reason
