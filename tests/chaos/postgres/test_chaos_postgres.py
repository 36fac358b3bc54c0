"""A short run of one seed on PostgreSQL, and the pure parts that it has of its own."""

from __future__ import annotations

import json
import random
from base64 import b64encode

import pytest
from chaos import faults
from chaos.check import Folded, Form, canonical_delta_value, compare_folded, delta_form
from chaos.effects import Effect, apply
from chaos.plan import plan_of
from chaos.postgres import ddl, statements, tables
from chaos.postgres.drawing import FAULTS
from chaos.postgres.select import avro_value, compare_select
from chaos.postgres.tables import Column, PostgresTable
from chaos.run import Run, servers
from chaos.unknown import is_unknown
from dblog.dialects.postgres.values.modes import TypeModes
from support import postgres_generated as made
from support.postgres import connected

SEED = 4
SECONDS = 8.0
FAULT_KINDS = ("kill_task", "pause", "switch_wal", "end_walsender")


def test_a_seed_of_chaos_ends_without_a_difference(kafka, postgres, own_folder):
    plan = plan_of("postgres", SEED, seconds=SECONDS, fault_kinds=FAULT_KINDS, only=("exchanged_keys",))
    reported: list[str] = []

    with servers(own_folder, kafka=kafka, with_sink=False) as up:
        result = Run(plan, up, postgres, attempt=1, folder=own_folder / "run", report=reported.append).run()

    assert not result.problems, "\n".join([f"seed {SEED}", *map(str, result.problems), *reported])
    assert result.rows > 100
    assert sum(result.counts[f"fault {kind}"] for kind in FAULT_KINDS) > 0


def test_a_topic_that_the_sink_reads_gets_no_other_key():
    model = {t.name: t for t in tables.tables(random.Random(1), count=40)}
    by_born = {t.born: t for t in model.values()}
    settings = next(plan.settings for seed in range(100) if (plan := plan_of("postgres", seed, seconds=1)).sink)
    made_of = [ddl.ddl(random.Random(n), model, settings, number=n)[1] for n in range(600)]
    kinds = {one.kind: one.tables for statements in made_of for one in statements if one.tables}

    assert "primary_key" not in kinds
    assert all(len({by_born[t].key for t in one.tables}) == 1 for statements in made_of for one in statements if one.kind == "swap")
    assert "swap" in kinds


def test_every_kind_is_drawn_sooner_or_later():
    plans = [plan_of("postgres", seed, seconds=20) for seed in range(6)]
    steps = [step for plan in plans for step in plan.steps]
    model = {t.name: t for t in tables.tables(random.Random(1), count=40)}
    settings = next(plan.settings for seed in range(100) if not (plan := plan_of("postgres", seed, seconds=1)).sink)
    done = {kind for n in range(600) for kind, made_of in [ddl.ddl(random.Random(n), model, settings, number=n)] if made_of}
    drawn = tables.tables(random.Random(1), count=200)

    assert {step.kind for step in steps} >= statements.WRAPPERS.keys()
    assert done == ddl.DDL.keys()
    assert {s.kind for step in steps for s in step.statements} >= statements.WRITES.keys()
    assert {fault.kind for seed in range(80) for fault in faults.faults_of(random.Random(seed), seconds=30, kinds=FAULTS)} == set(FAULTS)
    assert {table.shape for table in drawn} == set(tables.SHAPES)
    assert {table.identity for table in drawn} == {"default", "full", "nothing", "index"}
    assert {table.partition for table in drawn} == {"", "range", "hash"}
    assert {plan.settings.autocreate for plan in plans} == {"all_tables", "filtered", "disabled"}


def test_a_table_without_old_rows_in_its_log_gets_new_ones_only():
    plans = [plan_of("postgres", seed, seconds=3, mask=frozenset({"ddl"})) for seed in range(12)]
    drawn = [
        statement.kind
        for plan in plans
        for adding in [{table.born for table in plan.tables.values() if not table.changeable}]
        for step in plan.steps
        for statement in step.statements
        if adding & set(statement.tables)
    ]

    assert set(drawn) == statements.ADDING


