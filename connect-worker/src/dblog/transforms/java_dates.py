"""Formats and parses moments as Java's SimpleDateFormat does, in UTC with English names.

The letters y, M, d, D, H, k, K, h, m, s, S, a, E, z, Z and X are known; a pattern with another one
is refused by name. Days before 1582-10-15 are of the Gregorian calendar here, and of the Julian one
in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_ERA_YEARS, _ERA_DAYS = 400, 146_097
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "yMdDHkKhmsSaEzZX"
_NUMERIC = "yMdDHkKhmsS"
_TEXT_MONTH = 3
_CENTURY = 100
_PATTERN_CHARS_MAX = 200
"""A pattern becomes an expression of Python's, whose compiler takes 40 µs for each character."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The calendar fields of a moment in UTC."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    """0 for Monday."""
    hour: int
    minute: int
    second: int
    milli: int


def moment_of(millis: int) -> Moment:
    """Return the fields of milliseconds since the epoch. Years have no limit."""
    days, rest = divmod(millis, DAY_MS)
    eras, day_of_era = divmod(days + _EPOCH_DAY - 1, _ERA_DAYS)
    like = date.fromordinal(day_of_era + 1)
    seconds, milli = divmod(rest, 1000)
    return Moment(
        year=like.year + eras * _ERA_YEARS,
        month=like.month,
        day=like.day,
        day_of_year=like.toordinal() - date(like.year, 1, 1).toordinal() + 1,
        weekday=like.weekday(),
        hour=seconds // 3600,
        minute=seconds // 60 % 60,
        second=seconds % 60,
        milli=milli,
    )


def millis_of(*, year: int, month: int = 1, day: int = 1, time_ms: int = 0) -> int:
    """Return milliseconds since the epoch. Months and days beyond their range run on, as in a
    lenient calendar.
    """
    years, month0 = divmod(month - 1, 12)
    eras, year0 = divmod(year + years - 1, _ERA_YEARS)
    days = date(year0 + 1, month0 + 1, 1).toordinal() + eras * _ERA_DAYS + day - 1 - _EPOCH_DAY
    return days * DAY_MS + time_ms


