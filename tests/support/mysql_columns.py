"""Random columns of every MySQL and MariaDB type, with random values as logged and as selected.

This is written from the protocol's description, independently of the code under test: it starts
from a value's meaning and builds the bytes.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dblog.model import Column
from hypothesis import strategies as st
from support.mysql_log import lenenc

ABSENT = object()
"""Marks an impossible value, such as an invalid date; a record has null or the column's zero."""


@dataclass(frozen=True)
class Cell:
    """A value: its bytes in a row image and in a result set, and its value in a record.

    The bytes include the length prefix.
    """

    log: bytes
    result: bytes
    value: Any


@dataclass(frozen=True)
class Kind:
    """A column without name and nullability, its cells' strategy, and its type in a table map."""

    make: Callable[[str, bool], Column]
    cells: st.SearchStrategy[Cell]
    code: int
    meta: bytes = b""


def _kind(type_text: str, cells: st.SearchStrategy[Cell], code: int, meta: bytes = b"", **more: Any) -> Kind:
    name = type_text.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]

    def make(column: str, nullable: bool) -> Column:
        return Column(name=column, type=name, type_text=type_text, nullable=nullable, unsigned="unsigned" in type_text, **more)

    return Kind(make, cells, code, meta)


# --- numbers ---------------------------------------------------------------------------------------------------------

_INTEGERS = {"tinyint": (1, 1, 1), "smallint": (2, 2, 2), "mediumint": (3, 4, 9), "int": (4, 4, 3), "bigint": (8, 8, 8)}


def integers(name: str, *, unsigned: bool) -> Kind:
    log_size, result_size, code = _INTEGERS[name]
    low, high = (0, (1 << 8 * log_size) - 1) if unsigned else (-(1 << 8 * log_size - 1), (1 << 8 * log_size - 1) - 1)

    def cell(value: int) -> Cell:
        meaning = value - (1 << 64) if value >= 1 << 63 else value
        return Cell(
            value.to_bytes(log_size, "little", signed=not unsigned), value.to_bytes(result_size, "little", signed=not unsigned), meaning
        )

    return _kind(f"{name} unsigned" if unsigned else name, st.integers(low, high).map(cell), code)


def floats() -> Kind:
    def cell(value: float) -> Cell:
        raw = struct.pack("<f", value)
        return Cell(raw, raw, value)

    return _kind("float", st.floats(width=32, allow_nan=False).map(cell), 4, b"\x04")


def wide_floats() -> Kind:
    """Return the kind FLOAT(M,D): four bytes in storage, a float64 in records."""

    def cell(value: float) -> Cell:
        raw = struct.pack("<f", value)
        return Cell(raw, raw, value)

    return _kind("float(7,2)", st.floats(width=32, allow_nan=False).map(cell), 4, b"\x04", length=7, scale=2)


def doubles() -> Kind:
    def cell(value: float) -> Cell:
        raw = struct.pack("<d", value)
        return Cell(raw, raw, value)

    return _kind("double", st.floats(allow_nan=False).map(cell), 5, b"\x08")


def packed_decimal(unscaled: int, precision: int, scale: int) -> bytes:
    """Return a decimal in MySQL's storage format.

    Nine digits make a group of four bytes, counted from the point outwards. The sign is the
    inverted top bit, and negative values are inverted.
    """
    sizes = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    digits = str(abs(unscaled)).rjust(precision, "0")
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    groups = []
    head = len(whole) % 9
    if head:
        groups.append(whole[:head])
    groups += [whole[i : i + 9] for i in range(head, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    out = bytearray()
    for group in groups:
        out += int(group).to_bytes(sizes[len(group)], "big")
    if unscaled < 0:
        out = bytearray(byte ^ 0xFF for byte in out)
    out[0] ^= 0x80
    return bytes(out)


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 38)))

    def cell(unscaled: int) -> Cell:
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        text = ("-" if unscaled < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)
        return Cell(packed_decimal(unscaled, precision, scale), _lenenc(text.encode()), Decimal(text))

    limit = 10**precision - 1
    cells = st.one_of(st.integers(-limit, limit), st.integers(max(-300, -limit), min(300, limit))).map(cell)
    return _kind(f"decimal({precision},{scale})", cells, 246, bytes([precision, scale]), length=precision, scale=scale)


