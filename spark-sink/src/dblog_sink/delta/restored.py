"""Whether a Delta table still holds all that the sink has written into it: the rule, as a function of the table's commits.

RESTORE brings back the rows of an earlier version and keeps the transaction ids (RestoreTableCommand copies files and metadata alone). So after it the table
records batches whose rows it does not have, and the sink would never write them again. Nothing is lost where the sink wrote nothing between the two
versions, as when somebody undoes a write of his own, or an earlier RESTORE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the table. ``own``: with a transaction id, as every write of the sink's rows has. ``restored``: it is a RESTORE."""

    version: int
    own: bool = False
    restored: bool = False
    to: int | None = None
    """The version that a RESTORE brought back; None: unknown, for the RESTORE named a time."""


@dataclass(frozen=True, slots=True)
class Loss:
    """``version``: of the RESTORE; ``whole``: the newest version that holds all, None if the sink has written since, so that none does."""

    version: int
    whole: int | None


def loss(commits: Sequence[Commit]) -> Loss | None:
    """What is missing in the newest version, by consecutive commits; before the first of them the table was whole. None: nothing is missing."""
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
    return Loss(last, max((version for version, found in held.items() if found == written), default=None))


def first_of(commits: Sequence[Commit]) -> int:
    """The first version whose commit must be known to judge these: the one after the oldest version that was brought back."""
    return min(commit.version if commit.to is None else min(commit.version, commit.to + 1) for commit in commits)
