"""Fifteen thousand tables with long names, in every state that an offset can have of them: it stays under what Kafka takes as one record. # I6"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any
from unittest.mock import Mock

import dblog.readers.run.offset
import pytest
from dblog.codecs.transactions import TransactionCounts
from dblog.core.dumprequests import DumpRequest, SignalOrigin, Wanted, parse_request, with_wanted
from dblog.core.dumps import Dump, dump_of, dump_to_text, stored_bytes
from dblog.core.requested import SIGNALS_BYTES_MAX, RequestedDump, Requests, requests_from_text, requests_to_text, resumed, signals_bytes
from dblog.core.signals import DATA_CHARS_MAX, Signal
from dblog.core.table_dump import KeyRange, TableDump, UnderWay
from dblog.dialects.mariadb.offset import MariaDbProgress
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.errors import DefiniteError
from dblog.model import OffsetMap, TableId
from dblog.readers.dump.order import Step
from dblog.readers.run.offset import SourceOffset
from dblog.readers.signals.signals import SignalDesk
from structlog.testing import capture_logs

RECORD_BYTES_MAX = 1_000_000 - 1000
"""librdkafka's limit, less the key and what Kafka adds."""
TABLES = 15_000
LETTERS = {"letters": "abcdefghijklmnopqrstuvwxyz", "wide": "".join(map(chr, range(0x4E00, 0x9000))), "awkward": "\"\\'\u0001é"}


def names(letters: str, count: int = TABLES, *, seed: int = 1) -> list[TableId]:
    """Tables whose names compress as little as names of these letters can."""
    chance = random.Random(seed)
    made = {TableId("d" * 60, "".join(chance.choices(letters, k=60))) for _ in range(count)}
    return sorted(made, key=str)


def counts(tables: list[TableId]) -> TransactionCounts:
    return TransactionCounts("id", {str(table): 1_000_000 for table in tables})


PROGRESS: dict[str, Callable[[TransactionCounts | None], Any]] = {
    "mysql": lambda counted: LogProgress(file="binlog.000001", pos=4, gtids=None, event=3, transaction=counted),
    "mariadb": lambda counted: MariaDbProgress(file="binlog.000001", pos=4, gtids="0-1-1", event=3, transaction=counted),
    "postgres": lambda counted: PostgresProgress(LogOffset(lsn=1, commit_lsn=2, event=3, transaction=counted), database="d"),
}


# ---- what the connector's own dump may look like


def begun(table: TableId, number: int) -> TableDump:
    """A table with several ranges, whose bounds are as large as a key can be."""
    bound = ("".join(random.Random(number).choices(LETTERS["wide"], k=1000)),)
    return TableDump(
        table=table, state=UnderWay(key=("k" * 60,), upto=bound, ranges=(KeyRange(None, bound), KeyRange(bound, bound))), rows=9
    )


def fresh(tables: list[TableId]) -> Dump:
    return dump_of("own", tables).with_list("list")


def under_way(tables: list[TableId]) -> Dump:
    return fresh(tables).with_progress([begun(table, n) for n, table in enumerate(tables[:32])])


def failed(tables: list[TableId]) -> Dump:
    return fresh(tables).all_given_up(tables, "the account may not read it: " + "x" * 500)


def every_second(tables: list[TableId]) -> Dump:
    return fresh(tables).all_given_up(tables[::2], "no")


def joined(tables: list[TableId]) -> Dump:
    """All have come since the start, and are in no list."""
    return dump_of("own", []).with_new(tables)


OWN: list[Callable[[list[TableId]], Dump | None]] = [lambda _: None, fresh, under_way, failed, every_second, joined]


# ---- what may be known of requests


def asked(number: int) -> DumpRequest:
    return parse_request({"tables": [".*"]}, id=f"{number:012x}", connector="c", created_ms=number, requested_by="rest")


def none(_: list[TableId]) -> Requests:
    return Requests()


def several(tables: list[TableId]) -> Requests:
    out = Requests()
    for number in range(3):
        out = out.added(asked(number), tables)
    for number in range(3, 50):
        out = out.added(asked(number), tables[:3]).changed(asked(number).id, lambda d: d.with_progress([begun(tables[0], 1)]))
    return out


def ended(tables: list[TableId]) -> Requests:
    out = Requests()
    for number in range(50):
        one = RequestedDump(request=asked(number), dump=dump_of(asked(number).id, tables[:20]))
        out = out.put(one.with_dump(one.dump.all_given_up(tables[:20], '"x"' * 500)))
    return out


