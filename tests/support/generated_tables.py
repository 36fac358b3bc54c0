"""Random tables of every column type with random values: their SQL, and the expected values.

Nothing here depends on how the log or a result set stores a value. A value is written as an SQL
literal and read as the server's own text (``Kind.select``). From that text, ``Kind.record`` gives
the record's value in the connector's modes, and ``Kind.oracle`` the expected value of
mysql-replication.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dblog.dialects.mysql.values.types import BIGINT_UNSIGNED_MODES, BINARY_MODES, DECIMAL_MODES, TIME_MODES, TypeModes

UNCHECKED = object()
"""Result of `Kind.oracle` for a value that mysql-replication reads differently: see EXCEPTIONS."""

EXCEPTIONS = {
    "vector": "its table map parser knows no VECTOR and reads the columns after it out of step",
    "uuid": "decodes the 16 stored bytes as UTF-8 text",
    "inet4": "decodes the 4 stored bytes as UTF-8 text",
    "inet6": "decodes the 16 stored bytes as UTF-8 text",
    "compressed": "knows no compressed columns",
    "charset": "knows a few character sets by the name of a Python codec, gives bytes or an error for the others, and another character for some",
    "impossible date": "lets datetime.date raise for a day such as 2021-02-31",
    "zero timestamp": "gives 1970-01-01 for the zero TIMESTAMP",
    "year 0": "gives 1900 for YEAR 0",
    "negative fraction": "takes sign and fraction of a negative TIME apart, which are one number",
    "binary padding": "gives BINARY(n) as the log stores it, without its trailing zero bytes",
    "empty bytes": "gives an empty text for empty bytes",
    "wide set": "reads the bits of a SET of more than 56 members as a signed number's",
    "json decimal": "gives the opaque values inside JSON (DECIMAL, DATE, TIME, DATETIME, BIT, BLOB) as raw bytes or fails",
}
"""Cases in which mysql-replication 1.0.17 is wrong or lacks a type.

SELECT, dump and log are compared with each other even there.
"""

CHARSETS_OF_ORACLE = frozenset({"utf8mb4", "utf8mb3", "ascii", "cp1250", "cp1251", "koi8r"})
"""Character sets that mysql-replication decodes alike; the others are the exception ``charset``."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A column type: its DDL, and functions that write, read and convert its values."""

    ddl: str
    literal: Callable[[random.Random], str]
    select: str = "CAST({c} AS CHAR)"
    record: Callable[[str, TypeModes], Any]
    """Converts the SELECT's text to the record's value.

    None means that a record has null, or ``zero`` in a NOT NULL column.
    """
    zero: Callable[[TypeModes], Any] = lambda _: None
    oracle: Callable[[str], Any] = lambda _: UNCHECKED
    exception: str | None = None
    """The reason why mysql-replication cannot read a table with this column at all."""
    keyable: bool = False
    beyond: bool = False
    """True if some values have no form in some modes, so that the column must be nullable."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A column of a generated table."""

    name: str
    kind: Kind
    nullable: bool
    suffix: str = ""
    given: bool = True
    """True if an INSERT names the column: not a generated one, not always one with a default."""


@dataclass(frozen=True, kw_only=True)
class MadeTable:
    """A generated table with the literals of its rows (None for a column that is not named)."""

    name: str
    columns: tuple[Made, ...]
    key: tuple[str, ...]
    modes: TypeModes
    rows: list[list[str]] = field(default_factory=list)

    @property
    def create(self) -> str:
        columns = [
            f"`{c.name}` {c.kind.ddl}{c.suffix}{'' if c.nullable or c.suffix.startswith(' GENERATED') else ' NOT NULL'}"
            for c in self.columns
        ]
        key = ", ".join(f"`{name}`" for name in self.key)
        return f"CREATE TABLE `{self.name}` (`id` int NOT NULL, {', '.join(columns)}, PRIMARY KEY ({key})) ROW_FORMAT=DYNAMIC"

    @property
    def insert(self) -> str:
        names = ["id", *(c.name for c in self.columns if c.given)]
        values = ", ".join("(" + ", ".join([str(i), *row]) + ")" for i, row in enumerate(self.rows))
        return f"INSERT INTO `{self.name}` ({', '.join(f'`{n}`' for n in names)}) VALUES {values}"

    @property
    def select(self) -> str:
        return f"SELECT id, {', '.join(c.kind.select.format(c=f'`{c.name}`') for c in self.columns)} FROM `{self.name}` ORDER BY id"

    @property
    def exception(self) -> str | None:
        return next((c.kind.exception for c in self.columns if c.kind.exception), None)


