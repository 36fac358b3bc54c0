"""What the log has of dumps that end: each its own numbers, once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from dblog.core.dumprequests import INITIAL
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower


@pytest.fixture
def follower() -> Iterator[FakeFollower]:
    """Of two tables, 30 and 70 rows, that nothing has dumped."""
    database = FakeDatabase()
    for name, rows in (("t", 30), ("other", 70)):
        database.execute(f"CREATE TABLE {name} (id int, name text, PRIMARY KEY (id))")
        database.insert(TableId(DATABASE, name), *((n, f"row {n}") for n in range(rows)))
    follower = FakeFollower(database, **{"dblog.chunk.rows": "10"})
    yield follower
    follower.task.stop()


def lines(text: str, event: str) -> list[dict[str, str]]:
    """The values of the lines that begin so."""
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines() if re.search(rf"\] {event}\s", line)]


def test_the_end_of_a_requested_dump_has_its_own_numbers_and_the_first_dump_ends_once(
    follower: FakeFollower, capfd: pytest.CaptureFixture[str]
) -> None:
    follower.start()
    follower.until_dumped()
    request = follower.ask(r"d\.t")
    follower.until_state(request, "DONE")
    follower.restart()
    again = follower.ask(r"d\.(t|other)")
    follower.until_state(again, "DONE")
    follower.task.stop()

    out = capfd.readouterr().out

    assert [(line["rows"], line["tables"]) for line in lines(out, "dump done")] == [("100", "2")]
    assert [
        (line["dump"], line["state"], line["rows"], line["tables_total"], line["failed"]) for line in lines(out, "requested dump ended")
    ] == [
        (request.id, "DONE", "30", "1", "0"),
        (again.id, "DONE", "100", "2", "0"),
    ]
    tables = [(line["dump"], line["table"], line["rows"]) for line in lines(out, "table dumped")]
    assert sorted(tables) == sorted(
        (dump, table, rows)
        for dump in (INITIAL, request.id, again.id)
        for table, rows in (("d.t", "30"), ("d.other", "70"))
        if (dump, table) != (request.id, "d.other")
    )
    assert next((line["tables_done"], line["tables_total"]) for line in lines(out, "table dumped") if line["dump"] == request.id) == (
        "1",
        "1",
    )
