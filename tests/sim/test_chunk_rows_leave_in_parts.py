"""A large chunk does not stand in the way of the log: its rows leave in parts, and a row that the log changes in between is left out. # I2"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from dblog.core.dumprequests import DumpRequest, Mode, Wanted, with_table_wanted, with_wanted
from dblog.core.dumps import dump_of
from dblog.core.watermark import WatermarkPosition
from dblog.model import Segment
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump import order
from dblog.readers.extent import Extent
from sim.test_dump_beside_log import ITEMS, ORDERS, ROW_BYTES, FakeDumpConnection, FakeEncoder, SharedKeyEncoder, World, fake_sql


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Ten rows, which leave two at a time, each part when the queue is empty."""
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 2)
    monkeypatch.setattr(order, "CHUNK_PARTS_AHEAD", 0)
    return _world()


def _world(*, keyed: bool = True, queue_records_max: int = 100) -> World:
    world = World(queue_records_max=queue_records_max, keyed=keyed)
    world.parts.progress.change_own(lambda _: dump_of("d", [ORDERS]))
    world.database.insert(ORDERS, *[(n, n) for n in range(10)])
    return world


def _close(world: World, *, surrogate: tuple[str, ...] | None = None, extent: Extent | None = None) -> None:
    """A window over all ten rows, up to its high watermark."""
    table = world.tables[ORDERS]
    ticket = world.parts.windows.declare(ORDERS, keyed=bool(table.key), resets=0, windows_max=2)
    assert ticket is not None
    text, parameters = fake_sql.chunk_select(table, None, None, 100)
    found = FakeDumpConnection(world.database).select(text, parameters, key=(0,))
    read = ChunkRead(
        table=table,
        rows=found.rows,
        row_count=found.row_count,
        after=None,
        upto=(9,) if table.key or surrogate else None,
        final=True,
        begins=True,
        greatest=(9,),
        surrogate=surrogate,
        extent=extent or Extent(),
    )
    assert world.parts.windows.submit(ticket, read)
    for at, token in enumerate((ticket.low_token, ticket.high_token), start=1):
        world.parts.order.watermark(token, WatermarkPosition(file="f", pos=at, sequence_high=1, sequence_low=at))


def _taken(world: World) -> list[bytes | None]:
    """The keys of what the sender takes now."""
    batches = world.queue.poll(timeout_s=0, records_max=100, bytes_max=1 << 20)
    return [key for batch in batches for segment in batch.segments for key in segment.keys]


def _log(world: World, *keys: int) -> None:
    """Rows of the log."""
    segment = Segment("orders", [b"%d" % key for key in keys], [b"log"] * len(keys), ORDERS)
    world.parts.order.rows([segment], records=len(keys), size_bytes=3, source_ts_us=None)


def _done(world: World) -> bool:
    progress = world.parts.progress.table(ORDERS)
    assert progress is not None
    return progress.done


def test_a_row_of_the_log_waits_for_one_part_of_a_chunk_and_its_chunk_row_is_left_out(world: World) -> None:
    _close(world)
    assert world.queue.records_total == 2
    _log(world, 0, 3, 9)  # 0 has left, in the right order

    assert _taken(world) == [b"0", b"1", b"0", b"3", b"9"]
    left: list[bytes | None] = []
    while world.parts.order.chunk_rows_wait:
        assert (_done(world), world.markers) == (False, [])
        assert world.parts.order.send_chunk_rows()
        assert not world.parts.order.send_chunk_rows()
        left += _taken(world)

    assert left == [b"2", b"4", b"5", b"6", b"7", b"8"]
    assert [(marker.rows_read, marker.rows_dropped, marker.final) for marker in world.markers] == [(10, 2, True)]
    assert _done(world)


def test_windows_whose_rows_leave_count_as_open_but_for_one(world: World) -> None:
    """Else a reader would be ahead of a slow sender by any number of chunks. # I6"""
    parts = world.parts
    _close(world)
    _close(world)
    opened: list[Any] = []

    def declare() -> None:
        opened.append(parts.windows.declare(ORDERS, keyed=True, resets=0, windows_max=2))

    declare()
    waiting = threading.Thread(target=declare, daemon=True)
    waiting.start()
    waiting.join(timeout=0.2)
    assert len(opened) == 1

    while len(parts.closed) > 1:
        parts.order.send_chunk_rows()
        _taken(world)
    waiting.join(timeout=5)
    assert len(opened) == 2


def test_rows_that_no_key_tells_apart_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 2)
    monkeypatch.setattr(order, "CHUNK_PARTS_AHEAD", 0)
    world = _world(keyed=False)

    _close(world)

    assert (world.queue.records_total, world.parts.order.chunk_rows_wait) == (10, False)


def test_rows_of_a_table_without_a_key_leave_at_once_though_a_surrogate_orders_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the log has no key that would leave out a chunk's row, and its old image would follow the new one."""
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 2)
    monkeypatch.setattr(order, "CHUNK_PARTS_AHEAD", 0)
    world = _world(keyed=False)

    _close(world, surrogate=("id",))

    assert (world.queue.records_total, world.parts.order.chunk_rows_wait) == (10, False)


def test_rows_leave_at_once_where_a_message_key_is_that_of_several(world: World) -> None:
    """Else each row of the log behind the window would have the chunk read again."""
    world.encoders[ORDERS] = SharedKeyEncoder(world.tables[ORDERS])

    _close(world)

    assert (world.queue.records_total, world.parts.order.chunk_rows_wait) == (10, False)


