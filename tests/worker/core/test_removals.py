"""Which tables lose rows by a statement without a row in the log, over sequences of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from dblog.core import removals
from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, Ignored, RenameTable, TruncateTable, Unknown
from dblog.core.removals import REPLACED, RETURNED, TRUNCATED, Removals
from dblog.model import Column, Table, TableId

T, U, V = (TableId("d", name) for name in ("t", "u", "v"))


def table(id_: TableId) -> Table:
    return Table(id=id_, columns=(Column(name="id", type="int", type_text="int", nullable=False),), key=("id",))


def found(*statements: Sequence[Change], known: Sequence[Table] = (table(T),)) -> list[dict[TableId, str]]:
    """What each statement takes rows from; tables come and go with the statements, as in a log."""
    now = {one.id: one for one in known}
    rule, out = Removals(), []
    for changes in statements:
        out.append(rule.of(changes, now.get))
        before = set(now)
        for change in changes:
            match change:
                case CreateTable(made):
                    now[made.id] = made
                case AlterTable(old, altered):
                    now.pop(old, None)
                    now[altered.id] = altered
                case DropTable(ids):
                    for id_ in ids:
                        now.pop(id_, None)
                case RenameTable(pairs):
                    for old, new in pairs:
                        if old in now:
                            now[new] = replace(now.pop(old), id=new)
                case _:
                    pass
        rule.leave(before - set(now))
    return out


def rename(*pairs: tuple[TableId, TableId]) -> tuple[Change, ...]:
    return (RenameTable(pairs),)


@pytest.mark.parametrize(
    ("statements", "last"),
    [
        ([[TruncateTable(T)]], {T: TRUNCATED}),
        ([[AlterTable(T, table(T), removes="DROP PARTITION")]], {T: "DROP PARTITION"}),
        ([[AlterTable(T, table(U), removes="DROP PARTITION")]], {U: "DROP PARTITION"}),
        ([[AlterTable(T, table(T))]], {}),
        ([[DropTable((T,))]], {}),
        ([[CreateTable(table(U))]], {}),
        ([[DropTable((T,))], [CreateTable(table(T))]], {T: RETURNED}),
        ([[DropTable((T,))], [CreateTable(table(T))], [Ignored("")]], {}),
        ([[DropTable((T,))], [CreateTable(table(T), with_rows=True, misses=True)]], {}),  # no log had it for a while
        ([[DropTable((T,))], [Unknown((T,), "")]], {T: RETURNED}),
        ([[Unknown((T,), "")]], {}),
        ([[DropTable((T,)), CreateTable(table(T), with_rows=True)]], {T: REPLACED}),
        ([[CreateTable(table(T), replaces=True)]], {T: REPLACED}),
        ([[CreateTable(table(U), replaces=True)]], {}),
        ([[CreateTable(table(T), only_if_absent=True, already=True)]], {}),
        ([rename((T, U))], {}),
        ([rename((T, U), (V, T))], {T: REPLACED}),
        ([rename((T, U)), rename((V, T))], {T: REPLACED}),
        ([rename((T, U)), [AlterTable(V, table(T))]], {T: REPLACED}),
        ([rename((T, U)), [CreateTable(table(T))]], {T: RETURNED}),
        ([rename((T, U)), [TruncateTable(U)]], {U: TRUNCATED}),
        ([[TruncateTable(T), DropTable((T,))]], {}),
        ([[DropTable((U,))], [CreateTable(table(U))]], {}),
    ],
)
def test_each_statement_names_the_tables_that_lost_rows(statements: list[Sequence[Change]], last: dict[TableId, str]) -> None:
    assert found(*statements)[-1] == last


def test_a_swap_of_two_tables_names_both() -> None:
    swap = rename((T, V), (U, T), (V, U))

    assert found(swap, known=(table(T), table(U))) == [{T: REPLACED, U: REPLACED}]


def test_names_of_tables_that_are_gone_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "LEFT_MAX", 2)
    rule = Removals()

    rule.leave([T, U, V])

    assert [rule.of([CreateTable(table(one))], lambda _: None) for one in (T, U, V)] == [{}, {U: RETURNED}, {V: RETURNED}]
