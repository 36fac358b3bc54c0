"""Positions of a PostgreSQL log, and the offset that holds them."""

from __future__ import annotations

import itertools
import json

import pytest
from dblog.codecs.transactions import TransactionCounts
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import lsn_of, lsn_text, sequence_of, wal_file
from dblog.errors import DefiniteError

LSNS = [0, 8, 0x18, 0xFFFFFFF8, 0x1_00000000, 0x1_00000008, 0x16_B374D848, 0xFFFFFFFF_FFFFFFF8]


@pytest.mark.parametrize(("text", "lsn"), [("0/0", 0), ("16/B374D848", 0x16_B374D848), ("FFFFFFFF/FFFFFFF8", 0xFFFFFFFF_FFFFFFF8)])
def test_an_lsn_is_read_as_the_server_writes_it(text, lsn):
    assert lsn_of(text) == lsn
    assert lsn_text(lsn) == text


def test_numbers_sort_by_epoch_then_by_commit_then_by_row_and_fit_two_longs():
    order = list(itertools.product([0, 1, 900_000], LSNS, [0, 1, 2, (1 << 34) - 1]))

    numbers = [sequence_of(epoch=epoch, lsn=lsn, number=number) for epoch, lsn, number in order]

    assert numbers == sorted(numbers)
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= part < 1 << 63 for pair in numbers for part in pair)


def test_the_end_of_a_commit_record_sorts_behind_its_last_row_and_not_behind_the_first_of_the_next():
    for end in range(0x120, 0x130):
        assert sequence_of(epoch=1, lsn=0x100, number=(1 << 34) - 1) < sequence_of(epoch=1, lsn=end)
        assert sequence_of(epoch=1, lsn=end) < sequence_of(epoch=1, lsn=0x130, number=1)


def test_the_name_of_a_wal_file_is_the_servers():
    assert wal_file(1, 0x16_B374D848) == "0000000100000016000000B3"
    assert wal_file(2, 0) == "000000020000000000000000"


POSITIONS = [
    LogOffset(lsn=0x1000),
    LogOffset(lsn=0x1000, xid=731, ts_us=1_700_000_000_000_000, kind="UPDATE"),
    LogOffset(lsn=0x1000, commit_lsn=0x2000, event=5, xid=732, ts_us=1, kind="INSERT"),
    LogOffset(lsn=0x1000, commit_lsn=0x2000, event=5, transaction=TransactionCounts("732:8192", {"public.t": 5})),
]


@pytest.mark.parametrize("position", POSITIONS)
def test_an_offset_comes_back_as_it_was(position):
    progress = PostgresProgress(position, database="shop", server="7000/3", epoch=12)

    again = PostgresProgress.of_offset(json.loads(json.dumps(progress.to_map())), database="shop")

    assert again.to_map() == progress.to_map()
    assert again.sequence == progress.sequence
    assert again.resume_point == progress.resume_point
    assert again.timeline == 3
    assert again.is_between is (position.commit_lsn == 0)


def test_of_debeziums_positions_the_last_commit_counts_and_a_map_without_any_is_refused():
    debezium = {
        "lsn": 300,
        "lsn_proc": 280,
        "lsn_commit": 200,
        "txId": 7,
        "ts_usec": 5,
        "messageType": "INSERT",
        "snapshot_completed": True,
    }

    progress = PostgresProgress.of_offset(debezium, database="shop")

    assert (progress.at.lsn, progress.epoch, progress.is_between) == (200, 0, True)
    with pytest.raises(DefiniteError, match="lsn"):
        PostgresProgress.of_offset({"file": "binlog.000001", "pos": 4}, database="shop")


@pytest.mark.parametrize("position", POSITIONS)
def test_debezium_is_told_of_no_change_that_it_would_skip_and_goes_on_after_the_last_whole_transaction(position):
    written = PostgresProgress(position, database="shop", server="7000/3").to_map()

    assert "lsn_proc" not in written
    assert (written["lsn"], written["lsn_commit"]) == (position.lsn, position.lsn)


def test_inside_a_transaction_the_position_is_behind_what_was_taken_and_in_front_of_the_next():
    progress = PostgresProgress(LogOffset(lsn=0x1000), database="shop", epoch=1)
    progress.advance(LogOffset(lsn=0x1000, commit_lsn=0x2000, event=2))

    assert sequence_of(epoch=1, lsn=0x2000, number=2) < progress.sequence <= sequence_of(epoch=1, lsn=0x2000, number=3)
    progress.advance(LogOffset(lsn=0x2030))
    assert progress.is_between
    assert progress.sequence > sequence_of(epoch=1, lsn=0x2000, number=1000)
