"""DEFAULT clauses, read and brought into one canonical form, whether they come from DDL or from the
server.

The server stores a literal default in the column's own format and prints it from there:
``DECIMAL(5,2) DEFAULT 1`` prints ``1.00``, and ``DATE DEFAULT 20240101`` prints ``2024-01-01``. A
record's schema default comes from this text. A table read from the server and the same table built
from DDL must have the same schema, so the form matters. The form is the server's print. Where that
differs by version or cannot hold the value (floats, bytes), ``float_default`` and
``binary_default`` of catalog/information_schema.py make a form that both sides can reach. The text
of an expression is kept as written; for a row it only matters that there is one.

If the stored value cannot be predicted (a time zone in the literal, rounding of a day that does not
exist), the result is ``NotUnderstood`` and the table is read from the server. Rule sources:
str_to_datetime, number_to_datetime and str_to_time in mysys/my_time.cc (sql-common/my_time.c in
MariaDB). tests/integration/test_defaults.py compares with real servers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from ipaddress import IPv4Address, IPv6Address

from dblog.dialects.mysql.catalog.information_schema import BINARIES, LARGE_TEXTS, MOMENT, binary_default, float_default, number_default
from dblog.dialects.mysql.ddl.column_types import INTEGER_WIDTHS, FinishedType, bits_bytes, bits_text
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.lexer import Cursor, Kind, NotUnderstood
from dblog.dialects.mysql.values import charsets
from dblog.dialects.mysql.values.fields import inet6_text

NOW_WORDS = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSpec:
    """A default as written: ``text`` is the literal's value or the expression's text."""

    text: str = ""
    null: bool = False
    expression: bool = False
    now: bool = False
    fsp: int = 0
    digits: str = ""
    """The digits of a hex or bit literal; empty for any other."""
    digits_base: int = 0
    quoted: bool = False
    """True for a literal in quotes, also one of digits: ``x'41'``, not ``0x41``."""
    introducer: str | None = None
    """The charset named before a literal, in lower case: ``_latin1'a'``."""
    moment: str | None = None
    """The type named before a literal, in lower case: ``DATE'2024-01-01'``."""
    written: str | None = None
    """The statement's text, in cases in which Debezium repeats it (a literal without quotes,
    ``curdate()``); None if Debezium uses the server's print.
    """


def parse_default(cursor: Cursor, context: Context) -> DefaultSpec:
    """Read the default after the keyword DEFAULT."""
    if cursor.take("NULL"):
        return DefaultSpec(null=True)
    if cursor.is_any(*NOW_WORDS):
        return parse_now(cursor)
    if cursor.is_op("("):
        return _group(cursor, literals=context.flavor.mariadb)
    start = cursor.next
    literal = _literal(cursor)
    if literal is not None and not _goes_on(cursor):
        return literal
    if literal is None:
        _operand(cursor)
    while _goes_on(cursor):  # MariaDB allows a simple expression without parentheses
        cursor.step()
        _operand(cursor)
    text = cursor.text[start.start : cursor.tokens[cursor.at - 1].end]
    return DefaultSpec(text=text, expression=True, written=text if MOMENT.fullmatch(text) else None)


def _group(cursor: Cursor, *, literals: bool) -> DefaultSpec:
    """Read a default in parentheses.

    For MySQL it is an expression, also ``(now())``. For MariaDB (``literals``) ``('x')`` is ``'x'``
    and ``(now())`` is ``now()``.
    """
    at = cursor.at
    text = cursor.skip_group()
    end = cursor.at
    cursor.at = at + 1
    inner = None
    if cursor.is_any(*NOW_WORDS):
        inner = parse_now(cursor)
    elif literals and cursor.take("NULL"):
        inner = DefaultSpec(null=True)
    elif literals or cursor.next.kind in (Kind.STRING, Kind.NUMBER) or cursor.is_op("-"):
        inner = _literal(cursor)
    whole = inner is not None and cursor.at == end - 1
    cursor.at = end
    if whole and inner is not None and literals:
        return inner
    now = whole and inner is not None and inner.now
    # the form of information_schema.mysql_default
    return DefaultSpec(text=f"({text})" if now else text, expression=True)


def parse_now(cursor: Cursor) -> DefaultSpec:
    """Read CURRENT_TIMESTAMP or a synonym, with or without parentheses."""
    if not cursor.take_any(*NOW_WORDS):
        raise NotUnderstood(f"CURRENT_TIMESTAMP expected at {cursor.location}")
    fsp = 0
    if cursor.take_op("("):
        if cursor.next.kind is Kind.NUMBER:
            fsp = cursor.number()
        cursor.expect_op(")")
    return DefaultSpec(text=f"CURRENT_TIMESTAMP({fsp})" if fsp else "CURRENT_TIMESTAMP", expression=True, now=True, fsp=fsp)


def _literal(cursor: Cursor) -> DefaultSpec | None:
    token = cursor.next
    if token.kind is Kind.STRING:
        text = cursor.string()
        return DefaultSpec(text=text, written=text, quoted=True)
    if (
        token.kind is Kind.WORD
        and cursor.peek(1).kind in (Kind.STRING, Kind.HEX, Kind.BITS)
        and (token.text.startswith("_") or token.upper in ("DATE", "TIME", "TIMESTAMP"))
    ):
        cursor.at += 1
        literal = _literal(cursor)
        if token.text.startswith("_"):
            return literal and replace(literal, introducer=token.text[1:].lower())
        return literal and replace(literal, moment=token.text.lower())
    if token.kind in (Kind.HEX, Kind.BITS):
        base = 16 if token.kind is Kind.HEX else 2
        return DefaultSpec(
            text=bits_text(cursor.step().text, base),
            digits=token.text,
            digits_base=base,
            quoted=cursor.text[token.start] != "0",
            written=token.text if base == 2 else None,  # noqa: PLR2004 - bits
        )
    sign = ""
    if cursor.next.kind is Kind.OP and cursor.next.text in "+-" and cursor.peek(1).kind is Kind.NUMBER:
        sign = "-" if cursor.step().text == "-" else ""
    if cursor.next.kind is Kind.NUMBER:
        text = sign + cursor.step().text
        return DefaultSpec(text=text, written=text)
    if word := cursor.take_any("TRUE", "FALSE"):
        return DefaultSpec(text="1" if word == "TRUE" else "0", written=cursor.tokens[cursor.at - 1].text)
    return None


def _goes_on(cursor: Cursor) -> bool:
    return cursor.next.kind is Kind.OP and cursor.next.text in ("+", "-", "*", "/", "%", "||", "|", "&", "^") and not cursor.ended


def _operand(cursor: Cursor) -> None:
    while cursor.next.kind is Kind.OP and cursor.next.text in ("-", "+", "~", "!") and not cursor.ended:
        cursor.step()
    if cursor.is_op("("):
        cursor.skip_group()
        return
    if cursor.take("NEXT", "VALUE", "FOR"):
        pass
    if _literal(cursor) is None:
        if not cursor.is_name and cursor.next.kind is not Kind.VARIABLE:
            raise NotUnderstood(f"a default expected at {cursor.location}")
        cursor.step()
        while cursor.take_op("."):
            cursor.name()
    if cursor.is_op("("):
        cursor.skip_group()


def stored_default(default: DefaultSpec | None, type_: str, *, mariadb: bool) -> DefaultSpec | None:
    """Return the default that the column gets: None if the server drops it, an expression if it
    keeps one.

    MySQL drops the literal default of a large object in sessions that are not strict. MariaDB keeps
    it as written; a literal after a charset's name then counts as an expression.
    """
    if default is None or default.null or default.expression:
        return default
    if not mariadb and type_ in LARGE_OBJECTS:
        return None
    if mariadb and default.introducer is not None and type_ in LARGE_OBJECTS:
        return replace(default, expression=True)
    return default


LARGE_OBJECTS = LARGE_TEXTS | frozenset({"tinyblob", "blob", "mediumblob", "longblob", "json", "geometry"})


def normal_default(default: DefaultSpec, type_: FinishedType, *, zerofill: bool, context: Context) -> str:
    """Return the canonical form of a default that is not NULL."""
    if default.now:
        if context.flavor.mariadb:
            return f"current_timestamp({default.fsp or ''})"
        return default.text
    if default.expression:
        return default.text
    form = _form(default, type_, zerofill=zerofill, context=context)
    if context.flavor.mariadb and type_.charset is not None and type_.type not in LARGE_TEXTS:
        return _BEYOND_PLANE.sub("?", form)
    return form


_BEYOND_PLANE = re.compile("[\U00010000-\U0010ffff]")
"""Characters that MariaDB prints as a question mark in every default; their real value cannot be
queried.
"""


def _form(default: DefaultSpec, type_: FinishedType, *, zerofill: bool, context: Context) -> str:
    if _doubtful(default, type_, context):
        raise _uncertain(default)
    match type_.type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint":
            number = str(_whole(default))
            return number.zfill(type_.length or 0) if zerofill else number
        case "year":
            return _year(default)
        case "decimal":
            return _decimal(_number(default), type_, zerofill=zerofill)
        case "float" | "double":
            return float_default(f"{_number(default):E}", type_.type, length=type_.length, scale=type_.scale)
        case "bit":
            return f"b'{_bits(default) & (1 << (type_.length or 1)) - 1:b}'"
        case "date":
            return _datetime(default, 0, context)[:10]
        case "datetime":
            return _datetime(default, type_.length or 0, context)
        case "timestamp":
            return _in_utc(default, _datetime(default, type_.length or 0, context), context)
        case "time":
            return _time(default, type_.length or 0, context)
        case kind if kind in BINARIES:
            return binary_default(_bytes(default), kind)
        case "enum":
            text = _text(default, type_.charset)
            if context.flavor.mariadb and not default.quoted and text.isdecimal() and 0 < int(text) <= len(type_.members):
                return type_.members[int(text) - 1]
            return _member(default, text, type_)
        case "set":
            if not default.quoted and not default.digits_base:  # a number's bits
                raise _uncertain(default)
            text = _text(default, type_.charset)
            chosen = {_member(default, part, type_) for part in text.split(",")} if text else set()
            return ",".join(member for member in type_.members if member in chosen)
        case "char":
            return _fitting(default, _text(default, type_.charset).rstrip(" "), type_)
        case "uuid":
            digits = (_bytes(default).hex() if default.digits_base else default.text.replace("-", "")).lower()
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        case "inet4" | "inet6":
            return _address(default, 4 if type_.type == "inet4" else 6)
        case "varchar":
            return _fitting(default, _text(default, type_.charset), type_)
        case _:
            return _text(default, type_.charset)


def _fitting(default: DefaultSpec, text: str, type_: FinishedType) -> str:
    """Return the text. Raise NotUnderstood if it is longer than the column, since some sessions cut
    it.
    """
    if type_.length is not None and len(text) > type_.length:
        raise _uncertain(default)
    return text


WIDE_BYTES = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
"""Bytes per character. A shorter hex literal is filled with leading zeros."""


_WHOLE = frozenset({*INTEGER_WIDTHS, "year", "bit"})
_NUMERIC = _WHOLE | {"decimal", "float", "double"}
_MOMENTS = {"date": ("date", "datetime", "timestamp"), "timestamp": ("date", "datetime", "timestamp"), "time": ("time",)}
"""Column types that take a literal of a named type as it is. Others first turn it into a text or a
number.
"""
_UTF8 = ("utf8mb4", "utf8mb3", "utf8")
_EXPONENT = re.compile(r"[-+]?[\d.]+[eE].*")


def _doubtful(default: DefaultSpec, type_: FinishedType, context: Context) -> bool:
    """Return whether the type stores such a literal in a way that this module does not reproduce."""
    if default.moment is not None and type_.type not in _MOMENTS[default.moment]:
        return True
    if default.digits_base:
        # In MariaDB a numeric column takes x'3132' for the text 12, but 0x3132 for the number
        # 12594.
        return context.flavor.mariadb and type_.type in _NUMERIC and default.digits_base == 16 and default.quoted  # noqa: PLR2004
    if default.introducer is not None and not (default.introducer in _UTF8 and context.bytes_kept):
        return default.introducer in WIDE_BYTES or not default.text.isascii()
    if type_.type in _WHOLE and not default.quoted and _EXPONENT.fullmatch(default.text):
        number = _number(default)
        return number != number.to_integral_value()  # a double is rounded to the next even number
    return (type_.type in BINARIES or type_.type == "bit") and not context.bytes_kept and not default.text.isascii()


def _member(default: DefaultSpec, text: str, type_: FinishedType) -> str:
    """Return the member as declared.

    The server compares members by the collation. A member that differs only in letter case is
    accepted if it is the only candidate; otherwise raise NotUnderstood.
    """
    text = text.rstrip(" ")
    if text in type_.members:
        return text
    alike = [member for member in type_.members if member.lower() == text.lower()]
    if len(alike) != 1 or (type_.collation or "").endswith("_bin"):
        raise _uncertain(default)
    return alike[0]


def _uncertain(default: DefaultSpec) -> NotUnderstood:
    return NotUnderstood(f"how the server stores the default {default.text!r} is not known")


_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def _number(default: DefaultSpec) -> Decimal:
    """Return the number at the beginning of the text; 0 if there is none."""
    if default.digits_base:
        return Decimal(int(default.digits or "0", default.digits_base))
    found = _NUMBER.match(default.text)
    with localcontext() as precise:
        precise.prec = 130
        return Decimal(found[1]) if found else Decimal(0)


def _whole(default: DefaultSpec) -> int:
    with localcontext() as precise:
        precise.prec = 400
        return int(_number(default).quantize(Decimal(1), ROUND_HALF_UP))


def _decimal(number: Decimal, type_: FinishedType, *, zerofill: bool) -> str:
    scale = type_.scale or 0
    with localcontext() as precise:
        precise.prec = 130
        # + 0 turns a negative zero into 0.
        text = f"{number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) + 0:f}"
    return text.zfill((type_.length or 10) + (scale > 0)) if zerofill else text


def _year(default: DefaultSpec) -> str:
    number = _whole(default)
    if 1 <= number < 100:  # noqa: PLR2004 - YEAR's two-digit rule
        number += 2000 if number < 70 else 1900  # noqa: PLR2004
    if number == 0 and default.quoted and not default.digits_base and len(default.text) < 4:  # noqa: PLR2004 - '0' is 2000, '0000' and 0 are the zero year
        number = 2000
    return f"{number:04d}"


def _bits(default: DefaultSpec) -> int:
    """Return the bits of the default. A text counts as its bytes, not as the number that it shows."""
    if default.quoted and not default.digits_base:
        return int.from_bytes(_bytes(default), "big")
    return _whole(default)


def _bytes(default: DefaultSpec) -> bytes:
    if default.digits_base:
        return bits_bytes(default.digits, default.digits_base)
    return _shown(default).encode("utf-8", "surrogateescape")


def _text(default: DefaultSpec, charset: str | None) -> str:
    """Return the default as text. Bytes from a hex or bit literal are in the named charset, or else
    in the column's.
    """
    if default.digits_base:
        raw, unit = _bytes(default), WIDE_BYTES.get(charset or "", 1)
        if default.introducer is None and len(raw) % unit:
            raw = raw.rjust(len(raw) + unit - len(raw) % unit, b"\0")
        return charsets.decoder(default.introducer or charset or "utf8mb4", where="a default")(raw)
    return _shown(default)


def _shown(default: DefaultSpec) -> str:
    """Return the text that the server prints. A number is printed in the server's form."""
    if default.quoted or not _NUMBER.fullmatch(default.text):
        return default.text
    return number_default(default.text)


