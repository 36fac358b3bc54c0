"""What many dumps that were asked for cost: whatever has not moved is not gone through again."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
from dblog.core import dumprequests, requested
from dblog.core.dumprequests import DumpRequest, Wanted, parse_request, with_wanted
from dblog.core.dumps import Dump, dump_of
from dblog.core.requested import NoRoomError, Requests
from dblog.model import TableId
from dblog.readers.dump.order import Step
from dblog.readers.extent import Extent
from dblog.readers.run import offset
from dblog.readers.run.offset import SourceOffset
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower

TABLES = [TableId("shop", name) for name in "abc"]


def asked(number: int, **body: Any) -> DumpRequest:
    return parse_request({"tables": ["shop.*"], **body}, id=f"{number:012x}", connector="c", created_ms=number, requested_by="rest")


def begun(dump: Dump) -> Dump:
    return dump.started(TABLES[0], key=("id",), upto=(9,))


def test_an_offset_makes_the_text_of_those_dumps_alone_that_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[str] = Counter()

    def counted(dump: Dump) -> str:
        made[dump.id] += 1
        return dump_to_text(dump)

    dump_to_text = requested.dump_to_text
    for module in (requested, offset):
        monkeypatch.setattr(module, "dump_to_text", counted)
    requests = Requests().added(asked(1), TABLES).added(asked(2, wanted="PAUSED"), TABLES)
    progress: Any = Mock(to_map=dict)
    fold = SourceOffset(progress, dump=dump_of("own", TABLES), requests=requests)
    first = fold.offset()

    moved = requests.changed(asked(1).id, begun)
    fold.advance(Step(log_offsets=(), requests=moved))
    second = fold.offset()
    assert made == {"own": 1, asked(1).id: 2, asked(2).id: 1}
    assert first["dblog_dump"] == second["dblog_dump"]
    assert first["dblog_dumps"] != second["dblog_dumps"] == requested.requests_to_text(moved)

    fold.advance(Step(log_offsets=(), dump=begun(dump_of("own", TABLES))))
    assert fold.offset()["dblog_dump"] != first["dblog_dump"]
    assert made == {"own": 2, asked(1).id: 2, asked(2).id: 1}


def test_the_patterns_of_predicates_are_compiled_once_however_many_chunks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked(1, predicate={"shop.a": "v = 1", "shop.[ab]": "v = 2"})
    compiled = Mock(side_effect=dumprequests.Pattern)
    monkeypatch.setattr(dumprequests, "Pattern", compiled)
    requests = Requests().added(request, TABLES)

    for _ in range(3):
        requests = requests.changed(request.id, begun)
        (one,) = requests
        assert [Extent.of(one, table).where for table in TABLES] == ["v = 1", "v = 2", None]
    assert compiled.call_count == 2


def test_the_task_refuses_a_request_whose_progress_would_have_no_room_beside_those_that_have_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = FakeDatabase()
    for name in "ab":
        database.execute(f"CREATE TABLE {name} (id int, PRIMARY KEY (id))")
    follower = FakeFollower(database, **{"snapshot.mode": "no_data"}).start()
    try:
        paused = follower.ask(rf"{DATABASE}\..*", wanted="PAUSED")
        desk = follower.task.desk
        assert desk is not None
        other = parse_request({"tables": [rf"{DATABASE}\.a"]}, id="f" * 12, connector="c", created_ms=2, requested_by="rest")
        assert desk.check(other) == [TableId(DATABASE, "a")]

        monkeypatch.setattr(requested, "TEXT_CHARS_MAX", 300)
        with pytest.raises(NoRoomError, match="1 dumps of the connector have not ended, with 2 tables left"):
            desk.check(other)
        follower.tell(with_wanted(paused, Wanted.STOPPED))
        assert desk.check(other) == [TableId(DATABASE, "a")]
    finally:
        follower.task.stop()
