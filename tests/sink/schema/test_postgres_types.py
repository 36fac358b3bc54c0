"""Every type of PostgreSQL has a column in Delta, whatever the connector's handling modes, and gives back the bytes that its record had."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dblog.codecs import avro
from dblog.codecs.fingerprint import verified_schemas
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.modes import TypeModes
from dblog_sink.schema.avro_bytes import NoWayBackError, field_bytes
from dblog_sink.schema.types import quote
from dblog_sink.schema.writer_schemas import members
from pyspark.sql import DataFrame
from sink.harness import Sink
from sink.postgres import ID, PostgresTopic, column
from support.postgres_type_cases import CASES
from support.registry_server import RegistryServer

TEXTS = json.loads((Path(__file__).parents[2] / "support" / "debezium" / "postgres_types.json").read_text())["texts"]
COLUMNS = [
    (replace(case.column, name=f"c{number}", nullable=True), TEXTS[case.ddl]) for number, case in enumerate(CASES) if TEXTS[case.ddl]
]
MODES = [
    pytest.param({}, id="defaults"),
    pytest.param(
        {
            "decimal.handling.mode": "double",
            "time.precision.mode": "connect",
            "binary.handling.mode": "base64",
            "hstore.handling.mode": "map",
        },
        id="double, connect",
        marks=pytest.mark.long,
    ),
    pytest.param(
        {"decimal.handling.mode": "string", "time.precision.mode": "isostring", "interval.handling.mode": "string"},
        id="string, isostring",
        marks=pytest.mark.long,
    ),
    pytest.param({"time.precision.mode": "nanoseconds", "include.unknown.datatypes": "true"}, id="nanoseconds", marks=pytest.mark.long),
]


@pytest.mark.some_cases
@pytest.mark.parametrize("properties", MODES)
def test_every_value_lands_and_has_its_bytes_again(sink: Sink, registry: RegistryServer, properties: dict[str, str]) -> None:
    modes = TypeModes.from_settings(properties)
    table = PostgresTopic(registry, [ID, *(column for column, _ in COLUMNS)], modes=modes)
    count = max(len(texts) for _, texts in COLUMNS)
    rows = [{"id": n, **{column.name: texts[n % len(texts)] for column, texts in COLUMNS}} for n in range(count)]
    sink.batch(*(table.inserted(row, commit=0x1000 + 8 * row["id"]) for row in rows[1:]), table.dumped(rows[0], low=0x2000))

    assert sink.quarantined() == []
    found = sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}")
    by_name = {column.name: column for column, _ in COLUMNS}
    plans = {plan.name: plan for plan in table.plan.columns if plan.schema is not None}
    fields, definitions = members(verified_schemas(table.plan)[1])
    each, without = {}, {}
    for name, kind in fields:
        try:
            each[name] = field_bytes(kind, definitions, held=found.schema[name].dataType, path=quote(name), where=name)
        except NoWayBackError as e:
            without[name] = str(e)
    wrong = {}
    for row in selected(found, each):
        for name in each:
            given = None if name == "id" else rows[row["id"]][name]
            plan = plans[name]
            out = bytearray()
            avro.writer(plan.schema)(out, row["id"] if given is None else reader(plan, modes)(given.encode()))
            if bytes(row[f"b_{name}"] or b"-") != bytes(out):
                wrong[plan.declared.type_text if name != "id" else name, given] = row[f"b_{name}"], bytes(out)
    assert wrong == {}
    assert {by_name[name].type_text: why for name, why in without.items()} == no_way_back(properties)


def no_way_back(properties: dict[str, str]) -> dict[str, str]:
    digits = "how many digits of a second its TIMESTAMP has is not known (the marker's schema has no io.dblog.fraction)"
    found = {"timestamp with time zone[]": digits}
    if properties.get("hstore.handling.mode") == "map":
        found |= {"hstore": "its type is map", "hstore[]": "its type is map"}
    return found


def selected(found: DataFrame, each: dict[str, str]) -> list[Any]:
    return found.selectExpr("id", *(f"{sql} AS {quote(f'b_{name}')}" for name, sql in each.items())).collect()


def test_types_that_only_postgresql_has_are_what_a_reader_expects(sink: Sink, registry: RegistryServer) -> None:
    columns = [
        ID,
        column("n", "numeric"),
        column("wide", "numeric", length=60, scale=2),
        column("money", "money"),
        column("day", "date"),
        column("at", "timestamp"),
        column("instant", "timestamptz"),
        column("clock", "timetz"),
        column("span", "interval"),
        column("flags", "bit", length=12),
        column("ns", "_numeric"),
        column("days", "_date"),
        column("h", "hstore"),
        column("place", "geometry"),
        column("net", "inet"),
        column("u", "uuid"),
        column("doc", "jsonb"),
        column("v", "vector", length=2),
    ]
    table = PostgresTopic(registry, columns)
    huge = f"-{'7' * 500}.{'1' * 60}"
    row = {
        "n": "-0.0500",
        "wide": "-1234567890123456789012345678901234567890123456789012345678.90",
        "money": "$1,234.50",
        "day": "2016-11-04",
        "at": "0044-03-15 00:00:00 BC",
        "instant": "2016-11-04 11:51:30.123456+00",
        "clock": "13:51:30.123789+02",
        "span": "1 day 00:00:01",
        "flags": "100000000001",
        "ns": "{1.10,NULL,100}",
        "days": "{2016-11-04,infinity}",
        "h": '"a"=>"1", "b"=>NULL',
        "place": "0101000020E6100000000000000000F03F0000000000000040",
        "net": "192.168.0.1/24",
        "u": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11".lower(),
        "doc": '{"a": [1, 2.50]}',
        "v": "[1,2.5]",
    }
    sink.batch(
        table.inserted({"id": 1, **row}, commit=0x100),
        table.inserted({"id": 2, "n": huge, "day": "infinity", "at": "infinity", "instant": "infinity"}, commit=0x108),
        table.inserted(
            {"id": 3, "n": "100000000000000000000", "day": "-infinity", "at": "-infinity", "instant": "-infinity"}, commit=0x110
        ),
    )

    found = sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}")
    assert {name: kind for name, kind in found.dtypes if not name.startswith("_dblog")} == {
        "id": "bigint",
        "n": "string",
        "wide": "string",
        "money": "decimal(38,2)",
        "day": "date",
        "at": "timestamp_ntz",
        "instant": "timestamp",
        "clock": "string",
        "span": "bigint",
        "flags": "binary",
        "ns": "array<string>",
        "days": "array<date>",
        "h": "string",
        "place": "struct<wkb:binary,srid:int>",
        "net": "string",
        "u": "string",
        "doc": "string",
        "v": "array<double>",
    }
    as_text = {name: f"CAST({quote(name)} AS STRING) AS {quote(name)}" for name in row if name not in ("flags", "place")}
    shown = (
        found.orderBy("id").selectExpr(*as_text.values(), "hex(flags) AS flags", "place.srid AS srid", "hex(place.wkb) AS wkb").collect()
    )
    assert shown[0].asDict() == {name: value for name, value in row.items() if name != "place"} | {
        "n": "-0.05",
        "money": "1234.50",
        "at": "-0043-03-15 00:00:00",
        "instant": "2016-11-04 11:51:30.123456",
        "clock": "11:51:30.123789Z",
        "span": "86401000000",
        "flags": "0108",
        "ns": "[1.1, null, 100]",
        "days": "[2016-11-04, +5881580-07-11]",
        "h": '{"a":"1","b":null}',
        "srid": 4326,
        "wkb": row["place"],
        "v": "[1.0, 2.5]",
    }
    assert shown[1]["n"] == huge
    infinite = (
        found.where("id > 1")
        .orderBy("id")
        .selectExpr(
            "day > DATE'5874897-12-31' AS after",
            "at > TIMESTAMP_NTZ'294246-12-31 00:00:00' AS at",
            "instant = CAST(at AS TIMESTAMP) AS same",
            "at < TIMESTAMP_NTZ'-4713-01-01 00:00:00' AS long_ago",
            "day < DATE'-4713-01-01' AS before",
        )
    )
    assert [tuple(row) for row in infinite.collect()] == [(True, True, True, False, False), (False, False, True, True, True)]
    # Files are skipped by statistics, which have to hold such values too.
    assert [row["id"] for row in found.where("instant > TIMESTAMP'9999-01-01 00:00:00'").select("id").collect()] == [2]
    assert [row["id"] for row in found.where("day < DATE'0001-01-01'").select("id").collect()] == [3]


# number 37 of the sink's safety
def test_numbers_are_texts_as_far_as_a_number_is_declared_and_longer_ones_hold_up_nobody(sink: Sink, registry: RegistryServer) -> None:
    table = PostgresTopic(registry, [ID, column("n", "numeric"), column("ns", "_numeric"), column("wide", "numeric", length=1000, scale=2)])
    widest, longest = f"-{'7' * 998}.12", f"{'9' * 131072}.{'1' * 16383}"

    sink.batch(
        table.inserted({"id": 1, "n": widest, "ns": f"{{{widest},1.5}}", "wide": widest}, commit=0x100),
        table.inserted({"id": 2, "n": longest}, commit=0x108),
        table.inserted({"id": 3, "ns": f"{{1,{longest}}}"}, commit=0x110),
        table.inserted({"id": 4, "n": "1000"}, commit=0x118),
    )

    found = sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}").orderBy("id")
    assert [tuple(row) for row in found.select("id", "n", "ns", "wide").collect()] == [
        (1, widest, [widest, "1.5"], widest),
        (4, "1000", None, None),
    ]
    assert sorted(kept["reason"].partition(":")[0] for kept in sink.quarantined()) == ["column n", "column ns"]
    assert all("more than some 1200 digits" in kept["reason"] for kept in sink.quarantined())
