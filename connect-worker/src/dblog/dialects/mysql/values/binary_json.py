"""MySQL's binary JSON, and the server's JSON text, in one compact text form.

A JSON column is binary in the log (sql-common/json_binary.h) and text in a result set. Both become
the text that Debezium's log reader writes (JsonStringFormatter of the binlog client): no blanks,
members in stored order, doubles as ``Double.toString`` without exponent, opaque values as base64.
So a row has the same bytes from the log and from a chunk.

The server's text does not show every type, so the most frequent one is assumed: a number with a
point is a double unless no double prints these digits, a quoted date or time is a plain string, and
``base64:type`` is an opaque value. If another type is possible and matters, json_kinds.py has asked
the server, and the text arrives here marked as FINAL.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from decimal import Context, Decimal
from typing import Any

from dblog.dialects.mysql.values.decimals import packed_decimal
from dblog.errors import DefiniteError

_U16 = struct.Struct("<H").unpack_from
_U32 = struct.Struct("<I").unpack_from
_I16 = struct.Struct("<h").unpack_from
_I32 = struct.Struct("<i").unpack_from
_I64 = struct.Struct("<q").unpack_from
_U64 = struct.Struct("<Q").unpack_from
_F64 = struct.Struct("<d").unpack_from

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _STRING, _OPAQUE = 5, 6, 7, 8, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_EXACT = Context(prec=100)
_DEPTH_MAX = 120
"""A bound on nesting. The server refuses documents deeper than 100 levels
(JSON_DOCUMENT_MAX_DEPTH).
"""


def text_of_binary(raw: bytes) -> str:
    """Return the compact text of a binary document. An empty one, which a failed INSERT IGNORE
    leaves, means ``null``.
    """
    if not raw:
        return "null"
    out: list[str] = []
    try:
        _value(raw, raw[0], 1, out, 0)
    except (IndexError, ValueError, ArithmeticError, struct.error) as error:
        raise DefiniteError("a binary JSON document is damaged") from error
    return "".join(out)


def _value(raw: bytes, kind: int, at: int, out: list[str], depth: int) -> None:
    if at >= len(raw) and kind != _LITERAL:
        raise IndexError(at)
    if kind <= _LARGE_ARRAY:
        _container(raw, kind, at, out, depth + 1)
    elif kind == _STRING:
        length, at = _length(raw, at)
        out.append(quoted(_slice(raw, at, length).decode("utf-8", "replace")))
    elif kind == _OPAQUE:
        length, start = _length(raw, at + 1)
        out.append(_opaque(raw[at], _slice(raw, start, length)))
    else:
        out.append(_scalar(raw, kind, at))


def _scalar(raw: bytes, kind: int, at: int) -> str:
    match kind:
        case 4:
            return _literal(raw[at])
        case 5:
            return str(_I16(raw, at)[0])
        case 6:
            return str(_U16(raw, at)[0])
        case 7:
            return str(_I32(raw, at)[0])
        case 8:
            return str(_U32(raw, at)[0])
        case 9:
            return str(_I64(raw, at)[0])
        case 10:
            return str(_U64(raw, at)[0])
        case 11:
            return double_text(_F64(raw, at)[0])
        case _:
            raise ValueError(kind)


def _literal(code: int) -> str:
    try:
        return _LITERALS[code]
    except KeyError:
        raise ValueError(code) from None


def _container(raw: bytes, kind: int, start: int, out: list[str], depth: int) -> None:
    """Append an object or array. It consists of counts, key entries, value entries, keys and
    values; offsets count from ``start``.
    """
    # Offsets of a damaged document may form a loop.
    if depth > _DEPTH_MAX or len(out) > 8 * len(raw):
        raise ValueError(depth)
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    width, unpack = (4, _U32) if large else (2, _U16)
    count = unpack(raw, start)[0]
    size = unpack(raw, start + width)[0]
    keys = start + 2 * width
    values = keys + (width + 2) * count if is_object else keys
    if start + size > len(raw) or values + (width + 1) * count > start + size:
        raise IndexError(start)
    out.append("{" if is_object else "[")
    for index in range(count):
        if index:
            out.append(",")
        if is_object:
            entry = keys + (width + 2) * index
            name = _slice(raw, start + unpack(raw, entry)[0], _U16(raw, entry + width)[0])
            out.append(quoted(name.decode("utf-8", "replace")))
            out.append(":")
        entry = values + (width + 1) * index
        member = raw[entry]
        if member == _LITERAL or member in (_INT16, _UINT16) or (large and member in (_INT32, _UINT32)):
            out.append(_scalar(raw, member, entry + 1))
        else:
            _value(raw, member, start + unpack(raw, entry + 1)[0], out, depth)
    out.append("}" if is_object else "]")


def _length(raw: bytes, at: int) -> tuple[int, int]:
    """Return a length stored as seven bits a byte, lowest first, and the offset after it."""
    length = 0
    for shift in range(0, 35, 7):
        byte = raw[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the top bit states that more follow
            return length, at
    raise ValueError(at)


def _slice(raw: bytes, at: int, length: int) -> bytes:
    if at + length > len(raw):
        raise IndexError(at)
    return raw[at : at + length]


def _opaque(field_type: int, raw: bytes) -> str:
    match field_type:
        case 246:
            precision, scale = raw[0], raw[1]
            return f"{Decimal(packed_decimal(raw[2:], precision, scale)).scaleb(-scale, _EXACT):f}"
        case 10:
            return f'"{_date(_I64(raw, 0)[0])}"'
        case 11 | 19:
            return f'"{_time(_I64(raw, 0)[0])}"'
        case 7 | 12 | 17 | 18:
            packed = _I64(raw, 0)[0]
            return f'"{_date(packed)} {_clock((packed >> 24) & 0x1FFFF, packed & 0xFFFFFF)}"'
        case _:
            return f'"{b64encode(raw).decode()}"'


def _date(packed: int) -> str:
    days = packed >> 41
    return f"{(days >> 5) // 13:04d}-{(days >> 5) % 13:02d}-{days & 31:02d}"


def _time(packed: int) -> str:
    sign = "-" if packed < 0 else ""
    packed = abs(packed)
    return sign + _clock((packed >> 24) & 0x3FFFFF, packed & 0xFFFFFF)


def _clock(seconds: int, micros: int) -> str:
    text = f"{seconds >> 12:02d}:{(seconds >> 6) & 63:02d}:{seconds & 63:02d}"
    return f"{text}.{micros:06d}".rstrip("0") if micros else text


def double_text(value: float) -> str:
    """Return ``Double.toString``, or the exact decimal digits (``new
    BigDecimal(d).toPlainString()``) where that has an exponent.
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:  # noqa: PLR2004 - the bounds of java.lang.Double.toString
        return repr(value)
    return f"{Decimal(value):f}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def quoted(text: str) -> str:
    """Return a JSON string that escapes only what JSON requires, with upper-case hexadecimal
    digits.
    """
    return '"' + _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04X}", text) + '"'


