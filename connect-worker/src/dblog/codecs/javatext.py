"""Formats strings and numbers as Java's libraries print them: Jackson's JSON strings,
``Double.toString``, ``BigDecimal.toString``.

Schema texts and JSON records are compared and stored as text, so the spelling counts. Numbers have
the fewest digits that read back as the same number. Java 19 and later print them so; older versions
sometimes print one digit more.
"""

from __future__ import annotations

import re
from decimal import Decimal
from struct import pack, unpack

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def quoted(text: str) -> str:
    """Return a JSON string as Jackson writes it: only control characters, quotes and backslashes
    are escaped, with upper-case hexadecimal digits.
    """
    return '"' + _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04X}", text) + '"'


def double_text(value: float) -> str:
    """Return the text of ``Double.toString``: at least one fraction digit, and scientific notation
    below 1e-3 and from 1e7 on.
    """
    if value != value:  # noqa: PLR0124 - NaN is the only value unequal to itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return _java_decimal_text(repr(value))


_FLOAT_MAX = 3.4028235677973366e38
"""Smallest double that no longer rounds to a finite float."""


def float_text(value: float) -> str:
    """Return the text of ``Float.toString`` for a value that a 32-bit float can hold: the fewest
    digits that read back as the same float.
    """
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
        return double_text(value)
    if value == 0.0:
        return double_text(value)
    single = pack("<f", value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if float(text) == 0.0 or abs(float(text)) > _FLOAT_MAX:
            continue  # out of the range of a float, which pack would refuse
        if pack("<f", float(text)) == single:
            return _java_decimal_text(text)
    return _java_decimal_text(repr(value))


def _java_decimal_text(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return sign + "0.0"
    exponent = int(exponent_text or "0") + len(whole) - 1 - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    digits = digits.rstrip("0") or "0"
    if -3 <= exponent < 7:  # noqa: PLR2004 - the bounds of java.lang.Double.toString
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        padded = digits.ljust(exponent + 1, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def as_float32(value: float) -> float:
    """Return the nearest 32-bit float as a double."""
    single: float = unpack("<f", pack("<f", value))[0]
    return single


_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def quoted_for_bytes(text: str) -> str:
    """Return a JSON string as Jackson writes it to bytes: like ``quoted``, but a character beyond
    the basic plane becomes two escapes.
    """
    out = quoted(text)
    return out if out.isascii() else _ASTRAL.sub(_surrogates, out)


def _surrogates(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return f"\\u{units[0]:02X}{units[1]:02X}\\u{units[2]:02X}{units[3]:02X}"


def decimal_text(unscaled: bytes, scale: int) -> str:
    """Return the text of ``BigDecimal.toString`` for the bytes of a Connect Decimal. Python's
    Decimal follows the same rule.
    """
    number = int.from_bytes(unscaled, "big", signed=True)
    return str(Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))