# --- numbers ---------------------------------------------------------------------------------------------------------

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def integer(chance: random.Random) -> Kind:
    name = chance.choice(sorted(_BITS))
    unsigned = chance.random() < 0.5
    low, high = (0, (1 << _BITS[name]) - 1) if unsigned else (-(1 << _BITS[name] - 1), (1 << _BITS[name] - 1) - 1)
    width = chance.choice(["", "", "(1)", "(9)"])

    def record(text: str, modes: TypeModes) -> Any:
        if name == "bigint" and unsigned and modes.bigint_unsigned_handling_mode == "precise":
            return Decimal(text)
        value = int(text)
        return value - (1 << 64) if value >= 1 << 63 else value

    return Kind(
        ddl=f"{name}{width}" + (chance.choice([" unsigned", " unsigned zerofill"]) if unsigned else ""),
        literal=lambda r: str(r.choice([low, high, 0, r.randint(low, high), r.randint(max(low, -200), min(high, 200))])),
        record=record,
        zero=lambda m: Decimal(0) if name == "bigint" and unsigned and m.bigint_unsigned_handling_mode == "precise" else 0,
        oracle=int,
        keyable=True,
    )


def approximate(chance: random.Random) -> Kind:
    ddl = chance.choice(
        ["float", "float", "double", "double", "float(9,3)", "double(12,4)", "real", "double precision", "float(30)", "float(20)"]
    )

    def literal(r: random.Random) -> str:
        if "," in ddl:
            return f"{r.uniform(-99999, 99999):.3f}"
        small = r.choice([0.0, 1.5, -0.1, 115340.77, r.uniform(-1e6, 1e6), r.uniform(-1, 1) * 10.0 ** r.randint(-30, 30)])
        return repr(
            small
            if ddl in ("float", "float(20)")
            else r.choice([small, 1.7976931348623157e308, r.gauss(0, 1) * 10.0 ** r.randint(-290, 290)])
        )

    return Kind(ddl=ddl, literal=literal, select="{c} + 0e0", record=lambda text, _: float(text), zero=lambda _: 0.0, oracle=float)


def decimal(chance: random.Random) -> Kind:
    precision = chance.choice([1, 5, 9, 10, 17, 18, 19, 30, 65, chance.randint(1, 65)])
    scale = chance.randint(0, min(precision, 30))
    name = chance.choice(["decimal", "numeric", "dec", "fixed"])

    def literal(r: random.Random) -> str:
        unscaled = r.choice([0, 1, 10**precision - 1, r.randrange(10**precision), r.randrange(10 ** r.randint(1, precision))])
        digits = str(unscaled).rjust(scale + 1, "0")
        text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return r.choice(["", "-"]) + text

    def record(text: str, modes: TypeModes) -> Any:
        match modes.decimal_handling_mode:
            case "double":
                return float(text)
            case "string":
                return text
        return Decimal(text)

    return Kind(
        ddl=f"{name}({precision},{scale})", literal=literal, record=record, zero=lambda m: record("0", m), oracle=Decimal, keyable=True
    )


