"""Where a range of keys is cut in two for another reader."""

from __future__ import annotations

from decimal import Decimal

import pytest
from dblog.core.table_dump import Key
from dblog.errors import DefiniteError, TableChangedError, TransientError
from dblog.readers.dump.sharing import CHUNKS_KEPT, halved, walked
from support.fake_session import FakeDatabase, FakeDumpConnection


@pytest.mark.parametrize(
    ("after", "upto", "rows_left", "cut"),
    [
        pytest.param((0,), (1000,), 1000, (500,), id="dense"),
        pytest.param((-500,), (500,), 300, (0,), id="with gaps"),
        pytest.param((0,), (2**63,), 1_000_000, None, id="sparse"),
        pytest.param((0,), (1000,), None, None, id="no estimate"),
        pytest.param((0,), (199,), 1000, None, id="too short for two"),
        pytest.param((0, 1), (1000, 1), 1000, None, id="composite"),
        pytest.param((b"0",), (b"z",), 1000, None, id="bytes"),
        pytest.param((Decimal(0),), (Decimal(1000),), 1000, None, id="decimal"),
        pytest.param((False,), (True,), 1000, None, id="no number"),
    ],
)
def test_dense_integers_are_halved_and_nothing_else_is(after: Key, upto: Key, rows_left: int | None, cut: Key | None) -> None:
    assert halved(after, upto, rows_left=rows_left, rows_min=100) == cut


def test_a_walk_keeps_fewer_chunks_where_there_are_not_so_many_and_ends_with_its_snapshot() -> None:
    connection = FakeDumpConnection(FakeDatabase())
    asked: list[int] = []

    def key_at(rows: int) -> Key | None:
        asked.append(rows)
        assert connection._view is not None, "within a snapshot"  # noqa: SLF001
        return (rows,) if rows <= 50 else None

    assert walked(connection, key_at, rows_asked=20) == (CHUNKS_KEPT[1] * 20,)
    assert asked == [chunks * 20 for chunks in CHUNKS_KEPT]
    assert connection._view is None  # noqa: SLF001
    assert walked(connection, lambda _: None, rows_asked=20) is None


@pytest.mark.parametrize("error", [TransientError("the SELECT took too long"), DefiniteError("a row is no number")])
def test_a_walk_that_takes_too_long_finds_no_cut_and_its_connection_serves_on(error: Exception) -> None:
    connection = FakeDumpConnection(FakeDatabase())

    def key_at(_: int) -> Key | None:
        raise error

    assert walked(connection, key_at, rows_asked=20) is None
    connection.begin_snapshot()


@pytest.mark.parametrize("error", [TransientError("the connection was killed"), TableChangedError("the table is gone")])
def test_a_walk_over_a_connection_that_is_lost_or_a_table_that_has_changed_is_an_error(error: TransientError) -> None:
    connection = FakeDumpConnection(FakeDatabase())

    def key_at(_: int) -> Key | None:
        connection.close()
        raise error

    with pytest.raises(TransientError):
        walked(connection, key_at, rows_asked=20)
