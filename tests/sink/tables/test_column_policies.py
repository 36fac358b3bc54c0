"""What each policy does when columns change, in the real job: no value is lost or changed in silence."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.tables.modes import history, rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

WITH_DEFAULT = [{"type": "int", "connect.default": 5}, "null"]


def table(registry: RegistryServer, *columns: tuple[str, Any]) -> TableSchema:
    return TableSchema(topic="p.shop.t", columns=[("id", "long"), *columns], registry=registry)


def test_a_column_added_with_a_default_has_it_in_every_row_that_is_older(sink: Sink, registry: RegistryServer) -> None:
    old, new = table(registry, ("v", "string")), table(registry, ("v", "string"), ("n", WITH_DEFAULT))
    sink.batch(*(change(old, "c", {"id": n, "v": "a"}, at=n) for n in (1, 2, 3)))

    sink.batch(change(new, "u", {"id": 2, "v": "b", "n": None}, at=10), change(new, "c", {"id": 4, "v": "b", "n": 7}, at=11))
    sink.restarted().batch(change(old, "r", {"id": 5, "v": "late"}, at=9), change(old, "u", {"id": 1, "v": "stale"}, at=0))

    assert sink.rows(old) == [
        {"id": 1, "v": "a", "n": 5},
        {"id": 2, "v": "b", "n": None},
        {"id": 3, "v": "a", "n": 5},
        {"id": 4, "v": "b", "n": 7},
        {"id": 5, "v": "late", "n": 5},
    ]


@pytest.mark.long
@pytest.mark.parametrize("left_out", ["columns.exclude", "evolution"])
def test_a_column_that_is_selected_later_has_null_in_older_rows_and_not_its_default(
    sink: Sink, registry: RegistryServer, caplog: pytest.LogCaptureFixture, left_out: str
) -> None:
    """What the older rows have there in the source nobody knows."""
    status = {"type": "string", "connect.default": "new"}
    before, with_status = table(registry, ("v", "string")), table(registry, ("v", "string"), ("status", status))
    sink.settings |= {"table.t.match": ".*", f"table.t.{left_out}": "status" if left_out == "columns.exclude" else "ignore"}
    sink.batch(change(before, "c", {"id": 0, "v": "z"}, at=1))
    sink.batch(change(with_status, "c", {"id": 1, "v": "a", "status": "paid"}, at=2))
    sink.restarted().settings.pop(f"table.t.{left_out}")

    with caplog.at_level("WARNING"):
        sink.batch(change(with_status, "c", {"id": 2, "v": "b", "status": "sent"}, at=3))

    assert [(row["id"], row["status"]) for row in sink.rows(before)] == [(0, None), (1, None), (2, "sent")]
    assert "shop.t: column status was left out until now" in caplog.text


@pytest.mark.long
def test_a_fill_that_was_interrupted_is_finished_at_the_next_start(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = SparkSession.sql

    def killed(session: SparkSession, statement: str, *args: Any, **kwargs: Any) -> DataFrame:
        """The process ends before the rows that are there are updated."""
        if statement.startswith("UPDATE "):
            raise RuntimeError("killed")
        return sql(session, statement, *args, **kwargs)

    old, new = table(registry, ("v", "string")), table(registry, ("v", "string"), ("n", WITH_DEFAULT))
    sink.batch(change(old, "c", {"id": 1, "v": "a"}, at=1))
    with monkeypatch.context() as patch:
        patch.setattr(SparkSession, "sql", killed)
        with pytest.raises(RuntimeError, match="killed"):
            sink.batch(change(new, "c", {"id": 2, "v": "b", "n": 1}, at=2))
    assert [row["n"] for row in sink.rows(old)] == [None]

    sink.restarted().repeat(1, [change(new, "c", {"id": 2, "v": "b", "n": None}, at=2)])

    assert sink.rows(old) == [{"id": 1, "v": "a", "n": 5}, {"id": 2, "v": "b", "n": None}]


def test_a_type_that_does_not_fit_gets_a_column_of_its_own_and_nothing_is_lost(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution": "lenient"}
    text, number = table(registry, ("v", "string")), table(registry, ("v", ["null", "int"]))
    sink.batch(change(text, "c", {"id": 1, "v": "a"}, at=1))

    sink.batch(change(number, "u", {"id": 1, "v": 7}, at=2), change(text, "r", {"id": 2, "v": "late"}, at=1))
    sink.restarted().batch(change(table(registry, ("v", "long")), "c", {"id": 3, "v": 2**40}, at=3))

    assert sink.rows(text) == [
        {"id": 1, "v": None, "v__v2": 7},
        {"id": 2, "v": "late", "v__v2": None},
        {"id": 3, "v": None, "v__v2": 2**40},
    ]


@pytest.mark.long
def test_a_target_that_stays_as_it_is_takes_what_fits_and_the_rest_is_in_quarantine(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution": "ignore"}
    first = table(registry, ("n", ["null", "int"]), ("gone", ["null", "string"]))
    second = table(registry, ("n", ["null", "long"]), ("fresh", "string"))
    third = table(registry, ("n", "string"), ("gone", ["null", "string"]))
    fourth = table(registry, ("n", "double"))
    sink.batch(change(first, "c", {"id": 1, "n": 1, "gone": "x"}, at=1))

    sink.batch(
        change(second, "c", {"id": 2, "n": 2, "fresh": "y"}, at=2),
        change(second, "c", {"id": 3, "n": 2**40, "fresh": "y"}, at=3),
        change(third, "c", {"id": 4, "n": "4", "gone": None}, at=4),
        change(third, "c", {"id": 5, "n": "five", "gone": None}, at=5),
        change(fourth, "c", {"id": 6, "n": 6.0}, at=6),
        change(fourth, "c", {"id": 7, "n": 7.5}, at=7),
    )

    assert {field.name: field.dataType for field in sink.read(first).schema.fields if field.name[0] != "_"} == {
        "id": t.LongType(),
        "n": t.IntegerType(),
        "gone": t.StringType(),
    }
    assert [(row["id"], row["n"]) for row in sink.rows(first)] == [(1, 1), (2, 2), (4, 4), (6, 6)]
    assert [kept["reason"] for kept in sink.quarantined()] == ["column n: the value has no int"] * 3


@pytest.mark.long
def test_a_dropped_column_is_dropped_where_that_is_wanted_and_stays_dropped(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution.drop": "drop"}
    wide, narrow = table(registry, ("a", "string"), ("b", ["null", "int"])), table(registry, ("a", "string"))
    sink.batch(change(wide, "c", {"id": 1, "a": "x", "b": 1}, at=1))

    sink.batch(change(narrow, "c", {"id": 2, "a": "y"}, at=2))
    sink.restarted().batch(change(wide, "r", {"id": 3, "a": "late", "b": 3}, at=1), change(narrow, "d", {"id": 2, "a": "y"}, at=4))

    assert sink.rows(wide) == [{"id": 1, "a": "x"}, {"id": 3, "a": "late"}]


@pytest.mark.long
def test_a_table_that_may_not_change_stops_with_the_change_and_goes_on_when_it_is_allowed(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution": "fail"}
    old, new = table(registry, ("v", "string")), table(registry, ("v", "string"), ("n", "int"))
    sink.batch(change(old, "c", {"id": 1, "v": "a"}, at=1))
    with pytest.raises(DefiniteError, match=r"shop\.t: the source has a new column n, and table\.<rule>\.evolution=fail"):
        sink.batch(change(new, "c", {"id": 2, "v": "b", "n": 2}, at=2))

    sink.restarted().settings |= {"table.t.evolution": "evolve"}
    sink.repeat(1, [change(new, "c", {"id": 2, "v": "b", "n": 2}, at=2)])

    assert sink.rows(old) == [{"id": 1, "v": "a", "n": None}, {"id": 2, "v": "b", "n": 2}]


def test_a_narrower_decimal_keeps_the_wider_column(sink: Sink, registry: RegistryServer) -> None:
    from support.envelopes import decimal

    wide, narrow = table(registry, ("d", decimal(12, 4))), table(registry, ("d", decimal(6, 1)))
    sink.batch(change(wide, "c", {"id": 1, "d": Decimal("1.2345")}, at=1), change(narrow, "c", {"id": 2, "d": Decimal("9.5")}, at=2))

    assert [row["d"] for row in sink.rows(wide)] == [Decimal("1.2345"), Decimal("9.5000")]


def renamed(registry: RegistryServer, *statements: str, at: int = 0) -> list[Record]:
    """Records of the schema-change topic. ``at``: the position of the first statement in the source's log, the others follow."""
    name = "io.debezium.connector.mysql.SchemaChangeValue"
    fields = [("gtid", ["null", "string"]), ("server_id", "long"), ("file", "string"), ("pos", "long")]
    source = {"type": "record", "name": "Source", "fields": [{"name": field, "type": kind} for field, kind in fields]}
    schema = {
        "type": "record",
        "name": "SchemaChangeValue",
        "namespace": "io.debezium.connector.mysql",
        "fields": [
            {"name": "source", "type": source},
            *({"name": field, "type": ["null", "string"], "default": None} for field in ("databaseName", "schemaName", "ddl")),
        ],
        "connect.name": name,
    }
    records = []
    for pos, statement in enumerate(statements, at):
        out = io.BytesIO()
        out.write(b"\0" + registry.register(json.dumps(schema)).to_bytes(4, "big"))
        fastavro.schemaless_writer(
            out,
            fastavro.parse_schema(schema),
            {
                "source": {"gtid": None, "server_id": 1, "file": "binlog.000001", "pos": pos},
                "databaseName": "shop",
                "schemaName": None,
                "ddl": statement,
            },
        )
        records.append(Record(topic="p", key=None, value=out.getvalue()))
    return records