def bit(chance: random.Random) -> Kind:
    width = chance.choice([1, 1, 7, 8, 9, 16, 33, 63, 64, chance.randint(1, 64)])

    def record(text: str, _: TypeModes) -> Any:
        return bool(int(text)) if width == 1 else int(text).to_bytes((width + 7) // 8, "little")

    return Kind(
        ddl=f"bit({width})",
        literal=lambda r: f"b'{r.choice([0, 1, (1 << width) - 1, r.getrandbits(width)]):b}'",
        select="CAST({c} + 0 AS CHAR)",
        record=record,
        oracle=lambda text: f"{int(text):0{width}b}",
    )


# --- times -----------------------------------------------------------------------------------------------------------

_EPOCH = dt.date(1970, 1, 1)
_IMPOSSIBLE = ["0000-00-00", "2020-00-10", "2020-02-00", "2021-02-31", "1900-02-29"]


def year(_: random.Random) -> Kind:
    return Kind(
        ddl="year",
        literal=lambda r: r.choice(["0", "1901", "2155", str(r.randint(1901, 2155)), f"'{r.randint(0, 99):02d}'"]),
        record=lambda text, _: int(text),
        oracle=lambda text: int(text) or UNCHECKED,  # year 0
    )


def _day(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _days(text: str) -> int | None:
    """Return the days since 1970, None for an impossible date.

    Year 0 is the leap year before year 1.
    """
    if text.startswith("0000-"):
        day = _day("0004" + text[4:])
        return None if day is None else (day - _EPOCH).days - 1461
    day = _day(text)
    return None if day is None else (day - _EPOCH).days


def _date_literal(r: random.Random, *, odd: bool) -> str:
    if odd and r.random() < 0.3:
        return r.choice(_IMPOSSIBLE)
    return r.choice(
        [
            "1000-01-01",
            "9999-12-31",
            "1969-12-31",
            "1970-01-01",
            "2024-02-29",
            (_EPOCH + dt.timedelta(r.randint(-350000, 2900000))).isoformat(),
        ]
    )


def date(chance: random.Random) -> Kind:
    odd = chance.random() < 0.3

    def record(text: str, modes: TypeModes) -> Any:
        days = _days(text)
        return f"{text}Z" if days is not None and modes.time_precision_mode == "isostring" else days

    return Kind(
        ddl="date",
        literal=lambda r: f"'{_date_literal(r, odd=odd)}'",
        record=record,
        zero=lambda m: record("1970-01-01", m),
        oracle=_day,
        exception="impossible date" if odd else None,
        keyable=not odd,
    )


def _micros(clock: str) -> int:
    match = re.fullmatch(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?", clock)
    assert match is not None, clock
    whole = (int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])) * 1_000_000 + int((match[5] or "").ljust(6, "0"))
    return -whole if match[1] else whole


def time(chance: random.Random) -> Kind:
    fsp = chance.randint(0, 6)
    beyond = chance.random() < 0.7

    def literal(r: random.Random) -> str:
        seconds = r.choice(
            [0, 1, 86399, 86400, 3020398, r.randrange(3020399), r.randrange(86400)] if beyond else [0, 86399, r.randrange(86400)]
        )
        fraction = f".{r.choice([0, 1, 10**fsp - 1, r.randrange(10**fsp)]):0{fsp}d}" if fsp else ""
        return f"'{r.choice(['', '', '-']) if beyond else ''}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}'"

    def record(text: str, modes: TypeModes) -> Any:
        micros = _micros(text)
        if modes.time_precision_mode in ("connect", "isostring") and not 0 <= micros <= 86_400_000_000:
            return None
        match modes.time_precision_mode:
            case "connect":
                return micros // 1000
            case "nanoseconds":
                return micros * 1000
            case "isostring":
                text = text.replace("24:", "00:", 1) if micros == 86_400_000_000 else text
                return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
        return micros

    def oracle(text: str) -> Any:
        micros = _micros(text)
        return UNCHECKED if micros < 0 and micros % 1_000_000 else dt.timedelta(microseconds=micros)  # negative fraction

    return Kind(
        ddl=f"time({fsp})" if fsp else "time",
        literal=literal,
        record=record,
        zero=lambda m: record("00:00:00", m),
        oracle=oracle,
        keyable=not beyond,
        beyond=beyond,
    )


def _clock_literal(r: random.Random, fsp: int) -> str:
    seconds = r.choice([0, 86399, r.randrange(86400)])
    fraction = f".{r.choice([0, 1, 10**fsp - 1, r.randrange(10**fsp)]):0{fsp}d}" if fsp else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def datetime(chance: random.Random) -> Kind:
    fsp = chance.randint(0, 6)
    odd = chance.random() < 0.3

    def record(text: str, modes: TypeModes) -> Any:
        days = _days(text[:10])
        if days is None:
            return None
        micros = days * 86_400_000_000 + _micros(text[11:])
        match modes.time_precision_mode:
            case "connect":
                return micros // 1000
            case "microseconds":
                return micros
            case "nanoseconds":
                return (micros * 1000 + (1 << 63)) % (1 << 64) - (1 << 63)
            case "isostring":
                return text[:10] + "T" + (text[11:].rstrip("0").rstrip(".") if "." in text else text[11:]) + "Z"
        return micros // 1000 if fsp <= 3 else micros

    return Kind(
        ddl=f"datetime({fsp})" if fsp else "datetime",
        literal=lambda r: f"'{_date_literal(r, odd=odd)} {_clock_literal(r, fsp)}'",
        record=record,
        zero=lambda m: record("1970-01-01 00:00:00", m),
        oracle=lambda text: None if _day(text[:10]) is None else dt.datetime.fromisoformat(text.ljust(26, "0") if fsp else text),
        keyable=not odd,
    )


def timestamp(chance: random.Random) -> Kind:
    fsp = chance.randint(0, 6)

    def literal(r: random.Random) -> str:
        if r.random() < 0.1:
            return "'0000-00-00 00:00:00'"
        seconds = r.choice([1, 2**31 - 1, r.randrange(1, 2**31 - 1)])
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)  # noqa: DTZ001 - the session's zone is UTC
        fraction = f".{r.choice([0, 1, 10**fsp - 1, r.randrange(10**fsp)]):0{fsp}d}" if fsp else ""
        return f"'{moment:%Y-%m-%d %H:%M:%S}{fraction}'"

    def record(text: str, _: TypeModes) -> Any:
        return None if text.startswith("0000-00-00") else f"{text[:10]}T{text[11:]}Z"

    def oracle(text: str) -> Any:
        return UNCHECKED if text.startswith("0000") else dt.datetime.fromisoformat(text.ljust(26, "0") if fsp else text)  # zero timestamp

    return Kind(ddl=f"timestamp({fsp}) NULL" if fsp else "timestamp NULL", literal=literal, record=record, oracle=oracle)


