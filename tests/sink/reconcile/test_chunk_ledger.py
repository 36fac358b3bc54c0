"""The book of dumped chunks: every order in which rows and markers can come, with every loss, is judged correctly (I9)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import pytest
from dblog_sink.reconcile.chunk_ledger import (
    COMPLETE,
    FIRST,
    LATE,
    NOT_ARRIVED,
    NOT_COUNTED,
    NOT_ENDED,
    NOT_YET,
    OWN,
    PART,
    SHORT,
    TOO_MANY,
    UNPROVEN,
    WHOLE,
    Book,
    Loss,
    Marker,
    Verdict,
)
from dblog_sink.reconcile.dump_coverage import Range

TOPIC = "p.shop.t"


def marker(
    chunk_id: str, rows: int, *, low: int = 7, end: int = 10, exact: bool = True, met_s: float = 0.0, topic: str = TOPIC, of: str = FIRST
) -> Marker:
    ends = {0: end}
    return Marker(topic=topic, position=(1, low), chunk_id=chunk_id, table="shop.t", rows=rows, ends=ends, exact=exact, met_s=met_s, of=of)


def judged(book: Book, *, read_to: int = 10, now_s: float = 100.0, why: str | None = None) -> list[Verdict]:
    return book.judge({TOPIC: {0: read_to}}, now_s=now_s, wait_s=60.0, doubt=lambda _: why)


def outcome(verdicts: list[Verdict]) -> list[tuple[str, str, int]]:
    return [(one.marker.chunk_id, one.result, one.missing) for one in verdicts]


STEPS = ("row a", "row b", "marker a", "marker b")


@pytest.mark.parametrize("lows", [(7, 7), (7, 8)], ids=["one low watermark", "two low watermarks"])
@pytest.mark.parametrize("lost", [(), ("row a",), ("row b",), ("row a", "row b")], ids=lambda lost: ",".join(lost) or "nothing lost")
def test_whatever_the_order_what_is_missing_is_what_was_lost(lows: tuple[int, int], lost: tuple[str, ...]) -> None:
    low = dict(zip("ab", lows, strict=True))
    left = [step for step in STEPS if step not in lost]
    for order, looks in product(permutations(left), product((False, True), repeat=len(left))):
        book, found = Book(), []

        for step, look in zip(order, looks, strict=True):
            what, chunk = step.split()
            if what == "row":
                book.arrive(TOPIC, (1, low[chunk]), 1)
            else:
                book.expect(marker(chunk, 1, low=low[chunk]))
            if look:  # nothing is read to the end before all has come
                found += judged(book, read_to=9)
        assert SHORT not in {one.result for one in found}, (order, looks)
        found += judged(book)

        assert sum(one.missing for one in found) == len(lost), (order, looks)
        assert sorted(one.marker.chunk_id for one in found) == ["a", "b"], (order, looks)
        assert not any(group.markers for group in book.groups.values()), (order, looks)


def test_a_chunk_is_complete_as_soon_as_its_rows_have_come() -> None:
    book = Book()
    book.expect(marker("a", 3))
    book.arrive(TOPIC, (1, 7), 2)

    assert judged(book, read_to=0) == []
    book.arrive(TOPIC, (1, 7), 1)

    assert outcome(judged(book, read_to=0)) == [("a", COMPLETE, 0)]
    assert book.groups == {}


def test_an_empty_chunk_is_complete() -> None:
    book = Book()

    book.expect(marker("a", 0))

    assert outcome(judged(book, read_to=0)) == [("a", COMPLETE, 0)]


def test_a_chunk_is_not_short_before_every_partition_is_read_past_its_end() -> None:
    book = Book()
    expected = Marker(topic=TOPIC, position=(1, 7), chunk_id="a", table="shop.t", rows=2, ends={0: 10, 2: 4}, exact=True, met_s=0.0)
    book.expect(expected)

    def look(read_to: dict[int, int]) -> list[Verdict]:
        return book.judge({TOPIC: read_to}, now_s=1.0, wait_s=60.0, doubt=lambda _: None)

    assert look({0: 10}) == look({0: 10, 1: 99, 2: 3}) == look({0: 9, 2: 4}) == []
    assert book.judge({"other": {0: 99, 2: 99}}, now_s=1.0, wait_s=60.0, doubt=lambda _: None) == []
    assert outcome(look({0: 10, 2: 4})) == [("a", SHORT, 2)]


def test_where_the_marker_names_no_offsets_rows_are_waited_for() -> None:
    book = Book()
    book.expect(marker("a", 1, exact=False, met_s=50.0))

    assert judged(book, now_s=109.0) == []
    assert outcome(judged(book, now_s=110.0)) == [("a", SHORT, 1)]


def test_the_same_marker_twice_counts_once() -> None:
    book = Book()
    book.expect(marker("a", 2))
    book.expect(marker("a", 2))
    book.arrive(TOPIC, (1, 7), 1)

    assert outcome(judged(book)) == [("a", SHORT, 1)]
    book.expect(marker("a", 2))

    assert judged(book) == []


def test_a_chunk_that_a_restarted_worker_sends_again_is_judged_by_itself() -> None:
    book = Book()
    book.arrive(TOPIC, (1, 7), 3)  # sent before the crash, without a marker
    book.arrive(TOPIC, (1, 9), 4)
    book.expect(marker("again", 5, low=9))

    assert outcome(judged(book)) == [("again", SHORT, 1)]


def test_rows_sent_twice_do_no_harm() -> None:
    book = Book()
    book.arrive(TOPIC, (1, 7), 4)
    book.expect(marker("a", 2))

    assert outcome(judged(book)) == [("a", COMPLETE, 0)]


def test_rows_that_come_after_all_are_reported_as_late() -> None:
    book = Book()
    book.expect(marker("a", 3))
    assert outcome(judged(book)) == [("a", SHORT, 3)]

    book.arrive(TOPIC, (1, 7), 1)
    assert outcome(judged(book)) == [("a", LATE, 1)]
    book.arrive(TOPIC, (1, 7), 5)

    assert outcome(judged(book)) == [("a", LATE, 2)]


def test_records_in_quarantine_that_show_no_position_count_as_arrived_once() -> None:
    book = Book()
    book.cannot_read(TOPIC, 3)
    book.cannot_read("p.shop.other", 3)
    book.expect(marker("a", 2))
    book.expect(marker("b", 2, low=8))

    found = judged(book)

    assert outcome(found) == [("a", COMPLETE, 0), ("b", SHORT, 1)]
    assert [one.unreadable for one in found] == [2, 1]


def test_records_that_may_be_missing_prove_nothing() -> None:
    book = Book()
    book.expect(marker("a", 2))

    found = judged(book, why="the topic is compacted")

    assert outcome(found) == [("a", UNPROVEN, 2)]
    assert found[0].why == "the topic is compacted"
    assert book.groups == {}


def test_a_chunk_at_which_counting_began_proves_nothing_and_later_ones_do() -> None:
    book = Book()
    book.floors[TOPIC] = (1, 7)
    for low in (6, 7, 8):
        book.expect(marker(f"at {low}", 2, low=low))

    found = judged(book)

    assert outcome(found) == [("at 6", UNPROVEN, 2), ("at 7", UNPROVEN, 2), ("at 8", SHORT, 2)]
    assert found[0].why == NOT_COUNTED


def test_where_counting_did_not_begin_with_the_first_record_a_topic_without_rows_proves_nothing() -> None:
    book = Book()
    book.expect(marker("a", 2))

    found = book.judge({TOPIC: {0: 10}}, now_s=1.0, wait_s=60.0, doubt=lambda _: None, midway=True)

    assert [(one.result, one.why) for one in found] == [(UNPROVEN, NOT_COUNTED)]


def test_the_oldest_of_too_many_are_let_go_and_never_reported_as_missing() -> None:
    book = Book()
    for low in range(5):
        book.arrive(TOPIC, (1, low), 1)
    book.expect(marker("waits", 1, low=5))

    assert book.forget(4) == []
    assert list(book.groups) == [(TOPIC, (1, low)) for low in (2, 3, 4, 5)]
    book.expect(marker("of a forgotten one", 1, low=1))

    assert outcome(judged(book)) == [("waits", SHORT, 1), ("of a forgotten one", UNPROVEN, 1)]
    book.expect(marker("cannot be judged", 1, low=9, topic="p.shop.unread"))
    assert [(one.result, one.why) for one in book.forget(0)] == [(UNPROVEN, TOO_MANY)]


def test_a_first_dump_is_wholly_there_from_its_last_chunk_on_and_a_later_dump_changes_nothing() -> None:
    book = Book()
    book.arrive(TOPIC, (1, 7), 1)
    assert book.dumps_incomplete((1, 99)) == {}, "a source that writes no markers"

    book.expect(marker("a", 1, low=7))
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ENDED}
    judged(book)
    book.expect(marker("b", 2, low=9))
    book.end(TOPIC, (1, 9))
    book.arrive(TOPIC, (1, 9), 1)
    assert book.dumps_incomplete((1, 8)) == {TOPIC: NOT_ENDED}
    assert book.dumps_incomplete((1, 9)) == {TOPIC: NOT_YET}
    book.arrive(TOPIC, (1, 9), 1)
    assert book.dumps_incomplete((1, 9)) == {}
    judged(book)
    assert book.dumps_incomplete((1, 9)) == {}

    book.arrive(TOPIC, (1, 20), 1)
    book.expect(marker("a", 2, low=20))
    assert book.dumps_incomplete((1, 9)) == book.dumps_incomplete((1, 99)) == {}


def test_rows_of_a_batch_that_is_not_read_yet_are_of_no_dump() -> None:
    book = Book()
    for chunk_id, low, batch in (("a", 7, 1), ("b", 9, 3)):
        book.arrive(TOPIC, (1, low), 1, batch)
        book.expect(marker(chunk_id, 1, low=low))
    book.end(TOPIC, (1, 9))
    judged(book)

    assert book.dumps_incomplete((1, 9), {TOPIC: 2}) == {TOPIC: NOT_YET}
    assert book.dumps_incomplete((1, 9), {TOPIC: 3}) == book.dumps_incomplete((1, 9)) == {}
    book.arrive(TOPIC, (1, 20), 5, 4)  # of a later dump
    assert book.dumps_incomplete((1, 9), {TOPIC: 3}) == {}


def test_rows_of_a_dump_that_never_came_are_missing_until_the_table_is_dumped_again() -> None:
    book = Book()
    book.expect(marker("a", 2, low=7))
    book.expect(marker("b", 0, low=9))
    book.end(TOPIC, (1, 9))
    judged(book)
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ARRIVED}

    book.expect(marker("a", 0, low=20))
    judged(book)
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ARRIVED}
    book.end(TOPIC, (1, 21))
    assert book.dumps_incomplete((1, 99)) == {}


@pytest.mark.parametrize("of", [PART, WHOLE])
def test_a_requested_dump_of_a_table_that_was_never_dumped_leaves_its_first_state_as_it_was(of: str) -> None:
    book = Book()
    book.expect(marker("a", 2, low=7, of=of))
    assert book.dumps_incomplete((1, 99)) == {}, "rows of it are still to come"

    book.arrive(TOPIC, (1, 7), 2)
    judged(book)
    book.arrive(TOPIC, (1, 8), 1)  # of its next chunk, whose marker is still to come
    assert book.dumps_incomplete((1, 99)) == {}

    book.expect(marker("first", 0, low=9))
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ENDED}, "the source dumps the table itself"
    book.end(TOPIC, (1, 9))
    assert book.dumps_incomplete((1, 99)) == {}


def test_a_first_dump_that_a_requested_one_goes_ahead_of_has_not_ended_before_its_last_chunk() -> None:
    book = Book()
    book.expect(marker("one key", 0, low=1, of=PART))
    assert book.dumps_incomplete((1, 99)) == {}

    book.owe(TOPIC)

    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ENDED}
    book.end(TOPIC, (1, 7))
    assert (book.dumps_incomplete((1, 6)), book.dumps_incomplete((1, 7))) == ({TOPIC: NOT_ENDED}, {})


def test_rows_whose_marker_is_still_to_come_are_of_a_first_dump_where_no_dump_was_requested() -> None:
    book = Book()
    book.expect(marker("elsewhere", 0, topic="p.shop.other", of=PART))

    book.arrive(TOPIC, (1, 7), 1)

    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ENDED}


@pytest.mark.parametrize(("of", "ends"), [(PART, 1), (WHOLE, 2), (FIRST, 2)])
def test_rows_that_never_came_are_missing_until_a_whole_dump_ends_beside_their_own(of: str, ends: int) -> None:
    book = Book()
    book.expect(marker("a", 2, low=7, of=of))
    judged(book)

    for end in range(ends):
        assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ARRIVED}
        book.end(TOPIC, (1, 20 + end))

    assert book.dumps_incomplete((1, 99)) == {}


# -- what repairs records that never came -----------------------------------------------------------------------------------------------------


def repaired(book: Book, *, since: int = 500, position: int | None = None, upto: int = 99, read: int = 99) -> bool:
    loss = Loss(since, None if position is None else (1, position))
    found = book.dumped_since({TOPIC: loss, "p.shop.other": loss}, (1, upto), {TOPIC: read})
    assert found is not None
    assert "p.shop.other" not in found
    return TOPIC in found


def test_a_dump_whose_rows_are_of_a_batch_that_is_not_read_yet_repairs_nothing_so_far() -> None:
    book = Book()
    book.arrive(TOPIC, (1, 11), 1, 4)
    book.begin(TOPIC, (1, 11), "d1", 600)
    book.expect(marker("a", 1, low=11, of=WHOLE))
    book.arrive(TOPIC, (1, 12), 1, 5)
    book.expect(marker("b", 1, low=12, of=WHOLE))
    book.end(TOPIC, (1, 12), "d1")
    judged(book)

    assert not repaired(book, read=4)
    assert repaired(book, read=5)


def test_no_row_of_a_dump_repairs_a_table_before_the_whole_dump_is_there() -> None:
    book = Book()
    assert book.dumped_since({TOPIC: Loss(500)}, (1, 99)) is None, "a source that writes no markers"

    book.arrive(TOPIC, (1, 7), 1)
    book.expect(marker("one key", 1, low=7, of=PART))
    judged(book)
    assert not repaired(book), "only that row came again"
    book.arrive(TOPIC, (1, 11), 1)
    book.expect(marker("a", 1, low=11, of=WHOLE))
    book.begin(TOPIC, (1, 11), "d1", 600)
    assert not repaired(book), "it has not ended"
    book.expect(marker("b", 2, low=12, of=WHOLE))
    book.end(TOPIC, (1, 12), "d1")
    assert not repaired(book), "rows of it are still to come"
    book.arrive(TOPIC, (1, 12), 2)

    assert repaired(book)
    assert not repaired(book, upto=11), "its end is behind the snapshot"
    judged(book)
    assert repaired(book)


def test_a_dump_of_which_rows_never_came_repairs_nothing() -> None:
    book = Book()
    book.begin(TOPIC, (1, 11), "d1", 600)
    book.expect(marker("a", 1, low=11, of=WHOLE))
    book.end(TOPIC, (1, 11), "d1")
    judged(book)

    assert not repaired(book)


def test_a_dump_that_began_before_records_were_missing_repairs_nothing_unless_it_began_again() -> None:
    book = Book()
    book.expect(marker("a", 0, low=7, of=WHOLE))
    book.begin(TOPIC, (1, 7), "d1", 500)
    book.begin(TOPIC, (1, 20), "d2", 600)
    book.end(TOPIC, (1, 9), "d1")
    assert not repaired(book)

    book.end(TOPIC, (1, 30))  # of the source's own, which leaves out rows
    assert not repaired(book)
    book.begin(TOPIC, (1, 11), "d1", 600)
    assert not repaired(book), "the end is that of the earlier attempt"
    book.end(TOPIC, (1, 12), "d1")
    assert repaired(book)


# -- dumps whose ranges are kept --------------------------------------------------------------------------------------------------------------


def ranged(book: Book, chunk_id: str, low: int, after: int | None, upto: int, *, rows: int = 0, of: str = FIRST, dump: str = OWN) -> None:
    """The marker of a chunk of a table whose keys end at 9, as the worker of now writes it."""
    bounds = [None if bound is None else f"[{bound}]" for bound in (after, upto)]
    begins, final = after is None, upto == 9
    book.expect(marker(chunk_id, rows, low=low, of=of))
    if begins:
        book.begin(TOPIC, (1, low), dump, low * 100, ranged=True)
    if final:
        book.end(TOPIC, (1, low), dump)
    one = Range(
        chunk_id=chunk_id,
        low=(1, low),
        after=bounds[0],
        upto=bounds[1],
        begins=begins,
        final=final,
        opened_ms=low * 100,
        ts_ms=low * 100 + 50,
    )
    book.coverage.add((TOPIC, "shop.t", dump), one)
    book.coverage.decide()


def test_a_first_dump_whose_last_range_is_read_first_is_there_when_the_ranges_in_front_of_it_are() -> None:
    book = Book()
    ranged(book, "a", 10, None, 3)
    ranged(book, "c", 20, 6, 9)  # another reader's
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ENDED}

    ranged(book, "b", 30, 3, 6, rows=2)

    assert book.dumps_incomplete((1, 29)) == {TOPIC: NOT_ENDED}
    assert book.dumps_incomplete((1, 30)) == {TOPIC: NOT_YET}
    book.arrive(TOPIC, (1, 30), 2)
    assert book.dumps_incomplete((1, 30)) == {}


def test_a_table_is_repaired_when_the_ranges_in_front_of_the_last_one_have_come_too() -> None:
    book = Book()
    ranged(book, "a", 10, None, 3, of=WHOLE, dump="d1")
    ranged(book, "c", 20, 6, 9, of=WHOLE, dump="d1")
    judged(book)
    assert not repaired(book)

    ranged(book, "b", 30, 3, 6, rows=2, of=WHOLE, dump="d1")
    assert not repaired(book), "rows of it are still to come"
    book.arrive(TOPIC, (1, 30), 2)
    judged(book)
    book.coverage.decide()

    assert repaired(book)
    assert not repaired(book, upto=29)


def short(book: Book) -> None:
    judged(book)


def unproven(book: Book) -> None:
    judged(book, why="the topic is compacted")


def quarantined(book: Book) -> None:
    book.cannot_read(TOPIC, 1)
    judged(book)


def in_quarantine_and_late(book: Book) -> None:
    book.cannot_read(TOPIC, 1)
    judged(book)
    book.arrive(TOPIC, (1, 12), 1)
    judged(book)


def forgotten(book: Book) -> None:
    book.forget(0)


@pytest.mark.parametrize("what", [short, unproven, quarantined, in_quarantine_and_late, forgotten], ids=lambda what: what.__name__)
def test_a_dump_some_rows_of_which_are_not_known_to_be_in_the_table_repairs_nothing(what: Callable[[Book], None]) -> None:
    book = Book()
    ranged(book, "a", 11, None, 3, of=WHOLE, dump="d1")
    ranged(book, "b", 12, 3, 9, rows=2 if what is in_quarantine_and_late else 1, of=WHOLE, dump="d1")

    what(book)
    book.coverage.decide()

    assert not repaired(book)


def test_a_missing_marker_in_the_middle_of_a_dump_repairs_nothing() -> None:
    book = Book()
    ranged(book, "a", 11, None, 3, of=WHOLE, dump="d1")
    ranged(book, "c", 13, 6, 9, of=WHOLE, dump="d1")
    judged(book)
    book.coverage.decide()

    assert not repaired(book)


@pytest.mark.parametrize(
    ("began_at", "since", "is_repaired"),
    [(11, 1_099, True), (11, 1_100, False), (10, 500, False), (10, 5_000, False)],
    ids=["behind both", "the clock says before", "the log says before", "both say before"],
)
def test_a_dump_repairs_what_was_lost_in_front_of_it_by_the_log_and_by_the_clock(began_at: int, since: int, is_repaired: bool) -> None:
    """The loss is up to position 10; the dump began at its low watermark, and not when its window closed."""
    book = Book()
    ranged(book, "a", began_at, None, 9, of=WHOLE, dump="d1")
    judged(book)
    book.coverage.decide()

    assert repaired(book, since=since, position=10) == is_repaired


def test_rows_that_never_came_are_missing_until_a_dump_that_began_behind_them_is_there() -> None:
    book = Book()
    ranged(book, "a", 10, None, 3)
    ranged(book, "b", 11, 3, 9, rows=1)
    judged(book)
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ARRIVED}
    assert book.unsettled() == ({(TOPIC, (1, 11))}, {})

    ranged(book, "again a", 20, None, 3, of=WHOLE, dump="d1")
    ranged(book, "again c", 21, 6, 9, of=WHOLE, dump="d1")
    judged(book)
    assert book.dumps_incomplete((1, 99)) == {TOPIC: NOT_ARRIVED}, "its last range was read before the one in front of it"
    ranged(book, "again b", 22, 3, 6, of=WHOLE, dump="d1")
    judged(book)
    book.coverage.decide()

    assert book.dumps_incomplete((1, 21)) == {TOPIC: NOT_ARRIVED}
    assert book.dumps_incomplete((1, 22)) == {}
    assert book.unsettled() == (set(), {})


def test_what_came_since_a_first_dump_began_is_kept_until_it_covers_its_table() -> None:
    book = Book()
    ranged(book, "a", 10, None, 3)
    ranged(book, "x", 12, None, 3, of=WHOLE, dump="d1")
    assert book.unsettled() == (set(), {TOPIC: (1, 10)})

    ranged(book, "b", 11, 3, 9)

    assert book.unsettled() == (set(), {})


def test_a_dump_that_an_earlier_version_of_the_sink_met_the_beginning_of_counts_by_its_end() -> None:
    book = Book()
    book.expect(marker("a", 0, low=7))
    book.begin(TOPIC, (1, 7), OWN, 600)
    ranged(book, "b", 9, 3, 9)
    judged(book)

    assert book.dumps_incomplete((1, 8)) == {TOPIC: NOT_ENDED}
    assert book.dumps_incomplete((1, 9)) == {}
    assert repaired(book)
