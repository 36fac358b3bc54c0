"""Another server's log begins in the middle of a topic whose records carry file and offset only."""

from __future__ import annotations

import json

import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.records.decode import SEQ1, SEQ2
from dblog_sink.records.source_epochs import (
    LoggedRange,
    LoggedRecord,
    PartitionLogs,
    epoch_sql,
    extended,
    follow,
    hand_over,
    hand_over_all,
    may_reveal_switch,
    recreated,
    seeded,
)
from dblog_sink.state.notes import SourceLogs, decoded, encoded
from dblog_sink.tables import log_follower
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

A, B = "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"


def logged_records(*given: tuple[int, int, int, int, str | None], start: int = 0) -> list[LoggedRecord]:
    """(file, offset in it, seconds, server, GTID)."""
    return [
        LoggedRecord(offset=start + n, position=(file, low << 23), ts_ms=ts * 1000, server=server, gtid=gtid)
        for n, (file, low, ts, server, gtid) in enumerate(given)
    ]


def test_a_log_whose_records_are_sent_again_stays_one_log() -> None:
    known = PartitionLogs()
    sent = [(9, 10, 1, 1, None), (9, 20, 2, 1, None), (10, 5, 3, 1, None)]

    assert follow(known, logged_records(*sent, *sent, (10, 9, 4, 1, None))) == []
    assert (known.epoch_runs, epoch_sql({0: known})) == ([], "")


def test_events_of_many_servers_in_one_log_are_of_one_log() -> None:
    """A replica of several sources, or one whose source was replaced: server ids come and go, the files go on."""
    known = PartitionLogs()

    assert follow(known, logged_records((9, 10, 1, 1, None), (9, 20, 1, 2, None), (9, 30, 2, 1, None), (9, 40, 1, 3, None))) == []
    assert known.epoch_runs == []


@pytest.mark.parametrize(
    ("first", "proven"),
    [
        ((3, 4, 3, 2, None), True),
        ((3, 4, 1, 2, None), True),  # the new server's clock is behind
        ((3, 4, 3, 1, None), False),  # another replica, or RESET MASTER
        ((9, 4, 3, 2, None), True),  # a file of the same number
    ],
)
def test_a_lower_position_of_another_server_or_a_later_time_begins_another_log(first: tuple, proven: bool) -> None:
    known = PartitionLogs()

    (begun,) = follow(known, logged_records((9, 10, 1, 1, None), (9, 20, 2, 1, None), first, (9, 30, 4, first[3], None)))

    assert (begun.offset, begun.epoch, begun.proven) == (2, 1, proven)
    assert known.epoch_runs == [(2, 1)]


def test_a_transaction_that_was_never_seen_is_of_another_log_whatever_the_clocks_show() -> None:
    known = PartitionLogs()
    before = [(9, 10, 5, 1, f"{A}:7"), (9, 20, 6, 1, f"{A}:8")]
    # The new server sends what it had replicated and the connector had not read: events of the old server, in its own files.
    after = [(3, 10, 4, 1, f"{A}:9"), (3, 20, 4, 1, f"{A}:9"), (3, 30, 5, 2, f"{B}:1"), (3, 40, 5, 2, f"{B}:1")]

    (begun,) = follow(known, logged_records(*before, *before, *after))

    assert (begun.offset, begun.proven, known.epoch_runs) == (4, True, [(4, 1)])
    assert follow(known, logged_records(*before, *after[:2], start=8)) == []
    assert known.epoch_runs[:2] == [(4, 1), (8, 0)], "late duplicates of the former log keep its epoch"
    assert follow(known, logged_records((3, 50, 9, 2, f"{B}:2"), start=20)) == []
    assert known.epoch_runs[-1] == (20, 1)