# --- text and bytes --------------------------------------------------------------------------------------------------

ALPHABETS = {
    "big5": "漢字編碼",
    "gb2312": "汉字编码",
    "gbk": "汉字編碼",
    "gb18030": "汉字😀ḿ",
    "sjis": "漢字かなｱ",
    "cp932": "漢字①ｱ～",
    "ujis": "漢字かなｱ",
    "eucjpms": "漢字①ｱ～ⅰ",
    "euckr": "한국어漢",
    "hebrew": "אבגד",
    "greek": "αβγΩ",
    "cp1251": "ПриветЁ№",
    "koi8r": "Привет",
    "koi8u": "Приветїє",
    "cp866": "Привет",
    "cp1256": "ابت",
    "tis620": "กขค",
    "armscii8": "ԱաԲ",
    "geostd8": "აბგ",
    "latin2": "łóšč",
    "cp1250": "łóšč",
    "cp852": "łóšč",
    "keybcs2": "šč",
    "macce": "łóšč",
    "latin7": "ąčę",
    "cp1257": "ąčę",
    "latin5": "ğışİ",
    "swe7": "åäöÅÄÖ",
    "ascii": "~^",
}
"""Characters of a character set besides plain letters and digits."""
ANYTHING = "äöß€éÿ漢字Жλ😀"
"""Characters of a Unicode character set (utf8mb3 and ucs2 lack the last one)."""


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _text_literal(r: random.Random, charset: str, length: int) -> str:
    """Return a literal of a text in the character set, and sometimes of other characters too.

    MySQL refuses characters outside the set only in strict mode.
    """
    unicode = charset.startswith("utf") or charset == "ucs2"
    alphabet = ANYTHING if unicode else ALPHABETS.get(charset, "äöüÿ")
    text = "".join(r.choice("abcXYZ 019_-\\\"'\t\n" + 2 * alphabet) for _ in range(r.randint(0, length)))
    return quoted(text)