class Desk:
    """The desk of signals over requests that live here."""

    def __init__(self, tables: list[TableId]) -> None:
        self.requests = Requests()
        self.refused: list[str] = []
        progress = Mock(change_requests=self._change)
        type(progress).requests = property(lambda _: self.requests)
        clock = Mock(now_us=itertools.count(1_000_000, 1000).__next__)
        self.desk = SignalDesk(
            connector="c",
            chunk_rows=None,
            progress=progress,
            checks=Mock(tables_of=lambda _: tables),
            dumping=Mock(),
            threads=Mock(),
            stopped=Mock(),
            log_progress=Mock(),
            clock=clock,
        )

    def _change(self, change: Callable[[Requests], Requests]) -> None:
        self.requests = change(self.requests)

    def signal(self, kind: str, *patterns: str, number: int = 0) -> None:
        self.desk.take(Signal(f"s{number}", kind, json.dumps({"data-collections": patterns}, ensure_ascii=False), f"at {number}"))


def long_patterns(letters: str, number: int) -> list[str]:
    """As many as one signal may have."""
    chance = random.Random(number)
    escaped = letters.replace("\\", "").replace("\u0001", "") + ".*"
    return ["".join(chance.choices(escaped, k=60)).replace("*", "x") + ".*" for _ in range(DATA_CHARS_MAX // 90)]


def signals(tables: list[TableId]) -> Requests:
    """As many as are taken, some tables of each stopped, and the older ones ended."""
    desk = Desk(tables[:1000])
    letters = "".join({letter for table in tables[:50] for letter in table.name})
    for number in range(60):
        desk.signal("execute-snapshot", *long_patterns(letters, number), "d+.*", number=number)
        if number % 20 == 5:
            desk.signal("stop-snapshot", *long_patterns(letters, number), r"d+\.a.*", number=1000 + number)
        if number == 30:
            desk.signal("stop-snapshot", number=2000)
    assert desk.desk.refused_total > 0, "more than there is room for was asked"
    return desk.requests


REQUESTS: list[Callable[[list[TableId]], Requests]] = [none, several, ended, signals]


def record_bytes(offset: OffsetMap) -> int:
    return len(json.dumps(dict(offset), ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "letters", [pytest.param(text, id=name, marks=[pytest.mark.long] * (name != "wide")) for name, text in LETTERS.items()]
)
def test_an_offset_stays_under_the_limit_of_a_record_in_every_state(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dblog.readers.run.offset, "dump_to_text", lru_cache(dump_to_text))
    monkeypatch.setattr(Dump, "__hash__", object.__hash__)
    monkeypatch.setattr(Dump, "__eq__", object.__eq__)
    tables = names(letters)
    begins, counted = fresh(tables), counts(tables)
    requests = [make(tables) for make in REQUESTS]
    for make in OWN:
        own = make(tables)
        for asked_for, (dialect, progress), transaction in itertools.product(requests, PROGRESS.items(), (None, counted)):
            if dialect != "mysql" and (asked_for.has_state or make is not fresh):
                continue  # the dialects differ in the fields of the log alone
            fold = SourceOffset(progress(None), dump=begins)
            assert record_bytes(fold.offset()) <= RECORD_BYTES_MAX
            fold._progress = progress(transaction)  # noqa: SLF001  as the log moves it
            fold.advance(Step(log_offsets=(), dump=own, requests=asked_for))

            offset = fold.offset()

            assert record_bytes(offset) <= RECORD_BYTES_MAX, (make.__name__, {name: len(str(value)) for name, value in offset.items()})
            if "dblog_dumps" in offset:
                requests_from_text(str(offset["dblog_dumps"]))


@pytest.mark.parametrize("dialect", PROGRESS)
def test_what_has_no_room_for_a_while_leaves_the_offset_where_it_was_and_is_logged_once(dialect: str) -> None:
    tables = names(LETTERS["letters"], 3000)
    fold = SourceOffset(PROGRESS[dialect](None), dump=None)
    before = fold.offset()

    with capture_logs() as lines:
        for count in (500, 2000, 3000, 3000):
            fold._progress = PROGRESS[dialect](counts(tables[:count]))  # noqa: SLF001
            offset = fold.offset()
            assert (offset == before) is (count > 500)
            before = offset
        fold._progress = PROGRESS[dialect](None)  # noqa: SLF001
        assert fold.offset() != before

    assert [line["event"] for line in lines] == ["the offset has no room; the last one stays until there is some"]


def test_signals_are_refused_with_the_reason_once_the_offset_has_no_room_and_a_whole_stop_is_not() -> None:
    desk = Desk(names(LETTERS["letters"], 100))
    for number in range(15):
        desk.signal("execute-snapshot", *long_patterns(LETTERS["wide"], number), "d+.*", number=number)

    taken = len(list(desk.requests))
    assert 1 < taken < 15
    assert signals_bytes(desk.requests) <= SIGNALS_BYTES_MAX
    with capture_logs() as lines:
        desk.signal("stop-snapshot", ".*", *long_patterns(LETTERS["wide"], 99), number=100)
        desk.signal("stop-snapshot", *long_patterns(LETTERS["wide"], 99)[:1], r"d+\.a.*", number=101)
        desk.signal("stop-snapshot", number=102)
    reasons = [line["reason"] for line in lines if line["event"] == "a signal is left out"]
    assert all("stop-snapshot without data-collections" in reason for reason in reasons)
    assert not desk.requests.of_signals(), "all are stopped"


def test_dumps_that_take_more_room_than_is_allowed_now_are_still_paused_resumed_and_stopped() -> None:
    tables = names(LETTERS["letters"], 3000)
    desk = Desk(tables)
    desk.signal("execute-snapshot", "d+.*", number=1)
    (one,) = desk.requests.of_signals()
    # An older version wrote the name of each table that was stopped.
    stopped = replace(one.request, tables_wanted={str(table): Wanted.STOPPED for table in tables[2:]}, revision=one.request.revision + 1)
    desk.requests = desk.requests.added(stopped, tables)
    assert signals_bytes(desk.requests) > SIGNALS_BYTES_MAX

    def wanted() -> Wanted:
        return desk.requests.of_signals()[0].request.wanted

    with capture_logs() as lines:
        desk.signal("pause-snapshot", number=2)
        assert wanted() is Wanted.PAUSED
        desk.signal("resume-snapshot", number=3)
        assert wanted() is Wanted.RUNNING
        desk.signal("stop-snapshot", "nothing.matches", number=4)
        assert not [line for line in lines if line["event"] == "a signal is left out"]
        desk.signal("stop-snapshot", str(tables[0]), number=5)
    assert [line["event"] for line in lines].count("a signal is left out") == 1, "this one takes more than before"
    desk.signal("stop-snapshot", number=6)
    assert not desk.requests.of_signals()


def test_a_stop_of_most_of_fifteen_thousand_tables_is_its_pattern_and_takes_linear_time() -> None:
    tables = names(LETTERS["letters"])
    desk = Desk(tables)
    desk.signal("execute-snapshot", "d+.*", number=1)

    began_s = time.process_time()
    desk.signal("stop-snapshot", r"d+\.[b-z].*", number=2)

    assert time.process_time() - began_s < 2.0
    (one,) = desk.requests
    left = [table for table in tables if table.name[0] == "a"]
    assert (list(one.dump.left), one.request.tables_stopped, dict(one.request.tables_wanted)) == (left, (r"d+\.[b-z].*",), {})
    assert stored_bytes(json.dumps(one.request.to_json())) < 1000
    assert one.request.wanted_of(str(tables[-1])) is Wanted.STOPPED


def test_what_was_stopped_by_a_pattern_stays_stopped_over_a_restart_a_rename_and_a_change_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b, c, d = (TableId("shop", name) for name in "abcd")
    desk = Desk([a, b, c])
    desk.signal("execute-snapshot", "shop.*", number=1)
    desk.signal("stop-snapshot", "shop.[BD]", number=2)
    (one,) = desk.requests
    assert list(one.dump.left) == [a, c]

    text = requests_to_text(desk.requests)
    _, again = resumed([], requests_from_text(text), tables=lambda _: [], captured=lambda _: True)
    (after,) = again
    assert (list(after.dump.left), after.request) == ([a, c], one.request)

    renamed = again.all_renamed([(c, d)], lambda _: True)
    assert [list(each.dump.left) for each in renamed] == [[a]]
    restarted = again.all_changed(lambda dump: dump.restarted(b))
    assert [list(each.dump.left) for each in restarted] == [[a, c]]

    looked = Mock(side_effect=lambda dump: dump)
    monkeypatch.setattr(RequestedDump, "_without_stopped", looked)
    again.changed(one.request.id, lambda dump: dump.started(a, key=("id",), upto=(9,)).advanced(a, after=(1,), rows=1, done=False))
    looked.assert_not_called()


def test_a_request_of_an_older_version_has_its_stopped_names_and_one_of_a_newer_its_patterns() -> None:
    request = replace(asked(1), tables_wanted={"shop.a": Wanted.STOPPED}, tables_stopped=("shop.b",), signal=SignalOrigin("s"))
    one = RequestedDump(request=request, dump=dump_of(request.id, [TableId("shop", name) for name in "abc"])).with_stops()

    assert list(one.dump.left) == [TableId("shop", "c")]
    kept = requests_from_text(requests_to_text(Requests().put(one))).dumps[request.id]
    assert kept.request == request
    with pytest.raises(DefiniteError, match="tables_stopped"):
        requests_from_text(requests_to_text(Requests().put(one)).replace('["shop.b"]', '["("]'))
    assert with_wanted(request, Wanted.STOPPED).tables_stopped == ("shop.b",)
