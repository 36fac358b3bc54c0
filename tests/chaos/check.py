"""The end of a run, looked at from four sides: folded topics = SELECT = a fresh dump = Delta, and no step back on the way.

The fresh dump comes from a second connector of the same configuration, so its records and the folded ones must be the same values whatever the
modes and the converter. What the values should be follows from the server's own text (``support.generated_tables``). The Delta tables of both connectors must
hold the rows of the fresh dump.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import struct
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
import httpx
import pymysql
from chaos.tables import ChaosTable
from dblog.core.timeline import Timeline
from dblog.dialects.mysql.values.types import TypeModes
from dblog.readers.history import SchemaHistory
from demo.lake import Lake
from demo.rest import NO_TLS
from stack.database import Database
from support.history import FakeHistoryLog
from support.topicfold import WIRE_HEADER, records

EXAMPLES_MAX = 3
SHOWN = 160
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EXACT = Context(prec=100)
_UNKNOWN = b"__debezium_unavailable_value"
UNKNOWN = (
    _UNKNOWN, _UNKNOWN.decode(), json.dumps(_UNKNOWN.decode()), b64encode(_UNKNOWN).decode(), urlsafe_b64encode(_UNKNOWN).decode(), _UNKNOWN.hex(),
    b64encode(b64encode(_UNKNOWN)).decode(),
)  # fmt: skip
"""What a column has that the log does not show (binlog_row_image=NOBLOB), in each form."""
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


@dataclass(frozen=True, slots=True)
class Form:
    """How a column's values are written: the Connect type's name if it has one, its plain type, and a decimal's scale."""

    name: str
    kind: str
    scale: int = 0


Forms = dict[str, Form]


class Decoder:
    """Record bytes to values, by the registry's schemas or as JSON. Dates and times stay numbers: Python's cannot hold all of them."""

    def __init__(self, registry_url: str) -> None:
        self._url = registry_url
        self._schemas: dict[int, Any] = {}
        self._forms: dict[Any, Forms] = {}

    def __call__(self, data: bytes) -> Any:
        if data[:1] != b"\0":
            value = json.loads(data)
            return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
        _, schema_id = WIRE_HEADER.unpack_from(data)
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{schema_id}", timeout=30, verify=NO_TLS).raise_for_status().json()
            plain = re.sub(r'"logicalType": ?"(date|time-millis|timestamp-millis)",?', "", answer["schema"]).replace(",}", "}")
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(plain))
            self._forms[schema_id] = _avro_forms(json.loads(answer["schema"]))
        rest = BytesIO(data[WIRE_HEADER.size :])
        value = fastavro.schemaless_reader(rest, self._schemas[schema_id])
        assert not rest.read(1), f"bytes are left behind a record of schema {schema_id}"
        return value

    def forms(self, data: bytes) -> Forms:
        """How the columns of a record that was decoded are written; nothing is known of JSON without schemas."""
        if data[:1] == b"\0":
            return self._forms[WIRE_HEADER.unpack_from(data)[1]]
        whole = json.loads(data)
        if not (isinstance(whole, dict) and whole.keys() == {"schema", "payload"}):
            return {}
        text = json.dumps(whole["schema"])
        if text not in self._forms:
            self._forms[text] = _json_forms(whole["schema"])
        return self._forms[text]


def _avro_forms(envelope: dict[str, Any]) -> Forms:
    rows = [branch for field in envelope["fields"] if field["name"] == "before" for branch in field["type"] if isinstance(branch, dict)]
    out = {}
    for column in rows[0]["fields"] if rows else ():
        kind = next((k for k in column["type"] if k != "null"), None) if isinstance(column["type"], list) else column["type"]
        made = kind if isinstance(kind, dict) else {"type": kind}
        plain = "float" if made["type"] == "array" and made["items"] in ("float", ["null", "float"]) else made["type"]
        out[column["name"]] = Form(made.get("connect.name", ""), plain, int(made.get("scale", 0)))
    return out


def _json_forms(envelope: dict[str, Any]) -> Forms:
    row = next((field for field in envelope["fields"] if field.get("field") == "before"), {"fields": ()})
    return {
        column["field"]: Form(
            column.get("name", ""),
            column["items"]["type"] if column["type"] == "array" else column["type"],
            int(column.get("parameters", {}).get("scale", 0)),
        )
        for column in row["fields"]
    }


