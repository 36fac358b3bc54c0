"""DEFAULT clauses: read, and brought into the form in which information_schema prints them.

The server stores a literal default in the column's own format and prints it from there, so ``DECIMAL(5,2) DEFAULT 1`` prints ``1.00`` and
``DATE DEFAULT 20240101`` prints ``2024-01-01``. A record's schema default comes from this text, so the form matters: a table read from
the server and the same table built from DDL must give the same schema. The text of an expression is kept as written; only that it is one
matters for a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

from dblog.dialects.mysql.catalog import MOMENT, binary_default
from dblog.dialects.mysql.coltypes import FinishedType, bits_bytes, bits_text
from dblog.dialects.mysql.context import Context
from dblog.dialects.mysql.lexer import Cursor, Kind, NotUnderstood

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
    written: str | None = None
    """The statement's word where Debezium repeats it: a literal without quotes, ``curdate()``; None: as the server says it."""


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
    elif cursor.next.kind in (Kind.STRING, Kind.NUMBER) or cursor.is_op("-"):
        inner = _literal(cursor)
    whole = inner is not None and cursor.at == end - 1
    cursor.at = end
    if whole and inner is not None and literals:
        return inner
    now = whole and inner is not None and inner.now
    return DefaultSpec(text=f"({text})" if now else text, expression=True)  # as catalog.mysql_default has it


def parse_now(cursor: Cursor) -> DefaultSpec:
    """CURRENT_TIMESTAMP and its synonyms, with or without parentheses."""
    if not cursor.take_any(*NOW_WORDS):
        raise NotUnderstood(f"CURRENT_TIMESTAMP expected at {cursor.place}")
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
        return DefaultSpec(text=text, written=text)
    if (
        token.kind is Kind.WORD
        and cursor.ahead(1).kind in (Kind.STRING, Kind.HEX, Kind.BITS)
        and (token.text.startswith("_") or token.upper in ("DATE", "TIME", "TIMESTAMP"))
    ):
        cursor.at += 1
        return _literal(cursor)
    if token.kind in (Kind.HEX, Kind.BITS):
        base = 16 if token.kind is Kind.HEX else 2
        return DefaultSpec(
            text=bits_text(cursor.step().text, base),
            digits=token.text,
            digits_base=base,
            written=token.text if base == 2 else None,  # noqa: PLR2004 - bits
        )
    sign = ""
    if cursor.next.kind is Kind.OP and cursor.next.text in "+-" and cursor.ahead(1).kind is Kind.NUMBER:
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
            raise NotUnderstood(f"a default expected at {cursor.place}")
        cursor.step()
        while cursor.take_op("."):
            cursor.name()
    if cursor.is_op("("):
        cursor.skip_group()


def normal_default(default: DefaultSpec, type_: FinishedType, *, zerofill: bool, context: Context) -> str:
    """The text information_schema prints for a default that is not NULL."""
    if default.now:
        if context.flavor.mariadb:
            return f"current_timestamp({default.fsp or ''})"
        return default.text
    if default.expression:
        return default.text
    text = default.text
    match type_.type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year":
            return _integer(default, type_, zerofill=zerofill)
        case "decimal":
            return _decimal(text if not default.digits else str(int(default.digits, default.digits_base)), type_.scale or 0)
        case "float" | "double":
            return _float(text, type_, single=type_.type == "float")
        case "bit":
            number = int(default.digits, default.digits_base) if default.digits else _whole(text)
            return f"b'{number:b}'"
        case "date":
            return _date(text)
        case "datetime" | "timestamp":
            return _datetime(text, type_.length or 0)
        case "time":
            return _time(text, type_.length or 0)
        case "char":
            return text.rstrip(" ")
        case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return binary_default(
                bits_bytes(default.digits, default.digits_base) if default.digits_base else text.encode("utf-8", "surrogateescape"),
                type_.type,
            )
        case "enum":
            return next((member for member in type_.members if member.lower() == text.rstrip(" ").lower()), text)
        case "set":
            chosen = {part.lower() for part in text.split(",")}
            return ",".join(member for member in type_.members if member.lower() in chosen)
        case _:
            return text


def _whole(text: str) -> int:
    try:
        with localcontext() as precise:
            precise.prec = 80
            return int(Decimal(text.strip()).quantize(Decimal(1), ROUND_HALF_UP))
    except (InvalidOperation, ValueError):
        return 0


def _integer(default: DefaultSpec, type_: FinishedType, *, zerofill: bool) -> str:
    number = int(default.digits, default.digits_base) if default.digits else _whole(default.text)
    if type_.type == "year":
        if 1 <= number < 100:  # noqa: PLR2004 - YEAR's two-digit rule
            number += 2000 if number < 70 else 1900  # noqa: PLR2004
        return f"{number:04d}"
    return str(number).zfill(type_.length or 0) if zerofill else str(number)


def _decimal(text: str, scale: int) -> str:
    try:
        with localcontext() as precise:
            precise.prec = 130
            return f"{Decimal(text.strip()).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP):f}"
    except InvalidOperation:
        return text


def _float(text: str, type_: FinishedType, *, single: bool) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    if type_.scale is not None:
        return f"{number:.{type_.scale}f}"
    if number == int(number) and abs(number) < 1e15:  # noqa: PLR2004 - beyond, the server prints an exponent
        return str(int(number))
    if single:
        return f"{number:.6g}"
    return repr(number)


def _fraction(digits: str | None, fsp: int) -> str:
    return "." + ((digits or "") + "000000")[:fsp] if fsp else ""


def _date(text: str) -> str:
    found = re.match(r"\s*(\d{4})(\d{2})(\d{2})(?:\d{6})?\s*$", text) or re.match(r"\s*(\d{2,4})\D+(\d{1,2})\D+(\d{1,2})", text)
    if found is None:
        return "0000-00-00" if _whole(text) == 0 else text
    return f"{_year(found[1])}-{found[2]:0>2}-{found[3]:0>2}"


def _year(text: str) -> str:
    if len(text) > 2:  # noqa: PLR2004
        return text.zfill(4)
    return ("20" if int(text) < 70 else "19") + text.zfill(2)  # noqa: PLR2004 - the two-digit rule


def _datetime(text: str, fsp: int) -> str:
    found = re.match(r"\s*(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2}))?(?:\.(\d+))?\s*$", text) or re.match(
        r"\s*(\d{2,4})\D(\d{1,2})\D(\d{1,2})(?:[T\s]+(\d{1,2})\D(\d{1,2})(?:\D(\d{1,2}))?(?:\.(\d+))?)?\s*$", text
    )
    if found is None:
        return "0000-00-00 00:00:00" + _fraction(None, fsp) if _whole(text) == 0 else text
    year, month, day, hour, minute, second, fraction = found.groups()
    return f"{_year(year)}-{month:0>2}-{day:0>2} {hour or 0:0>2}:{minute or 0:0>2}:{second or 0:0>2}" + _fraction(fraction, fsp)


def _time(text: str, fsp: int) -> str:
    found = re.match(r"\s*(-?)(?:(\d+)\s+)?(\d+):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d+))?\s*$", text)
    if found:
        sign, days, hour, minute, second, fraction = found.groups()
        return f"{sign}{int(days or 0) * 24 + int(hour):02d}:{minute:0>2}:{second or 0:0>2}" + _fraction(fraction, fsp)
    found = re.match(r"\s*(-?)(\d+)(?:\.(\d+))?\s*$", text)
    if found is None:
        return text
    number = found[2].zfill(6)
    return f"{found[1]}{number[:-4]}:{number[-4:-2]}:{number[-2:]}" + _fraction(found[3], fsp)
