"""Columns of every common type with their DDL, for type tests and the Debezium recording.

Each case is a ``Column`` as information_schema (or our DDL parser) would describe it. ``ddl``
writes the same column as SHOW CREATE TABLE does. ``debezium_types.json`` holds how Debezium
3.6.3.Final with Confluent's Avro converter converts exactly that text.
"""

from __future__ import annotations

from typing import Any

from dblog.model import Column


def column(type_text: str, *, nullable: bool = True, **more: Any) -> Column:
    name = type_text.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    return Column(
        name="c", type=name, type_text=type_text, nullable=nullable, unsigned="unsigned" in type_text or "zerofill" in type_text, **more
    )


def default(type_text: str, text: str, *, nullable: bool = True, expression: bool = False, **more: Any) -> Column:
    return column(type_text, nullable=nullable, has_default=True, default=text, default_is_expression=expression, **more)


def ddl(c: Column) -> str:
    parts = ["`c`", c.type_text]
    if c.charset and c.type in ("char", "varchar", "text", "enum"):
        parts.append(f"CHARACTER SET {c.charset}")
    if not c.nullable:
        parts.append("NOT NULL")
    if c.has_default:
        bare = c.default_is_expression or c.default is None or c.type == "bit"
        parts.append(f"DEFAULT {c.default or 'NULL'}" if bare else f"DEFAULT '{c.default}'")
    if c.comment:
        parts.append("COMMENT '" + c.comment.replace("'", "''") + "'")
    return " ".join(parts)


def _both(type_text: str, **more: Any) -> list[Column]:
    return [column(type_text, **more), column(type_text, nullable=False, **more)]


_NOW = "CURRENT_TIMESTAMP"

