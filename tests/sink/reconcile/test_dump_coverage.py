"""Where a dump covers its table: whatever the order in which its ranges are read, are read again and come, no row of the table is left behind that position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise, permutations, product

import pytest
from dblog_sink.reconcile.dump_coverage import Coverage, Covered, Range, reaches_end
from dblog_sink.reconcile.folding import FOLD_ABOVE

OF = ("p.shop.t", "shop.t", "d1")
KEYS = 4


def ranged(chunk_id: str, at: int, after: int, upto: int, *, repairs: bool = True) -> Range:
    bounds = [f"[{bound}]" if bound else None for bound in (after, upto)]
    return Range(
        chunk_id=chunk_id,
        low=(1, at),
        after=bounds[0],
        upto=bounds[1],
        begins=after == 0,
        final=upto == KEYS,
        opened_ms=100 + at,
        ts_ms=200 + at,
        repairs=repairs,
    )


def coverage(*ranges: Range, proven: Iterable[str] = ()) -> Coverage:
    found = Coverage()
    for one in ranges:
        found.add(OF, one)
    for chunk_id in proven:
        found.prove(OF[0], chunk_id)
    return found


def dumps() -> Iterator[list[Range]]:
    """All ways to read a table of four keys in chunks: each cut, each order behind the first chunk, and of each chunk whether it is read again at the end."""
    for count in range(KEYS):
        for cut in combinations(range(1, KEYS), count):
            bounds = [0, *cut, KEYS]
            pieces = list(pairwise(bounds))
            for order in permutations(pieces[1:]):
                for again in (None, *pieces[1:]):
                    read = [pieces[0], *order, *([] if again is None else [again])]
                    yield [ranged(f"r/{at}", at, after, upto) for at, (after, upto) in enumerate(read, start=1)]


def keys_of(ranges: Iterable[Range]) -> set[int]:
    def number(bound: str | None) -> int:
        return int(bound.strip("[]")) if bound else 0

    return {key for one in ranges for key in range(number(one.after) + 1, number(one.upto) + 1)}


def test_of_every_small_dump_the_earliest_position_is_found_at_which_all_keys_are_read_and_none_before() -> None:
    whole = {*range(1, KEYS + 1)}
    for ranges in dumps():
        for met in product((False, True), repeat=len(ranges)):
            here = [one for one, is_met in zip(ranges, met, strict=True) if is_met]
            expected = next((at for at in range(len(ranges) + 1) if keys_of(one for one in here if one.low[1] <= at) == whole), None)

            for order in (here, here[::-1]):
                found = coverage(*order).decide()

                assert [one.upto for one in found] == ([] if expected is None else [(1, expected)]), (ranges, met)
                assert all(one.low == (1, 1) and not one.proven for one in found), (ranges, met)


def test_a_dump_is_proven_by_chunks_whose_rows_are_all_in_the_table_and_by_nothing_else() -> None:
    for ranges in dumps():
        ids = [one.chunk_id for one in ranges]
        for chosen in product((False, True), repeat=len(ids)):
            proven = [chunk_id for chunk_id, is_proven in zip(ids, chosen, strict=True) if is_proven]
            way = reaches_end(one for one in ranges if one.chunk_id in proven)

            found = {one.proven: one.upto for one in coverage(*ranges, proven=proven).decide()}

            assert found.get(True) == way, (ranges, proven)
            assert found[False] <= found.get(True, found[False])


def test_what_is_found_is_found_once_also_by_a_process_that_begins_again() -> None:
    ranges = [ranged("a", 1, 0, 2), ranged("b", 2, 2, 4)]
    first = coverage(*ranges, proven="a")
    (covered,) = first.decide()
    assert first.decide() == []
    first.prove(OF[0], "b")
    (proven,) = first.decide()
    assert (proven.low, proven.upto, proven.began_ms, proven.ended_ms, proven.proven) == ((1, 1), (1, 2), 101, 202, True)

    second = Coverage()
    for one in (covered, proven):
        second.take(one)
    for again in ranges:
        second.add(OF, again)
        second.prove(OF[0], again.chunk_id)

    assert second.decide() == []
    assert second.by_topic() == {OF[0]: [covered, proven]}
    assert list(second.uncovered("d1")) == []


def test_an_attempt_that_begins_the_table_again_is_not_mixed_with_the_one_before() -> None:
    """The table was begun again before its end was read: the end of the second attempt is none of the first."""
    first, second = ranged("a", 1, 0, 2), [ranged("b", 5, 0, 1), ranged("c", 6, 2, 4)]

    assert coverage(first, *second).decide() == []
    (found,) = coverage(first, *second, ranged("d", 7, 1, 2)).decide()

    assert (found.low, found.upto) == ((1, 5), (1, 7))


def test_a_later_attempt_is_proven_though_an_earlier_one_was() -> None:
    one = coverage(ranged("a", 1, 0, 4), ranged("b", 5, 0, 2), proven="ab")
    assert [found.low for found in one.decide() if found.proven] == [(1, 1)]
    one.add(OF, ranged("c", 6, 2, 4))
    one.prove(OF[0], "c")

    assert [(found.low, found.proven) for found in one.decide()] == [((1, 5), False), ((1, 5), True)]


def test_a_dump_that_leaves_out_rows_covers_its_table_and_repairs_nothing() -> None:
    found = coverage(ranged("a", 1, 0, 2, repairs=False), ranged("b", 2, 2, 4, repairs=False), proven="ab").decide()

    assert [one.proven for one in found] == [False]


@pytest.mark.parametrize("proven", ["", "a"])
def test_the_oldest_dumps_of_too_many_chunks_are_let_go_and_cover_nothing(proven: str) -> None:
    of = coverage(ranged("a", 1, 0, 2), proven=proven)
    other = (OF[0], OF[1], "d2")
    of.add(other, ranged("x", 3, 0, 4))

    of.forget(1)
    of.add(OF, ranged("b", 2, 2, 4))

    assert [one.of for one in of.decide()] == [other]
    assert all(isinstance(one, Covered) for one in of.found.values())


def test_a_dump_of_half_a_million_chunks_covers_its_table_and_is_proven_and_takes_the_memory_of_some_thousands() -> None:
    count, of, most = 500_000, Coverage(), 0
    for n in range(count):
        bounds = [None if n == 0 else f"[{n}]", f"[{n + 1}]"]
        one = Range(
            chunk_id=f"r/{n}", low=(1, n), after=bounds[0], upto=bounds[1], begins=n == 0, final=n == count - 1, opened_ms=n, ts_ms=n + 5
        )
        of.add(OF, one)
        of.prove(OF[0], f"r/{n}")
        if n % 10_000 == 0:
            of.forget(200_000)
            most = max(most, sum(len(list(ranges)) for _, ranges in of.uncovered(OF[2])))

    found = of.decide()

    assert most <= FOLD_ABOVE + 1
    assert [(one.proven, one.low, one.upto, one.began_ms, one.ended_ms) for one in found] == [
        (proven, (1, 0), (1, count - 1), 0, count + 4) for proven in (False, True)
    ]


def test_of_every_small_dump_that_is_folded_as_it_comes_nothing_is_covered_or_proven_too_early() -> None:
    for ranges in dumps():
        ids = [one.chunk_id for one in ranges]
        for chosen in product((False, True), repeat=len(ids)):
            plain = {
                one.proven: one.upto
                for one in coverage(*ranges, proven=[one for one, is_proven in zip(ids, chosen, strict=True) if is_proven]).decide()
            }
            folded = Coverage(fold_above=0, unfolded=0)
            for one, is_proven in zip(ranges, chosen, strict=True):
                folded.add(OF, one)
                if is_proven:
                    folded.prove(OF[0], one.chunk_id)

            for one in folded.decide():
                assert one.proven in plain, ranges
                assert one.upto >= plain[one.proven], ranges
