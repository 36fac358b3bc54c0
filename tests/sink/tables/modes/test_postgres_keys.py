"""Rows of PostgreSQL are found again by keys of every type that can be one, and deleted where the record shows nothing but the key."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dblog.dialects.postgres.values.modes import TypeModes
from sink.harness import Record, Sink
from sink.postgres import PostgresTopic, column
from support.registry_server import RegistryServer

KEYS: list[tuple[str, list[str], dict[str, Any]]] = [
    ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], {}),
    ("numeric", ["1.50", "-123456789012345678901234567890123456789012345678901234567890.5"], {}),
    ("numeric", ["1.50", "99999999.99"], {"length": 10, "scale": 2}),
    ("timestamptz", ["infinity", "2016-11-04 11:51:30.123456+00"], {}),
    ("timestamp", ["0044-03-15 00:00:00 BC", "infinity"], {}),
    ("date", ["infinity", "0044-03-15 BC"], {}),
    ("date", ["2016-11-04", "2016-11-05"], {}),
    ("time", ["24:00:00", "00:00:00"], {}),
    ("timetz", ["13:51:30+02", "13:51:30+01"], {}),
    ("bytea", [r"\x00ff", r"\x"], {}),
    ("bool", ["t", "f"], {}),
    ("float8", ["NaN", "0.1"], {}),
    ("text", ["", "a\tb"], {}),
    ("bpchar", ["a    ", "A    "], {"length": 5}),
    ("citext", ["a", "B"], {}),
    ("enum", ["x", "y"], {"members": ("x", "y")}),
    ("inet", ["::1", "10.0.0.1"], {}),
    ("jsonb", ['{"a": 1}', "[]"], {}),
    ("interval", ["1 day", "24:00:01"], {}),
    ("bit", ["100000000001", "000000000001"], {"length": 12}),
    ("_int4", ["{1,2,NULL}", "{}"], {}),
    ("_text", ["{a,b}", "{NULL}"], {}),
    ("_numeric", ["{1.10}", "{2}"], {}),
    ("int4range", ["[1,6)", "empty"], {}),
    ("money", ["$1.00", "$2.00"], {}),
    ("geometry", ["0101000000000000000000F03F0000000000000040", "010700000000000000"], {}),
    ("hstore", ['"a"=>"1"', ""], {}),
    ("oid", ["4294967295", "0"], {}),
]


MERGED = {"rewrite.rows.max": "0"}
FEW = [key for key in KEYS if key[0] in ("timetz", "bytea", "float8", "_text", "hstore") or key == KEYS[1]]
"""One of each way that keys are compared in."""


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        pytest.param(FEW, MERGED, id="few"),
        pytest.param(KEYS, {}, id="rewritten", marks=pytest.mark.long),
        pytest.param(KEYS, MERGED, id="merged", marks=pytest.mark.long),
    ],
)
def test_rows_are_updated_and_deleted_by_keys_of_every_type(
    sink: Sink, registry: RegistryServer, keys: list[tuple[str, list[str], dict[str, Any]]], settings: dict[str, str]
) -> None:
    sink.settings |= settings
    tables = []
    for number, (kind, _, more) in enumerate(keys):
        columns = [column("k", kind, nullable=False, **more), column("v", "text", nullable=False), column("n", "int4", nullable=False)]
        tables.append(PostgresTopic(registry, columns, key=("k",), name=f"t{number}"))

    def each(make: Any) -> list[Record]:
        records = []
        for table, (_, values, _) in zip(tables, keys, strict=True):
            made = make(table, values)
            records += made if isinstance(made, list) else [made]
        return records

    # The first row is dumped, changed and deleted; the second one inserted, and changed.
    sink.batch(*each(lambda table, k: table.dumped({"k": k[0], "v": "dumped", "n": 0}, low=0x100)))
    sink.batch(*each(lambda table, k: [table.inserted({"k": k[1], "v": "new", "n": 0}, commit=0x110), *table.updated({"k": k[0], "v": "u", "n": 1}, commit=0x118)]))  # fmt: skip
    sink.batch(
        *each(lambda table, k: [table.deleted({"k": k[0]}, commit=0x120), *table.updated({"k": k[1], "v": "u", "n": 2}, commit=0x128)])
    )

    assert sink.quarantined() == []
    wrong = {}
    for table, (kind, values, _) in zip(tables, keys, strict=True):
        found = sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}").select("v", "n").collect()
        if [tuple(row) for row in found] != [("u", 2)]:
            wrong[kind, values[0]] = found
    assert wrong == {}


def test_a_key_of_hstore_as_a_map_parks_its_table_with_the_reason(sink: Sink, registry: RegistryServer) -> None:
    columns = [column("k", "hstore", nullable=False), column("v", "text")]
    table = PostgresTopic(registry, columns, key=("k",), modes=TypeModes(hstore_handling_mode="map"))

    sink.batch(table.inserted({"k": '"a"=>"1"', "v": "x"}, commit=0x100))

    (reason,) = sink.book.parked().values()
    assert re.search(
        r"keys .*cannot be read: .*column k is a key column of type map<string,string>.*set hstore\.handling\.mode=json.*table\.<rule>\.keys",
        reason,
    )
    sink.restarted().settings |= {"table.t.match": ".*", "table.t.mode": "append"}
    sink.book.unpark(table.topic)
    sink.drain()
    assert [row["v"] for row in sink.spark.read.format("delta").load(f"{sink.base}/{'/'.join(table.topic.split('.')[1:])}").collect()] == [
        "x"
    ]
