"""The dumps that were asked for: which table is read next, what has become of each, and their text in the offset."""

from __future__ import annotations

from typing import Any

import pytest
from dblog.core.dumprequests import INITIAL, DumpRequest, Wanted, changed, parse_request, with_table_wanted, with_wanted
from dblog.core.dumps import Dump, dump_of, stored_bytes
from dblog.core.requested import (
    End,
    NoRoomError,
    Requests,
    next_table,
    readers_wanted,
    requests_from_text,
    requests_to_text,
    require_room,
    resumed,
    tables_of,
)
from dblog.errors import DefiniteError
from dblog.model import TableId

A, B, C = (TableId("shop", name) for name in "abc")
ALL = [A, B, C]


def asked(number: int = 1, **body: Any) -> DumpRequest:
    return parse_request({"tables": ["shop.*"], **body}, id=f"{number:012x}", connector="c", created_ms=number, requested_by="test")


def with_requests(*requests: DumpRequest, tables: list[TableId] = ALL) -> Requests:
    out = Requests()
    for request in requests:
        out = out.added(request, tables)
    return out


def read(requests: Requests, identity: str, table: TableId) -> Requests:
    """The table is read to its end."""
    return requests.changed(identity, lambda d: d.started(table, key=("id",), upto=(9,)).advanced(table, after=(9,), rows=9, done=True))


def order(own: Dump | None, requests: Requests, *, readers: int = 1) -> list[tuple[str, str]]:
    """In which order one reader, or several of which none is ready, take the tables."""
    taken: dict[TableId, str] = {}
    out = []
    while (found := next_table(own, requests, taken=taken, held=lambda _: False, own_readers_max=readers)) is not None:
        identity, table = found
        out.append((identity, table.name))
        if readers == 1:
            if identity == INITIAL:
                assert own is not None
                own = own.dropped(table)
            else:
                requests = read(requests, identity, table)
        else:
            taken[table] = identity
    return out


def test_a_higher_priority_goes_first_then_the_connector_s_own_dump_then_the_older_request() -> None:
    first, second, urgent, idle = asked(1), asked(2), asked(3, priority=1), asked(4, priority=-1)
    requests = with_requests(idle, second, first, urgent, tables=[A])

    assert order(dump_of("own", [A]), requests) == [(urgent.id, "a"), (INITIAL, "a"), (first.id, "a"), (second.id, "a"), (idle.id, "a")]


def test_a_table_is_read_for_one_dump_at_a_time_and_a_dump_has_as_many_readers_as_it_asks_for() -> None:
    one, two = asked(1, parallelism=2), asked(2, parallelism=1)
    requests = with_requests(one, two)

    assert order(None, requests, readers=4) == [(one.id, "a"), (one.id, "b"), (two.id, "c")]
    assert readers_wanted(dump_of("own", [A]), requests, own_readers_max=4) == 1 + 2 + 1


def test_a_part_of_a_table_is_read_where_no_table_waits_and_the_dump_may_have_one_reader_more() -> None:
    one, two = asked(1, parallelism=3), asked(2, parallelism=1)
    requests = with_requests(one, two, tables=[A, B])
    taken, readers = {A: one.id}, {A: 1}

    def following(**taken_now: Any) -> tuple[str, TableId] | None:
        return next_table(None, requests, held=lambda _: False, own_readers_max=1, has_part=lambda t: t == A, **taken_now)

    assert following(taken=taken, sharing=readers) == (one.id, B)
    assert following(taken={**taken, B: one.id}, sharing={A: 1, B: 1}) == (one.id, A)
    assert following(taken={**taken, B: one.id}, sharing={A: 2, B: 1}) is None
    assert following(taken={**taken, B: two.id}, sharing={A: 2, B: 1}) == (one.id, A), "and never for another dump"
    assert readers_wanted(None, requests, own_readers_max=1, parts={one.id: 5}) == 3 + 1


def test_a_table_that_is_held_or_rests_is_passed_over_and_a_dump_that_rests_has_no_reader() -> None:
    request = with_table_wanted(asked(), "shop.b", Wanted.PAUSED)
    requests = with_requests(request)

    assert next_table(None, requests, taken={}, held=lambda t: t == A, own_readers_max=1) == (request.id, C)
    rests = requests.added(with_wanted(request, Wanted.PAUSED), [])
    assert next_table(None, rests, taken={}, held=lambda _: False, own_readers_max=1) is None
    assert readers_wanted(None, rests, own_readers_max=1) == 0


def test_the_last_table_ends_a_dump_and_one_that_failed_makes_it_a_failure_with_its_reason() -> None:
    requests = with_requests(asked())
    for table in (A, B):
        requests = read(requests, asked().id, table)
    done, failed = read(requests, asked().id, C), requests.changed(asked().id, lambda d: d.given_up(C, "shop.c cannot be read"))

    (one,), (other,) = done, failed
    assert (one.end, one.reason) == (End.DONE, None)
    assert (other.end, other.reason) == (End.FAILED, "1 of 3 tables could not be dumped: shop.c cannot be read")


