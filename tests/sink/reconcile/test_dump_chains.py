"""Whole dumps: whatever a worker does, a dump that is taken for whole has brought, or shown to be newer, every row of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest
from dblog_sink.reconcile.chunk_ledger import Marker
from dblog_sink.reconcile.dump_chains import (
    LOST,
    MISSING_CHUNK,
    NOT_BEGUN,
    NOT_COUNTED,
    NOT_ENDED,
    OTHER_LOG,
    OVERTAKEN,
    SHARED,
    TOO_LONG,
    TOO_OLD,
    VERIFY,
    Chains,
    Dump,
    Kept,
    Link,
    is_alone,
)
from dblog_sink.reconcile.folding import FOLD_ABOVE
from dblog_sink.records.source_epochs import EPOCH_SHIFT

TOPIC = "p.shop.t"
PAST = {TOPIC: {0: 1000}}
EPOCH = 7 << EPOCH_SHIFT


def link(chunk_id: str, at: int, after: str | None, upto: str | None, **facts: Any) -> Link:
    marker = Marker(
        topic=facts.pop("topic", TOPIC),
        position=(EPOCH, at),
        chunk_id=chunk_id,
        table="shop.t",
        rows=1,
        ends={0: facts.pop("end", 10)},
        exact=False,
        met_s=facts.pop("met_s", 1000.0),
    )
    given: dict[str, Any] = {"scope": "table", "server": "p", "source": "shop.t", "begins": after is None, "final": False, "high": EPOCH}
    return Link(marker=marker, dump=facts.pop("dump", "d1"), after=after, upto=upto, dropped=0, ts_ms=50_000, **given | facts)


def decided(chains: Chains, read_to: dict[str, dict[int, int]] = PAST, *, now_s: float = 1100.0, counted: bool = True) -> list[Dump | Kept]:
    return chains.decide(read_to, now_s=now_s, wait_s=60.0, keep_s=3600.0, uncounted=lambda _topic, _low: not counted)


def whole(found: Sequence[Dump | Kept]) -> list[int]:
    return [one.low[1] for one in found if isinstance(one, Dump)]


def reasons(found: Sequence[Dump | Kept]) -> list[str]:
    return [one.why for one in found if isinstance(one, Kept)]


def chained(*links: Link, faults: dict[str, str] | None = None, folding: bool = False) -> Chains:
    """``folding``: whatever can be folded is, with each chunk that comes."""
    chains = Chains(fold_above=0, unfolded=0) if folding else Chains()
    for one in links:
        for chain in chains.open.values():
            chain.left_over = 0
        chains.link(one)
        chains.judge(one.marker.topic, one.marker.chunk_id, (faults or {}).get(one.marker.chunk_id, ""))
    return chains


def test_ranges_that_several_readers_read_are_a_whole_once_the_last_of_them_has_come_in_any_order() -> None:
    """The table's end comes first, then the middle, which a restarted worker reads again with other bounds."""
    first, end = link("1", 10, None, "[10]"), link("2", 20, "[60]", "[90]", final=True)
    middle = [link("3", 21, "[30]", "[40]"), link("r2/1", 40, "[30]", "[60]"), link("4", 30, "[10]", "[30]")]

    chains = chained(first, end)
    assert decided(chains, now_s=1001.0) == []
    for one in middle:
        assert whole(decided(chains, now_s=1001.0)) == []
        chains.link(one)
        chains.judge(TOPIC, one.marker.chunk_id, "")

    assert whole(decided(chains, now_s=1001.0)) == [10]


# -- all short stories of a worker and its source ---------------------------------------------------------------------------------------------


