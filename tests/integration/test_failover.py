"""A connector goes on at a replica whose log files have other names, by its GTIDs; what the replica has purged is named. # I3"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pymysql
import pytest
from dblog.dialects.mysql.session import PositionLostError
from stack import MariaDb, MySql
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database, started

REPLICA = {"server_id": 2, "log_bin": "other-name"}


def follow_primary(replica: Database, primary: Database) -> None:
    """By GTIDs, from the beginning."""
    login = f"HOST='{primary.host}', {{}}PORT={primary.port}, {{}}USER='{primary.user}', {{}}PASSWORD='{primary.password}'"
    if primary.flavor == "mysql":
        options = login.replace("HOST", "SOURCE_HOST").format(*["SOURCE_"] * 3)
        statements = (f"CHANGE REPLICATION SOURCE TO {options}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", "START REPLICA")
    else:
        options = login.replace("HOST", "MASTER_HOST").format(*["MASTER_"] * 3)
        statements = (f"CHANGE MASTER TO {options}, MASTER_USE_GTID=slave_pos", "START SLAVE")
    execute(replica, *statements)


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
            wait_for = follower._selected("t")
            follower.source = replica
            follower.until(lambda: same_rows(follower, wait_for))
            follower.config |= {
                "database.hostname": replica.host,
                "database.port": str(replica.port),
                "database.password": replica.password,
            }
            sent = len(follower.values)

            follower.task = follower._new_task()
            follower.task.start(follower.offset)
            follower.until_equal("t")

            assert len(follower.values) == sent + 3, "an insert, a delete, its tombstone"
            sources = [record["source"] for _, record in follower.values if record is not None]
            assert sources[-1]["file"].startswith("other-name.")
            assert high(sources[-1]) > high(sources[-3]), "the epoch has risen"
            follower.task.stop()

            execute(primary, "INSERT INTO t VALUES (5, 5)", database=database)
            follower.until(lambda: len(follower._selected("t")) == 4)
            execute(replica, "FLUSH BINARY LOGS")
            newest = execute(replica, "SHOW BINARY LOGS")[-1][0]
            follower.until(lambda: purged(replica, newest))
            follower.task = follower._new_task()
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

            follower.task = follower._new_task()
            with pytest.raises(PositionLostError, match="has purged transactions that were not read yet"):
                follower.task.start(follower.offset)
            follower.config["gtid.source.excludes"] = other
            follower.restart()
            follower.sql("INSERT INTO t VALUES (2)")
            follower.until(lambda: len(follower.values) == 2)
            assert other.split("-", maxsplit=1)[0] in follower.offset["gtids"], "they count as read"
        finally:
            follower.task.stop()


def purged(server: Database, newest: str) -> bool:
    """A file that a reader still has open is not purged, and the server notices a closed connection late."""
    for (process,) in execute(server, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
        with contextlib.suppress(pymysql.err.OperationalError):
            execute(server, f"KILL {process}")
    execute(server, f"PURGE BINARY LOGS TO '{newest}'")
    return bool(execute(server, "SHOW BINARY LOGS")[0][0] == newest)


def same_rows(follower: Follower, wanted: list[dict[str, object]]) -> bool:
    try:
        return follower._selected("t") == wanted
    except Exception:  # noqa: BLE001 - the table has not come yet
        return False


def high(source: dict[str, str]) -> int:
    return int(source["sequence"].split('"')[1])
