"""The end of a run, looked at from four sides: folded topics = SELECT = a fresh dump = Delta, and no step back on the way.

The fresh dump comes from a second connector of the same configuration, so its records and the folded ones must be the same values whatever the
modes and the converter. What the values should be follows from the server's own text (``support.generated_tables``), where the records are Avro. The Delta tables of both
connectors must hold the same rows, and as many as the source.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pymysql
from chaos.tables import ChaosTable
from dblog.core.timeline import Timeline
from dblog.dialects.mysql.types import TypeModes
from dblog.readers.history import SchemaHistory
from demo.lake import Lake
from stack.database import Database
from support.history import FakeHistoryLog
from support.topicfold import WIRE_HEADER, records

EXAMPLES_MAX = 3
SHOWN = 160
Key = tuple[Any, ...]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``check`` names what was looked at: a shrunk plan must fail in the same."""

    check: str
    table: str
    text: str

    def __str__(self) -> str:
        return f"{self.check} {self.table}: {self.text}"


class Decoder:
    """Record bytes to values, by the registry's schemas or as JSON. Dates and times stay numbers: Python's cannot say all of them."""

    def __init__(self, registry_url: str) -> None:
        self._url = registry_url
        self._schemas: dict[int, Any] = {}

    def __call__(self, data: bytes) -> Any:
        if data[:1] != b"\0":
            value = json.loads(data)
            return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
        _, schema_id = WIRE_HEADER.unpack_from(data)
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{schema_id}", timeout=30).raise_for_status().json()
            plain = re.sub(r'"logicalType": ?"(date|time-millis|timestamp-millis)",?', "", answer["schema"]).replace(",}", "}")
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(plain))
        rest = BytesIO(data[WIRE_HEADER.size :])
        value = fastavro.schemaless_reader(rest, self._schemas[schema_id])
        assert not rest.read(1), f"bytes are left behind a record of schema {schema_id}"
        return value


@dataclass(slots=True)
class Folded:
    """A topic: the newest row of each key, or every row that was ever written where there is no key."""

    rows: dict[Key, Row] = field(default_factory=dict)
    unkeyed: list[Row] = field(default_factory=list)
    records: int = 0
    steps_back: list[str] = field(default_factory=list)


def fold(bootstrap: str, topic: str, decode: Decoder) -> Folded:
    """Read the topic to its present end."""
    folded = Folded()
    newest: dict[bytes, tuple[int, int]] = {}
    seen: dict[bytes, set[tuple[tuple[int, int], str]]] = {}
    for key_bytes, value_bytes, at in records(bootstrap, topic):
        folded.records += 1
        if value_bytes is None:
            continue
        envelope = decode(value_bytes)
        op = envelope["op"]
        high, low = json.loads(envelope["source"]["sequence"])
        position = int(high), int(low)
        if op == "t":
            folded.rows.clear()
            folded.unkeyed.clear()
            continue
        if key_bytes is None:
            if envelope["after"] is not None:
                folded.unkeyed.append(envelope["after"])
            continue
        decoded = decode(key_bytes)
        key = tuple(_hashable(part) for part in decoded.values())
        if position < newest.get(key_bytes, position):
            if (position, op) not in seen[key_bytes] and len(folded.steps_back) < EXAMPLES_MAX:
                folded.steps_back.append(f"key {key}: {op} at {position} after {newest[key_bytes]} ({at})")
        else:
            newest[key_bytes] = position
        seen.setdefault(key_bytes, set()).add((position, op))
        if op == "d":
            folded.rows.pop(key, None)
        else:
            folded.rows[key] = envelope["after"]
    return folded


def compare_folded(table: str, old: Folded, fresh: Folded) -> list[Problem]:
    """What the connector of the run left, and a fresh dump."""
    problems = [Problem("order", table, text) for text in old.steps_back]
    if fresh.unkeyed or old.unkeyed:
        names = list(fresh.unkeyed[0]) if fresh.unkeyed else []  # columns come and go
        ever = {repr(_canonical({name: row.get(name) for name in names})) for row in old.unkeyed}
        lost = [row for row in fresh.unkeyed if repr(_canonical(row)) not in ever]
        return problems + _few("topic", table, (f"never written: {_shown(row)}" for row in lost))
    found: list[str] = []
    for key, row in fresh.rows.items():
        mine = old.rows.get(key)
        if mine is None:
            found.append(f"key {_shown(key)} is missing")
            continue
        for name, value in row.items():
            if _canonical(mine.get(name)) != _canonical(value):
                found.append(f"key {_shown(key)} column {name} is {_shown(mine.get(name))} in the topic, {_shown(value)} in a fresh dump")
    found += [f"key {_shown(key)} is in the topic only" for key in old.rows.keys() - fresh.rows.keys()]
    return problems + _few("topic", table, found)


