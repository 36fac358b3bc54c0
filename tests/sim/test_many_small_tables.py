"""Many small tables beside the log, by seed: read together and alone, altered and rewritten meanwhile, with reads that fail and windows that overflow. # I2 I3

The world is that of test_dump_beside_log.py with more tables, and ``readers/dump/dumping.py`` as it runs in a task. A seed that ever failed belongs into
``REGRESSIONS``.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from dblog.clock import SystemClock
from dblog.core.dumps import dump_of
from dblog.core.retries import RetryPolicy
from dblog.core.unrequested_repairs import UnrequestedRepairs
from dblog.core.watermark import WatermarkPosition
from dblog.errors import TableChangedError, TransientError
from dblog.model import Segment, Table, TableId
from dblog.readers.dump import small_tables
from dblog.readers.dump.dumping import Dumping
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.options import DumpRule
from sim.test_dump_beside_log import FakeEncoder, World, table_of
from sim.the_end import check_the_end
from support.fake_session import FakeDumpConnection
from support.task_parts import WHOLE_TABLES, Threads

REGRESSIONS: tuple[int, ...] = ()
TIMEOUT_S = 120.0
TABLES = tuple(TableId("shop", f"t{n:02}") for n in range(14))


class ManyWorld(World):
    """The tables of a shop; ``alter`` changes one as a statement of the log does."""

    def __init__(self, *, threads: int = 1, fail_share: float = 0.0, keys_max: int = 200, rows_max: int = 4) -> None:
        super().__init__(queue_records_max=5, keys_max=keys_max, rows_max=rows_max, fail_share=fail_share)
        for table in map(table_of, TABLES):
            self.tables[table.id] = table
            self.encoders[table.id] = FakeEncoder(table)
            self.database.create(table)
        options: Any = SimpleNamespace(
            dump=DumpRule(mode="initial", dumps=lambda _: True, goes_on=False),
            selection=Mock(includes=lambda _: True),
            redumps=True,
            unrequested_repairs=UnrequestedRepairs(keeps_deletes=False, keeps_removals=True),
            run="run",
            dump_threads=threads,
            watermark_name="m",
            chunk_limits=self.limits,
            retry_policy=RetryPolicy(),
        )
        schemas: Any = SimpleNamespace(table=self.tables.get, prepare=lambda _: None, joined_numbers=dict, removals=dict)
        server: Any = SimpleNamespace(
            own_condition=lambda _: None,
            open_chunks=lambda: FakeDumpConnection(self.database, before_select=self._before_select),
            chunk_sql=self.sql,
        )
        self.dumping = Dumping(
            progress=self.parts.progress,
            windows=self.parts.windows,
            notes=self.parts.notes,
            tally=self.parts.tally,
            server=server,
            schemas=schemas,
            options=options,
            stopped=threading.Event(),
            threads=Threads(self._run),  # type: ignore[arg-type]
            task=SimpleNamespace(own_dump_ended=lambda _: None),
            modes=WHOLE_TABLES,
            estimates=RowEstimates(),
            clock=SystemClock(),
        )

    def _before_select(self) -> None:
        self.between_watermarks()
        dice = self.chance.random()
        if dice < self.fail_share:
            raise TransientError("the connection was killed")
        if dice < 2 * self.fail_share:
            raise TableChangedError("the table has changed")

    def begin(self) -> None:
        self.parts.progress.change_own(lambda _: dump_of("d", TABLES))
        threading.Thread(target=self._run, args=(self._consume,), daemon=True).start()
        self.dumping.start()

    def step(self, at: int) -> None:
        what, value = self.log[at]
        if isinstance(value, Table):
            self.parts.order.moved(at)
            self.tables[what] = value
            self.encoders[what] = FakeEncoder(value)
            self.parts.windows.table_changed(what, "DDL inside the window")
        elif isinstance(what, tuple):
            self.parts.order.moved(at)
            table, old, new, version = (*what, *value)
            encoder = self.encoders[table]
            keys = [encoder.key_of(old), encoder.key_of(new)]
            bodies = [b"d %d %d" % (old, at), b"c %d %d %d" % (new, version, at)]
            self.parts.order.rows([Segment(str(table), keys, bodies, table)], records=2, size_bytes=40, source_ts_us=None)
        elif isinstance(what, str):
            self.parts.order.moved(at)
            watermark = WatermarkPosition(file="f", pos=at, sequence_high=1, sequence_low=at)
            self.parts.order.watermark(value, watermark)
        else:
            super().step(at)

    def fold(self) -> dict[TableId, dict[int, int]]:
        out: dict[TableId, dict[int, int]] = {name: {} for name in TABLES}
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
        return {name: {row[0]: row[1] for row in self.database.rows[name]} for name in TABLES}


def play(seed: int, world: ManyWorld, *, writes: int = 150) -> None:
    """Write, alter and change keys, read the log with pauses, until the dump is done and the log is read to its end."""
    chance = random.Random(seed)
    world.chance = random.Random(seed + 1)
    version = 0
    for name in TABLES if writes else ():
        for id_ in range(chance.choice((0, 1, 2, 3, 4, 9))):
            version += 1
            world.database.insert(name, (id_, version))
    read = len(world.log)  # the connector starts here
    left = writes
    altered = 0

    def write() -> None:
        """One change; called by this thread, and by dump threads between snapshot and SELECT."""
        nonlocal version, left, altered
        with world.database.lock:
            left -= 1
            version += 1
            dice = world.chance
            name, id_ = dice.choice(TABLES), dice.randrange(6)
            rows = {row[0]: row for row in world.database.rows[name]}
            kind = dice.random()
            if kind < 0.1:
                altered += 1
                world.log.append((name, replace(world.tables[name], comment=f"altered {altered}")))
            elif kind < 0.3 and id_ in rows and (new := dice.randrange(6)) not in rows:
                del rows[id_]
                world.database.rows[name] = [*rows.values(), (new, version)]
                world.log.append(((name, id_), (new, version)))
            elif kind < 0.5 and id_ in rows:
                del rows[id_]
                world.database.rows[name] = list(rows.values())
                world.log.append((name, (id_,)))
            else:
                rows.pop(id_, None)
                world.database.rows[name] = list(rows.values())
                world.database.insert(name, (id_, version))

    world.between_watermarks = lambda: write() if left > 0 else None
    world.begin()
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
        world.dumping.stop()
        world.stop()


@pytest.mark.parametrize("seed", [*REGRESSIONS, *range(25)])
def test_the_output_is_the_source_however_small_tables_are_written_and_altered_while_they_are_read(seed: int) -> None:
    play(seed, ManyWorld(threads=1 + seed % 3))


@pytest.mark.parametrize("seed", range(6))
def test_the_output_is_the_source_though_reads_of_many_tables_fail_and_their_windows_overflow(seed: int) -> None:
    play(seed, ManyWorld(threads=1 + seed % 2, fail_share=0.03, keys_max=20))


def test_small_tables_share_pairs_of_watermarks_and_larger_ones_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "TABLES_MAX", 5)
    world = ManyWorld(rows_max=4)
    for at, name in enumerate(TABLES):
        for id_ in range(9 if at == 6 else at % 4):
            world.database.insert(name, (id_, 1))

    play(0, world, writes=0)

    lows = [token for what, token in world.log if isinstance(what, str) and token.endswith("/low")]
    of_large = [(m.after, m.upto, m.final) for m in world.markers if m.table == TABLES[6]]
    assert len(of_large) > 1
    assert len(lows) - len(of_large) <= 4, "thirteen tables"
    assert {m.table for m in world.markers} == set(TABLES)
    assert {len([m for m in world.markers if m.table == name]) for name in TABLES if name != TABLES[6]} == {1}
