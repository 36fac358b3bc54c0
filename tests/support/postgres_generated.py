"""Columns of every family of PostgreSQL's types, with random values, and their conversion back.

Nothing here depends on how the log or a line of COPY represents a value. A value is written as an
SQL expression; ``Kind.back`` turns the record's value into an expression for a column, and the
server compares the two. If a handling mode loses information (a numeric as a double), ``Kind.kept``
says in SQL what remains.
"""

from __future__ import annotations

import json
import random
import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dblog.dialects.postgres.values.modes import TypeModes

PREPARATION = (
    *(f"CREATE EXTENSION {name}" for name in ("hstore", "citext", "ltree", "isn", "postgis")),
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'a,b', 'Happy \"one\"')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE TYPE floats AS RANGE (subtype = float8)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN short AS varchar(5)",
    "CREATE DOMAIN shorter AS short",
    "CREATE DOMAIN price AS numeric(8,3)",
    "CREATE DOMAIN feeling AS mood",
    "CREATE DOMAIN numbers AS int[]",
)
"""Statements that prepare a database for these columns."""

Literal = Callable[[random.Random], str]
Back = Callable[[Any, TypeModes], str]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A column type.

    ``kept`` is (type, expression over ``c``) of the value that a record holds. ``unfit`` is the
    condition over ``c`` for values that a record cannot hold.
    """

    ddl: str
    literal: Literal
    back: Back
    kept: Callable[[TypeModes], tuple[str, str]] | None = None
    unfit: Callable[[TypeModes], str | None] = lambda _: None
    known: Callable[[TypeModes], bool] = lambda _: True
    """True if records have the column at all."""
    keyable: bool = False


def text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def typed(ddl: str) -> Callable[[str], str]:
    return lambda value: f"{text(value)}::{ddl}"


# --- what a record has, as SQL ---------------------------------------------------------------------------------------


def plain(ddl: str) -> Back:
    """Return the conversion of a number or a text that the type's input accepts."""
    return lambda value, _: f"{text(str(value))}::{ddl}"


def of_bytes(value: Any, modes: TypeModes) -> bytes:
    match modes.binary_handling_mode:
        case "base64":
            return b64decode(value)
        case "base64-url-safe":
            return urlsafe_b64decode(value)
        case "hex":
            return bytes.fromhex(value)
        case _:
            assert isinstance(value, bytes)
            return value


def unknown(ddl: str) -> Back:
    """Return the conversion of the text's bytes, as records have for unknown types."""
    return lambda value, modes: f"{text(of_bytes(value, modes).decode())}::{ddl}"


def of_numeric(scale: int | None) -> Back:
    def back(value: Any, modes: TypeModes) -> str:
        if modes.decimal_handling_mode == "string":
            special = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
            return f"'{special.get(value, value)}'::numeric"
        if modes.decimal_handling_mode == "double":
            return f"'{value!r}'::float8"
        digits, unscaled = (value["scale"], value["value"]) if scale is None else (scale, value)
        return f"'{int.from_bytes(unscaled, 'big', signed=True)}e-{digits}'::numeric"

    return back


def kept_numeric(*, variable: bool) -> Callable[[TypeModes], tuple[str, str]]:
    def kept(modes: TypeModes) -> tuple[str, str]:
        if modes.decimal_handling_mode == "double":
            return "float8", "{c}::float8"
        return "numeric", "trim_scale({c})" if variable and modes.decimal_handling_mode == "precise" else "{c}"

    return kept


INFINITE_DATES = {-2147472692: "infinity", -2147472691: "-infinity", "-5877611-06-21Z": "infinity", "-5877611-06-22Z": "-infinity"}
"""Days of the two infinities, as Debezium's driver counts them (LocalDate.of(-5877611, 6,
21).toEpochDay()).
"""
INFINITE_MICROS = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}
INFINITE_NANOS = {(1 << 63) - 1: "infinity", -(1 << 63): "-infinity"}
INFINITE_TEXTS = {"+294247-01-10T04:00:25.2Z": "infinity", "-290308-12-21T19:59:27.6Z": "-infinity"}
MILLIS = 3
_ISO = re.compile(r"([+-]?\d+)(-\d\d-\d\d)(?:T([\d:.]+))?(?:Z|\+00:00)?")