def _decoded(text: str) -> str:
    return bytes.fromhex(text).decode()


def text_of(charset: str, collation: str, name: str, length: int | None) -> Kind:
    """Return the kind of a text column in a collation."""
    return Kind(
        ddl=f"{name}{'' if length is None else f'({length})'} CHARACTER SET {charset} COLLATE {collation}",
        literal=lambda r: _text_literal(r, charset, min(length or 40, 40)),
        select="HEX(CONVERT({c} USING utf8mb4))",
        record=lambda text, _: _decoded(text),
        oracle=_decoded,
        exception=None if charset in CHARSETS_OF_ORACLE else "charset",
    )


def text(chance: random.Random, collations: list[tuple[str, str]]) -> Kind:
    """Return a text column with the next collation of the list, so that every collation is used."""
    charset, collation = collations.pop()
    name = chance.choice(["char", "varchar", "varchar", "tinytext", "text", "mediumtext", "longtext"])
    return text_of(charset, collation, name, chance.choice([1, 5, 20, 63, 64, 85, 128, 200]) if "char" in name else None)


def compressed(chance: random.Random) -> Kind:
    """Return a compressed column of MariaDB, with empty, short and long values."""
    name = chance.choice(
        ["varchar(60)", "varchar(63)", "varchar(254)", "tinytext", "text", "longtext", "varbinary(300)", "blob", "mediumblob"]
    )
    charset = (
        "" if name.startswith(("varbinary", "blob", "mediumblob")) else chance.choice([" CHARACTER SET latin1", " CHARACTER SET utf8mb4"])
    )

    def literal(r: random.Random) -> str:
        text = r.choice(["", "a", "äöü", "abc" * r.randint(1, 20), "ß" * r.randint(1, 60)])
        return f"'{text}'"

    def record(text: str, modes: TypeModes) -> Any:
        return _decoded(text) if charset else binary_forms(bytes.fromhex(text), modes)

    return Kind(
        ddl=f"{name} COMPRESSED{charset}",
        literal=literal,
        select="HEX(CONVERT({c} USING utf8mb4))" if charset else "HEX({c})",
        record=record,
        exception="compressed",
    )


def binary_forms(raw: bytes, modes: TypeModes) -> Any:
    """Return bytes in the form that ``binary.handling.mode`` selects."""
    match modes.binary_handling_mode:
        case "base64":
            return b64encode(raw).decode()
        case "base64-url-safe":
            return urlsafe_b64encode(raw).decode()
        case "hex":
            return raw.hex()
    return raw