@pytest.mark.parametrize("gtids", [True, False])
def test_a_snapshot_that_was_asked_for_while_the_log_was_read_is_no_log_of_its_own(gtids: bool) -> None:
    """Its rows stand where the server is; then the log goes on where reading was paused, with changes that nobody has seen."""
    known = PartitionLogs()
    one, two = (f"{A}:{number}" if gtids else None for number in (7, 8))
    read, rest = logged_records((9, 10, 5, 1, one)), logged_records((9, 20, 6, 1, two), start=3)
    rows = [LoggedRecord(offset=n, position=(9, 50 << 23), ts_ms=9000, dumped=True) for n in (1, 2)]

    assert follow(known, [*read, *rows, *rest]) == []
    assert (known.epoch_runs, known.logs[-1].last) == ([], (9, 20 << 23))


def test_numbers_of_mariadb_show_the_same() -> None:
    known = PartitionLogs()

    found = follow(known, logged_records((9, 10, 5, 1, "0-1-7"), (9, 10, 5, 1, "0-1-7"), (2, 4, 5, 2, "0-2-8"), (2, 9, 5, 2, "0-2-8")))

    assert [(one.offset, one.proven) for one in found] == [(2, True)]


def test_late_duplicates_of_a_former_server_keep_its_epoch_and_a_return_to_it_is_a_third_log() -> None:
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (9, 20, 2, 1, None), (3, 4, 3, 2, None)))

    assert follow(known, logged_records((9, 20, 2, 1, None), (3, 8, 4, 2, None), start=3)) == []
    assert known.epoch_runs == [(2, 1), (3, 0), (4, 1)]

    known = decoded(json.loads(json.dumps(encoded(SourceLogs("t", 0, known))))).logs
    assert follow(known, logged_records((10, 4, 5, 1, None), start=5)) == [], "its files have higher numbers: nothing falls"
    (begun,) = follow(known, logged_records((4, 4, 6, 2, None), start=6))
    assert (begun.epoch, known.epoch_runs) == (2, [(2, 1), (3, 0), (4, 1), (6, 2)])


def test_what_a_former_server_sends_late_is_its_own_also_behind_all_that_was_met_of_it() -> None:
    """Other partitions have its other records. Of the log that is read now it would replace what is younger."""
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (9, 20, 2, 1, None), (3, 4, 3, 2, None)))

    assert follow(known, logged_records((9, 25, 2, 1, None), start=3)) == []
    assert known.epoch_runs == [(2, 1), (3, 0)]


def test_records_of_a_topic_that_was_made_again_are_of_the_log_that_was_read_last() -> None:
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (3, 4, 3, 2, None)))

    again = recreated(known, now_ms=7)
    follow(again, [dumped_by_signal(0, 3, 5, 2)])

    assert (again.epoch, again.epoch_runs, again.recreated_ms) == (1, [(0, 1)], 7)
    assert "WHEN offset >= 0L THEN" in epoch_sql({0: again})


def test_debeziums_records_after_dblogs_are_later_in_every_partition() -> None:
    partitions = {number: PartitionLogs() for number in (0, 1, 2)}
    for known in partitions.values():
        seeded(known, 5)

    assert hand_over(partitions[0], epoch=5, offset=9), "dblog goes on in the epoch that the table has"
    assert not hand_over(partitions[0], epoch=5, offset=12), "it is known"
    assert [known.epoch for known in partitions.values()] == [6, 5, 5]

    assert hand_over_all(partitions, 7), "the table's newest row is of an epoch that no partition has shown"
    assert [known.epoch for known in partitions.values()] == [8, 8, 8]


def test_rows_of_a_first_snapshot_show_by_their_time() -> None:
    known = PartitionLogs()
    rows = [LoggedRecord(offset=n, position=(9, 10), ts_ms=500 + n, dumped=True) for n in range(3)]
    second = [LoggedRecord(offset=10 + n, position=(2, 10), ts_ms=9_000 + n, dumped=True) for n in range(3)]

    assert follow(known, [*rows, *logged_records((9, 20, 2, 1, None), start=5)]) == []
    assert [one.offset for one in follow(known, second)] == [10]


def dumped_by_signal(offset: int, file: int, low: int, server: int) -> LoggedRecord:
    """Its time is that of reading, which shows nothing."""
    return LoggedRecord(offset=offset, position=(file, low << 23), ts_ms=99_000, server=server, dumped=True, selected=True)


