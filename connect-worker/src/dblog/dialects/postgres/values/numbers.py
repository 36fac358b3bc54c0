"""Exact numbers from PostgreSQL's text: numeric in its three modes, and money.

Rule sources: PostgreSQL manual, Numeric Types and Monetary Types; Debezium's PostgresValueConverter, SpecialValueDecimal and PostgresMoney;
java.math.BigInteger.toByteArray.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from dblog.dialects.postgres.values.inexpressible import InexpressibleError

SPECIAL = {b"NaN": "NAN", b"Infinity": "POSITIVE_INFINITY", b"-Infinity": "NEGATIVE_INFINITY"}
"""What decimal.handling.mode=string writes for them: the names of Debezium's constants."""

_INT_DIGITS_MAX = 2000
"""Python's own limit for a text is 4300; a numeric may have 147455 digits."""


def unscaled_bytes(value: int) -> bytes:
    """Two's complement, big-endian, shortest: ``java.math.BigInteger.toByteArray``."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def unscaled(raw: bytes, scale: int) -> int:
    """A numeric's text in units of ``10**-scale``. ValueError where that is no whole number, InexpressibleError for NaN and infinities."""
    if raw in SPECIAL:
        raise InexpressibleError(
            "NaN and infinity cannot be written as a decimal; set decimal.handling.mode=string (or double), or exclude the column"
        )
    whole, _, fraction = raw.partition(b".")
    if len(fraction) > scale:
        if fraction[scale:].strip(b"0"):
            raise ValueError
        fraction = fraction[:scale]
    return _integer(whole + fraction.ljust(scale, b"0"))


def variable_scale(raw: bytes) -> dict[str, Any]:
    """``io.debezium.data.VariableScaleDecimal``: as few fraction digits as the number needs."""
    scale = len(raw.partition(b".")[2].rstrip(b"0"))
    return {"scale": scale, "value": unscaled_bytes(unscaled(raw, scale))}


def plain_text(raw: bytes) -> str:
    """The text as the server prints it, which is ``BigDecimal.toPlainString`` already."""
    return SPECIAL.get(raw) or raw.decode("ascii")


def _integer(digits: bytes) -> int:
    """Read a whole number in much less time than the square of its digits takes: whoever writes a row may make it that long."""
    if len(digits) <= _INT_DIGITS_MAX:
        return int(digits)
    sign, size = (-1, digits[1:]) if digits.startswith(b"-") else (1, digits)
    if not size.isdigit():
        raise ValueError
    return sign * _halved(size, {})


def _halved(digits: bytes, powers: dict[int, int]) -> int:
    """Read digits by their halves; ``powers`` keeps those of ten, for the halves of all parts have few lengths."""
    if len(digits) <= _INT_DIGITS_MAX:
        return int(digits)
    low = len(digits) // 2
    if low not in powers:
        powers[low] = 10**low
    return _halved(digits[:-low], powers) * powers[low] + _halved(digits[-low:], powers)


# --- money -----------------------------------------------------------------------------------------------------------

_AMOUNT = re.compile(r"\d(?:.*\d)?", re.DOTALL)
_SEPARATOR = re.compile(r"\D+")
_GROUP = 3


def money(text: str, fraction_digits: int) -> Decimal:
    """The amount that the server prints for its ``lc_monetary``, which decides symbol, sign, and the separators of groups and of the fraction.

    Debezium takes commas away and reads the rest as a number, which works where the point separates the fraction. The same is read here, and other locales
    as well: the last separator begins the fraction, unless it stands elsewhere too, or alone in front of three digits, which are a group of thousands
    (a fraction only where ``fraction_digits``, the option money.fraction.digits, is 3).
    """
    amount = _AMOUNT.search(text)
    if amount is None:
        raise ValueError
    separators = _SEPARATOR.findall(amount[0])
    digits = _SEPARATOR.split(amount[0])
    last = len(digits[-1])
    grouped = not separators or separators[-1] in separators[:-1] or (len(separators) == 1 and last == _GROUP != fraction_digits)
    around = text.replace(amount[0], "")
    sign = "-" if "-" in around or "(" in around or "\N{MINUS SIGN}" in around else ""
    return Decimal(sign + "".join(digits)).scaleb(0 if grouped else -last)
