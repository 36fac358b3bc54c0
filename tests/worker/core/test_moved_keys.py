"""Keys that change places inside a transaction: over all small histories, the records fold to the rows of the table. # I3"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from dblog.core.moved_keys import MovedKeys, OldKey, is_enforced_by_row, is_loose
from dblog.model import Column, Index, Table, TableId

KEYS = (1, 2, 3)
Rows = dict[int, tuple[int, str]]
"""By the row's own identity, which the log does not have, its key and its value."""
Event = tuple[str, int, int]
"""What happens to which row: it gets a key, a value, or goes away."""


def folded(before: Rows, events: tuple[Event, ...], after: Rows, *, keys_max: int = 100) -> dict[int, str]:
    """What a consumer has at the end, who had the rows of before. Who is asked about the table knows how it is at the end."""
    rows = dict(before)
    seen = dict(rows.values())
    final = dict(after.values())
    moved = MovedKeys(keys_max=keys_max)
    for what, row, number in events:
        was = rows.get(row)
        if what == "delete":
            del rows[row]
        else:
            rows[row] = (number, "x" if was is None else was[1]) if what == "key" else (rows[row][0], str(number))
        now = rows.get(row)
        if was is not None and now is not None and was[0] == now[0]:
            moved.changed(was[0], digest(was), digest(now))
        else:
            if was is not None:
                match moved.left(was[0], digest(was)):
                    case OldKey.DELETED:
                        seen.pop(was[0], None)
                    case OldKey.ASKED if was[0] in final:
                        seen[was[0]] = final[was[0]]
                    case OldKey.ASKED:
                        seen.pop(was[0], None)
                    case OldKey.KEPT:
                        pass
            if now is not None:
                moved.put(now[0], digest(now))
        if now is not None:
            seen[now[0]] = now[1]
    return seen


def digest(row: tuple[int, str]) -> bytes:
    return repr(row).encode()


def histories(length: int) -> Iterator[tuple[Rows, tuple[Event, ...], Rows]]:
    """Every transaction of so many changes of rows that begins and ends with one row at most of each key."""
    for values in itertools.product((None, "x", "y"), repeat=len(KEYS)):
        before: Rows = {key: (key, value) for key, value in zip(KEYS, values, strict=True) if value is not None}
        yield from ((before, events, after) for events, after in _continued(before, (), length))


def _continued(rows: Rows, events: tuple[Event, ...], length: int) -> Iterator[tuple[tuple[Event, ...], Rows]]:
    if len({key for key, _ in rows.values()}) == len(rows):
        yield events, rows
    if length == 0:
        return
    for row in (*rows, max(rows, default=10) + 10):
        if row in rows:
            yield from _continued({r: v for r, v in rows.items() if r != row}, (*events, ("delete", row, 0)), length - 1)
            yield from _continued({**rows, row: (rows[row][0], "7")}, (*events, ("value", row, 7)), length - 1)
        for key in KEYS:
            if row not in rows or rows[row][0] != key:
                value = rows[row][1] if row in rows else "x"
                yield from _continued({**rows, row: (key, value)}, (*events, ("key", row, key)), length - 1)


@pytest.mark.parametrize("keys_max", [0, 1, 100])
def test_every_transaction_of_three_changes_folds_to_the_rows_of_the_table(keys_max: int) -> None:
    tried = 0
    for before, events, after in histories(3):
        wanted = dict(after.values())
        assert folded(before, events, after, keys_max=keys_max) == wanted, (before, events)
        tried += 1
    assert tried > 5_000


@pytest.mark.parametrize("values", ["xyz", "xxx", "xxy"])
def test_every_permutation_of_keys_with_every_order_of_its_changes_folds_to_the_rows_of_the_table(values: str) -> None:
    before: Rows = {key: (key, value) for key, value in zip(KEYS, values, strict=True)}
    targets = [(key, other) for key in KEYS for other in (*KEYS, 4, 5)]
    for moves in itertools.chain.from_iterable(itertools.permutations(targets, length) for length in (2, 3, 4)):
        rows = dict(before)
        for row, key in moves:
            if rows[row][0] == key:
                break
            rows[row] = (key, rows[row][1])
        else:
            if len({key for key, _ in rows.values()}) == len(rows):
                events = tuple(("key", row, key) for row, key in moves)
                assert folded(before, events, rows) == dict(rows.values()), moves


def test_the_table_is_not_asked_where_rows_of_other_values_shift_their_keys() -> None:
    moved = MovedKeys()
    verdicts = []
    for key in range(1, 100):
        verdicts.append(moved.left(key, b"row %d" % key))
        moved.put(key + 1, b"row %d, moved" % key)

    assert verdicts == [OldKey.DELETED, *[OldKey.KEPT] * 98]


def test_a_key_that_the_log_does_not_show_whole_is_asked_for_where_the_transaction_has_put_a_row_there() -> None:
    moved = MovedKeys()
    moved.put(2, b"a")

    assert moved.left(1, None) is OldKey.DELETED
    assert moved.left(2, None) is OldKey.ASKED


class _Plan:
    """As much of a plan as the rule looks at."""

    def __init__(self, table: Table, key: tuple[str, ...]) -> None:
        names = [column.name for column in table.columns]
        self.table = table
        self.key = tuple(names.index(name) for name in key)


COLUMNS = tuple(Column(name=name, type="int4", type_text="integer", nullable=name == "maybe") for name in ("id", "a", "b", "maybe"))


@pytest.mark.parametrize(
    ("index", "key", "enforced"),
    [
        ({"name": "PRIMARY", "columns": ("id",), "unique": True}, ("id",), True),
        ({"name": "PRIMARY", "columns": ("id",), "unique": True}, ("id", "a"), True),
        ({"name": "PRIMARY", "columns": ("id",), "unique": False}, ("id",), False),
        ({"name": "PRIMARY", "columns": ("id", "a"), "unique": True}, ("a",), False),
        ({"name": "of_a", "columns": ("a",), "unique": True}, ("a",), True),
        ({"name": "of_a", "columns": ("a",), "unique": True, "partial": True}, ("a",), False),
        ({"name": "of_a", "columns": ("a",), "unique": True, "functional": True}, ("a",), False),
        ({"name": "of_maybe", "columns": ("maybe",), "unique": True}, ("maybe",), False),
        ({"name": "of_a", "columns": ("a",), "unique": True}, (), True),
        (None, ("id",), True),
    ],
)
def test_a_message_key_is_enforced_by_row_where_a_unique_index_of_its_columns_is(
    index: Mapping[str, Any] | None, key: tuple[str, ...], enforced: bool
) -> None:
    table = Table(id=TableId("s", "t"), columns=COLUMNS, key=key, indexes=() if index is None else (Index(**index),))

    assert is_enforced_by_row(_Plan(table, key)) == enforced  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "loose"), [(("a",), True), (("id",), False), (("id", "a"), False), (("a", "id"), False), ((), False)])
def test_a_message_key_is_loose_where_it_is_not_the_table_s_and_no_unique_index_enforces_it(key: tuple[str, ...], loose: bool) -> None:
    table = Table(id=TableId("s", "t"), columns=COLUMNS, key=("id",), indexes=(Index(name="PRIMARY", columns=("id",), unique=True),))

    assert is_loose(_Plan(table, key)) == loose  # type: ignore[arg-type]
    assert is_loose(_Plan(Table(id=TableId("s", "t"), columns=COLUMNS, key=()), key)) == bool(key)  # type: ignore[arg-type]
