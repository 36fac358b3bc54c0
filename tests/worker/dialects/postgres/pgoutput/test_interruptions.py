"""Whether two looks at the catalog show that a table was in the log all the time between them: every small case."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from dblog.core.changes import AlterTable
from dblog.core.removals import DETACHED
from dblog.dialects.postgres.pgoutput.changes import RelationChanged, changes_of, rewritten
from dblog.dialects.postgres.pgoutput.interruptions import interruption, kept_entries, lost_partitions
from dblog.model import Column, Table, TableId

Parts = tuple[tuple[int, ...], tuple[str, ...]]
"""The numbers of partitions, and those that were attached."""

SETS = ((), ("1",), ("2",), ("1", "2"), ("3",))


def table(published_by: tuple[str, ...] = (), columns_written_by: tuple[str, ...] = ()) -> Table:
    column = Column(name="id", type="int4", type_text="integer", nullable=False)
    return Table(
        id=TableId("public", "t"), columns=(column,), key=("id",), published_by=published_by, columns_written_by=columns_written_by
    )


@pytest.mark.parametrize(("before", "now"), [*product(SETS, SETS)])
def test_two_looks_without_a_common_entry_are_an_interruption_where_both_have_one(before: tuple[str, ...], now: tuple[str, ...]) -> None:
    interrupted = bool(before) and bool(now) and not set(before) & set(now)

    assert (interruption(table(before), table(now)) is not None) is interrupted
    assert (interruption(table((), before), table((), now)) is not None) is interrupted


@pytest.mark.parametrize(("before", "now"), [*product(SETS, SETS)])
def test_a_table_that_the_publication_lacks_keeps_the_entries_of_before(before: tuple[str, ...], now: tuple[str, ...]) -> None:
    assert kept_entries(table(before), table(now)).published_by == (now or before)


def test_an_interruption_that_nothing_else_shows_has_the_table_dumped_again() -> None:
    same = RelationChanged(table(("1",)), table(("1",)))
    interrupted = RelationChanged(table(("1",)), table(("2",)))

    assert changes_of(same) == []
    assert list(rewritten(changes_of(interrupted))) == [TableId("public", "t")]


def test_rows_that_were_written_anew_hide_lost_deletes_unless_a_column_is_new_or_has_another_type() -> None:
    before = table()
    (column,) = before.columns
    text = Column(name="v", type="text", type_text="text", nullable=True)
    after = {
        "as it was": before,
        "another key": replace(before, key=(), primary_key=False),
        "takes NULL": replace(before, columns=(replace(column, nullable=True),)),
        "one more column": replace(before, columns=(column, text)),
        "another type": replace(before, columns=(replace(column, type="int8", type_text="bigint"),)),
        "another column of the name": replace(before, columns=(replace(column, number=2),)),
    }
    before = replace(before, columns=(replace(column, number=1),))

    missed = [name for name, now in after.items() if RelationChanged(before, now, why="rewritten", rewritten=True).misses]

    assert missed == ["as it was", "another key", "takes NULL"]
    assert not any(RelationChanged(before, now).misses for now in after.values())


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        pytest.param(((7, 8), ()), ((7, 8), ()), False, id="as it was"),
        pytest.param(((7, 8), ()), ((7, 8, 9), ()), False, id="one more"),
        pytest.param(((7, 8), ()), ((7, 8, 9), ("9:3",)), False, id="one attached"),
        pytest.param(((7, 8), ()), ((8,), ()), True, id="dropped"),
        pytest.param(((7, 8), ("7:1",)), ((8,), ()), True, id="detached"),
        pytest.param(((7, 8), ()), ((7, 8), ("8:3",)), True, id="detached for a while"),
        pytest.param(((7, 8), ("8:2",)), ((7, 8), ("8:3",)), True, id="detached for a while once more"),
        pytest.param(((), ()), ((7, 8), ()), False, id="not known before"),
        pytest.param(((), ("7:1",)), ((8,), ()), True, id="not known before but for one"),
    ],
)
def test_a_partition_that_was_a_part_of_the_table_and_is_none_or_was_none_took_rows_along(before: Parts, now: Parts, lost: bool) -> None:
    then, after = (replace(table(), partitioned=True, partitions=numbers, attached=places) for numbers, places in (before, now))

    assert lost_partitions(then, after) is lost
    removed = [change.removes for change in changes_of(RelationChanged(then, after)) if isinstance(change, AlterTable)]
    assert (removed == [DETACHED]) is lost
