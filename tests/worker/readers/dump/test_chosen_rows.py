"""A dump of some rows that the server refuses while they are read: its table ends with a reason, and the connector goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from dblog.core.dumprequests import DumpRequest, Wanted, with_table_wanted, with_wanted
from dblog.errors import DblogError, DefiniteError, TableChangedError, TransientError, UnknownKeyError
from dblog.model import TableId
from dblog.readers.dump import chunk
from stack.process import wait_until
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import FakeChunks, FakeServer, FakeSql
from support.fake_database.follower import DATABASE, FakeFollower

ROWS = 100
T, OTHER = TableId(DATABASE, "t"), TableId(DATABASE, "other")


@pytest.fixture
def follower() -> Iterator[FakeFollower]:
    """Of two tables that nothing has dumped."""
    database = FakeDatabase()
    for table in (T, OTHER):
        database.execute(f"CREATE TABLE {table.name} (id int, name text, PRIMARY KEY (id))")
        database.insert(table, *((n, f"row {n}") for n in range(ROWS)))
    follower = FakeFollower(database, **{"dblog.chunk.rows": "10", "snapshot.mode": "no_data"}).start()
    yield follower
    follower.task.stop()


def refusing(monkeypatch: pytest.MonkeyPatch, verb: str, error: Exception, *, wanted: Callable[[Any], bool] = lambda _: True) -> list[str]:
    """Has the server refuse the statements of ``t`` that begin so, and are wanted by their parameters; returns what it has refused."""
    select, refused = FakeChunks.select, []

    def wrapped(self: FakeChunks, statement: str, parameters: Any, **named: Any) -> Any:
        if statement == f"{verb} {T}" and wanted(parameters):
            refused.append(statement)
            raise error
        return select(self, statement, parameters, **named)

    monkeypatch.setattr(FakeChunks, "select", wrapped)
    return refused


def goes_on(follower: FakeFollower) -> None:
    """The log is followed, also by the next run."""
    follower.database.insert(T, (1000, "later"))
    follower.until(lambda: any(row["id"] == 1000 for row in follower.rows.get("t", {}).values()))
    follower.restart()
    follower.database.insert(T, (1001, "later"))
    follower.until(lambda: any(row["id"] == 1001 for row in follower.rows["t"].values()))


def come_to_the_logs_end(follower: FakeFollower) -> None:
    """What is in the log until now has been read."""
    follower.database.insert(OTHER, (2000, "here"))
    follower.until(lambda: any(row["id"] == 2000 for row in follower.rows.get("other", {}).values()))


@pytest.mark.parametrize("verb", ["chunk", "max", "lookup"])
def test_a_condition_that_the_server_takes_and_a_row_does_not_ends_its_table_alone(
    follower: FakeFollower, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    refused = refusing(monkeypatch, verb, DefiniteError("reading a chunk at db:3306 failed: error 1690"))

    request = follower.ask(r"d\.(t|other)", predicate={r"d\.t": "a - b > 0"})
    status = follower.until_state(request, "FAILED")

    assert len(refused) == 1
    assert {one["table"]: one["state"] for one in status["tables"]} == {"d.t": "FAILED", "d.other": "DONE"}
    assert (
        "the rows of d.t cannot be read by the predicate: reading a chunk at db:3306 failed: error 1690; request another dump"
        in status["reason"]
    )
    goes_on(follower)


def test_a_row_far_behind_the_first_ends_the_table_with_what_was_sent_before(
    follower: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "chunk", DefiniteError("error 1690"), wanted=lambda given: given[0] is not None and given[0] >= (49,))

    request = follower.ask(r"d\.t", predicate={r"d\.t": "a - b > 0"}, chunk_rows=10)  # else it adapts to how long a chunk takes
    status = follower.until_state(request, "FAILED")

    assert status["rows"] == len(follower.rows["t"]) == 50
    goes_on(follower)


def test_all_readers_of_a_table_leave_it_when_one_of_them_has_met_the_row(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (T, OTHER):
        follower.database.insert(table, *((n, f"row {n}") for n in range(ROWS, 2000 if table == T else 300)))
    come_to_the_logs_end(follower)
    refusing(monkeypatch, "chunk", DefiniteError("error 1690"), wanted=lambda given: given[0] is not None and given[0] >= (900,))
    request = follower.ask(r"d\.(t|other)", predicate={r"d\.t": "a - b > 0"}, chunk_rows=10, delay_ms=30, parallelism=3, wanted="PAUSED")
    request = follower.tell(with_table_wanted(request, str(OTHER), Wanted.PAUSED))
    request = follower.tell(with_wanted(request, Wanted.RUNNING))

    def state(table: TableId) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in (follower.status(request.id) or {})["tables"] if one["table"] == str(table))
        return found

    follower.until(lambda: state(T)["state"] == "FAILED")
    rows = state(T)["rows"]
    request = follower.tell(with_table_wanted(request, str(OTHER), Wanted.RUNNING))
    follower.until_state(request, "FAILED")

    assert state(OTHER)["state"] == "DONE"
    assert state(T)["rows"] - rows <= 40, "windows that were open close"


def test_keys_that_the_server_refuses_end_their_table_alone(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = refusing(monkeypatch, "keys", DefiniteError("reading a chunk at db:3306 failed: error 1525"))

    status = follower.until_state(follower.ask(r"d\.t", keys=[[1], [2]]), "FAILED")

    assert len(refused) == 1
    assert "the rows of d.t cannot be read by the keys that were asked for: reading a chunk" in status["reason"]
    goes_on(follower)


def test_keys_that_the_tables_definition_does_not_hold_are_asked_for_once(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def rows_by_key(self: FakeSql, table: Any, keys: Any) -> Any:
        tries.append(keys)
        raise UnknownKeyError("d.t.id holds a member that its definition lacks")

    monkeypatch.setattr(FakeSql, "rows_by_key", rows_by_key)

    status = follower.until_state(follower.ask(r"d\.t", keys=[[1], [2]]), "FAILED")

    assert len(tries) == 1
    assert "a member that its definition lacks" in status["reason"]
    goes_on(follower)


def test_keys_bring_as_many_rows_at_once_as_a_chunk_has_bytes(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    select, answers = FakeChunks.select, []

    def wrapped(self: FakeChunks, statement: str, parameters: Any, **named: Any) -> Any:
        found = select(self, statement, parameters, **named)
        if statement.startswith("keys"):
            answers.append((len(parameters), len(found.rows)))
        return found

    monkeypatch.setattr(FakeChunks, "select", wrapped)
    follower.config |= {"dblog.chunk.rows": "100", "dblog.chunk.bytes.max": "65536"}
    follower.restart()
    for n in (*range(20), 50):
        follower.database.update(T, (n, "x" * (200_000 if n == 50 else 30_000)))

    request = follower.ask(r"d\.t", keys=[[n] for n in range(ROWS)])
    status = follower.until_state(request, "DONE")

    assert status["rows"] == ROWS
    follower.until_equal("t")
    assert max(size for keys, size in answers if keys > 1) <= 65536 + 201_000, (
        "what is beyond the limit is let go, but for the row that it ends with"
    )
    assert max(size for keys, size in answers if keys == 1) > 200_000, "a row that is larger by itself comes alone"
    assert any(keys >= 20 for keys, _ in answers), "many small rows come at once"


@pytest.mark.parametrize("key", ["id, name", "name"])
def test_keys_are_of_the_key_that_their_dump_has_begun_with(follower: FakeFollower, key: str) -> None:
    request = follower.ask(r"d\.t", keys=[[n] for n in range(ROWS)], chunk_rows=2, delay_ms=50)
    follower.until(lambda: len(follower.rows.get("t", {})) >= 4)

    follower.database.execute(f"ALTER TABLE t KEY ({key})")
    status = follower.until_state(request, "FAILED")

    assert f"the key of d.t was id when this dump of given keys began, and is {key} now; request another dump" in status["reason"]
    assert 4 <= status["rows"] < ROWS
    goes_on(follower)


def test_keys_are_checked_again_when_the_table_has_got_another_key_before_it_is_read(follower: FakeFollower) -> None:
    request = follower.ask(r"d\.t", keys=[[1], [2]], wanted="PAUSED")
    follower.database.execute("ALTER TABLE t KEY (id, name)")
    come_to_the_logs_end(follower)

    follower.tell(with_wanted(request, Wanted.RUNNING))
    status = follower.until_state(request, "FAILED")

    assert "a key of d.t has 2 values" in status["reason"]
    goes_on(follower)


def test_what_fails_beside_the_rows_is_not_the_conditions_fault(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_watermark(self: FakeChunks, name: str, token: str) -> None:
        raise DefiniteError("the server takes no writes")

    monkeypatch.setattr(FakeChunks, "write_watermark", write_watermark)
    follower.ask(r"d\.t", predicate={r"d\.t": "a - b > 0"})

    with pytest.raises(DefiniteError, match="the server takes no writes"):
        follower.until(lambda: False)


def test_a_table_that_a_request_means_whole_ends_alone_too(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the account may not read it any more."""
    refused = refusing(monkeypatch, "chunk", DefiniteError("the privilege SELECT is missing"))

    request = follower.ask(r"d\.(t|other)", parallelism=2)
    status = follower.until_state(request, "FAILED")

    assert len(refused) == 1
    assert {one["table"]: one["state"] for one in status["tables"]} == {"d.t": "FAILED", "d.other": "DONE"}
    assert "the rows of d.t cannot be read: the privilege SELECT is missing; then request another dump" in status["reason"]
    goes_on(follower)


