"""Folds neighbouring chunks of a dump into one, so that memory grows with gaps, not chunks. Pure.

A table of ten terabytes has half a million chunks. A run of chunks, each beginning where the one
before ends, leads from the beginning of its first to the end of its last; a search for a path
through the dump needs no more. Only a restarted worker needs the bounds in between: it continues
after the last chunk that it had stored, and its new chunks may end elsewhere. So the newest chunks
are not folded, and these are many more than a worker reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

FOLD_ABOVE = 40_000
"""A dump is folded when it has more chunks than this."""
UNFOLDED = 20_000
"""Number of newest chunks that stay unfolded, some hundred million rows."""

UNFOLDED_OF_MANY = 1_000
"""Number of newest chunks of each dump that stay unfolded when all dumps together have too many."""


class Bounded(Protocol):
    """A range of a table's keys.

    ``begins`` and ``final`` are True if it reaches the table's beginning or end.
    """

    @property
    def after(self) -> str | None: ...
    @property
    def upto(self) -> str | None: ...
    @property
    def begins(self) -> bool: ...
    @property
    def final(self) -> bool: ...


T = TypeVar("T", bound=Bounded)


def runs(ranges: Sequence[T]) -> list[list[T]]:
    """Return the runs of two or more neighbours among these ranges.

    A range is in one run at most. If several ranges begin alike, the first one is used.
    """
    behind: dict[str | None, T] = {}
    for one in ranges:
        if not one.begins:
            behind.setdefault(one.after, one)
    ends = {one.upto for one in ranges if not one.final}
    taken: set[int] = set()
    found: list[list[T]] = []
    for head in ranges:
        if id(head) in taken or not (head.begins or head.after not in ends):
            continue
        run = [head]
        taken.add(id(head))
        while not run[-1].final and (follower := behind.get(run[-1].upto)) is not None and id(follower) not in taken:
            run.append(follower)
            taken.add(id(follower))
        if len(run) > 1:
            found.append(run)
    return found
