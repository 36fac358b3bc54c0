"""Which table of a dump a name means, asked of the task."""

from __future__ import annotations

from dblog.core.dumprequests import Wanted, with_table_wanted, with_wanted
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower


def test_a_name_is_found_in_any_case_also_of_a_table_that_an_earlier_run_has_done() -> None:
    database = FakeDatabase()
    for name in ("a", "B", "other"):
        database.execute(f"CREATE TABLE {name} (id int, PRIMARY KEY (id))")
        database.insert(TableId(DATABASE, name), (1,))
    follower = FakeFollower(database)
    follower.start()
    try:
        follower.until_dumped()
        request = follower.ask(r"d\.[ab]", wanted="PAUSED")
        request = follower.tell(with_table_wanted(request, "d.B", Wanted.PAUSED))
        request = follower.tell(with_wanted(request, Wanted.RUNNING))
        for run in ("first", "second"):
            follower.until(lambda: (follower.status(request.id) or {})["tables_done"] == 1)
            desk = follower.task.desk
            assert desk is not None
            found = {name: [str(table) for table in desk.named(request, name)] for name in ("D.A", "d.b", "d.other", "d.nothing", "a")}
            assert found == {"D.A": ["d.a"], "d.b": ["d.B"], "d.other": [], "d.nothing": [], "a": []}, run
            follower.restart()
    finally:
        follower.task.stop()
