"""The end of a run, looked at from four sides: folded topics = SELECT = a fresh dump = Delta, and no step back on the way.

The fresh dump comes from a second connector of the same configuration, so its records and the folded ones must be the same values whatever the
modes and the converter. What the values should be follows from the server's own text (``support.generated_tables``). The Delta tables of both connectors must
hold the rows of the fresh dump.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
import httpx
from chaos.unknown import is_unknown
from dblog.core.timeline import Timeline
from dblog.readers.log.history import SchemaHistory
from demo.lake import Lake
from demo.rest import NO_TLS
from support.history import FakeHistoryLog
from support.topicfold import WIRE_HEADER, records

EXAMPLES_MAX = 3
LAST_RECORDS = 6
SHOWN = 160
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY_MICROS = 86_400_000_000
EXACT = Context(prec=100)
INFINITE_DATE, LAST_DATE = -2_147_472_692, (1 << 31) - 1
"""PostgreSQL's infinity in a record, and the last date that Delta has."""
INFINITE_NANOS = {(1 << 63) - 1: 9_223_372_036_825_200_000, -(1 << 63): -9_223_372_036_832_400_000}
INFINITE_MICROS = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
"""PostgreSQL's infinite moments, as its driver has them."""
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
    """How a column's values are written: the Connect type's name if it has one, its plain type, a decimal's scale; of an array, how its elements are."""

    name: str
    kind: str
    scale: int = 0
    items: Form | None = None


Forms = dict[str, Form]


class Decoder:
    """Record bytes to values, by the registry's schemas or as JSON. Dates and times stay numbers: Python's cannot hold all of them.

    ``decimals``: whether decimals become Python's, or stay the bytes of their unscaled numbers.
    """

    def __init__(self, registry_url: str, *, decimals: bool = True) -> None:
        self._url = registry_url
        self._kept = "date|time-millis|timestamp-millis" + ("" if decimals else "|decimal")
        self._schemas: dict[int, Any] = {}
        self._forms: dict[Any, Forms] = {}

    def __call__(self, data: bytes) -> Any:
        if data[:1] != b"\0":
            value = json.loads(data)
            return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
        _, schema_id = WIRE_HEADER.unpack_from(data)
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{schema_id}", timeout=30, verify=NO_TLS).raise_for_status().json()
            plain = re.sub(rf'"logicalType": ?"({self._kept})",?', "", answer["schema"]).replace(",}", "}")
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
    return {column["name"]: _avro_form(column["type"]) for column in rows[0]["fields"]} if rows else {}


def _avro_form(of: Any) -> Form:
    kind = next((k for k in of if k != "null"), None) if isinstance(of, list) else of
    if isinstance(kind, str) and "." in kind:  # a type that was defined further up
        return Form(kind, "record")
    made = kind if isinstance(kind, dict) else {"type": kind}
    plain = "float" if made["type"] == "array" and made["items"] in ("float", ["null", "float"]) else made["type"]
    items = _avro_form(made["items"]) if made["type"] == "array" else None
    return Form(made.get("connect.name", ""), plain, int(made.get("scale", 0)), items)


def _json_forms(envelope: dict[str, Any]) -> Forms:
    row = next((field for field in envelope["fields"] if field.get("field") == "before"), {"fields": ()})
    return {column["field"]: _json_form(column) for column in row["fields"]}


def _json_form(column: dict[str, Any]) -> Form:
    items = _json_form(column["items"]) if column["type"] == "array" else None
    scale = int(column.get("parameters", {}).get("scale", 0))
    return Form(column.get("name", ""), column["type"] if items is None else items.kind, scale, items)


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
    unkeyed_forms: list[Forms] = field(default_factory=list)
    records: int = 0
    steps_back: list[str] = field(default_factory=list)
    last: dict[Key, deque[str]] = field(default_factory=dict)
    """Descriptions of the last records of a key."""

    def told(self, key: Key) -> str:
        """Return a description of what the topic has of the key, for a difference."""
        return f" (its last records: {'; '.join(self.last[key])})" if key in self.last else ""


