"""Computes the 95th percentile of recent statements from two readings of a server's histogram of
statement times.
"""

from __future__ import annotations

from collections.abc import Sequence

Times = Sequence[tuple[float, int]]
"""Upper end of each bucket, in order, and the number of statements in it since the server started.
"""


def p95_between(before: Times, after: Times) -> float | None:
    """Return the upper end of the bucket below which 95 % of the statements between the two
    readings lie. Return None if there were none or the counts were reset.
    """
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
