"""Names the steps of a batch or merge at which a crash can leave something half done.

Each name is passed right after its commit. The job then does nothing. The tests kill the process at
every step, and compare the result with that of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable

STEPS = (
    "landed",  # Rows of tables that wait.
    "altered",  # A table was created or altered.
    "quarantined",  # Bad records were quarantined.
    "truncate_recorded",  # The position of a truncate was recorded.
    "truncated",  # Older rows were deleted.
    "tombstones_written",  # The positions of deleted keys were recorded.
    "appended",  # New rows were appended.
    "merged",  # Changed rows were merged.
    "rewritten",  # A small table was rewritten.
    "versioned",  # Versions of a history were opened and closed.
    "counted",  # Dumped rows and the counts of chunk markers were recorded.
    "confirmed",  # Keys were recorded whose rows in a history a dump has confirmed.
    "ghosts_recorded",  # The position was recorded below which a whole dump has superseded everything.
    "ghosts_removed",  # Rows that the source lacks were removed.
    "snapshot_chosen",  # A snapshot was chosen and recorded, before its first merge.
    "published",  # A snapshot was published in the manifest.
    "recorded",  # High-water marks of the batch and other notes were recorded.
    "merged_recorded",  # The batch sequence up to which tables are merged was recorded.
    "expired",  # Landed rows were deleted.
)

Reached = Callable[[str], None]


def nothing(_: str) -> None:
    """Do nothing, as the job does at each step."""
