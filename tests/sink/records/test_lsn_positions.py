"""Positions of PostgreSQL's records sort changes of one key by their commits, whoever wrote them: dblog, Debezium, or one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog_sink.records.lsn_positions import is_numbered, lsn_of, lsn_sql, position_sql
from dblog_sink.records.source_epochs import PartitionLogs, epoch_sql, hand_over
from pyspark.sql import SparkSession
from sink.harness import Record, Sink
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

COLUMNS = [("id", "int"), ("v", ["null", "string"])]
LONG_AGO, NOW = 900_000, 1_000_000
"""Epochs of dblog's: minutes of its clock."""
_KEYS = 10
_SOURCE = "struct<op:string,source:struct<sequence:string,lsn:bigint>>"


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A record as it lies in a topic partition. ``own``: D7's numbers, of dblog's; ``last_commit``: of Debezium's."""

    key: int
    value: str | None
    op: str = "u"
    lsn: int | None = None
    own: tuple[int, int] | None = None
    last_commit: int | None = None

    @property
    def sequence(self) -> str:
        """As the writer writes it."""
        first, second = self.own if self.own is not None else (self.last_commit, self.lsn)
        return f"[{_quoted(first)},{_quoted(second)}]"


def _quoted(number: int | None) -> str:
    return "null" if number is None else f'"{number}"'


def selected(spark: SparkSession, records: list[Logged], *sql: str, partitions: list[int] | None = None) -> list[Any]:
    rows = [
        ((one.op, (one.sequence, one.lsn)), partition, offset)
        for (offset, one), partition in zip(enumerate(records), partitions or [0] * len(records), strict=True)
    ]
    return spark.createDataFrame(rows, f"v {_SOURCE}, partition int, offset bigint").selectExpr(*sql).collect()


def test_dblog_s_numbers_are_told_from_debezium_s_two_lsns_by_the_lsn_of_the_record(spark: SparkSession) -> None:
    position = sequence_of(epoch=NOW, lsn=0x3_0000_1000, number=7)
    of_dblog = [
        Logged(key=1, value="a", lsn=0x2_FFFF_F000, own=position),
        Logged(key=1, value="a", op="r", own=sequence_of(epoch=NOW, lsn=0x3_0000_1000)),
        Logged(key=1, value="a", lsn=8, own=(0, 1 << 34)),
    ]
    of_debezium = [
        Logged(key=1, value="a", lsn=0x3_0000_0FF8, last_commit=0x3_0000_0000),
        Logged(key=1, value="a", lsn=0x3_0000_0FF8, last_commit=0x3_0000_1000),  # the transaction was open while another one was committed
        Logged(key=1, value="a", lsn=0x3_0000_0FF8),
        Logged(key=1, value="a", op="r", last_commit=0x3_0000_0000),  # of an incremental snapshot
        Logged(key=1, value="a", op="r"),
    ]

    rows = selected(spark, [*of_dblog, *of_debezium], f"{is_numbered('v')} AS own", f"{lsn_sql('v', sequence=True)} AS lsn")

    assert [row["own"] for row in rows] == [True] * 3 + [False] * 5
    assert [row["lsn"] for row in rows] == [0x3_0000_1000, 0x3_0000_1000, 8, 0x3_0000_0FF8, 0x3_0000_1000, 0x3_0000_0FF8, 0, 0]
    assert lsn_of(position) == 0x3_0000_1000


def test_a_record_that_does_not_decode_has_no_position_and_one_without_sequence_that_of_its_lsn(spark: SparkSession) -> None:
    broken = replace(Logged(key=1, value="a", lsn=8, last_commit=8), op=None)  # type: ignore[arg-type]

    (found,) = selected(spark, [broken], *position_sql("v", sequence=True))
    (old,) = selected(spark, [Logged(key=1, value="a", lsn=0x5_0000_0010)], *position_sql("v", sequence=False))

    assert tuple(found) == (None, None)
    assert lsn_of(tuple(old)) == 0x5_0000_0010


