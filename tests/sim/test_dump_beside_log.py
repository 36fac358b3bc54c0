"""Chunk readers and the log at once, by seed: tiny limits, writers at any moment, a log that lags, reads that fail. # I2 I3 I6

The database is tests/support/fake_session.py's; its commits make the log. The log thread is this test, one entry at a time, with pauses chosen by the
seed; chunk threads are real. A seed that ever failed belongs into ``REGRESSIONS``.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.core.chunk_size import ChunkLimits
from dblog.core.dumprequests import DumpRequest, Mode, Wanted, with_wanted
from dblog.core.dumps import Dump, dump_of
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.mysql.catalog import sql as mysql_sql
from dblog.errors import TransientError
from dblog.model import Batch, Column, Segment, Table, TableId
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump import chunk_rows
from dblog.readers.dump.chunk import ChunkReader
from dblog.readers.dump.sharing import Share
from dblog.readers.queue import BlockingQueue
from sim.the_end import check_the_end
from structlog.testing import capture_logs
from support.fake_session import FakeDatabase, FakeDumpConnection, FakeSql, fake_sql
from support.task_parts import OneByOne, TaskParts

REGRESSIONS: tuple[int, ...] = ()
TIMEOUT_S = 120.0
ROW_BYTES = 22
"""Packet header 4, zero byte, null bitmap, two numbers."""

ORDERS = TableId("shop", "orders")
ITEMS = TableId("shop", "items")


def table_of(name: TableId, *, key: tuple[str, ...] = ("id",)) -> Table:
    columns = tuple(Column(name=n, type="bigint", type_text="bigint", nullable=False) for n in ("id", "version"))
    return Table(id=name, columns=columns, key=key, primary_key=bool(key))


class FakeEncoder:
    """Rows of two BIGINTs to records: key and value are the numbers' texts."""

    def __init__(self, table: Table) -> None:
        self.plan = SimpleNamespace(table=table, topic=str(table.id), key=(0,) if table.key else (), unwritten_schemas=None)

    def key_of(self, id_: int) -> bytes | None:
        return b"%d" % id_ if self.plan.key else None

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        return min(len(rows), start + ROW_BYTES * max(1, min(rows_max, bytes_max // ROW_BYTES)))

    def encode_chunk(self, rows: bytes, context: Any, dropped_keys: Any) -> tuple[list[bytes | None], list[bytes | None], int, int]:
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        dropped = 0
        for at in range(0, len(rows), ROW_BYTES):
            id_, version = (int.from_bytes(rows[at + o : at + o + 8], "little") for o in (6, 14))
            key = self.key_of(id_)
            if key in dropped_keys:
                dropped += 1
                continue
            keys.append(key)
            values.append(b"r %d %d %d" % (id_, version, context.sequence_low))
        return keys, values, dropped, 0


class World:
    """A source, its log, and a task's readers over it."""

    def __init__(
        self,
        *,
        keyed: bool = True,
        queue_records_max: int = 3,
        keys_max: int = 100,
        rows_max: int = 3,
        fail_share: float = 0.0,
        sql: FakeSql = fake_sql,
    ) -> None:
        self.sql = sql
        self.log: list[tuple[Any, Any]] = []
        self.database = FakeDatabase(on_commit=lambda what, value: self.log.append((what, value)))
        self.tables = {name: table_of(name, key=("id",) if keyed else ()) for name in (ORDERS, ITEMS)}
        for table in self.tables.values():
            self.database.create(table)
        self.encoders: dict[TableId, Any] = {name: FakeEncoder(table) for name, table in self.tables.items()}
        self.queue = BlockingQueue(records_max=queue_records_max, bytes_max=0)
        self.markers: list[Any] = []
        self.parts = TaskParts(queue=self.queue, keys_max=keys_max, encoders=self.encoders, markers=self.markers)
        self.limits = ChunkLimits(rows_max=rows_max, bytes_max=1 << 20, rows_min=1)
        self.fail_share = fail_share
        self.chance = random.Random(1)
        self.batches: list[Batch] = []
        self.errors: list[BaseException] = []
        self.readers: list[ChunkReader] = []
        self.between_watermarks: Callable[[], None] = lambda: None

    def _before_select(self) -> None:
        self.between_watermarks()
        if self.chance.random() < self.fail_share:
            raise TransientError("the connection was killed")

    def start(self, threads: int = 2, dump: Dump | None = None) -> None:
        self.parts.progress.change_own(lambda _: dump or dump_of("d", [ORDERS, ITEMS]))
        shares = OneByOne([ORDERS, ITEMS])
        for number in range(threads):
            reader = self.parts.reader(
                number,
                connect=lambda: FakeDumpConnection(self.database, before_select=self._before_select),
                sql=self.sql,
                tables=self.tables,
                shares=shares,
                limits=self.limits,
            )
            self.readers.append(reader)
            threading.Thread(target=self._run, args=(reader.run,), daemon=True).start()
        threading.Thread(target=self._run, args=(self._consume,), daemon=True).start()

    def _run(self, work: Any) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self.errors.append(e)

    def _consume(self) -> None:
        while not self.parts.progress.stopping:
            self.batches += self.queue.poll(timeout_s=0.01, records_max=10, bytes_max=1 << 20)

    def step(self, at: int) -> None:
        """The log thread takes one entry."""
        what, value = self.log[at]
        self.parts.order.moved(at)
        if isinstance(what, str):
            watermark = WatermarkPosition(file="f", pos=at, sequence_high=1, sequence_low=at)
            self.parts.order.watermark(value, watermark)
            return
        key = self.encoders[what].key_of(value[0])
        body = b"d %d %d" % (value[0], at) if len(value) == 1 else b"c %d %d %d" % (*value, at)
        self.parts.order.rows([Segment(str(what), [key], [body], what)], records=1, size_bytes=len(body), source_ts_us=None)

    def fold(self) -> dict[TableId, dict[int, int]]:
        """The tables that the output describes; asserts that no key goes back in time. # I2"""
        out: dict[TableId, dict[int, int]] = {ORDERS: {}, ITEMS: {}}
        newest: dict[tuple[TableId, int], int] = {}
        for segment in (s for batch in self.batches for s in batch.segments):
            table = segment.table
            assert table is not None
            for value in segment.values:
                assert value is not None
                op, id_, *rest = value.decode().split()
                sequence = int(rest[-1])
                assert sequence >= newest.get((table, int(id_)), -1), f"{table} {id_} went back: {value!r}"
                newest[table, int(id_)] = sequence
                if op == "d":
                    out[table].pop(int(id_), None)
                else:
                    out[table][int(id_)] = int(rest[0])
        return out

    def source(self) -> dict[TableId, dict[int, int]]:
        return {name: {row[0]: row[1] for row in self.database.rows[name]} for name in (ORDERS, ITEMS)}

    def stop(self) -> None:
        self.parts.progress.stop()
        self.queue.close()
        for reader in self.readers:
            reader.stop()


def play(seed: int, world: World, *, writes: int = 120) -> None:
    """Write, read the log with pauses, until the dump is done and the log is read to its end."""
    chance = random.Random(seed)
    world.chance = random.Random(seed + 1)
    version = 0
    for name in (ORDERS, ITEMS):
        for id_ in range(chance.randrange(0, 25)):
            version += 1
            world.database.insert(name, (id_, version))
    read = len(world.log)  # the connector starts here
    left = writes

    def write() -> None:
        """One change of one row; called by this thread, and by chunk threads between snapshot and SELECT."""
        nonlocal version, left
        with world.database.lock:
            left -= 1
            version += 1
            name, id_ = world.chance.choice((ORDERS, ITEMS)), world.chance.randrange(30)
            there = any(row[0] == id_ for row in world.database.rows[name])
            world.database.rows[name] = [row for row in world.database.rows[name] if row[0] != id_]
            if there and world.chance.random() < 0.4:
                world.log.append((name, (id_,)))
            else:
                world.database.insert(name, (id_, version))

    world.between_watermarks = lambda: write() if left > 0 else None
    world.start()
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s and not world.errors:
        world.parts.order.send_chunk_rows()
        if left > 0 and chance.random() < 0.5:
            write()
        if chance.random() < 0.7 and read < len(world.log):
            world.step(read)
            read += 1
        dump = world.parts.progress.own
        assert dump is not None
        if left <= 0 and dump.done and read == len(world.log) and world.queue.records_total == 0:
            break
    try:
        check_the_end(world, seed, deadline_s)
    finally:
        world.stop()


@pytest.mark.parametrize("seed", [*REGRESSIONS, *range(40)])
def test_the_output_is_the_source_whatever_the_interleaving(seed: int) -> None:
    play(seed, World())


@pytest.mark.parametrize("seed", range(4))
def test_the_output_is_the_source_though_reads_fail_and_windows_overflow(seed: int) -> None:
    world = World(fail_share=0.1, keys_max=2)
    play(seed, world)

    notes = [world.parts.windows.notes("initial", table) for table in (ORDERS, ITEMS)]
    assert [open_now for open_now, _, _ in notes] == [0, 0]
    assert sum(again for _, again, _ in notes) == sum(n for name, n in world.parts.windows.numbers().items() if "discarded" in name)
    for marker in world.markers[-1:]:
        proof = world.parts.windows.notes("initial", marker.table)[2]
        assert proof is not None
        assert (proof.low, proof.high, proof.rows) == (marker.low, marker.high, marker.rows_read)


def test_a_marker_tells_when_the_log_thread_met_the_low_watermark() -> None:
    world = World()
    world.database.insert(ORDERS, (1, 1))
    met_ms: list[tuple[str, int, int]] = []
    step = world.step

    def noting(at: int) -> None:
        before_ms = time.time_ns() // 1_000_000
        step(at)
        if str(world.log[at][1]).endswith("/low"):
            met_ms.append((world.log[at][1], before_ms, time.time_ns() // 1_000_000))

    world.step = noting  # type: ignore[method-assign]
    play_to_the_end(world)

    times = {token.split("/")[1]: (first, last) for token, first, last in met_ms}
    assert world.markers
    for marker in world.markers:
        first, last = times[marker.chunk_id.split("/")[1]]
        assert first <= marker.opened_ms <= last


def test_markers_count_every_row_read_and_tile_the_key_range() -> None:
    world = World(rows_max=4)
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))

    play_to_the_end(world)

    orders = [m for m in world.markers if m.table == ORDERS]
    assert [(m.after, m.upto) for m in orders] == [(None, (3,)), ((3,), (7,)), ((7,), (9,))]
    assert [(m.begins, m.final) for m in orders] == [(True, False), (False, False), (False, True)]
    assert {(m.dump, m.mode, m.scope) for m in world.markers} == {("initial", "rows", "table")}
    assert sum(m.rows_read for m in orders) == 10


def play_to_the_end(world: World, *, dump: Dump | None = None, before_step: Callable[[Any], None] = lambda _: None) -> None:
    """No writes: read the log until the dump is done."""
    read = len(world.log)
    world.start(threads=1, dump=dump)
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s and not world.errors:
        world.parts.order.send_chunk_rows()
        if read < len(world.log):
            before_step(world.log[read][1])
            world.step(read)
            read += 1
        dump = world.parts.progress.own
        if dump is not None and dump.ended and read == len(world.log):
            break
    assert not world.errors, world.errors
    assert time.monotonic() < deadline_s, "the dump does not end"
    seen = -1
    while seen != len(world.batches) or world.queue.records_total:
        seen = len(world.batches)
        threading.Event().wait(0.03)  # the consumer polls every 10 ms
    world.stop()


def test_a_table_without_a_key_that_is_left_alone_is_dumped_in_one_window() -> None:
    world = World(keyed=False)
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))

    play_to_the_end(world)

    assert [(m.rows_read, m.begins, m.final) for m in world.markers if m.table == ORDERS] == [(10, True, True)]


def test_a_table_without_a_key_that_never_rests_fails_its_own_dump_and_no_other() -> None:
    world = World(keyed=False)
    world.database.insert(ORDERS, (1, 1))
    world.database.insert(ITEMS, (1, 1))
    world.between_watermarks = lambda: world.database.insert(ORDERS, (len(world.log), 1))

    play_to_the_end(world)

    assert "shop.orders has no key and changed during each of 10 full scans" in fault_of(world, ORDERS)
    assert fault_of(world, ITEMS) == ""
    assert [(m.rows_read, m.final) for m in world.markers if m.table == ITEMS] == [(1, True)]


def test_each_dump_thread_reads_ahead_by_two_windows_of_its_own_table() -> None:
    world = World(rows_max=1)
    for id_ in range(9):
        world.database.insert(ORDERS, (id_, 1))
        world.database.insert(ITEMS, (id_, 1))

    def high_watermarks() -> int:
        return sum(isinstance(what, str) and token.endswith("/high") for what, token in world.log)

    world.start(threads=2)
    deadline_s = time.monotonic() + TIMEOUT_S
    while high_watermarks() < 4 and time.monotonic() < deadline_s:
        threading.Event().wait(0.01)
    world.stop()

    assert high_watermarks() == 4


def fault_of(world: World, table: TableId) -> str:
    """Why the table's dump has failed; empty when it is done."""
    progress = world.parts.progress.table(table)
    assert progress is not None
    assert progress.ended
    assert progress.done != bool(progress.fault)
    return progress.fault or ""


class LosesKeys(FakeSql):
    """A server that takes a key for another one when it gets it back: what the greatest key, or the last of a chunk, turns into."""

    def __init__(self, *, greatest: Any = None, last: Any = None) -> None:
        self._greatest, self._last = greatest, last

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        found = super().max_key(table)
        return found if self._greatest is None or table.id != ORDERS else (f"constant {table.id}", (self._greatest,))

    def exact_key(self, table: Table, shown: Any) -> Any:
        return shown if self._last is None or table.id != ORDERS else None

    def last_key(self, table: Table, after: Any, upto: Any, row_count: int, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        return f"constant {table.id}", (self._last,)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (LosesKeys(greatest=(-1,)), "does not find its greatest key again by id"),
        (LosesKeys(last=(-1,)), "does not find the last key of a chunk, after the one before, again by id"),
        (LosesKeys(last=(2,)), "does not find the last key of a chunk, after the one before, again by id"),
        (LosesKeys(last=("?",)), "does not find the last key of a chunk, after the one before, again by id"),
    ],
)
def test_a_table_whose_keys_the_server_does_not_find_again_fails_its_own_dump_and_is_never_done(sql: FakeSql, reason: str) -> None:
    world = World(sql=sql)
    for id_ in range(20):
        world.database.insert(ORDERS, (id_, 1))
        world.database.insert(ITEMS, (id_, 1))

    play_to_the_end(world)

    assert reason in fault_of(world, ORDERS)
    assert fault_of(world, ITEMS) == ""
    assert world.fold()[ITEMS] == world.source()[ITEMS]
    assert len(world.markers) <= 8


