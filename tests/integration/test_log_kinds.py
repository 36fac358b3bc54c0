"""What real servers write into their logs beside plain rows, through a whole task: compressed transactions and events. # I3 I5 I6"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from dblog.dialects.mysql.wire.log import LogConnection
from dblog.errors import DefiniteError
from dblog.model import TableId
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database

Make = Callable[..., Follower]


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    made: list[Follower] = []
    yield made
    for follower in made:
        follower.task.stop()


@pytest.fixture
def follow(source: Database, followers: list[Follower]) -> Make:
    """Makes a follower of a new database, from now on; statements make its tables first."""

    def make(*statements: str, **config: str) -> Follower:
        execute(source, "FLUSH BINARY LOGS")  # a file without the statements of other tests, some of which are in no client's character set
        database = new_database(source, "kinds")
        execute(source, *statements, database=database)
        follower = Follower(source, database, **{"snapshot.mode": "no_data", **config})
        followers.append(follower)
        return follower.start()

    return make


@contextlib.contextmanager
def compressing(source: Database) -> Iterator[None]:
    """New sessions of this server write compressed logs."""
    name = "binlog_transaction_compression" if source.flavor == "mysql" else "log_bin_compress"
    execute(source, f"SET GLOBAL {name} = ON")
    try:
        yield
    finally:
        execute(source, f"SET GLOBAL {name} = OFF")


def transaction(follower: Follower, *statements: str) -> None:
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        connection.begin()
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def event_names(source: Database) -> set[str]:
    file = execute(source, "SHOW BINARY LOGS")[-1][0]
    return {str(row[2]) for row in execute(source, f"SHOW BINLOG EVENTS IN '{file}'")}


def kill_dumps(source: Database) -> int:
    """End every log connection; how many there were."""
    found = execute(source, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
    for (process,) in found:
        with contextlib.suppress(pymysql.err.OperationalError):
            execute(source, f"KILL {process}")
    return len(found)


def test_a_compressed_log_is_followed(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, s TEXT, v VARCHAR(50))", "CREATE TABLE other (id INT)")
    with compressing(follower.source):
        follower.sql("INSERT INTO t VALUES (1, REPEAT('a', 5000), 'one')")
        transaction(
            follower,
            "INSERT INTO t VALUES " + ",".join(f"({n}, REPEAT('b', {n}), 'v{n}')" for n in range(2, 900)),
            "UPDATE t SET v = CONCAT(v, '!') WHERE id % 3 = 0",
            "SAVEPOINT s",
            "DELETE FROM t WHERE id > 300",
            "ROLLBACK TO SAVEPOINT s",
            "DELETE FROM t WHERE id > 800",
            "UPDATE t SET id = id + 10000 WHERE id < 5",
        )
        follower.sql(
            "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 4", "UPDATE t SET w = 5 WHERE id BETWEEN 10 AND 20", "UPDATE t SET v = 'x'"
        )
        kinds = event_names(follower.source)
    follower.until_equal("t")

    assert any(("payload" if follower.source.flavor == "mysql" else "compressed") in name.lower() for name in kinds), kinds
    gtids = [record["source"]["gtid"] for _, record in follower.values if record is not None]
    assert len(set(gtids)) == 4


def test_a_connection_killed_inside_a_compressed_transaction_neither_loses_nor_repeats_a_row(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(50))", **{"max.batch.size": "10", "max.queue.size": "20"}
    )
    many = ",".join(f"('{'x' * 30}{i}')" for i in range(400))
    with compressing(follower.source):
        transaction(follower, *[f"INSERT INTO t (s) VALUES {many}"] * 20)
    follower.until(lambda: len(follower.values) > 500)

    # The small queue holds the reader in the middle of the transaction.
    killed = kill_dumps(follower.source)
    follower.until(lambda: len(follower.rows.get("t", {})) == 8000)
    follower.sql("INSERT INTO t (s) VALUES ('the end')")
    follower.until_equal("t")

    assert killed
    assert len(follower.values) == 8001


def test_a_task_killed_inside_a_compressed_transaction_goes_on_at_its_offset(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(50))", **{"max.batch.size": "50", "max.queue.size": "100"}
    )
    many = ",".join(f"('{'x' * 30}{i}')" for i in range(400))
    with compressing(follower.source):
        transaction(follower, *[f"INSERT INTO t (s) VALUES {many}"] * 10)
    follower.until(lambda: len(follower.values) > 500)
    inside: dict[str, Any] = dict(follower.offset or {})

    follower.restart()
    follower.until(lambda: len(follower.rows.get("t", {})) == 4000)
    follower.sql("INSERT INTO t (s) VALUES ('the end')")
    follower.until_equal("t")

    assert inside["dblog_event" if follower.source.flavor == "mysql" else "event"] > 2
    assert ("event" in inside) == (follower.source.flavor == "mariadb"), "Debezium reads a compressed transaction again"
    assert len(follower.values) == 4001
    sequences = [record["source"]["sequence"] for _, record in follower.values if record is not None]
    assert len(set(sequences)) == 4001


def test_differences_of_json_documents_become_whole_documents(mysql: Database, followers: list[Follower]) -> None:
    database = new_database(mysql, "kinds")
    execute(mysql, "CREATE TABLE t (id INT PRIMARY KEY, j JSON, v VARCHAR(20), k JSON)", database=database)
    follower = Follower(mysql, database, **{"snapshot.mode": "no_data"})
    followers.append(follower)
    follower.start()
    wide = ", ".join(f"'member {n}', REPEAT('{n % 10}', 1500)" for n in range(60))
    statements = [
        "INSERT INTO t VALUES (1, JSON_OBJECT('a', 1, 'list', JSON_ARRAY(1, 2.5, 'x', NULL), 'deep', JSON_OBJECT('b c', TRUE, 'q\"', 'ä')), 'v', '[1, 2]')",
        f"INSERT INTO t VALUES (2, JSON_OBJECT({wide}), 'v', CAST(CAST('12:13:14' AS TIME) AS JSON)), (3, '7', NULL, NULL)",
        "UPDATE t SET j = JSON_SET(j, '$.a', 2, '$.list[1]', 'longer than before') WHERE id = 1",
        "UPDATE t SET j = JSON_REPLACE(j, '$.deep.\"b c\"', CAST(1.10 AS DECIMAL(5, 2))), k = JSON_SET(k, '$[0]', 9) WHERE id = 1",
        "UPDATE t SET j = JSON_SET(j, '$.new', JSON_OBJECT('z', 1, 'aa', 2)), v = 'w' WHERE id = 1",
        "UPDATE t SET j = JSON_REMOVE(j, '$.list[0]', '$.deep.\"q\\\\\"\"') WHERE id = 1",
        "UPDATE t SET j = JSON_ARRAY_APPEND(JSON_SET(j, '$.a', NULL), '$.list', 5) WHERE id = 1",
        "UPDATE t SET j = JSON_SET(j, '$.\"member 7\"', 'short'), k = JSON_SET(k, '$', 3) WHERE id = 2",
        "UPDATE t SET j = JSON_REMOVE(JSON_SET(j, '$.\"member 8\"', JSON_ARRAY(1, 40000, -70000, 5000000000, 1e300)), '$.\"member 9\"') WHERE id = 2",
        "UPDATE t SET j = JSON_SET(j, '$', 8), v = 'u' WHERE id = 3",
        "UPDATE t SET j = NULL WHERE id = 3",
        "DELETE FROM t WHERE id = 3",
    ]
    with connected(mysql, database=database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        for statement in statements:
            cursor.execute(statement)
    kinds = event_names(mysql)

    follower.until(lambda: bool(follower.values) and follower.values[-1][1] is None)  # the delete's tombstone

    def documents(rows: Any) -> Any:
        return {row["id"]: (None if row["j"] is None else json.loads(row["j"]), row["v"], json.loads(row["k"])) for row in rows}

    with connected(mysql, database=database) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SELECT * FROM t")
        stored = documents(cursor.fetchall())
    assert any("partial" in name.lower() for name in kinds), kinds
    assert documents(follower.rows["t"].values()) == stored
    assert stored[1][0]["list"] == ["longer than before", "x", None, 5]
    changes = [record for _, record in follower.values if record is not None]
    for old, new in itertools.pairwise(changes):
        if new["op"] == "u" and old["after"] is not None and old["after"]["id"] == new["after"]["id"]:
            assert new["before"] == old["after"], "each image before is the image after of the change before"


def test_large_objects_that_the_log_leaves_out_become_placeholders(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT, w LONGTEXT CHARACTER SET utf16, b MEDIUMBLOB, v VARCHAR(5) NOT NULL, e TEXT NOT NULL)",
        **{"unavailable.value.placeholder": "not here"},
    )
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'NOBLOB', sql_mode = ''")
        cursor.execute("INSERT INTO t VALUES (1, 1, 'text', 'wide', 'blob', 'v', 'e')")
        cursor.execute("INSERT INTO t (id, v) VALUES (2, 'w')")
        cursor.execute("UPDATE t SET n = 5 WHERE id = 1")
        cursor.execute("UPDATE t SET s = 'other', n = NULL WHERE id = 1")
        cursor.execute("DELETE FROM t WHERE id = 1")
    follower.until(lambda: len(follower.values) == 6)

    away = "not here"
    away_bytes = base64.b64encode(away.encode()).decode()
    found = [record and (record["op"], record["before"], record["after"]) for _, record in follower.values]
    whole = {"id": 1, "n": 1, "s": "text", "w": "wide", "b": base64.b64encode(b"blob").decode(), "v": "v", "e": "e"}
    left = {"id": 1, "n": 1, "s": away, "w": away, "b": away_bytes, "v": "v", "e": away}
    assert found[0] == ("c", None, whole)
    assert found[1] == ("c", None, {"id": 2, "n": None, "s": None, "w": None, "b": None, "v": "w", "e": ""})
    assert found[2] == ("u", left, {**left, "n": 5})
    assert found[3] == ("u", {**left, "n": 5}, {**left, "n": None, "s": "other"})
    assert found[4] == ("d", {**left, "n": None}, None)


def xa(follower: Follower, name: str, end: str, *statements: str) -> None:
    """One XA transaction, prepared and ended."""
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute(f"XA {end} '{name}'")


def unique() -> str:
    return f"xa{uuid.uuid4().hex[:10]}"


def test_rows_of_xa_transactions_come_where_they_are_prepared(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    xa(follower, unique(), "COMMIT", "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET v = 3 WHERE id = 1")
    name = unique()
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "INSERT INTO t VALUES (4, 4)", f"XA END '{name}'", f"XA COMMIT '{name}' ONE PHASE"):
            cursor.execute(statement)
    follower.sql("INSERT INTO t VALUES (5, 5)")
    follower.until_equal("t")

    assert len(follower.values) == 5
    follower.restart()
    follower.sql("INSERT INTO t VALUES (6, 6)")
    follower.until_equal("t")
    assert len(follower.values) == 6, "the position behind XA transactions is exact"


def test_a_rollback_that_only_a_dump_could_repair_stops_the_task_where_nothing_is_dumped_unless_configured_otherwise(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY)", **{"skipped.operations": "d"})
    other = new_database(follower.source, "uncaptured")
    execute(follower.source, f"CREATE TABLE {other}.t (id INT PRIMARY KEY)")
    xa(follower, unique(), "ROLLBACK", f"INSERT INTO {other}.t VALUES (1)")
    follower.sql("INSERT INTO t VALUES (1)")
    follower.until_equal("t")

    xa(follower, unique(), "ROLLBACK", "INSERT INTO t VALUES (2)")
    with pytest.raises(
        DefiniteError, match=rf"XA ROLLBACK at .* of rows of {follower.database}\.t .*dblog dumps start .* --mode repair.*no_data"
    ):
        follower.until(lambda: False)

    follower.config["event.processing.failure.handling.mode"] = "warn"
    follower.restart()
    follower.sql("INSERT INTO t VALUES (3)")
    follower.until(lambda: len(follower.rows["t"]) == 3)
    assert any("XA ROLLBACK" in text and "--mode repair" in text for text in follower.warnings.texts())


def test_a_dump_is_right_although_a_prepared_transaction_was_open_when_it_began(source: Database, followers: list[Follower]) -> None:
    database = new_database(source, "kinds")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", database=database)
    follower = Follower(source, database)
    followers.append(follower)
    name = unique()
    follower.config["snapshot.mode"] = "no_data"
    follower.task = follower.new_task()
    follower.start()
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "UPDATE t SET v = 20 WHERE id = 2", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    follower.until(lambda: len(follower.values) == 1)

    # The prepared row has been sent, and a chunk would show the old one until the commit.
    windows, table = follower.task.running.windows, TableId(database, "t")
    follower.until(lambda: windows.is_held(table))
    assert windows.declare(table, keyed=True, resets=windows.resets(table), windows_max=2) is None
    execute(source, f"XA COMMIT '{name}'")
    follower.until(lambda: not windows.is_held(table))
    assert windows.declare(table, keyed=True, resets=windows.resets(table), windows_max=2) is not None


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (7)", "DELETE FROM t WHERE id = 1", "REPLACE t VALUES (1)", "/* why */ UPDATE t SET id = 2"]
)
def test_a_change_that_was_logged_as_a_statement_stops_the_task_with_kind_position_and_remedy(follow: Make, statement: str) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    file, _, _ = follower.task.running.server.session.current_position()
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute(statement)

    kind = statement.split(" INTO", maxsplit=1)[0].split(" FROM", maxsplit=1)[0].split(" t ", maxsplit=1)[0].rsplit(" ", maxsplit=1)[-1]
    with pytest.raises(DefiniteError, match=rf"{kind} .*{follower.database}\.t.*binlog_format = 'ROW'.*{file}:"):
        follower.until(lambda: False)


def test_rows_of_sources_that_are_not_wanted_stay_out(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY)")
    source = follower.source
    if source.flavor == "mysql":
        own, other = execute(source, "SELECT @@server_uuid")[0][0], "0000aaaa-bbbb-cccc-dddd-eeeeffff0000"
        gtid = f"{other}:{uuid.uuid4().int % 1_000_000 + 1}"
        foreign = (f"SET gtid_next = '{gtid}'", "INSERT INTO t VALUES (100)", "SET gtid_next = 'AUTOMATIC'")
    else:
        own, other = "0-1", "7-1"
        foreign = ("SET gtid_domain_id = 7", "INSERT INTO t VALUES (100)", "SET gtid_domain_id = 0")
    follower.config["gtid.source.excludes"] = other
    follower.restart()

    follower.sql(*foreign, "INSERT INTO t VALUES (1)")
    follower.until(lambda: len(follower.values) == 1)
    assert follower.values[0][1]["source"]["gtid"].startswith(own)
    assert other.split("-", 1)[0] in follower.offset["gtids"], "they count as read"

    follower.config["gtid.source.filter.dml.events"] = "false"
    follower.restart()
    follower.sql(*[s.replace("100", "101").replace(":", ":9") for s in foreign])
    follower.until(lambda: len(follower.values) == 2)


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """So many more times, whatever the log has of 'spoil me' arrives damaged."""
    times = [0]
    received = LogConnection.recv

    def recv(self: LogConnection, timeout_s: float) -> bytes:
        data = received(self, timeout_s)
        if b"spoil me" in data and times[0]:
            times[0] -= 1
            return data.replace(b"spoil me", b"spoilt!!")
        return data

    monkeypatch.setattr(LogConnection, "recv", recv)
    return times


def test_a_damaged_event_is_read_again_from_the_last_good_position(follow: Make, spoiled: list[int]) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20))")
    spoiled[0] = 3
    transaction(follower, *[f"INSERT INTO t VALUES ({n}, 'row {n}')" for n in range(50)], "INSERT INTO t VALUES (99, 'spoil me')")
    follower.until_equal("t")

    assert spoiled[0] == 0
    assert len(follower.values) == 51


def test_a_log_that_stays_damaged_fails_the_task_with_file_and_position(follow: Make, spoiled: list[int]) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20))")
    file, _, _ = follower.task.running.server.session.current_position()
    spoiled[0] = 1000
    follower.sql("INSERT INTO t VALUES (1, 'good')", "INSERT INTO t VALUES (2, 'spoil me')")

    with pytest.raises(
        DefiniteError, match=rf"the log at {file}:\d+ holds an event of type \d+ whose checksum is wrong.*read 4 times from {file}:\d+"
    ):
        follower.until(lambda: False)
    assert [record["after"]["s"] for _, record in follower.values] == ["good"]


def test_a_rows_event_that_stays_damaged_is_left_out_where_that_is_wanted_and_counted(follow: Make, spoiled: list[int]) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20))", **{"event.deserialization.failure.handling.mode": "warn"})
    spoiled[0] = 4
    follower.sql("INSERT INTO t VALUES (1, 'good'), (2, 'spoil me')", "UPDATE t SET s = 'good again'", "INSERT INTO t VALUES (3, 'good')")

    follower.until(lambda: len(follower.values) == 3)
    assert spoiled[0] == 0
    assert [record["op"] for _, record in follower.values] == ["u", "u", "c"]
    assert follower.task.metrics()["log_events_skipped_total"] == 1


@pytest.mark.either_server
def test_a_transaction_beyond_the_queue_is_followed_in_bounded_memory(follow: Make) -> None:
    """I6. 100 MiB of rows, compressed by MySQL to almost nothing: neither the log's nor the queue's share of them may pile up."""
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(1100))", **{"max.queue.size": "4000"})
    rows = 100_000
    with compressing(follower.source):
        transaction(
            follower,
            "SET SESSION cte_max_recursion_depth = 1000000"
            if follower.source.flavor == "mysql"
            else "SET SESSION max_recursive_iterations = 1000000",
            f"INSERT INTO t (s) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT REPEAT('x', 1024) FROM n",
        )
    before_kb = resident_kb()
    peak_kb, seen = 0, 0
    end_s = time.monotonic() + 120
    while seen < rows:
        assert time.monotonic() < end_s, seen
        for batch in follower.task.poll(timeout_s=0.05, records_max=2000, bytes_max=1 << 20):
            seen += sum(len(segment.values) for segment in batch.segments if segment.table is not None)
        peak_kb = max(peak_kb, resident_kb())

    assert seen == rows
    assert peak_kb - before_kb < 80_000


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_a_transaction_prepared_before_the_first_position_comes_by_a_dump_when_it_commits(
    source: Database, followers: list[Follower]
) -> None:
    database = new_database(source, "kinds")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)", database=database)
    names = [unique() for _ in range(3)]
    for number, name in enumerate(names):
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            for statement in (f"XA START '{name}'", f"INSERT INTO t VALUES ({number + 10}, 0)", f"XA END '{name}'", f"XA PREPARE '{name}'"):
                cursor.execute(statement)
    execute(source, "FLUSH BINARY LOGS")
    follower, silent = Follower(source, database), Follower(source, database, **{"snapshot.mode": "no_data"})
    followers += [follower, silent]
    for one in (follower, silent):
        one.start()
    follower.until_dumped()
    follower.restart()

    execute(source, f"XA ROLLBACK '{names[0]}'", f"XA COMMIT '{names[1]}'")
    follower.until_equal("t")
    execute(source, f"XA COMMIT '{names[2]}'")
    follower.until_equal("t")
    assert set(follower.ops("t")) == {"r"}
    assert "dblog_xa" not in follower.offset

    with pytest.raises(
        DefiniteError, match=rf"XA transaction .* was committed at .*only a dump of {database}\.t brings them, which snapshot.mode=no_data"
    ):
        silent.until(lambda: False)


def test_a_prepared_transaction_is_known_over_a_restart(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY)")
    name = unique()
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "INSERT INTO t VALUES (1)", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    follower.sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    follower.until(lambda: "u" in follower.rows)
    assert follower.database in follower.offset["dblog_xa"]
    follower.restart()

    execute(follower.source, f"XA COMMIT '{name}'")
    follower.sql("INSERT INTO t VALUES (2)")
    follower.until_equal("t")
    assert follower.ops("t") == ["c", "c"], "its rows had been sent; nothing is dumped"
    assert "dblog_xa" not in follower.offset


@pytest.mark.parametrize("away", [False, True], ids=["while the log is followed", "while the connector is away"])
def test_rows_prepared_before_their_table_joined_come_when_they_are_committed(
    source: Database, followers: list[Follower], *, away: bool
) -> None:
    database = new_database(source, "kinds")
    execute(
        source, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)", database=database
    )
    follower = Follower(source, database, **{"table.include.list": rf"{database}\.t"})
    followers.append(follower)
    follower.task = follower.new_task()
    follower.start()
    follower.until_dumped()
    # An earlier one that commits while the table is left out, so that its table map is known by then.
    xa(follower, unique(), "COMMIT", "INSERT INTO u VALUES (2)")
    follower.sql("INSERT INTO t VALUES (1)")
    follower.until_equal("t")
    if away:
        follower.task.stop()
    name = unique()
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "INSERT INTO u VALUES (3)", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    follower.sql("INSERT INTO t VALUES (2)")
    if not away:
        follower.until_equal("t")
    del follower.config["table.include.list"]
    follower.restart()
    follower.until_equal("t")
    follower.until_equal("u")
    follower.until(lambda: follower.task.running.progress.own.ended)

    execute(source, f"XA COMMIT '{name}'")

    follower.until_equal("u")
    assert [record["after"]["id"] for table, record in follower.values if table == "u" and record is not None].count(3) == 1


def test_rows_prepared_while_their_table_was_left_out_are_an_error_where_nothing_is_dumped(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    follower.config["table.exclude.list"] = rf"{follower.database}\.u"
    follower.restart()
    name = unique()
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "INSERT INTO u VALUES (1)", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    follower.sql("INSERT INTO t VALUES (1)")
    follower.until_equal("t")
    del follower.config["table.exclude.list"]
    follower.restart()

    execute(follower.source, f"XA COMMIT '{name}'")

    with pytest.raises(DefiniteError, match=rf"rows of {follower.database}\.u .*snapshot.mode=no_data"):
        follower.until(lambda: False)
