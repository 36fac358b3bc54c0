"""Where a snapshot may end: no transaction that is not complete is in it, nor any after it, but for those whose records cannot come."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

from dblog_sink.snapshots.rule import (
    Extent,
    Facts,
    Incomplete,
    LastTransaction,
    Previous,
    behind,
    judge,
    prefix_of,
    topic_of,
    transaction_id,
)
from dblog_sink.state.notes import APPLIED, EXPIRED, decode_snapshot, encode_snapshot
from dblog_sink.state.snapshot import NOWHERE, Frontier, Snapshot


def short(number: int, *, begun: bool = True, ended: bool = True, **missing: int) -> Incomplete:
    return Incomplete(
        id=str(number), begin=(0, 10 * number) if begun else None, end=(0, 10 * number + 5) if ended else None, missing=missing
    )


def test_the_first_transaction_that_is_not_complete_is_the_barrier_in_whatever_order_they_are_found() -> None:
    found = [short(2, a=1), short(3, ended=False), short(5, b=2)]

    for some in itertools.permutations(found):
        verdict = judge(some, Facts())
        assert verdict.barrier == (0, 20)
        assert verdict.blocker == found[0]


def test_nothing_incomplete_is_no_barrier() -> None:
    assert judge([], Facts()).barrier is None


def test_a_transaction_that_began_before_the_sink_blocks_nothing_once_its_records_cannot_come() -> None:
    late = short(1, begun=False, a=1)

    assert judge([late], Facts()).barrier == (0, 15)
    assert judge([late], Facts(read_to={"a": (0, 14)})).barrier == (0, 15)
    verdict = judge([late, short(2, a=1)], Facts(read_to={"a": (0, 40)}))
    assert verdict.barrier == (0, 20), "the second one did begin within the sink's sight"
    assert "began before" in verdict.waived[0][1]["a"]


def test_records_of_a_topic_without_its_beginning_are_waived_up_to_where_the_topic_was_read_and_no_further() -> None:
    for reason in (EXPIRED, APPLIED):
        facts = Facts(late={"a": reason}, read_to={"a": (0, 25)})
        verdict = judge([short(1, a=1), short(2, a=1, b=1), short(3, a=1)], facts)

        assert verdict.waived == ((short(1, a=1), {"a": reason}),)
        assert verdict.blocker == short(2, b=1), "what is missing of a is not waited for, what is missing of b is"
        assert judge([short(3, a=1)], facts).barrier == (0, 30)


def test_a_parked_table_blocks_nothing_and_a_transaction_that_a_person_named_does_not_either() -> None:
    assert judge([short(1, a=1)], Facts(parked={"a"})).barrier is None
    assert judge([short(1, a=1, b=1)], Facts(parked={"a"})).blocker == short(1, b=1)
    assert judge([short(1, a=1), short(2, ended=False)], Facts(passed={"1", "2"})).barrier is None
    assert judge([short(1, ended=False)], Facts(parked={"a"}, late={"a": EXPIRED}, read_to={"a": (9, 9)})).barrier == (0, 10)


def test_a_snapshot_knows_when_its_last_transaction_ended_though_no_row_of_that_came() -> None:
    last = LastTransaction(id="7", ts_ms=1, kafka_ms=500, file="binlog.1", pos=4, lsn=None)
    extent = Extent(transactions_to=(3, 4), position=(1, 7), last=last, interleaved=False, ended_ms=900)

    snapshot = behind(extent, Previous(snapshot=None, number=0), sequences={}, missing={"a": EXPIRED})
    later = behind(replace(extent, last=None, ended_ms=1_000), Previous(snapshot=snapshot, number=1), sequences={}, missing={})

    assert (snapshot.kafka_ms, snapshot.ended_ms) == (500, 900)
    assert (later.kafka_ms, later.ended_ms) == (500, 1_000)


def test_a_snapshot_is_the_same_after_it_was_recorded() -> None:
    frontier = Frontier(position=(1, 7), transactions_to=(3, 4), open=("12",), sequences={"a": 3})
    snapshot = Snapshot(
        number=4,
        frontier=frontier,
        before=Frontier(),
        held={"b": frontier},
        left_out=("b", "c"),
        transaction="0-1-5",
        ts_ms=1,
        kafka_ms=2,
        file="binlog.1",
        missing={"b": EXPIRED},
    )

    assert decode_snapshot(json.loads(json.dumps(encode_snapshot(snapshot)))) == snapshot
    assert snapshot.merged_before("a").position == NOWHERE
    assert snapshot.merged_before("b") == frontier


def test_a_transaction_and_its_topics_have_debeziums_names() -> None:
    assert transaction_id("571:53195832") == "571"
    assert transaction_id("3e11fa47-71ca-11e1-9e33-c80aa9429562:23") == "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
    assert transaction_id("0-1-5") == "0-1-5"
    assert prefix_of("my.shop.transaction") == "my.shop"
    assert topic_of("shop.or$ders", "p") == "p.shop.or_ders"
