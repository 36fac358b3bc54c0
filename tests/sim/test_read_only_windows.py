"""Windows with read marks beside the log, by seed: commits are in the log before any snapshot shows them, transactions come in parts, the log
thread is anywhere between, and nothing is ever written. # I2 I3

The database keeps its log and, apart from that, how much of it is visible. The log thread is this test; chunk threads, order, windows and marks are
the real ones. A seed that ever failed belongs into ``REGRESSIONS``.
"""

from __future__ import annotations

import random
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.core.chunk_size import ChunkLimits
from dblog.core.dumps import dump_of
from dblog.core.watermark import WatermarkPosition
from dblog.errors import TransientError
from dblog.model import Batch, Column, Segment, Table, TableId
from dblog.readers.dump import proof
from dblog.readers.dump.chunk import ChunkReader
from dblog.readers.dump.marks import MarkExchange
from dblog.readers.log.stream import OpenLog
from dblog.readers.queue import BlockingQueue
from sim.the_end import check_the_end
from support.fake_session import FakeDatabase, FakeDumpConnection, fake_sql
from support.task_parts import OneByOne, TaskParts

REGRESSIONS: tuple[int, ...] = ()
TIMEOUT_S = 120.0
ROW_BITS = 23
ROW_BYTES = 22
"""Packet header 4, zero byte, null bitmap, two numbers."""
TABLES = [TableId("shop", "orders"), TableId("shop", "items")]
Change = tuple[TableId, int, int | None]
"""Table, id, and the version that it has now; None: it is deleted."""


