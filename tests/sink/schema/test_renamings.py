"""A table follows renames in the order of the source's statements, whatever they do with names, and whenever it meets their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest
from dblog_sink.schema.renamings import Made, Statement, created, followed, made

SWAP: Statement = [("a", "b"), ("b", "a")]
NAMES = ("a", "b", "c", "d")


def applied(columns: Sequence[str], statement: Statement) -> list[str]:
    """What the source's table has after the statement; each column keeps its place."""
    to = dict(statement)
    return [to.get(name, name) for name in columns]


def statements(columns: Sequence[str]) -> Iterator[Statement]:
    """Every statement that renames some of the columns to names of four."""
    for names in permutations(NAMES, len(columns)):
        if names != tuple(columns):
            yield [(old, new) for old, new in zip(columns, names, strict=True) if old != new]


@pytest.mark.parametrize("before", [["a", "b"], ["a", "b", "c"]])
def test_every_course_of_two_statements_is_followed_whichever_schemas_are_met(before: list[str]) -> None:
    """Values are told apart by the column's place in the source: what a schema writes as its nth column is the source's nth, before and after."""
    for first in statements(before):
        middle = applied(before, first)
        for second in statements(middle):
            schemas = [before, middle, applied(middle, second)]
            for met in product((False, True), repeat=3):
                table, order, done, newest = list(before), list(before), 0, -1
                shown: dict[int, int] = {}
                for upto in (number for number, one in enumerate(met) if one):
                    # Late records of every schema so far come along.
                    versions = {number + 1: schemas[number] for number in range(upto + 1)}
                    found = followed(table, [first, second], done, versions, order=order, newest=newest, shown=shown)
                    table = [found.moves.get(name, name) for name in table]
                    done, order, newest, shown = found.done, list(table), upto + 1, shown | found.shown
                    for number, schema in versions.items():
                        written = [found.names[number].get(name, name) for name in schema]
                        assert written == table, (schemas, upto, schema)
                    # Where a name comes back the table may be further than its records, for that writes the same.
                    assert table == schemas[upto] or before == schemas[2], (schemas, upto)


def test_expand_and_contract_renames_both_at_once() -> None:
    found = followed(["id", "price", "price_new"], [[("price", "price_old"), ("price_new", "price")]], 0, {2: ["id", "price_old", "price"]})

    assert (found.done, found.moves) == (1, {"price": "price_old", "price_new": "price"})


def test_a_column_whose_name_another_one_gets_was_dropped_and_goes_aside() -> None:
    found = followed(["id", "price", "price_new"], [[("price_new", "price")]], 0, {1: ["id", "price", "price_new"], 2: ["id", "price"]})

    assert found.moves == {"price": "price__dropped", "price_new": "price"}
    assert {name: found.names[1].get(name, name) for name in ("price", "price_new")} == {"price": "price__dropped", "price_new": "price"}
    assert found.names[2].get("price", "price") == "price"


def test_a_column_that_got_a_name_which_was_renamed_away_before_is_another_one_than_in_older_records() -> None:
    found = followed(["id", "price_old", "price"], [[("price", "price_old")]], 1, {1: ["id", "price"], 3: ["id", "price_old", "price"]})

    assert (found.done, found.moves) == (1, {})
    assert found.names[1]["price"] == "price_old"
    assert found.names[3].get("price", "price") == "price"


def test_what_no_schema_shows_is_not_followed() -> None:
    """Statements that were misread, that did nothing, or whose rows have not come yet."""
    assert followed(["id", "a", "b"], [SWAP, [("x", "y")]], 0, {1: ["id", "a", "b"]}).done == 0
    assert followed(["id", "a", "b"], [[("a", "c")]], 0, {2: ["id", "a", "b", "n"]}).moves == {}
    assert followed(["id", "a"], [[("id", "a"), ("a", "id")]], 0, {2: ["a", "id"]}, keys={"id"}).moves == {}
    assert followed(["id", "a"], [[("a", "b")]], 0, {2: ["id", "b"]}, partial={2}).moves == {}