# -- histories ------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Transaction:
    commit: int
    rows: tuple[tuple[int, int, str | None], ...]
    """LSN, key, value."""


def transactions(dice: random.Random, *, count: int) -> list[Transaction]:
    """Transactions in the order of their commits. Several are open at once; a row that one of them has changed waits for its commit."""
    lsn = dice.choice((0x1000, 0xFFFF_F000, 0x7_FFFF_FF00))
    running: list[list[tuple[int, int, str | None]]] = [[], []]
    done: list[Transaction] = []
    while len(done) < count:
        lsn += 8 * dice.randrange(1, 40)
        number = dice.randrange(len(running))
        rows, others = running[number], {key for other in running if other is not running[number] for _, key, _ in other}
        free = [key for key in range(_KEYS) if key not in others]
        if free and dice.random() < 0.7:
            rows.append((lsn, dice.choice(free), dice.choice((None, f"at {lsn}"))))
        elif rows:
            done.append(Transaction(commit=lsn, rows=tuple(rows)))
            running[number] = []
    return done


def state_at(log: list[Transaction], lsn: int) -> dict[int, str | None]:
    """Every key's value by what was committed up to there; each row was there before, without one."""
    return dict.fromkeys(range(_KEYS)) | {key: value for one in log if one.commit <= lsn for _, key, value in one.rows}


def by_debezium(log: list[Transaction], first: int, last: int, *, snapshot: bool = False) -> Iterator[Logged]:
    """Transactions ``first`` to ``last``; it begins with whole ones, and knows the commit before, unless it begins with a snapshot."""
    if snapshot:
        for key, value in state_at(log, log[first - 1].commit).items():
            yield Logged(key=key, value=value, op="r", lsn=log[first - 1].commit)
    for number in range(first, last):
        before = log[number - 1].commit if number > first or (number and not snapshot) else None
        for lsn, key, value in log[number].rows:
            yield Logged(key=key, value=value, lsn=lsn, last_commit=before)


def by_dblog(log: list[Transaction], first: int, last: int, epoch: int, dice: random.Random) -> Iterator[Logged]:
    """The same, and rows that were dumped between: those of a window's keys that no change in it has touched."""
    for number in range(first, last):
        for n, (lsn, key, value) in enumerate(log[number].rows, 1):
            yield Logged(key=key, value=value, lsn=lsn, own=sequence_of(epoch=epoch, lsn=log[number].commit, number=n))
        if dice.random() < 0.4:
            low = log[max(first, number - dice.randrange(3))].commit
            touched = {key for one in log if low < one.commit <= log[number].commit for _, key, _ in one.rows}
            for key, value in state_at(log, low).items():
                if key not in touched:
                    yield Logged(key=key, value=value, op="r", own=sequence_of(epoch=epoch, lsn=low))


def partition_of(seed: int) -> tuple[list[Logged], dict[int, str | None]]:
    """One topic partition that both have written in turn, each from where the other's stored offset was, and the source's rows in the end."""
    dice = random.Random(f"hand-over {seed}")
    log = transactions(dice, count=12)
    of_dblog, snapshot, start = dice.random() < 0.5, False, 0
    if not of_dblog:
        # Of the first transaction behind a snapshot Debezium shows no commit before it: one that was open meanwhile would look older.
        closed = [n for n in range(1, 8) if log[n].rows[0][0] > log[n - 1].commit]
        snapshot, start = bool(closed), dice.choice(closed or [0])
    parts = sorted(dice.sample(range(start + 1, 12), dice.randrange(4)))
    written: list[Logged] = []
    epoch = LONG_AGO
    for first, last in zip([start, *parts], [*parts, 12], strict=True):
        begins = max(start, first - dice.randrange(3))
        if of_dblog:
            written += by_dblog(log, begins, last, epoch, dice)
        else:
            written += by_debezium(log, begins, last, snapshot=snapshot and first == start)
        if last < 12 and of_dblog:  # it may be killed in the middle of a transaction; the other one takes all of that again
            partial = by_dblog(log, last, last + 1, epoch, random.Random(1))
            written += [one for one in partial if one.op != "r"][: dice.randrange(len(log[last].rows) + 1)]
        epoch += of_dblog
        of_dblog = not of_dblog
    return written, state_at(log, log[-1].commit)


