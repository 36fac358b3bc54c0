"""Which windows open and close where, by marks that nobody writes: all small cases. # I2"""

from __future__ import annotations

import itertools

import pytest
from dblog.core.marks import AwaitedMarks
from dblog.core.watermark import Ticket
from dblog.model import TableId

TABLES = [TableId("d", name) for name in ("a", "b")]
ENDS = range(4)
"""Positions of a log of three transactions."""


def ticket(number: int, table: TableId = TABLES[0]) -> Ticket:
    return Ticket(number=number, table=table, low_token=f"run/{number}/low", high_token=f"run/{number}/high")


@pytest.mark.parametrize("marks", list(itertools.product(itertools.product(TABLES, ENDS), repeat=3)))
def test_every_window_closes_where_the_log_has_come_to_its_mark_and_to_those_of_the_tables_older_windows(marks) -> None:
    awaited: AwaitedMarks[int] = AwaitedMarks()
    tickets = [ticket(number, table) for number, (table, _) in enumerate(marks)]
    for made, (_, mark) in zip(tickets, marks, strict=True):
        awaited.want_high(made, mark)

    closed: dict[int, int] = {}
    for position in ENDS:
        for made in awaited.take_highs(lambda mark, position=position: mark <= position):
            assert made.number not in closed
            closed[made.number] = position

    older = {n: [m for k, (t, m) in enumerate(marks) if t == table and k <= n] for n, (table, _) in enumerate(marks)}
    assert closed == {n: max(older[n]) for n in older}, "never before its mark, and no later than its table's order asks for"
    assert not awaited


def test_windows_that_close_at_one_position_close_in_the_order_of_their_table() -> None:
    awaited: AwaitedMarks[int] = AwaitedMarks()
    for number in range(5):
        awaited.want_high(ticket(number), number)

    closed = [made.number for made in awaited.take_highs(lambda mark: mark <= 3)]

    assert closed == [0, 1, 2, 3]
    assert awaited


@pytest.mark.parametrize("between", list(itertools.product([False, True], repeat=3)))
def test_a_window_opens_at_the_first_position_between_two_transactions(between) -> None:
    awaited: AwaitedMarks[int] = AwaitedMarks()
    awaited.want_low(ticket(1))

    opened = [[made.number for made in awaited.take_lows(between=one, follows=lambda _: True)] for one in between]

    first = between.index(True) if True in between else None
    assert opened == [[1] if at == first else [] for at in range(3)]
    assert bool(awaited) == (first is None)


def test_a_window_that_nobody_wants_any_more_is_not_opened() -> None:
    awaited: AwaitedMarks[int] = AwaitedMarks()
    awaited.want_low(ticket(1))
    awaited.want_low(ticket(2))

    awaited.forget_low(ticket(1))
    awaited.forget_low(ticket(1))

    assert [made.number for made in awaited.take_lows(between=True, follows=lambda _: True)] == [2]
    assert not awaited


@pytest.mark.parametrize("followed", [set(TABLES[:n]) for n in range(3)])
def test_a_window_does_not_open_where_rows_of_its_table_are_passed_over(followed) -> None:
    awaited: AwaitedMarks[int] = AwaitedMarks()
    for number, table in enumerate((*TABLES, *TABLES)):
        awaited.want_low(ticket(number, table))

    opened = [made.table for made in awaited.take_lows(between=True, follows=lambda one: one.table in followed)]
    rest = [made.table for made in awaited.take_lows(between=True, follows=lambda _: True)]

    assert opened == [table for table in (*TABLES, *TABLES) if table in followed]
    assert rest == [table for table in (*TABLES, *TABLES) if table not in followed]
