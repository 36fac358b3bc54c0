"""Cleans the Delta logs of the job's tables in bounded steps, beside the writes.

It uses the VACUUM thread. Each table has a turn a day, which the control table remembers, so a job
that runs a few minutes a day reaches it as well. A table with constant commits has a turn each
hour; then little is deleted at a time and the log stays short. If the last turn is long ago or
unknown, the log is cleaned one day of it at a time, and progress is remembered: a log of a million
names takes hours in an object store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.config.log_retention import LOG_LONGER_H, OWN, is_own_hot
from dblog_sink.delta import log_cleanup
from dblog_sink.delta.target import committed_ms
from dblog_sink.job.messages import one_line
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.notes import Vacuumed

log = logging.getLogger(__name__)

TURN_H = 24.0
HOT_TURN_H = 1.0
HOT_COMMITS = 200
"""Commits since its last turn from which on a table does not wait for its daily turn."""
STEP_H = 24.0
_UNKNOWN_H = 720.0
"""Hours of log that a table without a recorded turn may have: Delta's default retention."""
_LONG_LOG = 10_000
"""Versions from which on a table without a recorded turn is cleaned in steps."""


def turn_of(name: str) -> str:
    """Return the control table's name for the turns of a table's log."""
    return f"log of {name}"


def cutoffs_h(since_turn_h: float, keep_h: float) -> list[float]:
    """Return the ages in hours at which to clean a log, in order.

    No step then deletes more than STEP_H of log.
    """
    found, age_h = [], keep_h + since_turn_h - STEP_H
    while age_h > keep_h:
        found.append(age_h)
        age_h -= STEP_H
    return [*found, keep_h]


class LogCleanup:
    """The turns of cleaning logs.

    ``keep_h`` returns the hours of log that a table keeps, by its name and path. ``checked``
    returns the version up to which commits were checked, by name. ``vacuums`` is True if the job
    also deletes the tables' files. ``check`` raises if another sink may be running. ``stopping``
    returns True if nothing more may begin.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        keep_h: Callable[[str, str], float],
        checked: Callable[[], Mapping[str, int]],
        control: ControlTable,
        vacuums: bool = False,
        check: Callable[[], None] = lambda: None,
        stopping: Callable[[], bool] = lambda: False,
        now_s: Callable[[], float] = time.time,
        clean: Callable[[SparkSession, str, float], None] = log_cleanup.clean,
    ) -> None:
        self._session = session
        self._keep_h = keep_h
        self._checked = checked
        self._control = control
        self._vacuums = vacuums
        self._check = check
        self._stopping = stopping
        self._now_s = now_s
        self._clean = clean
        self._hot_s: dict[str, float] = {}
        self._met: dict[str, int] = {}
        """Table name to its version at the last turn, or when this process first saw it."""

    def look(self, paths: Mapping[str, str], *, waits: Callable[[], bool] = lambda: False) -> None:
        """Clean the logs that are due.

        ``waits`` returns True if the thread is needed for something else; the rest is due at the
        next look.
        """
        now_s, turns = self._now_s(), self._control.state.vacuumed_s
        for name, path in paths.items():
            if self._stopping() or waits():
                return
            turn_s = turns.get(turn_of(name))
            # A clock that was ahead leaves a turn in the future, which makes the table due as well.
            due = turn_s is None or not 0 <= now_s - turn_s < TURN_H * 3600.0
            if due or self._is_hot(name, path, now_s):
                self._turn(name, path, None if turn_s is None or turn_s > now_s else (now_s - turn_s) / 3600.0)

    def _is_hot(self, name: str, path: str, now_s: float) -> bool:
        if not 0 <= now_s - self._hot_s.setdefault(name, now_s) < HOT_TURN_H * 3600.0:
            self._hot_s[name] = now_s
            version = self._version(name, path)
            return version is not None and version - self._met.setdefault(name, version) >= HOT_COMMITS
        return False

    def _version(self, name: str, path: str) -> int | None:
        """Return the newest known version without opening idle tables of the lake.

        Return None for those and if there is no table.
        """
        checked = self._checked()
        if (of := name.removeprefix("_dblog/tombstones/").removeprefix("_dblog/confirmed/")) in checked:
            return checked[of]
        if not name.startswith(OWN):
            return None
        return log_cleanup.version(self._session, path) if DeltaTable.isDeltaTable(self._session, path) else None

    def _turn(self, name: str, path: str, since_h: float | None) -> None:
        """Clean one log. A failure is only logged, and the next turn tries again."""
        try:
            if DeltaTable.isDeltaTable(self._session, path):
                self._cleaned(name, path, since_h)
            else:
                self._remember(name, 0.0)
        except Exception as e:  # noqa: BLE001  see above
            log.warning("%s: its Delta log is cleaned later: %s", name, one_line(e))

    def _cleaned(self, name: str, path: str, since_h: float | None) -> None:
        if not name.startswith(OWN) and not log_cleanup.may_clean(self._session, path):
            self._remember(name, 0.0)
            return
        version = log_cleanup.version(self._session, path)
        if (met := self._version(name, path)) is not None:
            self._met[name] = met
        keep_h = max(self._keep_h(name, path), log_cleanup.kept_h(self._session, path))
        # A VACUUM whose turn is overdue, as after a stop of the sink, needs the log to know which
        # files it may delete.
        vacuumed_s = self._control.state.vacuumed_s.get(name)
        if self._vacuums and vacuumed_s is not None and not is_own_hot(name):
            keep_h = max(keep_h, self._keep_h(name, path) - LOG_LONGER_H + (self._now_s() - vacuumed_s) / 3600.0 + 1.0)
        # Commits that were not checked for a RESTORE yet stay, however old they are.
        checked = self._checked().get(name)
        unchecked_ms = None if checked is None else committed_ms(self._session, path, checked + 1)
        if unchecked_ms is not None:
            keep_h = max(keep_h, self._now_s() / 3600.0 - unchecked_ms / 3_600_000.0 + 1.0)
        if since_h is None:
            since_h = _UNKNOWN_H if version >= _LONG_LOG else 0.0
        for age_h in cutoffs_h(since_h, keep_h):
            if self._stopping():
                return
            self._check()
            self._clean(self._session, path, age_h)
            self._remember(name, age_h - keep_h)

    def _remember(self, name: str, behind_h: float) -> None:
        """Record that the log is as a turn ``behind_h`` hours ago would have left it."""
        self._control.record([Vacuumed(turn_of(name), self._now_s() - behind_h * 3600.0)], "recorded")


def follow_own_logs(session: SparkSession, settings: Settings) -> None:
    """Set the log retention of the sink's own tables before anything writes them.

    A failure is only logged, and the next start tries again.
    """
    for name, path in settings.paths([]).items():
        try:
            if DeltaTable.isDeltaTable(session, path):
                log_cleanup.follow(session, path, settings.log_h_of(name), own=True)
        except Exception as e:  # noqa: BLE001  see above
            log.warning("%s keeps its Delta log as before: %s", name, one_line(e))