def test_rows_of_an_incremental_snapshot_show_by_a_server_that_nobody_has_met() -> None:
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None)))

    assert follow(known, [dumped_by_signal(1, 9, 5, 1), dumped_by_signal(2, 9, 30, 2), dumped_by_signal(3, 3, 5, 0)]) == []
    (begun,) = follow(known, [dumped_by_signal(4, 3, 50, 2), dumped_by_signal(5, 3, 60, 2)])
    assert (begun.offset, begun.proven, known.epoch_runs) == (4, True, [(4, 1)])
    assert follow(known, logged_records((3, 20, 4, 2, None), (3, 70, 5, 2, None), start=6)) == [], "reading began again before the rows"


def test_rows_of_an_incremental_snapshot_show_where_no_change_was_met_but_none_shows_alone() -> None:
    known = PartitionLogs()
    assert follow(known, [dumped_by_signal(0, 9, 50, 2)]) == []
    assert known.logs == []

    follow(known, [LoggedRecord(offset=1, position=(9, 10 << 23), ts_ms=500, dumped=True)])

    assert [one.proven for one in follow(known, [dumped_by_signal(2, 3, 5, 2)])] == [True]


def test_rows_of_an_incremental_snapshot_of_a_former_server_keep_its_epoch() -> None:
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (9, 90, 2, 1, None), (3, 4, 3, 2, None)))

    assert follow(known, [dumped_by_signal(3, 9, 20, 1), *logged_records((9, 90, 2, 1, None), (3, 8, 4, 2, None), start=4)]) == []
    assert known.epoch_runs == [(2, 1), (3, 0), (5, 1)]
    follow(known, [dumped_by_signal(6, 10, 20, 1)])
    assert known.epoch_runs[-1] == (5, 1), "further than it ever was: the files of the log that is read have higher numbers now"
    follow(known, [*logged_records((9, 90, 2, 1, None), start=7), dumped_by_signal(8, 9, 99, 1)])
    assert known.epoch_runs[-1] == (7, 0), "but not amid what is sent late"


def test_many_rows_of_an_incremental_snapshot_are_looked_at_where_they_may_reveal_a_switch() -> None:
    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (3, 4, 3, 2, None), (3, 5, 4, 3, None)))
    later = LoggedRange(first_offset=9, last_offset=9, first=(3, 9 << 23), last=(3, 9 << 23), regressions=0, ts_min_ms=9_000, ts_max_ms=9_000,
                    servers=frozenset({4}), gtids={}, gtid=None)  # fmt: skip

    assert not may_reveal_switch(known, {}, later)
    assert not may_reveal_switch(known, {0: (1, 1), 2: (3, 1), 3: (1, 1), 4: (1, 1), 5: (3, 10 << 23)}, later)
    assert may_reveal_switch(known, {4: (3, 1)}, None)
    assert may_reveal_switch(known, {5: (3, 8 << 23)}, later)
    assert may_reveal_switch(known, {1: (12, 1)}, later)
    assert not may_reveal_switch(PartitionLogs(), {1: (12, 1)}, None)


def test_what_was_looked_at_before_changes_nothing() -> None:
    known = PartitionLogs()
    all_of_them = logged_records((9, 10, 1, 1, None), (3, 4, 3, 2, None), (3, 9, 4, 2, None), (9, 10, 1, 1, None))
    follow(known, all_of_them)
    before = encoded(SourceLogs("t", 0, known))

    assert follow(known, all_of_them) == []
    assert encoded(SourceLogs("t", 0, known)) == before


