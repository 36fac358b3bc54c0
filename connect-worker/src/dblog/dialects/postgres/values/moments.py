"""Converts dates and times from PostgreSQL's ISO text, for every year that the server has: 4713 BC
to 5874897.

Sources of the rules: PostgreSQL manual, Date/Time Types and Date/Time Output; Debezium's
DateTimeFormat and PostgresValueConverter; java.time's ISO formatters. All calendars are the
proleptic Gregorian one; 1 BC is year 0.
"""

from __future__ import annotations

import re
from datetime import date

from dblog.dialects.postgres.values.inexpressible import InexpressibleError

MICROS_PER_DAY = 86_400_000_000
MICROS_PER_SECOND = 1_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAYS_PER_ERA = 146_097
_YEARS_PER_ERA = 400
"""Number of years after which the calendar repeats. So every year has an equal one among those that
Python's dates know.
"""

INFINITE_MICROS = {b"infinity": 9_223_372_036_825_200_000, b"-infinity": -9_223_372_036_832_400_000}
"""PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of PostgreSQL's JDBC driver, which
Debezium reads as microseconds.
"""
_INFINITE_DAYS = {b"infinity": (-5_877_611, 6, 21), b"-infinity": (-5_877_611, 6, 22)}
"""Local dates of the driver's infinite dates; both are before Christ (PostgresValueConverter)."""
_LONG_MAX, _LONG_MIN = (1 << 63) - 1, -(1 << 63)
_INFINITE_NANOS = {b"infinity": _LONG_MAX, b"-infinity": _LONG_MIN}

_DATE = rb"(\d{4,7})-(\d\d)-(\d\d)"
_CLOCK = rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?"
_OFFSET = rb"([+-])(\d\d)(?::(\d\d)(?::(\d\d))?)?"
_IS_DATE = re.compile(rb"%b( BC)?" % _DATE)
_IS_TIME = re.compile(_CLOCK)
_IS_TIMETZ = re.compile(_CLOCK + _OFFSET)
_IS_TIMESTAMP = re.compile(rb"%b %b(?:%b)?( BC)?" % (_DATE, _CLOCK, _OFFSET))


def day_number(year: int, month: int, day: int) -> int:
    """Return the number of days since 1970-01-01. Raise ValueError for a day that the calendar does
    not have.
    """
    era, year_of_era = divmod(year, _YEARS_PER_ERA)
    return date(year_of_era + _YEARS_PER_ERA, month, day).toordinal() - _EPOCH_DAY + (era - 1) * _DAYS_PER_ERA


def calendar_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + _EPOCH_DAY - 1, _DAYS_PER_ERA)
    like = date.fromordinal(day_of_era + 1 + _DAYS_PER_ERA)
    return like.year + (era - 1) * _YEARS_PER_ERA, like.month, like.day


def date_days(raw: bytes) -> int:
    """Return a date's number of days since 1970-01-01."""
    return day_number(*_parsed_date(raw))


def date_text(raw: bytes) -> str:
    """Return a date as ``DateTimeFormatter.ISO_OFFSET_DATE`` in UTC."""
    return f"{_iso_date(*_parsed_date(raw))}Z"


def _parsed_date(raw: bytes) -> tuple[int, int, int]:
    infinite = _INFINITE_DAYS.get(raw)
    if infinite is not None:
        return infinite
    found = _matched(_IS_DATE, raw)
    year = int(found[1])
    return 1 - year if found[4] else year, int(found[2]), int(found[3])


def time_micros(raw: bytes) -> int:
    """Return the microseconds since midnight, up to 24:00:00."""
    return _clock_micros(*_matched(_IS_TIME, raw).groups(default=b""))


def timetz_text(raw: bytes) -> str:
    """Return a time with an offset as ``DateTimeFormatter.ISO_OFFSET_TIME`` in UTC."""
    *clock, sign, hours, minutes, seconds = _matched(_IS_TIMETZ, raw).groups(default=b"")
    return time_text(_clock_micros(*clock) - _offset_micros(sign, hours, minutes, seconds))


