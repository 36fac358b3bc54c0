"""The time up to which everything is in the tables, from reports of offsets."""

from __future__ import annotations

import random

from dblog_sink.observe.lag import AppliedUpTo


def offsets(end: int) -> dict[str, dict[int, int]]:
    return {"t": {0: end, 1: end}}


def test_what_is_read_is_as_new_as_the_newest_report_whose_offsets_are_read() -> None:
    moment = AppliedUpTo(began_s=100.0)

    found = [
        moment.reported(at_s, there=offsets(there), read=offsets(read), landed_s=None)
        for at_s, there, read in ((110.0, 50, 0), (120.0, 60, 40), (130.0, 70, 55), (140.0, 70, 70))
    ]

    assert found == [100.0, 100.0, 110.0, 140.0]


def test_a_partition_that_is_not_read_holds_it_back() -> None:
    moment = AppliedUpTo(began_s=100.0)

    assert moment.reported(110.0, there=offsets(5), read={"t": {0: 5}}, landed_s=None) == 100.0


def test_rows_that_wait_for_their_merge_hold_it_back_until_they_are_merged() -> None:
    moment = AppliedUpTo(began_s=100.0)

    assert moment.reported(500.0, there=offsets(5), read=offsets(5), landed_s=200.0) == 200.0
    assert moment.reported(510.0, there=offsets(5), read=offsets(5), landed_s=None) == 510.0


def test_a_topic_that_is_deleted_while_it_is_behind_holds_nothing_back() -> None:
    moment = AppliedUpTo(began_s=0.0)

    assert moment.reported(10.0, there={"t": {0: 1000}, "u": {0: 5}}, read={"t": {0: 900}, "u": {0: 4}}, landed_s=None) == 0.0
    assert moment.reported(20.0, there={"u": {0: 5}}, read={"u": {0: 4}}, landed_s=None) == 0.0
    assert moment.reported(30.0, there={"u": {0: 6}}, read={"u": {0: 5}}, landed_s=None) == 20.0


def test_a_topic_that_is_made_again_while_it_is_behind_counts_from_then_on() -> None:
    moment = AppliedUpTo(began_s=0.0)

    assert moment.reported(10.0, there={"t": {0: 1000}}, read={"t": {0: 900}}, landed_s=None) == 0.0
    assert moment.reported(20.0, there={"t": {0: 50}}, read={"t": {0: 40}}, landed_s=None) == 10.0
    assert moment.reported(30.0, there={"t": {0: 60}}, read={"t": {0: 50}}, landed_s=None) == 20.0


def test_a_sink_that_is_behind_for_long_keeps_few_reports_and_stays_close_to_the_truth() -> None:
    moment, seed = AppliedUpTo(began_s=0.0), random.Random(7)
    there = read = 0
    arrived = [(0.0, 0)]
    for at in range(1, 3000):
        there += seed.randrange(20)
        read = min(there, read + seed.randrange(16))
        arrived.append((float(at), there))

        found = moment.reported(float(at), there=offsets(there), read=offsets(read), landed_s=None)

        true = max(time for time, end in arrived if end <= read)
        assert found <= true
        assert at - found <= 1.1 * (at - true) + 1
    assert len(moment._unread) <= 64