def test_a_batch_that_only_goes_on_is_taken_in_at_once_and_no_other() -> None:
    def records(first: tuple[int, int], regressions: int = 0, ts_min_ms: int = 5_000, at: int = 10) -> LoggedRange:
        return LoggedRange(
            first_offset=at,
            last_offset=at + 9,
            first=first,
            last=(9, 99),
            regressions=regressions,
            ts_min_ms=ts_min_ms,
            ts_max_ms=9_000,
            servers=frozenset({2}),
            gtids={B: 4},
            gtid=f"{B}:4",
        )

    known = PartitionLogs()
    follow(known, logged_records((9, 10, 1, 1, None), (3, 4, 3, 2, None)))

    assert not extended(known, records((3, 5), regressions=1))
    assert not extended(known, records((2, 5)))
    assert not extended(known, records((3, 1 << 26), ts_min_ms=1_000)), "it may be the former server's"
    assert extended(known, records((3, 1 << 26)))
    assert not extended(known, records((3, 1 << 26))), "it was taken in"
    assert (known.offset, known.logs[-1].last, known.gtids, known.epoch_runs) == (19, (9, 99), {B: 4}, [(1, 1)])


# -- in the job ---------------------------------------------------------------------------------------------------------------------------

SECOND = 1_700_000_000_000


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("v", "string")], registry=registry)


def of_a(items: TableSchema, op: str, key: int, v: str, at: int, **more: int) -> Record:
    return change(items, op, {"id": key, "v": v}, at=at, file=9, server=1, ts_ms=SECOND + at, **more)


def of_b(items: TableSchema, op: str, key: int, v: str, at: int, **more: int) -> Record:
    return change(items, op, {"id": key, "v": v}, at=at, file=3, server=2, ts_ms=SECOND + 1000 + at, **more)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"rewrite.rows.max": "0"}, id="merged", marks=pytest.mark.long),
        pytest.param({"trigger.interval.s": "0"}, id="landed", marks=pytest.mark.long),
    ],
)
def test_changes_after_a_failover_to_lower_file_numbers_are_later_than_all_before(
    sink: Sink, items: TableSchema, settings: dict[str, str]
) -> None:
    sink.settings |= settings
    sink.batch(*(of_a(items, "c", key, "a", key) for key in (1, 2, 3)))
    moved = [of_a(items, "u", 3, "a again", 9), of_b(items, "u", 1, "b", 1), of_b(items, "d", 2, "a", 2), of_a(items, "u", 3, "a again", 9)]
    sink.batch(*moved)
    sink.restarted().batch(of_b(items, "u", 3, "b", 3), of_a(items, "u", 1, "late", 8), of_a(items, "u", 2, "late", 7))
    sink.batch(change(items, "r", {"id": 4, "v": "dumped"}, at=4, file=3, ts_ms=SECOND + 2000))

    expected = [{"id": 1, "v": "b"}, {"id": 3, "v": "b"}, {"id": 4, "v": "dumped"}]
    assert sink.rows(items) == expected

    # The notes may be lost: the table shows of which log its newest row is.
    sink.restarted().lose("control")
    sink.batch(of_b(items, "u", 3, "after", 5))
    assert sink.rows(items)[1] == {"id": 3, "v": "after"}


@pytest.mark.long
def test_a_list_of_changes_has_those_of_both_servers_once(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    sink.batch(of_a(items, "c", 1, "a", 1), of_a(items, "u", 1, "b", 2))
    sink.batch(of_b(items, "u", 1, "c", 1), of_b(items, "u", 1, "d", 2))
    sink.batch(of_a(items, "u", 1, "b", 2), of_b(items, "u", 1, "c", 1), of_b(items, "u", 1, "e", 3))

    rows = sink.read(items).orderBy(SEQ1, SEQ2).collect()
    assert [row["v"] for row in rows] == ["a", "b", "c", "d", "e"]


@pytest.mark.long
def test_a_batch_that_is_repeated_after_a_kill_finds_the_same_epochs(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"rewrite.rows.max": "0"}
    first = [of_a(items, "c", key, "a", key) for key in (1, 2)]
    sink.batch(*first)
    batch = [of_b(items, "u", 1, "b", 1), of_b(items, "d", 2, "a", 2)]
    records = [Record(topic=one.topic, key=one.key, value=one.value, offset=2 + n) for n, one in enumerate(batch)]

    def killed(step: str) -> None:
        if step == "tombstones_written":
            raise DefiniteError("the process ended here")

    sink.restarted().reached = killed
    with pytest.raises(DefiniteError, match="ended here"):
        sink.repeat(1, records)
    sink.killed().reached = lambda _: None
    sink.repeat(1, records)

    assert [(row["id"], row["v"], row[SEQ1] >> 32) for row in sink.read(items).collect()] == [(1, "b", 1)]


@pytest.mark.long
def test_where_only_the_time_shows_it_the_table_waits_for_a_person_and_goes_on_when_it_is_resumed(sink: Sink, items: TableSchema) -> None:
    sink.batch(*(of_a(items, "c", key, "a", key) for key in (1, 2)))

    def replica(op: str, key: int, v: str, at: int) -> Record:
        return change(items, op, {"id": key, "v": v}, at=at, file=3, server=1, ts_ms=SECOND + 1000 + at)

    sink.batch(of_a(items, "u", 2, "b", 5), replica("u", 1, "c", 1))
    (reason,) = sink.book.parked().values()
    assert "positions in topic p.shop.items fell from file 9 offset 5 to file 3 offset 1 at partition 0, offset 3" in reason
    assert sink.rows(items) == [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}]

    sink.restarted().batch(replica("d", 2, "b", 2))
    assert sink.rows(items) == [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}]
    sink.book.unpark(items.topic)
    sink.drain()
    assert sink.rows(items) == [{"id": 1, "v": "c"}]


