"""What a Relation message says has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog.core.changes import AlterTable, RenameTable, TruncateTable
from dblog.dialects.postgres.pgoutput.changes import RelationChanged, Truncated, changes_of, merged, rewrites, rewritten
from dblog.model import Column, Table, TableId

T, U = TableId("public", "t"), TableId("public", "u")


def column(name: str, type_: str = "int4", **more: object) -> Column:
    return Column(**{"name": name, "type": type_, "type_text": type_, "nullable": True, **more})


ID, NAME = column("id", nullable=False), column("name", "varchar", length=40)
TABLE = Table(id=T, columns=(ID, NAME), key=("id",))


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ((ID, NAME, column("more")), None),
        ((ID, NAME, column("more", has_default=True, default="5")), "default"),
        ((ID, NAME, column("more", has_default=True, default="now()", default_is_expression=True)), "default"),
        ((ID, NAME, column("more", has_default=True, default=None)), None),
        ((ID, NAME, column("more", nullable=False)), "NOT NULL"),
        ((ID,), None),
        ((ID, column("title", "varchar", length=40)), "another name"),
        ((ID, column("name", "varchar", length=80)), None),
        ((ID, column("name", "text")), None),
        ((ID, column("name", "bpchar", length=40)), "was varchar"),
        ((column("id", "int8", nullable=False), NAME), "was int4"),
        ((NAME, ID), None),
        ((NAME, replace(ID, number=7)), None),
        ((ID, column("name", "bpchar", length=40, type_text="public.title")), "is public.title"),
    ],
)
def test_old_rows_are_other_ones_without_rows_in_the_log(after, why):
    found = rewrites(TABLE.columns, after)

    assert (found is None) == (why is None), found
    assert why is None or why in str(found)


def test_a_column_that_was_dropped_and_made_again_has_other_values_and_one_that_moved_under_another_name_too():
    first, second = replace(ID, number=1), column("other", number=2)

    assert rewrites((first, second), (first, second)) is None
    assert "another one" in str(rewrites((first, second), (first, replace(second, number=3))))
    assert "another one" in str(rewrites((first, second), (replace(second, name="id"), replace(first, name="other"))))


def test_an_enum_of_other_members_is_another_type():
    mood = column("m", "enum", type_text="public.mood", members=("low", "high"))

    assert "is public.weather" in str(rewrites((mood,), (replace(mood, type_text="public.weather"),)))
    assert rewrites((mood,), (replace(mood, members=("low", "mid", "high")),)) is None


def test_a_numeric_with_another_scale_has_other_values():
    before = column("n", "numeric", length=10, scale=2)

    assert rewrites((before,), (replace(before, scale=1),)) is not None
    assert rewrites((before,), (before,)) is None


def test_a_table_that_has_another_name_is_renamed_and_then_altered():
    altered = replace(TABLE, id=U, columns=(ID,))

    assert changes_of(RelationChanged(TABLE, replace(TABLE, id=U))) == [RenameTable(((T, U),))]
    assert changes_of(RelationChanged(TABLE, altered)) == [RenameTable(((T, U),)), AlterTable(U, altered)]
    assert set(rewritten(changes_of(RelationChanged(TABLE, altered)))) == {U}


def test_a_truncate_empties_each_of_its_tables_and_alters_none():
    assert changes_of(Truncated((T, U))) == [TruncateTable(T), TruncateTable(U)]
    assert rewritten(changes_of(Truncated((T, U)))) == {}


def test_a_column_that_the_log_shows_as_it_is_known_stays_what_the_catalog_knows():
    known = column("name", "varchar", length=40, nullable=False, comment="a name", has_default=True, default="x")

    assert merged(known, NAME) is known
    assert merged(known, replace(NAME, length=80)) == replace(NAME, length=80, nullable=False, comment="a name")
