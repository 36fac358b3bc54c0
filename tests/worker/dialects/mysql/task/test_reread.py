"""Rows are read again from a table only while it has the columns of their event. # I4"""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog.dialects.mysql.task.reread import same_columns
from dblog.model import Column, Table, TableId

TABLE = Table(
    id=TableId("shop", "t"),
    columns=(
        Column(name="id", type="int", type_text="int(11)", nullable=False, length=11),
        Column(name="s", type="varchar", type_text="varchar(9)", nullable=True, length=9, charset="utf8mb4"),
        Column(name="e", type="enum", type_text="enum('a','b')", nullable=True, members=("a", "b"), charset="utf8mb4"),
    ),
    key=("id",),
)


def with_column(index: int, **change: object) -> Table:
    columns = list(TABLE.columns)
    columns[index] = replace(columns[index], **change)
    return replace(TABLE, columns=tuple(columns))


@pytest.mark.parametrize(
    "now",
    [
        TABLE,
        replace(TABLE, columns=(*reversed(TABLE.columns), Column(name="more", type="int", type_text="int", nullable=True))),
        with_column(0, type_text="int", length=None),
        with_column(1, nullable=False, comment="new", has_default=True, default="x"),
    ],
)
def test_a_table_with_the_same_columns_may_be_read(now: Table) -> None:
    assert same_columns(TABLE, now)


@pytest.mark.parametrize(
    "now",
    [
        None,
        replace(TABLE, columns=TABLE.columns[:2]),
        with_column(0, type="bigint"),
        with_column(0, unsigned=True),
        with_column(1, name="renamed"),
        with_column(1, charset="latin1"),
        with_column(2, members=("b", "a")),
    ],
)
def test_a_table_whose_columns_have_changed_may_not(now: Table | None) -> None:
    assert not same_columns(TABLE, now)