def test_a_chunk_that_ends_before_the_greatest_key_which_is_still_there_is_an_error() -> None:
    class EndsEarly(FakeSql):
        def chunk_select(
            self, table: Table, after: Any, upto: Any, rows_max: int, *, where: str | None = None
        ) -> tuple[str, tuple[Any, ...]]:
            return super().chunk_select(table, after, (4,) if table.id == ORDERS else upto, rows_max)

    world = World(sql=EndsEarly())
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))

    play_to_the_end(world)

    assert "ended before the greatest key" in fault_of(world, ORDERS)


def test_a_chunk_that_ends_before_the_greatest_key_which_was_deleted_meanwhile_is_the_last() -> None:
    world = World()
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))
    deleted: list[int] = []

    def delete_the_greatest() -> None:
        if not deleted and any("chunk" in statement for statement, _ in world.database.selects):
            deleted.append(9)
            world.database.delete(ORDERS, (9,))

    world.between_watermarks = delete_the_greatest

    play_to_the_end(world)

    assert fault_of(world, ORDERS) == ""
    assert world.fold() == world.source()


def test_a_row_that_is_logged_but_not_visible_yet_is_dumped_though_its_key_is_the_greatest() -> None:
    world = World()
    for id_ in range(4):
        world.database.insert(ORDERS, (id_, 1))
    world.database.hide_from_next_snapshot(ORDERS, (9, 1))

    play_to_the_end(world)

    assert world.fold() == world.source()


