"""Decides how long the Delta logs of the job's tables are kept, as table properties. Pure.

Delta keeps a log for 30 days. Most log stores list the whole log at each look, so a table with a
commit every few seconds gets slower day by day; after 30 days its log has a million names. So a
table whose old versions may be read keeps its log as long as its files, plus a day. The sink's own
hot tables, of which only the newest version is ever read, keep hours.

Delta would clean a log inside the commit that writes a checkpoint, a whole day's part at once,
while the batch waits (MetadataCleanup). That is disabled for these tables, and the job cleans them
beside the writes (``job/log_cleanup.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

OWN_LOG_H = 6.0
"""Hours of log of the sink's own hot tables, much longer than any transaction on them."""
LOG_LONGER_H = 24
"""Hours that the log is kept longer than the files that it names, at least until the next VACUUM
has read it.
"""
LOG_RETENTION, LOG_CLEANUP = "delta.logRetentionDuration", "delta.enableExpiredLogCleanup"
SET_H = "dblog.log.kept.h"
"""Property with the hours that the sink set. A table with another retention got it from its owner,
or for snapshots.
"""
FILE_RETENTION = "delta.deletedFileRetentionDuration"
SET_FILES_H = "dblog.files.kept.h"
"""Property with the hours of removed files that the sink set, if more than Delta's default."""
CLEANED = "dblog.log.cleaned"
"""Property that shows that the sink cleans the log and disabled Delta's own cleanup. If an owner
disabled cleanup without it, nobody may clean the log.
"""
FILES_H = 168
"""Delta's default retention of removed files in hours. Delta refuses a shorter log retention, so a
shorter one shortens both.
"""
OWN = "_dblog/"
"""Prefix of the sink's own tables in ``Settings.paths``."""
_OWN_HOT = re.compile(r"_dblog/(landing|control|chunks|fingerprints|tombstones/.*|confirmed/.*)")


def is_own_hot(name: str) -> bool:
    """Return True for the sink's own tables whose old versions are never read."""
    return _OWN_HOT.fullmatch(name) is not None


def log_properties(log_h: float) -> Mapping[str, str]:
    """Return properties of a new table whose log is kept for ``log_h`` and cleaned by the job."""
    hours = math.ceil(log_h)
    files_h = _files_h(hours)
    return {**_retention(hours), **(_files(files_h) if files_h > FILES_H else {}), LOG_CLEANUP: "false", CLEANED: "true"}


def is_cleaned(given: Mapping[str, str]) -> bool:
    """Return True if the job cleans the log of a table with these properties.

    It does not if the owner has disabled all cleanup.
    """
    return given.get(LOG_CLEANUP, "true").lower() != "false" or CLEANED in given or SET_H in given


def log_changes(given: Mapping[str, str], log_h: float, *, kept_h: float, files_kept_h: float, own: bool = False) -> Mapping[str, str]:
    """Return the properties to set so that an existing table keeps its log for ``log_h`` hours.

    ``given`` are the table's properties; ``kept_h`` and ``files_kept_h`` are the current retention
    of log and files in hours, as Delta reads the properties. A shorter time is raised. A longer one
    is lowered only if it is Delta's default or was set by the sink; else the owner or snapshots
    need it. Return nothing if the retention is right, or if the owner wants to keep all of the log.
    ``own`` is True for tables of the sink's own state, whose logs are always cleaned.
    """
    if not own and not is_cleaned(given):
        return {}
    files = _file_changes(given, math.ceil(log_h), files_kept_h)
    files_h = float(files.get(SET_FILES_H, files_kept_h))
    hours = math.ceil(log_h if log_h < FILES_H and FILE_RETENTION not in given else max(log_h, files_h))
    ours = LOG_RETENTION not in given or given.get(SET_H) == str(round(kept_h))
    wanted = {} if kept_h == hours or (kept_h > hours and not ours) else _retention(hours)
    known = LOG_CLEANUP in given and (not own or CLEANED in given or given[LOG_CLEANUP].lower() != "false")
    return {**wanted, **files} if known else {**wanted, **files, LOG_CLEANUP: "false", CLEANED: "true"}


def _file_changes(given: Mapping[str, str], log_h: int, files_kept_h: float) -> Mapping[str, str]:
    """Return the properties that make Delta keep removed files as long as the job needs.

    Delta's VACUUM obeys this property, and Delta reads no older version.
    """
    files_h = max(_files_h(log_h), FILES_H)
    ours = given.get(SET_FILES_H) == str(round(files_kept_h))
    return _files(files_h) if (files_h > max(FILES_H, files_kept_h)) or (files_h < files_kept_h and ours) else {}


def _files_h(log_h: int) -> int:
    """Return the retention of files in hours for a log retention in hours."""
    return log_h - LOG_LONGER_H


def _files(hours: int) -> dict[str, str]:
    return {FILE_RETENTION: f"interval {hours} hours", SET_FILES_H: str(hours)}


def _retention(hours: int) -> dict[str, str]:
    files = {FILE_RETENTION: f"interval {hours} hours"} if hours < FILES_H else {}
    return {LOG_RETENTION: f"interval {hours} hours", SET_H: str(hours), **files}
