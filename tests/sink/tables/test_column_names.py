"""A column of the source may have any name: those that the sink's frames and Delta's commands use while they write, and those that files cannot have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from dblog_sink.errors import DefiniteError
from dblog_sink.schema.writer_schemas import TAKEN_BY_DELTA, Reading, value_schema
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

OURS = [
    "_content",
    "_best",
    "_was",
    "_was_op",
    "_was_content",
    "_was_to1",
    "_was_to2",
    "_left_out",
    "_none",
    "_null",
    "_before",
    "_after",
    "_row",
    "_op",
    "_seq1",
    "_seq2",
    "_dead_0",
    "_dead_dblog_seq1",
    "_key_0",
    "image",
    "op",
    "offset",
    "partition",
    "timestamp",
    "topic",
    "value",
    "key",
    "key_schema_id",
    "value_schema_id",
    "reason",
    "bad_at",
    "kind",
    "n",
    "first",
    "last",
    "ts",
    "low0",
    "high0",
    "name",
    "v",
    "s",
    "t",
    "soft",
    "sign",
]
"""Names that frames of the sink have or had."""
FEEDS = ["_change_type", "_commit_version", "_commit_timestamp"]
"""Names of a change data feed, which Delta takes while it is on, and it is not switched on for a table that has them."""
SPACED = ["first name", "a.b", "amount(usd)", "größe", "a`b", "x=y", "p,q"]

MODES: dict[str, dict[str, str]] = {
    "rewritten": {},
    "upsert": {"rewrite.rows.max": "0"},
    "merge": {"rewrite.rows.max": "0"},
    "soft": {"table.t.match": ".*", "table.t.soft.delete": "is_deleted", "rewrite.rows.max": "0"},
    "history": {"table.t.match": ".*", "table.t.mode": "history"},
    "append": {"table.t.match": ".*", "table.t.mode": "append"},
}


def in_json(op: str, row: Mapping[str, Any], key: Sequence[str], *, at: int) -> Record:
    """A change as Connect's JsonConverter writes it: Avro has no such names."""

    def struct(name: str, fields: Sequence[str]) -> dict[str, Any]:
        kinds = [{"type": "int64" if one == "id" else "string", "optional": one != "id", "field": one} for one in fields]
        return {"type": "struct", "fields": kinds, "optional": True, "name": f"p.shop.t.{name}"}

    source = [{"type": kind, "optional": False, "field": name} for name, kind in (("file", "string"), ("pos", "int64"), ("ts_ms", "int64"))]
    fields = [
        *(struct("Value", list(row)) | {"field": field} for field in ("before", "after")),
        {"type": "struct", "fields": source, "optional": False, "name": "io.debezium.connector.mysql.Source", "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
    ]
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    envelope = {"type": "struct", "fields": fields, "optional": False, "name": "p.shop.t.Envelope"}
    payload = {**images, "source": {"file": "b.000001", "pos": at, "ts_ms": 1_700_000_000_000}, "op": op}
    parts = [(struct("Key", key), {name: row[name] for name in key}), (envelope, payload)]
    texts = [json.dumps({"schema": schema, "payload": value}, separators=(",", ":")).encode() for schema, value in parts]
    return Record(topic="p.shop.t", key=texts[0], value=texts[1])


def written(
    sink: Sink, registry: RegistryServer, mode: str, names: list[str], *, key: Sequence[str] = ("id",), json_: bool = False
) -> None:
    """The rows after an insert of three, then an update and a delete in one batch, then a late delete."""
    sink.settings |= MODES[mode]
    sink.merge_only = mode == "merge"
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), *((name, "string") for name in names)], key=key, registry=registry)

    def made(op: str, row: Mapping[str, Any], at: int) -> Record:
        return in_json(op, row, key, at=at) if json_ else change(t, op, row, at=at)

    def row(n: int, value: str) -> dict[str, Any]:
        return {"id": n} | {name: f"{n}" if name in key else f"{value} {name}" for name in names}

    sink.batch(*(made("c", row(n, "old"), n) for n in (1, 2, 3)))
    sink.batch(made("u", row(1, "new"), 11), made("d", row(2, "old"), 12), made("c", row(4, "new"), 13))
    sink.batch(made("u", row(2, "late"), 5), made("u", row(4, "newer"), 20))
    assert sink.book.parked() == {}
    if mode == "append":
        assert sink.read(t).count() == 7  # the late one is taken for one that the source sends again
        return
    frame = sink.read(t)
    current = frame.where("_dblog_current") if mode == "history" else frame.where("NOT is_deleted") if mode == "soft" else frame
    found = [one.asDict() for one in sorted(current.collect(), key=lambda one: one["id"])]
    expected = [row(1, "new"), row(3, "old"), row(4, "newer")]
    assert [{name: one[name] for name in ("id", *names)} for one in found] == expected


