"""After a lost position: which tables are dumped, which of them whole, which as a repair, and what the status names. # I3 I5"""

from __future__ import annotations

import json
from pathlib import Path

from stack import MySql
from support.follower import Follower
from support.servers import execute, new_database, purge_log, started


def test_after_a_lost_position_a_dump_repairs_what_it_may_and_the_status_names_the_rest(own_folder: Path) -> None:
    with started(MySql(own_folder / "server")) as server:
        database = new_database(server, "lost")
        for table in ("t", "u", "emptied", "chosen"):
            rows = "(1, 1), (2, 2), (5, 5)"
            execute(server, f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES {rows}", database=database)
        config = {
            "snapshot.mode": "when_needed",
            "snapshot.include.collection.list": ",".join(f"{database}.{table}" for table in ("t", "emptied", "chosen")),
            "snapshot.select.statement.overrides": f"{database}.chosen",
            f"snapshot.select.statement.overrides.{database}.chosen": f"SELECT * FROM {database}.chosen WHERE id < 5",
        }
        follower, markers = Follower(server, database, **config), []
        follower.marked = lambda value: markers.append(json.loads(value))

        def modes() -> dict[str, set[tuple[str, str]]]:
            found: dict[str, set[tuple[str, str]]] = {}
            for marker in markers:
                found.setdefault(marker["table"].rpartition(".")[2], set()).add((marker["mode"], marker["scope"]))
            return found

        def names(table: str, said: str) -> bool:
            return any(f"{database}.{table}" in text and said in text for text in follower.warnings.texts())

        follower.start()
        try:
            follower.until_dumped()
            follower.until(lambda: len(modes()) == 3)
            assert modes()["chosen"] == {("rows", "predicate")}
            follower.sql("TRUNCATE emptied", "INSERT INTO u VALUES (9, 9)")
            follower.until(lambda: names("emptied", "rows that statements removed"))
            follower.until(lambda: "u" in follower.rows)
            follower.task.stop()
            follower.sql("DELETE FROM u", "DELETE FROM t WHERE id = 1", "UPDATE chosen SET v = 6 WHERE id = 5")
            purge_log(server)

            markers.clear()
            follower.restart()
            follower.until_dumped()
            follower.until(lambda: sum(marker["final"] for marker in markers) == 3)
            assert modes() == {
                "t": {("repair", "table")},
                "chosen": {("repair", "table")},
                "emptied": {("rows", "table")},
            }
            assert [row["v"] for row in follower.rows["chosen"].values() if row["id"] == 5] == [6], "the log has lost this change"
            assert names("u", "is lost: snapshot.include.collection.list leaves")
            assert not names("t", "is lost: snapshot.include.collection.list leaves")
            assert names("emptied", "stay in the lake"), "a repair would take the rows of before the TRUNCATE with the deletes"
            assert names("emptied", "rows that statements removed")
            assert not any("all tables" in text for text in follower.warnings.texts())

            asked = follower.ask(rf"{database}\.(u|emptied)", mode="repair")
            follower.until_state(asked, "DONE")
            assert not any(names(table, "") for table in ("u", "emptied"))

            markers.clear()
            follower.config["snapshot.mode"] = "always"
            follower.restart()
            follower.until_dumped()
            follower.until(lambda: sum(marker["final"] for marker in markers) == 3)
            assert modes() == {"t": {("rows", "table")}, "emptied": {("rows", "table")}, "chosen": {("rows", "predicate")}}, "no gap"
        finally:
            follower.task.stop()
