"""The field of a column that an INSERT did not name, as a row image would have it: its default,
else the zero of its type.

Under binlog_row_image=MINIMAL and NOBLOB the log leaves such columns out. Their value is a constant
(measured on MySQL 9.7 and MariaDB 10.11: values from an expression, a trigger, AUTO_INCREMENT or
the clock are in the image). The table version at the event's position has the constant's text as
the catalog shows it, a TIMESTAMP in UTC.

A text that leaves doubt gives no field: a FLOAT other than 0 whose type has no decimals (the
catalog rounds it), a question mark that may stand for another character, a SET with an empty
member, and any text that is not in the type's plain form.

Rule sources: MySQL manual, "Data Type Default Values"; Field::pack in sql/field.cc;
my_time_packed_to_binary and its siblings in mysys/my_time.cc; decimal2bin in strings/decimal.cc.
values/fields.py does the reverse.
"""

from __future__ import annotations

import calendar
import re
from decimal import Context, Decimal
from struct import pack
from typing import TYPE_CHECKING

from dblog.codecs.plan import ColumnPlan, Source
from dblog.dialects.mysql.values.decimals import decimal_packed

if TYPE_CHECKING:
    from dblog.codecs.rowplan import Layout
    from dblog.model import Column

_INTEGERS = frozenset({Source.INT8, Source.INT16, Source.INT24, Source.INT32, Source.INT64})
_EXACT = Context(prec=100)
"""Arithmetic that keeps all 65 digits of a DECIMAL."""
WIDE = {"ucs2": "utf_16_be", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be"}
"""Charsets that do not encode ASCII characters as ASCII."""

_SHOWN_WHOLE = frozenset({"utf8mb3", "utf8", "latin1", "ascii"})
"""Charsets of which the catalog shows every character. In others a question mark may stand for a
character that it cannot show.
"""

_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_BITS = re.compile(r"b'([01]+)'")
_FLOAT_DIGITS_MAX = 5
"""The digits of a FLOAT that the catalog surely shows. It rounds to 6 digits (FLT_DIG), so a longer
text may hide more.
"""
_PLANE_END = "\uffff"
"""The last character that the catalog can show."""
_TEXT_SOURCES = frozenset({Source.TEXT, Source.BINARY})
_SORTED_FROM_BELOW = frozenset({Source.DECIMAL, Source.TIME, Source.DATETIME})
"""Sources whose zero has the top bit set, so that negative values sort below it."""
_WITHOUT_ZERO = frozenset({Source.JSON, Source.GEOMETRY, Source.VECTOR})


def default_field(column: ColumnPlan, declared: Column, layout: Layout) -> bytes | None:
    """Return the field with its length prefix; None for NULL. Raise ValueError or ArithmeticError
    if the schema leaves the value in doubt.
    """
    text = declared.default if declared.has_default else None
    if declared.generated or declared.default_is_expression:
        raise ValueError
    if text is None:
        if declared.nullable:
            return None
        if declared.has_default:
            raise ValueError
        return _implicit(column, layout)
    return _field(column, declared, text, layout)


def _implicit(column: ColumnPlan, layout: Layout) -> bytes:
    """Return the value of a NOT NULL column without a default if sql_mode is not strict."""
    if column.source in _WITHOUT_ZERO:
        raise ValueError
    if column.source is Source.ENUM:
        return (1).to_bytes(layout.size, "little")
    if layout.prefix:
        return bytes(layout.prefix)
    return bytes([0x80 if column.source in _SORTED_FROM_BELOW else 0]) + bytes(layout.size - 1)


def _field(column: ColumnPlan, declared: Column, text: str, layout: Layout) -> bytes:
    match column.source:
        case source if source in _INTEGERS:
            return int(text).to_bytes(layout.size, "little", signed=not declared.unsigned)
        case source if source in _TEXT_SOURCES:
            raw = _string(column, text)
            return len(raw).to_bytes(layout.prefix, "little") + raw
        case Source.DECIMAL:
            return decimal_packed(_unscaled(text, column.scale), column.length, column.scale)
        case Source.DOUBLE:
            return pack("<d", float(text))
        case Source.FLOAT:
            value = float(text)
            digits = len(Decimal(text).normalize().as_tuple().digits)
            if value and (declared.scale is None or digits > _FLOAT_DIGITS_MAX):
                raise ValueError
            return pack("<f", value)
        case Source.YEAR:
            year = int(text)
            return (year - 1900 if year else 0).to_bytes(1, "little")
        case Source.BIT:
            return int(_parts(_BITS, text)[0], 2).to_bytes(layout.size, "big")
        case Source.ENUM:
            return (_member(column, text) + 1).to_bytes(layout.size, "little")
        case Source.SET:
            if "" in column.members:  # the server's text of the SET does not show the empty member
                raise ValueError
            chosen = {_member(column, member) for member in text.split(",")} if text else set()
            return sum(1 << index for index in chosen).to_bytes(layout.size, "little")
        case Source.DATE:
            year, month, day = map(int, _parts(_MOMENT, text)[:3])
            return (year << 9 | month << 5 | day).to_bytes(3, "little")
        case Source.TIME:
            return _time(text, column.length)
        case Source.DATETIME:
            return _datetime(text, column.length)
        case Source.TIMESTAMP:
            return _timestamp(text, column.length)
        case _:  # formats of old servers, and types whose bytes differ from their text
            raise ValueError


def _member(column: ColumnPlan, text: str) -> int:
    """Return the member's index. The catalog may show several members as the same question marks;
    then the default's member is unknown, and ValueError is raised.
    """
    if column.members.count(text) != 1 or ("?" in text and any(char > _PLANE_END for member in column.members for char in member)):
        raise ValueError
    return column.members.index(text)


def _parts(form: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = form.fullmatch(text)
    if found is None:
        raise ValueError
    return tuple(part or "" for part in found.groups())


def _unscaled(text: str, scale: int) -> int:
    value = Decimal(text).scaleb(scale, _EXACT)
    if value != value.to_integral_value():
        raise ValueError
    return int(value)


def _string(column: ColumnPlan, text: str) -> bytes:
    if not text:
        return b""
    if column.compressed:
        raise ValueError
    if column.source is Source.BINARY:
        if not text.startswith("0x"):
            raise ValueError
        return bytes.fromhex(text[2:])
    charset = (column.charset or "").lower()
    if charset not in ("utf8mb4", "utf8mb3", "utf8") and (not text.isascii() or charset in WIDE):
        raise ValueError
    if "?" in text and charset not in _SHOWN_WHOLE:
        raise ValueError
    return text.encode()


def _fraction(digits: str, fsp: int) -> bytes:
    """Return the fraction of a second as a big-endian integer of ``(fsp + 1) // 2`` bytes."""
    size = (fsp + 1) // 2
    return int("0" + digits.ljust(6, "0")[: 2 * size]).to_bytes(size, "big")


def _time(text: str, fsp: int) -> bytes:
    """Return a TIME2: hours, minutes and seconds in 3 bytes, then the fraction. All of it is one
    number, offset by the middle of its range.
    """
    sign, hours, minutes, seconds, digits = _parts(_TIME, text)
    fraction = _fraction(digits, fsp)
    size = 3 + len(fraction)
    value = (int(hours) << 12 | int(minutes) << 6 | int(seconds)) << 8 * len(fraction) | int.from_bytes(fraction, "big")
    return ((0x800000 << 8 * len(fraction)) + (-value if sign else value)).to_bytes(size, "big")


def _datetime(text: str, fsp: int) -> bytes:
    """Return a DATETIME2: 40 bits of date and time, then the fraction."""
    *parts, digits = _parts(_MOMENT, text)
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    value = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    return (value + 0x8000000000).to_bytes(5, "big") + _fraction(digits, fsp)


def _timestamp(text: str, fsp: int) -> bytes:
    """Return a TIMESTAMP2: seconds since 1970 in UTC, then the fraction. Second 0 is the zero date."""
    *parts, digits = _parts(_MOMENT, text)
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    epoch_s = calendar.timegm((year, month, day, hour, minute, second)) if year else 0
    return epoch_s.to_bytes(4, "big") + _fraction(digits, fsp)
