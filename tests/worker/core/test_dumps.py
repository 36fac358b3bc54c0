"""The dump's state survives its text, and moves only forward."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from dblog.core.dumps import (
    LISTED_FROM_TABLES,
    NAMED_TABLES_MAX,
    TEXT_CHARS_MAX,
    Dump,
    dump_from_text,
    dump_of,
    dump_to_text,
    key_from_json,
    key_to_json,
    list_of_text,
)
from dblog.core.table_dump import Key, KeyRange, Read, TableDump, UnderWay
from dblog.errors import DefiniteError, PositionLostError
from dblog.model import TableId
from hypothesis import given
from hypothesis import strategies as st

A, B = TableId("shop", "a"), TableId("shop", "b")

KEYS = st.tuples(
    st.one_of(
        st.integers(-(2**63), 2**64),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.binary(),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.datetimes(),
        st.dates(),
        st.timedeltas(min_value=dt.timedelta(-35), max_value=dt.timedelta(35)),
    ),
    st.integers(),
)


@given(KEYS)
def test_a_key_of_any_type_survives_json(key: Key) -> None:
    assert key_from_json(key_to_json(key)) == key


@given(KEYS, KEYS, st.integers(0, 10**9))
def test_a_dump_under_way_survives_its_text(after: Key, upto: Key, rows: int) -> None:
    dump = dump_of("d", [A, B]).started(A, key=("x", "y"), upto=upto).advanced(A, after=after, rows=rows, done=False)

    assert dump_from_text(dump_to_text(dump)) == dump


def in_three() -> Dump:
    """A table of which three ranges are left, that end at 30, 60 and 90."""
    dump = dump_of("d", [A, B]).started(A, key=("id",), upto=(90,)).advanced(A, after=(10,), rows=1, done=False)
    return dump.split(A, upto=(90,), at=(30,)).split(A, upto=(90,), at=(60,))


def bounds(dump: Dump) -> list[tuple[Key | None, Key]]:
    table = dump.table(A)
    assert table is not None
    return [(one.after, one.upto) for one in table.ranges]


def test_a_dump_after_a_gap_of_the_log_is_known_as_one_behind_a_restart() -> None:
    dump = dump_of("r1", [A, B])
    text = dump_to_text(dump.read_again([A, B], repairs=[A, B]))

    assert json.loads(text)["repairs"] is True, "a version that knows no repair of one table has it of all"
    known = dump_from_text(text)
    assert [known.repairs_table(table) for table in (A, B)] == [True, True]
    assert not dump_from_text(dump_to_text(dump)).repairs_table(A)


def test_a_table_that_is_to_be_repaired_stays_so_until_it_has_been_read() -> None:
    one, other = TableId("d", "t"), TableId("d", "u")
    dump = dump_of("r1", [one, other]).read_again([one], repairs=[one])

    for known in (dump, dump_from_text(dump_to_text(dump)), dump.restarted(one), dump.started(one, key=("id",), upto=(9,))):
        assert (known.repairs_table(one), known.repairs_table(other)) == (True, False)
    ended = dump.started(one, key=("id",), upto=None)
    assert not ended.restarted(one).repairs_table(one), "what has it read again later does not ask for a repair"
    assert not dump_from_text(dump_to_text(ended)).repairs_table(one)


@pytest.mark.parametrize("repaired", [[7], [0, 1, 2, 150], list(range(300)), list(range(0, 300, 2)), []])
def test_tables_that_are_to_be_repaired_are_stretches_of_the_list(repaired: list[int]) -> None:
    tables = [TableId("d", f"t{n}") for n in range(300)]
    repairs = [tables[n] for n in repaired]
    waits = tables[5:8]
    dump = dump_of("r1", [TableDump(table=t, repairs=t in repairs, waits=t in waits) for t in tables]).with_list("l")

    text = dump_to_text(dump)

    value = json.loads(text)
    known = dump_from_text(text, {"l": tables})
    assert [table for table in tables if known.repairs_table(table)] == repairs
    assert list(known.left) == tables
    assert [table for table, progress in known.left.items() if progress.waits] == waits
    assert value["fresh"] == [[0, 300]], "a version that knows no other stretches dumps them all the same"
    assert value["tables"] == []


def test_all_tables_repaired_at_once_take_few_characters_whatever_their_names() -> None:
    tables = [TableId("d", hashlib.sha256(str(n).encode()).hexdigest()) for n in range(15_000)]

    ordered = dump_of("r1", []).read_again(tables, repairs=frozenset(tables))

    assert ordered.list_is_due
    assert ordered.unlisted == len(tables)
    assert list(ordered.left) == tables
    text = dump_to_text(ordered.with_list("l"))
    assert len(text) < 300
    known = dump_from_text(text, {"l": tables})
    assert known.unlisted == 0
    assert all(known.repairs_table(table) for table in tables)


@pytest.mark.parametrize(
    "text",
    [
        (
            '{"format":2,"id":"r1","finished":0,"finished_rows":0,"finished_bytes":0,"joins":0,"repairs":true,"tables":['
            '{"table":["shop","a"],"rows":0,"chunks":0},{"table":["shop","b"],"rows":1,"chunks":1,"key":["id"],"upto":[9],"after":[1]}]}'
        ),
        (
            '{"format":3,"id":"r1","finished":0,"finished_rows":0,"finished_bytes":0,"joins":0,"repairs":true,"list":"l","fresh":[[0,1]],"tables":['
            '{"table":["shop","b"],"rows":1,"chunks":1,"key":["id"],"upto":[9],"after":[1]}]}'
        ),
    ],
)
def test_a_repair_of_all_tables_that_an_earlier_version_stored_goes_on(text: str) -> None:
    known = dump_from_text(text, {"l": [A]})

    assert {table: known.repairs_table(table) for table in known.left} == {A: True, B: True}


def test_a_repair_ends_with_its_table_though_another_one_cannot_be_read_or_is_still_read() -> None:
    dump = dump_of("r1", [A, B]).read_again([A, B], repairs=[A, B]).started(A, key=("id",), upto=None)

    for later in (dump, dump.given_up(B, "denied"), dump_from_text(dump_to_text(dump))):
        again = later.read_again([A])
        assert [again.repairs_table(table) for table in (A, B)] == [False, True]


def test_tables_are_read_again_in_one_step_as_each_for_itself() -> None:
    ids = [TableId("d", str(n)) for n in range(5)]
    dump = dump_of("r1", ids[:4]).started(ids[0], key=("id",), upto=None).started(ids[1], key=("id",), upto=(9,))
    dump = dump.advanced(ids[1], after=(3,), rows=3, done=False).given_up(ids[2], "denied")

    at_once = dump.read_again([ids[4], ids[1], ids[0]])

    each = dump
    for table in (ids[4], ids[1], ids[0]):
        each = each.with_tables([table]).restarted(table)
    assert list(at_once.left.values()) == list(each.left.values())
    assert (at_once.rows, at_once.tables_total, at_once.faults) == (each.rows, each.tables_total, each.faults)
    assert at_once.arrivals > dump.arrivals


def test_a_dump_that_is_to_take_no_rows_away_goes_on_without_its_repair() -> None:
    dump = dump_of("d", [A, B]).read_again([A, B], repairs=[A, B]).started(A, key=("id",), upto=(90,))

    kept = dump.without_repair([A])

    assert [kept.repairs_table(table) for table in (A, B)] == [False, True]
    assert kept.left[A] == replace(dump.left[A], repairs=False)
    assert kept.without_repair([A]) is kept


def test_ranges_of_one_table_move_each_for_itself_and_the_last_one_that_is_read_ends_it() -> None:
    dump = in_three()
    assert bounds(dump) == [((10,), (30,)), ((30,), (60,)), ((60,), (90,))]

    dump = dump.advanced(A, behind=(60,), after=(70,), rows=1, done=False).advanced(A, behind=(10,), after=(30,), rows=1, done=True)
    assert bounds(dump) == [((30,), (60,)), ((70,), (90,))]
    dump = dump.advanced(A, behind=(70,), after=(90,), rows=1, done=True)
    assert bounds(dump) == [((30,), (60,))]
    table = dump.table(A)
    assert table is not None
    assert (table.range_to((60,)), table.range_to((90,)), table.range_to(None)) == (table.ranges[0], None, table.ranges[0])

    dump = dump.advanced(A, behind=(30,), after=(60,), rows=1, done=True)
    assert bounds(dump) == []
    assert (dump.table(A) or TableDump(table=A)).done
    assert (dump.rows, dump.tables_done) == (5, 1)


def test_a_chunk_goes_on_where_some_range_has_come_to_and_nowhere_else() -> None:
    table, fresh, done = in_three().table(A), dump_of("d", [A]).table(A), in_three().dropped(A).table(A)
    assert table is not None
    assert fresh is not None
    assert done is not None

    assert [table.goes_on(key, begins=False) for key in ((10,), (30,), (20,), (90,), None)] == [True, True, False, False, False]
    assert (fresh.goes_on(None, begins=True), fresh.goes_on((10,), begins=False)) == (True, False)
    assert (table.goes_on(None, begins=True), done.goes_on((10,), begins=False)) == (False, False)


@given(st.lists(KEYS, min_size=2, max_size=6, unique=True))
def test_ranges_of_keys_of_any_type_survive_the_text_and_a_version_that_knows_one_range_reads_it_from_its_beginning(
    keys: list[Key],
) -> None:
    dump = dump_of("d", [A, B]).started(A, key=("x", "y"), upto=keys[-1])
    for cut in keys[:-1]:
        dump = dump.split(A, upto=keys[-1], at=cut)

    assert dump_from_text(dump_to_text(dump)) == dump
    text = json.loads(dump_to_text(dump))
    (table, _) = text["tables"]
    assert ("after" in table, key_from_json(table["upto"])) == (False, keys[-1])
    del table["parts"]
    assert bounds(dump_from_text(json.dumps(text))) == [(None, keys[-1])]


def test_a_table_of_several_ranges_begins_again_as_one() -> None:
    again = in_three().restarted(A).started(A, key=("id",), upto=(95,))

    assert bounds(again) == [(None, (95,))]


def test_tables_not_begun_survive_the_text_and_tables_that_are_done_are_numbers_in_it() -> None:
    dump = dump_of("d", [A, B]).started(A, key=("id",), upto=(7,)).advanced(A, after=(7,), rows=7, done=True)

    again = dump_from_text(dump_to_text(dump))

    assert [(t.table, t.done, t.rows, t.started) for t in again.tables] == [(B, False, 0, False)]
    assert (again.finished, again.rows, again.tables_done, again.tables_total, again.done) == (1, 7, 1, 2, False)
    assert dump_from_text(dump_to_text(again.dropped(B))).tables_done == 2


def test_whose_rows_the_configuration_chooses_survives_the_text_until_the_table_is_read_again() -> None:
    dump = dump_of("d", [TableDump(table=A, chosen=True), B]).started(A, key=("id",), upto=(7,)).advanced(A, after=(3,), rows=3, done=False)

    again = dump_from_text(dump_to_text(dump))

    assert [(t.table, t.chosen) for t in again.tables] == [(A, True), (B, False)]
    assert [t.chosen for t in again.restarted(A).tables] == [False, False]


def test_a_list_of_tables_does_not_make_a_table_whose_rows_are_chosen_a_whole_one() -> None:
    tables = [TableId("shop", f"t{n}") for n in range(300)]
    dump = dump_of("d", (TableDump(table=t, chosen=t.name == "t7") for t in tables)).with_list("l")

    again = dump_from_text(dump_to_text(dump), {"l": tables})

    assert {t.table.name for t in again.tables if t.chosen} == {"t7"}
    assert len(again.left) == 300


MANY = [TableId("production_" + "x" * 20, f"{n * 7919 % 15_000:064x}"[::-1]) for n in range(15_000)]


def test_fifteen_thousand_tables_fit_one_offset_before_during_and_after_their_dump() -> None:
    fresh = dump_of("d", MANY)
    half = fresh
    for table in MANY[:40]:
        half = half.started(table, key=("id",), upto=("k" * 200,)).advanced(table, after=("j" * 200,), rows=5, done=False)
    done = dump_of("d", (TableDump(table=t, state=Read(), rows=3) for t in MANY))

    assert max(len(dump_to_text(fresh)), len(dump_to_text(half))) < TEXT_CHARS_MAX
    assert len(dump_to_text(done)) < 200
    assert dump_from_text(dump_to_text(fresh)) == fresh
    assert dump_from_text(dump_to_text(half)) == half
    assert (dump_from_text(dump_to_text(done)).tables_total, dump_from_text(dump_to_text(done)).rows) == (15_000, 45_000)


def test_a_step_and_a_question_of_one_table_do_not_go_through_fifteen_thousand() -> None:
    calls = 0

    def count(_frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    dump, one = dump_of("d", MANY), MANY[7_000]
    profiled = sys.getprofile()
    sys.setprofile(count)
    try:
        assert dump.table(one) is not None
        dump = dump.started(one, key=("id",), upto=(9,)).advanced(one, after=(9,), rows=9, done=True)
        reported = (dump.done, dump.ended, dump.rows, dump.tables_done, dump.tables_total, dump.failed)
    finally:
        sys.setprofile(profiled)

    assert reported == (False, False, 9, 1, 15_000, ())
    assert calls < 100


def test_what_is_left_is_read_in_order_and_what_begins_again_comes_last() -> None:
    dump = dump_of("d", [A, B, TableId("shop", "c")]).started(A, key=("id",), upto=None).given_up(B, "why").restarted(A)

    assert [t.table.name for t in dump.left.values()] == ["c", "a"]
    assert ([t.table for t in dump.failed], dump.tables_done, dump.done) == ([B], 0, False)
    assert [t.table.name for t in dump_from_text(dump_to_text(dump)).left.values()] == ["c", "a", "b"]
    assert dump.restarted(B).failed == ()


def test_where_even_the_unfinished_tables_are_too_long_they_keep_their_names_and_begin_again() -> None:
    upto = [hashlib.sha512(str(n).encode()).hexdigest() for n in range(15_000)]
    dump = dump_of(
        "d",
        (
            TableDump(table=t, state=UnderWay(key=("k",), upto=(k,), ranges=(KeyRange((k,), (k,)),)))
            for t, k in zip(MANY, upto, strict=True)
        ),
    )

    text = dump_to_text(dump)

    assert len(text) < TEXT_CHARS_MAX
    assert dump_from_text(text) == dump_of("d", MANY)


def test_where_tables_are_in_a_list_the_text_names_what_is_under_way_and_stretches_of_the_others() -> None:
    dump, lists = dump_of("d", MANY).with_list("l"), {"l": MANY}
    for at, table in enumerate(MANY[:100]):
        if at % 10:  # the others are under way
            dump = dump.started(table, key=("id",), upto=(9,)).advanced(table, after=(9,), rows=9, done=True)
    begun = (
        dump.started(MANY[50], key=("id",), upto=(9,)).given_up(MANY[7_000], "why").dropped(MANY[8_000]).with_tables([A]).restarted(MANY[3])
    )

    text = dump_to_text(begun)

    assert len(text) < 800
    assert (list_of_text(text), list_of_text(dump_to_text(dump_of("d", [A]))), list_of_text("[")) == ("l", None, None)
    back = dump_from_text(text, lists)
    assert back.left.keys() == {*begun.left.keys(), MANY[7_000]}
    assert {t: back.left[t] for t in begun.left} == begun.left
    assert (back.tables_total, back.tables_done, back.rows) == (begun.tables_total, begun.tables_done, begun.rows)
    assert not back.list_is_due
    assert dump_to_text(back) == text, "the list goes on over runs"


@pytest.mark.parametrize("lists", [{}, {"other": MANY}, {"l": MANY[:-1]}])
def test_a_list_that_is_not_there_any_more_is_an_error_that_a_new_dump_helps(lists: dict[str, list[TableId]]) -> None:
    text = dump_to_text(dump_of("d", MANY).with_list("l"))

    with pytest.raises(PositionLostError, match=r"list of tables that the schema history topic does not have; .*a reset of its offsets"):
        dump_from_text(text, lists)


def test_the_last_tables_of_a_list_are_named_so_that_the_list_is_not_needed_any_more() -> None:
    before = dump_of("d", MANY[: NAMED_TABLES_MAX + 1]).with_list("l")
    dump = before.started(MANY[0], key=("id",), upto=None)

    assert (list_of_text(dump_to_text(before)), list_of_text(dump_to_text(dump))) == ("l", None)
    assert dump_from_text(dump_to_text(dump), {}).left == dump.left


def test_a_list_is_due_for_many_tables_and_again_when_much_is_not_in_it() -> None:
    few, many = dump_of("d", MANY[: LISTED_FROM_TABLES - 1]), dump_of("d", MANY[:1000])
    listed = many.with_list("l")

    assert (few.list_is_due, many.list_is_due, listed.list_is_due) == (False, True, False)
    assert listed.with_tables(MANY[1000:2000]).list_is_due
    assert listed.only(lambda table: MANY.index(table) % 2 == 0).list_is_due, "it would be told in five hundred stretches"


@pytest.mark.parametrize("fresh", ["[[1]]", "[[-1, 2]]", "[[0, 0]]", "[[5, 2], [6, 1]]", "[[true, 1]]", "[[0, 1e9]]", "7", "[null]"])
def test_stretches_that_are_none_name_the_offset_field(fresh: str) -> None:
    text = f'{{"format": 3, "id": "d", "finished": 0, "finished_rows": 0, "joins": 0, "tables": [], "list": "l", "fresh": {fresh}}}'

    for lists in ({"l": MANY}, None):
        with pytest.raises(DefiniteError, match="dblog_dump"):
            dump_from_text(text, lists)


def test_bytes_are_counted_as_rows_are_and_survive_the_text_and_the_end_of_their_table() -> None:
    dump = dump_of("d", [A, B]).started(A, key=("id",), upto=(9,)).started(B, key=("id",), upto=(9,))
    dump = dump.advanced(A, after=(9,), rows=9, done=True).weighed(A, 900).advanced(B, after=(3,), rows=3, done=False)
    dump = dump.weighed(B, 300).weighed(B, 30)
    again = dump_from_text(dump_to_text(dump))

    assert (dump.bytes, again.bytes) == (1230, 1230)
    assert again.left[B].bytes == 330
    assert dump_from_text(dump_to_text(again)).bytes == 1230
    assert again.restarted(B).bytes == 900
    before = json.loads(dump_to_text(dump))
    del before["finished_bytes"]
    assert dump_from_text(json.dumps(before)).bytes == 330, "an offset of before has no bytes"


def test_an_empty_table_is_done_at_once() -> None:
    dump = dump_of("d", [A]).started(A, key=("id",), upto=None)

    assert dump.done


def test_a_dropped_table_does_not_hold_up_the_end() -> None:
    assert dump_of("d", [A]).dropped(A).done


def test_a_restarted_table_forgets_its_frontier() -> None:
    dump = dump_of("d", [A]).started(A, key=("id",), upto=(9,)).advanced(A, after=(5,), rows=5, done=False).restarted(A)
    table = dump.table(A)

    assert table is not None
    assert (table.started, table.after, table.upto) == (False, None, None)


def test_tables_added_later_come_last_and_known_ones_keep_their_progress() -> None:
    dump: Dump = dump_of("d", [A]).dropped(A).with_tables([A, B])

    assert [(t.table, t.done) for t in dump.tables] == [(A, True), (B, False)]


@pytest.mark.parametrize("text", ["", "{}", '{"id": "d", "tables": [{"rows": 1}]}', "[1]", '{"format": 9, "tables": []}'])
def test_a_text_that_is_no_dump_names_the_offset_field(text: str) -> None:
    with pytest.raises(DefiniteError, match="dblog_dump"):
        dump_from_text(text)


def packed_text(tables: bytes) -> str:
    packed = base64.b85encode(zlib.compress(tables, 9)).decode()
    return json.dumps({"format": 2, "id": "d", "finished": 0, "finished_rows": 0, "joins": 0, "tables": packed})


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: packed_text(b"[" + b" " * 300_000_000 + b"]"), id="blanks"),
        pytest.param(lambda: packed_text(b"[" + b"[]," * 5_000_000 + b"[]]"), id="many values"),
        pytest.param(lambda: '{"format": 2, "tables": [' + "[]," * 5_000_000 + "[]]}", id="many values that are not packed"),
    ],
)
def test_a_few_kilobytes_that_unpack_to_hundreds_of_megabytes_are_refused_before_they_do(made: Callable[[], str]) -> None:
    text = made()
    tracemalloc.start()
    try:
        with pytest.raises(DefiniteError, match=r"larger than any dump state.*reset the connector's offsets"):
            dump_from_text(text)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'[{"table": ["a", "b"], "rows": 0, "chunks": 0, "upto": [{"decimal": "x"}]}]', id="no decimal"),
        pytest.param(b'[{"table": ["a", "b"], "rows": 0, "chunks": 0, "upto": [{"micros": 1e300}]}]', id="no time"),
        pytest.param(b'[{"table": ["a", "\\ud800"], "rows": 0, "chunks": 0}]', id="half a pair"),
        pytest.param(b'[{"table": ["a", "b"], "rows": ' + b"9" * 5000 + b', "chunks": 0}]', id="long number"),
        pytest.param(b'["' + b"x" * 100, id="cut off"),
    ],
)
def test_a_packed_list_that_is_none_names_the_offset_field(tables: bytes) -> None:
    with pytest.raises(DefiniteError, match="dblog_dump"):
        dump_from_text(packed_text(tables))


def test_a_packed_list_that_ends_too_early_names_the_offset_field() -> None:
    packed = zlib.compress(json.dumps([hashlib.sha512(str(n).encode()).hexdigest() for n in range(99)]).encode())
    text = packed_text(b"").replace(base64.b85encode(zlib.compress(b"", 9)).decode(), base64.b85encode(packed[:-40]).decode())

    with pytest.raises(DefiniteError, match="dblog_dump"):
        dump_from_text(text)


def test_decimals_keep_their_scale() -> None:
    assert str((key_from_json(key_to_json((Decimal("1.50"),))) or ())[0]) == "1.50"


def half_read(*tables: TableId) -> Dump:
    dump = dump_of("d", tables)
    for table in tables:
        dump = dump.started(table, key=("id",), upto=(9,)).advanced(table, after=(5,), rows=5, done=False)
    return dump


def test_a_swap_leaves_neither_table_half_read() -> None:
    ghost, old, third = TableId("shop", "_a_gho"), TableId("shop", "_a_del"), TableId("shop", "tmp")

    swapped, again = half_read(A).renamed([(A, old), (ghost, A)], lambda _: True)
    of_three, both = half_read(A, B).renamed([(A, third), (B, A), (third, B)], lambda _: True)

    assert again == (old, A)
    assert [(t.table, t.started, t.ended) for t in swapped.tables if not t.done] == [(A, False, False), (old, False, False)]
    assert set(both) == {A, B}
    assert all(not t.started and not t.done for t in of_three.tables)


def test_a_name_that_is_empty_between_two_statements_is_read_once_it_is_taken_again() -> None:
    ghost, old = TableId("shop", "_a_gho"), TableId("shop", "_a_del")

    moved, _ = half_read(A).renamed([(A, old)], lambda table: table != old)
    back, again = dump_from_text(dump_to_text(moved)).renamed([(ghost, A)], lambda _: True)
    made, none = moved.created(A).renamed([(ghost, A)], lambda _: True)

    assert moved.done
    assert (again, back.done) == ((A,), False)
    assert (none, made.done) == ((), True)


def test_a_finished_table_that_is_renamed_is_not_read_again() -> None:
    done = half_read(A).advanced(A, after=(9,), rows=4, done=True)

    assert done.renamed([(A, B)], lambda _: True)[1] == ()


def test_the_repair_of_one_table_stays_one_until_it_has_ended_whatever_begins_it_again() -> None:
    def repairs(dump: Dump) -> list[bool]:
        again = dump_from_text(dump_to_text(dump))
        return [each.repairs for one in (dump, again) for table in (A, B) if (each := one.table(table)) is not None]

    dump = dump_of("d", [A, B]).read_again([A], repairs=[A])
    assert repairs(dump) == [True, False] * 2
    dump = dump.started(A, key=("id",), upto=(90,)).advanced(A, after=(10,), rows=1, done=False)
    assert repairs(dump) == [True, False] * 2
    assert repairs(dump.restarted(A)) == [True, False] * 2
    assert repairs(dump.with_new([A, B])) == [True, False] * 2

    done = dump.advanced(A, behind=(10,), after=(90,), rows=1, done=True)
    assert repairs(done.restarted(A)) == [False, False] * 2
    assert repairs(done.with_new([A])) == [False, False] * 2


def test_a_table_that_waits_for_its_writers_goes_on_waiting_until_it_has_been_read_whatever_begins_it_again() -> None:
    def waits(dump: Dump, *tables: TableId) -> list[bool]:
        again = dump_from_text(dump_to_text(dump))
        return [each.waits for one in (dump, again) for table in tables or (A, B) if (each := one.table(table)) is not None]

    dump = dump_of("d", [A, B]).restarted(A, waits=True)
    assert waits(dump) == waits(dump_of("d", [A, B]).waiting([A, TableId("d", "other")])) == [True, False] * 2
    dump = dump.started(A, key=("id",), upto=(90,)).advanced(A, after=(10,), rows=1, done=False)
    for again in (dump, dump.restarted(A), dump.with_new([A, B]), dump.waiting([A]), dump.given_up(A, "denied")):
        assert waits(again, A) == [True] * 2

    renamed, read_again = dump.renamed([(A, TableId("d", "old")), (B, A), (TableId("d", "old"), B)], lambda _: True)
    assert set(read_again) == {A, B}
    assert waits(renamed, B) == [True] * 2

    done = dump.advanced(A, behind=(10,), after=(90,), rows=1, done=True)
    assert waits(done.restarted(A)) == waits(done.with_new([A])) == [False, False] * 2
    assert done.waiting([A]) == done


def test_a_table_that_waits_is_named_though_there_is_a_list() -> None:
    tables = [TableId("d", f"t{n}") for n in range(300)]
    dump = dump_of("r1", tables).with_list("l").waiting([tables[7]])

    known = dump_from_text(dump_to_text(dump), {"l": tables})

    assert [table for table, progress in known.left.items() if progress.waits] == [tables[7]]
