"""All dumps of a task as one value, over every small history of chunks, restarts, drops and stops. # I9"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from dblog.core.dump_book import ChunkRange, DumpBook
from dblog.core.dumprequests import INITIAL, DumpRequest, Mode, Wanted, with_table_wanted, with_wanted
from dblog.core.dumps import dump_of
from dblog.core.requested import Requests
from dblog.model import TableId

T, U = TableId("shop", "orders"), TableId("shop", "items")
KEYS = (1, 2)
"""Keys of each table; a chunk has one of them."""

STEPS = ("read", "leave", "restart", "drop", "stop", "switch")
DEPTH = 5


def request(identity: str = "1", **fields: object) -> DumpRequest:
    given = DumpRequest(id=identity, connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(r"shop\..*",))
    return replace(given, **fields)  # type: ignore[arg-type]


def book_of(*requests: DumpRequest) -> DumpBook:
    known = Requests()
    for one in requests:
        known = known.added(one, [T, U])
    return DumpBook(own=dump_of("own", [T, U]), requests=known)


@dataclass
class History:
    """A reader of the table ``T``, and what became of its chunks. Chunks leave in their order, and one that may not leave takes the later ones along."""

    book: DumpBook = field(default_factory=lambda: book_of(request()))
    under_way: list[ChunkRange] = field(default_factory=list)
    sent: dict[str, list[ChunkRange]] = field(default_factory=lambda: {INITIAL: [], "1": []})
    """Chunks of each dump that were sent since it began the table."""

    def copy(self) -> History:
        return History(self.book, list(self.under_way), {identity: list(chunks) for identity, chunks in self.sent.items()})

    def step(self, name: str) -> None:
        match name:
            case "read":
                self.read()
            case "leave" if self.under_way:
                self.leave()
            case "restart":
                self.restart()
            case "drop":
                self.book = self.book.dropped(T)
            case "stop":
                self.book = self.book.with_requests(self.book.requests.added(with_wanted(request(), Wanted.STOPPED), []))
            case "switch" if not self.under_way:
                self.book = self.book.read_for(T, "1" if self.book.identity_of(T) == INITIAL else INITIAL)
            case _:
                pass

    def read(self) -> None:
        progress = self.book.table(T)
        if progress is None or progress.ended or self.book.is_paused(T):
            return
        last = self.under_way[-1].upto if self.under_way else progress.after
        if last == (KEYS[-1],):
            return
        upto = (KEYS[0] if last is None else last[0] + 1,)
        begins = not progress.started and not self.under_way
        self.under_way.append(
            ChunkRange(
                dump=self.book.identity_of(T),
                table=T,
                key=("id",),
                after=last,
                upto=upto,
                final=upto == (KEYS[-1],),
                begins=begins,
                greatest=(KEYS[-1],),
                rows=1,
                size_bytes=8,
            )
        )

    def leave(self) -> None:
        chunk = self.under_way.pop(0)
        if self.book.is_next(chunk):
            self.book = self.book.advanced(chunk)
            self.sent[chunk.dump].append(chunk)
        else:
            self.under_way.clear()

    def restart(self) -> None:
        before = self.book
        self.book = before.restarted(T)
        for identity in self.sent:
            if self.book.dump(identity) is not before.dump(identity):
                self.sent[identity].clear()

    def check(self) -> None:
        for identity, chunks in self.sent.items():
            dump = self.book.dump(identity)
            assert dump is not None
            progress = dump.table(T)
            assert progress is not None
            assert [chunk.after for chunk in chunks] == [None, *(chunk.upto for chunk in chunks[:-1])][: len(chunks)], "the ranges tile"
            assert (progress.rows, progress.bytes, progress.chunks) == (len(chunks), 8 * len(chunks), len(chunks))
            if progress.done and not progress.cut_short:
                assert [chunk.upto for chunk in chunks] == [(key,) for key in KEYS], "nothing is left out"
            assert self.book.has_read(identity, T) == progress.done
        own = self.book.own
        assert own is not None
        assert self.book.own_left(T) == (T in own.left)
        assert self.book.own_left(U), "no step concerns the other table"


def every_history(so_far: History, steps: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], History]]:
    """Each history of up to ``DEPTH`` steps, with those that it begins with in front of it."""
    yield steps, so_far
    if len(steps) < DEPTH:
        for name in STEPS:
            history = so_far.copy()
            history.step(name)
            yield from every_history(history, (*steps, name))


def test_the_chunks_of_each_dump_tile_its_table_whatever_comes_between_them() -> None:
    ended = 0
    for steps, history in every_history(History()):
        try:
            history.check()
        except AssertionError as e:
            raise AssertionError(steps) from e
        ended += len(history.sent[INITIAL]) == len(KEYS)
    assert ended > 10, "some of them read the table to its end"


def test_a_chunk_of_a_dump_that_is_forgotten_is_not_sent_and_its_table_is_not_read_for_the_own_dump() -> None:
    book = book_of(request()).read_for(T, "1")
    chunk = ChunkRange(dump="1", table=T, key=("id",), after=None, upto=(1,), final=True, begins=True, greatest=(1,))
    assert book.is_next(chunk)
    assert not book.is_paused(T)

    book = book.with_requests(book.requests.forgotten("1"))

    assert not book.is_next(chunk)
    assert book.is_paused(T)
    assert (book.request_of(T), book.dump_of(T), book.table(T)) == (None, None, None)
    assert book.advanced(chunk) is book


@pytest.mark.parametrize("wanted", [Wanted.PAUSED, Wanted.STOPPED])
def test_a_table_of_a_request_is_paused_alone(wanted: Wanted) -> None:
    book = book_of(request()).read_for(T, "1").read_for(U, "1")

    book = book.with_requests(book.requests.added(with_table_wanted(request(), str(T), wanted), []))

    assert (book.is_paused(T), book.is_paused(U)) == (True, False)


def test_a_restart_that_concerns_no_dump_changes_nothing() -> None:
    book = book_of(request(mode=Mode.VERIFY))

    assert book.restarted(T) is book
    assert book.restarted(T, only=lambda one: one.mode is Mode.VERIFY) is book


def test_a_list_of_keys_is_not_restarted_for_its_order_is_its_own() -> None:
    book = book_of(request(keys=((1,), (2,))), request("2"))
    for identity in ("1", "2"):
        book = book.changed(identity, lambda dump: dump.started(T, key=("id",), upto=(2,)))

    book = book.restarted(T)

    started = [progress is not None and progress.started for one in book.requests for progress in [one.dump.table(T)]]
    assert started == [True, False]


def test_the_own_dump_is_restarted_with_certain_requests_only_where_it_repairs_the_table() -> None:
    book = book_of()
    assert book.own is not None
    begun = book.own.read_again([T, U], repairs=[T])
    book = book.with_own(begun.started(T, key=("id",), upto=(2,)).started(U, key=("id",), upto=(2,)))

    def own_started(table: TableId) -> bool:
        after = book.restarted(table, only=lambda _: False, own_repair=True).own
        assert after is not None
        return after.left[table].started

    assert (own_started(T), own_started(U)) == (False, True)
    assert book.restarted(T, only=lambda _: False) is book


def test_only_dumps_by_another_column_or_by_a_condition_have_rows_that_move() -> None:
    plain, by_surrogate, chosen = request(), request("2", surrogate_key="at"), request("3", predicate={r"shop\.orders": "a = 1"})
    book = book_of(plain, by_surrogate, chosen)

    assert [one.request.id for one in book.moving(T)] == ["2", "3"]
    assert [one.request.id for one in book.moving(U)] == ["2"]
    assert not book_of(plain).moves_rows(T)
    assert book.moves_rows(T)
    assert not book.all_changed(lambda dump: dump.dropped(T)).moves_rows(T), "they have ended"


def test_a_dropped_table_is_done_in_the_own_dump_and_an_error_in_a_requested_one() -> None:
    book = book_of(request()).dropped(T)

    one = book.requests.get("1")
    assert one is not None
    assert book.own is not None
    assert book.own.over[T].fault is None
    assert one.dump.over[T].fault == "shop.orders was dropped"


def test_an_unknown_table_ends_in_the_dump_that_it_is_read_for_and_in_no_other() -> None:
    book = book_of(request())
    requested = book.read_for(T, "1").not_known(T)

    assert requested.own is book.own
    one = requested.requests.get("1")
    assert one is not None
    assert "is not known at the log's position" in (one.dump.over[T].fault or "")
    own = book.not_known(T)
    assert own.requests is book.requests
    assert own.own is not None
    assert own.own.over[T].done


def test_readers_go_back_where_another_table_has_taken_a_name() -> None:
    new = TableId("shop", "orders_new")
    book = book_of(request()).read_for(T, "1").changed("1", lambda dump: dump.started(T, key=("id",), upto=(2,)))

    after, again = book.requests_renamed([(new, T)], lambda _: True)

    assert again == (T,)
    progress = after.table(T)
    assert progress is not None
    assert not progress.started


def test_what_is_left_is_left_in_some_dump() -> None:
    assert set(book_of().left) == {T, U}
    book = book_of(request()).changed(INITIAL, lambda dump: dump.dropped(T))
    assert set(book.left) == {T, U}
    assert set(book.dropped(T).left) == {U}