def test_the_greatest_position_of_a_key_is_its_last_commit_in_whatever_turn_both_have_written(spark: SparkSession) -> None:
    histories = [partition_of(seed) for seed in range(400)]
    logs: dict[int, PartitionLogs] = {}
    for partition, (records, _) in enumerate(histories):
        known = logs.setdefault(partition, PartitionLogs())
        for offset, one in enumerate(records):
            if one.own is not None:
                hand_over(known, epoch=one.own[0] >> 32, offset=offset)

    positions = positions_of(spark, [records for records, _ in histories], epoch_sql(logs))

    for seed, ((records, final), found) in enumerate(zip(histories, positions, strict=True)):
        newest = {
            one.key: one.value for _, _, one in sorted(zip(found, range(len(found)), records, strict=True), key=lambda each: each[:2])
        }
        assert {key: newest.get(key) for key in final} == final, f"seed {seed}"


def test_of_debezium_s_records_alone_the_positions_of_a_key_rise_as_its_changes_did(spark: SparkSession) -> None:
    logs = [transactions(random.Random(f"log {seed}"), count=12) for seed in range(200)]
    histories = [list(by_debezium(log, 0, 12)) for log in logs]

    for seed, (records, found) in enumerate(zip(histories, positions_of(spark, histories), strict=True)):
        for key in range(_KEYS):
            own = [at for at, one in zip(found, records, strict=True) if one.key == key]
            assert own == sorted(set(own)), f"seed {seed}"


def positions_of(spark: SparkSession, histories: list[list[Logged]], epoch: str = "") -> list[list[tuple[int, int]]]:
    """The positions of each history's records, each in a topic partition of its own."""
    rows = [
        ((one.op, (one.sequence, one.lsn)), partition, offset)
        for partition, records in enumerate(histories)
        for offset, one in enumerate(records)
    ]
    seq1, seq2 = position_sql("v", sequence=True, epoch=epoch)
    frame = spark.createDataFrame(rows, f"v {_SOURCE}, partition int, offset bigint")
    found: list[list[tuple[int, int]]] = [[] for _ in histories]
    for row in sorted(frame.selectExpr("partition", "offset", f"{seq1} AS seq1", f"{seq2} AS seq2").collect()):
        found[row["partition"]].append((row["seq1"], row["seq2"]))
    return found


# -- a sink over it -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.public.items", columns=COLUMNS, registry=registry, connector="postgresql")


def record(items: TableSchema, one: Logged, *, partition: int = 0) -> Record:
    row = {"id": one.key, "v": one.value}
    numbers = one.own if one.own is not None else (one.last_commit, one.lsn)
    value = items.value_bytes(one.op, after=row, lsn=one.lsn, sequence=numbers)
    return Record(topic=items.topic, key=items.key_bytes({"id": one.key}), value=value, partition=partition)


def own(key: int, value: str, commit: int, *, lsn: int | None, epoch: int = NOW, number: int = 1) -> Logged:
    """A record of dblog's; ``lsn`` None: a dumped row."""
    if lsn is None:
        return Logged(key=key, value=value, op="r", own=sequence_of(epoch=epoch, lsn=commit))
    return Logged(key=key, value=value, lsn=lsn, own=sequence_of(epoch=epoch, lsn=commit, number=number))


def test_a_row_that_was_written_before_a_low_watermark_and_committed_behind_it_replaces_the_dumped_row(
    sink: Sink, items: TableSchema
) -> None:
    sink.batch(record(items, own(1, "dumped", 0x150, lsn=None)), record(items, own(2, "dumped", 0x150, lsn=None)))

    sink.batch(record(items, own(1, "open meanwhile", 0x200, lsn=0x100)), record(items, own(2, "committed before", 0x140, lsn=0x120)))

    assert sink.rows(items) == [{"id": 1, "v": "open meanwhile"}, {"id": 2, "v": "dumped"}]


