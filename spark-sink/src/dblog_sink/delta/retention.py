"""Decides how long old versions of a table stay readable, as the manifest promises.

Delta refuses to read a version that was committed before ``delta.deletedFileRetentionDuration``,
unless it is the newest (SnapshotManagement,
``enforceTimeTravelWithinDeletedFileRetentionDuration``). It deletes log that is older than
``delta.logRetentionDuration``, up to a checkpoint (MetadataCleanup). Both count from the version's
own commit, and a snapshot may name a version that was committed long before because the table was
idle. So both times must cover the greatest age of a version when it stops being the newest, plus
the promised time.

Ages stay short because an idle table is committed again. After a longer stop of the sink the times
are raised, in the commit before the one that replaces the newest version, and stay raised.
"""

from __future__ import annotations

import math

from dblog_sink.config.log_retention import LOG_LONGER_H as LOG_LONGER_H  # noqa: PLC0414  part of this module's rule

REST_MAX_H = 24.0
"""An older version is committed again before a snapshot names it; an older snapshot is published
again.
"""


def rests(age_h: float) -> bool:
    """Return True if a version of this age is committed again, or a snapshot published again."""
    return age_h > REST_MAX_H


def least_h(age_h: float, keep_h: float) -> float:
    """Return how long versions must be kept when the newest one, of this age, is replaced.

    An extra hour covers what runs meanwhile.
    """
    return max(age_h, REST_MAX_H) + max(keep_h, REST_MAX_H) + 1.0


def kept_h(age_h: float, keep_h: float) -> int:
    """Return the time to set if the table keeps versions for less than ``least_h``.

    It is a day more than that, so that it is not set each time.
    """
    return math.ceil(least_h(age_h, keep_h) + REST_MAX_H)