@dataclass
class World:
    """A source of three keys at most, the worker that dumps it, and what reaches the sink. Time is the position in the log."""

    rows: set[int] = field(default_factory=lambda: {1, 2})
    newest: dict[int, int] = field(default_factory=dict)
    """By key, the position of its newest record."""
    chunks: list[tuple[Link, dict[int, int]]] = field(default_factory=list)
    """With the rows that were sent."""
    now: int = 0
    after: int | None = None
    before: int | None = None
    """The frontier that is stored: a killed worker goes on there."""
    greatest: int | None = None
    started: bool = False
    started_before: bool = False
    over: bool = False
    over_before: bool = False

    def play(self, step: str) -> None:
        self.now += 1
        match step.split():
            case ["chunk", rows_max]:
                if not self.over:
                    self._chunk(int(rows_max))
            case ["killed"]:
                self.after, self.started, self.over = self.before, self.started_before, self.over_before
            case ["again"]:
                self.after = self.before = None
                self.started = self.started_before = self.over = self.over_before = False
            case ["insert", key]:
                self.rows.add(int(key))
                self.newest[int(key)] = self.now
            case ["delete", key]:
                self.rows.discard(int(key))

    def _chunk(self, rows_max: int) -> None:
        self.before, self.started_before, self.over_before = self.after, self.started, self.over
        begins = not self.started
        if begins:
            self.greatest, self.started = max(self.rows, default=None), True
        inside = sorted(key for key in self.rows if (self.after or 0) < key <= (self.greatest or 0))[:rows_max]
        final = self.greatest is None or len(inside) < rows_max or inside[-1] == self.greatest
        upto = self.greatest if final else inside[-1]
        bounds = [None if bound is None else f"[{bound}]" for bound in (self.after, upto)]
        made = link(f"run/{self.now}", self.now, bounds[0], bounds[1], begins=begins, final=final)
        self.chunks.append((made, dict.fromkeys(inside, self.now)))
        self.after, self.over = upto, final


STEPS = ("chunk 1", "chunk 2", "killed", "again", "insert 3", "delete 1", "delete 2")


def test_after_every_short_story_a_whole_dump_has_shown_every_row_of_the_source_whatever_was_lost() -> None:
    found_whole = 0
    for story in product(STEPS, repeat=5):
        world = World()
        for step in story:
            world.play(step)
        if not any(made.final for made, _ in world.chunks):
            continue
        for lost in (None, *(made.marker.chunk_id for made, _ in world.chunks)):
            for what in ("rows", "marker") if lost else ("nothing",):
                newest = dict(world.newest)
                for made, sent in world.chunks:
                    for key, at in sent.items() if made.marker.chunk_id != lost or what == "marker" else ():
                        newest[key] = max(at, newest.get(key, 0))
                met = [made for made, _ in world.chunks if made.marker.chunk_id != lost or what == "rows"]
                faults = {lost: "lost"} if lost and what == "rows" else {}
                outcomes = [whole(decided(chained(*order, faults=faults))) for order in (met, met[::-1])]

                assert outcomes[0] == outcomes[1], (story, lost, what)
                for low in outcomes[0]:
                    found_whole += 1
                    assert all(newest.get(key, 0) >= low for key in world.rows), (story, lost, what)
                for order in (met, met[::-1]):
                    for low in whole(decided(chained(*order, faults=faults, folding=True))):
                        assert low in outcomes[0], (story, lost, what, "folded")
                if what == "nothing" and world.over:
                    assert outcomes[0] == [max(made.low[1] for made, _ in world.chunks if made.begins)], (story, "nothing was lost")
    assert found_whole > 1000


# -- one thing at a time ----------------------------------------------------------------------------------------------------------------------

FIRST, SECOND, LAST = link("a", 1, None, "[3]"), link("b", 2, "[3]", "[6]"), link("c", 3, "[6]", "[9]", final=True)
FACTS = {
    "the first chunk was not met": ((SECOND, LAST), NOT_BEGUN),
    "a chunk between was not met": ((FIRST, LAST), MISSING_CHUNK),
    "the dump is of a predicate": (
        (replace(FIRST, scope="predicate"), SECOND, LAST),
        "it does not cover the whole table (scope predicate)",
    ),
    "another server's log began": ((FIRST, SECOND, replace(LAST, high=8 << EPOCH_SHIFT)), OTHER_LOG),
    "the topic's name is not the table's": (tuple(replace(one, source="shop.t_2023") for one in (FIRST, SECOND, LAST)), SHARED),
}


@pytest.mark.parametrize(("links", "why"), FACTS.values(), ids=FACTS)
def test_what_is_doubtful_keeps_the_rows_and_is_reported_once(links: tuple[Link, ...], why: str) -> None:
    chains = chained(*links)

    assert reasons(decided(chains)) == [why]
    assert decided(chains) == []


def test_a_dump_is_whole_once_and_what_a_killed_worker_reads_again_of_its_end_changes_nothing() -> None:
    chains = chained(FIRST, SECOND, LAST)

    assert whole(decided(chains)) == [1]
    again = link("d", 4, "[6]", "[9]", final=True)
    chains.link(again)
    chains.link(LAST)
    chains.link(FIRST)

    assert chains.open == {}
    assert decided(chains) == []
    anew = link("e", 5, None, "[9]", final=True)  # the table is begun again, and is one chunk
    chains.link(anew)
    chains.judge(TOPIC, "e", "")
    assert whole(decided(chains)) == [5]


