"""What lands, what is applied at once and what is merged when: all small situations, none forgotten."""

from __future__ import annotations

import itertools
import random

import pytest
from dblog_sink.batches import schedule
from dblog_sink.batches.schedule import Cost, LandedBatch, Table
from dblog_sink.config.policy import Policy

POLICY = Policy(trigger_s=2.0, rows_min=100, rows_max=500, age_max_s=60.0, patience=3.0)


def table(
    topic: str = "t", *, rows: int = 0, waiting: list[LandedBatch] | None = None, seconds: float | None = None, **more: object
) -> Table:
    made = Table(topic, rows=rows, waiting=waiting or [], **more)  # type: ignore[arg-type]
    if seconds is not None:
        made.written = True
        made.cost.observe(10, seconds)
        made.merge_cost.observe(10, seconds)
    return made


def test_batch_sequences_rise_with_the_batch_and_with_the_checkpoint() -> None:
    sequences = [schedule.sequence_of(epoch, batch) for epoch in range(3) for batch in (0, 1, 255, 256, 2**40 - 1)]

    assert sequences == sorted(set(sequences))
    assert [schedule.group(one) for one in sequences] == sorted(schedule.group(one) for one in sequences)


def test_every_topic_of_a_batch_is_either_applied_or_lands() -> None:
    for waiting, busy, parked, count, seconds in itertools.product(
        (0, 1), (False, True), (None, "why"), (1, 99, 100, 500), (None, 0.5, 30.0)
    ):
        one = table("a", rows=1000, waiting=[LandedBatch(1, 5, 0.0)] * waiting, busy=busy, parked=parked, seconds=seconds)

        decision = schedule.decide({"a": count, "new": 7}, {"a": one}, POLICY)

        assert sorted((*decision.apply, *decision.land)) == ["a", "new"]
        if waiting or busy or parked is not None:
            assert "a" in decision.land, "rows must not pass rows that wait, nor two writers meet"
        elif count >= schedule.worth(one, POLICY):
            assert "a" in decision.apply, "enough rows are worth a merge, whatever it costs"
        elif seconds == 30.0 and count < 500:
            assert "a" in decision.land, "a dear merge of a few rows would hold up the batch"


def test_the_dearer_a_merge_the_more_rows_it_must_have() -> None:
    policy = Policy(trigger_s=2.0, rows_min=100, rows_max=1_000_000, age_max_s=60.0)
    for seconds, rows in ((0.0001, 100), (0.8, 100_000), (4.0, 500_000), (600.0, 1_000_000)):
        dear = table("a", seconds=seconds)

        assert schedule.worth(dear, policy) == pytest.approx(rows, rel=0.01)

    assert schedule.worth(table("new"), policy) == 100, "of a table that is not known, nothing is expected"
    slow = table("a", seconds=3.0)
    assert schedule.decide({"a": schedule.worth(slow, policy) - 1}, {"a": slow}, policy).land == ("a",)
    assert schedule.decide({"a": schedule.worth(slow, policy)}, {"a": slow}, policy).apply == ("a",)


def test_cheap_tables_are_applied_until_the_interval_is_used_up() -> None:
    tables = {f"t{n}": table(f"t{n}", seconds=0.5) for n in range(10)} | {"dear": table("dear", seconds=1.9)}

    decision = schedule.decide(dict.fromkeys(tables, 10), tables, POLICY)

    assert len(decision.apply) == 4
    assert "dear" in decision.land


def test_what_landed_is_merged_by_rows_or_by_an_age_that_grows_with_the_cost() -> None:
    few = [LandedBatch(1, 10, 100.0)]
    cheap, dear, unbounded = table(waiting=few, seconds=0.1), table(waiting=few, seconds=5.0), table(waiting=few, seconds=500.0)

    def begins(one: Table) -> float:
        return next(at / 10 for at in range(1000, 3000) if schedule.due([one], POLICY, now_s=at / 10))

    assert begins(cheap) == pytest.approx(102.0), "never more often than batches come"
    assert begins(dear) == pytest.approx(115.0), "three times as long at rest as at work"
    assert begins(unbounded) == pytest.approx(160.0), "the configured age is kept whatever the cost"
    assert schedule.due([table(waiting=[LandedBatch(1, 500, 100.0)], seconds=500.0)], POLICY, now_s=100.0), "enough rows need no age"


