"""Converts numbers as Java does: casts that wrap or saturate, and texts that are numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from struct import pack, unpack

from dblog.codecs.schema import Kind

BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?")
_INTEGER = re.compile(r"[+-]?\d+")
_DIGITS_MAX = 400


def wrapped(number: int, bits: int) -> int:
    """Return the low bits of an integer as a signed number."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def float_to_int(number: float, bits: int) -> int:
    """Return a float as Java narrows it: toward zero, NaN as 0, within the range of int or long,
    and wrapped from int for the smaller types.
    """
    if math.isnan(number):
        return 0
    wide = max(bits, 32)
    low, high = -(1 << (wide - 1)), (1 << (wide - 1)) - 1
    whole = low if number <= low else high if number >= high else int(number)
    return wrapped(whole, bits)


def as_float32(number: float) -> float:
    """Return the nearest float32."""
    if math.isnan(number) or math.isinf(number):
        return number
    try:
        return float(unpack("<f", pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def parsed_int(text: str, bits: int) -> int:
    """Return the integer in a text. Raise ValueError if it is invalid, or out of range."""
    if not _INTEGER.fullmatch(text) or len(text) > _DIGITS_MAX:
        raise ValueError(f"not a number of {bits} bits")
    number = int(text)
    if wrapped(number, bits) != number:
        raise ValueError(f"not a number of {bits} bits")
    return number


def parsed_float(text: str) -> float:
    """Return the float in a text. Raise ValueError if it is invalid."""
    trimmed = text.strip(" \t\n\r\f\v\0")
    if not _FLOAT.fullmatch(trimmed):
        raise ValueError("not a floating-point number")
    return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))


def parsed_decimal(text: str) -> Decimal:
    """Return the decimal number in a text. Raise ValueError if it is invalid."""
    try:
        number = Decimal(text)
    except InvalidOperation as e:
        raise ValueError("not a decimal number") from e
    if not number.is_finite() or len(text) > _DIGITS_MAX or abs(number.adjusted()) > _DIGITS_MAX:
        raise ValueError("not a decimal number")
    return number
