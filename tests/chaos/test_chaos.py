"""A short run of one seed on each server, and the pure parts: plans, masks, shrinking, comparing."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from pathlib import Path

import pytest
from chaos import faults
from chaos.check import Folded, Form, canonical_delta_value, compare_delta, compare_folded, delta_form, json_value, with_unchanged
from chaos.effects import Effect, apply
from chaos.kinds import KIND_SESSION, OWN, Kind, drawn_kinds
from chaos.mysql import statements, tables
from chaos.mysql.database import cases_of
from chaos.mysql.settings import Settings
from chaos.plan import Plan, plan_of
from chaos.repairs import named
from chaos.run import Run, servers
from chaos.shrink import shrink
from chaos.sources import drawing_of
from dblog.dialects.mysql.values.types import TypeModes

pytestmark = pytest.mark.either_server

SEED = 5
SECONDS = 8.0
FAULTS = ("kill_task", "pause", "flush_logs")
FLAVORS = ("mariadb", "mysql", "postgres")


def test_a_seed_of_chaos_ends_without_a_difference(kafka, source, own_folder):
    plan = plan_of(
        source.flavor, SEED, seconds=SECONDS, fault_kinds=FAULTS, cases=len(cases_of(source.flavor)), only=("taken_back", "xa_taken_back")
    )
    reported: list[str] = []

    with servers(own_folder, kafka=kafka, with_sink=False) as up:
        result = Run(plan, up, source, attempt=1, folder=own_folder / "run", report=reported.append).run()

    assert not result.problems, "\n".join([f"seed {SEED}", *map(str, result.problems), *reported])
    assert result.rows > 20
    assert result.counts["fault kill_task"] + result.counts["fault pause"] + result.counts["fault flush_logs"] > 0


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_plan_follows_from_its_seed_alone(flavor):
    assert plan_of(flavor, 11, seconds=4).lines() == plan_of(flavor, 11, seconds=4).lines()
    assert plan_of(flavor, 11, seconds=4).lines() != plan_of(flavor, 12, seconds=4).lines()


def test_every_kind_is_drawn_sooner_or_later():
    chance = random.Random(1)
    model = {t.name: t for t in tables.tables("mysql", chance, count=4)}
    steps = [step for seed in range(3) for step in plan_of("mysql", seed, seconds=6, cases=5).steps]

    assert {step.kind for step in steps} >= statements.WRAPPERS.keys()
    assert {s.kind for step in steps for s in step.statements} >= statements.WRITES.keys()
    assert {statements.ddl("mysql", chance, model, number=n, cases=5)[0] for n in range(400)} == statements.DDL.keys()
    kinds = drawing_of("mysql").fault_kinds
    assert {fault.kind for seed in range(50) for fault in faults.faults_of(random.Random(seed), seconds=30, kinds=kinds)} == set(kinds)
    assert {table.shape for table in tables.tables("mysql", chance, count=100)} == set(tables.SHAPES)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_kinds_leave_the_rest_of_a_plan_as_it_is(flavor):
    plain = plan_of(flavor, 11, seconds=1, only=())

    for kind, of in drawing_of(flavor).kinds.items():
        plan = plan_of(flavor, 11, seconds=1, only=(kind,))
        rest = [str(step) for step in plan.steps if step.session != KIND_SESSION]
        own_steps = [step for step in plan.steps if step.session == KIND_SESSION]

        assert plan.kinds == (kind,)
        assert rest == ([] if of.alone else list(map(str, plain.steps)))
        assert list(map(str, plan.fill)) == ([] if of.alone else list(map(str, plain.fill)))
        assert bool(own_steps) == of.steps
        assert (kind in {fault.kind for fault in plan.faults}) == of.fault
        assert all(OWN in statement.sql for statement in plan.own)
    assert plan_of(flavor, 11, seconds=1, only=(kind,), mask=frozenset({f"kind:{kind}"})).lines()[1:] == plain.lines()[1:]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_kind_of_trouble_is_drawn_and_none_beside_what_it_clashes_with(flavor):
    kinds = drawing_of(flavor).kinds
    drawn = []
    for seed in range(300):
        present = {fault.kind for fault in faults.faults_of(random.Random(seed), seconds=12, kinds=drawing_of(flavor).fault_kinds)}
        drawn.append((present, drawn_kinds({name: random.Random(f"{seed} {name}") for name in kinds}, kinds, faults=present)))

    assert {kind for _, found in drawn for kind in found} == set(kinds)
    for present, found in drawn:
        assert not any(kinds[name].clashes & present for name in found if not kinds[name].prevails)
        assert sum(kinds[name].servers for name in found) + ("failover" in present) <= 1
        assert len(found) == 1 or not any(kinds[name].alone for name in found)


def test_a_kind_that_is_alone_takes_the_place_of_the_others():
    kinds = {"a": Kind(share=1.0), "b": Kind(share=1.0, alone=True, clashes=frozenset({"stop"}))}

    dice = {name: random.Random(1) for name in kinds}

    assert drawn_kinds(dice, kinds, faults=["pause"]) == ("b",)
    assert drawn_kinds(dice, kinds, faults=["stop"]) == ("a",)


def test_tables_that_a_warning_names_are_repaired():
    text = (
        "rows that statements removed stay in the topics and in the lake, of c.t (TRUNCATE), c.y_parts (it was gone, and is there again) and 3 more tables: "
        "`dblog dumps start x c.t c.y_parts --mode repair` removes them from the lake; with skipped.operations=none a TRUNCATE reaches the lake"
    )
    keyless = "rows that statements removed stay in the topics and in the lake, of c.k (TRUNCATE): delete them there, for without a key no dump can; with"

    assert named(["another warning", text]) == ["c.t", "c.y_parts"]
    assert named([keyless]) == ["c.k"]
    left_out = (
        "what was changed in c.l and c.m before the connector began again is lost: snapshot.include.collection.list leaves these tables out"
    )
    assert named([keyless, left_out]) == ["c.k", "c.l", "c.m"]
    assert named([]) == []


def test_a_key_is_not_rounded_by_the_modes():
    modes = TypeModes(time_precision_mode="connect", decimal_handling_mode="double")
    drawn = Settings(log={}, modes=modes, converter="avro", chunk_rows=3, options={})

    assert drawn.for_keys(["time(3)", "int", ""]).modes == modes
    assert drawn.for_keys(["time(4)"]).modes == TypeModes(time_precision_mode="microseconds", decimal_handling_mode="double")
    assert drawn.for_keys(["dec(30,2)"]).modes == TypeModes(time_precision_mode="connect", decimal_handling_mode="string")


def test_a_mask_takes_its_part_out_and_leaves_the_rest():
    whole = plan_of("mysql", 3, seconds=6)
    table, column = "t0", whole.tables["t0"].columns[0].name

    without_table = plan_of("mysql", 3, seconds=6, mask=frozenset({f"table:{table}"}))
    without_column = plan_of("mysql", 3, seconds=6, mask=frozenset({f"{table}.{column}"}))

    assert not any(table in s.tables for step in without_table.steps for s in step.statements)
    assert others(without_table, table) == others(whole, table)
    assert not any(
        f"`{column}`" in s.sql for step in without_column.steps for s in step.statements if s.tables == (table,) and s.kind == "insert"
    )
    assert others(without_column, table) == others(whole, table)


def others(plan: Plan, table: str) -> list[str]:
    """The writes of the other tables."""
    return [s.sql for step in plan.steps for s in step.statements if s.tables and table not in s.tables]


def test_a_plan_is_shrunk_to_what_it_fails_with():
    plan = plan_of("mysql", 3, seconds=6)
    guilty = next(iter(plan.tables))

    mask = shrink(plan, "topic", lambda mask: "" if f"table:{guilty}" in mask else "topic", attempts_max=100)

    left = plan_of("mysql", 3, seconds=6, mask=mask)
    assert list(left.tables) == [guilty]
    assert not left.faults
    assert not any(step.session == 0 for step in left.steps)


def test_effects_of_ddl_change_the_model_as_the_server_does():
    table = tables.tables("mysql", random.Random(1), count=1)[0]
    model = {table.name: table}
    column = tables.new_column("mysql", random.Random(2), "n1")

    apply(model, Effect("add", "t0", column=column))
    apply(model, Effect("rename_column", "t0", "n1", "m1"))
    apply(model, Effect("rename_table", "t0", to="r1"))

    assert list(model) == ["r1"]
    assert [c.name for c in model["r1"].columns][-1] == "m1"
    apply(model, Effect("drop", "r1", "m1"))
    assert "m1" not in [c.name for c in model["r1"].columns]


def test_folded_topics_differ_from_a_dump_by_missing_changed_and_excess_rows():
    rows = {(1,): {"id": 1, "v": Decimal("1.50")}, (2,): {"id": 2, "v": None}, (4,): {"id": 4}}
    old = Folded(rows=rows, by_sequence=rows, steps_back=["key 9: u"])
    new = Folded(
        rows={
            (1,): {"id": 1, "v": Decimal("1.5")},
            (2,): {"id": 2, "v": Decimal(3)},
            (3,): {"id": 3, "v": None},
            (4,): {"id": 4, "v": None},
        }
    )

    problems = [str(problem) for problem in compare_folded("t", old, new)]

    assert problems == [
        "order t: key 9: u",
        "topic t: key (2,) column v is None in the topic, Decimal('3') in a fresh dump",
        "topic t: key (3,) is missing",
        "sequence t: key (2,) column v is None in the topic, Decimal('3') in a fresh dump",
        "sequence t: key (3,) is missing",
    ]
    assert "key (1,) is in the topic only" in str(compare_folded("t", old, Folded())[1])


def test_a_column_that_the_log_left_out_is_as_it_was_before():
    away = "__debezium_unavailable_value"

    assert with_unchanged({"id": 1, "n": 2, "c": away}, {"id": 1, "n": 1, "c": "text"}) == {"id": 1, "n": 2, "c": "text"}
    assert with_unchanged({"id": 1, "c": away}, None) == {"id": 1, "c": away}
    rows, fresh = {(1,): {"id": 1, "n": 1, "c": away}}, {(1,): {"id": 1, "n": 2, "c": "text"}}
    assert [p.text for p in compare_folded("t", Folded(rows=rows, by_sequence=fresh), Folded(rows=fresh))] == [
        "key (1,) column n is 1 in the topic, 2 in a fresh dump"
    ]


def test_sixty_five_digits_are_compared_to_the_last():
    old, new = ({(1,): {"v": Decimal("1" * 64 + last)}} for last in "12")

    assert not compare_folded("t", Folded(rows=old, by_sequence=old), Folded(rows=old))
    assert compare_folded("t", Folded(rows=old, by_sequence=old), Folded(rows=new))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal("1.28"), "AIA="),
        (Decimal("-1.28"), "gA=="),
        (Decimal("-1.29"), "/38="),
        (Decimal(0), "AA=="),
        (b"\xff\x00", "/wA="),
        ({"wkb": b"\x01", "srid": None}, {"wkb": "AQ==", "srid": None}),
        (None, None),
    ],
)
def test_what_json_has_for_a_value(value, written):
    assert json_value(value) == written


@pytest.mark.parametrize(
    ("form", "value", "there"),
    [
        (Form("io.debezium.time.Timestamp", "int64"), 1500, dt.datetime.fromisoformat("1970-01-01T00:00:01.500")),
        (Form("io.debezium.time.MicroTimestamp", "int64"), 1500, dt.datetime.fromisoformat("1970-01-01T00:00:00.001500")),
        (Form("io.debezium.time.NanoTimestamp", "int64"), -1, dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")),
        (Form("io.debezium.time.ZonedTimestamp", "string"), "1970-01-01T00:00:01Z", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        (Form("io.debezium.time.IsoDate", "string"), "1970-01-03Z", dt.date(1970, 1, 3)),
        (Form("io.debezium.time.Date", "int32"), 2, dt.date(1970, 1, 3)),
        (Form("org.apache.kafka.connect.data.Decimal", "bytes", 2), "gA==", Decimal("-1.28")),
        (Form("", "bytes"), "/wA=", b"\xff\x00"),
        (Form("", "float"), 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (Form("", "string"), "/wA=", "/wA="),
        (Form("io.debezium.time.ZonedTimestamp", "string"), "-0001-03-01T00:00:00Z", -62_193_657_600_000_000),
        (Form("io.debezium.time.IsoTimestamp", "string"), "+12024-02-29T12:00Z", 317_278_728_000_000_000),
        (Form("io.debezium.time.ZonedTimestamp", "string"), "infinity", 9_223_372_036_825_200_000),
        (Form("io.debezium.time.NanoTimestamp", "long"), -(1 << 63), -9_223_372_036_832_400_000),
        (Form("io.debezium.time.Date", "int"), -2_147_472_692, (1 << 31) - 1),
        (Form("io.debezium.data.VariableScaleDecimal", "record"), {"scale": 2, "value": b"\x80"}, Decimal("-1.28")),
        (Form("", "array", 0, Form("io.debezium.time.Timestamp", "long")), [1, None], [1000, None]),
        (Form("", "map"), {"b": "1", "a": None}, [["a", None], ["b", "1"]]),
    ],
)
def test_what_delta_has_for_a_value(form, value, there):
    assert delta_form(value, form) == canonical_delta_value(there)


class OneTable:
    """A lake of one table."""

    base = Path("p")

    def __init__(self, names, *rows) -> None:
        self.names, self.rows = names, rows

    def column_names(self, *_):
        return self.names

    def read_rows(self, *_):
        return iter(self.rows)


def test_delta_has_the_rows_of_a_fresh_dump_each_value_in_the_column_that_can_hold_it():
    forms = {"id": Form("", "int"), "n": Form("", "int"), "t": Form("io.debezium.time.Timestamp", "long")}
    rows = {(number,): {"id": number, "n": 5, "t": 1000} for number in (1, 2)}
    fresh = Folded(rows=rows, forms=dict.fromkeys(rows, forms), key_names=("id",))
    names, moment = ["id", "n", "t", "n__v2", "_dblog_pos"], dt.datetime.fromisoformat("1970-01-01T00:00:01")

    def compared(*found) -> list[str]:
        return [p.text for p in compare_delta(OneTable(names, *found), "d", "t", fresh, 2)]

    assert not compared([1, 5, moment, None], [2, None, moment, 5])
    assert compared([1, 5, moment, None], [3, 5, moment, None]) == [
        "key (2,) has 0 rows in Delta",
        "key (('number', Decimal('3')),) is in Delta only",
    ]
    assert compared([1, 5, moment, None], [2, 4, moment, None], [2, 5, moment, None]) == ["key (2,) has 2 rows in Delta"]
    assert compared([1, 5, None, None], [2, 5, moment, None]) == [
        "key (1,) column t is [None] in Delta, ('number', Decimal('1000000')) in a fresh dump".replace("1000000", "1E+6")
    ]


def test_a_row_without_a_key_must_have_been_written_once_at_least():
    rows = [{"id": 1}, {"id": 1}, {"id": 2}]

    assert not compare_folded("t", Folded(unkeyed=[*rows, {"id": 7}]), Folded(unkeyed=rows))
    assert len(compare_folded("t", Folded(unkeyed=rows), Folded(unkeyed=[{"id": 3}]))) == 1


def test_a_row_that_was_written_with_a_key_is_written_though_its_table_has_lost_the_key():
    old = Folded(rows={(1,): {"id": 1, "gone": 5}}, unkeyed=[{"id": 2}])
    fresh = Folded(unkeyed=[{"id": 1}, {"id": 2}, {"id": 3}])

    assert [problem.text for problem in compare_folded("t", old, fresh)] == ["never written: {'id': 3}"]
