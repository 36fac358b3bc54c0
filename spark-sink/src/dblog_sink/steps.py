"""The named steps between the commits of a batch or merge: the only places where a crash leaves something half done.

Each name is passed right after its commit. The job does nothing there; the tests kill the process at every one of them and compare the
outcome with a run that nobody killed.
"""

from __future__ import annotations

from collections.abc import Callable

STEPS = (
    "landed",  # the rows of tables that wait
    "altered",  # a table made or changed
    "quarantined",  # bad records kept
    "floored",  # the position of a truncate noted
    "truncated",  # older rows gone
    "buried",  # the positions of deleted keys noted
    "appended",  # new rows
    "merged",  # changed rows
    "rewritten",  # a small table written anew
    "versioned",  # history opened and closed
    "counted",  # rows of dumps, and what chunk markers say
    "chosen",  # a cut noted, before its first merge
    "published",  # a cut in the manifest
    "marked",  # high-water marks of the batch
    "settled",  # landed rows known as merged
    "expired",  # landed rows dropped
)

Reached = Callable[[str], None]


def nothing(_: str) -> None:
    """What the job does at a step."""
