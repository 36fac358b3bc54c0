"""Debezium and dblog write one topic of MySQL or MariaDB in turn: Debezium's records have file and offset only, dblog's an epoch of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product

import pytest
from dblog_sink.records import source_epochs
from dblog_sink.records.source_epochs import LoggedRecord, PartitionLogs
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

FIRST_EPOCH = 1_530_000
"""Of dblog: minutes since 2024."""
SECOND = 1_700_000_000_000


# -- all sequences, pure ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """The nth change of the source, of one key of two, in one server's log."""

    number: int
    server: int
    file: int
    at: int
    gtid: str | None

    @property
    def key(self) -> int:
        return self.number % 2


@dataclass(frozen=True)
class Sent:
    """A record: the event, and the epoch that dblog gave it; None: Debezium sent it."""

    event: Event
    epoch: int | None


def courses(*, gtids: bool) -> Iterator[list[list[Sent]]]:
    """Every course of up to five stretches by either writer, three changes each; before one of them another server may have taken over, and a writer may
    send again the last change that the one before it had sent, or all that it has not sent itself.
    """
    for count in (2, 3, 4, 5):
        for first, failover, again in product((False, True), range(count + 1), (0, 1, 99)):
            stretches: list[list[Sent]] = []
            events: list[Event] = []
            own_end = {True: 0, False: 0}
            epoch = FIRST_EPOCH
            for n in range(count):
                by_dblog = first ^ bool(n % 2)
                server = 2 if 0 < failover <= n else 1
                epoch += 10
                since = max(0, len(events) - 1) if again == 1 else own_end[by_dblog] if again else len(events)
                resent = [one for one in events[since:] if one.server == server]
                new = []
                for _ in range(3):
                    number = len(events) + len(new)
                    new.append(
                        Event(
                            number,
                            server,
                            9 if server == 1 else 3,
                            10 * (number + 1),
                            f"{'ab'[server - 1]}:{number + 1}" if gtids else None,
                        )
                    )
                events += new
                own_end[by_dblog] = len(events)
                stretches.append([Sent(one, epoch if by_dblog else None) for one in (*resent, *new)])
            yield stretches


class Follower:
    """The rule of ``LogFollower`` for one partition, with the epochs of the table instead of the table."""

    def __init__(self) -> None:
        self.logs: PartitionLogs | None = None
        self.followed = False
        self.newest: dict[int, tuple[tuple[int, int, int], int]] = {}
        self.offset = 0

    def batch(self, sent: Sequence[Sent]) -> None:
        numbered = list(enumerate(sent, self.offset))
        met = self.offset > 0
        self.offset += len(sent)
        derived = [
            LoggedRecord(
                offset=offset,
                position=(one.event.file, one.event.at << 23),
                ts_ms=SECOND + one.event.number // 4 * 1000,
                server=one.event.server,
                gtid=one.event.gtid,
            )
            for offset, one in numbered
            if one.epoch is None
        ]
        if derived:
            table = max((at[0] for at, _ in self.newest.values()), default=0)
            if self.logs is None:
                self.logs = PartitionLogs()
                if not (table and met):
                    source_epochs.seeded(self.logs, table)
            if not self.followed and table:
                source_epochs.hand_over_all({0: self.logs}, table)
            dblogs: dict[int, int] = {}
            for offset, one in numbered:
                if one.epoch is not None:
                    dblogs.setdefault(one.epoch, offset)
            source_epochs.follow_both(self.logs, derived, [(offset, epoch) for epoch, offset in dblogs.items()])
        self.followed = bool(derived)
        runs = self.logs.epoch_runs if self.logs is not None else []
        for offset, one in numbered:
            epoch = one.epoch if one.epoch is not None else next((e for start, e in reversed(runs) if offset >= start), 0)
            at = (epoch, one.event.file, one.event.at)
            if at >= self.newest.get(one.event.key, ((-1, 0, 0), 0))[0]:
                self.newest[one.event.key] = (at, one.event.number)


@pytest.mark.parametrize("gtids", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 99])
@pytest.mark.parametrize("restarted", [True, False])
def test_of_every_key_the_last_change_stays_whoever_sent_it(gtids: bool, size: int, restarted: bool) -> None:
    for stretches in courses(gtids=gtids):
        line = [one for stretch in stretches for one in stretch]
        follower = Follower()
        for at in range(0, len(line), size):
            follower.batch(line[at : at + size])
            if restarted:
                follower.followed = False
        last = {one.event.key: one.event.number for one in sorted(line, key=lambda one: one.event.number)}

        assert {key: number for key, (_, number) in follower.newest.items()} == last, [
            [(one.event.number, one.event.server, one.epoch) for one in stretch] for stretch in stretches
        ]


def test_a_batch_that_is_repeated_begins_no_log_again() -> None:
    known = PartitionLogs()
    debezium = [LoggedRecord(offset=n, position=(9, n << 23), ts_ms=SECOND + n, server=1) for n in (0, 1, 4, 5)]
    source_epochs.follow_both(known, debezium, [(2, FIRST_EPOCH)])
    before = deepcopy(known)

    source_epochs.follow_both(known, debezium, [(2, FIRST_EPOCH)])

    assert (known, known.epoch_runs) == (before, [(2, FIRST_EPOCH + 1)])


