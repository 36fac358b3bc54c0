"""Decides from a table's commits whether it still holds all that the sink has written. Pure.

RESTORE brings back the rows of an earlier version and keeps the transaction ids
(RestoreTableCommand copies files and metadata alone). Afterwards the table records batches whose
rows it lacks, and the sink would never write them again. Nothing is lost if the sink wrote nothing
between the two versions, as when somebody undoes another write or an earlier RESTORE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of the table.

    ``own`` is True if it has a transaction id, as every write of the sink's rows has. ``restored``
    is True for a RESTORE.
    """

    version: int
    own: bool = False
    restored: bool = False
    to: int | None = None
    """Version that a RESTORE brought back; None if unknown, because the RESTORE named a time."""


@dataclass(frozen=True, slots=True)
class LostByRestore:
    """A RESTORE that lost rows of the sink.

    ``version`` is that of the RESTORE. ``whole`` is the newest version with all rows, None if there
    is none because the sink has written since.
    """

    version: int
    whole: int | None


def loss(commits: Sequence[Commit]) -> LostByRestore | None:
    """Return the loss in the newest version, None if nothing is missing.

    ``commits`` are consecutive, and the table was whole before the first.
    """
    held: dict[int, frozenset[int] | None] = {first_of(commits) - 1: frozenset()}
    now: frozenset[int] | None = frozenset()
    written: frozenset[int] = frozenset()
    last = -1
    for commit in commits:
        if commit.own:
            written |= {commit.version}
            now = None if now is None else now | {commit.version}
        if commit.restored:
            now, last = held.get(-1 if commit.to is None else commit.to), commit.version
        held[commit.version] = now
    if now == written or last < 0:
        return None
    return LostByRestore(last, max((version for version, found in held.items() if found == written), default=None))


def first_of(commits: Sequence[Commit]) -> int:
    """Return the first version whose commit is needed to judge these.

    It is the one after the oldest version that a RESTORE brought back.
    """
    return min(commit.version if commit.to is None else min(commit.version, commit.to + 1) for commit in commits)