def test_columns_that_came_and_went_meanwhile_do_not_hide_a_rename() -> None:
    found = followed(["id", "v", "gone"], [[("v", "x")], [("x", "w")]], 0, {5: ["id", "w", "n"]})

    assert (found.done, found.moves) == (2, {"v": "w"})


def test_a_table_that_is_made_late_stands_where_its_newest_schema_does() -> None:
    course = [[("a", "b")], [("b", "c")]]

    assert [created(course, ["id", name]) for name in ("a", "b", "c")] == [0, 1, 2]
    assert created([], ["id"]) == 0
    assert created([SWAP], ["id", "a", "b"]) == 1


AWAY: Statement = [("a", "a_old")]
"""The first step of another type for a column: RENAME a TO a_old; ADD a; DROP a_old."""
CHANGED = {1: ["id", "a"], 2: ["id", "a_old"], 3: ["id", "a_old", "a"], 4: ["id", "a"], 5: ["id", "a", "n"]}


@pytest.mark.parametrize("met", [met for met in product((False, True), repeat=4) if any(met[:2])])
def test_a_new_column_with_a_name_that_was_renamed_away_is_never_taken_for_the_former_one(met: tuple[bool, ...]) -> None:
    """``met``: of the schemas 2 to 5, those whose records come; each together with late ones of all before that came."""
    table, order, done, newest, shown = ["id", "a"], ["id", "a"], 0, 1, dict[int, int]()
    came = [1]
    for number in (number for number, one in zip((2, 3, 4, 5), met, strict=True) if one):
        came.append(number)
        found = followed(table, [AWAY], done, {one: CHANGED[one] for one in came}, order=order, newest=newest, shown=shown)
        table = [found.moves.get(name, name) for name in table]
        table += [name for name in CHANGED[number] if name not in table]
        done, newest, order, shown = found.done, number, CHANGED[number], shown | found.shown

        assert done == 1
        columns = {one: {name: found.names[one].get(name, name) for name in CHANGED[one]} for one in came}
        assert columns.pop(1) == {"id": "id", "a": "a_old"}
        assert all(names == {name: name for name in names} for names in columns.values()), columns


def test_a_new_column_in_the_very_statement_that_renames_the_former_one_away_shows_by_its_place() -> None:
    found = followed(["id", "a"], [AWAY], 0, {1: ["id", "a"], 2: ["id", "a_old", "a"]}, newest=1)

    assert (found.done, found.moves, found.shown) == (1, {"a": "a_old"}, {2: 1})
    assert (found.names[1]["a"], found.names[2].get("a", "a")) == ("a_old", "a")
    # And a column of that name that came before the statement stands at the end.
    assert followed(["id", "v"], [[("v", "w")]], 0, {2: ["id", "v", "w"]}, newest=1).done == 0


def test_a_name_that_came_back_with_its_former_schema_is_no_bound_for_the_schemas_in_between() -> None:
    course = [[("a", "b")], [("b", "a")]]
    versions = {1: ["id", "a"], 2: ["id", "b"], 3: ["id", "a", "n"]}
    back = followed(["id", "b"], course, 1, {1: versions[1]}, newest=2, shown={2: 1})
    assert (back.done, back.moves, back.shown) == (2, {"b": "a"}, {3: 2})

    after = followed(["id", "a"], course, 2, versions, newest=2, shown={2: 1, 3: 2})

    assert (after.done, after.moves, after.shown) == (2, {}, {})
    assert {number: names.get(versions[number][1], versions[number][1]) for number, names in after.names.items()} == dict.fromkeys(
        versions, "a"
    )


def test_a_table_that_is_made_of_several_schemas_follows_them_one_after_the_other() -> None:
    whole = made([AWAY], CHANGED)

    assert whole == Made(1, {2: 1}, whole.names)
    assert [whole.names[number].get("a", "a") for number in CHANGED] == ["a_old", "a", "a", "a", "a"]
    assert made([SWAP], {1: ["id", "a", "b"], 2: ["id", "b", "a"]}).names[1] == {"a": "b", "b": "a"}
    assert made([AWAY], {4: ["id", "a"]}).names[4] == {}
