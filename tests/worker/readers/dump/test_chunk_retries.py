"""What counts as trouble of a dump, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dblog.errors import TableChangedError, TableLockedError, TransientError
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import FakeChunks
from support.fake_database.follower import DATABASE, FakeFollower

ROWS = 200
T = TableId(DATABASE, "t")


@pytest.fixture
def follow() -> Iterator[Callable[..., FakeFollower]]:
    followers: list[FakeFollower] = []

    def make(**config: str) -> FakeFollower:
        database = FakeDatabase()
        database.execute("CREATE TABLE t (id int, name text, PRIMARY KEY (id))")
        database.insert(T, *((n, f"row {n}") for n in range(ROWS)))
        followers.append(FakeFollower(database, **{"dblog.chunk.rows": "10", "retriable.restart.connector.wait.ms": "1"}, **config))
        return followers[-1]

    yield make
    for follower in followers:
        follower.task.stop()


def failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], Exception | None]) -> list[int]:
    """The numbers of the chunk SELECTs that failed, the first being 1."""
    select, count, failed = FakeChunks.select, 0, []

    def wrapped(self: FakeChunks, statement: str, *given: Any, **named: Any) -> Any:
        nonlocal count
        if statement.startswith("chunk"):
            count += 1
            if (error := fails(count)) is not None:
                failed.append(count)
                raise error
        return select(self, statement, *given, **named)

    monkeypatch.setattr(FakeChunks, "select", wrapped)
    return failed


@pytest.mark.parametrize("limit", [{"errors.max.retries": "1"}, {"dblog.retry.timeout.ms": "1"}])
def test_losses_with_chunks_in_between_are_no_series(follow: Any, monkeypatch: pytest.MonkeyPatch, limit: dict[str, str]) -> None:
    failed = failing(monkeypatch, lambda count: TransientError("the connection is lost") if count % 7 == 0 else None)

    follower = follow(**limit).start()
    follower.until_dumped()

    follower.until_equal("t")
    assert len(failed) >= 2


def test_losses_without_a_chunk_in_between_end_the_task(follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = failing(monkeypatch, lambda count: TransientError("the connection is lost") if count > 3 else None)
    follower = follow(**{"errors.max.retries": "2"}).start()

    with pytest.raises(Exception, match=r"gave up after 3 tries .* \(errors.max.retries=2\): the connection is lost"):
        follower.until_dumped()

    assert 3 <= len(failed) <= 5, "windows that were open at the first loss may still close"


def test_a_table_that_has_changed_is_waited_for_and_is_no_trouble(follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ALTER is still to come in the log, which may take hours."""
    failed = failing(monkeypatch, lambda count: TableChangedError("the table has changed") if 3 < count <= 6 else None)

    follower = follow(**{"errors.max.retries": "0", "dblog.retry.timeout.ms": "1"}).start()
    follower.until_dumped()

    follower.until_equal("t")
    assert failed == [4, 5, 6]


@pytest.mark.parametrize("error", [TableLockedError("somebody locks the table"), TableChangedError("the table has changed")])
@pytest.mark.parametrize("ask", [False, True], ids=["its own dump", "a requested dump"])
def test_a_table_that_cannot_be_read_for_now_lets_others_pass_though_one_thread_reads_all(
    follow: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, ask: bool
) -> None:
    select, later = FakeChunks.select, TableId(DATABASE, "u")
    follower = follow(**{"dblog.dump.threads": "1", "snapshot.mode": "no_data" if ask else "initial"})
    follower.database.execute("CREATE TABLE u (id int, name text, PRIMARY KEY (id))")
    follower.database.insert(later, *((n, "row") for n in range(ROWS)))

    def locked(self: FakeChunks, statement: str, *given: Any, **named: Any) -> Any:
        if statement == f"chunk {T}" and len(follower.rows.get("u", {})) < ROWS:
            raise error
        return select(self, statement, *given, **named)

    monkeypatch.setattr(FakeChunks, "select", locked)
    follower.start()
    if ask:
        follower.ask(f"{DATABASE}.t", f"{DATABASE}.u", parallelism=1)

    follower.until_equal("u")
    follower.until_equal("t")
