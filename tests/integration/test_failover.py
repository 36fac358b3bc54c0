"""A connector goes on at a replica whose log files have other names, by its GTIDs; what the replica has purged is named. # I3"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest
from dblog.errors import PositionLostError, TransientError
from stack import MariaDb, MySql
from stack.database import Database
from structlog.testing import capture_logs
from support.follower import Follower
from support.replicas import follow_primary, same_password
from support.servers import connected, execute, new_database, started

pytestmark = pytest.mark.either_server

REPLICA = {"server_id": 2, "log_bin": "other-name"}


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_a_connector_goes_on_at_a_replica_with_other_file_names(made: type[Database], own_folder: Path) -> None:
    primary = made(own_folder / "primary", durable=False)
    replica = made(own_folder / "replica", durable=False, options=REPLICA)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        database = new_database(primary, "failover")
        execute(primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)", database=database)
        follower = Follower(primary, database)
        try:
            follower.start()
            follower.until_dumped()
            follower.sql("UPDATE t SET v = 3 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
            follower.until_equal("t")
            follower.task.stop()
            follower.sql("INSERT INTO t VALUES (4, 4)", "DELETE FROM t WHERE id = 2")
            wait_for = follower.selected("t")
            follower.source = replica
            follower.until(lambda: same_rows(follower, wait_for))
            follower.config |= {
                "database.hostname": replica.host,
                "database.port": str(replica.port),
                "database.password": replica.password,
            }
            sent = len(follower.values)

            follower.task = follower.new_task()
            follower.task.start(follower.offset)
            follower.until_equal("t")

            assert len(follower.values) == sent + 3, "an insert, a delete, its tombstone"
            sources = [record["source"] for _, record in follower.values if record is not None]
            assert sources[-1]["file"].startswith("other-name.")
            assert high(sources[-1]) > high(sources[-3]), "the epoch has risen"
            follower.task.stop()

            execute(primary, "INSERT INTO t VALUES (5, 5)", database=database)
            follower.until(lambda: len(follower.selected("t")) == 4)
            execute(replica, "FLUSH BINARY LOGS")
            newest = execute(replica, "SHOW BINARY LOGS")[-1][0]
            follower.until(lambda: purged(replica, newest))
            follower.task = follower.new_task()
            with pytest.raises(PositionLostError, match="has purged transactions that were not read yet"):
                follower.task.start(follower.offset)
        finally:
            follower.task.stop()


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_purged_transactions_of_sources_that_are_not_wanted_do_not_stop_a_restart(made: type[Database], own_folder: Path) -> None:
    server = made(own_folder, durable=False)
    with started(server):
        database = new_database(server, "sources")
        execute(server, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        follower = Follower(server, database, **{"snapshot.mode": "no_data"}).start()
        try:
            follower.sql("INSERT INTO t VALUES (1)")
            follower.until_equal("t")
            follower.task.stop()
            other = "0000aaaa-bbbb-cccc-dddd-eeeeffff0000" if server.flavor == "mysql" else "7-1"
            foreign = f"gtid_next = '{other}:5'" if server.flavor == "mysql" else "gtid_domain_id = 7"
            execute(server, f"SET {foreign}", "INSERT INTO t VALUES (100)", database=database)
            execute(server, "FLUSH BINARY LOGS")
            newest = execute(server, "SHOW BINARY LOGS")[-1][0]
            follower.until(lambda: purged(server, newest))

            follower.task = follower.new_task()
            with pytest.raises(PositionLostError, match="has purged transactions that were not read yet"):
                follower.task.start(follower.offset)
            follower.config["gtid.source.excludes"] = other
            follower.restart()
            follower.sql("INSERT INTO t VALUES (2)")
            follower.until(lambda: len(follower.values) == 2)
            assert other.split("-", maxsplit=1)[0] in follower.offset["gtids"], "they count as read"
        finally:
            follower.task.stop()


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_another_server_behind_the_same_address_is_followed_while_the_task_runs(made: type[Database], own_folder: Path) -> None:
    """The replica has the same file names as the primary, lower file numbers, and a DDL that the connector has not committed an offset behind."""
    primary = made(own_folder / "primary", durable=False)
    replica = made(own_folder / "replica", durable=False, options={"server_id": 2})
    same_password(replica, primary)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        execute(primary, *["FLUSH BINARY LOGS"] * 5)
        database = new_database(primary, "failover")
        execute(
            primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)", database=database
        )
        follower = Follower(primary, database, **{"include.schema.changes": "true", "dblog.ddl.redump": "never"})
        try:
            follower.start()
            follower.until_dumped()
            follower.sql("UPDATE t SET v = 3 WHERE id = 1")
            follower.until_equal("t")
            before = dict(follower.offset or {})
            follower.sql(
                "INSERT INTO t VALUES (3, 3, 30)",  # in front of the DDL, and read again from the other server's log
                "ALTER TABLE t RENAME COLUMN v TO x, RENAME COLUMN w TO v",
                "INSERT INTO t VALUES (4, 4, 40)",
            )
            follower.until(lambda: "4" in str(list(follower.rows.get("t", {}))))
            wanted = follower.selected("t")
            source, follower.source = follower.source, replica
            follower.until(lambda: same_rows(follower, wanted))
            follower.source = source
            execute(replica, "STOP REPLICA" if replica.flavor == "mysql" else "STOP SLAVE")
            primary.kill()
            replica.stop()
            replica.port = primary.port
            replica.start()
            execute(replica, "INSERT INTO t VALUES (5, 5, 50)", database=database)
            execute(replica, "ALTER TABLE t ADD COLUMN y INT", database=database)
            execute(replica, "INSERT INTO t VALUES (6, 6, 60, 600)", database=database)
            follower.source = replica
            with pytest.raises(TransientError, match="another server answers"):
                follower.until(lambda: False)
            follower.offset = before  # the last rows were sent, and no offset was stored behind them
            sent, reported = len(follower.values), len(follower.reported)
            follower.restart()
            follower.until(lambda: len([r for _, r in follower.values[sent:] if r is not None]) >= 4)

            records = [record for _, record in follower.values[sent:] if record is not None]
            assert [record["after"] for record in records] == [
                {"id": 3, "v": 3, "w": 30},
                {"id": 4, "x": 4, "v": 40},
                {"id": 5, "x": 5, "v": 50},
                {"id": 6, "x": 6, "v": 60, "y": 600},
            ]
            sequences = [
                tuple(map(int, r["source"]["sequence"].strip("[]").replace('"', "").split(",")))
                for _, r in follower.values
                if r is not None
            ]
            assert sequences == sorted(sequences), "no step back although the file number has fallen"
            assert [c["ddl"].split()[0:4] for c in follower.reported[reported:] if "ddl" in c] == [
                ["ALTER", "TABLE", "t", "RENAME"],
                ["ALTER", "TABLE", "t", "ADD"],
            ]
            assert follower.offset is not None
            follower.restart()
            follower.sql("INSERT INTO t VALUES (7, 7, 70, 700)")
            follower.until(lambda: follower.values[-1][1] is not None and follower.values[-1][1]["after"]["id"] == 7)
            assert follower.values[-1][1] is not None
            assert follower.values[-1][1]["after"] == {"id": 7, "x": 7, "v": 70, "y": 700}
        finally:
            follower.task.stop()


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_an_independent_server_behind_the_same_address_is_never_read(made: type[Database], own_folder: Path) -> None:
    """Same file names, a longer log, and for MariaDB the same server_id: the file and position exist there, and mean something else."""
    options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"} if made is MySql else {}
    first = made(own_folder / "first", durable=False, options=options)
    other = made(own_folder / "other", durable=False, options=options)
    same_password(other, first)
    with started(first):
        database = new_database(first, "failover")
        execute(first, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
        follower = Follower(first, database).start()
        try:
            follower.until_dumped()
            follower.sql("INSERT INTO t VALUES (2)")
            follower.until_equal("t")
            sent = len(follower.values)
            first.kill()
            other.port = first.port
            with started(other):
                execute(other, f"CREATE DATABASE `{database}`")
                execute(
                    other,
                    "CREATE TABLE t (id INT PRIMARY KEY)",
                    *[f"INSERT INTO t VALUES ({n})" for n in range(100, 300)],
                    database=database,
                )
                execute(other, "FLUSH BINARY LOGS")
                with pytest.raises(TransientError, match="another server answers"):
                    follower.until(lambda: False)
                follower.task.stop()
                follower.task = follower.new_task()
                if made is MySql:
                    with pytest.raises(
                        PositionLostError, match="only GTIDs would show where to go on: the offset has no GTIDs; point the connector"
                    ):
                        follower.task.start(follower.offset)
                    assert len(follower.values) == sent, "nothing of a foreign log"
                    follower.task.stop()
                    follower.config["snapshot.mode"] = "when_needed"
                    follower.restart()
                    follower.source = other
                    follower.until(lambda: len(follower.values) >= sent + 200)
                    assert high(follower.values[-1][1]["source"]) > high(follower.values[0][1]["source"])  # type: ignore[index]
                else:
                    with contextlib.suppress(PositionLostError):
                        follower.task.start(follower.offset)
                    # by GTIDs the independent server counts as one of the domain: what matters is that file and position are not used
                    assert follower.task.fold.offset().get("pos") in (None, 4)
        finally:
            follower.task.stop()


def test_an_offset_of_another_writing_gets_an_epoch_behind_all_that_was_sent(source: Database) -> None:
    """An offset set with PATCH, in front of a DDL that was read before; then one as Debezium leaves it, behind a DDL that only Debezium has seen."""
    database = new_database(source, "patched")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1, 1, 10)", database=database)
    follower = Follower(source, database, **{"dblog.ddl.redump": "never"}).start()
    try:
        follower.until_dumped()
        assert follower.offset is not None
        patched = {name: follower.offset[name] for name in ("file", "pos")}
        follower.sql(
            "INSERT INTO t VALUES (2, 2, 20)", "ALTER TABLE t RENAME COLUMN v TO x, RENAME COLUMN w TO v", "INSERT INTO t VALUES (3, 3, 30)"
        )
        follower.until(lambda: len(afters(follower)) == 3)
        epoch = follower.offset["dblog_epoch"]
        follower.task.stop()

        follower.offset = patched
        follower.restart()
        follower.until(lambda: {"id": 3, "x": 3, "v": 30} in afters(follower)[3:])

        assert follower.offset["dblog_epoch"] > epoch  # type: ignore[operator]
        assert falls_never(follower)
        assert "r" not in follower.ops("t")[1:], "the log has the DDL: nothing is in doubt"
        follower.task.stop()
        follower.sql("ALTER TABLE t RENAME COLUMN x TO v, RENAME COLUMN v TO w")
        file, pos, *_ = execute(source, "SHOW MASTER STATUS" if source.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0]
        follower.offset = {"file": str(file), "pos": int(str(pos)), "ts_sec": 1}
        sent = len(afters(follower))
        follower.restart()
        follower.sql("INSERT INTO t VALUES (4, 4, 40)")
        follower.until(lambda: {"id": 4, "v": 4, "w": 40} in afters(follower)[sent:])
        assert not [row for row in afters(follower)[sent:] if "x" in row]
        assert falls_never(follower)
        follower.until_equal_by_name("t")
    finally:
        follower.task.stop()


def test_each_offset_set_in_front_of_a_ddl_has_the_ddl_read_again_and_nothing_dumped_and_an_epoch_of_its_own(source: Database) -> None:
    database = new_database(source, "patched")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1, 1, 10)", database=database)
    follower = Follower(source, database).start()
    try:
        follower.until_dumped()
        assert follower.offset is not None
        patched = {name: follower.offset[name] for name in ("file", "pos")}
        follower.sql("INSERT INTO t VALUES (2, 2, 20)", "ALTER TABLE t ADD COLUMN x INT", "INSERT INTO t VALUES (3, 3, 30, 300)")
        follower.until(lambda: len(afters(follower)) == 3)

        for times in (2, 3):
            follower.task.stop()
            follower.offset = patched
            follower.restart()
            follower.until(lambda times=times: len(afters(follower)) >= 1 + 2 * times)

        patched = {name: follower.offset[name] for name in ("file", "pos")}
        follower.sql("INSERT INTO t VALUES (4, 4, 40, 400)")
        for times in (1, 2, 3):  # nothing behind this offset shows an epoch but what was kept of it
            follower.until(lambda times=times: len(afters(follower)) >= 7 + times)
            follower.task.stop()
            follower.offset = patched
            follower.restart()
        follower.until_equal_by_name("t")
        follower.until(lambda: len(afters(follower)) == 11)
        assert follower.ops("t") == ["r", *["c"] * 10]
        highs = [high(record["source"]) >> 32 for _, record in follower.values if record is not None]
        assert len(set(highs)) == 6, "a row that is read again sorts behind what was sent, each time"
        assert falls_never(follower)
    finally:
        follower.task.stop()


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_a_table_that_a_replicas_log_makes_further_on_does_not_join_though_offsets_are_stored_in_front_of_it(
    made: type[Database], own_folder: Path
) -> None:
    """The primary's log had the table, and rows of it were sent; the offset is in front of it. What the replica deletes must be reported."""
    primary = made(own_folder / "primary", durable=False)
    replica = made(own_folder / "replica", durable=False, options=REPLICA)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        database = new_database(primary, "failover")
        execute(primary, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
        follower = Follower(primary, database).start()
        try:
            follower.until_dumped()
            follower.sql("INSERT INTO t VALUES (2)")
            follower.until_equal("t")
            before = dict(follower.offset or {})
            follower.sql("CREATE TABLE made (id INT PRIMARY KEY)", "INSERT INTO made VALUES (1), (2)")
            follower.until_equal("made")
            follower.task.stop()
            follower.sql("DELETE FROM made WHERE id = 2", "INSERT INTO t VALUES (3)")
            turned_to(replica, follower, [{"id": 1}, {"id": 2}, {"id": 3}])

            follower.offset = before
            for _ in range(3):  # runs that come no further than their start
                follower.task.stop()
                follower.task = follower.new_task()
                follower.start()
            follower.until_equal("t")

            follower.until_equal("made")
            assert "r" not in follower.ops("made")
        finally:
            follower.task.stop()


@pytest.mark.parametrize("runs", [0, 1, 3])
@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_rows_in_front_of_a_ddl_of_a_table_that_joined_behind_it_are_right_on_another_server(
    made: type[Database], runs: int, own_folder: Path
) -> None:
    """The include list was widened over a backlog that alters the table, and the server changes before an offset behind the backlog is stored."""
    primary = made(own_folder / "primary", durable=False)
    replica = made(own_folder / "replica", durable=False, options=REPLICA)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        database = new_database(primary, "widened")
        execute(primary, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
        execute(primary, "CREATE TABLE later (id INT PRIMARY KEY, a INT)", "INSERT INTO later VALUES (1, 1)", database=database)
        follower = Follower(primary, database, **{"table.include.list": rf"{database}\.t"}).start()
        try:
            follower.until_dumped()
            follower.sql("INSERT INTO t VALUES (2)")
            follower.until_equal("t")
            follower.task.stop()
            before = dict(follower.offset or {})
            follower.sql(
                "INSERT INTO later VALUES (2, 2)",
                "ALTER TABLE later DROP COLUMN a, ADD COLUMN b INT DEFAULT 9",
                "INSERT INTO later VALUES (3, 3)",
            )
            follower.sql("UPDATE later SET b = 4 WHERE id = 1", "INSERT INTO t VALUES (3)")
            follower.config["table.include.list"] = rf"{database}\.(t|later)"
            for _ in range(runs):  # runs on the first server that come no further than their start
                follower.task = follower.new_task()
                follower.offset = dict(before)
                follower.start()
                follower.task.stop()
                follower.offset = dict(before)
            turned_to(replica, follower, [{"id": 1}, {"id": 2}, {"id": 3}])

            follower.task = follower.new_task()
            follower.start()
            follower.until_equal("t")
            follower.until_equal("later")
            follower.until_dumped()
            assert {"id": 2, "b": 2} not in afters(follower)
            follower.sql("INSERT INTO t VALUES (4)")
            follower.until_equal("t")
            follower.until_equal("later")
        finally:
            follower.task.stop()


def afters(follower: Follower) -> list[dict[str, object]]:
    return [record["after"] for _, record in follower.values if record is not None]


def falls_never(follower: Follower) -> bool:
    highs = [high(record["source"]) for _, record in follower.values if record is not None]
    return highs == sorted(highs)


def turned_to(replica: Database, follower: Follower, wanted: list[dict[str, object]]) -> None:
    """The connector's configuration names the replica, which has the wanted rows by then."""
    follower.source = replica
    follower.until(lambda: same_rows(follower, wanted))
    follower.config |= {"database.hostname": replica.host, "database.port": str(replica.port), "database.password": replica.password}


def purged(server: Database, newest: str) -> bool:
    """A file that a reader still has open is not purged, and the server notices a closed connection late."""
    for (process,) in execute(server, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
        with contextlib.suppress(pymysql.err.OperationalError):
            execute(server, f"KILL {process}")
    execute(server, f"PURGE BINARY LOGS TO '{newest}'")
    return bool(execute(server, "SHOW BINARY LOGS")[0][0] == newest)


def same_rows(follower: Follower, wanted: list[dict[str, object]]) -> bool:
    try:
        return follower.selected("t") == wanted
    except Exception:  # noqa: BLE001 - the table has not come yet
        return False


def high(source: dict[str, str]) -> int:
    return int(source["sequence"].split('"')[1])


def test_a_start_that_is_killed_while_it_saves_takes_no_new_epoch_for_that_of_an_offset_without_one(
    source: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        source, f"SET GLOBAL binlog_row_metadata = '{'NO_LOG' if source.flavor == 'mariadb' else 'MINIMAL'}'"
    )  # the log does not show that columns are others
    try:
        check_epoch_behind_a_killed_start(source, monkeypatch)
    finally:
        execute(source, "SET GLOBAL binlog_row_metadata = 'FULL'")


def check_epoch_behind_a_killed_start(source: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(source, new_database(source, "failover"))
    follower.sql(
        "CREATE TABLE z (id INT PRIMARY KEY, v INT, c INT)", "CREATE TABLE m (id INT PRIMARY KEY)", "INSERT INTO z VALUES (1, 1, 1)"
    )
    follower.start().until_dumped()
    offset = dict(follower.offset or {})
    with monkeypatch.context() as patch:
        patch.setattr(follower.task, "commit", lambda _: None)
        follower.sql("INSERT INTO z VALUES (2, 20, 200)", "ALTER TABLE z MODIFY c INT AFTER id", "INSERT INTO m VALUES (1)")
        follower.until(lambda: follower.keys("m"))
        follower.task.stop()
    del offset["dblog_epoch"]  # as where Debezium ran in between
    follower.offset = offset
    follower.values.clear()
    follower.rows.clear()
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    write = follower.history.write

    def one_alone(records: Sequence[Any]) -> None:
        write(records[:1])
        message = "killed"
        raise TransientError(message)

    with monkeypatch.context() as patch:
        patch.setattr(follower.history, "write", one_alone)
        follower.task = follower.new_task()
        with pytest.raises(TransientError, match="killed"):
            follower.start()

    follower.restart()
    try:
        follower.until(lambda: follower.keys("m"))
        created = [row["after"] for table, row in follower.values if table == "z" and row and row["op"] == "c"]
        assert created == [{"id": 2, "v": 20, "c": 200}]
    finally:
        follower.task.stop()


@pytest.mark.parametrize("made", [MySql, MariaDb])
def test_a_prepared_transaction_that_another_server_rolls_back_is_repaired(made: type[Database], own_folder: Path) -> None:
    """The log that its rows were read from is the other server's, and names of files mean nothing there."""
    primary = made(own_folder / "primary", durable=False)
    replica = made(own_folder / "replica", durable=False, options={"server_id": 2})
    same_password(replica, primary)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        database = new_database(primary, "failover")
        execute(primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)", database=database)
        follower = Follower(primary, database)
        try:
            follower.start()
            follower.until_equal("t")
            changes = ["UPDATE t SET v = 5", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 3)"]
            with connected(primary, database=database) as connection, connection.cursor() as cursor:
                for statement in ("XA START 'a'", *changes, "XA END 'a'", "XA PREPARE 'a'"):
                    cursor.execute(statement)
            follower.sql("CREATE TABLE u (id INT PRIMARY KEY)")
            follower.until(lambda: len(follower.rows["t"]) == 2 and "dblog_xa" in (follower.offset or {}))
            follower.task.stop()
            follower.until(lambda: bool(execute(replica, f"SHOW TABLES IN {database} LIKE 'u'")))
            execute(replica, "STOP REPLICA" if replica.flavor == "mysql" else "STOP SLAVE")
            execute(replica, "XA ROLLBACK 'a'")
            follower.source = replica
            follower.config["database.port"] = str(replica.port)
            markers: list[Any] = []
            follower.marked = lambda value: markers.append(json.loads(value))

            with capture_logs() as lines:
                follower.restart()
                follower.until(lambda: any(marker["final"] and marker["table"] == f"{database}.t" for marker in markers))

            assert {marker["mode"] for marker in markers if marker["table"] == f"{database}.t"} == {"repair"}
            assert [row for row in follower.rows["t"].values() if row["id"] < 3] == follower.selected("t")
            assert any("another server" in str(line) and "XA ROLLBACK" in str(line) for line in lines)
            follower.until(lambda: not any("XA ROLLBACK" in text for text in follower.warnings.texts()))
        finally:
            follower.task.stop()
