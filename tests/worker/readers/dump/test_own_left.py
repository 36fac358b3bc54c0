"""A requested dump's chunk markers tell whether the connector's own dump has the table still to read."""

from __future__ import annotations

import json

from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower


def test_a_dump_of_one_key_tells_that_the_first_dump_of_its_table_is_still_to_come_and_later_ones_that_it_is_not() -> None:
    told: dict[str, set[bool | None]] = {}

    def marked(value: bytes) -> None:
        marker = json.loads(value)
        told.setdefault(marker["dump"], set()).add(marker["own_left"])

    database = FakeDatabase()
    for name, rows in (("read_first", 80), ("t", 40)):
        database.execute(f"CREATE TABLE {name} (id int, PRIMARY KEY (id))")
        database.insert(TableId(DATABASE, name), *((n,) for n in range(rows)))
    follower = FakeFollower(database, **{"dblog.chunk.rows": "1", "max.queue.size": "3", "max.batch.size": "2"})
    follower.marked = marked
    follower.start()
    try:
        early = follower.ask(r"d\.t", keys=[[39]])
        follower.until_state(early, "DONE")
        follower.until_dumped()
        late = follower.ask(r"d\.t", keys=[[39]])
        follower.until_state(late, "DONE")
    finally:
        follower.task.stop()

    assert told == {"initial": {None}, early.id: {True}, late.id: {False}}
