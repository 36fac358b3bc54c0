"""DECIMAL in the log's packed form and in Kafka Connect's.

Rule sources: strings/decimal.c (decimal_bin_size, bin2decimal) and
java.math.BigInteger.toByteArray.
"""

from __future__ import annotations

from decimal import Decimal

from dblog.errors import DefiniteError

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group with this many decimal digits (decimal.c: dig2bytes)."""


def packed_size(precision: int, scale: int) -> int:
    """Return the bytes of DECIMAL(precision, scale) in a row image (decimal.c: decimal_bin_size)."""
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def packed_decimal(raw: bytes, precision: int, scale: int) -> int:
    """Return the unscaled value of a packed DECIMAL. It has nine digits per four bytes, all bits
    inverted if negative, the top bit flipped.
    """
    if len(raw) < packed_size(precision, scale):
        raise DefiniteError(f"a packed DECIMAL({precision},{scale}) has only {len(raw)} bytes")
    negative = not raw[0] & 0x80
    data = bytes(byte ^ 0xFF for byte in raw) if negative else raw
    data = bytes([data[0] ^ 0x80]) + data[1:]
    whole = precision - scale
    widths = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    value, at = 0, 0
    for digits in widths:
        size = _DIGIT_BYTES[digits]
        value = value * 10**digits + int.from_bytes(data[at : at + size], "big")
        at += size
    return -value if negative else value


def decimal_packed(unscaled: int, precision: int, scale: int) -> bytes:
    """Return a DECIMAL(precision, scale) packed as ``packed_decimal`` reads it. Raise ValueError if
    it has too many digits.
    """
    digits = str(abs(unscaled)).rjust(precision, "0")
    if len(digits) > precision:
        message = f"a number of more digits than DECIMAL({precision},{scale}) holds"
        raise ValueError(message)
    whole = precision - scale
    out, at = bytearray(), 0
    for count in (whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9):
        out += int(digits[at : at + count] or "0").to_bytes(_DIGIT_BYTES[count], "big")
        at += count
    out[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in out) if unscaled < 0 else bytes(out)


def unscaled(value: Decimal, scale: int) -> int:
    """Return the value in units of ``10**-scale``, rounded half up."""
    return int(value.scaleb(scale).to_integral_value(rounding="ROUND_HALF_UP"))


def unscaled_bytes(value: int) -> bytes:
    """Return the shortest big-endian two's complement, like ``java.math.BigInteger.toByteArray``."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