def test_when_the_source_is_quiet_a_merge_begins_after_as_long_as_it_takes() -> None:
    waiting = [LandedBatch(1, 10, 100.0)]
    cheap, dear = table("cheap", waiting=waiting, seconds=0.1), table("dear", waiting=waiting, seconds=9.0)

    def begins(one: Table) -> float:
        return next(at / 10 for at in range(1000, 3000) if schedule.due([one], POLICY, now_s=at / 10, quiet_s=at / 10 - 100))

    assert begins(dear) == pytest.approx(109.0)
    assert begins(cheap) == pytest.approx(102.0), "as without it: its age comes first"
    assert not schedule.due([dear], POLICY, now_s=120.0, quiet_s=0.0), "while batches come it waits for its age"
    parked = table(waiting=waiting, parked="why")
    assert not schedule.due([parked], POLICY, now_s=1e6, quiet_s=1e6)


def test_nothing_is_merged_that_is_busy_parked_or_resting_after_a_failure() -> None:
    waiting = [LandedBatch(1, 1000, 0.0)]
    tables = [table("busy", waiting=waiting, busy=True), table("parked", waiting=waiting, parked="why"), table("none")]
    tables.append(table("later", waiting=waiting, not_before_s=1000.0))

    assert schedule.due(tables, POLICY, now_s=999.0) == []
    assert [one.topic for one in schedule.due(tables, POLICY, now_s=1000.0)] == ["later"]
    assert schedule.due(tables, POLICY, now_s=999.0, everything=True) == []


def test_a_drain_merges_also_what_is_young_and_little() -> None:
    young = table("young", waiting=[LandedBatch(1, 10, 100.0)])

    assert schedule.due([young], POLICY, now_s=100.0) == []
    assert [one.topic for one in schedule.due([young], POLICY, now_s=100.0, everything=True)] == ["young"]


def test_a_merge_takes_whole_batches_from_the_oldest_on_and_at_least_one() -> None:
    for sizes in itertools.product((1, 200, 499, 501), repeat=3):
        waiting = [LandedBatch(n, rows, 0.0) for n, rows in enumerate(sizes)]

        (one,) = schedule.due([table(waiting=waiting)], POLICY, now_s=1000.0)

        assert one.rows == sum(sizes[: one.to + 1])
        assert one.rows <= 500 or one.to == 0
        assert one.to == 2 or one.rows + sizes[one.to + 1] > 500


def test_the_most_overdue_table_comes_first_and_none_starves() -> None:
    dice = random.Random(1)
    tables = {f"t{n}": table(f"t{n}", seconds=dice.choice([0.2, 1.0, 8.0])) for n in range(20)}
    merged: dict[str, float] = {}
    longest: dict[str, float] = dict.fromkeys(tables, 0.0)
    now_s = 0.0
    for number in range(400):  # one thread, and more work than it can do
        now_s += 0.5
        for one in tables.values():
            one.waiting.append(LandedBatch(number, dice.randint(1, 20), now_s))
        for found in schedule.due(tables.values(), POLICY, now_s=now_s)[:1]:
            one = tables[found.topic]
            now_s += one.cost.seconds(found.rows)
            longest[one.topic] = max(longest[one.topic], now_s - merged.get(one.topic, 0.0))
            merged[one.topic] = now_s
            one.waiting = [left for left in one.waiting if left.sequence > found.to]

    assert set(merged) == set(tables)
    assert max(longest.values()) < 300.0


def test_the_cost_is_learned_and_follows_a_change() -> None:
    cost = Cost()
    assert cost.seconds(10) == schedule.UNKNOWN_S
    for rows in (100, 5000, 100_000, 2000, 50_000) * 4:
        cost.observe(rows, 2.0 + rows / 50_000)
    assert cost.seconds(0) == pytest.approx(2.0, rel=0.1)
    assert cost.seconds(1_000_000) == pytest.approx(22.0, rel=0.1)
    for rows in (100, 5000, 100_000, 2000, 50_000) * 4:
        cost.observe(rows, 0.2)
    assert cost.seconds(5000) < 0.4


