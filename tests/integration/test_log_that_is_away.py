"""A server that cannot read its log for a moment has not lost it: the connector waits, and reads on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dblog.errors import PositionLostError
from stack import MariaDb, MySql
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database, started

pytestmark = pytest.mark.either_server


@pytest.mark.parametrize(
    ("made", "options"),
    [(MySql, {}), (MySql, {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}), (MariaDb, {})],
    ids=["mysql", "mysql without gtids", "mariadb"],
)
def test_a_log_that_the_server_cannot_open_for_a_moment_is_read_on(made: type[Database], options: dict[str, str], own_folder: Path) -> None:
    """A mount or a backup has its file away while the connection is made anew. Whatever the server calls that, a start finds the position there."""
    with started(made(own_folder / "server", options=options)) as server:
        database = new_database(server, "away")
        execute(server, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", database=database)
        follower = Follower(server, database, **{"snapshot.mode": "when_needed"}).start()
        try:
            follower.until_dumped()
            follower.until_equal("t")
            path = Path(execute(server, "SELECT @@log_bin_basename")[0][0]).parent / execute(server, "SHOW BINARY LOGS")[-1][0]
            away = path.with_name("away")
            lost = False
            path.rename(away)
            try:
                for (thread,) in execute(server, "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"):
                    execute(server, f"KILL {thread}")
                follower.until(lambda: re.search(r"cannot read its log|\(error 29\)", follower.task.waits_for() or "") is not None)
            except PositionLostError:
                lost = True  # "purged"
            finally:
                away.rename(path)
            if lost:
                follower.restart()
            follower.sql("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3)")
            follower.until_equal("t")
            assert follower.ops("t").count("r") == 2, "nothing is dumped again"
        finally:
            follower.task.stop()