def _address(default: DefaultSpec, kind: int) -> str:
    try:
        if kind == 4:  # noqa: PLR2004 - INET4
            return str(IPv4Address(_bytes(default) if default.digits_base else default.text))
        address = IPv6Address(_bytes(default) if default.digits_base else default.text)
    except ValueError as error:
        raise _uncertain(default) from error
    return inet6_text(address.packed)


# -- dates and times -------------------------------------------------------------------------------

_TRUNCATES, _ROUNDS = 1 << 32, 1 << 34
"""Bits of sql_mode: MySQL's TIME_TRUNCATE_FRACTIONAL, MariaDB's TIME_ROUND_FRACTIONAL."""

_CALENDAR = re.compile(
    r"\s*(\d{1,4})[^\d\s](\d{1,2})[^\d\s](\d{1,2})(?:(?:T|\s+)(\d{1,2})(?:[^\d\s](\d{1,2})(?:[^\d\s](\d{1,2})(?:\.(\d*))?)?)?)?\s*"
)
_RUN = re.compile(r"\s*(\d{6}|\d{8}|\d{12}|\d{14})(?:\.(\d*))?\s*")
_CLOCK = re.compile(r"\s*(-?)(?:(\d+)\s+)?(\d+)(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*")
_SECONDS = re.compile(r"\s*(-?)(\d{1,7})(?:\.(\d*))?\s*")


