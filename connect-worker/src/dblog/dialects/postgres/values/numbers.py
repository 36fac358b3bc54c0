"""Converts exact numbers from PostgreSQL's text: numeric in its three modes, and money.

Sources of the rules: PostgreSQL manual, Numeric Types and Monetary Types; Debezium's
PostgresValueConverter, SpecialValueDecimal and PostgresMoney; java.math.BigInteger.toByteArray.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from dblog.dialects.postgres.values.inexpressible import InexpressibleError

SPECIAL = {b"NaN": "NAN", b"Infinity": "POSITIVE_INFINITY", b"-Infinity": "NEGATIVE_INFINITY"}
"""Texts that decimal.handling.mode=string writes for special values: the names of Debezium's
constants.
"""

_INT_DIGITS_MAX = 2000
"""Number of digits up to which Python's int reads a text at once. Python's own limit is 4300; a
numeric may have 147455 digits.
"""


def unscaled_bytes(value: int) -> bytes:
    """Return the shortest big-endian two's complement, as ``java.math.BigInteger.toByteArray``
    does.
    """
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def unscaled(raw: bytes, scale: int) -> int:
    """Return a numeric's text in units of ``10**-scale``. Raise ValueError if that is not a whole
    number, and InexpressibleError for NaN and infinities.
    """
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
    """Return a number as ``io.debezium.data.VariableScaleDecimal``, with as few fraction digits as
    it needs.
    """
    scale = len(raw.partition(b".")[2].rstrip(b"0"))
    return {"scale": scale, "value": unscaled_bytes(unscaled(raw, scale))}


def plain_text(raw: bytes) -> str:
    """Return the text as the server prints it, which equals ``BigDecimal.toPlainString``; special
    values become the names of Debezium's constants.
    """
    return SPECIAL.get(raw) or raw.decode("ascii")


def _integer(digits: bytes) -> int:
    """Return a whole number. The time grows much slower than the square of the number of digits,
    because anybody who writes a row can make it very long.
    """
    if len(digits) <= _INT_DIGITS_MAX:
        return int(digits)
    sign, size = (-1, digits[1:]) if digits.startswith(b"-") else (1, digits)
    if not size.isdigit():
        raise ValueError
    return sign * _halved(size, {})


def _halved(digits: bytes, powers: dict[int, int]) -> int:
    """Return the number that digits form, computed from their halves. ``powers`` caches powers of
    ten, since the halves of all parts have only few lengths.
    """
    if len(digits) <= _INT_DIGITS_MAX:
        return int(digits)
    low = len(digits) // 2
    if low not in powers:
        powers[low] = 10**low
    return _halved(digits[:-low], powers) * powers[low] + _halved(digits[-low:], powers)


# --- money ------------------------------

_AMOUNT = re.compile(r"\d(?:.*\d)?", re.DOTALL)
_SEPARATOR = re.compile(r"\D+")
_GROUP = 3


def money(text: str, fraction_digits: int) -> Decimal:
    """Return the amount of money in the server's text. ``lc_monetary`` decides the symbol, the
    sign, and the separators of groups and of the fraction.

    Debezium removes commas and reads the rest as a number, which works if a point separates the
    fraction. This function gives the same results and reads other locales too. The last separator
    begins the fraction, with two exceptions: it also occurs earlier, or it is the only one and
    three digits follow, which are a group of thousands. Three digits are a fraction only if
    ``fraction_digits``, the option money.fraction.digits, is 3.
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