def test_columns_that_changed_between_select_and_high_watermark_are_read_again() -> None:
    world = World()
    for id_ in range(3):
        world.database.insert(ORDERS, (id_, 1))
    changed = Table(
        id=ORDERS, columns=(*world.tables[ORDERS].columns[:1], *world.tables[ITEMS].columns[1:]), key=("id",), comment="altered"
    )
    read = len(world.log)
    world.start(threads=1)
    deadline_s = time.monotonic() + TIMEOUT_S

    altered = False
    while time.monotonic() < deadline_s and not world.errors:
        world.parts.order.send_chunk_rows()
        if read < len(world.log):
            what, value = world.log[read]
            if not altered and isinstance(what, str) and value.endswith("/high"):
                altered = True
                world.tables[ORDERS] = changed
                world.encoders[ORDERS] = FakeEncoder(changed)
            world.step(read)
            read += 1
        dump = world.parts.progress.own
        if dump is not None and dump.done and read == len(world.log):
            break
    world.stop()

    assert not world.errors
    assert altered
    assert sum(m.rows_read for m in world.markers if m.table == ORDERS) == 3
    assert world.parts.windows.resets(ORDERS) >= 1


def test_a_reader_that_begins_when_its_task_has_been_stopped_ends_at_once() -> None:
    world = World()
    world.database.insert(ORDERS, (1, 1))
    world.parts.progress.stop()
    world.start(threads=0)
    reader = world.parts.reader(
        0,
        connect=lambda: FakeDumpConnection(world.database),
        sql=world.sql,
        tables=world.tables,
        shares=SimpleNamespace(
            next_share=lambda _number: Share(ORDERS), put_back=lambda _share: None, take_together=lambda _number, _max: []
        ),
        limits=world.limits,
    )
    thread = threading.Thread(target=reader.run, daemon=True)

    thread.start()
    thread.join(timeout=5)
    ended = not thread.is_alive()
    reader.stop()

    assert ended