class Encoder:
    """Rows of two BIGINTs to records: key and value are the numbers' texts."""

    def __init__(self, table: Table) -> None:
        self.plan = SimpleNamespace(table=table, topic=str(table.id), key=(0,), unwritten_schemas=None)

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        return min(len(rows), start + ROW_BYTES * max(1, min(rows_max, bytes_max // ROW_BYTES)))

    def encode_chunk(self, rows: bytes, context: Any, dropped_keys: Any) -> tuple[list[bytes | None], list[bytes | None], int, int]:
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        dropped = 0
        for at in range(0, len(rows), ROW_BYTES):
            id_, version = (int.from_bytes(rows[at + o : at + o + 8], "little") for o in (6, 14))
            if b"%d" % id_ in dropped_keys:
                dropped += 1
                continue
            keys.append(b"%d" % id_)
            values.append(b"r %d %d %d" % (id_, version, context.sequence_low))
        return keys, values, dropped, 0


class At:
    """The log thread's position: so many entries are behind it, none of a transaction in part. A ``Progress`` as far as marks ask."""

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def watermark_position(self) -> WatermarkPosition:
        return WatermarkPosition(file="f", pos=self.entries, sequence_high=1, sequence_low=self.entries << ROW_BITS)

    def has_come_to(self, mark: int, *, quiet: bool) -> bool:
        return self.entries >= mark

    @property
    def sequence(self) -> tuple[int, int]:
        return 1, self.entries << ROW_BITS

    def copy(self) -> At:
        return At(self.entries)


class Connection(FakeDumpConnection):
    """The source goes on between whatever a chunk thread asks of it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.database, before_select=world.before_select)
        self._world = world

    def begin_snapshot_behind(self, low: Any) -> bool:
        self._world.between()
        return super().begin_snapshot_behind(low)

    def log_end(self) -> int:
        self._world.between()
        return super().log_end()


class World:
    """A source whose commits become visible after they are logged, and a task's readers over it."""

    def __init__(self, seed: int, *, fail_share: float = 0.0, keys_max: int = 100) -> None:
        self.chance = random.Random(seed)
        self.fail_share = fail_share
        self.database = FakeDatabase()
        self.log: list[tuple[Change, bool]] = []
        """Each with whether it ends its transaction."""
        self.applied = 0
        self.read = 0
        self.begun = 0
        """Where the transaction begins that the log thread is in."""
        self.version = 0
        self.tables = {name: self._table(name) for name in TABLES}
        for table in self.tables.values():
            self.database.create(table)
        self.encoders: dict[TableId, Any] = {name: Encoder(table) for name, table in self.tables.items()}
        self.queue = BlockingQueue(records_max=3, bytes_max=0)
        self.markers: list[Any] = []
        self.parts = TaskParts(queue=self.queue, keys_max=keys_max, encoders=self.encoders, markers=self.markers)
        self.exchange = MarkExchange(
            order=self.parts.order,
            windows=self.parts.windows,
            schemas=SimpleNamespace(passes_over=lambda _table, _position: False),  # type: ignore[arg-type]
            log=OpenLog(),
        )
        self.exchange.stored(self.exchange.to_store())
        self.batches: list[Batch] = []
        self.errors: list[BaseException] = []
        self.readers: list[ChunkReader] = []
        self.writes_left = 0
        self.rests = False

    @staticmethod
    def _table(name: TableId) -> Table:
        columns = tuple(Column(name=n, type="bigint", type_text="bigint", nullable=False) for n in ("id", "version"))
        return Table(id=name, columns=columns, key=("id",), primary_key=True)

    # ---- the source

    def write(self) -> None:
        """One transaction of one or more rows into the log; what it changes is not visible yet."""
        with self.database.lock:
            rows = self.chance.choice((1, 1, 2, 3))
            for number in range(rows):
                self.version += 1
                deletes = self.chance.random() < 0.3
                change = self.chance.choice(TABLES), self.chance.randrange(30), None if deletes else self.version
                self.log.append((change, number == rows - 1))
            self.database.logged = len(self.log)

    def show(self) -> None:
        """The oldest transaction that is not visible becomes so, as a whole."""
        with self.database.lock:
            while self.applied < len(self.log):
                (table, id_, version), last = self.log[self.applied]
                self.applied += 1
                rows = [row for row in self.database.rows[table] if row[0] != id_]
                self.database.rows[table] = rows if version is None else [*rows, (id_, version)]
                if last:
                    break
            self.database.visible = self.applied

    # ---- the task

    def start(self, threads: int = 2) -> None:
        self.parts.progress.change_own(lambda _: dump_of("d", TABLES))
        shares = OneByOne(list(TABLES))
        for number in range(threads):
            reader = self.parts.reader(
                number,
                connect=lambda: Connection(self),
                sql=fake_sql,
                tables=self.tables,
                shares=shares,
                limits=ChunkLimits(rows_max=3, bytes_max=1 << 20, rows_min=1),
                exchange=self.exchange,
            )
            self.readers.append(reader)
            threading.Thread(target=self._run, args=(reader.run,), daemon=True).start()
        threading.Thread(target=self._run, args=(self._consume,), daemon=True).start()

    def between(self) -> None:
        """Some transactions are logged, and some become visible."""
        if self.rests:
            return
        with self.database.lock:
            for _ in range(self.chance.randrange(3)):
                if self.writes_left > 0:
                    self.writes_left -= 1
                    self.write()
            for _ in range(self.chance.randrange(3)):
                self.show()

    def before_select(self) -> None:
        self.between()
        with self.database.lock:
            if self.chance.random() < self.fail_share:
                raise TransientError("the connection was killed")

    def _run(self, work: Any) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self.errors.append(e)

    def _consume(self) -> None:
        while not self.parts.progress.stopping:
            self.batches += self.queue.poll(timeout_s=0.01, records_max=10, bytes_max=1 << 20)

    def step(self) -> None:
        """The log thread takes one entry, and looks at the marks, as ``LogStream`` does."""
        (table, id_, version), last = self.log[self.read]
        sequence = (self.read << ROW_BITS) + (1 << ROW_BITS - 1)  # a row stands behind the beginning of its transaction
        self.parts.order.moved(self.read)
        body = b"d %d %d" % (id_, sequence) if version is None else b"c %d %d %d" % (id_, version, sequence)
        self.parts.order.rows([Segment(str(table), [b"%d" % id_], [body], table)], records=1, size_bytes=len(body), source_ts_us=None)
        self.read += 1
        if last:
            self.begun = self.read
        self.look(quiet=False)

    def look(self, *, quiet: bool) -> None:
        at: Any = At(self.begun)
        self.exchange.passed(at, between=self.begun == self.read, quiet=quiet, not_before={})

    def fold(self) -> dict[TableId, dict[int, int]]:
        """The tables that the output describes; asserts that no key goes back in time. # I2"""
        out: dict[TableId, dict[int, int]] = {name: {} for name in TABLES}
        newest: dict[tuple[TableId, int], int] = {}
        versions: dict[tuple[TableId, int], int] = {}
        for segment in (s for batch in self.batches for s in batch.segments):
            table = segment.table
            assert table is not None
            for value in segment.values:
                assert value is not None
                op, id_, *rest = value.decode().split()
                if op == "r":
                    assert self.was(table, int(id_), int(rest[-1]) >> ROW_BITS, int(rest[0])), (
                        f"{value!r} is not how the row was there, or later"
                    )
                assert int(rest[-1]) >= newest.get((table, int(id_)), -1), f"{table} {id_} went back: {value!r}"
                newest[table, int(id_)] = int(rest[-1])
                if op == "d":
                    out[table].pop(int(id_), None)
                else:
                    assert int(rest[0]) >= versions.get((table, int(id_)), 0), f"{table} {id_} shows an older version again: {value!r}"
                    versions[table, int(id_)] = out[table][int(id_)] = int(rest[0])
        return out

    def was(self, table: TableId, id_: int, position: int, version: int) -> bool:
        """Whether the row had the version at the position, or has got it since: a dump row must not be older than it claims."""
        changes = [(at, entry[2]) for at, (entry, _) in enumerate(self.log) if entry[:2] == (table, id_)]
        before = [v for at, v in changes if at < position][-1:]
        return version in [*before, *(v for at, v in changes if at >= position)]

    def source(self) -> dict[TableId, dict[int, int]]:
        return {name: {row[0]: row[1] for row in self.database.rows[name]} for name in TABLES}

    def stop(self) -> None:
        self.parts.progress.stop()
        self.queue.close()
        for reader in self.readers:
            reader.stop()


def play(seed: int, world: World, *, writes: int = 200) -> None:
    """Write, show and read the log with pauses, until the dump is done and the log is read to its end."""
    chance = random.Random(seed + 1)
    for _ in range(chance.randrange(0, 30)):
        world.write()
        world.show()
    world.read = world.begun = len(world.log)  # the connector starts here
    world.writes_left = writes
    world.start()
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s and not world.errors:
        world.parts.order.send_chunk_rows()
        with world.database.lock:
            if world.writes_left > 0 and chance.random() < 0.1:
                world.writes_left -= 1
                world.write()
            if chance.random() < 0.1:
                world.show()
        if chance.random() < 0.7 and world.read < len(world.log):
            world.step()
        elif world.read == len(world.log):
            world.look(quiet=True)
        dump = world.parts.progress.own
        assert dump is not None
        over = world.writes_left <= 0 and world.applied == world.read == len(world.log)
        if over and dump.done and world.queue.records_total == 0:
            break
    try:
        check_the_end(world, seed, deadline_s)
        assert world.database.watermarks == {}
    finally:
        world.stop()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PROOF_INTERVAL_S", 0.001)


@pytest.mark.parametrize("seed", [*REGRESSIONS, *range(40)])
def test_the_output_is_the_source_whatever_the_interleaving_and_nothing_is_written(seed: int) -> None:
    play(seed, World(seed))


@pytest.mark.parametrize("seed", range(4))
def test_the_output_is_the_source_though_reads_fail_and_windows_overflow(seed: int) -> None:
    play(seed, World(seed, fail_share=0.1, keys_max=2))


def test_a_log_that_has_nothing_more_closes_every_window() -> None:
    world = World(1)
    for _ in range(20):
        world.write()
        world.show()

    play(1, world, writes=0)

    assert world.markers[-1].final
    assert {marker.low.pos for marker in world.markers} == {len(world.log)}
    lows = [marker.low.sequence_low for marker in world.markers]
    assert len(set(lows)) == len(lows), "windows that open at one position sort all the same"


def test_a_snapshot_that_does_not_show_what_the_log_has_brought_is_taken_again_and_counted() -> None:
    world = World(1)
    world.rests = True
    world.write()
    while world.read < len(world.log):
        world.step()
    world.start(threads=1)
    deadline_s = time.monotonic() + TIMEOUT_S
    retries = 0.0
    while retries < 3 and time.monotonic() < deadline_s:
        world.look(quiet=True)
        retries = world.parts.tally.numbers()["proof_retries_total"]
        threading.Event().wait(0.001)
    selects = len(world.database.selects)
    world.show()
    dump = world.parts.progress.own
    while dump is not None and not dump.done and time.monotonic() < deadline_s:
        world.look(quiet=True)
        dump = world.parts.progress.own
    world.stop()

    assert retries >= 3
    assert selects == 0, "no row is read before the proof"
    assert dump is not None
    assert dump.done
    assert not world.errors
