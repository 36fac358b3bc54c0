"""How PostgreSQL writes a field: the text forms that a reader tells apart.

Log rows and chunk rows are the server's text output under DateStyle=ISO, IntervalStyle=postgres, TimeZone=UTC, extra_float_digits=3, bytea_output=hex and
client_encoding=UTF8 (PostgreSQL manual, Client Connection Defaults). So there is one source per form of text, not per type.
"""

from __future__ import annotations

from enum import IntEnum


class PgSource(IntEnum):
    """The text of a field that is not NULL. The numbers are apart from those of ``codecs.plan.Source``."""

    BOOL = 101
    """``t`` or ``f``."""
    INT = 102
    """Decimal digits, perhaps behind a minus: int2, int4, int8 and oid."""
    FLOAT4 = 103
    FLOAT8 = 104
    """The shortest decimal that reads back as the same number, or ``NaN``, ``Infinity``, ``-Infinity``."""
    NUMERIC = 105
    """A plain decimal with as many fraction digits as the type's scale, or ``NaN``, ``Infinity``, ``-Infinity``."""
    TEXT = 106
    """The bytes are the value itself, in UTF-8."""
    BYTEA = 107
    r"""``\x`` and two hexadecimal digits a byte."""
    DATE = 108
    """``2024-02-29``, of the years before Christ ``0044-03-15 BC``, or ``infinity``, ``-infinity``; years above 9999 have more digits."""
    TIME = 109
    """``23:59:59.999999`` with the fraction digits that are needed; up to ``24:00:00``."""
    TIMETZ = 110
    """As TIME, and an offset of hours, with minutes and seconds where it has some: ``+02``, ``-03:30``."""
    TIMESTAMP = 111
    """A DATE, a blank and a TIME below 24:00:00; ``BC`` at the end."""
    TIMESTAMPTZ = 112
    """As TIMESTAMP, with the offset ``+00`` in front of ``BC``."""
    VALUE = 113
    """A text that only the type's own reader understands (``values.fields.reader``): arrays, hstore, intervals, geometries, bit strings, money."""