class SharedKeyEncoder(FakeEncoder):
    """As message.key.columns may have it: all rows of the table have one message key."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.plan.key = (1,)

    def key_of(self, id_: int) -> bytes | None:
        return b"all"


def test_a_table_whose_message_key_does_not_distinguish_rows_is_dumped_while_it_rests() -> None:
    world = World()
    world.encoders[ORDERS] = SharedKeyEncoder(world.tables[ORDERS])
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))

    play_to_the_end(world)

    assert fault_of(world, ORDERS) == ""
    assert world.fold() == world.source()


def test_a_table_whose_message_key_does_not_distinguish_rows_and_that_never_rests_fails_its_own_dump_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_rows, "STUCK_TRIES_MAX", 10)
    world = World()
    world.encoders[ORDERS] = SharedKeyEncoder(world.tables[ORDERS])
    world.database.insert(ORDERS, (1, 1))
    world.database.insert(ITEMS, (1, 1))
    world.between_watermarks = lambda: world.database.insert(ORDERS, (len(world.log), 1))

    play_to_the_end(world)

    assert "shop.orders changed inside each of 10 windows over the same rows" in fault_of(world, ORDERS)
    assert "message.key.columns" in fault_of(world, ORDERS)
    assert fault_of(world, ITEMS) == ""


class EnumKeys(FakeSql):
    """The ids of ORDERS are members of an ENUM, of which the table's comment has the number."""

    def chunk_select(self, table: Table, after: Any, upto: Any, rows_max: int, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        self._check(table, after, upto)
        return super().chunk_select(table, after, upto, rows_max)

    def key_lookup(self, table: Table, key: Any, after: Any, *, where: str | None = None) -> tuple[str, tuple[Any, ...]]:
        self._check(table, key, after)
        return super().key_lookup(table, key, after)

    @staticmethod
    def _check(table: Table, *keys: Any) -> None:
        members = tuple(str(id_) for id_ in range(int(table.comment or 5)))
        column = Column(name="id", type="enum", type_text="enum", nullable=False, members=members, charset="latin1")
        for key in keys:
            if table.id == ORDERS and key is not None:
                mysql_sql.key_lookup(Table(id=ORDERS, columns=(column,), key=("id",)), (str(key[0]),), None)


def alter(world: World, *, members: int) -> None:
    """The log has come to a statement that gives the ENUM so many members."""
    world.tables[ORDERS] = replace(world.tables[ORDERS], comment=str(members))
    world.encoders[ORDERS] = FakeEncoder(world.tables[ORDERS])
    world.parts.windows.table_changed(ORDERS, "DDL inside the window")


@pytest.mark.parametrize("rows_max", [3, 100])
def test_a_key_that_only_a_later_definition_of_the_table_holds_is_read_again_once_the_log_has_come_to_that(rows_max: int) -> None:
    world = World(sql=EnumKeys(), rows_max=rows_max)
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))
    altered: list[str] = []

    def alter_at_the_first_high_watermark(value: Any) -> None:
        if isinstance(value, str) and value.endswith("/high") and not altered:
            altered.append(value)
            alter(world, members=10)

    play_to_the_end(world, before_step=alter_at_the_first_high_watermark)

    assert altered
    assert fault_of(world, ORDERS) == ""
    assert world.fold() == world.source()