@dataclass(slots=True)
class Folded:
    """A topic: the newest row of each key, or every row that was ever written where there is no key.

    ``rows`` are what a reader has who takes records as they come, ``by_sequence`` what one has who keeps each key's greatest ``source.sequence``.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    by_sequence: dict[Key, Row] = field(default_factory=dict)
    forms: dict[Key, Forms] = field(default_factory=dict)
    key_names: tuple[str, ...] = ()
    unkeyed: list[Row] = field(default_factory=list)
    records: int = 0
    steps_back: list[str] = field(default_factory=list)


def fold(bootstrap: str, topic: str, decode: Decoder) -> Folded:
    """Read the topic to its present end."""
    folded = Folded()
    newest: dict[Key, tuple[int, int]] = {}
    seen: dict[Key, set[tuple[tuple[int, int], str]]] = {}
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
            for key in [key for key in folded.by_sequence if newest[key] <= position]:
                del folded.by_sequence[key]
            continue
        if key_bytes is None:
            if envelope["after"] is not None:
                folded.unkeyed.append(envelope["after"])
            continue
        decoded = decode(key_bytes)
        folded.key_names = tuple(decoded)
        key = tuple(_hashable(part) for part in decoded.values())
        late = position < newest.get(key, position)
        if late and (position, op) not in seen[key] and len(folded.steps_back) < EXAMPLES_MAX:
            folded.steps_back.append(f"key {key}: {op} at {position} after {newest[key]} ({at})")
        seen.setdefault(key, set()).add((position, op))
        if op == "d":
            folded.rows.pop(key, None)
        else:
            folded.rows[key] = with_unchanged(envelope["after"], folded.rows.get(key))
            folded.forms[key] = decode.forms(value_bytes)
        if not late:
            newest[key] = position
            if op == "d":
                folded.by_sequence.pop(key, None)
            else:
                folded.by_sequence[key] = with_unchanged(envelope["after"], folded.by_sequence.get(key))
    return folded


def with_unchanged(row: Row, before: Row | None) -> Row:
    """A row in which a column that the log left out is as it was before."""
    if before is None or not any(value in UNKNOWN for value in row.values()):
        return row
    return {name: before.get(name) if value in UNKNOWN else value for name, value in row.items()}


def compare_folded(table: str, old: Folded, fresh: Folded, *, reread: bool = False) -> list[Problem]:
    """What the connector of the run left, and a fresh dump.

    ``reread``: rows that the log has not whole are read from the table, where an event that comes a second time finds other rows, and other numbers
    of rows. So records that repeat cannot be recognized by their position; the two ways to fold must come to the same all the same.
    """
    problems = [] if reread else [Problem("order", table, text) for text in old.steps_back]
    if fresh.unkeyed or old.unkeyed:
        names = list(fresh.unkeyed[0]) if fresh.unkeyed else []  # columns come and go
        ever = {repr(_canonical({name: row.get(name) for name in names})) for row in old.unkeyed}
        lost = [row for row in fresh.unkeyed if repr(_canonical(row)) not in ever]
        return problems + _few("topic", table, (f"never written: {_shown(row)}" for row in lost))
    problems += _few("topic", table, _differences(old.rows, fresh.rows))
    return problems + _few("sequence", table, _differences(old.by_sequence, fresh.rows))


def _differences(old: dict[Key, Row], fresh: dict[Key, Row]) -> Iterator[str]:
    for key, row in fresh.items():
        mine = old.get(key)
        if mine is None:
            yield f"key {_shown(key)} is missing"
            continue
        for name, value in row.items():
            # A row that got another key has no row before it to take an unknown value from.
            if _canonical(mine.get(name)) != _canonical(value) and mine.get(name) not in UNKNOWN:
                yield f"key {_shown(key)} column {name} is {_shown(mine.get(name))} in the topic, {_shown(value)} in a fresh dump"
    yield from (f"key {_shown(key)} is in the topic only" for key in old.keys() - fresh.keys())


def compare_select(
    source: Database, database: str, table: ChaosTable, modes: TypeModes, fresh: Folded, *, as_json: bool = False
) -> list[Problem]:
    """A fresh dump, and the server's own text of every value; ``as_json``: in the form of Kafka's JsonConverter."""
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
        if as_json:
            expected = {name: json_value(value) for name, value in expected.items()}
        same = next((row for row in candidates if all(_equal(value, row.get(name)) for name, value in expected.items())), None)
        if same is not None:
            candidates.remove(same)
            continue
        nearest = candidates[0] if candidates else {}
        wrong = {name: (value, nearest.get(name)) for name, value in expected.items() if not _equal(value, nearest.get(name))}
        found.append(f"id {int(cells[0])}: selected and dumped {_shown(wrong)}" if candidates else f"id {int(cells[0])} was not dumped")
    return problems + _few("dump", table.name, found)


def json_value(value: Any) -> Any:
    """What JsonConverter writes for a value: bytes in base64, a decimal as the bytes of its unscaled number."""
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        return b64encode(unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)).decode()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list) else value


def _equal(expected: Any, found: Any) -> bool:
    """Alike, where a float of 32 bits may be written with the fewest digits that identify it, and Delta may have a wider type or text for a number."""
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or expected == _float32(found)
    if isinstance(expected, tuple) and isinstance(found, float):
        return float(expected[1]) == found
    if isinstance(expected, tuple) and isinstance(found, str):
        return Decimal(found) == expected[1]
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_equal, expected, found))
    return bool(expected == found)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


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


def compare_delta(lake: Lake, database: str, table: str, fresh: Folded, rows: int) -> list[Problem]:
    """A Delta table, and the rows of a fresh dump: every column that the source has now, by key.

    A column whose type has changed to one that its Delta column cannot hold goes on as ``<column>__v2``, and so on.
    """
    columns = lake.column_names(database, table)
    if not columns:
        return [Problem("delta", table, f"no Delta table in {lake.base.name}")] if rows else []
    names = [name for name in columns if not name.startswith("_dblog_")]
    found: list[str] = []
    left: dict[Key, list[Row]] = {}
    for cells in lake.read_rows(database, table, names):
        row = dict(zip(names, map(canonical_delta_value, cells), strict=True))
        left.setdefault(tuple(_hashable(row[name]) for name in fresh.key_names), []).append(row)
    for key, row in fresh.rows.items():
        expected = {name: delta_form(value, fresh.forms[key].get(name)) for name, value in row.items()}
        mine = left.pop(tuple(_hashable(expected[name]) for name in fresh.key_names), [])
        if len(mine) != 1:
            found.append(f"key {_shown(key)} has {len(mine)} rows in Delta")
            continue
        for name, value in expected.items():
            there = [mine[0][other] for other in names if other == name or re.fullmatch(re.escape(name) + r"__v\d+", other)]
            if not any(_equal(value, one) or one in UNKNOWN for one in there):
                found.append(f"key {_shown(key)} column {name} is {_shown(there)} in Delta, {_shown(value)} in a fresh dump")
    found += [f"key {_shown(key)} is in Delta only" for key in left]
    if len(fresh.rows) != rows:
        found.append(f"{len(fresh.rows)} rows in a fresh dump, {rows} in the source")
    return _few("delta", f"{lake.base.name} {table}", found)


def delta_form(value: Any, form: Form | None) -> Any:
    """A record's value as it is to be in Delta: dates as days, moments and times of day as microseconds, bytes and decimals out of JSON's base64."""
    if value is None or form is None:
        return _canonical(value)
    short = form.name.rpartition(".")[2]
    match short, value:
        case (("Timestamp" | "Time"), int()):
            value = value * 1000
        case (("NanoTimestamp" | "NanoTime"), int()):
            value = value // 1000
        case "IsoDate", str():
            value = dt.date.fromisoformat(value.removesuffix("Z"))
        case (("IsoTimestamp" | "ZonedTimestamp"), str()):
            value = dt.datetime.fromisoformat(value)
        case "Decimal", str():
            value = Decimal(int.from_bytes(b64decode(value), "big", signed=True)).scaleb(-form.scale, EXACT)
        case (("" | "Bits"), str()) if form.kind == "bytes":
            value = b64decode(value)
        case _, dict() if isinstance(value.get("wkb"), str):
            value = value | {"wkb": b64decode(value["wkb"])}
    if form.kind == "float":
        value = [_float32(item) for item in value] if isinstance(value, list) else _float32(value)
    return canonical_delta_value(value)


def canonical_delta_value(value: Any) -> Any:
    """A value that was read from Delta, in the form that is compared: dates as days, moments as microseconds."""
    if isinstance(value, dt.datetime):
        value = (value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)) - EPOCH
        return _canonical(value // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return _canonical(value.toordinal() - EPOCH.toordinal())
    return _canonical(value)


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
        return ("number", EXACT.add(EXACT.normalize(value), 0))
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return ("number", EXACT.normalize(Decimal(value)))
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
