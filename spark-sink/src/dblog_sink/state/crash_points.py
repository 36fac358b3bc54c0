"""The named steps between the commits of a batch or merge: only there can a crash leave something half done.

Each name is passed right after its commit. The job does nothing there; the tests kill the process at every one of them and compare the
outcome with a run that nobody killed.
"""

from __future__ import annotations

from collections.abc import Callable

STEPS = (
    "landed",  # the rows of tables that wait
    "altered",  # a table made or changed
    "quarantined",  # bad records kept
    "truncate_recorded",  # the position of a truncate
    "truncated",  # older rows deleted
    "tombstones_written",  # the positions of deleted keys
    "appended",  # new rows
    "merged",  # changed rows
    "rewritten",  # a small table as a whole
    "versioned",  # history opened and closed
    "counted",  # rows of dumps, and what chunk markers count
    "confirmed",  # keys whose rows a dump has shown to be as a history has them
    "ghosts_recorded",  # the position below which a whole dump has superseded everything
    "ghosts_removed",  # rows that the source does not have
    "snapshot_chosen",  # and recorded, before its first merge
    "published",  # a snapshot in the manifest
    "recorded",  # high-water marks of the batch, and other notes
    "merged_recorded",  # up to which batch sequence tables are merged
    "expired",  # landed rows dropped
)

Reached = Callable[[str], None]


def nothing(_: str) -> None:
    """What the job does at a step."""
