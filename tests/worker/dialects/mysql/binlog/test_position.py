"""GTID sets and positions: texts, algebra against plain sets, binary form, order of files."""

from __future__ import annotations

import itertools

import pytest
from dblog.dialects.mariadb.position import BinlogState, Gtid, GtidPosition
from dblog.dialects.mysql.binlog.position import GtidSet, file_index
from dblog.errors import DefiniteError
from hypothesis import given
from hypothesis import strategies as st

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

sources = st.sampled_from([(A, ""), (A, "blue"), (B, ""), (B, "_x1")])
ranges = st.builds(lambda source, first, length: (*source, first, first + length), sources, st.integers(1, 30), st.integers(0, 6))
members = st.lists(ranges, max_size=12)


def plain(found) -> set[tuple[str, str, int]]:
    return {(uuid, tag, n) for uuid, tag, first, last in found for n in range(first, last + 1)}


def lawful(found: GtidSet) -> bool:
    """Sorted, and no two intervals of a source touch."""
    listed = list(found.members())
    return all(one[:2] < two[:2] or (one[:2] == two[:2] and one[3] + 1 < two[2]) for one, two in itertools.pairwise(listed)) and all(
        first <= last for _, _, first, last in listed
    )


@given(members)
def test_adding_ranges_in_any_order_gives_their_union(added):
    found = GtidSet.of(added)

    assert plain(found.members()) == plain(added)
    assert lawful(found)


@given(members, members)
def test_algebra_is_that_of_sets(left, right):
    a, b = GtidSet.of(left), GtidSet.of(right)

    assert plain(a.subtract(b).members()) == plain(left) - plain(right)
    assert lawful(a.subtract(b))
    assert a.contains(b) == (plain(left) >= plain(right))
    assert (a == b) == (plain(left) == plain(right))
    assert bool(a) == bool(left)
    assert plain(a.members()) == plain(left), "operations leave their operands alone"


@given(members)
def test_text_and_binary_form_state_the_same(added):
    found = GtidSet.of(added)

    assert GtidSet.parse(found.text()) == found
    assert GtidSet.decode(found.encode()) == found


@given(members, ranges)
def test_a_copy_is_independent_and_text_follows_every_addition(added, more):
    found = GtidSet.of(added)
    before = found.text()
    copy = found.copy()

    copy.add(*more)

    assert found.text() == before
    assert copy.text() == GtidSet.of([*added, more]).text()


@given(members)
def test_the_members_of_one_server_are_those_with_its_uuid(added):
    assert plain(GtidSet.of(added).only_source(A.upper()).members()) == {m for m in plain(added) if m[0] == A}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \n", ""),
        (f"{A}:1", f"{A}:1"),
        (f"{A}:1-5:11-18", f"{A}:1-5:11-18"),
        (f"{A.upper()}:1-3,\n{B}:7", f"{A}:1-3,{B}:7"),
        (f"{B}:7,{A}:1", f"{A}:1,{B}:7"),
        (f"{A}:4-5:1-3", f"{A}:1-5"),
        (f"{A}:1:2:2-4", f"{A}:1-4"),
        (f"{A}:1,{A}:2", f"{A}:1-2"),
        (f"{A}:1-2:Blue:3:5-6:_x:1", f"{A}:1-2:_x:1:blue:3:5-6"),
        (f"{A}:blue:3", f"{A}:blue:3"),
        (f"{A}:1,,{B}:1", f"{A}:1,{B}:1"),
        (f"{A}:9223372036854775806", f"{A}:9223372036854775806"),
    ],
)
def test_texts_of_servers_and_offsets_are_read_and_written_canonically(text, canonical):
    assert GtidSet.parse(text).text() == canonical


@pytest.mark.parametrize(
    "text",
    [
        "x", A, f"{A}:", f"{A}:0", f"{A}:5-3", f"{A}:1-", f"{A}:-1", f"{A}:1.5", f"{A[:-1]}:1", f"{A}:1-2-3", f"{A}:9223372036854775807",
        f"{A}:" + "x" * 33 + ":1", "0-1-5",
    ],
)  # fmt: skip
def test_what_is_no_gtid_set_is_refused_with_the_offset_field(text):
    with pytest.raises(DefiniteError, match="field gtids"):
        GtidSet.parse(text)


def test_the_binary_form_of_an_untagged_set_is_the_classic_one():
    uuid = bytes.fromhex(A.replace("-", ""))
    number = [n.to_bytes(8, "little") for n in range(20)]

    assert GtidSet.parse(f"{A}:1-5:7").encode() == number[1] + uuid + number[2] + number[1] + number[6] + number[7] + number[8]
    assert GtidSet().encode() == number[0]


def test_a_set_of_an_unknown_format_is_refused():
    with pytest.raises(DefiniteError, match="unknown format"):
        GtidSet.decode(b"\0" * 7 + b"\x02")