def test_a_rename_that_the_schema_change_topic_shows_keeps_the_column(sink: Sink, registry: RegistryServer) -> None:
    records = renamed(registry, "ALTER TABLE t CHANGE v w varchar(20), ADD n int")
    old, new = table(registry, ("v", "string")), table(registry, ("w", "string"), ("n", ["null", "int"]))
    sink.batch(change(old, "c", {"id": 1, "v": "a"}, at=1), change(old, "c", {"id": 2, "v": "b"}, at=2))

    sink.batch(*records)
    sink.killed().batch(change(new, "u", {"id": 2, "w": "c", "n": 1}, at=9))

    assert sink.rows(old) == [{"id": 1, "w": "a", "n": None}, {"id": 2, "w": "c", "n": 1}]
    assert sink.quarantined() == []

    # The former name comes back for a column of another type, its row overtakes the record of the statement, and the renamed column goes.
    both, last = (
        table(registry, ("w_old", "string"), ("w", NULLABLE_INT), ("n", NULLABLE_INT)),
        table(registry, ("w", NULLABLE_INT), ("n", NULLABLE_INT)),
    )
    statement = renamed(registry, "ALTER TABLE t RENAME COLUMN w TO w_old, ADD w int AFTER w_old", at=15)
    sink.history["p"] = [replace(one, offset=offset) for offset, one in enumerate([*records, *statement])]
    sink.batch(change(both, "c", {"id": 3, "w_old": "d", "w": 3, "n": None}, at=19))
    sink.batch(change(last, "c", {"id": 4, "w": 4, "n": None}, at=29))
    sink.killed().batch(change(last, "u", {"id": 3, "w": 5, "n": None}, at=39), change(new, "c", {"id": 5, "w": "late", "n": None}, at=10))

    expected = [(1, "a", None), (2, "c", None), (3, None, 5), (4, None, 4), (5, "late", None)]
    assert [(row["id"], row["w_old"], row["w"]) for row in sink.rows(old)] == expected