def test_a_key_that_no_definition_of_the_table_holds_fails_its_own_dump_and_no_other() -> None:
    world = World(sql=EnumKeys())
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))
        world.database.insert(ITEMS, (id_, 1))

    play_to_the_end(world)

    assert "shop.orders.id holds a member that its definition lacks" in fault_of(world, ORDERS)
    assert fault_of(world, ITEMS) == ""
    assert world.fold()[ITEMS] == world.source()[ITEMS]


def test_a_frontier_that_the_table_s_definition_does_not_hold_any_more_begins_the_dump_again() -> None:
    world = World(sql=EnumKeys())
    alter(world, members=10)
    for id_ in range(10):
        world.database.insert(ORDERS, (id_, 1))
    begun = dump_of("d", [ORDERS, ITEMS]).started(ORDERS, key=("id",), upto=(99,)).advanced(ORDERS, after=(98,), rows=1, done=False)

    play_to_the_end(world, dump=begun)

    assert fault_of(world, ORDERS) == ""
    assert world.fold() == world.source()


def test_only_a_dump_that_a_held_table_is_left_in_is_reported_to_wait() -> None:
    world = World()
    with capture_logs() as lines:
        world.parts.windows.hold(frozenset({ORDERS}), "it is prepared")
        world.parts.windows.hold(frozenset(), "")
        world.parts.progress.change_own(lambda _: dump_of("d", [ORDERS]))

        world.parts.windows.hold(frozenset({ORDERS, ITEMS}), "it is prepared")

    assert [(line["event"], line["table"]) for line in lines] == [("the table's dump waits", str(ORDERS))]


