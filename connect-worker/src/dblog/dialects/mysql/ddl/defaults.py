"""DEFAULT clauses: read, and brought into the one form that a default has, whichever way it comes.

The server stores a literal default in the column's own format and prints it from there, so ``DECIMAL(5,2) DEFAULT 1`` prints ``1.00`` and
``DATE DEFAULT 20240101`` prints ``2024-01-01``. A record's schema default comes from this text, so the form matters: a table read from
the server and the same table built from DDL must give the same schema. So the form is the server's print; where that differs by version or
cannot hold the value (floats, bytes) catalog/information_schema.py brings it into a form that both sides make: ``float_default``,
``binary_default``. The text of an expression is kept as written; only that it is one matters for a row.

A literal that is stored as nothing here can show (a time zone inside it, a rounding of a day that does not exist) is ``NotUnderstood``: the table is read
from the server. What sql_mode lets through in non-strict sessions becomes what the server makes of it. Rule sources: Field_*::store in sql/field.cc,
str_to_datetime, number_to_datetime and str_to_time in mysys/my_time.cc (sql-common/my_time.c in MariaDB); tests/integration/test_defaults.py asks servers.
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
    """Of a hex or bit literal."""
    digits_base: int = 0
    quoted: bool = False
    """A literal in quotes, of digits too: ``x'41'``, not ``0x41``."""
    introducer: str | None = None
    """The character set named before a literal, in lower case: ``_latin1'a'``."""
    moment: str | None = None
    """The type named before a literal, in lower case: ``DATE'2024-01-01'``."""
    written: str | None = None
    """The statement's own text where Debezium repeats it: a literal without quotes, ``curdate()``; None: as the server prints it."""


def parse_default(cursor: Cursor, context: Context) -> DefaultSpec:
    """Read what stands behind DEFAULT."""
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
    """A default in parentheses: an expression for MySQL, ``(now())`` too. For MariaDB ``('x')`` is ``'x'`` and ``(now())`` is ``now()`` (``literals``)."""
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
    return DefaultSpec(text=f"({text})" if now else text, expression=True)  # as information_schema.mysql_default has it


def parse_now(cursor: Cursor) -> DefaultSpec:
    """CURRENT_TIMESTAMP and its synonyms, with or without parentheses."""
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
    """The default that the column gets: None where the server drops it, an expression where it keeps one.

    MySQL drops a literal of a large object in sessions that are not strict. MariaDB keeps the default of one as it was written, and what stands behind a
    character set's name there is none of the literals that it can store.
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
    """The form of a default that is not NULL."""
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
"""MariaDB prints such a character as a question mark wherever it prints a default; nobody can ask for it."""


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
    """A text that is longer than its column is cut by some sessions."""
    if type_.length is not None and len(text) > type_.length:
        raise _uncertain(default)
    return text


WIDE_BYTES = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
"""A literal of fewer bytes than a character has is filled with zeros in front."""


_WHOLE = frozenset({*INTEGER_WIDTHS, "year", "bit"})
_NUMERIC = _WHOLE | {"decimal", "float", "double"}
_MOMENTS = {"date": ("date", "datetime", "timestamp"), "timestamp": ("date", "datetime", "timestamp"), "time": ("time",)}
"""The types that take a literal of a named type as it is; others turn it into a text or a number first."""
_UTF8 = ("utf8mb4", "utf8mb3", "utf8")
_EXPONENT = re.compile(r"[-+]?[\d.]+[eE].*")


def _doubtful(default: DefaultSpec, type_: FinishedType, context: Context) -> bool:
    """Whether the literal is of a kind that this type stores in ways that we do not reproduce."""
    if default.moment is not None and type_.type not in _MOMENTS[default.moment]:
        return True
    if default.digits_base:
        # MariaDB's x'3132' is the text 12 to a number, and its 0x3132 is 12594.
        return context.flavor.mariadb and type_.type in _NUMERIC and default.digits_base == 16 and default.quoted  # noqa: PLR2004
    if default.introducer is not None and not (default.introducer in _UTF8 and context.bytes_kept):
        return default.introducer in WIDE_BYTES or not default.text.isascii()
    if type_.type in _WHOLE and not default.quoted and _EXPONENT.fullmatch(default.text):
        number = _number(default)
        return number != number.to_integral_value()  # a double is rounded to the next even number
    return (type_.type in BINARIES or type_.type == "bit") and not context.bytes_kept and not default.text.isascii()


def _member(default: DefaultSpec, text: str, type_: FinishedType) -> str:
    """The member as it was declared. Members are compared by the collation: one that fits by its letters' case alone is sure where it is the only one."""
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
    """The number, as far as the text begins with one."""
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
        text = f"{number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) + 0:f}"  # + 0: there is no zero below zero
    return text.zfill((type_.length or 10) + (scale > 0)) if zerofill else text