def time_text(micros: int) -> str:
    """Return a time as ``DateTimeFormatter.ISO_OFFSET_TIME`` in UTC; 24:00:00 becomes 00:00:00."""
    return f"{_iso_clock(micros % MICROS_PER_DAY, None)}Z"


def timestamp_micros(raw: bytes) -> int:
    """Return the microseconds since 1970-01-01T00:00:00. An offset in the text is subtracted."""
    infinite = INFINITE_MICROS.get(raw)
    if infinite is not None:
        return infinite
    year, month, day, *clock, sign, hours, minutes, seconds, before_christ = _matched(_IS_TIMESTAMP, raw).groups(default=b"")
    days = day_number(1 - int(year) if before_christ else int(year), int(month), int(day))
    return days * MICROS_PER_DAY + _clock_micros(*clock) - _offset_micros(sign, hours, minutes, seconds)


def timestamp_count(raw: bytes) -> int:
    """Return ``timestamp_micros`` if it fits 64 bits, else raise InexpressibleError. The server's
    last years do not fit.
    """
    micros = timestamp_micros(raw)
    if micros > _LONG_MAX:
        raise InexpressibleError(
            "a timestamp after 294247-01-10 cannot be written in microseconds; set time.precision.mode=isostring, or exclude the column"
        )
    return micros


def timestamp_nanos(raw: bytes) -> int:
    """Return the nanoseconds since 1970-01-01T00:00:00 (NanoTimestamp). 64 bits hold them for days
    from 1677-09-22 to 2262-04-11; other timestamps raise InexpressibleError.
    """
    infinite = _INFINITE_NANOS.get(raw)
    if infinite is not None:
        return infinite
    micros = timestamp_micros(raw)
    # Debezium multiplies the day first, so the beginning of the first day has to fit too.
    if micros // MICROS_PER_DAY * MICROS_PER_DAY * 1000 < _LONG_MIN or micros * 1000 > _LONG_MAX:
        raise InexpressibleError(
            "a timestamp before 1677-09-22 or after 2262-04-11 cannot be written in nanoseconds;"
            " set time.precision.mode=microseconds (or isostring), or exclude the column"
        )
    return micros * 1000


def timestamp_text(micros: int, digits: int | None) -> str:
    """Return a timestamp as ``DateTimeFormatter.ISO_OFFSET_DATE_TIME`` in UTC with this many
    fraction digits; None for as many as needed.
    """
    days, clock = divmod(micros, MICROS_PER_DAY)
    return f"{_iso_date(*calendar_date(days))}T{_iso_clock(clock, digits)}Z"


def zoned_text(raw: bytes, digits: int) -> str:
    """Return a timestamptz as Debezium's ZonedTimestamp: with exactly ``digits`` fraction digits,
    and infinities as the server prints them.
    """
    if raw in INFINITE_MICROS:
        return raw.decode("ascii")
    return timestamp_text(timestamp_micros(raw), digits)


def _matched(form: re.Pattern[bytes], raw: bytes) -> re.Match[bytes]:
    found = form.fullmatch(raw)
    if found is None:
        raise ValueError
    return found


def _clock_micros(hours: bytes, minutes: bytes, seconds: bytes, fraction: bytes) -> int:
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * MICROS_PER_SECOND + int(fraction.ljust(6, b"0"))


def _offset_micros(sign: bytes, hours: bytes, minutes: bytes, seconds: bytes) -> int:
    if not sign:
        return 0
    size = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return (-size if sign == b"-" else size) * MICROS_PER_SECOND


def _iso_date(year: int, month: int, day: int) -> str:
    """Return a date as Java prints it: a year of more than four digits has a sign (ISO_LOCAL_DATE:
    SignStyle.EXCEEDS_PAD).
    """
    sign = "+" if year > 9999 else "-" if year < 0 else ""  # noqa: PLR2004 - four digits
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _iso_clock(micros: int, digits: int | None) -> str:
    seconds, fraction = divmod(micros, MICROS_PER_SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if digits is None:
        return f"{text}.{fraction:06d}".rstrip("0") if fraction else text
    return f"{text}.{fraction:06d}"[: len(text) + 1 + digits] if digits else text