def binary(chance: random.Random) -> Kind:
    name = chance.choice(["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "char(20) character set binary"])
    length = chance.choice([1, 6, 16, 255] if name == "binary" else [20, 255, 256]) if name in ("binary", "varbinary") else None

    def record(text: str, modes: TypeModes) -> Any:
        return binary_forms(bytes.fromhex(text), modes)

    def oracle(text: str) -> Any:
        raw = bytes.fromhex(text)
        stored = raw.rstrip(b"\0") if name == "binary" else raw  # binary padding
        return stored if stored and not name.startswith("char") else UNCHECKED  # empty bytes

    return Kind(
        ddl=f"{name}({length})" if length else name,
        literal=lambda r: "''" if r.random() < 0.1 else f"x'{r.randbytes(r.randint(1, min(length or 20, 40))).hex()}'",
        select="HEX({c})",
        record=record,
        oracle=oracle,
    )


def members(chance: random.Random) -> Kind:
    kind = chance.choice(["enum", "set"])
    count = chance.choice([1, 3, 9, 64] if kind == "set" else [1, 3, 255, 256, 300])
    names = [f"m{i}" + chance.choice(["", "é", "'x", "ß 9"]) for i in range(count)]
    charset = chance.choice(["utf8mb4", "utf8mb4", "latin1", "utf16"])

    def literal(r: random.Random) -> str:
        if r.random() < 0.1:
            return "''"
        return quoted(r.choice(names) if kind == "enum" else ",".join(r.sample(names, r.randint(1, min(count, 5)))))

    def oracle(text: str) -> Any:
        value = _decoded(text)
        if kind == "enum":
            return value
        return UNCHECKED if count > 56 else set(value.split(",")) if value else None  # wide set

    return Kind(
        ddl=f"{kind}({', '.join(map(quoted, names))}) CHARACTER SET {charset}",
        literal=literal,
        select="HEX(CONVERT({c} USING utf8mb4))",
        record=lambda text, _: _decoded(text),
        oracle=oracle if charset == "utf8mb4" else lambda _: UNCHECKED,
        exception=None if charset == "utf8mb4" else "charset",
    )


# --- documents, shapes, addresses ------------------------------------------------------------------------------------

_SCALARS = [
    "1",
    "-1",
    "32768",
    "-2147483649",
    "18446744073709551615",
    "1.5",
    "-0.25",
    "1e100",
    "1e-7",
    "12345678.0",
    "0.0",
    '"tä😀"',
    '"q\\\\"\\\\n"',
    "true",
    "null",
]
_OPAQUE = [
    "CAST('2024-01-01 10:00:00' AS DATETIME)",
    "CAST('2024-01-01 10:00:00.250' AS DATETIME(3))",
    "'2024-01-01 10:00:00.000000'",
    "CAST('-10:11:12.5' AS TIME(1))",
    "'10:11:12.500000'",
    "CAST(123456789.1 AS DECIMAL(10,1))",
    "123456789.1E0",
    "CAST(0.00012 AS DECIMAL(10,5))",
    "1.2E-4",
    "CAST(1.10 AS DECIMAL(10,2))",
    "CAST(-12345678901234567890.123456789 AS DECIMAL(40,12))",
    "CAST('2024-02-29' AS DATE)",
    "x'00ff10'",
    "REPEAT(x'f0', 200)",
    "b'101'",
]


def document(chance: random.Random) -> Kind:
    """Return MySQL's JSON type; half of them with values that only SQL functions can create."""
    opaque = chance.random() < 0.5

    def value(r: random.Random, depth: int) -> str:
        if depth and r.random() < 0.4:
            return "[" + ",".join(value(r, depth - 1) for _ in range(r.randint(0, 4))) + "]"
        if depth and r.random() < 0.5:
            return (
                "{" + ",".join(f'"k{r.randint(0, 99)}{"é" * r.randint(0, 2)}":{value(r, depth - 1)}' for _ in range(r.randint(0, 4))) + "}"
            )
        return r.choice(_SCALARS)

    def literal(r: random.Random) -> str:
        if opaque:
            return f"JSON_OBJECT('a', {r.choice(_OPAQUE)}, 'b', JSON_ARRAY({r.choice(_OPAQUE)}, {r.choice(_OPAQUE)}))"
        return f"'{value(r, 3)}'"

    return Kind(
        ddl="json",
        literal=literal,
        record=lambda text, _: Json(json.loads(text)),
        oracle=lambda text: UNCHECKED if opaque else ByteJson(json.loads(text)),
        exception="json decimal" if opaque else None,
    )


class Json:
    """A JSON document: equal to each text with the same meaning, without blanks between tokens."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same_json(self.value, json.loads(other)) and (other == compact(other))

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


def compact(text: str) -> str:
    """Return the text without blanks outside strings."""
    return "".join(part if part.startswith('"') else part.replace(" ", "") for part in re.split(r'("(?:[^"\\]|\\.)*")', text))


def same_json(wanted: Any, got: Any) -> bool:
    """Return True if both are equal except for the fraction of temporal values.

    SELECT prints six digits of it, the log's text only the stored ones.
    """
    if isinstance(wanted, dict) and isinstance(got, dict):
        return list(wanted) == list(got) and all(same_json(wanted[k], got[k]) for k in wanted)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(map(same_json, wanted, got))
    if isinstance(wanted, str) and isinstance(got, str):
        if match := re.fullmatch(r"base64:type\d+:(.*)", wanted, re.DOTALL):
            return got == match[1].replace("\n", "")
        return got == wanted or (wanted.endswith(("0", ".")) and wanted.rstrip("0").rstrip(".") == got)
    # A double without a fraction, or one too large or small for plain digits, is printed by
    # Debezium as a whole number.
    return (type(wanted) is type(got) or isinstance(wanted, float)) and bool(wanted == got)


class ByteJson:
    """A JSON document in the form of mysql-replication, whose texts are bytes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return _texts(other) == self.value

    def __hash__(self) -> int:
        return 0


def _texts(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_texts(k): _texts(v) for k, v in value.items()}
    return [_texts(item) for item in value] if isinstance(value, list) else value


GEOMETRIES = {
    "point": ["POINT({} {})"],
    "linestring": ["LINESTRING(0 0,{} {})"],
    "polygon": ["POLYGON((0 0,{} 0,3 {},0 0))"],
    "multipoint": ["MULTIPOINT(0 0,{} {})"],
    "multilinestring": ["MULTILINESTRING((0 0,{} {}),(1 1,2 2))"],
    "multipolygon": ["MULTIPOLYGON(((0 0,{} 0,3 {},0 0)))"],
    "geometrycollection": ["GEOMETRYCOLLECTION(POINT({} {}),LINESTRING(0 0,1 1))"],
}
GEOMETRIES["geometry"] = [shape for shapes in GEOMETRIES.values() for shape in shapes]


def shape(chance: random.Random) -> Kind:
    name = chance.choice(sorted(GEOMETRIES))

    def record(text: str, _: TypeModes) -> Any:
        raw = bytes.fromhex(text)
        # The INSERT named no value, in a session without strict mode.
        if not raw:
            return None
        srid, wkb = struct.unpack("<i", raw[:4])[0] or None, raw[4:]
        if name != "point":
            return {"wkb": wkb, "srid": srid}
        x, y = struct.unpack("<dd", wkb[5:])
        return {"x": x, "y": y, "wkb": wkb, "srid": srid}

    def literal(r: random.Random) -> str:
        wkt = r.choice(GEOMETRIES[name]).format(r.choice([1, -2.5, 80.125]), r.choice([2, 0.1, 80]))
        return f"ST_GeomFromText('{wkt}', {r.choice([0, 0, 4326, 3857])})"

    return Kind(ddl=name, literal=literal, select="HEX({c})", record=record, oracle=bytes.fromhex)


def vector(chance: random.Random) -> Kind:
    size = chance.choice([1, 3, 16])

    def floats(text: str) -> list[float]:
        raw = bytes.fromhex(text)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))

    def literal(r: random.Random) -> str:
        return "STRING_TO_VECTOR('[" + ",".join(repr(r.uniform(-1e3, 1e3)) for _ in range(r.randint(1, size))) + "]')"

    return Kind(ddl=f"vector({size})", literal=literal, select="HEX({c})", record=lambda text, _: floats(text), exception="vector")