def iso_moment(value: str, ddl: str) -> str:
    """Return SQL for Java's text of a date or timestamp. The year 0 is 1 BC."""
    found = _ISO.fullmatch(value)
    assert found is not None, value
    year = int(found[1])
    clock = f" {found[3]}" if found[3] else ""
    era = " BC" if year <= 0 else ""
    zone = "+00" if ddl == "timestamptz" and clock else ""
    return f"'{1 - year if year <= 0 else year:04d}{found[2]}{clock}{zone}{era}'::{ddl}"


def of_date(value: Any, _: TypeModes) -> str:
    if value in INFINITE_DATES:
        return f"'{INFINITE_DATES[value]}'::date"
    return iso_moment(value, "date") if isinstance(value, str) else f"(date '1970-01-01' + {value})"


def clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"time '{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}'"


def of_time(digits: int) -> Back:
    def back(value: Any, modes: TypeModes) -> str:
        if isinstance(value, str):
            return f"time '{value.removesuffix('Z')}'"
        return clock(value * 1000 if in_millis(modes, digits) else value // 1000 if modes.time_precision_mode == "nanoseconds" else value)

    return back


def in_millis(modes: TypeModes, digits: int) -> bool:
    return modes.time_precision_mode == "connect" or (modes.time_precision_mode == "adaptive" and digits <= MILLIS)


def kept_time(modes: TypeModes) -> tuple[str, str]:
    """Return what remains of a time: Java's text has no 24:00, milliseconds no microseconds."""
    match modes.time_precision_mode:
        case "isostring":
            return "time", "CASE WHEN {c} = '24:00' THEN '00:00' ELSE {c} END"
        case "connect":
            return "time", "CASE WHEN {c} = '24:00' THEN {c} ELSE date_trunc('milliseconds', {c})::time END"
        case _:
            return "time", "{c}"


def of_timestamp(digits: int) -> Back:
    def back(value: Any, modes: TypeModes) -> str:
        if isinstance(value, str):
            return f"'{INFINITE_TEXTS[value]}'::timestamp" if value in INFINITE_TEXTS else iso_moment(value, "timestamp")
        if modes.time_precision_mode == "nanoseconds":
            if value in INFINITE_NANOS:
                return f"'{INFINITE_NANOS[value]}'::timestamp"
            value //= 1000
        elif in_millis(modes, digits) or (modes.time_precision_mode == "adaptive_time_microseconds" and digits <= MILLIS):
            value *= 1000
        if value in INFINITE_MICROS:
            return f"'{INFINITE_MICROS[value]}'::timestamp"
        days, rest = divmod(value, 86_400_000_000)
        return f"((date '1970-01-01' + {days}) + {clock(rest)})"

    return back


def kept_timestamp(modes: TypeModes) -> tuple[str, str]:
    return "timestamp", "date_trunc('milliseconds', {c})" if modes.time_precision_mode == "connect" else "{c}"


def unfit_timestamp(modes: TypeModes) -> str | None:
    if modes.time_precision_mode != "nanoseconds":
        return None
    return "isfinite({c}) AND NOT {c} BETWEEN '1677-09-22' AND '2262-04-11 23:47:16.854775'"


def of_timestamptz(value: Any, _: TypeModes) -> str:
    return f"'{value}'::timestamptz" if value.endswith("infinity") else iso_moment(value, "timestamptz")


def of_interval(value: Any, modes: TypeModes) -> str:
    if modes.interval_handling_mode == "numeric":
        return f"{value}::bigint"
    found = re.fullmatch(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?)([\d.]+)S", value)
    assert found is not None, value
    names = ("years", "mons", "days", "hours", "mins", "secs")
    numbers = (*found.groups()[:5], found[6] + found[7])
    return "'" + " ".join(f"{number} {name}" for number, name in zip(numbers, names, strict=True)) + "'::interval"


_SECOND = "extract(second FROM {c})"
_SECOND = f"(trunc({_SECOND})::float8 + (({_SECOND} - trunc({_SECOND})) * 1000000)::float8 / 1e6)"
_DAYS = "((extract(year FROM {c}) * 12 + extract(month FROM {c}))::float8 * 30.4375::float8 + extract(day FROM {c})::float8)"
_HOURS = f"({_DAYS} * 24 + extract(hour FROM {{c}})::float8)"
_SECONDS = f"(({_HOURS} * 60 + extract(minute FROM {{c}})::float8) * 60 + {_SECOND})"


def kept_interval(modes: TypeModes) -> tuple[str, str]:
    """Return what remains of an interval; a month is 30.4375 days
    (io.debezium.time.MicroDuration).
    """
    return ("interval", "{c}") if modes.interval_handling_mode == "string" else ("bigint", f"trunc({_SECONDS} * 1e6)")


def of_hstore(value: Any, modes: TypeModes) -> str:
    entries: Mapping[str, str | None] = json.loads(value) if modes.hstore_handling_mode == "json" else dict(value)
    if not entries:
        return "''::hstore"
    values = ", ".join("NULL" if one is None else text(one) for one in entries.values())
    return f"hstore(ARRAY[{', '.join(map(text, entries))}]::text[], ARRAY[{values}]::text[])"


def of_bits(length: int) -> Back:
    def back(value: Any, _: TypeModes) -> str:
        number = int(value) if isinstance(value, bool) else int.from_bytes(value, "little")
        return f"B'{number:0{length}b}'"

    return back


def of_number_of_bits(value: Any, _: TypeModes) -> str:
    number = int(value) if isinstance(value, bool) else int.from_bytes(value, "little")
    return f"'{number:b}'" if number else "''"


def of_geometry(ddl: str) -> Back:
    def back(value: Any, _: TypeModes) -> str:
        assert value["srid"] in (None, 4326, 3857)
        return f"'{value['wkb'].hex()}'::{ddl}"

    return back


def of_point(value: Any, _: TypeModes) -> str:
    return f"point('{value['x']!r}'::float8, '{value['y']!r}'::float8)"


# --- values ----------------------------------------------------------------------------------------------------------

_CHARACTERS = ["a", "Z", " ", "\t", "\n", "\r", '"', "\\", "{", "}", ",", ";", ":", "=", ">", "'", "NULL", "ž", "\U0001f600", "\x01", "\x7f", "%", "\\N", "\\.", "(", ")", "\b", "\v", "\f"]  # fmt: skip


_AS_MAP = TypeModes(hstore_handling_mode="map")


def words(r: random.Random, longest: int = 6) -> str:
    return "".join(r.choice(_CHARACTERS) for _ in range(r.randint(0, longest)))


def random_text(r: random.Random) -> str:
    return words(r, r.choice([0, 3, 12])) if r.random() < 0.97 else words(r) + "x" * r.choice([127, 128, 600])


def decimal(r: random.Random, digits: int, scale: int) -> str:
    number = r.choice([0, 10**digits - 1, r.randrange(10 ** r.randint(0, digits)), r.randrange(10 ** r.randint(0, digits))])
    shown = f"{number:0{max(scale, 0) + 1}d}" + "0" * max(-scale, 0)
    return ("-" if r.random() < 0.5 else "") + (f"{shown[:-scale]}.{shown[-scale:]}" if scale > 0 else shown)


def any_numeric(r: random.Random) -> str:
    if r.random() < 0.1:
        return r.choice(["NaN", "Infinity", "-Infinity"])
    return decimal(r, r.randint(1, 60), r.randint(0, 30)) if r.random() < 0.8 else f"{r.randint(-9, 9)}e{r.randint(-80, 120)}"


def real(r: random.Random) -> str:
    if r.random() < 0.15:
        return r.choice(["NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38"])
    return repr(r.uniform(-10, 10) * 10 ** r.randint(-30, 30))


def double(r: random.Random) -> str:
    if r.random() < 0.15:
        return r.choice(["NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308"])
    return repr(r.uniform(-10, 10) * 10.0 ** r.randint(-300, 300))


def usual_day(r: random.Random) -> str:
    return f"(date '2000-01-01' + {r.choice([r.randint(-9999, 9999), r.randint(-2_400_000, 3_000_000)])})"


def day(r: random.Random) -> str:
    if r.random() < 0.1:
        return r.choice(["'infinity'::date", "'-infinity'::date", "'4713-01-01 BC'::date", "'5874897-12-31'::date"])
    return usual_day(r)


def time_of_day(r: random.Random) -> str:
    return "time '24:00'" if r.random() < 0.05 else clock(r.choice([r.randrange(86_400_000_000), r.randrange(86_400) * 1_000_000]))


def moment(r: random.Random) -> str:
    if r.random() < 0.1:
        return r.choice(
            ["'infinity'::timestamp", "'-infinity'::timestamp", "'4713-01-01 BC'::timestamp", "'0044-03-15 01:02:03 BC'::timestamp"]
        )
    days = r.choice([r.randint(-9999, 9999), r.randint(-2_400_000, 3_000_000)])
    return f"((date '2000-01-01' + {days}) + {clock(r.choice([r.randrange(86_400_000_000), r.randrange(86_400) * 1_000_000, 0]))})"


def span(r: random.Random) -> str:
    parts = [(name, r.randint(-most, most)) for name, most in (("mons", 900), ("days", 900), ("secs", 10**6)) if r.random() < 0.6]
    micros = r.choice([0, r.randint(-999_999, 999_999)])
    return "(interval '" + " ".join(f"{n} {name}" for name, n in parts) + f" {micros} microseconds')"


def document(r: random.Random, depth: int = 2) -> Any:
    if depth and r.random() < 0.6:
        if r.random() < 0.5:
            return [document(r, depth - 1) for _ in range(r.randint(0, 3))]
        return {re.sub("[\x00-\x1f]", "", words(r, 3)): document(r, depth - 1) for _ in range(r.randint(0, 3))}
    return r.choice([None, True, r.randint(-(10**18), 10**18), 0.1, words(r), "", 1e300])


def network(r: random.Random) -> str:
    mask = r.choice([8, 16, 24, 32])
    if r.random() < 0.3:
        return f"'2001:db8::{r.randrange(1 << 16):x}/{r.choice([64, 128])}'"
    return f"'{r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)}/{mask}'"


def between(r: random.Random, lower: str, upper: str, ddl: str) -> str:
    if r.random() < 0.1:
        return f"'empty'::{ddl}"
    bounds = f"{r.choice('([')}{r.choice(')]')}"
    low = "NULL" if r.random() < 0.1 else f"least({lower}, {upper})"
    high = "NULL" if r.random() < 0.1 else f"greatest({lower}, {upper})"
    return f"{ddl}({low}, {high}, '{bounds}')"


def bits(r: random.Random, length: int) -> str:
    return "B'" + "".join(r.choice("01") for _ in range(length)) + "'"


def shape(r: random.Random) -> str:
    def pair() -> str:
        return f"{r.uniform(-180, 180)!r} {r.uniform(-90, 90)!r}"

    points = [pair() for _ in range(r.randint(3, 5))]
    shown = r.choice(
        [
            f"POINT({pair()})",
            f"LINESTRING({', '.join(points)})",
            f"POLYGON(({', '.join([*points, points[0]])}))",
            "GEOMETRYCOLLECTION EMPTY",
            "POINT Z (1 2 3)",
        ]
    )
    return f"'{r.choice(['', 'SRID=4326;', 'SRID=3857;'])}{shown}'"


def number_pair(r: random.Random) -> str:
    return f"({r.choice(['1', '-0.5', '1e300', repr(r.uniform(-1e6, 1e6))])},{r.choice(['0', '1e-300', repr(r.uniform(-1, 1))])})"


def listed(element: Kind, ddl: str) -> Literal:
    """Return the literal of an array; one in fifty has two dimensions."""

    def literal(r: random.Random) -> str:
        members = ["NULL" if r.random() < 0.15 else element.literal(r) for _ in range(r.choice([0, 1, 2, 5]))]
        if members and r.random() < 0.02:
            return f"ARRAY[ARRAY[{members[0]}]]::{ddl}"
        return f"ARRAY[{', '.join(members)}]::{ddl}"

    return literal


def array(element: Kind, ddl: str, *, required: bool = False, known: Callable[[TypeModes], bool] | None = None) -> Kind:
    """Return the kind of an array.

    With ``required``, its elements cannot be NULL in Debezium's schema.
    """

    def back(value: Any, modes: TypeModes) -> str:
        of, _ = (element.ddl, "") if element.kept is None else element.kept(modes)
        members = ", ".join("NULL" if one is None else element.back(one, modes) for one in value)
        return f"ARRAY[{members}]::{of}[]"

    def kept(modes: TypeModes) -> tuple[str, str]:
        if element.kept is None:
            return ddl, "{c}"
        of, expression = element.kept(modes)
        return f"{of}[]", f"CASE WHEN {{c}} IS NOT NULL THEN ARRAY(SELECT ({expression.format(c='e')})::{of} FROM unnest({{c}}) e) END"

    def unfit(modes: TypeModes) -> str:
        of = element.unfit(modes)
        conditions = ["array_ndims({c}) > 1"]
        if required:
            conditions.append("array_position({c}, NULL) IS NOT NULL")
        if of is not None:
            conditions.append(f"EXISTS (SELECT FROM unnest({{c}}) e WHERE {of.format(c='e')})")
        return " OR ".join(f"coalesce({one}, false)" for one in conditions)

    return Kind(ddl=ddl, literal=listed(element, ddl), back=back, kept=kept, unfit=unfit, known=known or element.known)


# --- the kinds -------------------------------------------------------------------------------------------------------


def not_finite(modes: TypeModes) -> str | None:
    """Return the condition for NaN and the infinities, which a decimal does not have."""
    return "{c}::text IN ('NaN', 'Infinity', '-Infinity')" if modes.decimal_handling_mode == "precise" else None


def integer(ddl: str, width: int) -> Kind:
    low, high = -(1 << width - 1), (1 << width - 1) - 1

    def literal(r: random.Random) -> str:
        return f"'{r.choice([low, high, 0, r.randint(low, high), r.randint(-200, 200)])}'::{ddl}"

    return Kind(ddl=ddl, literal=literal, back=plain(ddl), keyable=True)


def numeric(ddl: str, digits: int, scale: int) -> Kind:
    def literal(r: random.Random) -> str:
        return f"'{'NaN' if r.random() < 0.05 else decimal(r, digits, scale)}'::numeric"

    return Kind(
        ddl=ddl, literal=literal, back=of_numeric(max(0, scale)), kept=kept_numeric(variable=False), unfit=not_finite, keyable=digits < 20
    )


def of_text(ddl: str, literal: Literal, *, keyable: bool = False) -> Kind:
    """Return a kind that records have as the server's text."""
    return Kind(ddl=ddl, literal=literal, back=plain(ddl), keyable=keyable)


def unknown_to_debezium(ddl: str, literal: Literal) -> Kind:
    return Kind(ddl=ddl, literal=literal, back=unknown(ddl), known=lambda modes: modes.include_unknown_datatypes)


def choice(ddl: str, *values: str) -> Literal:
    return lambda r: typed(ddl)(r.choice(values))


INT2, INT4, INT8 = integer("smallint", 16), integer("integer", 32), integer("bigint", 64)
OID = Kind(ddl="oid", literal=lambda r: f"'{r.choice([0, 4294967295, r.randrange(1 << 32)])}'::oid", back=plain("oid"), keyable=True)
BOOL = Kind(ddl="boolean", literal=lambda r: r.choice(["true", "false"]), back=plain("boolean"), keyable=True)
FLOAT4 = Kind(ddl="real", literal=lambda r: f"'{real(r)}'::real", back=lambda v, _: f"'{v!r}'::float8::float4", keyable=True)
FLOAT8 = Kind(ddl="double precision", literal=lambda r: f"'{double(r)}'::float8", back=lambda v, _: f"'{v!r}'::float8", keyable=True)
NUMERIC = Kind(
    ddl="numeric",
    literal=lambda r: f"'{any_numeric(r)}'::numeric",
    back=of_numeric(None),
    kept=kept_numeric(variable=True),
    unfit=not_finite,
    keyable=True,
)
NUMERIC_10_2 = numeric("numeric(10,2)", 10, 2)
PRICE = replace(numeric("price", 8, 3), keyable=False)
MONEY = Kind(
    ddl="money",
    literal=lambda r: f"'{decimal(r, r.choice([3, 17]), 2)}'::numeric::money",
    back=of_numeric(2),
    kept=lambda m: ("float8", "{c}::numeric::float8") if m.decimal_handling_mode == "double" else ("numeric", "{c}::numeric"),
)
TEXT = of_text("text", lambda r: text(random_text(r)), keyable=True)
VARCHAR = of_text("character varying(10)", lambda r: text(words(r, 4)[:10]), keyable=True)
BPCHAR = of_text("character(5)", lambda r: text(words(r, 4)[:5]), keyable=True)
CITEXT = of_text("citext", lambda r: typed("citext")(random_text(r)), keyable=True)
UUID = of_text("uuid", lambda r: f"'{r.randrange(1 << 128):032x}'::uuid", keyable=True)
JSON = of_text("json", lambda r: typed("json")(json.dumps(document(r), ensure_ascii=r.random() < 0.5, indent=r.choice([None, 1]))))
JSONB = of_text("jsonb", lambda r: typed("jsonb")(json.dumps(document(r), ensure_ascii=r.random() < 0.5)))
XML = of_text("xml", choice("xml", "<a>1</a><b/>", "<a b='c'>\n&lt;ž</a>", "text", "<!-- c -->", ""))
BYTEA = Kind(
    ddl="bytea",
    literal=lambda r: f"'\\x{r.randbytes(r.choice([0, 1, 7, 40])).hex()}'::bytea",
    back=lambda value, modes: f"'\\x{of_bytes(value, modes).hex()}'::bytea",
    keyable=True,
)
DATE = Kind(ddl="date", literal=day, back=of_date, keyable=True)
TIME = Kind(ddl="time", literal=time_of_day, back=of_time(6), kept=kept_time, keyable=True)
TIME_3 = Kind(ddl="time(3)", literal=time_of_day, back=of_time(3), kept=kept_time)
TIMETZ = Kind(
    ddl="timetz",
    literal=lambda r: f"(({time_of_day(r)})::text || '{r.choice(['+00', '+02', '-05:30', '+14', '-12:34:56'])}')::timetz",
    back=lambda value, _: f"'{value}'::timetz",
    kept=lambda _: (
        "timetz",
        "CASE WHEN {c}::text LIKE '24:%' THEN ('00:00:00' || substr({c}::text, 9))::timetz ELSE {c} END AT TIME ZONE interval '0'",
    ),
    keyable=True,
)
TIMESTAMP = Kind(ddl="timestamp", literal=moment, back=of_timestamp(6), kept=kept_timestamp, unfit=unfit_timestamp, keyable=True)
TIMESTAMP_3 = replace(TIMESTAMP, ddl="timestamp(3)", back=of_timestamp(3), keyable=False)
TIMESTAMPTZ = Kind(ddl="timestamptz", literal=lambda r: f"({moment(r)} AT TIME ZONE 'UTC')", back=of_timestamptz, keyable=True)
INTERVAL = Kind(ddl="interval", literal=span, back=of_interval, kept=kept_interval)
HSTORE = Kind(
    ddl="hstore",
    literal=lambda r: of_hstore({f"{words(r)}{n}": r.choice([None, words(r)]) for n in range(r.choice([0, 1, 3, 20]))}, _AS_MAP),
    back=of_hstore,
)
INET = of_text("inet", lambda r: f"{network(r)}::inet", keyable=True)
CIDR = of_text("cidr", lambda r: f"network({network(r)}::inet)", keyable=True)
MACADDR = of_text("macaddr", lambda r: f"'{r.randrange(1 << 48):012x}'::macaddr", keyable=True)
MACADDR8 = of_text("macaddr8", lambda r: f"'{r.randrange(1 << 64):016x}'::macaddr8", keyable=True)
INT4RANGE = of_text("int4range", lambda r: between(r, str(r.randint(-999, 999)), str(r.randint(-999, 999)), "int4range"), keyable=True)
NUMRANGE = of_text("numrange", lambda r: between(r, decimal(r, 5, 2), decimal(r, 5, 2), "numrange"))
TSRANGE = of_text("tsrange", lambda r: between(r, moment(r), moment(r), "tsrange"))
TSTZRANGE = of_text("tstzrange", lambda r: between(r, TIMESTAMPTZ.literal(r), TIMESTAMPTZ.literal(r), "tstzrange"))
DATERANGE = of_text("daterange", lambda r: between(r, usual_day(r), usual_day(r), "daterange"))
LTREE = of_text("ltree", choice("ltree", "Top.Science", "", "a", "Top.Hobbies.x_1"), keyable=True)
MOOD = of_text("mood", choice("mood", "sad", "ok", "a,b", 'Happy "one"'), keyable=True)
TSVECTOR = of_text("tsvector", choice("tsvector", "a:1A fat cat", "'it''s':3 \\\\ b", ""))
GEOMETRY = Kind(ddl="geometry", literal=lambda r: f"{shape(r)}::geometry", back=of_geometry("geometry"))
GEOGRAPHY = Kind(
    ddl="geography",
    literal=lambda r: f"'SRID=4326;POINT({r.uniform(-180, 180)!r} {r.uniform(-90, 90)!r})'::geography",
    back=of_geometry("geography"),
)
POINT = Kind(ddl="point", literal=lambda r: f"'{number_pair(r)}'::point", back=of_point)
ISBN = of_text("isbn", choice("isbn", "978-0-393-04002-9", "0-11-000533-3"))
PAIR = unknown_to_debezium("pair", lambda r: f"ROW({r.randint(-9, 9)}, {text(words(r))})::pair")
LSN = unknown_to_debezium("pg_lsn", lambda r: f"'{r.randrange(1 << 32):X}/{r.randrange(1 << 32):X}'::pg_lsn")
BIT_12 = Kind(ddl="bit(12)", literal=lambda r: bits(r, 12), back=of_bits(12), keyable=True)

FAMILIES: dict[str, tuple[Kind, ...]] = {
    "numbers": (
        INT2, INT4, INT8, OID, BOOL, FLOAT4, FLOAT8, NUMERIC, NUMERIC_10_2, MONEY, PRICE,
        numeric("numeric(38,20)", 38, 20), numeric("numeric(5)", 5, 0), numeric("numeric(5,-2)", 5, -2), numeric("numeric(3,6)", 3, 6),
        of_text("positive", lambda r: f"{r.randint(1, 1 << 30)}::positive"),
    ),
    "texts": (
        TEXT, VARCHAR, BPCHAR, CITEXT, UUID, JSON, JSONB, XML, BYTEA, HSTORE, LTREE, MOOD, TSVECTOR, ISBN,
        of_text("name", lambda r: typed("name")(words(r, 6)), keyable=True),
        of_text("character varying", lambda r: text(random_text(r))),
        of_text('"char"', choice('"char"', "x", "", "\\", "\t")),
        of_text("short", lambda r: text(words(r, 4)[:5])),
        of_text("shorter", lambda r: text(words(r, 4)[:5])),
        of_text("feeling", choice("feeling", "sad", "a,b")),
    ),
    "bits and networks": (
        BIT_12, INET, CIDR, MACADDR, MACADDR8,
        Kind(ddl="bit(1)", literal=lambda r: bits(r, 1), back=of_bits(1)),
        Kind(ddl="bit(64)", literal=lambda r: bits(r, 64), back=of_bits(64)),
        Kind(ddl="varbit(1)", literal=lambda r: bits(r, r.randint(0, 1)), back=of_bits(1), unfit=lambda _: "{c} = B''"),
        *(
            Kind(
                ddl=ddl, literal=lambda r, most=most: bits(r, r.randint(0, most)), back=of_number_of_bits,
                kept=lambda _: ("text", "ltrim({c}::text, '0')"),
            )
            for ddl, most in (("varbit(10)", 10), ("varbit", 90))
        ),
    ),
    "times": (
        DATE, TIME, TIME_3, TIMETZ, TIMESTAMP, TIMESTAMP_3, TIMESTAMPTZ, INTERVAL,
        Kind(ddl="time(0)", literal=time_of_day, back=of_time(0), kept=kept_time),
        replace(TIMETZ, ddl="timetz(2)", keyable=False),
        replace(TIMESTAMP, ddl="timestamp(0)", back=of_timestamp(0), keyable=False),
        replace(TIMESTAMP, ddl="timestamp(4)", back=of_timestamp(4), keyable=False),
        replace(TIMESTAMPTZ, ddl="timestamptz(3)", keyable=False), replace(TIMESTAMPTZ, ddl="timestamptz(0)", keyable=False),
        replace(INTERVAL, ddl="interval day to second(3)"), replace(INTERVAL, ddl="interval year to month"),
    ),
    "ranges and shapes": (
        INT4RANGE, NUMRANGE, TSRANGE, TSTZRANGE, DATERANGE, GEOMETRY, GEOGRAPHY, POINT,
        of_text("int8range", lambda r: between(r, str(r.randint(-9, 9)), str(1 << 40), "int8range")),
        Kind(ddl="geometry(Point,4326)", literal=lambda r: f"'SRID=4326;POINT({r.uniform(-180, 180)!r} 1)'::geometry", back=of_geometry("geometry")),
    ),
    "unknown": (
        PAIR, LSN,
        unknown_to_debezium("box", lambda r: f"'{number_pair(r)},{number_pair(r)}'::box"),
        unknown_to_debezium("circle", lambda r: f"'<{number_pair(r)},{abs(r.uniform(0, 1e6))!r}>'::circle"),
        unknown_to_debezium("lseg", lambda r: f"'[{number_pair(r)},{number_pair(r)}]'::lseg"),
        unknown_to_debezium("path", lambda r: r.choice([f"'[{number_pair(r)},{number_pair(r)}]'::path", f"'({number_pair(r)})'::path"])),
        unknown_to_debezium("polygon", lambda r: f"'({number_pair(r)},{number_pair(r)},{number_pair(r)})'::polygon"),
        unknown_to_debezium("line", choice("line", "{1,-1,0}", "{0.5,1e20,-3}")),
        unknown_to_debezium("int4multirange", choice("int4multirange", "{[1,3),[5,7)}", "{}")),
        unknown_to_debezium("floats", lambda r: between(r, "1.5", repr(r.uniform(0, 9)), "floats")),
        unknown_to_debezium("tsquery", choice("tsquery", "a & b", "'it''s' | !c")),
        unknown_to_debezium("regclass", choice("regclass", "pg_class", "pg_type")),
        unknown_to_debezium("xid8", lambda r: f"'{r.randrange(1 << 63)}'::xid8"),
        unknown_to_debezium("jsonpath", choice("jsonpath", "$.a[*]", "$")),
        unknown_to_debezium("tid", choice("tid", "(1,2)")),
    ),
    "arrays": (
        *(
            array(element, f"{element.ddl}[]")
            for element in (
                INT2, INT4, INT8, OID, BOOL, FLOAT4, FLOAT8, NUMERIC, NUMERIC_10_2, TEXT, VARCHAR, BPCHAR, CITEXT, UUID, JSON, JSONB, BYTEA, DATE, TIME,
                TIME_3, TIMETZ, TIMESTAMP, TIMESTAMP_3, TIMESTAMPTZ, HSTORE, INET, CIDR, MACADDR, MACADDR8, INT4RANGE, NUMRANGE, TSRANGE, TSTZRANGE,
                DATERANGE, LTREE, GEOMETRY, GEOGRAPHY,
            )
        ),
        *(array(element, f"{element.ddl}[]", required=True) for element in (MOOD, TSVECTOR, ISBN, PAIR, LSN)),
        array(replace(BIT_12, back=unknown("bit(12)")), "bit(12)[]", required=True, known=lambda modes: modes.include_unknown_datatypes),
        array(INT4, "numbers"),
        array(replace(PRICE, back=of_numeric(None), kept=kept_numeric(variable=True)), "price[]"),
    ),
}  # fmt: skip
"""Every type that records have, by family; each becomes a column."""


def keyable() -> list[Kind]:
    """Return the types of possible primary keys, whose chunks are read by bounds of the key."""
    return [kind for family in FAMILIES.values() for kind in family if kind.keyable]