def test_a_dump_is_not_judged_before_its_chunks_are() -> None:
    chains = Chains()
    for one in (FIRST, SECOND, LAST):
        chains.link(one)
        assert decided(chains) == []
    chains.judge(TOPIC, "c", "")
    chains.judge(TOPIC, "a", "")
    assert decided(chains) == []

    chains.judge(TOPIC, "b", "2 rows did not arrive")
    assert reasons(decided(chains)) == ["2 rows did not arrive"]
    chains.judge(TOPIC, "b", "")  # they came late

    assert whole(decided(chains)) == [1]


def test_a_missing_marker_is_waited_for() -> None:
    chains = chained(FIRST, LAST)

    assert decided(chains, now_s=1059.0) == []
    assert reasons(decided(chains, now_s=1060.0)) == [MISSING_CHUNK]
    chains.link(SECOND)
    chains.judge(TOPIC, "b", "")

    assert whole(decided(chains, now_s=1061.0)) == [1]


def test_where_changes_replaced_rows_of_a_chunk_every_partition_is_read_past_it_first() -> None:
    chains = chained(FIRST, replace(SECOND, dropped=1), LAST)

    assert decided(chains, {TOPIC: {0: 9}}) == decided(chains, {}) == decided(chains, now_s=1059.0) == []
    assert whole(decided(chains, {TOPIC: {0: 10}})) == [1]


def test_two_dumps_of_one_table_at_once_are_whole_each_by_itself() -> None:
    other = [
        replace(one, dump="d2", marker=replace(one.marker, chunk_id=f"{one.marker.chunk_id}2", position=(EPOCH, at)))
        for one, at in (
            (FIRST, 2),
            (SECOND, 4),
            (LAST, 5),
        )
    ]
    chains = chained(FIRST, other[0], SECOND, other[1], LAST)

    assert whole(decided(chains)) == [1]
    chains.link(other[2])
    chains.judge(TOPIC, "c2", "")

    assert whole(decided(chains)) == [2]


def test_a_dump_that_began_before_records_of_its_topic_were_lost_is_doubtful_and_a_later_one_is_not() -> None:
    chains = chained(FIRST, SECOND, LAST)
    chains.lose("p.shop.other", 90.0)
    chains.lose(TOPIC, 50.0)
    assert reasons(decided(chains)) == [LOST]

    for one in (FIRST, SECOND, LAST):
        chains.link(replace(one, dump="d2", ts_ms=110_001))
    for chunk_id in "abc":
        chains.judge(TOPIC, chunk_id, "")

    assert whole(decided(chains)) == [1]


def test_records_that_were_lost_while_the_first_window_of_a_dump_was_open_make_it_doubtful_though_it_closed_later() -> None:
    chains = chained(replace(FIRST, ts_ms=109_000), SECOND, LAST)
    chains.lose(TOPIC, 50.0)

    assert reasons(decided(chains)) == [LOST]


@pytest.mark.parametrize(
    ("lost_s", "outcome"), [(201.0, [LOST]), (139.0, [])], ids=["behind the low watermark", "longer in front of it than clocks differ"]
)
def test_records_that_were_lost_in_a_first_window_of_any_length_make_a_dump_doubtful(lost_s: float, outcome: list[str]) -> None:
    """The window was open from 200 to 900."""
    chains = chained(
        replace(FIRST, ts_ms=900_000, low_ts_ms=200_000), *(replace(one, ts_ms=910_000, low_ts_ms=905_000) for one in (SECOND, LAST))
    )
    chains.lose(TOPIC, lost_s)

    assert reasons(decided(chains)) == outcome


@pytest.mark.parametrize("folding", [False, True], ids=["each chunk", "folded"])
@pytest.mark.parametrize("low_ts_ms", [None, 300_000], ids=["an older worker", "a worker of today"])
def test_a_loss_up_to_a_wait_before_the_earliest_time_in_the_markers_makes_a_dump_doubtful(low_ts_ms: int | None, folding: bool) -> None:
    """Markers of older workers have only the time at which a window closed: 300 here, and one is taken to be open for 60 s at most."""
    facts = {"ts_ms": 300_000 if low_ts_ms is None else 900_000, "low_ts_ms": low_ts_ms}
    links = [replace(FIRST, **facts), *(replace(one, ts_ms=910_000) for one in (SECOND, LAST))]
    for lost_s, outcome in ((239.9, []), (240.0, [LOST]), (301.0, [LOST])):
        chains = chained(*links, folding=folding)
        chains.lose(TOPIC, lost_s)

        assert reasons(decided(chains)) == outcome, lost_s