CASES: list[Column] = [
    *_both("tinyint(1)", length=1),
    default("tinyint(1)", "1", nullable=False, length=1),
    *_both("tinyint"),
    *_both("tinyint unsigned"),
    default("tinyint unsigned", "200"),
    *_both("smallint"),
    *_both("smallint unsigned"),
    default("smallint", "-5", nullable=False),
    *_both("mediumint"),
    *_both("mediumint unsigned"),
    *_both("int"),
    column("int(11)", length=11),
    *_both("int unsigned"),
    column("int(10) unsigned zerofill", length=10),
    default("int", "7"),
    default("int unsigned", "4294967295", nullable=False),
    default("int", "0", nullable=False),
    *_both("bigint"),
    default("bigint", "-9223372036854775808"),
    *_both("bigint unsigned"),
    default("bigint unsigned", "18446744073709551615", nullable=False),
    default("bigint unsigned", "12"),
    *_both("float"),
    default("float", "0.1"),
    default("float", "1.5", nullable=False),
    column("float(7,3)", length=7, scale=3),
    *_both("double"),
    default("double", "2.5e10"),
    default("double", "0.001", nullable=False),
    column("double(10,4)", length=10, scale=4),
    *_both("decimal(10,2)", length=10, scale=2),
    column("decimal(10,0)", length=10, scale=0),
    column("decimal(65,30)", length=65, scale=30),
    column("decimal(10,2) unsigned", length=10, scale=2),
    default("decimal(10,2)", "1.50", length=10, scale=2),
    default("decimal(10,2)", "-0.01", nullable=False, length=10, scale=2),
    default("decimal(10,0)", "0", nullable=False, length=10, scale=0),
    default("decimal(10,4)", "1.5", nullable=False, length=10, scale=4),
    *_both("bit(1)", length=1),
    *_both("bit(9)", length=9),
    *_both("bit(64)", length=64),
    default("bit(1)", "b'1'", nullable=False, length=1),
    default("bit(9)", "b'100000001'", length=9),
    *_both("char(3)", length=3, charset="utf8mb4"),
    *_both("varchar(20)", length=20, charset="utf8mb4"),
    default("varchar(20)", "", nullable=False, length=20, charset="utf8mb4"),
    default("varchar(20)", "a b", length=20, charset="latin1"),
    *_both("text", charset="utf8mb4"),
    *_both("binary(4)", length=4),
    *_both("varbinary(8)", length=8),
    default("varbinary(8)", "ab", length=8),
    default("binary(4)", "ab", nullable=False, length=4),
    *_both("blob"),
    column("longblob"),
    *_both("json"),
    *_both("enum('a','b')", members=("a", "b")),
    default("enum('a','b')", "b", nullable=False, members=("a", "b")),
    column("enum('x,y','z')", members=("x,y", "z")),
    *_both("set('a','b')", members=("a", "b")),
    default("set('a','b')", "a,b", members=("a", "b")),
    *_both("year"),
    default("year", "1999", nullable=False),
    *_both("date"),
    default("date", "2020-02-29"),
    default("date", "1969-12-31", nullable=False),
    default("date", "0000-00-00"),
    default("date", "0000-00-00", nullable=False),
    *_both("time"),
    *_both("time(3)", length=3),
    *_both("time(6)", length=6),
    default("time", "12:34:56"),
    default("time(6)", "01:02:03.456789", nullable=False, length=6),
    *_both("datetime"),
    *_both("datetime(3)", length=3),
    *_both("datetime(6)", length=6),
    default("datetime", "2018-06-20 13:37:03"),
    default("datetime(3)", "2018-06-20 13:37:03.123", nullable=False, length=3),
    default("datetime(6)", "2018-06-20 13:37:03.123456", length=6),
    default("datetime", _NOW, nullable=False, expression=True),
    default("datetime", _NOW, expression=True),
    default("datetime(6)", f"{_NOW}(6)", nullable=False, expression=True, length=6),
    default("datetime", "0000-00-00 00:00:00"),
    default("datetime", "0000-00-00 00:00:00", nullable=False),
    *_both("timestamp"),
    *_both("timestamp(6)", length=6),
    default("timestamp", _NOW, nullable=False, expression=True),
    default("timestamp", _NOW, expression=True),
    default("timestamp(3)", f"{_NOW}(3)", nullable=False, expression=True, length=3),
    default("timestamp", "2018-06-20 13:37:03", nullable=False),
    default("timestamp(3)", "2018-06-20 13:37:03.120", nullable=False, length=3),
    default("timestamp", "0000-00-00 00:00:00"),
    default("timestamp", "0000-00-00 00:00:00", nullable=False),
    *_both("point"),
    *_both("geometry"),
    *_both("polygon"),
    *_both("linestring"),
    *_both("multipoint"),
    *_both("geometrycollection"),
    *_both("vector(3)", length=3),
    column("int", comment="how many"),
    default("int", None, nullable=True),  # type: ignore[arg-type] - DEFAULT NULL
    default("datetime", "(now())", nullable=False, expression=True),
    default("datetime", "(now())", expression=True),
    default("date", "(curdate())", nullable=False, expression=True),
    default("int", "(1 + 1)", nullable=False, expression=True),
    default("bigint unsigned", "9223372036854775809"),
    default("time", "-12:34:56"),
    default("time", "100:00:00"),
    default("year", "0"),
    default("year", "70"),
    default("float", "1e10"),
    default("double", "1e-5"),
    default("int", "1.6"),
    default("timestamp(6)", "2018-06-20 13:37:03", nullable=False, length=6),
    default("datetime(6)", "2018-06-20", nullable=False, length=6),
    default("set('a','b')", "", nullable=False, members=("a", "b")),
    default("char(3)", "ä", charset="utf8mb4", length=3),
    default("varchar(10)", 'quo"te\\tab\t', charset="utf8mb4", length=10),
    column("varchar(5)", length=5, charset="utf8mb4", comment="a, b"),
    default("varchar(36)", "(uuid())", expression=True, length=36, charset="utf8mb4"),
]

MODES: list[dict[str, str]] = [
    {},
    {"time.precision.mode": "connect"},
    {"time.precision.mode": "isostring"},
    {"time.precision.mode": "microseconds"},
    {"time.precision.mode": "nanoseconds"},
    {"decimal.handling.mode": "double"},
    {"decimal.handling.mode": "string"},
    {"bigint.unsigned.handling.mode": "precise"},
    {"bigint.unsigned.handling.mode": "precise", "decimal.handling.mode": "string"},
    {"bigint.unsigned.handling.mode": "precise", "decimal.handling.mode": "double"},
    {"binary.handling.mode": "base64"},
    {"binary.handling.mode": "base64-url-safe"},
    {"binary.handling.mode": "hex"},
    {"include.schema.comments": "true"},
    {"column.propagate.source.type": ".*"},
    {"column.propagate.source.type": ".*", "include.schema.comments": "true"},
]

ENVELOPE_DDL = (
    "CREATE TABLE db.t (`region` char(2) NOT NULL, `id` bigint NOT NULL, `price` decimal(10,2) DEFAULT '1.50', "
    "`state` enum('a','b') NOT NULL DEFAULT 'a', `at` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), `place` point, `spot` point NOT NULL, "
    "`small` tinyint, PRIMARY KEY (`id`, `region`))"
)
"""A table for the whole envelope: the key in another order, and a record type used twice."""