@pytest.mark.parametrize("mode", [mode if mode == "upsert" else pytest.param(mode, marks=pytest.mark.long) for mode in MODES])
def test_columns_may_have_the_names_that_the_sink_and_delta_use(sink: Sink, registry: RegistryServer, mode: str) -> None:
    written(sink, registry, mode, [*OURS, *FEEDS])


@pytest.mark.parametrize("mode", [mode if mode == "merge" else pytest.param(mode, marks=pytest.mark.long) for mode in MODES])
def test_columns_may_have_names_that_files_cannot_have(sink: Sink, registry: RegistryServer, mode: str) -> None:
    written(sink, registry, mode, SPACED, key=("id", "first name"), json_=True)


def test_a_column_that_comes_later_may_have_such_a_name(sink: Sink) -> None:
    sink.batch(in_json("c", {"id": 1, "v": "a"}, ["id"], at=1))

    sink.batch(in_json("c", {"id": 2, "v": "b", "first name": "c"}, ["id"], at=2))

    rows = sorted(sink.spark.read.format("delta").load(f"{sink.base}/shop/t").collect(), key=lambda row: row["id"])
    assert [(row["id"], row["v"], row["first name"]) for row in rows] == [(1, "a", None), (2, "b", "c")]

    # A column that changes its place alone is looked up in the schema-change topic once.
    asked = Asked()
    sink.history = asked
    for n in (3, 4):
        sink.batch(in_json("c", {"id": n, "first name": "c", "v": "b"}, ["id"], at=n))
    assert asked.times == 1


class Asked(dict[str, Sequence[Record]]):
    """Topics of which Kafka has nothing, and how often that was asked."""

    times = 0

    def __contains__(self, topic: object) -> bool:
        self.times += 1
        return False


@pytest.mark.parametrize("name", sorted({*TAKEN_BY_DELTA, "_METADATA"}))
def test_a_column_with_a_name_that_delta_takes_is_refused_with_the_way_out(registry: RegistryServer, name: str) -> None:
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), (name, "string")], registry=registry)
    renamed = Reading(column=lambda column: {name: "fine"}.get(column, column))

    with pytest.raises(
        DefiniteError, match=f"column {name}: Delta takes this name for itself while it writes; rename it with columns.rename"
    ):
        value_schema(1, json.dumps(t.value_schema))
    assert [field.name for field in value_schema(1, json.dumps(t.value_schema), renamed).fields] == ["id", "fine"]


@pytest.mark.long
def test_a_column_that_is_renamed_so_is_changed_as_others_are(sink: Sink, registry: RegistryServer) -> None:
    t = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("_metadata", "string")], registry=registry)
    sink.settings |= {"table.t.match": ".*", "table.t.columns.rename": "_metadata:metadata", "rewrite.rows.max": "0"}
    sink.batch(change(t, "c", {"id": 1, "_metadata": "m"}, at=1))
    sink.batch(change(t, "u", {"id": 1, "_metadata": "n"}, at=2))

    assert sink.rows(t) == [{"id": 1, "metadata": "n"}]