def test_the_first_write_since_the_start_shows_nothing_about_the_next() -> None:
    one = table()
    one.learn(1000, 30.0, merged=True)
    assert one.written
    assert one.cost.seconds(1000) == schedule.UNKNOWN_S
    one.learn(1000, 2.0, merged=True)
    one.learn(1000, 2.0, merged=False)
    assert one.cost.seconds(1000) == one.merge_cost.seconds(1000) == pytest.approx(2.0)
    assert one.cost.n > one.merge_cost.n


def test_a_full_batch_whose_merge_costs_by_its_rows_is_applied_and_one_whose_table_is_dear_to_open_lands() -> None:
    policy = Policy(trigger_s=10.0, rows_min=100_000, rows_max=2_000_000, age_max_s=60.0)
    by_rows, by_table = table("by_rows"), table("by_table")
    for one, seconds in ((by_rows, 15.0), (by_table, 60.0)):
        for _ in range(3):
            one.learn(1_000_000, seconds, merged=True)

    decision = schedule.decide({"by_rows": 1_000_000, "by_table": 1_000_000}, {"by_rows": by_rows, "by_table": by_table}, policy)

    assert decision == schedule.Decision(("by_rows",), ("by_table",))


def test_a_cost_is_never_negative_and_never_falls_with_the_rows() -> None:
    dice = random.Random(2)
    for _ in range(200):
        cost = Cost()
        for _ in range(dice.randint(1, 12)):
            cost.observe(dice.choice([1, 10, 1000, 10**6]), dice.random() * dice.choice([0.01, 1, 100]))
        predicted = [cost.seconds(rows) for rows in (0, 1, 10, 1000, 10**6, 10**8)]
        assert predicted == sorted(predicted)
        assert predicted[0] > 0


def test_only_groups_of_batches_of_which_none_waits_expire() -> None:
    waiting = [
        table("a", waiting=[LandedBatch(3 * 256 + 5, 1, 0.0), LandedBatch(9 * 256, 1, 0.0)]),
        table("b", waiting=[LandedBatch(4 * 256, 1, 0.0)], parked="why"),
    ]

    assert schedule.expirable(waiting, newest=10 * 256) == 3
    assert schedule.expirable([table("c")], newest=10 * 256) == 10


def test_a_parked_table_keeps_only_its_own_rows_of_old_groups() -> None:
    tables = [
        table("a", waiting=[LandedBatch(6 * 256 + 5, 1, 0.0)]),
        table("b", waiting=[LandedBatch(4 * 256, 1, 0.0)], parked="why"),
        table("c"),
    ]

    assert schedule.kept_for_parked(tables, newest=10 * 256) == (6, frozenset({"b"}))
    assert schedule.kept_for_parked(tables[1:], newest=10 * 256) == (10, frozenset({"b"}))


def test_of_many_new_tables_none_holds_up_the_batch_and_a_few_are_made_at_once() -> None:
    known = table("known", seconds=0.5)

    assert schedule.decide({"a": 7, "b": 7}, {}, POLICY) == schedule.Decision(("a", "b"), ())
    assert schedule.decide({"a": 7, "b": 7, "c": 7, "known": 7}, {"known": known}, POLICY) == schedule.Decision(("known",), ("a", "b", "c"))


def test_landed_rows_for_which_the_outcome_of_a_dump_waits_are_merged_at_once() -> None:
    dear = table("a", rows=1000, waiting=[LandedBatch(4, 5, 100.0), LandedBatch(6, 5, 100.0)], seconds=10.0)

    def due() -> list[schedule.Due]:
        return schedule.due([dear], POLICY, now_s=100.0)

    assert due() == []
    dear.awaited = 3
    assert due() == [], "what landed after the dump had its outcome in sight is not waited for"
    dear.awaited = 4
    assert due() == [schedule.Due("a", 6, 10)]
    for blocked in ({"busy": True}, {"parked": "why"}, {"not_before_s": 101.0}):
        assert schedule.due([table("a", waiting=dear.waiting, awaited=4, **blocked)], POLICY, now_s=100.0) == []
