"""SQL of a column's default comes back from a property of its table, where others may have put other SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dblog_sink.schema import types
from dblog_sink.schema.literal_sql import is_literal
from dblog_sink.schema.types import Conversion, TypeChoices, conversion, sql_literal

TEXT = "it's a \\ and a $ and\n'a'"
DEFAULTS: dict[str, Any] = {"int": -5, "long": -5, "string": TEXT}
DECIMALS = [
    {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, "connect.parameters": parameters}
    for precision, scale in ((5, 2), (38, 0), (65, 10), (65, 0), (64, 40))
    for parameters in ({}, {"connect.decimal.precision": str(precision)})
]
CHOICES = (TypeChoices(), TypeChoices("variant", "quarantine"))


def defaults() -> Iterator[tuple[Any, Any]]:
    """A schema of each type with a literal, and a default of it."""
    yield from (({"type": made.avro, "connect.name": name}, DEFAULTS[made.avro]) for name, made in types._BY_NAME.items())
    yield from (({"type": kind, "logicalType": logical}, -5) for kind, logical in types._BY_LOGICAL_TYPE)
    yield from (({"type": "int", "connect.type": name}, -5) for name in types._SMALL_INTS)
    yield from ((schema, "\xff\x85") for schema in DECIMALS)
    yield from [("boolean", True), ("int", -5), ("long", -5), ("float", 1.5e-30), ("double", float("nan")), ("double", float("-inf"))]
    yield from [("string", TEXT), ("bytes", "\x00\xff"), ({"type": "string", "connect.name": "io.debezium.data.Json"}, '{"a": 1}')]


def written(schema: Any, default: Any) -> Iterator[str]:
    for choices in CHOICES:
        made = conversion(schema, {}, where="c", choices=choices)
        for one in (made, made.bounded):
            if isinstance(one, Conversion):
                sql = sql_literal(default, schema, one)
                assert sql is not None
                yield sql


def test_every_default_that_the_sink_writes_is_taken_back() -> None:
    assert [sql for schema, default in defaults() for sql in written(schema, default) if not is_literal(sql)] == []


@pytest.mark.parametrize(
    "sql",
    [
        "java_method('java.lang.System', 'load', '/lake/x.so')",
        "(SELECT max(value) FROM text.`/etc/dblog/own/kafka/password`)",
        "concat('a', (SELECT 1))",
        "1 WHERE true; DROP TABLE t",
        "input_file_name()",
        "current_user()",
        "`c`",
        '"c"',
        "c",
        "'a\\'",
        "r'\\', java_method('a', 'b'), '",
        "1 -- c",
        "1 /* c */",
        "${env:HOME}",
        "X'00' AS y",
    ],
)
def test_no_other_sql_is_taken_back(sql: str) -> None:  # number 43 of the sink's safety
    assert not is_literal(sql)