_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(true|false|null|[{}\[\],:]))', re.DOTALL)
_OPAQUE_TEXT = re.compile(r'"base64:type\d{1,3}:((?:[A-Za-z0-9+/=]|\\n)*)"')
"""The server's text of an opaque value without a text form (Json_opaque, Item_func_json_quote). The
log's text has only the base64, without the line ends of TO_BASE64.
"""
_UNESCAPE: dict[str, str] = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


FINAL = b"\0"
"""The prefix of a document whose text is final. No JSON text begins with it."""


def text_of_text(raw: bytes) -> str:
    """Return the compact text of a JSON value that the server printed. Text that is not JSON is
    returned unchanged.
    """
    if raw[:1] == FINAL:
        return raw[1:].decode("utf-8", "replace")
    text = raw.decode("utf-8", "replace")
    out: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            return text
        string, number, other = token.groups()
        if string is not None:
            opaque = None if text[token.end() : token.end() + 1] == ":" else _OPAQUE_TEXT.fullmatch(string)
            out.append('"' + opaque[1].replace("\\n", "") + '"' if opaque else quoted(_unescaped(string[1:-1])))
        elif number is not None:
            out.append(_number_text(number))
        else:
            out.append(other)
        at = token.end()
    return "".join(out) if out else text


def _unescaped(body: str) -> str:
    if "\\" not in body:
        return body
    plain = _ESCAPED.sub(_one, body)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _one(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _UNESCAPE.get(match[2], match[2])


def differs_as_double(token: str) -> bool:
    """Return whether a DOUBLE and a DECIMAL that the server prints like this have different final
    texts.
    """
    return "." in token and "e" not in token.lower() and _number_text(token) != token


def _number_text(token: str) -> str:
    if not any(c in token for c in ".eE"):
        return token
    value = float(token)
    # The server prints a double with the fewest digits that read back, and a decimal with its
    # scale: `1.10` cannot be a double.
    if "e" not in token.lower() and _digits(token) != _digits(repr(value)):
        return token
    return double_text(value)


def _digits(text: str) -> Any:
    """Return sign, digits and exponent of a decimal text. Trailing zeros count, except a single one
    after the point.
    """
    sign, digits, exponent = Decimal(text).as_tuple()
    if exponent == -1 and digits[-1] == 0 and len(digits) > 1:
        return sign, digits[:-1], 0
    if isinstance(exponent, int) and exponent > 0:
        return sign, digits + (0,) * exponent, 0
    return sign, digits, exponent
