"""What is notified of a dump's steps, from two states of it."""

from __future__ import annotations

from dataclasses import replace

from dblog.core.dumprequests import DumpRequest, Mode, SignalOrigin, Wanted, with_table_wanted, with_wanted
from dblog.core.dumps import Dump, dump_of
from dblog.core.notices import TABLES_NAMED_MAX, Notice, of_own, of_request
from dblog.core.requested import End, RequestedDump, Requests
from dblog.model import TableId

A, B = TableId("shop", "a"), TableId("shop", "b")
REQUEST = DumpRequest(
    id="d", connector="c", created_ms=1, requested_by="signal", mode=Mode.ROWS, tables=(r"shop\..*",), signal=SignalOrigin("s")
)


def asked(request: DumpRequest = REQUEST, tables: tuple[TableId, ...] = (A, B)) -> RequestedDump:
    (one,) = Requests().added(request, tables)
    return one


def kinds(notices: list[Notice]) -> list[str]:
    return [f"{notice.type} {notice.data.get('status', '')}".strip() for notice in notices]


def chunk(dump: Dump, table: TableId, *, done: bool) -> Dump:
    return dump.started(table, key=("k", "id"), upto=(b"z", 9)).advanced(table, after=(b"m", 5), rows=3, done=done)


def test_a_chunk_and_the_end_of_a_table_and_of_the_dump_are_told_in_this_order() -> None:
    before = asked()
    one = before.with_dump(chunk(before.dump, A, done=True))
    last = one.with_dump(chunk(one.dump, B, done=True))

    assert kinds(of_request(before, one, A)) == ["IN_PROGRESS", "TABLE_SCAN_COMPLETED SUCCEEDED"]
    assert kinds(of_request(one, last)) == ["IN_PROGRESS", "TABLE_SCAN_COMPLETED SUCCEEDED", "COMPLETED"]
    (progress, _) = of_request(before, one, A)
    assert (progress.data["maximum_key"], progress.data["last_processed_key"]) == ("z,9", "m,5")
    assert progress.data["data_collections"] == "shop.a,shop.b"
    assert of_request(last, last) == of_request(one, one, A) == []


def test_a_table_that_fails_is_told_with_the_others_going_on_and_one_that_went_away_has_no_schema() -> None:
    before = asked()
    failed = before.with_dump(before.dump.given_up(A, "it cannot be read"))
    gone = failed.with_dump(failed.dump.dropped(B))

    assert kinds(of_request(before, failed)) == ["TABLE_SCAN_COMPLETED SQL_EXCEPTION"]
    assert kinds(of_request(failed, gone)) == ["TABLE_SCAN_COMPLETED UNKNOWN_SCHEMA", "COMPLETED"]


def test_pauses_and_stops_are_told_with_what_is_left() -> None:
    before = asked()
    paused = before.with_request(with_wanted(REQUEST, Wanted.PAUSED))
    resumed = paused.with_request(with_wanted(paused.request, Wanted.RUNNING))
    part = resumed.with_request(with_table_wanted(resumed.request, "shop.a", Wanted.STOPPED))
    stopped = part.with_request(with_wanted(part.request, Wanted.STOPPED))

    told = [notice for pair in ((before, paused), (paused, resumed), (resumed, part), (part, stopped)) for notice in of_request(*pair)]
    assert kinds(told) == ["PAUSED", "RESUMED", "ABORTED", "ABORTED"]
    assert [notice.data["data_collections"] for notice in told] == ["shop.a,shop.b", "shop.a,shop.b", "shop.a", "shop.b"]
    assert {notice.id for notice in told} == {"s"}


def test_the_stop_of_one_table_after_the_other_is_told_once_for_each() -> None:
    one = part = asked()
    told = []
    for name in ("shop.a", "shop.b"):
        before, part = part, part.with_request(with_table_wanted(part.request, name, Wanted.STOPPED))
        told += of_request(before, part)

    assert part.end is End.STOPPED
    assert [(notice.type, notice.data["data_collections"]) for notice in told] == [("ABORTED", "shop.a"), ("ABORTED", "shop.b")]
    assert kinds(of_request(None, part)) == ["STARTED", "ABORTED"]
    assert one.end is None


def test_a_request_that_means_no_table_starts_and_ends_and_a_verification_is_no_snapshot() -> None:
    assert kinds(of_request(None, asked(tables=()))) == ["STARTED", "TABLE_SCAN_COMPLETED UNKNOWN_SCHEMA", "COMPLETED"]
    assert of_request(None, asked(replace(REQUEST, mode=Mode.VERIFY))) == []
    (started,) = of_request(None, asked(replace(REQUEST, signal=None)))
    assert started.id == "d"


def test_many_tables_are_not_listed_in_the_notice_of_each() -> None:
    tables = tuple(TableId("shop", f"t{number}") for number in range(TABLES_NAMED_MAX + 1))

    (started,) = of_request(None, asked(tables=tables))

    assert started.data == {}


def test_the_connector_s_own_dump_begins_each_table_and_starts_again_when_tables_come_to_it() -> None:
    whole = dump_of("own", [A, B])
    read = chunk(whole, A, done=True)
    keyless = read.advanced(B, after=None, rows=2, done=True)

    assert kinds(of_own(None, whole)) == ["STARTED"]
    assert kinds(of_own(whole, read, A)) == ["IN_PROGRESS", "TABLE_SCAN_COMPLETED SUCCEEDED"]
    assert kinds(of_own(read, keyless, B)) == ["IN_PROGRESS", "TABLE_SCAN_COMPLETED SUCCEEDED", "COMPLETED"]
    assert kinds(of_own(keyless, keyless.with_tables([TableId("shop", "new")]))) == ["STARTED"]
    assert kinds(of_own(None, dump_of("own", []))) == ["STARTED", "COMPLETED"]