@pytest.mark.long
def test_a_truncate_between_partitions_at_two_logs_waits_for_a_person(sink: Sink, items: TableSchema) -> None:
    sink.batch(of_a(items, "c", 1, "a", 1, partition=0), of_a(items, "c", 2, "a", 2, partition=1))
    sink.batch(of_b(items, "u", 1, "b", 1, partition=0))
    value = items.value_bytes("t", file="binlog.000003", pos=2, server=2, ts_ms=SECOND + 1002)

    sink.batch(Record(topic=items.topic, key=None, value=value, partition=0))

    assert "was truncated in the source while its partitions were at different logs" in sink.book.parked()[items.topic]
    assert sink.rows(items) == [{"id": 1, "v": "b"}, {"id": 2, "v": "a"}]


@pytest.mark.long
def test_rows_of_a_compressed_transaction_are_of_one_log(sink: Sink, items: TableSchema) -> None:
    """Its events have one offset, and each counts its rows from 0."""

    def row(key: int, number: int, ts_ms: int) -> Record:
        return change(items, "c", {"id": key, "v": '["text"]'}, at=7, file=9, row_number=number, ts_ms=SECOND + ts_ms)

    sink.batch(change(items, "r", {"id": 9, "v": '["dumped"]'}, at=6, file=9))
    sink.batch(row(1, 0, 0), row(2, 1, 0), row(3, 0, 1000), row(4, 1, 1000))

    assert sink.book.parked() == {}
    assert {row[SEQ1] for row in sink.read(items).collect()} == {9}
    assert sink.control.state.source_logs[items.topic][0].logs[0].last == (9, 7 << 23), "they are looked at, whatever texts they hold"


@pytest.mark.long
def test_a_topic_made_again_keeps_the_epoch_of_its_source(sink: Sink, items: TableSchema) -> None:
    sink.batch(of_a(items, "c", 1, "a", 1), of_a(items, "c", 2, "a", 2))
    sink.batch(of_b(items, "u", 1, "b", 1))
    sink.restarted()
    sink.query_id, sink.topic_id = "second", "t2"
    sink.next_offsets.clear()

    sink.repeat(0, [of_b(items, "u", 1, "again", 2)])

    assert sink.rows(items) == [{"id": 1, "v": "again"}, {"id": 2, "v": "a"}]


@pytest.mark.long
def test_a_partition_that_is_met_later_goes_on_in_the_log_of_the_others(sink: Sink, items: TableSchema) -> None:
    sink.batch(*(of_a(items, "c", key, "a", key, partition=key) for key in (0, 1)))
    sink.batch(*(of_b(items, "u", key, "b", key, partition=key) for key in (0, 1)))
    sink.restarted().lose("control")

    for key in (0, 1):
        sink.batch(of_b(items, "u", key, "c", 10 + key, partition=key))

    assert [row["v"] for row in sink.rows(items)] == ["c", "c"]