def compare_select(source: Database, database: str, table: ChaosTable, modes: TypeModes, fresh: Folded) -> list[Problem]:
    """A fresh dump, and the server's own text of every value."""
    names = columns_of(source, database, table.name)
    known = [c for c in table.columns if c.name in names]
    unknown = [c.name for c in table.columns if c.name not in names]
    problems = [Problem("model", table.name, f"the server has no column {unknown}: a fault of the test")] if unknown else []
    wanted = ", ".join(["`id`", *(c.kind.select.format(c=f"`{c.name}`") for c in known)])
    login = {**source.login, "database": database, "charset": "utf8mb4", "conv": dict(pymysql.converters.encoders)}
    with contextlib.closing(pymysql.connect(**login)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone='+00:00'")
        cursor.execute(f"SELECT {wanted} FROM `{table.name}`")
        selected = list(cursor.fetchall())
    dumped = list(fresh.rows.values()) or fresh.unkeyed
    if len(dumped) != len(selected):
        problems.append(Problem("dump", table.name, f"{len(selected)} rows by SELECT, {len(dumped)} in a fresh dump"))
    by_id: dict[int, list[Row]] = {}
    for row in dumped:
        by_id.setdefault(row["id"], []).append(row)
    found: list[str] = []
    for cells in selected:
        expected = {c.name: _expected(c, cell, modes) for c, cell in zip(known, cells[1:], strict=True)}
        candidates = by_id.get(int(cells[0]), [])
        same = next((row for row in candidates if all(value == row.get(name) for name, value in expected.items())), None)
        if same is not None:
            candidates.remove(same)
            continue
        nearest = candidates[0] if candidates else {}
        wrong = {name: (value, nearest.get(name)) for name, value in expected.items() if value != nearest.get(name)}
        found.append(f"id {int(cells[0])}: selected and dumped {_shown(wrong)}" if candidates else f"id {int(cells[0])} was not dumped")
    return problems + _few("dump", table.name, found)


def count_select(source: Database, database: str, table: str) -> int:
    with contextlib.closing(pymysql.connect(**source.login, database=database)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM `{table}`")
        return int(cursor.fetchall()[0][0])


def columns_of(source: Database, database: str, table: str) -> list[str]:
    with contextlib.closing(pymysql.connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table),
        )
        return [str(name) for (name,) in cursor.fetchall()]


def compare_delta(base: Path, jars: tuple[Path, ...], prefixes: tuple[str, str], database: str, table: str, rows: int) -> list[Problem]:
    """The Delta tables of both connectors, column by column that the source has now."""
    mine, fresh = (Lake(base / prefix, jars) for prefix in prefixes)
    names = [name for name in fresh.column_names(database, table) if not name.startswith("_dblog_")]
    have = mine.column_names(database, table)
    if not names and not rows and not have:
        return []
    if not names:
        return [Problem("delta", table, "no Delta table of the fresh dump")] if rows else []
    if lacking := [name for name in names if name not in have]:
        return [Problem("delta", table, f"the Delta table lacks {lacking}")]
    left = Counter(repr(_canonical(list(row))) for row in mine.read_rows(database, table, names))
    right = Counter(repr(_canonical(list(row))) for row in fresh.read_rows(database, table, names))
    found = [f"only in Delta: {_shown(row)}" for row in (left - right)] + [f"missing in Delta: {_shown(row)}" for row in (right - left)]
    if left.total() != rows:
        found.append(f"{left.total()} rows in Delta, {rows} in the source")
    return _few("delta", table, found)


def check_history(bootstrap: str, topic: str, server: str) -> list[Problem]:
    """Every schema of the history decodes, one by one and as a whole."""
    log = FakeHistoryLog()
    for key, value, at in records(bootstrap, topic):
        log.records.append((key, value))
        try:
            one = FakeHistoryLog()
            one.records.append((key, value))
            SchemaHistory(one, server=server).recover(Timeline())
        except Exception as e:  # noqa: BLE001 - whatever it is, the record is not readable
            return [Problem("history", topic, f"{at}: {type(e).__name__}: {e}")]
    SchemaHistory(log, server=server).recover(Timeline())
    return []


def _expected(column: Any, cell: Any, modes: TypeModes) -> Any:
    text = cell.decode() if isinstance(cell, bytes) else None if cell is None else str(cell)
    value = None if text is None else column.kind.record(text, modes)
    return column.kind.zero(modes) if value is None and not column.nullable else value


def _canonical(value: Any) -> Any:
    """The same value of another type is the same: a decimal of another scale, an array."""
    if isinstance(value, Decimal):
        return ("number", value.normalize() + 0)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return ("number", Decimal(value).normalize() + 0) if abs(value) < 10**27 else value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in sorted(value.items())}
    return value


def _hashable(value: Any) -> Any:
    return repr(_canonical(value)) if isinstance(value, dict | list) else value


def _few(check: str, table: str, found: Iterable[str]) -> list[Problem]:
    texts = list(found)
    problems = [Problem(check, table, text) for text in texts[:EXAMPLES_MAX]]
    if len(texts) > EXAMPLES_MAX:
        problems.append(Problem(check, table, f"and {len(texts) - EXAMPLES_MAX} more"))
    return problems


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