def test_a_dump_that_was_paused_for_a_moment_goes_on_though_its_reader_has_seen_only_the_pause() -> None:
    world = World()
    parts = world.parts
    request = DumpRequest(id="1", connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(r"shop\.orders",))
    paused = with_wanted(request, Wanted.PAUSED)
    parts.progress.change_requests(lambda known: known.added(request, [ORDERS]).added(paused, []))
    parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    assert parts.windows.declare(ORDERS, keyed=True, resets=0, windows_max=2) is None
    parts.progress.change_requests(lambda known: known.added(with_wanted(paused, Wanted.RUNNING), []))
    done: list[bool] = []
    waiting = threading.Thread(target=lambda: done.append(parts.windows.wait_done(ORDERS, resets=0)), daemon=True)

    waiting.start()
    waiting.join(timeout=5)
    parts.progress.stop()

    assert done == [False]


def test_a_chunk_that_does_not_go_on_where_its_table_has_come_to_is_not_sent_and_another_reader_s_is() -> None:
    """Two lanes of one table, one of which was read before the table began again: its rows would leave a gap in front of them."""
    world = World(queue_records_max=100)
    parts = world.parts
    world.database.insert(ORDERS, *[(n, n) for n in range(10)])
    begun = dump_of("d", [ORDERS]).started(ORDERS, key=("id",), upto=(9,)).advanced(ORDERS, after=(2,), rows=3, done=False)
    parts.progress.change_own(lambda _: begun.split(ORDERS, upto=(9,), at=(5,)))
    connection = FakeDumpConnection(world.database)

    def chunk(lane: int, after: Any, upto: Any) -> None:
        ticket = parts.windows.declare(ORDERS, keyed=True, resets=parts.windows.resets(ORDERS, lane), windows_max=2, lane=lane)
        assert ticket is not None
        text, parameters = fake_sql.chunk_select(world.tables[ORDERS], after, upto, 100)
        found = connection.select(text, parameters, key=(0,))
        read = ChunkRead(table=world.tables[ORDERS], rows=found.rows, row_count=found.row_count, after=after, upto=upto, final=True)
        assert parts.windows.submit(ticket, read)
        for at, token in enumerate((ticket.low_token, ticket.high_token), start=1):
            parts.order.watermark(token, WatermarkPosition(file="f", pos=at, sequence_high=1, sequence_low=at))

    chunk(1, (6,), (9,))
    assert (world.queue.records_total, parts.windows.resets(ORDERS, 1), parts.windows.resets(ORDERS, 0)) == (0, 1, 0)
    chunk(0, (2,), (5,))
    assert world.queue.records_total == 3
    progress = parts.progress.table(ORDERS)
    assert progress is not None
    assert [(one.after, one.upto) for one in progress.ranges] == [((5,), (9,))]