@pytest.mark.parametrize("together", [pytest.param(True, marks=pytest.mark.long), False], ids=["one batch", "batch by batch"])
def test_a_topic_that_debezium_began_and_dblog_goes_on_with_and_back_shows_the_last_change_of_each_key(
    sink: Sink, items: TableSchema, together: bool
) -> None:
    phases = [
        [Logged(key=key, value="debezium", lsn=0x100 + 8 * key, last_commit=0xF0) for key in (1, 2, 3)],
        [own(1, "dblog", 0x200, lsn=0x180), own(2, "dumped", 0x210, lsn=None), own(4, "dblog", 0x220, lsn=0x218, number=1)],
        # The last transaction comes once more, as Debezium knows of none of dblog's; it had changed the key twice, and dblog was stopped in between.
        [Logged(key=4, value="dblog", lsn=0x218, last_commit=0x200), Logged(key=4, value="whole", lsn=0x21C, last_commit=0x200)],
        [Logged(key=2, value="debezium again", lsn=0x300, last_commit=0x2F0)],
        [own(2, "dblog again", 0x400, lsn=0x3F0, epoch=NOW + 1), own(5, "dblog again", 0x400, lsn=0x3F8, epoch=NOW + 1, number=2)],
        [Logged(key=5, value="debezium in the end", lsn=0x500, last_commit=0x400)],
    ]

    for records in [[one for phase in phases for one in phase]] if together else phases:
        sink.batch(*(record(items, one) for one in records))
        sink.restarted()

    expected = {1: "dblog", 2: "dblog again", 3: "debezium", 4: "whole", 5: "debezium in the end"}
    assert {row["id"]: row["v"] for row in sink.rows(items)} == expected
    assert sink.control.state.source_logs[items.topic][0].epoch == NOW + 2


def test_records_of_debezium_go_on_in_the_epoch_of_the_table_where_the_control_table_is_lost(sink: Sink, items: TableSchema) -> None:
    sink.batch(record(items, own(1, "dblog", 0x200, lsn=0x180)))
    sink.restarted()
    sink.lose("control")

    sink.batch(replace(record(items, Logged(key=1, value="debezium", lsn=0x300, last_commit=0x210)), offset=1))

    assert sink.rows(items) == [{"id": 1, "v": "debezium"}]


@pytest.mark.long
def test_a_list_of_changes_leaves_out_what_dblog_sends_again_and_keeps_all_of_debezium_s(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    first = [own(1, "a", 0x200, lsn=0x180), own(1, "b", 0x200, lsn=0x190, number=2)]
    sink.batch(*(record(items, one) for one in first))

    sink.batch(*(record(items, one) for one in [*first, own(1, "c", 0x210, lsn=0x188)]))
    sink.batch(*(record(items, Logged(key=1, value=value, lsn=0x220, last_commit=0x210)) for value in ("d", "d")))

    assert [row["v"] for row in sink.rows(items, order="v")] == ["a", "b", "c", "d", "d"]


@pytest.mark.long
def test_only_the_first_batch_of_a_topic_of_dblog_s_is_looked_at_and_one_that_debezium_may_have_written(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    follower = sink.applier.logs
    monkeypatch.setattr("dblog_sink.tables.log_follower.writers", _counted(looked))

    for n in range(3):
        sink.batch(record(items, own(1, f"{n}", 0x200 + 8 * n, lsn=0x180)))
    assert len(looked) == 1
    sink.batch(record(items, Logged(key=1, value="debezium", lsn=0x300, last_commit=0x210)))
    sink.batch(record(items, Logged(key=1, value="debezium", lsn=0x310, last_commit=0x300)))

    assert len(looked) == 3
    assert follower.highs == {}
    assert sink.rows(items) == [{"id": 1, "v": "debezium"}]


def _counted(looked: list[str]) -> Any:
    from dblog_sink.records.log_positions import writers

    def counting(*given: Any) -> Any:
        looked.append("looked")
        return writers(*given)

    return counting
