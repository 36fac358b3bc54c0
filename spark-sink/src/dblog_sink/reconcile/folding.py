"""Which neighbouring chunks of a dump can be kept as one, so that memory follows the gaps of a dump and not its chunks. Pure.

A table of ten terabytes has half a million chunks. A run of chunks, each of which begins where the one before ends, leads from where its first begins to where
its last ends; whoever looks for a way through a dump needs no more of it. Only a worker that is started again needs the bounds in between: it goes on at the
last one that it had stored, and its chunks may end elsewhere. So the newest chunks of a dump are left as they are, many more than a worker can read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

FOLD_ABOVE = 40_000
"""Chunks of a dump from which on it is folded."""
UNFOLDED = 20_000
"""The newest chunks, which are left as they are: some hundred million rows."""

UNFOLDED_OF_MANY = 1_000
"""The same where all dumps together have too many."""


class Bounded(Protocol):
    """A range of a table's keys: where it begins and ends, and whether that is the table's beginning or end."""

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
    """Return the runs of neighbours among these ranges, each of two or more, each range in one at most. Of ranges that begin alike the first one is taken."""
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
