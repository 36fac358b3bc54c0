"""Values of PostgreSQL's columns with the server as oracle: it prints them, and computes by itself what a record has to hold."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.model import Column, TableId
from stack import Postgres
from support.copied_rows import copied
from support.postgres import connected
from support.postgres_type_cases import CASES, PREPARATION, SETTINGS

TABLE = TableId("public", "t")
ROWS = 400
RECORDED = json.loads((Path(__file__).parents[1] / "support" / "debezium" / "postgres_types.json").read_text())["texts"]


def read_rows(server: Postgres, database: str, query: str) -> list[list[bytes | None]]:
    """Rows under the settings of every session that reads; random() gives the same numbers in every run."""
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for name, value in SETTINGS.items():
            cursor.execute(f"SET {name} = '{value}'")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS hstore")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS postgis")
        cursor.execute("SELECT setseed(0.5)")
        return copied(cursor, query)


def integer(raw: bytes) -> int:
    return int(raw)


def twos_complement(value: bytes) -> int:
    return int.from_bytes(value, "big", signed=True)


def same(value: Any) -> Any:
    return value


RANDOM_TEXT = (
    "(SELECT string_agg(substr(E'aZ \\t\\n\\r\"\\\\{},;:=>''NUL\u017e\U0001f600', 1 + (random() * 20)::int, 1), '')"
    " FROM generate_series(1, (random() * 6)::int + n - n))"
)
RANDOM_MICROS = "((random() - 0.5) * 4e17)::bigint"
MOMENT = f"timestamp '2000-01-01' + {RANDOM_MICROS} * interval '1 microsecond'"

Oracle = tuple[str, str, str, dict[str, Any], Callable[[Any], Any], Callable[[bytes], Any]]

ORACLES: dict[str, Oracle] = {
    # name of the case: type, SQL of a value, SQL of what the record has to hold, modes; both sides as something that compares
    "int8": ("bigint", "((random() - 0.5) * 1.8e19)::bigint", "c", {}, same, integer),
    "numeric": (
        "numeric(30,6)", "(random() - 0.5)::numeric * 10::numeric ^ (random() * 22)::int", "(c * 1000000)::numeric(40,0)", {}, twos_complement, integer,
    ),
    "numeric without scale": (
        "numeric",
        "round((random() - 0.5)::numeric * 10::numeric ^ (random() * 40 - 5)::int, (random() * 30)::int)",
        "min_scale(c) || ' ' || (c * 10::numeric ^ min_scale(c))::numeric(120,0)",
        {},
        lambda value: f"{value['scale']} {twos_complement(value['value'])}",
        bytes.decode,
    ),
    "numeric as double": (
        "numeric(40,20)", "(random() - 0.5)::numeric * 10::numeric ^ (random() * 18)::int", "encode(float8send(c::float8), 'hex')",
        {"decimal_handling_mode": "double"}, lambda value: struct.pack(">d", value).hex(), bytes.decode,
    ),
    "money": ("money", "((random() - 0.5) * 1e15)::numeric(20,2)::money", "(c::numeric * 100)::bigint", {}, twos_complement, integer),
    "real": (
        "real", "((random() - 0.5) * 10 ^ ((random() - 0.5) * 70))::real", "encode(float4send(c), 'hex')",
        {}, lambda value: struct.pack(">f", value).hex(), bytes.decode,
    ),
    "double": (
        "double precision", "(random() - 0.5) * 10 ^ ((random() - 0.5) * 600)", "encode(float8send(c), 'hex')",
        {}, lambda value: struct.pack(">d", value).hex(), bytes.decode,
    ),
    "date": ("date", "date '2000-01-01' + ((random() - 0.3) * 5e6)::int", "c - date '1970-01-01'", {}, same, integer),
    "time": ("time", "time '00:00' + (random() * 86399999999)::bigint * interval '1 microsecond'", "(extract(epoch FROM c) * 1000000)::bigint", {}, same, integer),
    "timetz": (
        "timetz", "(time '00:00' + (random() * 86399)::int * interval '1 second') AT TIME ZONE make_interval(secs => ((random() - 0.5) * 100000)::int)",
        "((c AT TIME ZONE interval '0')::time)::text || 'Z'", {}, same, bytes.decode,
    ),
    "timestamp": ("timestamp", MOMENT, "(extract(epoch FROM c) * 1000000)::bigint", {}, same, integer),
    "timestamp in milliseconds": ("timestamp", MOMENT, "floor(extract(epoch FROM c) * 1000)::bigint", {"time_precision_mode": "connect"}, same, integer),
    "timestamptz": (
        "timestamptz", f"({MOMENT}) AT TIME ZONE 'UTC'",
        """CASE WHEN extract(year FROM c) < 1 THEN to_char(extract(year FROM c) + 1, 'SG0000') WHEN extract(year FROM c) > 9999 THEN '+' || extract(year FROM c)
           ELSE to_char(c, 'YYYY') END || to_char(c, '-MM-DD"T"HH24:MI:SS.US"Z"')""",
        {}, lambda value: value.replace("-0000-", "+0000-", 1) if value.startswith("-0000-") else value, lambda raw: re.sub("^[+]0000", "0000", raw.decode()),
    ),
    "interval": (
        "interval",
        "make_interval(months => ((random() - 0.5) * 1000)::int, days => ((random() - 0.5) * 1000)::int) + ((random() - 0.5) * 1e13)::bigint * interval '1 microsecond'",
        """'P' || extract(year FROM c) || 'Y' || extract(month FROM c) || 'M' || extract(day FROM c) || 'DT' || extract(hour FROM c) || 'H'
           || extract(minute FROM c) || 'M' || trim_scale(extract(second FROM c)) || 'S'""",
        {"interval_handling_mode": "string"}, same, bytes.decode,
    ),
    "bytea": ("bytea", "substr(sha512(n::text::bytea), 1, (random() * 64)::int)", "encode(c, 'base64')", {"binary_handling_mode": "base64"}, same, lambda raw: raw.decode().replace("\n", "")),
    "bit": ("bit(31)", "(random() * 2147483647)::int::bit(31)", "c::int", {}, lambda value: int.from_bytes(value, "little"), integer),
    "text": ("text", RANDOM_TEXT, "encode(convert_to(c, 'UTF8'), 'hex')", {}, lambda value: value.encode().hex(), bytes.decode),
    "text array": ("text[]", f"ARRAY(SELECT nullif({RANDOM_TEXT}, 'a') FROM generate_series(1, (random() * 5)::int + n - n))", "to_json(c)", {}, same, json.loads),
    "integer array": ("integer[]", "ARRAY(SELECT nullif((random() * 9)::int, 5) FROM generate_series(1, (random() * 5)::int + n - n))", "to_json(c)", {}, same, json.loads),
    "date array": (
        "date[]", "ARRAY(SELECT date '2000-01-01' + (random() * 9999)::int FROM generate_series(1, (random() * 5)::int + n - n))",
        "to_json(ARRAY(SELECT d - date '1970-01-01' FROM unnest(c) d))", {}, same, json.loads,
    ),
    "hstore": (
        "hstore", f"coalesce(hstore(ARRAY(SELECT coalesce({RANDOM_TEXT}, '') || m FROM generate_series(1, (n % 20)) m), ARRAY(SELECT {RANDOM_TEXT} FROM generate_series(1, (n % 20)))), '')",
        "hstore_to_json(c)", {}, json.loads, json.loads,
    ),
    "point": ("point", "point(random() * 1e9, -random())", "encode(float8send(c[0]) || float8send(c[1]), 'hex')", {}, lambda value: struct.pack(">dd", value["x"], value["y"]).hex(), bytes.decode),
    "geometry": (
        "geometry", "ST_SetSRID(ST_MakePoint(random(), random()), CASE WHEN random() < 0.5 THEN 0 ELSE 4326 END)",
        "encode(ST_AsEWKB(c), 'hex') || ' ' || nullif(ST_SRID(c), 0) || '' ", {}, lambda value: f"{value['wkb'].hex()} {value['srid']}" if value["srid"] else None, lambda raw: raw and raw.decode(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_what_is_read_from_the_server_s_text_is_what_the_server_computes(postgres: Postgres, postgres_database: str, name: str) -> None:
    type_text, value, oracle, modes, ours, theirs = ORACLES[name]
    settings = TypeModes(**modes)
    read = reader(column_plan(column_of(type_text), settings, TABLE), settings)
    query = f"SELECT c, {oracle} FROM (SELECT ({value})::{type_text} AS c FROM generate_series(1, {ROWS}) n OFFSET 0) rows"

    rows = [(text, result) for text, result in read_rows(postgres, postgres_database, query) if text is not None]

    different = [(text, read(text), result) for text, result in rows if ours(read(text)) != (None if result is None else theirs(result))]
    assert different == []
    assert len({text for text, _ in rows}) > ROWS // 10


def column_of(type_text: str) -> Column:
    name, _, modifier = type_text.removesuffix("[]").rstrip(")").partition("(")
    known = {"bigint": "int8", "real": "float4", "double precision": "float8", "integer": "int4"}.get(name, name)
    length, _, scale = modifier.partition(",")
    return Column(
        name="c",
        type=f"_{known}" if type_text.endswith("[]") else known,
        type_text=type_text,
        nullable=True,
        length=int(length) if length else None,
        scale=int(scale) if scale else None,
    )


def test_the_texts_that_debezium_was_asked_about_are_those_of_the_oldest_server_too(postgres: Postgres, postgres_database: str) -> None:
    without_vectors = [case for case in CASES if case.values and "vec" not in case.column.type]
    with connected(postgres, database=postgres_database) as connection, connection.cursor() as cursor:
        for statement in (*(s for s in PREPARATION if s != "CREATE EXTENSION vector"), *(f"SET {k} = '{v}'" for k, v in SETTINGS.items())):
            cursor.execute(statement)
        texts = {}
        for number, case in enumerate(without_vectors):
            cursor.execute(f"CREATE TABLE t{number} ({case.ddl})")
            for value in case.values:
                cursor.execute(f"INSERT INTO t{number} VALUES ({value})")
            texts[case.ddl] = [(row[0] or b"").decode() for row in copied(cursor, f"SELECT c FROM t{number}")]

    assert texts == {case.ddl: RECORDED[case.ddl] for case in without_vectors}