def uuid(_: random.Random) -> Kind:
    def literal(r: random.Random) -> str:
        text = r.randbytes(16).hex()
        version = r.choice(["0", "1", "3", "4", "5", "6", "7", "f", text[12]])
        text = r.choice([text[:12] + version + text[13:], "0" * 32, "f" * 32])
        return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'"

    return Kind(ddl="uuid", literal=literal, record=lambda text, _: text, exception="uuid")


def inet(chance: random.Random) -> Kind:
    name = chance.choice(["inet4", "inet6"])

    def literal(r: random.Random) -> str:
        if name == "inet4":
            return f"'{'.'.join(str(r.choice([0, 255, r.randrange(256)])) for _ in range(4))}'"
        groups = ":".join(f"{r.choice([0, 0, 0xFFFF, r.randrange(65536)]):x}" for _ in range(8))
        return f"'{r.choice([groups, groups, '::', '::1', '::ffff:1.2.3.4', '::1.2.3.4'])}'"

    return Kind(ddl=name, literal=literal, record=lambda text, _: text, exception=name)


# --- tables ----------------------------------------------------------------------------------------------------------

_COMMON: list[tuple[Callable[..., Kind], int]] = [
    (integer, 6), (approximate, 3), (decimal, 4), (bit, 2), (year, 1), (date, 2), (time, 3), (datetime, 3), (timestamp, 3), (text, 7), (binary, 3),
    (members, 3), (shape, 2),
]  # fmt: skip
_OWN = {"mysql": [(document, 4), (vector, 1)], "mariadb": [(uuid, 2), (inet, 2), (compressed, 3)]}


