"""The schema timeline: versions by position, replays, pruning, records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from dblog.core.changes import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Ignored,
    RenameTable,
    TruncateTable,
    Unknown,
)
from dblog.core.timeline import START, Absent, Database, Known, Parked, Stale, Timeline
from dblog.model import Column, Index, Table, TableId

T, U, TMP = TableId("d", "t"), TableId("d", "u"), TableId("d", "tmp")


def table(id_: TableId, *names: str) -> Table:
    columns = tuple(Column(name=name, type="int", type_text="int", nullable=name != "id") for name in names)
    return Table(id=id_, columns=columns, key=("id",), indexes=(Index(name="PRIMARY", columns=("id",), unique=True),))


def altered(timeline: Timeline, id_: TableId, *names: str) -> AlterTable:
    known = timeline.current_table(id_)
    assert known is not None
    return AlterTable(id_, replace(known, columns=table(id_, *names).columns))


def table_at(timeline: Timeline, id_: TableId, position: tuple[int, int]) -> Table | None:
    """The schema valid for a row at the position; None if it is not known."""
    state = timeline.state_at(id_, position)
    return state.table if isinstance(state, Known) else None


def names(found: Table | None) -> list[str] | None:
    return None if found is None else [column.name for column in found.columns]


def restarted(timeline: Timeline, **options: object) -> Timeline:
    """Through JSON and back, as a restart does."""
    again = Timeline(**options)  # type: ignore[arg-type]
    for id_ in timeline.tables():
        again.from_record(id_, json.loads(json.dumps(timeline.to_record(id_))))
    return again


def test_a_row_is_given_the_version_of_its_position() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100))

    assert timeline.apply([altered(timeline, T, "id", "a")], (1, 500), ddl="ALTER ...") == (T,)

    assert names(table_at(timeline, T, (1, 499))) == ["id"]
    assert names(table_at(timeline, T, (1, 500))) == ["id", "a"]
    assert names(table_at(timeline, T, (2, 4))) == ["id", "a"]
    assert timeline.state_at(T, (1, 99)) == Absent()


def test_pruning_keeps_the_version_valid_at_the_committed_offset_and_all_later() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    for at, columns in ((10, ("id", "a")), (20, ("id", "a", "b")), (30, ("id", "c"))):
        timeline.apply([altered(timeline, T, *columns)], (1, at))
        table_at(timeline, T, (1, at))

    timeline.prune((1, 25))

    assert [version.position for version in timeline.versions(T)] == [(1, 20), (1, 30)]
    assert names(table_at(timeline, T, (1, 25))) == ["id", "a", "b"]


def test_two_versions_around_an_offset_survive_a_restart() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    timeline.apply([altered(timeline, T, "id", "a")], (1, 10))
    timeline.apply([altered(timeline, T, "id", "a", "b")], (1, 30), ddl="ALTER TABLE t ADD b INT", note={"file": "bin.000001", "pos": 30})
    timeline.prune((1, 20))

    again = restarted(timeline)

    assert names(table_at(again, T, (1, 20))) == ["id", "a"]
    assert names(table_at(again, T, (1, 31))) == ["id", "a", "b"]
    assert again.to_record(T) == timeline.to_record(T)
    assert again.versions(T)[-1].ddl == "ALTER TABLE t ADD b INT"
    assert again.versions(T)[-1].note == {"file": "bin.000001", "pos": 30}


def test_a_replayed_statement_changes_nothing() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    first = altered(timeline, T, "id", "a")
    timeline.apply([first], (1, 10))
    timeline.apply([altered(timeline, T, "id", "b")], (1, 20))
    again = restarted(timeline)

    assert again.apply([first], (1, 10)) == ()
    assert names(again.current_table(T)) == ["id", "b"]


def test_a_replay_parses_with_the_tables_as_they_were_before_the_statement() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    timeline.apply([altered(timeline, T, "id", "a")], (1, 10))

    assert names(timeline.lookup_before((1, 10))(T)) == ["id"]
    assert names(timeline.lookup_before((1, 11))(T)) == ["id", "a"]


def test_a_swap_through_a_third_name_swaps() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id", "t"), START)
    timeline.put(table(U, "id", "u"), START)

    changed = timeline.apply([RenameTable(((T, TMP), (U, T), (TMP, U)))], (1, 10))

    assert set(changed) == {T, U}
    assert names(timeline.current_table(T)) == ["id", "u"]
    assert names(timeline.current_table(U)) == ["id", "t"]
    assert timeline.current(TMP) == Absent()
    current = timeline.current_table(T)
    assert current is not None
    assert current.id == T


def test_a_swap_of_which_only_one_half_was_recorded_is_completed_by_the_replay() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id", "t"), START)
    timeline.put(table(U, "id", "u"), START)
    swap = RenameTable(((T, TMP), (U, T), (TMP, U)))
    before = timeline.to_record(U)
    timeline.apply([swap], (1, 10))
    again = Timeline()
    again.from_record(T, timeline.to_record(T) or {})
    again.from_record(U, before or {})

    assert again.apply([swap], (1, 10)) == (U,)
    assert names(again.current_table(U)) == ["id", "t"]
    assert names(again.current_table(T)) == ["id", "u"]


def test_a_ghost_table_renamed_into_a_captured_one_brings_its_schema() -> None:
    ghost = TableId("d", "_t_gho")
    timeline = Timeline(captured=lambda id_: id_ == T)
    timeline.put(table(T, "id"), START)
    timeline.apply([CreateTable(table(ghost, "id"))], (1, 10))
    timeline.apply([altered(timeline, ghost, "id", "new")], (1, 20))

    timeline.apply([RenameTable(((T, TableId("d", "_t_del")), (ghost, T)))], (1, 30))

    assert names(timeline.current_table(T)) == ["id", "new"]
    assert timeline.captured_tables() == [timeline.current_table(T)]


def test_an_unknown_table_renamed_into_a_captured_one_is_stale() -> None:
    timeline = Timeline(captured=lambda id_: id_ == T)
    timeline.put(table(T, "id"), START)

    timeline.apply([RenameTable(((T, U), (TMP, T)))], (1, 30))

    assert isinstance(timeline.current(T), Stale)
    assert "d.tmp" in timeline.in_state(Stale)[T]


def test_a_statement_that_is_not_understood_spoils_only_the_tables_it_names() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    timeline.put(table(U, "id"), START)

    assert timeline.apply([Unknown((T,), "strange")], (1, 10)) == (T,)

    assert timeline.current(T) == Stale("strange", table(T, "id"))
    assert table_at(timeline, T, (1, 9)) == table(T, "id")
    assert timeline.current_table(U) == table(U, "id")
    timeline.put(table(T, "id", "x"), (1, 15))
    assert names(timeline.current_table(T)) == ["id", "x"]


def test_a_parked_table_shows_why_until_it_is_put_right() -> None:
    timeline = Timeline()
    timeline.park(T, (1, 5), "look at it")

    assert timeline.in_state(Parked) == {T: "look at it"}
    assert restarted(timeline).current(T) == Parked("look at it")
    timeline.apply([CreateTable(table(T, "id"))], (1, 6))
    assert timeline.in_state(Parked) == {}


def test_create_if_not_exists_leaves_a_known_table_alone_but_or_replace_does_not() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)

    assert timeline.apply([CreateTable(table(T, "id", "x"), only_if_absent=True)], (1, 1)) == ()
    assert timeline.apply([CreateTable(table(T, "id", "x"))], (1, 2)) == (T,)


def test_a_dropped_table_is_absent_and_only_its_name_is_kept_once_the_drop_is_committed() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)

    timeline.apply([DropTable((T, U))], (1, 10))

    assert timeline.tables() == [T]
    assert timeline.prune((1, 9)) == ()
    assert names(table_at(timeline, T, (1, 9))) == ["id"]
    assert timeline.prune((1, 10)) == (T,)
    assert timeline.to_record(T) == {"versions": [], "gone": True, "number": None}


def test_dropping_a_database_drops_its_tables_and_creating_it_sets_what_tables_inherit() -> None:
    timeline = Timeline()
    timeline.apply([CreateDatabase("d", "latin1", "latin1_bin")], (1, 1))
    timeline.apply([CreateTable(table(T, "id"))], (1, 2))
    timeline.apply([AlterDatabase("d", "utf8mb4", None)], (1, 3))
    assert timeline.databases["d"] == Database("utf8mb4", None)

    assert timeline.apply([DropDatabase("d")], (1, 4)) == (T,)

    assert timeline.current(T) == Absent()
    assert "d" not in timeline.databases


@pytest.mark.parametrize("change", [TruncateTable(T), Ignored("a view")])
def test_what_touches_no_shape_makes_no_version(change: TruncateTable | Ignored) -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)

    assert timeline.apply([change], (1, 10)) == ()


def test_versions_that_decoded_no_row_do_not_pile_up() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), START)
    for at in range(1, 2001):
        timeline.apply([altered(timeline, T, "id", f"c{at}")], (1, at))
        if at in (700, 1400):
            table_at(timeline, T, (1, at))

    assert [version.position[1] for version in timeline.versions(T)] == [0, 700, 1400, 1999, 2000]


def test_tables_that_are_not_captured_are_forgotten_beyond_a_limit() -> None:
    timeline = Timeline(captured=lambda id_: id_ == T, tracked=lambda _: True, foreign_tables_max=3)
    timeline.put(table(T, "id"), START)
    for n in range(10):
        timeline.apply([CreateTable(table(TableId("d", f"x{n}"), "id"))], (1, n))

    kept = [TableId("d", name) for name in ("x7", "x8", "x9")]
    assert timeline.tables() == [T, *kept]
    assert timeline.prune(START) == tuple(TableId("d", f"x{n}") for n in range(7))
    assert timeline.prune(START) == ()


def test_tables_of_databases_without_a_captured_one_are_not_kept() -> None:
    timeline = Timeline(captured=lambda id_: id_ == T)
    timeline.put(table(T, "id"), START)

    assert timeline.apply([CreateTable(table(TableId("other", "x"), "id"))], (1, 1)) == ()
    assert timeline.apply([CreateTable(table(TableId("d", "x"), "id"))], (1, 2)) == (TableId("d", "x"),)


def test_every_field_of_a_column_survives_its_record() -> None:
    full = Column(
        name="é`'\"",
        type="enum",
        type_text="enum('a','it''s')",
        nullable=True,
        unsigned=True,
        length=0,
        scale=0,
        charset="utf8mb4",
        collation="utf8mb4_bin",
        members=("a", "it's"),
        has_default=True,
        default="",
        default_is_expression=True,
        auto_increment=True,
        generated=True,
        invisible=True,
        comment="c",
    )
    bare = Column(name="b", type="int", type_text="int", nullable=False)
    index = Index(name="i", columns=("b",), unique=True, partial=True, functional=True)
    timeline = Timeline()
    whole = Table(id=T, columns=(full, bare), primary_key=False, charset="latin1", collation="latin1_bin", comment="x", indexes=(index,))
    timeline.put(whole, START)

    assert restarted(timeline).current_table(T) == whole


def test_a_record_of_someone_else_is_refused() -> None:
    with pytest.raises(ValueError, match=r"d\.t is not one of ours"):
        Timeline().from_record(T, {"ddl": "CREATE TABLE t"})


def test_a_table_that_becomes_captured_joins_again_and_one_that_is_left_out_is_forgotten() -> None:
    timeline = Timeline(captured=lambda id_: id_ == T)
    timeline.put(table(T, "id"), START)
    timeline.apply([CreateTable(table(U, "id"))], (1, 1))
    records = {id_: json.loads(json.dumps(timeline.to_record(id_))) for id_ in (T, U)}

    again = Timeline(captured=lambda id_: id_ == U)
    for id_, record in records.items():
        again.from_record(id_, record)

    assert again.tables() == []
    assert again.prune(START) == (T,)
    assert restarted(timeline, captured=lambda id_: id_ == T).tables() == [T, U]


def test_versions_behind_the_committed_offset_are_taken_back_for_another_server() -> None:
    timeline = Timeline(captured=lambda id_: id_ != TMP)
    timeline.put(table(T, "id"), (1, 100))
    timeline.put(table(TMP, "id"), (1, 100))
    timeline.apply([altered(timeline, T, "id", "a")], (1, 500))
    timeline.apply([CreateTable(table(U, "id"))], (1, 600))
    timeline.apply([CreateTable(table(TableId("d", "ghost"), "id")), DropTable((TMP,))], (1, 700))
    timeline.put(table(TableId("d", "joined"), "id"), (1, 800), note={"joined": True})

    changed = timeline.forget_behind((1, 499), awaited_until=(2, 900))
    again = restarted(timeline, captured=lambda id_: id_ != TMP)

    assert set(changed) == {T, U, TMP, TableId("d", "ghost")}
    assert names(table_at(again, T, (2, 4))) == ["id"]
    assert isinstance(again.state_at(U, (2, 4)), Absent)
    assert again.versions(U), "it is made by a statement that comes, and does not join as if it had been there"
    assert names(again.current_table(TMP)) == ["id"]
    assert names(again.current_table(TableId("d", "joined"))) == ["id"]
    assert again.apply([altered(again, T, "id", "a")], (2, 300)) == (T,), "no replay"


def test_of_a_log_without_statements_what_stands_at_the_offset_or_behind_it_is_taken_back() -> None:
    timeline = Timeline()
    for position, columns in (((1, 100), ["id"]), ((1, 500), ["id", "a"]), ((1, 600), ["id", "a", "b"])):
        timeline.put(table(T, *columns), position)
    timeline.put(table(U, "id"), (1, 500))
    timeline.put(table(TMP, "id"), (1, 700))
    timeline.put(table(TableId("d", "joined"), "id"), (1, 800), note={"joined": True})
    timeline.put(table(TableId("d", "joined"), "id", "a"), (1, 900))

    changed = timeline.take_back((1, 500))

    assert set(changed) == {T, TMP, TableId("d", "joined")}
    assert names(timeline.current_table(T)) == ["id"]
    assert names(timeline.current_table(U)) == ["id"], "its first version may be where the connector began"
    assert not timeline.versions(TMP), "it joins again"
    assert names(timeline.current_table(TableId("d", "joined"))) == ["id"]
    assert timeline.take_back((1, 500)) == ()


def test_names_of_lost_columns_are_remembered_up_to_a_limit_and_beyond_it_every_new_column_may_be_one() -> None:
    id_ = TableId("d", "lost")

    def with_column(*names: str) -> Table:
        return Table(id=id_, columns=tuple(Column(name=name, type="int", type_text="int", nullable=True) for name in ("id", *names)))

    timeline = Timeline()
    timeline.put(with_column("a"), (1, 1))
    timeline.apply([AlterTable(id_, with_column())], (1, 10), ddl="ALTER")
    few = {name: bool(timeline.returned([AlterTable(id_, with_column(name))], (1, 20))) for name in ("A", "b")}
    for n in range(100):
        timeline.apply([AlterTable(id_, with_column(f"c{n}"))], (1, 20 + n), ddl="ALTER")
    record = timeline.to_record(id_)
    again = Timeline()
    assert record is not None
    again.from_record(id_, record)

    assert few == {"A": True, "b": False}
    assert again.returned([AlterTable(id_, with_column("c99", "b"))], (1, 200))
    assert not again.returned([AlterTable(id_, with_column("c99"))], (1, 200))
    assert len(str(record)) < 5000


def test_a_parking_stays_in_the_record_though_its_rows_are_not_asked_for_again() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100))
    timeline.state_at(T, (1, 150))
    timeline.park(T, (1, 200), "nobody can tell")
    timeline.put(table(T, "id", "a"), (1, 300))
    for n in range(5):
        timeline.apply([altered(timeline, T, "id", "a", f"b{n}")], (1, 400 + n))

    again = restarted(timeline)

    assert again.parkings_that_end((1, 150)) == timeline.parkings_that_end((1, 150)) != []
    assert isinstance(again.state_at(T, (1, 250)), Parked)


@pytest.mark.parametrize(("noted", "number"), [(True, 1), ("True", 1), (7, 7), ("7", 7)])
def test_a_joining_is_a_number_whoever_noted_it(noted: object, number: int) -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100), note={"joined": noted})

    assert restarted(timeline).joined() == {T: (number, (1, 100))}


def test_a_table_that_another_servers_log_will_make_is_awaited_until_that_position_is_committed() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100))
    timeline.apply([CreateTable(table(U, "id"))], (1, 600))

    for _ in range(2):  # killed in between, and from the same offset again
        assert timeline.prune((1, 500)) == ()
        timeline.forget_behind((1, 500), awaited_until=(2, 900))
        timeline = restarted(timeline)

    assert timeline.prune((2, 50)) == ()
    assert timeline.versions(U), "the log has not come to its CREATE"
    assert timeline.prune((2, 900)) == (U,)


def test_a_table_that_only_the_log_has_lacked_gets_a_version_which_a_restart_takes_back_with_it() -> None:
    timeline = Timeline()
    before = replace(table(T, "id"), published_by=("table:1",), columns_written_by=("7",), partitions=(8, 9))
    timeline.put(before, (1, 100))
    now = replace(before, published_by=("table:2",))
    assert now == before

    assert timeline.apply([AlterTable(T, now, rewrites="in no log")], (1, 500)) == (T,)
    assert timeline.apply([AlterTable(T, now, rewrites="in no log")], (1, 600)) == ()
    again = restarted(timeline)
    assert again.versions(T)[-1].state.table.published_by == ("table:2",)  # type: ignore[union-attr]
    assert again.take_back((1, 500)) == (T,)

    kept = again.current_table(T)
    assert kept is not None
    assert (kept.published_by, kept.columns_written_by, kept.partitions) == (("table:1",), ("7",), (8, 9))


def test_how_the_log_came_to_show_a_table_is_kept_with_the_next_commit() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100))

    timeline.refresh(replace(table(T, "id"), published_by=("all:1",)))

    assert timeline.take_refreshed() == {T}
    assert restarted(timeline).current_table(T).published_by == ("all:1",)  # type: ignore[union-attr]


def test_what_took_rows_of_a_table_is_kept_with_its_record_until_that_is_ended_or_the_table_is_gone() -> None:
    timeline = Timeline()
    timeline.put(table(T, "id"), (1, 100))
    timeline.put(table(U, "id"), (1, 100))
    assert not timeline.note_removal(TableId("d", "not_known"), "TRUNCATE")
    assert [timeline.note_removal(T, "TRUNCATE"), timeline.note_removal(T, "TRUNCATE"), timeline.note_removal(U, "EXCHANGE")] == [
        True,
        False,
        True,
    ]

    timeline = restarted(timeline)
    assert timeline.removals() == {T: "TRUNCATE", U: "EXCHANGE"}
    timeline.end_removal(T)
    assert timeline.take_refreshed() == {T}
    timeline.end_removal(T)
    assert timeline.take_refreshed() == set()
    assert restarted(timeline).removals() == {U: "EXCHANGE"}

    timeline.drop_table(U, (1, 200))
    assert timeline.prune((1, 300)) == (U,)
    timeline.put(table(U, "id"), (1, 400))
    assert timeline.removals() == {}, "another table of the name"


def test_names_of_tables_that_are_gone_are_kept_until_they_are_there_again_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog.core.timeline.GONE_TABLES_MAX", 2)
    tables = [TableId("d", f"t{n}") for n in range(3)]
    timeline = Timeline()
    kept: dict[TableId, object] = {}
    for at, id_ in enumerate(tables):
        timeline.put(replace(table(id_, "id"), number=at), (1, 100 * at))
        timeline.drop_table(id_, (1, 100 * at + 50))
        for one in timeline.prune((1, 100 * at + 60)):
            kept[one] = timeline.to_record(one)

    assert list(timeline.gone().items()) == [(tables[1], 1), (tables[2], 2)]
    assert [record is None for record in kept.values()] == [True, False, False]
    again = Timeline()
    for id_, record in kept.items():
        if record is not None:
            again.from_record(id_, json.loads(json.dumps(record)))
    assert (again.gone(), again.tables()) == (timeline.gone(), [])
    assert [again.comes_back(replace(table(tables[1], "id"), number=number)) for number in (1, 2, None)] == [True, False, False]
    again.put(table(tables[1], "id"), (1, 400))
    assert list(again.gone()) == [tables[2]]

    uncaptured = Timeline(captured=lambda _: False)
    uncaptured.from_record(tables[1], {"versions": [], "gone": True})
    assert uncaptured.gone() == {}
    assert uncaptured.prune((1, 500)) == (tables[1],), "its record is erased"
