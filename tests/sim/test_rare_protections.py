"""Protections that matter in sequences which the simulation's schedules hardly come to: each is played here, with the protection and without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
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
        world.interleaver.change_table(ORDERS, lambda dump: dump.restarted(ORDERS).started(ORDERS, key=("id",), upto=(9,)))

    world.queue.put = put_late  # type: ignore[method-assign]

    _close(world)

    assert len(_taken(world)) == 10
    progress = world.interleaver.table_dump(ORDERS)
    assert progress is not None
    assert (progress.done, world.markers) == (False, [])


RARE = (
    (
        a_requested_dump_goes_on_after_its_table_was_parked_and_has_another_key,
        Mutation("", f"{READERS}chunk:ChunkReader._read_table", "if progress.started and progress.key != by.key:", "if False:"),
    ),
    (
        another_reader_begins_a_table_again_while_the_last_part_of_a_window_waits_for_room,
        Mutation("", f"{READERS}interleaved:Interleaver._moves_on", "moves = self._is_next(chunk)", "moves = True"),
    ),
)


@pytest.mark.parametrize(("sequence", "mutation"), RARE, ids=[sequence.__name__ for sequence, _ in RARE])
def test_the_sequence_needs_its_protection(sequence: Callable[[], None], mutation: Mutation) -> None:
    sequence()
    with applied(mutation), pytest.raises(AssertionError):
        sequence()
