"""Protections that matter in sequences which the simulation's schedules hardly come to: each is played here, with the protection and without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dblog.core.dumprequests import DumpRequest, Mode
from dblog.core.dumps import dump_of
from dblog.model import Batch
from sim.mutations import READERS, Mutation, applied
from sim.test_chunk_rows_leave_in_parts import _close, _taken, _world
from sim.test_dump_beside_log import ITEMS, ORDERS, World, play_to_the_end


def a_requested_dump_goes_on_after_its_table_was_parked_and_has_another_key() -> None:
    """Where the log brings no statement that says so, nothing but the reader finds it: the definition was read from the server meanwhile."""
    world = World()
    world.database.insert(ORDERS, *[(n, n) for n in range(10)])
    dump = dump_of("d", [ORDERS, ITEMS]).started(ORDERS, key=("code",), upto=(200,))

    play_to_the_end(world, dump=dump.advanced(ORDERS, after=(100,), rows=3, done=False))

    assert world.fold()[ORDERS] == world.source()[ORDERS]


def another_reader_begins_a_table_again_while_the_last_part_of_a_window_waits_for_room() -> None:
    """Its key could not be read any more (UnknownKeyError) while rows of its other range left."""
    world = _world()
    put = world.queue.put

    def put_late(batch: Batch) -> None:
        put(batch)
        world.parts.progress.change_table(ORDERS, lambda dump: dump.restarted(ORDERS).started(ORDERS, key=("id",), upto=(9,)))

    world.queue.put = put_late  # type: ignore[method-assign]

    _close(world)

    assert len(_taken(world)) == 10
    progress = world.parts.progress.table(ORDERS)
    assert progress is not None
    assert (progress.done, world.markers) == (False, [])


def a_table_is_thrown_back_between_the_look_of_a_reader_of_many_tables_and_its_windows() -> None:
    world = World()
    resets = world.parts.windows.resets(ORDERS)

    world.parts.windows.table_changed(ORDERS, "it was altered")
    world.parts.restarts.restart(ORDERS, "it was altered")

    assert world.parts.windows.declare_together({ORDERS: resets}) == []


def a_table_is_made_anew_that_was_dropped_before_a_requested_dump_had_read_it() -> None:
    """What takes its name later is not read for that dump: the log brought all rows of both."""
    world = World()
    request = DumpRequest(id="1", connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(r"shop\..*",))
    world.parts.progress.change_requests(lambda known: known.added(request, [ORDERS, ITEMS]))
    world.parts.progress.change_requests(lambda known: known.changed("1", lambda dump: dump.dropped(ORDERS)))

    world.parts.progress.change(lambda book: book.all_changed(lambda dump: dump.created(ORDERS)))

    progress = world.parts.progress.requests.by_id["1"].dump.table(ORDERS)
    assert progress is not None
    assert (progress.done, progress.cut_short) == (True, False)


RARE = (
    (
        a_table_is_thrown_back_between_the_look_of_a_reader_of_many_tables_and_its_windows,
        Mutation("", f"{READERS}dump.open_windows:OpenWindows.declare_together", "self._resets_of(table, 0) == resets and", ""),
    ),
    (
        a_table_is_made_anew_that_was_dropped_before_a_requested_dump_had_read_it,
        Mutation("", "dblog.core.dump_book:DumpBook.all_changed", ".with_requests(self.requests.all_changed(change))", ""),
    ),
    (
        a_requested_dump_goes_on_after_its_table_was_parked_and_has_another_key,
        Mutation("", f"{READERS}dump.chunk:ChunkReader._read_table", "if progress.started and progress.key != by.key:", "if False:"),
    ),
    (
        another_reader_begins_a_table_again_while_the_last_part_of_a_window_waits_for_room,
        Mutation("", f"{READERS}dump.chunk_rows:ChunkRows.end", "moves = self._progress.book.is_next(chunk.range)", "moves = True"),
    ),
)


@pytest.mark.parametrize(("sequence", "mutation"), RARE, ids=[sequence.__name__ for sequence, _ in RARE])
def test_the_sequence_needs_its_protection(sequence: Callable[[], None], mutation: Mutation) -> None:
    sequence()
    with applied(mutation), pytest.raises(AssertionError):
        sequence()
