"""Converts intervals from PostgreSQL's text (IntervalStyle=postgres) into Debezium's MicroDuration
and Interval.

Sources of the rules: PostgreSQL manual, Interval Output; PGInterval of PostgreSQL's JDBC driver,
which only knows the printed parts; Debezium's MicroDuration (a month is 30.4375 days, in double
arithmetic) and Interval.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dblog.dialects.postgres.values.inexpressible import InexpressibleError

DAYS_PER_MONTH = 365.25 / 12.0
_LONG_MAX, _LONG_MIN = (1 << 63) - 1, -(1 << 63)
_PARTS = re.compile(
    rb"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


class Parts(NamedTuple):
    """The parts of an interval that the server prints. Hours, minutes and seconds share one sign.
    ``micros`` holds the seconds and their fraction.
    """

    years: int
    months: int
    days: int
    hours: int
    minutes: int
    micros: int


def parts(raw: bytes) -> Parts:
    """Return the parts of an interval's text. Raise InexpressibleError for the infinite intervals
    of PostgreSQL 17 and later.
    """
    if raw in (b"infinity", b"-infinity"):
        raise InexpressibleError("an infinite interval cannot be written; give the row a finite one, or exclude the column")
    found = _PARTS.fullmatch(raw)
    if found is None or not raw:
        raise ValueError
    years, months, days, sign, hours, minutes, seconds, fraction = found.groups(default=b"")
    factor = -1 if sign == b"-" else 1
    return Parts(
        int(years or 0),
        int(months or 0),
        int(days or 0),
        factor * int(hours or 0),
        factor * int(minutes or 0),
        factor * (int(seconds or 0) * 1_000_000 + int(fraction.ljust(6, b"0"))),
    )


def duration_micros(raw: bytes) -> int:
    """Return the interval's approximate length in microseconds (MicroDuration), computed in doubles
    and truncated as Java casts to long.
    """
    years, months, days, hours, minutes, micros = parts(raw)
    whole = abs(micros) // 1_000_000 * (-1 if micros < 0 else 1)
    seconds = whole + (micros - whole * 1_000_000) / 1e6
    number_of_days = (years * 12 + months) * DAYS_PER_MONTH + days
    number_of_seconds = ((number_of_days * 24 + hours) * 60 + minutes) * 60 + seconds
    return max(_LONG_MIN, min(_LONG_MAX, int(number_of_seconds * 1e6)))


def duration_text(raw: bytes) -> str:
    """Return the interval as ``P1Y2M3DT4H5M6.78S`` with every part printed (Interval)."""
    years, months, days, hours, minutes, micros = parts(raw)
    whole, fraction = divmod(abs(micros), 1_000_000)
    seconds = f"{whole}.{fraction:06d}".rstrip("0").rstrip(".")
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{'-' if micros < 0 else ''}{seconds}S"