def _year(default: DefaultSpec) -> str:
    number = _whole(default)
    if 1 <= number < 100:  # noqa: PLR2004 - YEAR's two-digit rule
        number += 2000 if number < 70 else 1900  # noqa: PLR2004
    if number == 0 and default.quoted and not default.digits_base and len(default.text) < 4:  # noqa: PLR2004 - '0' is 2000, '0000' and 0 are the zero year
        number = 2000
    return f"{number:04d}"


def _bits(default: DefaultSpec) -> int:
    """A text is its bytes here, not the number that it shows."""
    if default.quoted and not default.digits_base:
        return int.from_bytes(_bytes(default), "big")
    return _whole(default)


def _bytes(default: DefaultSpec) -> bytes:
    if default.digits_base:
        return bits_bytes(default.digits, default.digits_base)
    return _shown(default).encode("utf-8", "surrogateescape")


def _text(default: DefaultSpec, charset: str | None) -> str:
    """Bytes given by their digits are of the named character set, else of the column's own."""
    if default.digits_base:
        raw, unit = _bytes(default), WIDE_BYTES.get(charset or "", 1)
        if default.introducer is None and len(raw) % unit:
            raw = raw.rjust(len(raw) + unit - len(raw) % unit, b"\0")
        return charsets.decoder(default.introducer or charset or "utf8mb4", where="a default")(raw)
    return _shown(default)


def _shown(default: DefaultSpec) -> str:
    """A number that becomes text is what the server prints of it."""
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


# -- moments ----------------------------------------------------------------------------------------------------------------------------

_TRUNCATES, _ROUNDS = 1 << 32, 1 << 34
"""sql_mode: MySQL's TIME_TRUNCATE_FRACTIONAL, MariaDB's TIME_ROUND_FRACTIONAL."""

_CALENDAR = re.compile(
    r"\s*(\d{1,4})[^\d\s](\d{1,2})[^\d\s](\d{1,2})(?:(?:T|\s+)(\d{1,2})(?:[^\d\s](\d{1,2})(?:[^\d\s](\d{1,2})(?:\.(\d*))?)?)?)?\s*"
)
_RUN = re.compile(r"\s*(\d{6}|\d{8}|\d{12}|\d{14})(?:\.(\d*))?\s*")
_CLOCK = re.compile(r"\s*(-?)(?:(\d+)\s+)?(\d+)(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*")
_SECONDS = re.compile(r"\s*(-?)(\d{1,7})(?:\.(\d*))?\s*")


def _micros(default: DefaultSpec, fraction: str | None, fsp: int, context: Context) -> int:
    """The fraction of a second as the column keeps it, a million where it is rounded up to a whole one."""
    digits = fraction or ""
    unit = int("1".ljust(7 - fsp, "0"))
    micros = int((digits + "000000")[:6])
    if context.flavor.mariadb:
        if context.sql_mode & _ROUNDS and digits[fsp:].strip("0"):
            raise _uncertain(default)
        return micros // unit * unit
    if context.sql_mode & _TRUNCATES:
        return micros // unit * unit
    micros += digits[6:7] >= "5"  # first to microseconds, then to what the column has
    return (micros + unit // 2) // unit * unit


def _fraction(micros: int, fsp: int) -> str:
    return f".{micros:06d}"[: fsp + 1] if fsp else ""


def _datetime(default: DefaultSpec, fsp: int, context: Context) -> str:
    """``YYYY-MM-DD hh:mm:ss``, with as many digits of a second as the column has."""
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
    """A TIMESTAMP is a moment: the text is what a session in UTC sees, which ours is."""
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
    """A number brought to the digits of a date or of a date and time (number_to_datetime); a text as it is."""
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
