"""Lists the text forms in which PostgreSQL writes fields, as far as readers distinguish them.

Rows of the log and of chunks are the server's text output under DateStyle=ISO,
IntervalStyle=postgres, TimeZone=UTC, extra_float_digits=3, bytea_output=hex and
client_encoding=UTF8 (PostgreSQL manual, Client Connection Defaults). So there is one source for
each form of text, not for each type.
"""

from __future__ import annotations

from enum import IntEnum


class PgSource(IntEnum):
    """The form of the text of a field that is not NULL. Its numbers differ from those of
    ``codecs.plan.Source``.
    """

    BOOL = 101
    """A boolean, ``t`` or ``f``."""
    INT = 102
    """Decimal digits, perhaps after a minus: int2, int4, int8 and oid."""
    FLOAT4 = 103
    FLOAT8 = 104
    """The shortest decimal that reads back as the same number, or ``NaN``, ``Infinity``,
    ``-Infinity``.
    """
    NUMERIC = 105
    """A plain decimal with as many fraction digits as the type's scale, or ``NaN``, ``Infinity``,
    ``-Infinity``.
    """
    TEXT = 106
    """A text whose bytes are the value itself, in UTF-8."""
    BYTEA = 107
    r"""Bytes as ``\x`` and two hexadecimal digits for each."""
    DATE = 108
    """A date such as ``2024-02-29`` or ``0044-03-15 BC``, or ``infinity``, ``-infinity``. Years
    above 9999 have more digits.
    """
    TIME = 109
    """A time such as ``23:59:59.999999``, with the necessary fraction digits only, up to
    ``24:00:00``.
    """
    TIMETZ = 110
    """A TIME with an offset in hours, and minutes and seconds if it has them: ``+02``,
    ``-03:30``.
    """
    TIMESTAMP = 111
    """A DATE, a blank and a TIME below 24:00:00; ``BC`` comes at the end."""
    TIMESTAMPTZ = 112
    """A TIMESTAMP with the offset ``+00`` before ``BC``."""
    VALUE = 113
    """A text that only the type's own reader understands (``values.fields.reader``): arrays,
    hstore, intervals, geometries, bit strings, money.
    """