def fold(bootstrap: str, topic: str, decode: Decoder, *, repaired: tuple[int, int] | None = None, as_they_come: bool = False) -> Folded:
    """Read the topic to its present end. Rows whose newest record is older than where the last repair began, ``repaired``, are gone.

    ``as_they_come``: Debezium has written some of them, whose ``source.sequence`` is another one or none. There the repair began at the first record
    whose own position is not before ``repaired``.
    """
    folded = Folded()
    newest: dict[Key, tuple[int, int]] = {}
    seen: set[tuple[tuple[int, int], str, Key | None]] = set()
    repaired_at: tuple[int, int] | None = None
    for key_bytes, value_bytes, at in records(bootstrap, topic):
        folded.records += 1
        if value_bytes is None:
            continue
        envelope = decode(value_bytes)
        op = envelope["op"]
        if as_they_come:
            position = 0, folded.records
            own = json.loads(envelope["source"].get("sequence") or "[]")
            if repaired_at is None and repaired is not None and None not in own and tuple(map(int, own)) >= repaired:
                repaired_at = position
        else:
            high, low = json.loads(envelope["source"]["sequence"])
            position = int(high), int(low)
        if op == "t":
            folded.rows.clear()
            folded.unkeyed.clear()
            folded.unkeyed_forms.clear()
            for key in [key for key in folded.by_sequence if newest[key] <= position]:
                del folded.by_sequence[key]
            continue
        if key_bytes is None:
            if envelope["after"] is not None:
                folded.unkeyed.append(envelope["after"])
                folded.unkeyed_forms.append(decode.forms(value_bytes))
            continue
        decoded = decode(key_bytes)
        folded.key_names = tuple(decoded)
        key = tuple(_hashable(part) for part in decoded.values())
        folded.last.setdefault(key, deque(maxlen=LAST_RECORDS)).append(f"{op} {_origin(envelope['source'])}, {at}")
        late = position < newest.get(key, position)
        # An event that comes again may have the key that the table has by then; the rows of a chunk share a position.
        record = position, op, key if op == "r" else None
        if late and record not in seen and len(folded.steps_back) < EXAMPLES_MAX:
            folded.steps_back.append(f"key {key}: {op} at {position} after {newest[key]} ({at})")
        seen.add(record)
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
    gone_before = repaired_at if as_they_come else repaired
    for key in [key for key, position in newest.items() if gone_before is not None and position < gone_before]:
        folded.rows.pop(key, None)
        folded.by_sequence.pop(key, None)
    return folded


def _origin(source: dict[str, Any]) -> str:
    """Describe where a record comes from: the position in the log, whether of a dump, and the version of what wrote it."""
    named = ("file", "pos", "row", "lsn", "sequence", "snapshot", "version")
    return " ".join(f"{name}={source[name]}" for name in named if source.get(name) not in (None, "false"))


def check_whole(table: str, old: Folded, fresh: Folded) -> list[Problem]:
    """Report rows of which a value never came: each change left it out, and no dump brought it."""
    lacking = (
        f"key {shown(key)} column {name} was in no record"
        for key in fresh.rows
        for name, value in old.rows.get(key, {}).items()
        if is_unknown(value)
    )
    return few("whole", table, lacking)


def with_unchanged(row: Row, before: Row | None) -> Row:
    """A row in which a column that the log left out is as it was before."""
    if before is None or not any(map(is_unknown, row.values())):
        return row
    return {name: before.get(name) if is_unknown(value) else value for name, value in row.items()}


def compare_folded(table: str, old: Folded, fresh: Folded, *, reread: bool = False, excess: bool = False) -> list[Problem]:
    """What the connector of the run left, and a fresh dump.

    ``reread``: rows that the log has not whole are read from the table, where an event that comes a second time finds other rows, and other numbers
    of rows. So records that repeat cannot be recognized by their position; the two ways to fold must come to the same all the same.

    ``excess``: another table had this name before, or its rows other keys. What was written of that may stay.
    """
    problems = [] if reread else [Problem("order", table, text) for text in old.steps_back]
    if fresh.unkeyed or old.unkeyed:
        names = list(fresh.unkeyed[0]) if fresh.unkeyed else []  # columns come and go
        written = [*old.unkeyed, *old.rows.values()]  # a row that was written with a key is not written again where the table loses that
        ever = {repr(_canonical({name: row.get(name) for name in names})) for row in written}
        lost = [row for row in fresh.unkeyed if repr(_canonical(row)) not in ever]
        return problems + few("topic", table, (f"never written: {shown(row)}" for row in lost))
    problems += few("topic", table, _differences(old.rows, fresh.rows, excess, old))
    return problems + few("sequence", table, _differences(old.by_sequence, fresh.rows, excess, old))


def _differences(old: dict[Key, Row], fresh: dict[Key, Row], excess: bool, folded: Folded) -> Iterator[str]:
    for key, row in fresh.items():
        mine = old.get(key)
        if mine is None:
            yield f"key {shown(key)} is missing{folded.told(key)}"
            continue
        for name, value in row.items():
            # A row that got another key has no row before it to take an unknown value from.
            if _canonical(mine.get(name)) != _canonical(value) and not is_unknown(mine.get(name)):
                yield f"key {shown(key)} column {name} is {shown(mine.get(name))} in the topic, {shown(value)} in a fresh dump{folded.told(key)}"
    if not excess:
        yield from (f"key {shown(key)} is in the topic only{folded.told(key)}" for key in old.keys() - fresh.keys())


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