def test_two_tables_exchange_their_names():
    model = {t.name: t for t in tables.tables(random.Random(1), count=2)}
    first, second = model.values()

    apply(model, Effect("swap", "t0", to="t1"))

    assert model == {"t0": second, "t1": first}
    assert (first.name, second.name) == ("t1", "t0")


def test_what_a_reader_has_of_another_table_may_stay():
    old = Folded(rows={(1,): {"id": 1}, (2,): {"id": 2}}, by_sequence={(1,): {"id": 1}, (2,): {"id": 2}})

    assert not compare_folded("t", old, Folded(rows={(1,): {"id": 1}}), excess=True)
    assert compare_folded("t", old, Folded(rows={(1,): {"id": 1}}))
    assert compare_folded("t", old, Folded(rows={(3,): {"id": 3}}), excess=True)


_UNKNOWN = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    "value",
    [
        _UNKNOWN, _UNKNOWN.encode(), b64encode(_UNKNOWN.encode()).decode(), _UNKNOWN.encode().hex(), json.dumps({_UNKNOWN: _UNKNOWN}),
        {_UNKNOWN: _UNKNOWN}, [_UNKNOWN], [float(byte) for byte in _UNKNOWN.encode()], list(_UNKNOWN.encode()), {"wkb": _UNKNOWN.encode(), "srid": None},
        {"scale": 0, "value": _UNKNOWN.encode()},
    ],
)  # fmt: skip
def test_a_placeholder_is_known_in_every_form(value):
    assert is_unknown(value)


@pytest.mark.parametrize("value", [None, "", [], {}, 5, b"x", [95], {"wkb": b"x", "srid": None}])
def test_no_other_value_is_a_placeholder(value):
    assert not is_unknown(value)


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        ("/wA=", Form("", "bytes"), b"\xff\x00"),
        (["/wA=", None], Form("", "bytes"), [b"\xff\x00", None]),
        ("/wA=", Form("", "string"), "/wA="),
        ("Infinity", Form("", "double"), float("inf")),
        ({"scale": 1, "value": "/wA="}, Form("", "struct"), {"scale": 1, "value": b"\xff\x00"}),
        ({"wkb": "/wA=", "srid": 7}, Form("", "struct"), {"wkb": b"\xff\x00", "srid": 7}),
        (None, Form("", "bytes"), None),
    ],
)
def test_a_value_of_json_in_the_form_of_avro(value, form, expected):
    assert avro_value(value, form) == expected


def test_an_infinite_number_that_json_has_as_a_text_is_one_in_delta():
    assert delta_form("-Infinity", Form("", "double")) == canonical_delta_value(float("-inf"))


def test_a_fresh_dump_differs_from_the_server_by_missing_changed_and_excess_rows(postgres, postgres_database):
    table = PostgresTable(name="t", born="t", shape="single", columns=[Column(name="c", kind=made.NUMERIC)], key=("id",))
    with connected(postgres, database=postgres_database) as connection, connection.cursor() as cursor:
        cursor.execute(table.create)
        cursor.execute("INSERT INTO t VALUES (1, 1.5), (2, NULL), (3, 7.2)")

        def compared(*rows: tuple[int, bytes | None]) -> list[str]:
            fresh = Folded()
            for number, unscaled in rows:
                value = None if unscaled is None else {"scale": 1, "value": unscaled}
                fresh.rows[number,], fresh.forms[number,] = {"id": number, "c": value}, {}
            return [p.text for p in compare_select(cursor, table, "t", TypeModes(), fresh, converter="avro")]

        assert not compared((1, b"\x0f"), (2, None), (3, b"\x48"))
        assert compared((1, b"\x0f"), (2, None), (3, b"\x47")) == ["id 3: selected and dumped {'c': ('7.2', '7.1')}"]
        assert compared((1, b"\x0f"), (2, None)) == [
            "3 rows by SELECT, 2 in a fresh dump",
            "id 3: selected and dumped {'id': ('3', None), 'c': ('7.2', None)}",
        ]
        assert compared((1, b"\x0f"), (2, None), (3, b"\x48"), (4, None))[0] == "3 rows by SELECT, 4 in a fresh dump"