@st.composite
def bits(draw: st.DrawFn) -> Kind:
    width = draw(st.integers(1, 64))
    size = (width + 7) // 8

    def cell(value: int) -> Cell:
        raw = value.to_bytes(size, "big")
        return Cell(raw, _lenenc(raw), bool(value) if width == 1 else value.to_bytes(size, "little"))

    meta = bytes([width % 8, width // 8])
    return _kind(f"bit({width})", st.integers(0, (1 << width) - 1).map(cell), 16, meta, length=width)


# --- times -----------------------------------------------------------------------------------------------------------


def years() -> Kind:
    def cell(year: int) -> Cell:
        return Cell(bytes([year - 1900 if year else 0]), struct.pack("<H", year), year)

    return _kind("year", st.one_of(st.just(0), st.integers(1901, 2155)).map(cell), 13)


_DAYS = st.one_of(
    st.dates().map(lambda d: (d.year, d.month, d.day)),
    st.sampled_from(
        [
            (0, 0, 0),
            (2020, 0, 10),
            (2020, 2, 0),
            (2021, 2, 29),
            (2020, 4, 31),
            (0, 2, 29),
            (0, 12, 31),
            (69, 2, 1),
            (70, 1, 1),
            (99, 12, 31),
            (100, 2, 28),
            (1900, 2, 29),
        ]
    ),
)


def _day_number(year: int, month: int, day: int) -> int | None:
    """Return Debezium's days since 1970 for a stored date, None if the date is impossible.

    Debezium reads years below 100 as two digits.
    """
    if year < 100:
        year += 2000 if year < 70 else 1900
    try:
        return (dt.date(year, month, day) - dt.date(1970, 1, 1)).days
    except ValueError:
        return None


def dates() -> Kind:
    def cell(ymd: tuple[int, int, int]) -> Cell:
        year, month, day = ymd
        number = _day_number(*ymd)
        result = struct.pack("<BHBB", 4, year, month, day) if any(ymd) else b"\0"
        return Cell((year << 9 | month << 5 | day).to_bytes(3, "little"), result, ABSENT if number is None else number)

    return _kind("date", _DAYS.map(cell), 10)


def _fraction(micros: int, fsp: int) -> bytes:
    """Return microseconds in the number of bytes that ``fsp`` digits need."""
    size = (fsp + 1) // 2
    return (micros // 10 ** (6 - 2 * size)).to_bytes(size, "big") if size else b""


@st.composite
def times(draw: st.DrawFn) -> Kind:
    fsp = draw(st.integers(0, 6))
    size = (fsp + 1) // 2

    def cell(units: int) -> Cell:
        micros = units * 10 ** (6 - fsp)
        seconds, fraction = divmod(abs(micros), 1_000_000)
        packed = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 8 * size
        packed |= fraction // 10 ** (6 - 2 * size)
        log = ((0x800000 << 8 * size) + (packed if micros >= 0 else -packed)).to_bytes(3 + size, "big")
        result = struct.pack("<BIBBB", micros < 0, seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60)
        if fraction:
            result += struct.pack("<I", fraction)
        return Cell(log, b"\0" if not micros else bytes([len(result)]) + result, micros)

    limit = 3_020_399 * 10**fsp
    cells = st.one_of(st.integers(-limit, limit), st.integers(-(10**fsp) - 1, 10**fsp + 1)).map(cell)
    return _kind(f"time({fsp})", cells, 19, bytes([fsp]), length=fsp)


_CLOCK = st.integers(0, 86_399_999_999)


def _packed_datetime(ymd: tuple[int, int, int], clock: int) -> bytes:
    seconds, micros = divmod(clock, 1_000_000)
    if not any(ymd) and not clock:
        return b"\0"
    raw = struct.pack("<HBB", *ymd)
    if clock:
        raw += bytes([seconds // 3600, seconds // 60 % 60, seconds % 60])
    if micros:
        raw += struct.pack("<I", micros)
    return bytes([len(raw)]) + raw


@st.composite
def datetimes(draw: st.DrawFn) -> Kind:
    fsp = draw(st.integers(0, 6))
    unit = 10 ** (6 - fsp)

    def cell(moment: tuple[tuple[int, int, int], int]) -> Cell:
        ymd, clock = moment
        clock -= clock % unit
        year, month, day = ymd
        seconds, micros = divmod(clock, 1_000_000)
        packed = (year * 13 + month) << 22 | day << 17 | seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
        log = (0x8000000000 + packed).to_bytes(5, "big") + _fraction(micros, fsp)
        number = _day_number(*ymd)
        value = ABSENT if number is None else (number * 86_400_000_000 + clock) // (1000 if fsp <= 3 else 1)
        return Cell(log, _packed_datetime(ymd, clock), value)

    return _kind(f"datetime({fsp})", st.tuples(_DAYS, _CLOCK).map(cell), 18, bytes([fsp]), length=fsp)


@st.composite
def timestamps(draw: st.DrawFn) -> Kind:
    fsp = draw(st.integers(0, 6))

    def cell(units: int) -> Cell:
        seconds, units = divmod(units, 10**fsp)
        micros = units * 10 ** (6 - fsp)
        log = seconds.to_bytes(4, "big") + _fraction(micros, fsp)
        if seconds == 0:
            return Cell((0).to_bytes(len(log), "big"), b"\0", ABSENT)
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        ymd = (moment.year, moment.month, moment.day)
        clock = (moment.hour * 3600 + moment.minute * 60 + moment.second) * 1_000_000 + micros
        text = moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{micros:06d}"[: fsp + 1] if fsp else "") + "Z"
        return Cell(log, _packed_datetime(ymd, clock), text)

    return _kind(f"timestamp({fsp})", st.integers(0, (2**32 - 1) * 10**fsp).map(cell), 17, bytes([fsp]), length=fsp)


# --- text and bytes --------------------------------------------------------------------------------------------------


def _lenenc(raw: bytes) -> bytes:
    return lenenc(len(raw)) + raw


_UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_BMP = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=12)
CHARSETS = {
    "utf8mb4": (4, "utf-8", _UNICODE),
    "utf8mb3": (3, "utf-8", _BMP),
    "ascii": (1, "ascii", st.text(st.characters(max_codepoint=0x7F), max_size=20)),
    "latin1": (1, "cp1252", st.text(st.sampled_from("aZ 09äöüß€éÿ" + "\t\n\x7f"), max_size=20)),
    "cp1251": (1, "cp1251", st.text(st.sampled_from("abПриветЁ№ "), max_size=20)),
    "koi8r": (1, "koi8_r", st.text(st.sampled_from("abПривет "), max_size=20)),
    "gbk": (2, "gbk", st.text(st.sampled_from("ab汉字编码 "), max_size=10)),
    "sjis": (2, "shift_jis", st.text(st.sampled_from("ab漢字かな "), max_size=10)),
    "utf16": (4, "utf_16_be", _UNICODE),
    "utf32": (4, "utf_32_be", _UNICODE),
    "ucs2": (2, "utf_16_be", st.text(st.sampled_from("abäß漢字 "), max_size=10)),
}


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    charset = draw(st.sampled_from(sorted(CHARSETS)))
    width, codec, strategy = CHARSETS[charset]
    name = draw(st.sampled_from(["char", "varchar", "tinytext", "text", "mediumtext", "longtext"]))
    length = draw(st.sampled_from([12, 20, 63, 64, 85, 86, 255])) if name in ("char", "varchar") else None
    blob_prefix = {"tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}
    prefix = blob_prefix[name] if length is None else 1 if length * width < 256 else 2

    def cell(text: str) -> Cell:
        text = text[: length or 12]
        if name == "char":
            text = text.rstrip(" ")
        raw = text.encode(codec)
        return Cell(len(raw).to_bytes(prefix, "little") + raw, _lenenc(text.encode()), text)

    if name == "char":
        size = length * width
        code, meta = 254, bytes([0xFE ^ ((size & 0x300) >> 4), size & 0xFF])
    elif name == "varchar":
        code, meta = 15, struct.pack("<H", length * width)
    else:
        code, meta = 252, bytes([prefix])
    type_text = f"{name}({length})" if length else name
    return _kind(type_text, strategy.map(cell), code, meta, length=length, charset=charset)


@st.composite
def binaries(draw: st.DrawFn) -> Kind:
    name = draw(st.sampled_from(["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"]))
    length = draw(st.sampled_from([1, 6, 16, 255] if name == "binary" else [20, 255, 256])) if "binary" in name else None
    blob_prefix = {"tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4}
    prefix = blob_prefix[name] if length is None else 1 if length < 256 else 2

    def cell(raw: bytes) -> Cell:
        raw = raw[: length or 30]
        value = raw.ljust(length, b"\0") if name == "binary" else raw
        stored = value.rstrip(b"\0") if name == "binary" else raw
        return Cell(len(stored).to_bytes(prefix, "little") + stored, _lenenc(value), value)

    code, meta = 252, bytes([prefix])
    if name == "binary":
        code, meta = 254, bytes([0xFE, length])
    elif name == "varbinary":
        code, meta = 15, struct.pack("<H", length)
    return _kind(f"{name}({length})" if length else name, st.binary(max_size=30).map(cell), code, meta, length=length)


@st.composite
def enums(draw: st.DrawFn) -> Kind:
    count = draw(st.sampled_from([1, 3, 255, 256, 300]))
    members = tuple(f"m{i}é" for i in range(count))
    size = 1 if count < 256 else 2

    def cell(index: int) -> Cell:
        text = members[index - 1] if index else ""
        return Cell(index.to_bytes(size, "little"), _lenenc(text.encode()), text)

    cells = st.integers(0, count).map(cell)
    return _kind("enum('m')", cells, 254, bytes([247, size]), members=members, charset="utf8mb4")


@st.composite
def sets(draw: st.DrawFn) -> Kind:
    count = draw(st.sampled_from([1, 8, 9, 17, 24, 25, 33, 64]))
    members = tuple(f"m{i}é" for i in range(count))
    size = 8 if count > 32 else (count + 7) // 8

    def cell(value: int) -> Cell:
        text = ",".join(member for i, member in enumerate(members) if value >> i & 1)
        return Cell(value.to_bytes(size, "little"), _lenenc(text.encode()), text)

    cells = st.integers(0, (1 << count) - 1).map(cell)
    return _kind("set('m')", cells, 254, bytes([248, size]), members=members, charset="utf8mb4")


def points() -> Kind:
    def cell(given: tuple[float, float, int]) -> Cell:
        x, y, srid = given
        wkb = struct.pack("<BIdd", 1, 1, x, y)
        raw = struct.pack("<I", srid) + wkb
        value = {"x": x, "y": y, "wkb": wkb, "srid": srid or None}
        return Cell(struct.pack("<I", len(raw)) + raw, _lenenc(raw), value)

    number = st.floats(allow_nan=False)
    return _kind("point", st.tuples(number, number, st.sampled_from([0, 4326])).map(cell), 255, b"\x04")


def geometries() -> Kind:
    def cell(given: tuple[bytes, int]) -> Cell:
        wkb, srid = given
        raw = struct.pack("<I", srid) + wkb
        return Cell(struct.pack("<I", len(raw)) + raw, _lenenc(raw), {"wkb": wkb, "srid": srid or None})

    return _kind("geometry", st.tuples(st.binary(min_size=5, max_size=40), st.sampled_from([0, 4326])).map(cell), 255, b"\x04")


def vectors() -> Kind:
    def cell(numbers: list[float]) -> Cell:
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        return Cell(struct.pack("<I", len(raw)) + raw, _lenenc(raw), numbers)

    return _kind("vector(8)", st.lists(st.floats(width=32, allow_nan=False), max_size=8).map(cell), 242, b"\x04")


# --- JSON ------------------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.sampled_from([0.5, -1.25, 100.0, 0.001, 1234567.5, 1e20, 1.5e-10, -0.0]),
        _UNICODE,
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_UNICODE, inner, max_size=4),
    max_leaves=8,
)


def binary_json(value: Any, *, large: bool = False) -> bytes:
    """Return a document as MySQL stores it: a type byte, then the value."""
    code, body = _json_value(value, large=large)
    return bytes([code]) + body


def _json_value(value: Any, *, large: bool) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return _json_integer(value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        raw = value.encode()
        return 12, _json_length(len(raw)) + raw
    return (1 if large else 0) + (2 if isinstance(value, list) else 0), _json_container(value, large=large)


def _json_integer(value: int) -> tuple[int, bytes]:
    for code, form, low, high in (
        (5, "<h", -(2**15), 2**15 - 1),
        (6, "<H", 0, 2**16 - 1),
        (7, "<i", -(2**31), 2**31 - 1),
        (8, "<I", 0, 2**32 - 1),
        (9, "<q", -(2**63), 2**63 - 1),
    ):
        if low <= value <= high:
            return code, struct.pack(form, value)
    return 10, struct.pack("<Q", value)


def _json_length(length: int) -> bytes:
    out = b""
    while length > 0x7F:
        out += bytes([length & 0x7F | 0x80])
        length >>= 7
    return out + bytes([length])


def sorted_json(value: Any) -> Any:
    """Return the value with members in MySQL's order: by the key's length, then by its bytes."""
    if isinstance(value, dict):
        return {k: sorted_json(value[k]) for k in sorted(value, key=lambda k: (len(k.encode()), k.encode()))}
    return [sorted_json(item) for item in value] if isinstance(value, list) else value


def _json_container(value: Any, *, large: bool) -> bytes:
    width, form = (4, "<I") if large else (2, "<H")
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    members = list(value.values()) if isinstance(value, dict) else value
    at = 2 * width + (width + 2) * len(keys) + (width + 1) * len(members)
    head, tail = b"", b""
    for key in keys:
        head += struct.pack(form, at) + struct.pack("<H", len(key))
        tail += key
        at += len(key)
    for member in members:
        code, body = _json_value(member, large=large)
        head += bytes([code])
        if code in (4, 5, 6) or (large and code in (7, 8)):
            head += body.ljust(width, b"\xff" if code == 5 and body[-1] & 0x80 else b"\0")
        else:
            head += struct.pack(form, at)
            tail += body
            at += len(body)
    return struct.pack(form, len(members)) + struct.pack(form, at) + head + tail


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def json_text(value: Any, *, blank: str = "") -> str:
    """Return compact text, as Debezium's log reader writes it.

    With a blank it is as MySQL prints it, except for doubles (see ``json``).
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04X}" if c < " " else c) for c in value) + '"'
    if isinstance(value, list):
        return "[" + f",{blank}".join(json_text(item, blank=blank) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + f",{blank}".join(f"{json_text(k)}:{blank}{json_text(v, blank=blank)}" for k, v in value.items()) + "}"
    if isinstance(value, float):
        if blank:
            return repr(value).replace("e+", "e")
        return repr(value) if value == 0 or 1e-3 <= abs(value) < 1e7 else f"{Decimal(value):f}"
    return str(value)


def documents() -> Kind:
    def cell(given: tuple[Any, bool]) -> Cell:
        value, large = sorted_json(given[0]), given[1]
        raw = binary_json(value, large=large)
        text = json_text(value)
        return Cell(struct.pack("<I", len(raw)) + raw, _lenenc(json_text(value, blank=" ").encode()), text)

    return _kind("json", st.tuples(_JSON, st.booleans()).map(cell), 245, b"\x04")


# --- MariaDB's own ---------------------------------------------------------------------------------------------------


def uuids() -> Kind:
    def cell(value: Any) -> Cell:
        raw = value.bytes
        version_one_to_five = 0 < raw[6] < 0x60 and raw[8] & 0x80
        stored = raw[10:16] + raw[8:10] + raw[6:8] + raw[4:6] + raw[0:4] if version_one_to_five else raw
        return Cell(bytes([len(stored)]) + stored, _lenenc(str(value).encode()), str(value))

    cells = st.one_of(*[st.uuids(version=v) for v in (1, 2, 3, 4, 5)]).map(cell)
    return _kind("uuid", cells, 254, b"\xfe\x10")


def kinds() -> st.SearchStrategy[Kind]:
    """Return a strategy for any kind of column of both servers or of MySQL."""
    return st.one_of(
        st.builds(integers, st.sampled_from(sorted(_INTEGERS)), unsigned=st.booleans()),
        st.sampled_from([floats(), wide_floats(), doubles(), years(), dates(), points(), geometries(), vectors(), documents()]),
        decimals(),
        bits(),
        times(),
        datetimes(),
        timestamps(),
        texts(),
        binaries(),
        enums(),
        sets(),
    )