def equal(expected: Any, found: Any) -> bool:
    """Alike, where a float of 32 bits may be written with the fewest digits that identify it, and Delta may have a wider type or text for a number."""
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or expected == _float32(found)
    if isinstance(expected, tuple) and isinstance(found, float):
        return float(expected[1]) == found
    if isinstance(expected, tuple) and isinstance(found, str):
        return Decimal(found) == expected[1]
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(equal, expected, found))
    return bool(expected == found)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


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
            found.append(f"key {shown(key)} has {len(mine)} rows in Delta")
            continue
        for name, value in expected.items():
            there = [mine[0][other] for other in names if other == name or re.fullmatch(re.escape(name) + r"__v\d+", other)]
            if not any(equal(value, one) or is_unknown(one) for one in there):
                found.append(f"key {shown(key)} column {name} is {shown(there)} in Delta, {shown(value)} in a fresh dump")
    found += [f"key {shown(key)} is in Delta only" for key in left]
    if len(fresh.rows) != rows:
        found.append(f"{len(fresh.rows)} rows in a fresh dump, {rows} in the source")
    return few("delta", f"{lake.base.name} {table}", found)


def delta_form(value: Any, form: Form | None) -> Any:
    """A record's value as it is to be in Delta: dates as days, moments and times of day as microseconds, bytes and decimals out of JSON's base64."""
    if value is None or form is None:
        return _canonical(value)
    if isinstance(value, list) and form.items is not None:
        return [delta_form(item, form.items) for item in value]
    short = form.name.rpartition(".")[2]
    match short, value:
        case "Date", int():
            value = LAST_DATE if value == INFINITE_DATE else value
        case (("Timestamp" | "Time"), int()):
            value = value * 1000
        case "NanoTimestamp", int() if value in INFINITE_NANOS:
            value = INFINITE_NANOS[value]
        case (("NanoTimestamp" | "NanoTime"), int()):
            value = value // 1000
        case "IsoDate", str():
            value = days_and_micros(value)[0]
        case (("IsoTimestamp" | "ZonedTimestamp"), str()):
            days, micros = (0, INFINITE_MICROS[value]) if value in INFINITE_MICROS else days_and_micros(value)
            value = days * DAY_MICROS + micros
        case "Decimal", str() | bytes():
            value = _decimal(value, form.scale)
        case "VariableScaleDecimal", dict():
            value = _decimal(value["value"], value["scale"])
        case (("" | "Bits"), str()) if form.kind == "bytes":
            value = b64decode(value)
        case "", str() if form.kind in ("double", "float"):  # JSON has no number for what is infinite
            value = float(value)
        case "", dict() if form.kind == "map":
            value = sorted(map(list, value.items()))
        case _, dict() if isinstance(value.get("wkb"), str):
            value = value | {"wkb": b64decode(value["wkb"])}
    if form.kind == "float":
        value = [_float32(item) for item in value] if isinstance(value, list) else _float32(value)
    return canonical_delta_value(value)


def _decimal(unscaled: bytes | str, scale: int) -> Decimal:
    data = unscaled if isinstance(unscaled, bytes) else b64decode(unscaled)
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, EXACT)


_ISO = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(?:Z|\+00:00)?")


def days_and_micros(text: str) -> tuple[int, int]:
    """Days since 1970 and microseconds of the day of Java's text of a date or a moment, in any year of the proleptic Gregorian calendar."""
    found = _ISO.fullmatch(text)
    assert found is not None, text
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    cycles, year = divmod(year - 1, 400)
    days = dt.date(year + 1, month, day).toordinal() - EPOCH.toordinal() + cycles * 146_097
    seconds = int(found[4] or 0) * 3600 + int(found[5] or 0) * 60 + int(found[6] or 0)
    return days, seconds * 1_000_000 + int((found[7] or "").ljust(6, "0")[:6])


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


def _canonical(value: Any) -> Any:
    """The same value of another type is the same: a decimal of another scale, an array."""
    if isinstance(value, Decimal):
        return ("number", EXACT.add(EXACT.normalize(value), 0))
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return ("number", EXACT.normalize(Decimal(value)))
    if isinstance(value, float) and math.isnan(value):
        return "NaN"  # which is not equal to itself
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in sorted(value.items())}
    return value


def _hashable(value: Any) -> Any:
    return repr(_canonical(value)) if isinstance(value, dict | list) else value


def few(check: str, table: str, found: Iterable[str]) -> list[Problem]:
    texts = list(found)
    problems = [Problem(check, table, text) for text in texts[:EXAMPLES_MAX]]
    if len(texts) > EXAMPLES_MAX:
        problems.append(Problem(check, table, f"and {len(texts) - EXAMPLES_MAX} more"))
    return problems


def shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