class DateFormat:
    """A pattern. Raise ValueError for one that is wrong or has an unknown letter."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _PATTERN_CHARS_MAX:
            raise ValueError(f"a date pattern has at most {_PATTERN_CHARS_MAX} characters")
        self.pattern = pattern
        self._parts = _parts_of(pattern)
        self._regex = re.compile(self._expression(), re.IGNORECASE)

    def format(self, millis: int) -> str:
        """Return a moment as text."""
        moment = moment_of(millis)
        return "".join(text if not count else _formatted(text, count, moment) for text, count in self._parts)

    def parse(self, text: str) -> int:
        """Return the milliseconds of a text that begins as the pattern says. Raise ValueError if it
        does not.
        """
        found = self._regex.match(text)
        if found is None:
            raise ValueError("the text does not match the pattern")
        values: dict[str, str] = {}
        for number, (letter, count) in enumerate((part for part in self._parts if part[1]), start=1):
            values[letter] = found[number]
            if letter == "M" and count >= _TEXT_MONTH:
                values["M"] = str(1 + [month[:3].lower() for month in _MONTHS].index(found[number][:3].lower()))
            if letter == "y":
                values["y"] = _year_of(found[number], count)
        return _read(values)

    def _expression(self) -> str:
        made: list[str] = []
        for at, (text, count) in enumerate(self._parts):
            if not count:
                made.append(re.escape(text))
                continue
            following = self._parts[at + 1] if at + 1 < len(self._parts) else ("", 0)
            adjacent = following[1] > 0 and following[0] in _NUMERIC and not (following[0] == "M" and following[1] >= _TEXT_MONTH)
            # Atomic, as Java reads each field once: what another part does not match is not tried with
            # fewer digits, which would take a time exponential in the number of fields.
            made.append(f"((?>{_expression_of(text, count, adjacent=adjacent)}))")
        return "".join(made)


def _parts_of(pattern: str) -> tuple[tuple[str, int], ...]:
    """Return literal texts with count 0, and letters with their counts."""
    parts: list[tuple[str, int]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            end = at + 1
            text = ""
            while True:
                close = pattern.find("'", end)
                if close < 0:
                    raise ValueError("Unterminated quote")
                text += pattern[end:close]
                if pattern[close + 1 : close + 2] != "'":
                    break
                text += "'"
                end = close + 2
            parts.append((text or "'", 0))
            at = close + 1
        elif char.isascii() and char.isalpha():
            if char not in _LETTERS:
                raise ValueError(f"the letter {char} of a date pattern is not known here; known are {', '.join(_LETTERS)}")
            end = at
            while end < len(pattern) and pattern[end] == char:
                end += 1
            parts.append((char, end - at))
            at = end
        else:
            parts.append((char, 0))
            at += 1
    return tuple(parts)


def _formatted(letter: str, count: int, moment: Moment) -> str:
    match letter:
        case "y":
            year = moment.year if moment.year > 0 else 1 - moment.year
            return f"{year % _CENTURY:02d}" if count == 2 else f"{year:0{count}d}"  # noqa: PLR2004 - yy is the year in its century
        case "M" if count >= _TEXT_MONTH:
            name = _MONTHS[moment.month - 1]
            return name if count > _TEXT_MONTH else name[:3]
        case "E":
            name = _WEEKDAYS[moment.weekday]
            return name if count > _TEXT_MONTH else name[:3]
        case "a":
            return "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
        case "z":
            return "UTC" if count <= _TEXT_MONTH else "Coordinated Universal Time"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
        case _:
            return f"{_NUMBERS[letter](moment):0{count}d}"


_NUMBERS: dict[str, Callable[[Moment], int]] = {
    "M": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.day_of_year,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.milli,
}


def _expression_of(letter: str, count: int, *, adjacent: bool) -> str:
    match letter:
        case "M" if count >= _TEXT_MONTH:
            return "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
        case "E":
            return "|".join(f"{name}|{name[:3]}" for name in _WEEKDAYS)
        case "a":
            return "AM|PM"
        case "z" | "Z":
            return r"[+-]\d{4}|(?:GMT|UTC)(?:[+-]\d{1,2}:?\d{2})?|Z"
        case "X":
            return r"Z|[+-]\d{2}(?::?\d{2})?"
        case _:
            # Numbers that follow each other without a sign between have the width of their letters.
            return rf"\d{{{count}}}" if adjacent else r" *[+-]?\d{1,18}"


def _year_of(text: str, count: int) -> str:
    """Return a year; one of two digits for ``yy`` lies within 80 years before and 20 after now."""
    trimmed = text.strip()
    if count > 2 or len(trimmed) != 2 or not trimmed.isdigit():  # noqa: PLR2004 - yy
        return trimmed
    newest = date.today().year + 19  # noqa: DTZ011 - a century's border needs no zone
    year = newest - newest % _CENTURY + int(trimmed)
    return str(year if year <= newest else year - _CENTURY)


def _read(values: dict[str, str]) -> int:
    hours = int(values.get("H") or values.get("k") or 0)
    if "k" in values and "H" not in values:
        hours %= 24
    half = values.get("K") or values.get("h")
    if half is not None and "H" not in values and "k" not in values:
        hours = int(half) % 12 + (12 if values.get("a", "").upper() == "PM" else 0)
    time_ms = ((hours * 60 + int(values.get("m", 0))) * 60 + int(values.get("s", 0))) * 1000 + int(values.get("S", 0))
    zone = values.get("Z") or values.get("X") or values.get("z") or ""
    year = int(values.get("y", 1970))
    if "D" in values and "M" not in values and "d" not in values:
        return millis_of(year=year, day=int(values["D"]), time_ms=time_ms) - _offset_ms(zone)
    return millis_of(year=year, month=int(values.get("M", 1)), day=int(values.get("d", 1)), time_ms=time_ms) - _offset_ms(zone)


def _offset_ms(zone: str) -> int:
    found = re.search(r"([+-])(\d{1,2}):?(\d{2})?$", zone)
    if found is None:
        return 0
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return (minutes if found[1] == "+" else -minutes) * 60_000
