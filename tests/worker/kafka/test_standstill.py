"""When a reader counts as standing still: behind an end, at one offset, for the limit, while the ends are known."""

from dblog.kafka.standstill import Standstill


def test_a_partition_stands_still_that_is_behind_at_one_offset_for_the_limit():
    watch = Standstill(limit_s=30)

    assert watch.seen({0: 5, 1: 7}, {0: 9, 1: 7}, 100.0) == []
    assert watch.seen({0: 5, 1: 7}, {0: 11, 1: 7}, 129.9) == []
    assert watch.seen({0: 5, 1: 7}, {0: 11, 1: 7}, 130.0) == [0]


def test_whoever_moves_or_reaches_the_end_does_not_stand_still():
    watch = Standstill(limit_s=30)

    assert watch.seen({0: 5, 1: 5}, {0: 9, 1: 9}, 0.0) == []
    assert watch.seen({0: 6, 1: 9}, {0: 9, 1: 9}, 29.0) == []
    assert watch.seen({0: 6, 1: 9}, {0: 9, 1: 10}, 58.0) == [], "1 was at its end in between, and 0 has moved"
    assert watch.seen({0: 6, 1: 9}, {0: 9, 1: 10}, 59.0) == [0]
    assert watch.seen({0: 6, 1: 9}, {0: 9, 1: 10}, 88.0) == [0, 1]


def test_time_in_which_the_ends_are_not_known_counts_for_nothing():
    watch = Standstill(limit_s=30)
    watch.seen({0: 5}, {0: 9}, 0.0)

    watch.seen({0: 5}, {}, 600.0)
    assert watch.seen({0: 5}, {0: 9}, 601.0) == []
    watch.forget()
    assert watch.seen({0: 5}, {0: 9}, 1200.0) == []
    assert watch.seen({0: 5}, {0: 9}, 1230.0) == [0]