def test_a_table_of_the_connectors_own_dump_still_stops_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its rows the connector is not what its owner wants."""
    database = FakeDatabase()
    database.execute("CREATE TABLE t (id int, PRIMARY KEY (id))")
    database.insert(T, *((n,) for n in range(ROWS)))
    refusing(monkeypatch, "chunk", DefiniteError("error 1030"))
    follower = FakeFollower(database)

    try:
        with pytest.raises(DefiniteError, match="error 1030"):
            follower.start().until_dumped()
    finally:
        follower.task.stop()


SLOW = "a chunk from db:3306 took longer than 600 s (database.query.timeout.ms)"


@pytest.mark.parametrize("verb", ["chunk", "max", "lookup"])
def test_rows_that_cannot_be_read_for_too_long_end_their_table_alone(
    follower: FakeFollower, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Without a limit of the connector's retries, and with one that the task would end by."""
    monkeypatch.setattr(chunk, "NOT_READ_S", 0.0)
    follower.config["errors.max.retries"] = "1"
    follower.config["retriable.restart.connector.wait.ms"] = "1"
    follower.restart()
    tried = refusing(monkeypatch, verb, TransientError(SLOW))

    request = follower.ask(r"d\.(t|other)", predicate={r"d\.t": "name LIKE '%x'"})
    status = follower.until_state(request, "FAILED")

    assert len(tried) == 3
    assert {one["table"]: one["state"] for one in status["tables"]} == {"d.t": "FAILED", "d.other": "DONE"}
    assert f"the rows of d.t could not be read in 3 tries, in 0 s: {SLOW}; request another dump, with a predicate" in status["reason"]
    goes_on(follower)