def test_adding_a_transaction_after_the_other_keeps_one_interval():
    found = GtidSet()
    for n in range(1, 10_001):
        found.add(A, "", n, n)

    assert list(found.members()) == [(A, "", 1, 10_000)]


# -- MariaDB ------------------------------------------------------------------------------------------------------------------------------

gtids = st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(1, 20))


def positions(listed) -> GtidPosition:
    out = GtidPosition()
    for gtid in sorted(listed, key=lambda gtid: gtid[2]):
        out.add(*gtid)
    return out


@given(st.lists(gtids, max_size=8), st.lists(gtids, max_size=8))
def test_positions_compare_domain_by_domain(left, right):
    a, b = positions(left), positions(right)
    behind_a = {(d, n) for d, _, last in left for n in range(1, last + 1)}
    behind_b = {(d, n) for d, _, last in right for n in range(1, last + 1)}

    assert a.contains(b) == (behind_a >= behind_b)
    assert (not a.subtract(b)) == b.contains(a)
    assert GtidPosition.parse(a.text()) == a
    assert a.copy() == a


def test_a_position_is_the_last_gtid_of_each_domain():
    position = GtidPosition.parse("5-2-7, 0-1-3\n,0-2-9,0-1-8")

    assert position.text() == "0-2-9,5-2-7"
    assert position.gtid(0) == Gtid(0, 2, 9)
    assert position.gtid(1) is None
    assert position.domains() == (0, 5)


def test_the_log_may_step_back_within_a_domain_without_strict_mode():
    position = GtidPosition.parse("0-1-10")

    position.add_all([(0, 2, 4), (1, 1, 1)])

    assert position.text() == "0-2-4,1-1-1"


@pytest.mark.parametrize("text", ["1", "1-2", "a-b-c", "1-2-3-4", f"{A}:1", "-1-2-3", "1--3"])
def test_what_is_no_mariadb_gtid_is_refused_with_the_offset_field(text):
    with pytest.raises(DefiniteError, match="field gtids"):
        GtidPosition.parse(text)


# -- files --------------------------------------------------------------------------------------------------------------------------------


def test_files_have_the_number_behind_their_last_dot():
    assert [file_index(name) for name in ("a.b.000002", "binlog.000002", "binlog.999999", "binlog.1000000")] == [2, 2, 999_999, 1_000_000]


@pytest.mark.parametrize("name", ["binlog", "", "binlog.", "binlog.index", "binlog.²"])
def test_what_is_no_log_file_is_refused_with_the_offset_field(name):
    with pytest.raises(DefiniteError, match="field file"):
        file_index(name)


@pytest.mark.parametrize(
    ("state", "read", "lacks"),
    [
        ("", "0-1-5", True),
        ("0-1-4", "0-1-5", True),
        ("0-1-5", "0-1-5", False),
        ("0-1-6", "0-1-5", False),
        ("0-1-4,0-2-9", "0-1-5", True),  # a new primary that has written on without it
        ("0-1-5,0-2-9", "0-1-5", False),
        ("0-2-9", "0-1-5", False),  # made from a copy that had it, perhaps: only the server knows
        ("0-2-4", "0-1-5", True),
        ("7-1-9", "0-1-5", True),  # another domain's
    ],
)
def test_a_mariadb_log_lacks_a_transaction_by_what_it_has_of_its_server(state: str, read: str, lacks: bool) -> None:
    assert BinlogState.parse(state).lacks(Gtid.parse(read)) is lacks


@pytest.mark.parametrize(
    ("before", "after", "has_got_further"),
    [
        ("0-1-5", "0-1-9", True),
        ("0-1-5,0-3-2", "0-1-5,0-3-4", True),  # an older part of the log, by another primary
        ("0-1-5", "0-1-5,0-2-7", False),  # what the server writes itself brings nothing nearer
        ("0-1-5", "0-1-5,7-1-9", False),  # another domain
        ("0-1-5,0-3-19", "0-1-5,0-3-20", True),
        ("0-1-5,0-3-20", "0-1-5,0-3-21", False),  # a domain's numbers rise, so what is missing never comes behind a later one
    ],
)
def test_a_mariadb_server_that_lacks_a_transaction_has_got_further_when_it_got_others(
    before: str, after: str, has_got_further: bool
) -> None:
    got = [BinlogState.parse(state).got([Gtid.parse("0-1-20")], without=2) for state in (before, after)]
    assert (got[0] != got[1]) is has_got_further


def test_a_mariadb_server_that_shares_its_id_has_got_further_by_any_transaction() -> None:
    missing = [Gtid.parse("0-2-20")]
    assert BinlogState.parse("0-2-5").got(missing, without=None) != BinlogState.parse("0-2-6").got(missing, without=None)
