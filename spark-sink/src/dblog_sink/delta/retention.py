"""How long a table's old versions must stay readable, so that every snapshot can be read as long as the manifest promises.

Delta refuses to read a version that was committed longer ago than ``delta.deletedFileRetentionDuration``, unless it is the newest (SnapshotManagement,
``enforceTimeTravelWithinDeletedFileRetentionDuration``), and drops log that is older than ``delta.logRetentionDuration``, up to a checkpoint
(MetadataCleanup). Both count from the version's own commit, and a snapshot may name a version that was committed long before, for the table rested. So both
times must cover the age that a version can have when it stops being the newest, and the promise after that. Ages stay short, for a table that rests is
committed again. After a longer stop of the sink the times are raised, in the commit before the one that replaces the newest version; they stay raised.
"""

from __future__ import annotations

import math

from dblog_sink.config.log_retention import LOG_LONGER_H as LOG_LONGER_H  # noqa: PLC0414  part of this module's rule

REST_MAX_H = 24.0
"""A version that is older is committed again before a snapshot names it, and a snapshot that is older is published again."""


def rests(age_h: float) -> bool:
    """Whether a version is committed again, or a snapshot published again."""
    return age_h > REST_MAX_H


def least_h(age_h: float, keep_h: float) -> float:
    """How long versions must be kept when the newest one, of this age, is about to become an old one; the extra hour is for what runs meanwhile."""
    return max(age_h, REST_MAX_H) + max(keep_h, REST_MAX_H) + 1.0


def kept_h(age_h: float, keep_h: float) -> int:
    """The time to set when the table keeps less than that: a day more, so that it is not set each time."""
    return math.ceil(least_h(age_h, keep_h) + REST_MAX_H)
