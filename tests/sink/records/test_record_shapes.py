"""Every shape of record that Debezium's connectors, transforms and converters write, in batches of the real job."""

from __future__ import annotations

import base64
import io
import json
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from dblog_sink.errors import DefiniteError
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema, decimal, logical
from support.registry_server import RegistryServer

TOPIC = "p.shop.t"


def base64_decimal(value: Decimal) -> str:
    unscaled = int(value.scaleb(2))
    return base64.b64encode(unscaled.to_bytes(max(1, (unscaled.bit_length() + 8) // 8), "big", signed=True)).decode()


def json_record(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, *, at: int) -> Record:
    """A change as Connect's JsonConverter writes it."""
    columns = [
        {"type": "int64", "optional": False, "field": "id"},
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "price",
        },
        {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1, "field": "day"},
        {"type": "bytes", "optional": True, "field": "raw"},
    ]
    source = [("file", "string"), ("pos", "int64"), ("row", "int32"), ("ts_ms", "int64")]
    schema = {
        "type": "struct",
        "optional": False,
        "name": f"{TOPIC}.Envelope",
        "fields": [
            *(
                {"type": "struct", "fields": columns, "optional": True, "name": f"{TOPIC}.Value", "field": field}
                for field in ("before", "after")
            ),
            {
                "type": "struct",
                "fields": [{"type": kind, "optional": False, "field": name} for name, kind in source],
                "optional": False,
                "name": "io.debezium.connector.mysql.Source",
                "field": "source",
            },
            {"type": "string", "optional": False, "field": "op"},
        ],
    }
    payload = {"before": before, "after": after, "source": {"file": "b.000001", "pos": at, "row": 0, "ts_ms": 1_700_000_000_000}, "op": op}
    key_schema = {"type": "struct", "fields": columns[:1], "optional": False, "name": f"{TOPIC}.Key"}
    row = after or before
    assert row is not None
    return Record(
        topic=TOPIC,
        key=json.dumps({"schema": key_schema, "payload": {"id": row["id"]}}, separators=(",", ":")).encode(),
        value=json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode(),
    )


def test_json_with_schema_and_avro_meet_in_one_table(sink: Sink, registry: RegistryServer) -> None:
    day = logical("int", "io.debezium.time.Date")
    columns = [("id", "long"), ("price", ["null", decimal(10, 2)]), ("day", ["null", day]), ("raw", ["null", "bytes"])]
    avro = TableSchema(topic=TOPIC, columns=columns, registry=registry)
    one = {"id": 1, "price": base64_decimal(Decimal("12.50")), "day": 19723, "raw": base64.b64encode(b"\x00\xff").decode()}
    two = {"id": 2, "price": base64_decimal(Decimal("-0.01")), "day": None, "raw": None}

    bad = json_record("c", None, one | {"id": 9}, at=9)
    torn = Record(topic=TOPIC, key=bad.key, value=bad.value.replace(b'"after":{"id":9', b'"after":{"id":') if bad.value else None)
    schemaless = Record(topic=TOPIC, key=bad.key, value=b'{"op":"c","after":{"id":9}}')

    sink.batch(
        json_record("c", None, one, at=1),
        json_record("c", None, two, at=2),
        json_record("c", None, two | {"id": 3}, at=3),
        torn,
        schemaless,
    )
    sink.batch(
        change(avro, "u", {"id": 1, "price": Decimal("99.99"), "day": None, "raw": b"\x01"}, at=10),
        json_record("d", two | {"id": 3}, None, at=11),
    )

    assert sink.rows(avro) == [
        {"id": 1, "price": Decimal("99.99"), "day": None, "raw": b"\x01"},
        {"id": 2, "price": Decimal("-0.01"), "day": None, "raw": None},
    ]
    first = sink.spark.read.format("delta").option("versionAsOf", "1").load(sink.path(avro)).where("id = 1").collect()[0]
    assert (first["price"], first["day"], bytes(first["raw"])) == (Decimal("12.50"), date(2024, 1, 1), b"\x00\xff")
    reasons = {bytes(kept["value"]): kept["reason"] for kept in sink.quarantined()}
    assert set(reasons) == {torn.value, schemaless.value}
    assert "does not decode" in reasons[torn.value]
    assert "JSON without its schema" in reasons[schemaless.value]


class Unwrapped:
    """Rows of ExtractNewRecordState, in Avro."""

    def __init__(self, registry: RegistryServer, *added: tuple[str, Any]) -> None:
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"], "default": None}]
        fields += [{"name": name, "type": ["null", kind], "default": None} for name, kind in added]
        self.schema = {"type": "record", "name": "Value", "namespace": TOPIC, "fields": fields, "connect.name": f"{TOPIC}.Value"}
        self.key_schema = {"type": "record", "name": "Key", "namespace": TOPIC, "fields": fields[:1]}
        self.ids = registry.register(json.dumps(self.schema)), registry.register(json.dumps(self.key_schema))

    def record(self, row: dict[str, Any], *, deleted: bool = False) -> Record:
        return Record(
            topic=TOPIC,
            key=self._bytes(self.ids[1], self.key_schema, {"id": row["id"]}),
            value=None if deleted else self._bytes(self.ids[0], self.schema, row),
        )

    @staticmethod
    def _bytes(schema_id: int, schema: Any, row: dict[str, Any]) -> bytes:
        out = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        return out.getvalue()


def test_unwrapped_rows_follow_the_order_of_the_topic_and_a_null_value_or_a_deleted_field_deletes(
    sink: Sink, registry: RegistryServer
) -> None:
    rows = Unwrapped(registry, ("__op", "string"), ("__source_ts_ms", "long"), ("__deleted", "string"))
    table = TableSchema(topic=TOPIC, columns=[("id", "long")], registry=registry)

    sink.batch(
        *(rows.record({"id": n, "v": "a", "__op": "r"}) for n in range(1, 6)),
        rows.record({"id": 2, "v": "b", "__op": "u", "__source_ts_ms": 1_700_000_000_000}),
        rows.record({"id": 3}, deleted=True),
        rows.record({"id": 4, "v": "a", "__op": "d", "__deleted": "true"}),
    )
    assert sink.rows(table) == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 5, "v": "a"}]

    # A batch of deletes alone names no schema of a value: the table knows what its topic holds.
    sink.restarted().batch(rows.record({"id": 5}, deleted=True))
    sink.batch(rows.record({"id": 3, "v": "again", "__op": "c"}))

    assert sink.rows(table) == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "again"}]
    assert sink.quarantined() == []