@pytest.mark.long
def test_many_records_are_followed_without_looking_at_each(sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog_sink.tables.log_follower.MANY_ROWS", 4)
    sink.batch(*(of_a(items, "c", key, "a", key) for key in (1, 2, 3, 4, 5)))
    sink.batch(*(of_a(items, "u", key, "b", 10 + key) for key in (1, 2)), *(of_b(items, "u", key, "c", key) for key in (2, 3)))
    sink.batch(*(of_b(items, "u", key, "d", 10 + key) for key in (3, 4, 5, 1)))

    assert [row["v"] for row in sink.rows(items)] == ["d", "c", "d", "d", "d"]


@pytest.mark.long
def test_the_view_shows_landed_rows_of_a_new_log_as_they_will_be_merged(sink: Sink, items: TableSchema) -> None:
    sink.batch(of_a(items, "c", 1, "a", 1), of_a(items, "c", 2, "a", 2))
    sink.restarted()
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}
    sink.land(of_b(items, "u", 1, "b", 1))

    assert sink.fresh(items) == [{"id": 1, "v": "b"}, {"id": 2, "v": "a"}]


@pytest.mark.long
def test_deletes_show_the_log_too_where_the_notes_are_lost_and_no_row_is_left(sink: Sink, items: TableSchema) -> None:
    sink.batch(of_a(items, "c", 1, "a", 1))
    sink.batch(of_b(items, "d", 1, "a", 1))
    sink.restarted().lose("control")

    sink.batch(of_b(items, "c", 1, "again", 2))

    assert sink.rows(items) == [{"id": 1, "v": "again"}]


@pytest.mark.long
@pytest.mark.parametrize("many", [True, False])
def test_another_dump_mends_a_table_that_rests_since_the_failover(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        monkeypatch.setattr("dblog_sink.tables.log_follower.MANY_ROWS", 2)
    sink.batch(of_a(items, "c", 1, "missed a change", 50), of_a(items, "c", 2, "as it was", 51))

    sink.batch(of_b(items, "r", 1, "incremental", 4), of_b(items, "r", 2, "incremental", 4))

    assert [row["v"] for row in sink.rows(items)] == ["incremental", "incremental"]
    sink.batch(of_b(items, "u", 1, "b", 5), of_b(items, "d", 2, "as it was", 6))
    assert sink.rows(items) == [{"id": 1, "v": "b"}]


@pytest.mark.long
def test_many_records_with_a_position_of_their_own_are_recognised_by_some_of_them(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that begins as a position does is none: Debezium's topic of such rows is followed all the same."""
    monkeypatch.setattr("dblog_sink.tables.log_follower.MANY_ROWS", 2)
    looked = []
    whole = log_follower.logged_ranges
    monkeypatch.setattr(log_follower, "logged_ranges", lambda found: looked.append(found) or whole(found))
    ours, theirs = (
        TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("v", "string")], registry=registry) for name in ("a", "b")
    )
    row = {"id": 1, "v": '["1","2"]'}

    sink.batch(*(change(ours, "c", row | {"id": key}, at=key, sequenced=True) for key in range(4)))
    assert looked == []
    sink.batch(*(change(theirs, "c", row | {"id": key}, at=key, file=9) for key in range(4)))
    sink.batch(*(change(theirs, "u", row, at=1, file=3, server=2, ts_ms=SECOND + 9_000 + n) for n in range(2)))
    assert len(looked) == 2
    assert [at[SEQ1] >> 32 for at in sink.read(theirs).where("id = 1").collect()] == [1]


def test_a_note_that_holds_no_number_is_part_of_no_statement() -> None:  # number 43 of the sink's safety
    for logs in (
        {0: PartitionLogs(epoch_runs=[("0L THEN (SELECT 1) WHEN 0", 1)])},
        {"0 THEN (SELECT 1)": PartitionLogs(epoch_runs=[(0, 1)])},
    ):
        with pytest.raises(ValueError, match="'d'"):
            epoch_sql(logs)  # type: ignore[arg-type]  # as JSON of a control table that somebody else has written
