"""The window over every small history: each placement of writes around low watermark, select and high watermark. # I2 I3"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest
from dblog.core.watermark import Closed, Discarded, WatermarkPosition, Windows
from dblog.model import TableId

TABLE = TableId("shop", "orders")
OTHER = TableId("shop", "customers")
KEYS = (b"a", b"b", b"c")
State = dict[bytes, int]


@dataclass(frozen=True, slots=True)
class Write:
    """One committed change: rows it removes, and the rows it leaves (key -> version)."""

    removes: tuple[bytes, ...]
    leaves: tuple[bytes, ...]


def writes_of(state: State) -> Iterator[Write]:
    """Every change that the state allows: insert, update, delete, and key change."""
    for key in KEYS:
        if key in state:
            yield Write((), (key,))
            yield Write((key,), ())
            yield from (Write((key,), (other,)) for other in KEYS if other not in state)
        else:
            yield Write((), (key,))


def histories(state: State, writes: int, version: int = 10) -> Iterator[tuple[tuple[Write, ...], State]]:
    """All sequences of that many writes from a state, with the state they end in."""
    if writes == 0:
        yield (), state
        return
    for write in writes_of(state):
        after = {k: v for k, v in state.items() if k not in write.removes} | dict.fromkeys(write.leaves, version)
        for rest, final in histories(after, writes - 1, version + 1):
            yield (write, *rest), final


def initial_states() -> Iterator[State]:
    """Every subset of two keys; the third is where key changes go."""
    for present in product((False, True), repeat=2):
        yield {key: 1 + i for i, key in enumerate(KEYS[:2]) if present[i]}


def position(n: int) -> WatermarkPosition:
    """Any position in the log."""
    return WatermarkPosition(file="binlog.000001", pos=n, sequence_high=1, sequence_low=n)


@dataclass(slots=True)
class Output:
    """What a consumer sees: (key, version of the write or of the row dumped, is the row alive after it)."""

    records: list[tuple[bytes, int, bool]]

    def fold(self) -> State:
        """The table that these records describe, on top of nothing."""
        state: State = {}
        for key, version, alive in self.records:
            state.pop(key, None)
            if alive:
                state[key] = version
        return state


def play(initial: State, writes: tuple[Write, ...], gaps: tuple[int, ...], ranges: list[tuple[bytes, ...]]) -> Output:
    """Run windows over ``ranges`` one after the other; write i is committed in gap ``gaps[i]``.

    Gap numbers count the stretches between the steps low, select, high of each window, from before the first to after the last.
    """
    windows: Windows[State] = Windows(run="r", keys_max=100)
    output = Output([])
    state = dict(initial)
    queue = list(zip(writes, gaps, range(10, 10 + len(writes)), strict=True))
    step = 0

    def commit_writes_of_gap() -> None:
        nonlocal step
        while queue and queue[0][1] == step:
            write, _, version = queue.pop(0)
            for key in write.removes:
                state.pop(key, None)
                output.records.append((key, version, False))
            for key in write.leaves:
                state[key] = version
                output.records.append((key, version, True))
            assert not windows.note(TABLE, [*write.removes, *write.leaves])
        step += 1

    for keys in ranges:
        commit_writes_of_gap()
        ticket = windows.declare(TABLE, keyed=True)
        assert windows.watermark(ticket.low_token, position(step)) == []
        commit_writes_of_gap()
        assert windows.submit(ticket.number, {k: v for k, v in state.items() if k in keys})
        commit_writes_of_gap()
        (closed,) = windows.watermark(ticket.high_token, position(step))
        assert isinstance(closed, Closed)
        output.records += [(k, v, True) for k, v in closed.rows.items() if k not in closed.dropped]
    commit_writes_of_gap()
    assert not queue
    assert windows.open_total == 0
    return output


def check(initial: State, output: Output, final: State) -> None:
    """I3: the fold of the output is the source. I2: per key no record is older than one already seen, deletes included."""
    history = (initial, output.records)
    assert output.fold() == final, history
    newest: dict[bytes, int] = {}
    for key, version, _ in output.records:
        assert version >= newest.get(key, 0), history
        newest[key] = version


def test_one_window_gives_the_source_for_every_placement_of_three_writes() -> None:
    played = 0
    for initial in initial_states():
        for writes, final in histories(initial, 3):
            for gaps in product(range(4), repeat=3):
                if list(gaps) != sorted(gaps):
                    continue
                check(initial, play(initial, writes, gaps, [KEYS]), final)
                played += 1

    assert played > 5_000


def test_two_windows_on_disjoint_ranges_give_the_source_for_every_placement_of_two_writes() -> None:
    played = 0
    for initial in initial_states():
        for writes, final in histories(initial, 2):
            for gaps in product(range(7), repeat=2):
                if gaps[0] > gaps[1]:
                    continue
                check(initial, play(initial, writes, gaps, [KEYS[:1], KEYS[1:]]), final)
                played += 1

    assert played > 3_500


def test_windows_that_overlap_in_the_log_drop_each_their_own_rows() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    first = windows.declare(TABLE, keyed=True)
    second = windows.declare(TABLE, keyed=True)

    windows.watermark(first.low_token, position(1))
    windows.note(TABLE, [b"a"])
    windows.submit(first.number, "first")
    windows.watermark(second.low_token, position(2))
    windows.note(TABLE, [b"b"])
    windows.submit(second.number, "second")
    (closed_first,) = windows.watermark(first.high_token, position(3))
    windows.note(TABLE, [b"c"])
    (closed_second,) = windows.watermark(second.high_token, position(4))

    assert isinstance(closed_first, Closed)
    assert isinstance(closed_second, Closed)
    assert (closed_first.rows, closed_first.dropped) == ("first", {b"a", b"b"})
    assert (closed_second.rows, closed_second.dropped) == ("second", {b"b", b"c"})
    assert closed_first.low.pos == 1


def test_a_closed_window_tells_when_its_low_watermark_was_met() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    ticket = windows.declare(TABLE, keyed=True)

    windows.watermark(ticket.low_token, position(1), now_ms=1_000)
    windows.submit(ticket.number, "rows")
    (closed,) = windows.watermark(ticket.high_token, position(2), now_ms=900_000)

    assert isinstance(closed, Closed)
    assert closed.opened_ms == 1_000


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ([("b", True)], False),
        ([("a", True)], True),
        ([("a", True), ("a", True)], True),
        ([("a", False), ("a", True)], False),
        ([("a", True), ("a", False)], False),
        ([("a", True), ("a", False), ("a", True)], False),
        ([("a", True), ("b", False)], True),
    ],
)
def test_a_key_lacks_values_until_the_log_has_had_all_of_them_inside_the_window(changes: list[tuple[str, bool]], lacking: bool) -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    ticket = windows.declare(TABLE, keyed=True)
    windows.note(TABLE, [b"a"], lacking={b"a"})
    windows.watermark(ticket.low_token, position(1))

    for key, lacks in changes:
        windows.note(TABLE, [key.encode()], lacking={key.encode()} if lacks else frozenset())
    windows.submit(ticket.number, "rows")
    (closed,) = windows.watermark(ticket.high_token, position(2))

    assert isinstance(closed, Closed)
    assert (b"a" in closed.lacking) == lacking
    assert closed.dropped == {key.encode() for key, _ in changes}


def test_changes_of_another_table_drop_nothing() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    ticket = windows.declare(TABLE, keyed=True)
    windows.watermark(ticket.low_token, position(1))

    windows.note(OTHER, [b"a"])
    windows.submit(ticket.number, "rows")
    (closed,) = windows.watermark(ticket.high_token, position(2))

    assert isinstance(closed, Closed)
    assert closed.dropped == frozenset()


def test_watermarks_of_another_run_mean_nothing() -> None:
    windows: Windows[str] = Windows(run="new", keys_max=100)
    ticket = windows.declare(TABLE, keyed=True)

    assert windows.watermark(f"old/{ticket.number}/high", position(1)) == []
    assert windows.watermark("not a watermark", position(1)) == []
    assert windows.open_total == 1


def test_ddl_discards_every_window_of_the_table_also_those_not_open_yet() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    first, second = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True)
    other = windows.declare(OTHER, keyed=True)
    windows.watermark(first.low_token, position(1))

    discarded = windows.table_changed(TABLE, "ddl")

    assert discarded is not None
    assert discarded.numbers == (first.number, second.number)
    assert windows.submit(second.number, "rows") is False
    assert windows.watermark(first.high_token, position(2)) == []
    assert windows.submit(other.number, "rows") is True


def test_a_window_whose_notes_grow_past_the_limit_is_discarded_with_its_younger_siblings() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=2)
    first, second = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True)
    windows.watermark(first.low_token, position(1))

    assert not windows.note(TABLE, [b"a", b"b"])
    (discarded,) = windows.note(TABLE, [b"c"])

    assert discarded is not None
    assert discarded.smaller
    assert discarded.numbers == (first.number, second.number)


def test_any_change_spoils_the_window_of_a_table_without_a_key() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=2)
    ticket = windows.declare(TABLE, keyed=False)

    assert not windows.note(TABLE, [None])
    windows.watermark(ticket.low_token, position(1))
    (discarded,) = windows.note(TABLE, [None])

    assert discarded is not None
    assert windows.open_total == 0


def test_a_high_watermark_before_its_rows_is_a_bug_of_ours() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=2)
    ticket = windows.declare(TABLE, keyed=True)
    windows.watermark(ticket.low_token, position(1))

    with pytest.raises(AssertionError, match="high watermark"):
        windows.watermark(ticket.high_token, position(2))


def test_a_younger_window_drops_keys_though_the_low_watermark_of_an_older_one_is_lost() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=2)
    lost, open_ = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True)
    windows.submit(lost.number, "lost")
    windows.watermark(open_.low_token, position(1))

    assert not windows.note(TABLE, [b"a", b"b"])
    (discarded,) = windows.note(TABLE, [b"c"])

    assert discarded is not None, "the younger window takes notes"
    assert discarded.numbers == (open_.number,)


@pytest.mark.parametrize("low_came", [False, True])
def test_a_high_watermark_ahead_of_an_older_window_shows_that_the_older_one_is_lost(low_came: bool) -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    lost, younger = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True)
    other = windows.declare(OTHER, keyed=True)
    windows.submit(lost.number, "lost")
    if low_came:
        windows.watermark(lost.low_token, position(1))
    windows.watermark(younger.low_token, position(2))
    windows.submit(younger.number, "younger")

    (discarded,) = windows.watermark(younger.high_token, position(3))

    assert isinstance(discarded, Discarded), "closing the younger one would pass over the range of the older"
    assert discarded.numbers == (lost.number, younger.number)
    assert windows.open_total == 1
    assert windows.submit(other.number, "rows")


def test_a_window_whose_low_watermark_alone_is_lost_is_read_again() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    ticket = windows.declare(TABLE, keyed=True)
    windows.submit(ticket.number, "rows")

    (discarded,) = windows.watermark(ticket.high_token, position(1))

    assert isinstance(discarded, Discarded)
    assert discarded.numbers == (ticket.number,)


def test_windows_that_wait_too_long_for_their_high_watermark_are_read_again_and_no_others() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=100)
    late, sibling = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True)
    fresh, unread = windows.declare(OTHER, keyed=True), windows.declare(TableId("shop", "unread"), keyed=True)
    windows.watermark(late.low_token, position(1))
    windows.submit(late.number, "late", now_s=10.0)
    windows.submit(sibling.number, "sibling", now_s=11.0)
    windows.submit(fresh.number, "fresh", now_s=70.0)

    assert windows.has_overdue(60.0)
    discarded = windows.overdue(submitted_before_s=60.0)
    assert not windows.has_overdue(60.0)

    assert [d.numbers for d in discarded] == [(late.number, sibling.number)]
    assert windows.submit(fresh.number, "fresh")
    assert windows.submit(unread.number, "a SELECT may take long")


def play_together(
    writes: tuple[tuple[TableId, Write], ...], gaps: tuple[int, ...], spoilt: tuple[TableId, int] | None
) -> dict[TableId, Output]:
    """One pair of watermarks around two tables that are read one after the other; write i is committed in gap ``gaps[i]`` of low, select, select, high.

    ``spoilt``: a table that is altered in a gap, whose window is read again by itself.
    """
    windows: Windows[State] = Windows(run="r", keys_max=100)
    tables = (TABLE, OTHER)
    output = {table: Output([]) for table in tables}
    states: dict[TableId, State] = {table: {KEYS[0]: 1} for table in tables}
    queue = list(zip(writes, gaps, range(10, 10 + len(writes)), strict=True))
    step = 0

    def pass_gap() -> None:
        nonlocal step
        if spoilt is not None and spoilt[1] == step:
            windows.table_changed(spoilt[0], "altered")
        while queue and queue[0][1] == step:
            (table, write), _, version = queue.pop(0)
            for key in write.removes:
                states[table].pop(key, None)
                output[table].records.append((key, version, False))
            for key in write.leaves:
                states[table][key] = version
                output[table].records.append((key, version, True))
            assert not windows.note(table, [*write.removes, *write.leaves])
        step += 1

    def close(token: str) -> set[TableId]:
        met = windows.watermark(token, position(step))
        for closed in met:
            assert isinstance(closed, Closed)
            output[closed.table].records += [(k, v, True) for k, v in closed.rows.items() if k not in closed.dropped]
        return {closed.table for closed in met}

    pass_gap()
    tickets = windows.declare_together(tables)
    assert windows.watermark(tickets[0].low_token, position(step)) == []
    pass_gap()
    for ticket in tickets:
        windows.submit(ticket.number, dict(states[ticket.table]))
        pass_gap()
    done = close(tickets[0].high_token)
    pass_gap()
    for table in tables:
        if table not in done:
            again = windows.declare(table, keyed=True)
            windows.watermark(again.low_token, position(step))
            windows.submit(again.number, dict(states[table]))
            assert close(again.high_token) == {table}
    assert not queue
    assert windows.open_total == 0
    return output


def test_tables_between_one_pair_of_watermarks_give_the_source_for_every_placement_of_writes_and_of_a_change_of_one_table() -> None:
    changes = [Write((), KEYS[:1]), Write(KEYS[:1], ()), Write(KEYS[:1], KEYS[1:2]), Write((), KEYS[1:2])]
    spoils: list[tuple[TableId, int] | None] = [None, *((table, gap) for table in (TABLE, OTHER) for gap in range(5))]
    played = 0
    for writes in product(product((TABLE, OTHER), changes), repeat=2):
        finals: dict[TableId, State] = {TABLE: {KEYS[0]: 1}, OTHER: {KEYS[0]: 1}}
        for version, (table, write) in enumerate(writes, start=10):
            finals[table] = {k: v for k, v in finals[table].items() if k not in write.removes} | dict.fromkeys(write.leaves, version)
        for gaps in product(range(5), repeat=2):
            for spoilt in spoils if gaps[0] <= gaps[1] else []:
                for table, output in play_together(writes, gaps, spoilt).items():
                    check({KEYS[0]: 1}, output, finals[table])
                played += 1

    assert played > 10_000


def test_windows_between_one_pair_of_watermarks_share_the_limit_of_notes_and_one_beyond_it_leaves_the_other_open() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=4)
    first, second = windows.declare_together([TABLE, OTHER])
    windows.watermark(first.low_token, position(1))

    assert not windows.note(TABLE, [b"a", b"b"])
    (discarded,) = windows.note(TABLE, [b"c"])
    windows.note(OTHER, [b"d"])
    windows.submit(second.number, "rows")
    met = windows.watermark(second.high_token, position(2))

    assert discarded is not None
    assert discarded.numbers == (first.number,)
    assert [(type(closed), closed.table) for closed in met] == [(Closed, OTHER)]


def test_a_window_that_is_given_up_before_it_is_read_is_no_window_thrown_away() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=4)
    first, second = windows.declare_together([TABLE, OTHER])
    windows.watermark(first.low_token, position(1))
    windows.submit(second.number, "rows")

    windows.release(first.number)
    met = windows.watermark(first.high_token, position(2))

    assert [closed.table for closed in met] == [OTHER]
    assert not windows.discarded_total
    assert windows.open_total == 0


def test_a_lost_low_watermark_of_several_tables_has_each_of_them_read_again() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=4)
    for ticket in (tickets := windows.declare_together([TABLE, OTHER])):
        windows.submit(ticket.number, "rows")

    met = windows.watermark(tickets[0].high_token, position(2))

    assert [(type(discarded), discarded.table) for discarded in met] == [(Discarded, TABLE), (Discarded, OTHER)]
    assert windows.open_total == 0


def test_a_lost_pair_of_watermarks_is_shown_to_be_lost_by_the_next_window_of_one_table_for_that_table_only() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=4)
    for ticket in windows.declare_together([TABLE, OTHER]):
        windows.submit(ticket.number, "rows", now_s=1.0)
    younger = windows.declare(TABLE, keyed=True)
    windows.watermark(younger.low_token, position(1))
    windows.submit(younger.number, "rows", now_s=70.0)

    (discarded,) = windows.watermark(younger.high_token, position(2))

    assert discarded.table == TABLE
    assert [lost.table for lost in windows.overdue(60.0)] == [OTHER]


def test_a_key_is_dropped_in_the_windows_of_every_lane_though_one_of_them_has_too_many() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=2)
    first, second = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True, lane=1)
    windows.watermark(first.low_token, position(1))
    windows.note(TABLE, [b"a", b"b"])
    windows.watermark(second.low_token, position(2))

    (spoilt,) = windows.note(TABLE, [b"c"])

    assert (spoilt.lane, spoilt.numbers, spoilt.smaller) == (0, (first.number,), True)
    assert (windows.open_of(TABLE), windows.open_of(TABLE, 1)) == (0, 1)
    windows.submit(second.number, "rows")
    (closed,) = windows.watermark(second.high_token, position(9))
    assert isinstance(closed, Closed)
    assert (closed.lane, closed.dropped) == (1, frozenset({b"c"}))


def test_lanes_of_a_table_close_and_are_thrown_away_each_for_itself_and_go_together_with_their_table() -> None:
    windows: Windows[str] = Windows(run="r", keys_max=9)
    older, younger = windows.declare(TABLE, keyed=True), windows.declare(TABLE, keyed=True, lane=1)
    for ticket in (older, younger):
        windows.watermark(ticket.low_token, position(1))
        windows.submit(ticket.number, "rows")

    (closed,) = windows.watermark(younger.high_token, position(9))
    assert isinstance(closed, Closed)
    assert windows.open_of(TABLE) == 1, "a high watermark of another lane proves nothing"

    again = windows.declare(TABLE, keyed=True, lane=1)
    spoilt = windows.lane_spoilt(TABLE, 1, "why")
    assert spoilt is not None
    assert (spoilt.lane, spoilt.numbers) == (1, (again.number,))
    windows.declare(TABLE, keyed=True, lane=2)
    changed = windows.table_changed(TABLE, "ddl")
    assert changed is not None
    assert (changed.lane, len(changed.numbers), windows.open_total) == (None, 2, 0)