def test_a_stop_ends_a_dump_and_a_stopped_table_ends_alone() -> None:
    request = asked()
    requests = with_requests(request)
    (stopped,) = requests.added(with_wanted(request, Wanted.STOPPED), [])
    assert stopped.end is End.STOPPED

    requests = requests.added(with_table_wanted(request, "shop.b", Wanted.STOPPED), [])
    assert order(None, requests) == [(request.id, "a"), (request.id, "c")]
    for table in (A, C):
        requests = read(requests, request.id, table)
    (one,) = requests
    assert (one.end, one.tables_failed) == (End.DONE, 1)


def test_a_dump_whose_tables_are_all_stopped_by_their_names_is_stopped_unless_one_was_read() -> None:
    request = asked()
    requests, some = with_requests(request), read(with_requests(request), request.id, A)
    for name in ("shop.a", "shop.b", "shop.c"):
        assert [one.end for one in requests] == [None]
        request = with_table_wanted(request, name, Wanted.STOPPED)
        requests, some = requests.added(request, []), some.added(request, [])

    assert [(one.end, one.reason, one.tables_failed) for one in requests] == [(End.STOPPED, "stopped by request", 3)]
    assert [(one.end, one.reason, one.tables_failed) for one in some] == [(End.DONE, None, 2)]


def test_a_table_that_was_renamed_away_and_then_stopped_was_not_read() -> None:
    request = asked(1)
    requests = Requests().added(request, [A]).all_renamed(((A, B),), lambda _: True)
    (one,) = requests.added(with_table_wanted(request, str(B), Wanted.STOPPED), [])

    assert (one.end, one.tables_failed) == (End.STOPPED, 1)


def test_a_table_that_takes_the_name_of_a_stopped_one_keeps_its_dump_from_no_end() -> None:
    request = asked()
    requests = with_requests(request).added(with_table_wanted(request, str(A), Wanted.STOPPED), [])

    requests = requests.all_changed(lambda dump: dump.renamed([(B, A)], lambda _: True)[0])
    requests = read(requests, request.id, C)

    (one,) = requests
    assert one.end is End.DONE


def test_an_older_revision_changes_nothing_and_a_newer_one_keeps_the_progress() -> None:
    request = asked()
    faster = changed(request, {"delay_ms": 5})
    requests = read(with_requests(request), request.id, A).added(faster, [])

    assert requests.added(request, []) == requests
    (one,) = requests
    assert (one.request.delay_ms, one.dump.tables_done) == (5, 1)


def test_a_request_without_tables_fails_with_the_reason() -> None:
    (one,) = with_requests(asked(), tables=[])

    assert one.end is End.FAILED
    assert one.reason == "no captured table matches 'shop.*'"


@pytest.mark.parametrize(
    ("given", "found"),
    [({"order": "name"}, "abc"), ({"order": "size"}, "cab"), ({"order": "as_given", "tables": ["shop.b", "shop.*"]}, "bac")],
)
def test_tables_come_in_the_order_that_was_asked_for(given: dict[str, Any], found: str) -> None:
    tables = tables_of(asked(**given), [C, TableId("other", "a"), B, A], rows_of={A: 5, C: 1})

    assert "".join(table.name for table in tables) == found


def test_a_restart_goes_on_where_the_offset_has_come_to_and_begins_what_it_does_not_know() -> None:
    known, new = asked(1), asked(2)
    requests = read(with_requests(known), known.id, A).changed(
        known.id, lambda d: d.started(B, key=("id",), upto=(9,)).advanced(B, after=(4,), rows=4, done=False)
    )

    kept = requests_from_text(requests_to_text(requests))
    _, again = resumed([known, new], kept, tables=lambda _: ALL, captured=lambda _: True)

    one, other = again
    assert (one.dump.tables_done, one.dump.tables_total, one.dump.rows) == (1, 3, 13)
    assert one.dump.left[B].after == (4,)
    assert [table.name for table in other.dump.left] == ["a", "b", "c"]


def test_an_end_is_kept_until_its_owner_has_noted_it_and_is_no_second_run() -> None:
    request = asked()
    requests = with_requests(request, tables=[A]).changed(request.id, lambda d: d.given_up(A, "no key"))

    kept = requests_from_text(requests_to_text(requests))
    _, (one,) = resumed([request], kept, tables=lambda _: ALL, captured=lambda _: True)

    assert (
        one.end,
        one.tables_failed,
        next_table(None, Requests({request.id: one}), taken={}, held=lambda _: False, own_readers_max=1),
    ) == (
        End.FAILED,
        1,
        None,
    )
    assert resumed([], kept, tables=lambda _: ALL, captured=lambda _: True) == (Requests(), Requests())
    assert requests.forgotten(request.id) == Requests()