def test_what_a_stopped_request_has_read_leaves_no_further(world: World) -> None:
    request = DumpRequest(id="1", connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(r"shop\.orders",))
    world.parts.progress.change_requests(lambda known: known.added(request, [ORDERS]))
    world.parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    _close(world, extent=Extent(dump=request.id))
    world.parts.progress.change_requests(lambda known: known.added(with_wanted(request, Wanted.STOPPED), []))

    world.parts.order.send_all_chunk_rows()

    assert (_taken(world), world.markers) == ([b"0", b"1"], [])


def test_a_failed_first_dump_is_still_to_come(world: World) -> None:
    world.parts.progress.fail(ORDERS, "too large")

    assert world.parts.progress.book.own_left(ORDERS)  # the next run reads it


def test_the_log_thread_does_not_wait_for_a_sender_beside_a_log_that_is_quiet(world: World) -> None:
    """Whatever the queue's size: a part leaves only where it fits."""
    _close(world)

    for _ in range(10):
        assert not world.parts.order.send_chunk_rows(waited_max_s=0)
    assert world.queue.records_total == 2


@pytest.mark.parametrize("queue_records_max", [1, 2, 3, 5])
def test_a_small_queue_never_has_a_part_wait(monkeypatch: pytest.MonkeyPatch, queue_records_max: int) -> None:
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 4)
    world = _world(queue_records_max=queue_records_max)

    _close(world)

    assert world.queue.records_total <= queue_records_max
    assert world.queue.full_s == 0


def test_many_small_windows_leave_together_beside_a_log_that_fills_the_queue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 40)
    _log(world, *range(100, 150))
    _close(world)
    _close(world)  # which does not go on where the first has ended: it is thrown away
    _log(world, 77)

    assert world.parts.order.send_chunk_rows(waited_max_s=0)

    assert not world.parts.order.chunk_rows_wait


def test_beside_a_log_that_fills_the_queue_a_part_leaves_all_the_same_after_a_while(world: World) -> None:
    _close(world)
    _log(world, 77)
    assert not world.parts.order.send_chunk_rows(waited_max_s=60)

    assert world.parts.order.send_chunk_rows(waited_max_s=0)

    assert _taken(world) == [b"0", b"1", b"77", b"2", b"3"]


def test_large_rows_leave_in_parts_of_so_many_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "CHUNK_BATCH_BYTES", len(b"r 0 0 1"))

    _close(world)

    assert _taken(world) == [b"0"]


def test_rows_become_records_when_they_leave_and_not_before(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once would hold up the log for as long as many parts."""
    made: list[int] = []
    encode = FakeEncoder.encode_chunk

    def counted(self: FakeEncoder, rows: bytes, context: Any, dropped: Any) -> Any:
        made.append(len(rows) // ROW_BYTES)
        return encode(self, rows, context, dropped)

    monkeypatch.setattr(FakeEncoder, "encode_chunk", counted)

    _close(world)

    assert made == [2]
    world.parts.order.send_all_chunk_rows()
    assert made == [2] * 5


def test_a_key_that_comes_behind_its_record_is_left_out_all_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are larger than rows, so what is made at a time may leave in several parts."""
    monkeypatch.setattr(order, "CHUNK_BATCH_RECORDS", 4)
    monkeypatch.setattr(order, "CHUNK_BATCH_BYTES", ROW_BYTES * 4)
    encode = FakeEncoder.encode_chunk

    def larger(self: FakeEncoder, rows: bytes, context: Any, dropped: Any) -> Any:
        keys, values, count, digest = encode(self, rows, context, dropped)
        return keys, [value and value.ljust(ROW_BYTES * 2) for value in values], count, digest

    monkeypatch.setattr(FakeEncoder, "encode_chunk", larger)
    _close(world)
    assert _taken(world) == [b"0", b"1"]

    _log(world, 2, 5)
    left = _taken(world)
    while world.parts.order.send_chunk_rows():
        left += _taken(world)

    assert left == [b"2", b"5", b"3", b"4", b"6", b"7", b"8", b"9"]
    assert [(marker.rows_read, marker.rows_dropped) for marker in world.markers] == [(10, 2)]


def test_of_too_many_keys_behind_a_window_none_is_kept_and_all_its_rows_leave_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog.readers.dump.closed_windows.NOTED_MAX", 2)
    _close(world)

    world.parts.order.moved("behind 4, 5 and 77")

    _log(world, 4, 5, 77)

    batches = world.queue.poll(timeout_s=0, records_max=100, bytes_max=1 << 20)
    assert [key for batch in batches for segment in batch.segments for key in segment.keys] == [
        *(b"%d" % n for n in range(10)),
        b"4",
        b"5",
        b"77",
    ]
    assert [batch.step.log_offsets for batch in batches if batch.step.log_offsets] == [("behind 4, 5 and 77",)]
    assert batches[-1].step.log_offsets, "no offset is ahead of its rows"
    assert [marker.rows_dropped for marker in world.markers] == [0]


@pytest.mark.parametrize("how", ["stopped and forgotten", "its table is stopped"])
def test_rows_of_what_was_stopped_since_the_select_do_not_leave(world: World, how: str) -> None:
    request = DumpRequest(id="1", connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(r"shop\..*",))
    world.parts.progress.change_requests(lambda known: known.added(request, [ORDERS, ITEMS]))
    world.parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    _close(world, extent=Extent(dump=request.id))

    if how == "stopped and forgotten":
        world.parts.progress.change_requests(lambda known: known.added(with_wanted(request, Wanted.STOPPED), []).forgotten("1"))
    else:
        world.parts.progress.change_requests(lambda known: known.added(with_table_wanted(request, "shop.orders", Wanted.STOPPED), []))
    world.parts.order.send_all_chunk_rows()

    assert (_taken(world), world.markers) == ([b"0", b"1"], [])