def makers_of(flavor: str) -> tuple[tuple[Callable[..., Kind], ...], tuple[int, ...]]:
    """Return the functions that make a random column type of a server, and their weights."""
    makers, weights = zip(*_COMMON, *_OWN[flavor], strict=True)
    return makers, weights


def modes(chance: random.Random) -> TypeModes:
    """Return a random combination of the handling modes."""
    return TypeModes(
        time_precision_mode=chance.choice(TIME_MODES),
        decimal_handling_mode=chance.choice(DECIMAL_MODES),
        bigint_unsigned_handling_mode=chance.choice(BIGINT_UNSIGNED_MODES),
        binary_handling_mode=chance.choice(BINARY_MODES),
    )


def generated(flavor: str, chance: random.Random, *, tables: int, rows: int, collations: list[tuple[str, str]]) -> list[MadeTable]:
    """Return ``tables`` random tables with ``rows`` rows each.

    ``collations`` are pairs (character set, collation), used in turn.
    """
    left: list[tuple[str, str]] = []
    makers, weights = makers_of(flavor)
    out = []
    for number in range(tables):
        columns: list[Made] = []
        # Types that mysql-replication cannot read are in the same tables, so that it can read most
        # tables.
        plain = number % 5 > 1
        while len(columns) < 9:
            if not left:
                left = list(collations)
                chance.shuffle(left)
            maker = chance.choices(makers, weights)[0]
            kind = maker(chance, left) if maker is text else maker(chance)
            if plain and kind.exception:
                continue
            nullable = chance.random() < 0.7 or "NULL" in kind.ddl or kind.beyond
            columns.append(Made(name=f"c{len(columns)}", kind=kind, nullable=nullable))
        columns.insert(chance.randint(0, 9), special_column(chance, flavor))
        table = MadeTable(name=f"t{number}", columns=tuple(columns), key=_key(chance, columns), modes=modes(chance))
        for _ in range(rows):
            table.rows.append(["NULL" if c.nullable and chance.random() < 0.1 else c.kind.literal(chance) for c in columns if c.given])
        out.append(table)
    return out


def _key(chance: random.Random, columns: list[Made]) -> tuple[str, ...]:
    able = [c.name for c in columns if c.kind.keyable and not c.nullable]
    return (chance.choice(able), "id") if able and chance.random() < 0.5 else ("id",)


def special_column(chance: random.Random, flavor: str) -> Made:
    """Return a generated column, an invisible one or one with an expression as default."""
    number = Kind(ddl="int", literal=lambda r: str(r.randrange(1000)), record=lambda text, _: int(text), oracle=int)
    match chance.randrange(4):
        case 0:
            return Made(name="x", kind=number, nullable=True, suffix=" GENERATED ALWAYS AS (`id` * 2 + 1) STORED", given=False)
        case 1:
            return Made(name="x", kind=number, nullable=True, suffix=" GENERATED ALWAYS AS (`id` * 3) VIRTUAL", given=False)
        case 2:
            suffix = " INVISIBLE DEFAULT 7" if flavor == "mariadb" else " DEFAULT 7 INVISIBLE"
            return Made(name="x", kind=number, nullable=True, suffix=suffix, given=chance.random() < 0.5)
        case _:
            return Made(name="x", kind=number, nullable=True, suffix=" DEFAULT (1 + 41)", given=False)
