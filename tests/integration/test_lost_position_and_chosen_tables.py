"""After a lost position a dump brings the tables of snapshot.include.collection.list; those that it leaves out are named. # I5"""

from __future__ import annotations

from pathlib import Path

from stack import MySql
from support.follower import Follower
from support.servers import execute, new_database, purge_log, started


def test_tables_that_no_dump_brings_after_a_lost_position_are_named(own_folder: Path) -> None:
    with started(MySql(own_folder / "server")) as server:
        database = new_database(server, "lost")
        execute(server, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", database=database)
        execute(server, "INSERT INTO t VALUES (1)", database=database)
        chosen = {"snapshot.mode": "when_needed", "snapshot.include.collection.list": f"{database}.t"}
        follower = Follower(server, database, **chosen).start()
        try:
            follower.until_dumped()
            follower.sql("INSERT INTO u VALUES (1)")
            follower.until_equal("u")
            assert not any(f"{database}.u" in text for text in follower.warnings.texts())
            follower.task.stop()
            follower.sql("DELETE FROM u", "INSERT INTO t VALUES (2)")
            purge_log(server)

            follower.restart()
            follower.until_dumped()
            follower.until_equal("t")
            (named,) = [text for text in follower.warnings.texts() if f"{database}.u" in text]
            assert f"{database}.t" not in named
            assert "is lost: snapshot.include.collection.list leaves" in named
            assert "mode=repair" in named
            assert not any("all tables" in text for text in follower.warnings.texts())
        finally:
            follower.task.stop()