def test_a_whole_dump_began_when_its_low_watermark_was_met() -> None:
    for low_ts_ms, began_ms in ((200, 200), (None, 50_000)):
        (found,) = decided(chained(replace(FIRST, low_ts_ms=low_ts_ms), SECOND, LAST))

        assert isinstance(found, Dump)
        assert found.ts_ms == began_ms


def test_a_worker_whose_clock_is_ahead_does_not_make_a_dump_later_than_a_loss() -> None:
    """The sink met the last chunk at 1000 by its own clock, the worker wrote it at 1300 by another: the first was closed at 900, not at 1200."""
    links = [replace(FIRST, ts_ms=1_200_000), replace(SECOND, ts_ms=1_250_000), replace(LAST, ts_ms=1_300_000)]
    for lost_s, outcome in ((900.0, [LOST]), (839.0, [])):
        chains = chained(*links)
        chains.lose(TOPIC, lost_s)

        assert reasons(decided(chains)) == outcome


def test_a_dump_whose_first_rows_may_have_come_before_counting_began_is_doubtful() -> None:
    assert reasons(decided(chained(FIRST, SECOND, LAST), counted=False)) == [NOT_COUNTED]


def test_a_dump_that_takes_longer_than_its_chunks_are_kept_is_doubtful_and_is_forgotten() -> None:
    chains = chained(FIRST, SECOND, link("c", 3, "[6]", "[9]", final=True, met_s=5000.0))

    assert reasons(decided(chains, now_s=5100.0)) == [TOO_OLD]
    assert decided(chains, now_s=9000.0) == []
    assert chains.open == {}


def test_a_topic_that_other_tables_rows_go_to_keeps_them() -> None:
    chains = chained(FIRST, SECOND, LAST)
    chains.name(TOPIC, "shop.t_2023")

    assert reasons(decided(chains)) == [SHARED]


@pytest.mark.parametrize(
    ("topic", "server", "source", "alone"),
    [
        ("p.shop.t", "p", "shop.t", True),
        ("a.b.my-shop.t_1", "a.b", "my-shop.t_1", True),
        ("p.shop.t", "p", "shop.u", False),
        ("p-shop-t", "p", "shop.t", False),
        ("p.shop.t_1", "p", "shop.t$1", False),  # the topic of shop.t_1 has the same name
        ("p.shop.t.1", "p", "shop.t.1", False),  # shop.`t.1`, or `shop.t`.1
    ],
)
def test_a_topic_is_one_tables_where_its_name_can_be_no_others(topic: str, server: str, source: str, alone: bool) -> None:
    assert is_alone(topic, server, source) == alone


def test_the_oldest_dumps_of_too_many_chunks_are_let_go() -> None:
    chains = chained(FIRST, SECOND, LAST, replace(FIRST, dump="d2"))

    assert reasons(chains.forget(3)) == [TOO_LONG]
    assert list(chains.open) == [(TOPIC, "d2")]
    assert chains.forget(1) == []


@pytest.mark.long
def test_a_dump_of_half_a_million_chunks_is_whole_and_takes_no_more_memory_than_one_of_some_thousands() -> None:
    count, links_most = 500_000, 0
    chains, comparing_chains = Chains(), Chains(mode=VERIFY)
    for n in range(count):
        bounds = [None if n == 0 else f"[{n}]", f"[{n + 1}]"]
        one = link(f"r/{n}", n, *bounds, final=n == count - 1, end=n % 900)
        chains.link(one)
        chains.judge(TOPIC, f"r/{n}", "")
        comparing_chains.link(one)
        if n % 10_000 == 0:
            links_most = max(links_most, *(len(chain.links) for both in (chains, comparing_chains) for chain in both.open.values()))
            assert chains.forget(200_000) == comparing_chains.forget(200_000) == []

    assert links_most <= FOLD_ABOVE + 1
    assert whole(decided(chains)) == [0]
    (dump,) = decided(comparing_chains)
    assert isinstance(dump, Dump)
    assert (dump.low, dump.upto) == ((EPOCH, 0), (EPOCH, count - 1))