def test_a_transaction_that_was_open_while_dblog_wrote_is_not_taken_for_one_that_is_sent_again() -> None:
    known = PartitionLogs()
    before = [LoggedRecord(offset=n, position=(9, n << 23), ts_ms=SECOND + 1000 * n, server=1) for n in (1, 2, 3)]
    open_meanwhile = LoggedRecord(offset=5, position=(9, 50 << 23), ts_ms=SECOND + 2000, server=1)

    source_epochs.follow_both(known, [*before, open_meanwhile], [(4, FIRST_EPOCH)])

    assert known.epoch_runs == [(4, FIRST_EPOCH + 1)]


def test_rows_of_an_incremental_snapshot_after_dblog_are_later_than_its_rows() -> None:
    known = PartitionLogs()
    before = [LoggedRecord(offset=0, position=(9, 10 << 23), ts_ms=SECOND, server=1)]
    selected = LoggedRecord(offset=2, position=(9, 5 << 23), ts_ms=SECOND + 9000, server=1, dumped=True, selected=True)

    source_epochs.follow_both(known, [*before, selected], [(1, FIRST_EPOCH)])

    assert known.epoch_runs[-1][1] == FIRST_EPOCH + 1


# -- in the job ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("v", "string")], registry=registry)


def debezium(items: TableSchema, op: str, key: int, v: str, at: int, *, gtid: bool, file: int = 9, server: int = 1) -> Record:
    number = f"{'ab'[server - 1] * 8}-0000-0000-0000-000000000001:{at}" if gtid else None
    return change(items, op, {"id": key, "v": v}, at=at, file=file, server=server, ts_ms=SECOND + at * 1000, gtid=number)


def dblog(items: TableSchema, op: str, key: int, v: str, at: int, *, gtid: bool, epoch: int = FIRST_EPOCH) -> Record:
    number = f"aaaaaaaa-0000-0000-0000-000000000001:{at}" if gtid else None
    return change(
        items, op, {"id": key, "v": v}, at=at, file=9, ts_ms=SECOND + at * 1000, gtid=number, sequence=(epoch << 32 | 9, at << 23)
    )


@pytest.mark.parametrize("gtid", [pytest.param(True, marks=pytest.mark.long), False])
def test_changes_of_debezium_after_those_of_dblog_reach_the_mirror(sink: Sink, items: TableSchema, gtid: bool) -> None:
    sink.batch(*(debezium(items, "c", key, "debezium", 10 + key, gtid=gtid) for key in (1, 2, 3)))
    sink.batch(*(dblog(items, "u", key, "dblog", 20 + key, gtid=gtid) for key in (1, 2)))
    sink.batch(
        debezium(items, "u", 1, "debezium again", 31, gtid=gtid),
        debezium(items, "d", 2, "dblog", 32, gtid=gtid),
        debezium(items, "c", 4, "new", 33, gtid=gtid),
    )
    assert sink.rows(items) == [{"id": 1, "v": "debezium again"}, {"id": 3, "v": "debezium"}, {"id": 4, "v": "new"}]

    # Once more, the sink started anew in between, both writers in one batch, and another server's lower files.
    sink.restarted()
    sink.batch(
        debezium(items, "u", 3, "before dblog", 40, gtid=gtid),
        dblog(items, "u", 3, "dblog", 41, gtid=gtid, epoch=FIRST_EPOCH + 5),
        dblog(items, "d", 1, "debezium again", 42, gtid=gtid, epoch=FIRST_EPOCH + 5),
        debezium(items, "u", 3, "other server", 50, gtid=gtid, file=3, server=2),
    )
    sink.batch(debezium(items, "u", 4, "other server", 51, gtid=gtid, file=3, server=2))
    assert sink.book.parked() == {}
    assert sink.rows(items) == [{"id": 3, "v": "other server"}, {"id": 4, "v": "other server"}]


@pytest.mark.long
@pytest.mark.parametrize("gtid", [True, False])
def test_a_list_of_changes_has_those_of_debezium_after_dblog(sink: Sink, items: TableSchema, gtid: bool) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    sink.batch(debezium(items, "c", 1, "a", 11, gtid=gtid))
    sink.batch(dblog(items, "u", 1, "b", 21, gtid=gtid))
    sink.batch(debezium(items, "u", 1, "c", 31, gtid=gtid), debezium(items, "c", 2, "d", 32, gtid=gtid))

    assert sorted(row["v"] for row in sink.read(items).collect()) == ["a", "b", "c", "d"]


@pytest.mark.long
def test_many_records_of_both_writers_in_one_batch_are_told_apart(sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog_sink.tables.log_follower.MANY_ROWS", 2)
    sink.batch(*(debezium(items, "c", key, "a", 10 + key, gtid=False) for key in (1, 2, 3)))
    sink.batch(
        debezium(items, "u", 1, "b", 20, gtid=False), dblog(items, "u", 1, "c", 21, gtid=False), dblog(items, "u", 2, "c", 22, gtid=False)
    )
    sink.batch(*(dblog(items, "u", 3, "c", 30 + n, gtid=False) for n in range(3)))
    sink.batch(*(debezium(items, "u", key, "d", 40 + key, gtid=False) for key in (1, 2, 3)))

    assert [row["v"] for row in sink.rows(items)] == ["d", "d", "d"]
