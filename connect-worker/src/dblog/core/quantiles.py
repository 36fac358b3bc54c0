"""How long most statements took lately, by two looks at a server's counts of how long statements take."""

from __future__ import annotations

from collections.abc import Sequence

Times = Sequence[tuple[float, int]]
"""The upper end of each bucket, in order, and how many were in it since the server began."""


def p95_between(before: Times, after: Times) -> float | None:
    """What 95 % of those in between took at most, by the ends of buckets; None without any, or when the counts began again."""
    if len(before) != len(after):
        return None
    counts = [(high, count - earlier) for (high, count), (_, earlier) in zip(after, before, strict=True)]
    total = sum(count for _, count in counts)
    if total <= 0 or any(count < 0 for _, count in counts):
        return None
    seen = 0
    for high, count in counts:
        seen += count
        if seen * 100 >= total * 95:
            return high
    raise AssertionError