def test_a_chunk_that_is_missing_in_the_middle_of_many_is_found_missing_and_makes_them_whole_when_it_comes() -> None:
    count, gap = 3_000, 1_500
    chains = Chains(fold_above=100, unfolded=20)
    for n in range(count):
        if n != gap:
            chains.link(link(f"r/{n}", n, None if n == 0 else f"[{n}]", f"[{n + 1}]", final=n == count - 1))
            chains.judge(TOPIC, f"r/{n}", "")
    assert len(chains.open[TOPIC, "d1"].links) < 200
    assert reasons(decided(chains)) == [MISSING_CHUNK]

    chains.link(link("late", gap, f"[{gap}]", f"[{gap + 1}]"))
    chains.judge(TOPIC, "late", "")

    assert whole(decided(chains)) == [0]


def test_a_chunk_whose_rows_are_missing_is_never_folded_away() -> None:
    chains = Chains(fold_above=100, unfolded=20)
    for n in range(1_000):
        chains.link(link(f"r/{n}", n, None if n == 0 else f"[{n}]", f"[{n + 1}]", final=n == 999))
        chains.judge(TOPIC, f"r/{n}", "rows are missing" if n == 500 else "")

    assert reasons(decided(chains)) == ["rows are missing"]


def test_what_several_readers_of_one_table_read_is_folded_for_each_of_them() -> None:
    readers, each = 4, 500
    chains = Chains(fold_above=100, unfolded=20)
    at = 0
    for n in range(each):
        for reader in range(readers):
            start = reader * each + n
            chains.link(link(f"r/{start}", at, None if start == 0 else f"[{start}]", f"[{start + 1}]", final=start == readers * each - 1))
            chains.judge(TOPIC, f"r/{start}", "")
            at += 1

    assert len(chains.open[TOPIC, "d1"].links) < 200
    assert whole(decided(chains)) == [0]


# -- dumps that compare -----------------------------------------------------------------------------------------------------------------------


def comparing(*links: Link) -> Chains:
    chains = Chains(mode=VERIFY)
    for one in links:
        chains.link(one)
    return chains


def test_a_dump_that_compares_is_whole_once_every_partition_is_read_past_all_its_chunks() -> None:
    later = replace(LAST, marker=replace(LAST.marker, ends={0: 20, 1: 5}))
    chains = comparing(FIRST, SECOND, later)

    assert decided(chains, {TOPIC: {0: 19, 1: 5}}, counted=False) == []
    assert decided(chains, {TOPIC: {0: 20, 1: 5}}, now_s=1050.0) == []
    (found,) = decided(chains, {TOPIC: {0: 20, 1: 5}}, counted=False)

    assert isinstance(found, Dump)
    assert (found.mode, found.low, found.upto) == (VERIFY, FIRST.low, LAST.low)


def test_a_dump_of_some_rows_shows_these_rows() -> None:
    (found,) = decided(comparing(*(replace(one, scope="predicate") for one in (FIRST, SECOND, LAST))))

    assert isinstance(found, Dump)
    assert found.scope == "predicate"


@pytest.mark.parametrize("over", [False, True], ids=["while it runs", "once it is whole"])
def test_a_dump_that_a_newer_one_of_the_table_overtakes_before_it_ends_is_not_waited_for(over: bool) -> None:
    newer = [
        replace(one, dump="d2", marker=replace(one.marker, chunk_id=f"{one.marker.chunk_id}2", position=(EPOCH, one.low[1] + 10)))
        for one in (FIRST, SECOND, LAST)
    ]
    chains = comparing(*newer) if over else comparing(newer[0])
    assert whole(decided(chains)) == ([11] if over else [])
    for one in (FIRST, SECOND):
        chains.link(one)

    found = decided(chains)

    assert reasons(found) == [OVERTAKEN]
    assert [one.dump.dump for one in found if isinstance(one, Kept)] == ["d1"]
    assert (TOPIC, "d1") not in chains.open


def test_a_dump_that_nothing_can_make_whole_is_given_up_at_once() -> None:
    chains = comparing(FIRST, SECOND, LAST)
    chains.lose(TOPIC, 50.0)

    assert reasons(decided(chains)) == [LOST]
    assert chains.open == {}
    assert reasons(decided(comparing(SECOND, LAST))) == [NOT_BEGUN]


def test_a_dump_that_never_ends_is_given_up_when_it_is_too_old() -> None:
    chains = comparing(FIRST, SECOND)

    assert decided(chains, now_s=4000.0) == []
    assert reasons(decided(chains, now_s=5000.0)) == [NOT_ENDED]
    assert chains.open == {}
