"""A schema meets what the log shows of the table."""

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


def test_a_table_that_is_as_the_log_shows_it_is_used_as_it_is() -> None:
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
def test_a_log_with_names_contradicts_and_overrules_nothing(columns, names: list[str], reason: str) -> None:
    verdict = check(Seen(columns=bare(*columns), named=True))

    assert isinstance(verdict, Mismatch)
    assert verdict.reason.startswith("the log contradicts the schema of d.t")
    assert reason in verdict.reason
    assert verdict.in_log is not None
    assert [column.name for column in verdict.in_log.columns] == names
    assert verdict.in_log.column("id") == COLUMNS[0]


def test_another_key_in_the_log_is_a_contradiction_too() -> None:
    other = check(Seen(columns=bare(("id", "int"), ("v", "varchar")), named=True, key=("v",)))
    lost = check(Seen(columns=bare(("v", "varchar")), named=True))

    assert isinstance(other, Mismatch)
    assert isinstance(lost, Mismatch)
    assert (other.in_log, lost.in_log) != (None, None)
    assert other.in_log.key == ("v",)
    assert lost.in_log.key == ()


def test_columns_that_nobody_declared_are_filled_in_by_the_log() -> None:
    hidden = Column(name="DB_ROW_HASH_1", type="bigint", type_text="bigint", nullable=True, hidden=True)

    filled = check(Seen(columns=(*COLUMNS, hidden), named=True))
    assert isinstance(filled, Repaired)
    assert filled.table.columns == (*COLUMNS, hidden)
    assert cross_check(filled.table, Seen(columns=(*COLUMNS, hidden), named=True), merge) == Agreed()
    assert cross_check(filled.table, Seen(columns=COLUMNS, named=True), merge) == Repaired(TABLE, ("column DB_ROW_HASH_1 is gone",))
    assert isinstance(check(Seen(columns=(*reversed(COLUMNS), hidden), named=True)), Mismatch)


@pytest.mark.parametrize("columns", [(("", "int"),), (("", "int"), ("", "date")), (("", "int"), ("", "varchar"), ("", "int"))])
def test_without_names_a_disagreement_is_not_put_right(columns) -> None:
    verdict = check(Seen(columns=bare(*columns), named=False))

    assert isinstance(verdict, Mismatch)
    assert "d.t" in verdict.reason


def test_members_that_the_catalog_shows_with_question_marks_are_the_logs() -> None:
    shown = replace(TABLE.columns[0], name="e", type="enum", type_text="enum('a','?')", members=("a", "?"))
    table = replace(TABLE, columns=(*TABLE.columns, shown))
    reported = replace(shown, type_text="enum('a','\U0001f600')", members=("a", "\U0001f600"))

    verdict = cross_check(table, Seen(columns=(*TABLE.columns, reported), named=True, key=TABLE.key), lambda known, seen: seen)
    other = cross_check(
        table, Seen(columns=(*TABLE.columns, replace(reported, members=("b", "?"))), named=True, key=TABLE.key), lambda _, seen: seen
    )

    assert isinstance(verdict, Repaired)
    assert verdict.table.columns[-1].members == ("a", "\U0001f600")
    assert isinstance(other, Mismatch)
