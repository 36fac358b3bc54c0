"""Cleans the Delta logs of the job's tables beside the writes, in the thread of the VACUUMs and in bounded steps.

Each table has a turn a day, which the control table remembers, so that a job that is started for a few minutes a day comes to it as well. A table that is
committed to all the time has a turn each hour, so that little is deleted at a time and the log stays short. Where the last turn is long ago, or nobody knows
of one, a table is cleaned a day of its log at a time, and what is done is remembered: a log of a million names takes hours in an object store.
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
"""Commits since its last turn from which on a table need not wait for its daily one."""
STEP_H = 24.0
_UNKNOWN_H = 720.0
"""Delta's own retention: what a table without a turn may have."""
_LONG_LOG = 10_000
"""Versions from which on a table without a turn is cleaned in steps."""


def turn_of(name: str) -> str:
    """Return the name under which the control table has the turns of a table's log."""
    return f"log of {name}"


def cutoffs_h(since_turn_h: float, keep_h: float) -> list[float]:
    """Return the ages to clean a log at, one after the other, so that no step has more than STEP_H of log to delete."""
    found, age_h = [], keep_h + since_turn_h - STEP_H
    while age_h > keep_h:
        found.append(age_h)
        age_h -= STEP_H
    return [*found, keep_h]


class LogCleanup:
    """The turns. ``keep_h``: hours of log that a table keeps, by its name and path; ``checked``: by name, up to which version a table's commits were checked.

    ``vacuums``: the job deletes the tables' files too; ``check`` raises where another sink may be at work; ``stopping``: whether to begin nothing more.
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
        """By name, the version of a table at its last turn, or when this process first met it."""

    def look(self, paths: Mapping[str, str], *, waits: Callable[[], bool] = lambda: False) -> None:
        """Give each table that is due its turn. ``waits``: whether somebody waits for the thread; what is left is due at the next look."""
        now_s, turns = self._now_s(), self._control.state.vacuumed_s
        for name, path in paths.items():
            if self._stopping() or waits():
                return
            turn_s = turns.get(turn_of(name))
            # A clock that was ahead leaves a turn in the future: that table is due as well.
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
        """Return the newest version that is known, without opening tables of the lake that rest; None for those, and where there is no table."""
        checked = self._checked()
        if (of := name.removeprefix("_dblog/tombstones/").removeprefix("_dblog/confirmed/")) in checked:
            return checked[of]
        if not name.startswith(OWN):
            return None
        return log_cleanup.version(self._session, path) if DeltaTable.isDeltaTable(self._session, path) else None

    def _turn(self, name: str, path: str, since_h: float | None) -> None:
        """Clean one log. It never fails the job: the next turn tries again."""
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
        # A VACUUM that has not had its turn yet, as after a stop of the sink, reads in the log which files it may delete.
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
        """Record that the log is as a turn so many hours ago would have left it."""
        self._control.record([Vacuumed(turn_of(name), self._now_s() - behind_h * 3600.0)], "recorded")


def follow_own_logs(session: SparkSession, settings: Settings) -> None:
    """Bring the logs of the sink's own tables to their retention, before anything writes them. What could not be set now is set at the next start."""
    for name, path in settings.paths([]).items():
        try:
            if DeltaTable.isDeltaTable(session, path):
                log_cleanup.follow(session, path, settings.log_h_of(name), own=True)
        except Exception as e:  # noqa: BLE001  see above
            log.warning("%s keeps its Delta log as before: %s", name, one_line(e))
