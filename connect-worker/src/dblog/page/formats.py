"""Writes numbers, sizes, durations and times as people read them. Pure.

None stands for an unknown value everywhere and becomes a dash, so that a template needs no test.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

UNKNOWN = "–"  # noqa: RUF001  a dash
_KILO = 1000.0
_KIBI = 1024.0
_ROUND_FROM = 9.95
_SECOND_MS = 1000


def count(value: float | None) -> str:
    """Return a whole number with thin spaces between thousands: 1 234 567."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{round(value):,}".replace(",", "\u202f")


def short(value: float | None) -> str:
    """Return a number with at most three digits and a suffix: 940, 1.2 k, 35 M."""
    return _scaled(value, _KILO, ("", "\u202fk", "\u202fM", "\u202fG", "\u202fT"))


def size(value: float | None) -> str:
    """Return a number of bytes: 512 B, 1.4 KiB, 20 GiB."""
    return _scaled(value, _KIBI, ("\u202fB", "\u202fKiB", "\u202fMiB", "\u202fGiB", "\u202fTiB"))


def _scaled(value: float | None, base: float, suffixes: tuple[str, ...]) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    left, index = abs(value), 0
    while left >= base and index < len(suffixes) - 1:
        left, index = left / base, index + 1
    text = f"{left:.1f}" if left < _ROUND_FROM and (index or left % 1) else f"{left:.0f}"
    return f"{'-' if value < 0 else ''}{text.removesuffix('.0')}{suffixes[index]}"


def rate(value: float | None) -> str:
    """Return a number per second: 1.2 k/s."""
    return UNKNOWN if value is None else f"{short(value)}/s"


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: 40 ms, 3.2 s, 4 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f}\u202fms"
    if seconds < _ROUND_FROM:
        return f"{seconds:.1f}".removesuffix(".0") + "\u202fs"
    whole = round(seconds)
    for unit_s, unit, lower_s, lower in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // lower_s
            return f"{whole // unit_s}\u202f{unit}" + (f" {rest}\u202f{lower}" if rest else "")
    return f"{whole}\u202fs"


def ago(since_s: float | None, now_s: float) -> str:
    """Return how long ago a time was. Both are Unix times in seconds."""
    return UNKNOWN if not since_s else f"{duration(max(0.0, now_s - since_s))} ago"


def share(part: float | None, whole: float | None) -> float | None:
    """Return how much of ``whole`` the ``part`` is, from 0 to 1, or None if that is not known."""
    if part is None or not whole:
        return None
    return min(1.0, max(0.0, part / whole))


def pattern(name: str) -> str:
    """Return the pattern that matches this name of a table alone."""
    return re.sub(r"([^\w])", r"\\\1", name)


def clip(value: float) -> float:
    """Return the value within 0 and 1."""
    return min(1.0, max(0.0, value))


def percent(value: float | None) -> str:
    """Return a share as a percentage. Only what is complete is 100 %."""
    return UNKNOWN if value is None else f"{min(99.9, value * 100) if value < 1 else 100:.3g}\u202f%"


def instant(unix_s: float | None) -> str:
    """Return a time in ISO 8601 with its zone, UTC, for the attribute of a time element."""
    return "" if not unix_s else datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(unix_s: float | None) -> str:
    """Return a time with its zone. The browser replaces it by the viewer's own zone."""
    return UNKNOWN if not unix_s else datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def from_ms(unix_ms: float | None) -> float | None:
    """Return a time in seconds."""
    return None if not unix_ms else unix_ms / _SECOND_MS


FILTERS = {each.__name__: each for each in (count, short, size, rate, duration, ago, clip, pattern, percent, instant, clock, from_ms)}