def test_tables_that_are_not_captured_any_more_are_left_out_at_a_restart_with_a_reason() -> None:
    request = asked()
    kept = requests_from_text(requests_to_text(read(with_requests(request), request.id, A)))

    _, (one,) = resumed([request], kept, tables=lambda _: ALL, captured=lambda table: table == B)
    assert (list(one.dump.left), one.end, one.tables_failed) == ([B], None, 1)
    _, (none,) = resumed([request], kept, tables=lambda _: ALL, captured=lambda _: False)
    assert (none.end, none.tables_failed) == (End.FAILED, 2)
    assert "shop.b is not captured any more" in str(none.reason)


def test_what_is_too_long_for_an_offset_begins_again_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog.core.requested.TEXT_CHARS_MAX", 700)
    large, small = asked(1), asked(2)
    requests = Requests().added(large, [TableId("shop", f"table {n}") for n in range(20)]).added(small, ALL)

    text = requests_to_text(read(requests, small.id, A))

    assert stored_bytes(text) <= 700 + 100
    assert list(requests_from_text(text).dumps) == [small.id]


def test_a_request_is_refused_that_the_offset_has_no_room_for_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog.core.requested.TEXT_CHARS_MAX", 2000)
    many = [TableId("shop", f"table {n}") for n in range(20)]
    alone, ended = Requests(), with_requests(with_wanted(asked(1), Wanted.STOPPED), tables=many)
    beside = with_requests(asked(1), tables=many)

    for requests in (alone, ended, with_requests(asked(1), tables=[A])):
        require_room(requests, asked(2), many[:10])
    require_room(alone, asked(2), (TableId("shop", f"table {n}") for n in range(40)))  # nobody else's progress is lost by it
    require_room(beside, asked(1), many)  # it is there already
    with pytest.raises(
        NoRoomError, match=r"1 dumps of the connector have not ended, with 20 tables left, .*; wait for one to end, stop one"
    ):
        require_room(beside, asked(2), many[:10])


def test_a_stopped_table_is_found_by_its_name_whatever_full_stops_it_has() -> None:
    dotted = TableId("a.b", "c.d")
    requests = with_requests(asked(1, tables=[r"a\.b\.c\.d", "shop.*"]), tables=[dotted, A])

    stopped = with_table_wanted(asked(1, tables=[r"a\.b\.c\.d", "shop.*"]), "a.b.c.d", Wanted.STOPPED)
    one = requests.added(stopped, ()).get(stopped.id)

    assert one is not None
    assert (list(one.dump.left), list(one.dump.faults), one.end) == ([A], [dotted], None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1, "dumps": {"a": {}}}', '{"format": 1, "dumps": {"a": {"end": "LOST", "done": 0}}}']
)
def test_what_is_no_progress_is_refused_with_the_field_s_name(text: str) -> None:
    with pytest.raises(DefiniteError, match="dblog_dumps"):
        requests_from_text(text)


def test_a_later_format_is_refused_by_its_number() -> None:
    with pytest.raises(DefiniteError, match="format 7, this version reads 1"):
        requests_from_text('{"format": 7, "dumps": {}}')


# ---- tables that go, or change their names


def test_a_table_that_loses_its_predicate_by_a_new_name_is_given_up_and_one_that_keeps_it_goes_on() -> None:
    request = asked(predicate={"shop.a": "v = 1", "shop.[bx]": "v = 2"})
    requests = with_requests(request, tables=[A, B])

    out = requests.all_renamed([(A, C), (B, TableId("shop", "x"))], lambda _: True).get(request.id)

    assert out is not None
    assert [table.name for table in out.dump.left] == ["x"]
    assert [progress.fault for progress in out.dump.failed] == [
        "shop.a has become shop.c, for which the request has no such predicate; request a dump of it by that name"
    ]


def test_a_name_that_was_asked_for_keeps_its_predicate_whatever_table_a_swap_gives_it() -> None:
    """What gh-ost ends with: the table of the real name has the ghost's rows."""
    request = asked(predicate={"shop.a": "v = 1"})
    ghost, old = TableId("shop", "_a_gho"), TableId("shop", "_a_del")
    requests = with_requests(request, tables=[A])

    out = requests.all_renamed([(A, old), (ghost, A)], lambda table: table == A).get(request.id)

    assert out is not None
    assert (list(out.dump.left), out.dump.failed, out.end) == ([A], (), None)


def test_a_rename_of_tables_that_no_dump_has_changes_nothing() -> None:
    requests = with_requests(asked(), tables=[A])

    assert requests.all_renamed([(B, C)], lambda _: True) is requests
