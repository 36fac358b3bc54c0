"""PostgreSQL's log leaves out unchanged values that are stored apart (TOAST); what Debezium writes in their place is never a value."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dblog.dialects.postgres.values.fields import unavailable
from dblog.dialects.postgres.values.modes import TypeModes
from dblog_sink.records.unavailable import is_unavailable
from dblog_sink.schema.types import conversion
from pyspark.sql import DataFrame, SparkSession
from sink.harness import Record, Sink, change
from sink.postgres import ID, PostgresTopic, column
from sink.tables.test_quarantine import replayed
from support.envelopes import TableSchema, logical
from support.pgoutput_tables import UNSENT
from support.postgres_type_cases import CASES
from support.registry_server import RegistryServer

UNAVAILABLE = "__debezium_unavailable_value"
COLUMNS = [
    ("id", "long"),
    ("v", ["null", "string"]),
    ("n", ["null", "int"]),
    ("raw", ["null", "bytes"]),
    ("tags", ["null", {"type": "array", "items": ["null", "string"]}]),
    ("doc", ["null", logical("string", "io.debezium.data.Json")]),
]
UNCHANGED = {"v": UNAVAILABLE, "raw": UNAVAILABLE.encode(), "tags": [UNAVAILABLE], "doc": UNAVAILABLE}


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.public.items", columns=COLUMNS, registry=registry, connector="postgresql")


def row(key: int, n: int, **values: Any) -> dict[str, Any]:
    return {"id": key, "n": n, "v": f"v{key}", "raw": b"r", "tags": ["a", "b"], "doc": '{"k":1}'} | values


def update(items: TableSchema, key: int, n: int, at: int, **values: Any) -> Record:
    return change(items, "u", row(key, n, **values), at=at)


MERGED = {"rewrite.rows.max": "0"}


@pytest.mark.parametrize(
    ("settings", "then"),
    [
        pytest.param({}, MERGED, id="rewritten, then merged"),
        pytest.param({}, {}, id="rewritten", marks=pytest.mark.long),
        pytest.param(MERGED, {}, id="merged", marks=pytest.mark.long),
    ],
)
def test_a_mirror_keeps_what_an_update_does_not_contain(
    sink: Sink, items: TableSchema, settings: dict[str, str], then: dict[str, str]
) -> None:
    sink.settings |= settings
    sink.batch(*(change(items, "c", row(key, 0), at=key) for key in (1, 2, 3)))

    sink.batch(
        update(items, 1, 1, 10, **UNCHANGED),
        # The first change of a batch sets a column, the second does not have it.
        update(items, 2, 1, 11, v="set", doc=UNAVAILABLE),
        update(items, 2, 2, 12, **UNCHANGED),
        update(items, 9, 1, 13, **UNCHANGED),  # a row that is not there
        change(items, "c", row(4, 0), at=14),
        update(items, 4, 1, 15, v=UNAVAILABLE),
        update(items, 3, 1, 16, v=None),
        update(items, 3, 2, 17, v=UNAVAILABLE),  # NULL is a value
    )

    assert sink.rows(items) == [row(1, 1), row(2, 2, v="set"), row(3, 2, v=None), row(4, 1)]
    (bad,) = sink.quarantined()
    assert bad["reason"].startswith("column doc, raw, tags, v: the record has no value")

    # Once the row is there, the record gets from it what it lacked.
    if then:
        sink.restarted().settings |= then
    sink.batch(
        update(items, 1, 3, 20, v=UNAVAILABLE),
        change(items, "d", row(2, 2), at=21),
        change(items, "r", row(5, 0, v=UNAVAILABLE), at=0),
        # The key of another row becomes 4: what the deleted row had is not its value.
        change(items, "d", row(4, 1), at=22),
        change(items, "c", row(4, 2, v=UNAVAILABLE), at=23),
    )
    expected = [row(1, 3), row(3, 2, v=None), row(5, 0, v=UNAVAILABLE)]
    assert sink.rows(items) == expected
    assert [bad["reason"].partition(":")[0] for bad in sink.quarantined()] == ["column doc, raw, tags, v", "column v"]

    # Sent again: what is older than the table's row, or than a delete, need not be known.
    sink.batch(update(items, 1, 1, 10, **UNCHANGED), update(items, 2, 2, 12, **UNCHANGED), update(items, 1, 3, 20, v=UNAVAILABLE))
    assert sink.rows(items) == expected
    assert len(sink.quarantined()) == 2


@pytest.mark.long
def test_a_history_keeps_it_from_the_version_before(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "history"}
    sink.batch(change(items, "c", row(1, 0), at=1), update(items, 1, 1, 5, v=UNAVAILABLE))
    sink.batch(update(items, 1, 2, 9, v="new"), update(items, 1, 3, 12, **UNCHANGED), update(items, 2, 1, 13, v=UNAVAILABLE))
    sink.batch(update(items, 1, 4, 15, v=UNAVAILABLE), update(items, 1, 3, 12, **UNCHANGED))

    found = sink.read(items).orderBy("_dblog_seq2").collect()
    assert [(one["n"], one["v"], one["doc"], one["_dblog_current"]) for one in found] == [
        (0, "v1", '{"k":1}', False),
        (1, "v1", '{"k":1}', False),
        (2, "new", '{"k":1}', False),
        (3, "new", '{"k":1}', False),
        (4, "new", '{"k":1}', True),
    ]
    assert [bad["reason"].partition(":")[0] for bad in sink.quarantined()] == ["column v"]


@pytest.mark.long
def test_what_has_landed_is_shown_and_merged_with_the_values_that_the_mirror_has(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"trigger.interval.s": "0", "table.t.match": ".*", "table.t.json.type": "variant", "table.t.columns.rename": "v:text"}
    sink.batch(change(items, "c", row(1, 0), at=1))
    sink.land(update(items, 1, 1, 5, **UNCHANGED))

    def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(one["n"], one["text"], one["tags"], str(one["doc"])) for one in rows]

    expected = [(1, "v1", ["a", "b"], '{"k":1}')]
    assert shown(sink.fresh(items)) == expected
    sink.drain()
    assert shown(sink.rows(items)) == expected
    assert sink.quarantined() == []


def test_a_list_of_changes_shows_what_the_source_sent(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    sink.batch(change(items, "c", row(1, 0), at=1), update(items, 1, 1, 2, v=UNAVAILABLE))

    assert [one["v"] for one in sink.rows(items, order="n")] == ["v1", UNAVAILABLE]


def test_every_form_of_the_placeholder_is_known(spark: SparkSession) -> None:
    data = b"\x01gone"
    named = uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
    array = {"type": "array", "items": ["null", "string"]}
    forms: list[tuple[Any, str]] = [
        ("string", "decode(X'01676f6e65', 'UTF-8')"),
        ("string", "base64(X'01676f6e65')"),
        ("string", "lower(hex(X'01676f6e65'))"),
        ("bytes", "X'01676f6e65'"),
        (array, f"array('{named}')"),
        (array, "array(decode(X'01676f6e65', 'UTF-8'))"),
        ({"type": "array", "items": ["null", "int"]}, "array(1, 103, 111, 110, 101)"),
        ({"type": "array", "items": ["null", "double"]}, "array(1D, 103D, 111D, 110D, 101D)"),
        ({"type": "map", "values": ["null", "string"]}, "map(decode(X'01676f6e65', 'UTF-8'), decode(X'01676f6e65', 'UTF-8'))"),
    ]
    tests = [is_unavailable(conversion(schema, {}, where="t"), f"({sql})", "hex:01676f6e65") for schema, sql in forms]

    assert list(spark.range(1).selectExpr(*(str(test) for test in tests)).collect()[0]) == [True] * len(forms)
    assert is_unavailable(conversion("long", {}, where="t"), "v", "gone") is None


# -- the worker's own records of PostgreSQL ---------------------------------------------------------------------------------------------------

TEXTS = json.loads((Path(__file__).parents[3] / "support" / "debezium" / "postgres_types.json").read_text())["texts"]
NEVER_APART = {
    *(
        "bool",
        "int2",
        "int4",
        "int8",
        "oid",
        "float4",
        "float8",
        "money",
        "date",
        "time",
        "timestamp",
        "interval",
        "point",
        "bit",
        "varbit",
    ),
    "numeric",  # of at most 38 digits, or as a double: fewer than 25 bytes but for a handful of digits
}
"""Types whose values are not stored apart, as far as they have no placeholder (PostgreSQL manual, 73.2 "TOAST")."""
MODES = [
    pytest.param({}, id="defaults", marks=pytest.mark.long),
    pytest.param({"unavailable.value.placeholder": "hex:80ff41", "decimal.handling.mode": "double", "binary.handling.mode": "hex",
                  "time.precision.mode": "nanoseconds", "hstore.handling.mode": "map"}, id="hex", marks=pytest.mark.long),
    pytest.param({"decimal.handling.mode": "string", "binary.handling.mode": "base64-url-safe", "time.precision.mode": "isostring"},
                 id="texts", marks=pytest.mark.long),
]  # fmt: skip


@pytest.mark.parametrize("properties", MODES)
def test_a_value_of_any_type_that_is_not_in_the_log_stays_what_it_was(
    sink: Sink, registry: RegistryServer, properties: dict[str, str]
) -> None:
    if "unavailable.value.placeholder" in properties:
        sink.settings |= {"table.t.match": ".*", "table.t.unavailable.value.placeholder": properties["unavailable.value.placeholder"]}
    modes = TypeModes.from_settings(properties)
    given = {f"c{n}": (case.column, TEXTS[case.ddl]) for n, case in enumerate(CASES) if TEXTS[case.ddl]}
    table = PostgresTopic(registry, [ID, *(replace(one, name=name, nullable=True) for name, (one, _) in given.items())], modes=modes)
    apart = {plan.name for plan in table.plan.columns if plan.schema is not None and unavailable(plan, modes) is not None}
    others = {plan.name for plan in table.plan.columns if plan.schema is not None} - apart - {"id"}
    assert {given[name][0].type for name in others} <= NEVER_APART
    whole = {name: texts[0] for name, (_, texts) in given.items()}
    empty: dict[str, Any] = dict.fromkeys(given)
    sink.batch(*(table.inserted({"id": key, **row}, commit=0x100 + 8 * key) for key, row in enumerate((whole, empty))))
    before = shown(sink, table, apart | others)

    unsent = dict.fromkeys(apart, UNSENT)
    sink.batch(
        *(one for key, row in enumerate((whole, empty)) for one in table.updated({"id": key, **row, **unsent}, commit=0x200 + 8 * key))
    )

    assert sink.quarantined() == []
    assert shown(sink, table, apart | others) == before
    assert [row["at"] for row in frame(sink, table).selectExpr("_dblog_seq2 >> 37 AS at").orderBy("at").collect()] == [
        0x200 >> 6,
        0x208 >> 6,
    ]


def frame(sink: Sink, table: PostgresTopic) -> DataFrame:
    return sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}")


def shown(sink: Sink, table: PostgresTopic, names: set[str]) -> list[Any]:
    return frame(sink, table).orderBy("id").selectExpr(*(f"to_json(struct({name})) AS {name}" for name in sorted(names))).collect()


def test_changes_that_show_less_than_a_row_leave_the_others_columns_alone(sink: Sink, registry: RegistryServer) -> None:
    """With the default replica identity an update has no old row, and a delete only the key: its other columns are NULL, or zero where NULL is not allowed."""
    sink.settings |= {"table.t.match": ".*", "table.t.soft.delete": "gone"}
    columns = [ID, column("v", "text", nullable=False), column("n", "int4", nullable=False), column("doc", "jsonb")]
    table = PostgresTopic(registry, columns)
    row = {"v": "large", "n": 1, "doc": '{"k": 1}'}
    sink.batch(*(table.inserted({"id": key, **row}, commit=0x100 + 8 * key) for key in (1, 2, 3)))

    sink.batch(
        *table.updated({"id": 1, "v": UNSENT, "n": 2, "doc": None}, commit=0x200),
        table.deleted({"id": 2}, commit=0x208),
        # A changed key shows the old one.
        *table.updated({"id": 4, "v": "large", "n": 3, "doc": '{"k": 2}'}, commit=0x210, before={"id": 3}, key_only=True),
    )

    found = frame(sink, table).orderBy("id").select("id", "v", "n", "doc", "gone").collect()
    assert [tuple(one) for one in found] == [
        (1, "large", 2, None, False),
        (2, "large", 1, '{"k": 1}', True),
        (3, "large", 1, '{"k": 1}', True),
        (4, "large", 3, '{"k": 2}', False),
    ]
    assert sink.quarantined() == []


@pytest.mark.long
def test_a_list_of_changes_has_nothing_to_complete_a_row_from(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    table = PostgresTopic(registry, [ID, column("v", "text", nullable=False), column("n", "int4", nullable=False)])
    sink.batch(
        table.inserted({"id": 1, "v": "large", "n": 1}, commit=0x100),
        *table.updated({"id": 1, "v": UNSENT, "n": 2}, commit=0x108),
        table.deleted({"id": 1}, commit=0x110),
    )

    found = frame(sink, table).orderBy("_dblog_seq2").select("_dblog_op", "v", "n").collect()
    assert [tuple(one) for one in found] == [("c", "large", 1), ("u", UNAVAILABLE, 2), ("d", "", 0)]


def test_updates_ahead_of_the_dump_that_brings_their_rows_stop_nothing_and_leave_no_trace(sink: Sink, registry: RegistryServer) -> None:
    """While a first dump runs, rows that it has not read yet are changed, and the log does not have their large values."""
    table = PostgresTopic(registry, [ID, column("v", "text", nullable=False), column("n", "int4", nullable=False)])
    keys = range(40)
    sink.batch(*(one for key in keys for one in table.updated({"id": key, "v": UNSENT, "n": 1}, commit=0x1000 + 8 * key)))
    assert len(sink.quarantined()) == len(keys)

    sink.batch(
        *(table.dumped({"id": key, "v": f"v{key}", "n": 1}, low=0x2000) for key in keys),
        *table.updated({"id": 7, "v": UNSENT, "n": 2}, commit=0x2008),
    )
    outcome = replayed(sink)

    assert (outcome.records, outcome.still_bad) == (len(keys), 0)
    assert sink.quarantined() == []
    found = frame(sink, table).orderBy("id").select("id", "v", "n").collect()
    assert [tuple(row) for row in found] == [(key, f"v{key}", 2 if key == 7 else 1) for key in keys]