@pytest.mark.long
def test_a_rename_whose_record_is_overtaken_by_rows_keeps_the_column(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution.drop": "drop"}
    old, new = table(registry, ("v", "string"), ("gone", "int")), table(registry, ("w", "string"), ("n", ["null", "int"]))
    sink.batch(change(old, "c", {"id": 1, "v": "a", "gone": 1}, at=1), change(old, "c", {"id": 2, "v": "b", "gone": 1}, at=2))
    sink.history["p"] = renamed(
        registry, "ALTER TABLE t CHANGE v x varchar(20)", "ALTER TABLE t RENAME COLUMN x TO w, DROP COLUMN gone, ADD n int"
    )

    sink.batch(change(new, "u", {"id": 2, "w": "c", "n": 1}, at=9))
    sink.killed().batch(*sink.history["p"], change(new, "c", {"id": 3, "w": "d", "n": None}, at=10))

    assert sink.rows(old) == [{"id": 1, "w": "a", "n": None}, {"id": 2, "w": "c", "n": 1}, {"id": 3, "w": "d", "n": None}]


EXPAND_AND_CONTRACT = "ALTER TABLE t RENAME COLUMN price TO price_old, RENAME COLUMN price_new TO price"
NULLABLE_INT = ["null", "int"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mirror", "history", "append"])
@pytest.mark.parametrize("overtaken", [False, True])
def test_a_column_renamed_onto_the_name_of_another_keeps_its_values(
    sink: Sink, registry: RegistryServer, mode: str, overtaken: bool
) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": mode}
    old, new = (table(registry, *((name, NULLABLE_INT) for name in names)) for names in (("price", "price_new"), ("price_old", "price")))
    sink.batch(*(change(old, "c", {"id": n, "price": 10 * n, "price_new": 1000 * n}, at=n) for n in (1, 2)))
    records = renamed(registry, EXPAND_AND_CONTRACT)

    if overtaken:
        sink.history["p"] = records
    else:
        sink.batch(*records)
        sink.killed()
    late = change(old, "c", {"id": 3, "price": 30, "price_new": 3000}, at=3)
    sink.batch(change(new, "u", {"id": 2, "price_old": 20, "price": 2001}, at=9), late)

    frame = sink.read(old)
    current = frame.where("_dblog_current") if mode == "history" else frame.where("_dblog_op <> 'u'") if mode == "append" else frame
    found = sorted((row["id"], row["price_old"], row["price"]) for row in current.collect())
    assert found == [(1, 10, 1000), (2, 20, 2000 if mode == "append" else 2001), (3, 30, 3000)]
    assert set(frame.columns) >= {"price", "price_old"}
    assert "price_new" not in frame.columns


@pytest.mark.long
def test_two_columns_that_change_places_keep_their_values_over_kills(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab, ba = (table(registry, *((name, NULLABLE_INT) for name in names)) for names in (("a", "b"), ("b", "a")))
    sink.batch(change(ab, "c", {"id": 1, "a": 1, "b": 2}, at=1), change(ab, "c", {"id": 2, "a": 1, "b": 2}, at=2))
    swap = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    sink.batch(*renamed(registry, swap))
    sql, met = SparkSession.sql, []

    def killed(session: SparkSession, statement: str, *args: Any, **kwargs: Any) -> DataFrame:
        """The process ends when some columns are renamed and others are not."""
        if "RENAME COLUMN" in statement:
            met.append(statement)
            if len(met) in (2, 3):
                raise RuntimeError("killed")
        return sql(session, statement, *args, **kwargs)

    batch = [change(ba, "u", {"id": 2, "b": 1, "a": 3}, at=9)]
    with monkeypatch.context() as patch:
        patch.setattr(SparkSession, "sql", killed)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="killed"):
                sink.repeat(sink.batch_id, batch)
            sink.killed()
    sink.batch(*batch)
    assert sink.rows(ab) == [{"id": 1, "a": 2, "b": 1}, {"id": 2, "a": 3, "b": 1}]

    # The worker sends the statement again, and a row of before comes late.
    sink.batch(*renamed(registry, swap), change(ab, "c", {"id": 3, "a": 1, "b": 2}, at=3))
    assert sink.rows(ab) == [{"id": 1, "a": 2, "b": 1}, {"id": 2, "a": 3, "b": 1}, {"id": 3, "a": 2, "b": 1}]

    # And back again, behind which the first schema comes again.
    sink.batch(*renamed(registry, swap, at=15))
    sink.batch(change(ab, "u", {"id": 2, "a": 5, "b": 6}, at=19), change(ba, "u", {"id": 1, "b": 7, "a": 8}, at=10))
    rows = {row["id"]: (row["a"], row["b"]) for row in sink.rows(ab) if row["id"] < 3}
    assert rows in ({1: (7, 8), 2: (5, 6)}, {1: (8, 7), 2: (6, 5)}), "each value in the column that the source had it in"


@pytest.mark.parametrize("policy", [pytest.param("ignore", marks=pytest.mark.long), "park"])
def test_a_truncate_may_be_ignored_or_wait_for_a_person(sink: Sink, registry: RegistryServer, policy: str) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.truncate": policy}
    items = table(registry, ("v", "string"))
    truncate = Record(topic=items.topic, key=None, value=items.value_bytes("t", pos=5))
    sink.batch(change(items, "c", {"id": 1, "v": "a"}, at=1))

    sink.batch(truncate, change(items, "c", {"id": 2, "v": "b"}, at=6))

    kept = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert sink.rows(items) == (kept if policy == "ignore" else kept[:1])
    if policy == "park":
        sink.restarted().settings |= {"table.t.truncate": "apply"}
        sink.writer  # noqa: B018  built again
        sink.book.unpark(items.topic)
        sink.drain()
        assert sink.rows(items) == kept[1:]


@pytest.mark.long
def test_a_truncate_of_rows_that_are_ordered_by_a_topic_of_several_partitions_waits_for_a_person(
    sink: Sink, registry: RegistryServer
) -> None:
    sink.settings |= {"position": "topic"}
    items = table(registry, ("v", "string"))
    truncate = Record(topic=items.topic, key=None, value=items.value_bytes("t", pos=5))
    sink.batch(*(change(items, "c", {"id": key, "v": "a"}, at=key, partition=1) for key in (1, 2, 3)))

    sink.batch(truncate)
    sink.batch(change(items, "c", {"id": 4, "v": "b"}, at=9, partition=0))

    assert "ordered by the offsets of topic p.shop.t, which has several partitions" in sink.book.parked()[items.topic]
    assert [row["id"] for row in sink.rows(items)] == [1, 2, 3]

    # One of the ways out that the reason names.
    sink.restarted().settings |= {"table.t.match": ".*", "table.t.truncate": "ignore"}
    sink.writer  # noqa: B018  built again
    sink.book.unpark(items.topic)
    sink.drain()
    assert [row["id"] for row in sink.rows(items)] == [1, 2, 3, 4]


@pytest.mark.long
def test_versions_that_ended_long_ago_are_removed_where_that_is_wanted(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "history", "table.t.retention.h": "24", "compact.commits": "2"}
    items = table(registry, ("v", "string"))
    sink.batch(*(change(items, "c", {"id": key, "v": "a"}, at=key) for key in (1, 2)))

    sink.batch(change(items, "u", {"id": 1, "v": "b"}, at=9))

    assert sink.rows(items, order="v") == [{"id": 2, "v": "a"}, {"id": 1, "v": "b"}]


@pytest.mark.long
def test_wide_keys_of_a_history_are_not_sent_to_every_task(sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "history"}
    items = TableSchema(topic="p.shop.t", columns=[("id", "string"), ("v", "string")], registry=registry)
    asked: list[bool] = []

    def upsert(*given: Any, **named: Any) -> Any:
        asked.append(named["broadcast"])
        return versions_upsert(*given, **named)

    versions_upsert = history.upsert
    monkeypatch.setattr(history, "upsert", upsert)
    sink.batch(change(items, "c", {"id": "a", "v": "a"}, at=1))
    sink.batch(change(items, "u", {"id": "a", "v": "b"}, at=2))
    monkeypatch.setattr(rows, "BROADCAST_BYTES_MAX", 10)
    sink.batch(change(items, "u", {"id": "a", "v": "c"}, at=3))

    assert asked == [True, False]