def _micros(default: DefaultSpec, fraction: str | None, fsp: int, context: Context) -> int:
    """Return the microseconds that the column keeps; one million if the fraction rounds up to a
    second.
    """
    digits = fraction or ""
    unit = int("1".ljust(7 - fsp, "0"))
    micros = int((digits + "000000")[:6])
    if context.flavor.mariadb:
        if context.sql_mode & _ROUNDS and digits[fsp:].strip("0"):
            raise _uncertain(default)
        return micros // unit * unit
    if context.sql_mode & _TRUNCATES:
        return micros // unit * unit
    # The server rounds first to microseconds, then to the column's digits.
    micros += digits[6:7] >= "5"
    return (micros + unit // 2) // unit * unit


def _fraction(micros: int, fsp: int) -> str:
    return f".{micros:06d}"[: fsp + 1] if fsp else ""


def _datetime(default: DefaultSpec, fsp: int, context: Context) -> str:
    """Return ``YYYY-MM-DD hh:mm:ss`` with the column's fractional digits."""
    if found := _CALENDAR.fullmatch(default.text):
        year, rest, fraction = found[1], [int(part or 0) for part in found.groups()[1:6]], found[7]
    elif found := _RUN.fullmatch(_numbered(default)):
        width = 4 if len(found[1]) in (8, 14) else 2
        year, run, fraction = found[1][:width], found[1][width:].ljust(10, "0"), found[2]
        rest = [int(run[at : at + 2]) for at in range(0, 10, 2)]
    elif not default.text.strip(" 0-:.") and default.text.strip():
        year, rest, fraction = "0000", [0] * 5, None
    else:
        raise _uncertain(default)
    full_year = int(year) + ((2000 if int(year) < 70 else 1900) if len(year) == 2 else 0)  # noqa: PLR2004 - the two-digit rule
    if len(year) == 2 and not (int(year) or any(rest)):  # noqa: PLR2004
        full_year = 0
    month, day, hour, minute, second = rest
    micros = _micros(default, fraction, fsp, context)
    if micros == 1_000_000:  # noqa: PLR2004
        try:
            later = datetime(full_year, month, day, hour, minute, second) + timedelta(seconds=1)  # noqa: DTZ001 - a wall clock's
        except (ValueError, OverflowError) as error:
            raise _uncertain(default) from error
        return f"{later.year:04d}-{later:%m-%d %H:%M:%S}" + _fraction(0, fsp)
    return f"{full_year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}" + _fraction(micros, fsp)


def _in_utc(default: DefaultSpec, local: str, context: Context) -> str:
    """Convert a TIMESTAMP from the session's time zone to UTC, which is the zone of our own
    sessions.
    """
    zone = context.time_zone
    if zone is None or zone in ("UTC", "GMT") or not local.strip("0-: ."):
        return local
    offset = re.fullmatch(r"([+-])(\d{1,2}):(\d{2})", zone)
    if offset is None:
        raise _uncertain(default)
    away = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    try:
        moment = datetime.strptime(local[:19], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the zone is taken away below
    except ValueError as error:
        raise _uncertain(default) from error
    return f"{moment - away if offset[1] == '+' else moment + away:%Y-%m-%d %H:%M:%S}{local[19:]}"


def _numbered(default: DefaultSpec) -> str:
    """Return a number as the digits of a date or datetime (number_to_datetime); return a text
    unchanged.
    """
    whole, point, fraction = default.text.partition(".")
    if default.quoted or not whole.isdecimal():
        return default.text
    number = int(whole)
    if 0 < number <= 99_991_231:  # noqa: PLR2004 - the last date
        number += (20_000_000 if number <= 691_231 else 19_000_000) if number <= 991_231 else 0  # noqa: PLR2004 - the two-digit rule
        return f"{number:08d}"
    if number <= 991_231_235_959:  # noqa: PLR2004 - the last moment of 1999
        return f"{number:012d}{point}{fraction}"
    return f"{number:014d}{point}{fraction}"


def _time(default: DefaultSpec, fsp: int, context: Context) -> str:
    if (found := _CALENDAR.fullmatch(default.text)) and found[4] is not None:
        return _time(replace(default, text=default.text.strip()[len(found[0].strip().split()[0]) :].strip()), fsp, context)
    if (found := _CLOCK.fullmatch(default.text)) and (found[2] is not None or found[4] is not None):
        sign, days, hours, minutes, seconds, fraction = found.groups()
        total = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    elif found := _SECONDS.fullmatch(default.text):
        sign, run, fraction = found[1], found[2].zfill(6), found[3]
        total = (int(run[:-4]) * 60 + int(run[-4:-2])) * 60 + int(run[-2:])
    else:
        raise _uncertain(default)
    micros = _micros(default, fraction, fsp, context)
    total, micros = total + micros // 1_000_000, micros % 1_000_000
    if total >= 839 * 3600:
        raise _uncertain(default)
    sign = sign if total or micros else ""
    return f"{sign}{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}" + _fraction(micros, fsp)