def test_rows_that_cannot_be_read_are_tried_for_some_time_and_the_status_says_why(
    follower: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.config["retriable.restart.connector.wait.ms"] = "1"
    follower.restart()
    with monkeypatch.context() as slow:
        tried = refusing(slow, "chunk", TransientError(SLOW))
        request = follower.ask(r"d\.t", predicate={r"d\.t": "name LIKE '%x'"})
        follower.until(lambda: len(tried) > 10)
        status = follower.status(request.id) or {}
        assert (status["state"], status["reason"]) == ("WAITING", f"d.t waits: {SLOW}")
        assert [one["reason"] for one in status["tables"]] == [SLOW]

        request = follower.tell(with_wanted(request, Wanted.PAUSED))
        assert (follower.status(request.id) or {})["reason"] is None, "what is paused waits for nobody else"
        follower.tell(with_wanted(request, Wanted.RUNNING))

    status = follower.until_state(request, "DONE")
    assert status["reason"] is None
    follower.until_equal("t")


def test_a_pause_ends_a_series_of_tries_that_failed(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "NOT_READ_S", 0.0)
    follower.config["retriable.restart.connector.wait.ms"] = "1"
    follower.restart()
    asked: Queue[DumpRequest] = Queue()
    tries = 0

    def two_and_two(_: Any) -> bool:
        nonlocal tries
        tries += 1
        if tries == 2:
            follower.tell(with_wanted(asked.get(timeout=60), Wanted.PAUSED))
            wait_until(lambda: follower.task.running.progress.is_paused(T), timeout_s=60, what="the pause to be known")
        return tries <= 4

    refusing(monkeypatch, "chunk", TransientError(SLOW), wanted=two_and_two)
    request = follower.ask(r"d\.t", predicate={r"d\.t": "name LIKE '%x'"})
    asked.put(request)
    follower.until_state(request, "PAUSED")
    follower.tell(with_wanted(follower.requests[request.id], Wanted.RUNNING))

    follower.until_state(request, "DONE")

    assert tries > 4
    follower.until_equal("t")


def test_a_dump_that_comes_on_between_its_troubles_is_not_ended_by_them(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "NOT_READ_S", 0.0)
    follower.config["retriable.restart.connector.wait.ms"] = "1"
    follower.restart()
    seen: list[Any] = []

    def twice(given: Any) -> bool:
        seen.append(given[0])
        return seen.count(given[0]) <= 2

    tried = refusing(monkeypatch, "chunk", TransientError(SLOW), wanted=twice)

    follower.until_state(follower.ask(r"d\.t", predicate={r"d\.t": "name LIKE '%x'"}), "DONE")

    assert len(tried) >= 20, "ten chunks"
    follower.until_equal("t")


def test_a_server_that_is_away_does_not_end_a_requested_dump(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "NOT_READ_S", 0.0)
    follower.config["retriable.restart.connector.wait.ms"] = "1"
    follower.restart()
    tries = []

    with monkeypatch.context() as away:

        def begin_snapshot(self: FakeChunks) -> None:
            tries.append(self)
            raise TransientError("nobody answers at db:3306")

        away.setattr(FakeChunks, "begin_snapshot", begin_snapshot)
        request = follower.ask(r"d\.t")
        follower.until(lambda: len(tries) > 10)
        assert (follower.status(request.id) or {})["reason"] == "d.t waits: nobody answers at db:3306"

    follower.until_state(request, "DONE")
    follower.until_equal("t")


def test_the_conditions_of_many_tables_are_asked_about_at_once(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(
        FakeServer, "check_conditions", lambda _, conditions: asked.append([f"{table.id} {where}" for table, where in conditions])
    )

    follower.ask(r"d\.(t|other)", predicate={r"d\..*": "name <> ''"})
    follower.ask(r"d\.(t|other)")

    assert asked == [["d.other name <> ''", "d.t name <> ''"]]


def quoting(error: DblogError, told: str) -> Any:
    error.discreet = told
    return error


@pytest.mark.parametrize(("verb", "kind"), [("chunk", TableChangedError), ("lookup", TableChangedError), ("chunk", DefiniteError)])
def test_no_line_of_the_log_and_no_status_has_what_the_server_says_of_a_predicate(
    follower: FakeFollower, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], verb: str, kind: type[DblogError]
) -> None:
    monkeypatch.setattr(chunk, "CONDITION_ASKED_AFTER", 1)
    tried = refusing(monkeypatch, verb, quoting(kind("error 1054: Unknown column 'salary'"), "error 1054"))

    request = follower.ask(r"d\.t", predicate={r"d\.t": "salary > 1"})
    follower.until(lambda: bool(tried))

    def check_conditions(self: FakeServer, conditions: Any) -> None:
        raise quoting(DefiniteError("the server does not take it: Unknown column 'salary'"), "the server does not take it: error 1054")

    monkeypatch.setattr(FakeServer, "check_conditions", check_conditions)
    status = follower.until_state(request, "FAILED")

    assert "error 1054" in status["reason"]
    assert "salary" not in str(status)
    out = "".join(capfd.readouterr())
    assert "error 1054" in out
    assert "salary" not in out


def test_what_the_server_says_of_a_table_that_is_read_whole_is_told(follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        tried = refusing(changed, "chunk", quoting(TableChangedError("error 1146: d.t is not there"), "error 1146"))
        request = follower.ask(r"d\.t")
        follower.until(lambda: bool(tried))
        follower.until(lambda: (follower.status(request.id) or {})["reason"] == "d.t waits: error 1146: d.t is not there")

    follower.until_state(request, "DONE")