@pytest.mark.long
def test_columns_of_the_row_may_be_the_key_and_an_update_of_them_moves_the_row(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {
        "table.t.match": r"shop\.t",
        "table.t.keys": "area,code",
        "table.t.columns.rename": "region:area",
        "table.t.columns.exclude": "secret",
        "table.t.cluster.by": "area",
        "table.t.target.path": "{base}/gold/{table}",
        "table.t.target.catalog": "lake_{db}.{table}",
    }
    table = TableSchema(
        topic=TOPIC, columns=[("region", "int"), ("code", "string"), ("secret", "string"), ("n", "int")], key=(), registry=registry
    )
    old = {"region": 1, "code": "a", "secret": "s", "n": 1}

    sink.batch(change(table, "c", old, at=1), change(table, "c", old | {"code": "b"}, at=2))
    sink.batch(
        change(table, "u", old | {"region": 2, "n": 5}, before=old, at=3),
        change(table, "u", old | {"code": "b", "n": 7}, before=old | {"code": "b"}, at=4),
        change(table, "d", old | {"code": "none"}, at=5),
    )

    frame = sink.spark.read.table("lake_shop.t")
    assert frame.columns == ["area", "code", "n", "_dblog_seq1", "_dblog_seq2"]
    assert [tuple(row)[:3] for row in frame.orderBy("area").collect()] == [(1, "b", 7), (2, "a", 5)]
    assert "area" in str(sink.spark.sql("DESCRIBE DETAIL lake_shop.t").first()["clusteringColumns"])
    sink.spark.sql("DROP TABLE lake_shop.t")


@pytest.mark.parametrize("mode", ["mirror", pytest.param("history", marks=pytest.mark.long)])
def test_rows_that_exchange_columns_of_the_row_that_are_the_key_are_all_there(sink: Sink, registry: RegistryServer, mode: str) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.keys": "k", "table.t.mode": mode, "table.t.evolution": "ignore"}
    columns: list[tuple[str, Any]] = [("k", "int"), ("v", ["null", "string"])]
    table, wide = (TableSchema(topic=TOPIC, columns=[*columns, ("n", n)], key=(), registry=registry) for n in ("int", "long"))

    def row(k: int, v: str) -> dict[str, Any]:
        return {"k": k, "v": v, "n": 0}

    def moved(v: str, old: int, new: int, at: int) -> Record:
        return change(table, "u", row(new, v), before=row(old, v), at=at)

    def rows() -> list[tuple[int, str]]:
        frame = sink.read(table)
        live = frame if mode == "mirror" else frame.where("_dblog_current")
        return sorted((one["k"], one["v"]) for one in live.collect())

    sink.batch(*(change(table, "c", row(k, v), at=k) for k, v in ((1, "a"), (2, "b"), (3, "c"))))
    sink.batch(moved("a", 1, 2, 10), moved("b", 2, 1, 11))
    assert rows() == [(1, "b"), (2, "a"), (3, "c")]

    sink.batch(moved("b", 1, 2, 20), moved("a", 2, 3, 21), moved("c", 3, 4, 22))
    assert rows() == [(2, "b"), (3, "a"), (4, "c")]

    sink.batch(moved("c", 4, 5, 30), moved("c", 5, 6, 31), moved("a", 3, 7, 32), change(table, "d", row(7, "a"), at=33))
    assert rows() == [(2, "b"), (6, "c")]

    # The change of the moved row that is in quarantine does not make its old image another row's.
    unfit = change(wide, "u", row(8, "z") | {"n": 2**40}, before=row(8, "c"), at=41)
    sink.batch(moved("c", 6, 8, 40), unfit, moved("z", 8, 9, 42))
    assert rows() == [(2, "b"), (9, "z")]
    assert len(sink.quarantined()) == 1


@pytest.mark.some_cases
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_row_that_is_deleted_is_gone_whatever_else_its_old_image_shows(sink: Sink, registry: RegistryServer, mode: str) -> None:
    """An image of the replica identity alone has NULL, or a default in a NOT NULL column; a row before it may have no value yet of a younger column."""
    sink.settings |= {"table.t.match": ".*", "table.t.keys": "k", "table.t.mode": mode}
    columns: list[tuple[str, Any]] = [("k", "int"), ("v", "string"), ("w", ["null", "string"])]
    table = TableSchema(topic=TOPIC, columns=columns, key=(), registry=registry)

    def row(k: int, v: str, w: str | None = None) -> dict[str, Any]:
        return {"k": k, "v": v, "w": w}

    sink.batch(
        *(change(table, "c", row(k, "a"), at=k) for k in (1, 2, 3, 4)),
        change(table, "d", row(1, ""), at=10),
        change(table, "d", row(2, "a", "a default"), at=11),
        change(table, "u", row(13, "a"), before=row(3, ""), at=12),
        change(table, "u", row(14, "a", "a default"), before=row(4, "a", "a default"), at=13),
    )

    frame = sink.read(table)
    live = frame if mode == "mirror" else frame.where("_dblog_current")
    assert sorted(one["k"] for one in live.collect()) == [13, 14]


@pytest.mark.long
def test_an_empty_text_in_a_key_column_that_partitions_its_table_is_no_row_that_is_written_again_and_again(
    sink: Sink, registry: RegistryServer
) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.partition.by": "region", "rewrite.rows.max": "0"}
    table = TableSchema(topic=TOPIC, columns=[("region", "string"), ("id", "long"), ("n", "int")], key=("region", "id"), registry=registry)
    row = {"region": "", "id": 1, "n": 1}

    sink.batch(change(table, "c", row, at=1), change(table, "c", row | {"region": "x"}, at=2))
    sink.restarted().batch(change(table, "u", row | {"n": 2}, at=3), change(table, "u", row | {"region": "x", "n": 2}, at=4))

    assert sink.rows(table) == [{"region": "x", "id": 1, "n": 2}]
    assert [kept["reason"].partition(",")[0] for kept in sink.quarantined()] == ["key column region: an empty text"] * 2


@pytest.mark.long
def test_wide_decimals_are_text_and_documents_may_be_variant(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.json.type": "variant"}
    columns = [
        ("id", "long"),
        ("whole", ["null", decimal(65, 0)]),
        ("part", ["null", decimal(65, 30)]),
        ("doc", ["null", logical("string", "io.debezium.data.Json")]),
    ]
    table = TableSchema(topic=TOPIC, columns=columns, registry=registry)
    values = [
        Decimal(10**64),
        Decimal(-(10**64) + 1),
        Decimal(0),
        Decimal(-1),
        Decimal(127),
        Decimal(-128),
        Decimal(10**14),
        Decimal(-(2**64)),
    ]
    rows = [{"id": n, "whole": value, "part": value.scaleb(-30), "doc": json.dumps({"n": n})} for n, value in enumerate(values)]

    with_junk = change(table, "c", {"id": 99, "whole": None, "part": None, "doc": "{"}, at=99)
    sink.batch(*(change(table, "c", row, at=row["id"] + 1) for row in rows), with_junk)

    found = sink.read(table).selectExpr("id", "whole", "part", "variant_get(doc, '$.n', 'int') AS n").orderBy("id").collect()
    assert [(Decimal(row["whole"]), Decimal(row["part"]), row["n"]) for row in found] == [
        (row["whole"], row["part"], row["id"]) for row in rows
    ]
    assert [row["whole"] for row in found][:4] == ["1" + "0" * 64, "-" + "9" * 64, "0", "-1"]
    (kept,) = sink.quarantined()
    assert kept["reason"].startswith(
        "column doc: the value has no variant (it is not JSON, has a key twice, or a number that a variant would change;"
    )


@pytest.mark.long
def test_a_wide_decimal_that_a_table_has_as_a_decimal_stays_one_and_its_column_is_named_where_a_value_does_not_fit(
    sink: Sink, registry: RegistryServer
) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.decimal.overflow": "quarantine"}
    unknown = decimal(64, 0) | {"connect.parameters": {"scale": "0"}}  # Debezium's precise BIGINT UNSIGNED
    columns = [("id", decimal(50, 0)), ("big", ["null", decimal(65, 10)]), ("number", ["null", unknown])]
    table = TableSchema(topic=TOPIC, columns=columns, registry=registry)

    def row(key: int, big: str | None) -> dict[str, Any]:
        return {"id": Decimal(key), "big": None if big is None else Decimal(big), "number": Decimal(2**64 - 1)}

    sink.batch(change(table, "c", row(1, "-1.5000000000"), at=1), change(table, "c", row(2, "9" * 40), at=2))
    sink.restarted().settings["table.t.decimal.overflow"] = "string"
    sink.batch(change(table, "u", row(1, "9" * 28 + ".0000000001"), at=3), change(table, "c", row(3, "-" + "9" * 29), at=4))
    sink.batch(change(table, "d", row(1, None), at=5), change(table, "c", row(4, None), at=6))

    assert sink.rows(table) == [row(4, None)]
    before = sink.spark.read.format("delta").option("versionAsOf", "2").load(sink.path(table)).collect()
    assert [one["big"] for one in before] == [Decimal("9" * 28 + ".0000000001")]
    assert {one["reason"] for one in sink.quarantined()} == {"column big: the value has no decimal(38,10)"}
    assert len(sink.quarantined()) == 2


def test_modes_and_keys_that_a_table_cannot_have_are_refused_with_a_sentence(sink: Sink, registry: RegistryServer) -> None:
    keyless = TableSchema(topic=TOPIC, columns=[("a", "int")], key=(), registry=registry)
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "mirror"}

    with pytest.raises(DefiniteError, match=r"shop\.t has no key, and mode mirror must know.*table\.<rule>\.keys"):
        sink.batch(change(keyless, "c", {"a": 1}, at=1))

    sink.restarted().settings |= {"table.t.keys": "nobody"}
    with pytest.raises(DefiniteError, match=r"table\.<rule>\.keys names nobody"):
        sink.batch(change(keyless, "c", {"a": 1}, at=1))


@pytest.mark.long
def test_a_soft_delete_keeps_the_row_and_marks_it(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.soft.delete": "gone"}
    table = TableSchema(topic=TOPIC, columns=[("id", "long"), ("v", "string")], registry=registry)
    for limit in ("50000", "0"):  # by rewriting the table, and by merging
        sink.restarted().settings |= {"rewrite.rows.max": limit}
        at = 10 if limit == "0" else 0
        sink.batch(*(change(table, "c", {"id": at + n, "v": "a"}, at=at + n) for n in (1, 2, 3)))
        sink.batch(
            change(table, "d", {"id": at + 1, "v": "a"}, at=at + 5),
            change(table, "u", {"id": at + 2, "v": "b"}, at=at + 6),
            change(table, "d", {"id": at + 9, "v": "never seen"}, at=at + 7),
            change(table, "d", {"id": at + 3, "v": "a"}, at=at + 1),
        )
        sink.batch(change(table, "c", {"id": at + 1, "v": "again"}, at=at + 8), change(table, "d", {"id": at + 2, "v": "b"}, at=at + 9))

    assert [tuple(row.values()) for row in sink.rows(table)] == [
        (1, "again", False),
        (2, "b", True),
        (3, "a", False),
        (11, "again", False),
        (12, "b", True),
        (13, "a", False),
    ]
