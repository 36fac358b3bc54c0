"""Deletes files of older versions (VACUUM) beside the writes, within a share of one thread's time.

A table with a write every few seconds leaves behind more files than it has. Deleting them changes
no version that is kept, so it can run beside the writes. The control table remembers each table's
last turn; otherwise a job that is started every day would never reach it. Compaction is not here,
because it rewrites rows and so belongs to the table's writer (``tables/open_tables.py``); it is
called here when a command asks for it.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from dblog_sink.config.log_retention import is_own_hot
from dblog_sink.delta.session import follow
from dblog_sink.errors import DefiniteError
from dblog_sink.job.log_cleanup import LogCleanup
from dblog_sink.observe.progress import Progress
from dblog_sink.schema.types import quote
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.notes import Vacuumed

log = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
_NOT_LITE = "DELTA_CANNOT_VACUUM_LITE"
"""Error class for a log that no longer reaches back to the last VACUUM; the folder is then
listed.
"""


_AHEAD_S = 3600.0
"""Seconds that a recorded turn may lie in the future, since clocks of two machines differ a
little.
"""
FULL_EVERY_H = 168
"""Hours between two VACUUMs of a table that list its folder, to find files that no commit names.
Killed or conflicting writes leave them behind.
"""
FULL_LEAST_H = 24.0
"""Minimum hours to ask for if the configuration keeps files for less, such as 0, which Delta obeys:
a file without a commit may belong to a write in progress. Other values Delta ignores; it uses the
table's property, which is a week, or six hours for the sink's own hot tables, longer than any write
to them takes.
"""


def full_turn_of(name: str) -> str:
    """Return the control table's name for the turns that list a table's folder."""
    return f"folder of {name}"


def due(names: Mapping[str, str], last_s: Mapping[str, float], *, now_s: float, interval_s: float) -> list[str]:
    """Return names whose last turn was ``interval_s`` ago or more, longest ago first.

    A name without a turn is not due; the caller records its first turn as now. A turn far in the
    future was recorded by a wrong clock, and makes its table due.
    """
    waiting = [
        name
        for name in names
        if name in last_s and abs(now_s - last_s[name]) >= min(interval_s, _AHEAD_S if last_s[name] > now_s else interval_s)
    ]
    return sorted(waiting, key=lambda name: (last_s[name], name))


class Vacuum:
    """The VACUUM thread.

    ``paths`` returns the Delta tables by name, ``compact`` compacts a topic's table, ``keep_h``
    returns how long files are kept by a table's path. With ``interval_h`` 0 only commands start a
    VACUUM. ``expire`` deletes old snapshots, which name versions, before any files are deleted.
    ``check`` raises if another sink may be running. ``quarantine`` compacts the quarantine if it is
    due, and ``logs`` cleans the tables' Delta logs. ``look_every_s`` is the least pause after a
    table or a look.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        paths: Callable[[], Mapping[str, str]],
        compact: Callable[[str], None],
        control: ControlTable,
        progress: Progress,
        interval_h: float,
        keep_h: Callable[[str], float],
        share_max: float,
        expire: Callable[[], None] = lambda: None,
        logs: LogCleanup | None = None,
        quarantine: Callable[[SparkSession], object] = lambda _session: None,
        check: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = time.time,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._session = session
        self._paths = paths
        self._compact = compact
        self._control = control
        self._progress = progress
        self._interval_s = interval_h * 3600.0
        self._keep_h = keep_h
        self._share_max = share_max
        self._expire = expire
        self._logs = logs
        self._quarantine = quarantine
        self._check = check
        self._now_s = now_s
        self._look_every_s = look_every_s
        self._asked: dict[str, str] = {}
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, which looks for due tables until ``stop``."""
        # The configuration sets the retention; Delta would refuse less than a week.
        self._session.conf.set(_CHECK, "false")
        # This saves two commits in each table's history.
        self._session.conf.set(_LOGGED, "false")
        self._thread = threading.Thread(target=self._run, name="dblog-vacuum", daemon=True)
        self._thread.start()

    def ask(self, topics: Mapping[str, str]) -> None:
        """Compact and vacuum these tables now, before their turn.

        ``topics`` maps table names to topics.
        """
        self._asked.update(topics)
        self._wake.set()

    def stop(self) -> None:
        """Begin nothing more. A running VACUUM may be interrupted at any point."""
        self._ended.set()
        self._wake.set()

    def look(self) -> float:
        """Vacuum tables asked for or due, and return the seconds until the next look."""
        paths, now_s = self._paths(), self._now_s()
        while self._asked and not self._ended.is_set():
            name, topic = self._asked.popitem()
            self._compacted(name, topic)
            for one in (name, f"_dblog/tombstones/{name}"):
                if one in paths:
                    self._clean(one, paths[one])
        self._quarantine(self._session)
        if self._logs is not None:
            self._logs.look(paths, waits=lambda: bool(self._asked))
        if self._interval_s <= 0:
            return self._look_every_s
        if fresh := [name for name in paths if name not in self._control.state.vacuumed_s]:
            self._control.record([Vacuumed(name, now_s) for name in fresh], "recorded")
        rest_s = self._look_every_s
        for name in due(paths, self._control.state.vacuumed_s, now_s=now_s, interval_s=self._interval_s):
            if self._ended.is_set() or self._asked:
                return 0.0
            began_s = time.monotonic()
            self._clean(name, paths[name])
            seconds = time.monotonic() - began_s
            self._control.record([Vacuumed(name, self._now_s())], "recorded")
            rest_s = max(self._look_every_s, seconds / self._share_max - seconds) if self._share_max > 0 else self._interval_s
            self._wake.wait(rest_s)
        return rest_s

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            try:
                rest_s = self.look()
            except Exception as e:  # noqa: BLE001  such as a store that is away: what was asked for and not begun stays asked for
                log.warning("VACUUM looks again later: %s", str(e).strip().partition("\n")[0])
                rest_s = self._look_every_s
            self._wake.wait(rest_s)

    def _compacted(self, name: str, topic: str) -> None:
        try:
            self._compact(topic)
        except Exception as e:  # noqa: BLE001  as of ``_clean``
            log.warning("%s: compaction postponed: %s", name, str(e).strip().partition("\n")[0])

    def _clean(self, name: str, path: str) -> None:
        """Vacuum one table.

        A failure is only logged; the next write reports what is wrong with the table.
        """
        began_s = time.monotonic()
        try:
            if not DeltaTable.isDeltaTable(self._session, path):
                return
            self._check()
            self._expire()
            self._vacuumed(name, path, self._keep_h(path))
            files = DeltaTable.forPath(self._session, path).detail().select("numFiles").first()
        except Exception as e:  # noqa: BLE001  see above
            log.warning("%s: VACUUM postponed: %s", name, str(e).strip().partition("\n")[0])
            return
        self._progress.emit("vacuum", table=name, seconds=round(time.monotonic() - began_s, 3), files=None if files is None else files[0])

    def _vacuumed(self, name: str, path: str, keep_h: float) -> None:
        """Delete files that the log shows as removed, or sometimes all that no commit names.

        The latter lists the folder. It is also used if the log is too short for the former, but
        never if another table of the job lies inside the folder. Delta keeps removed files by the
        table's property, whatever hours it is given except 0 (``config/log_retention.py``).
        """
        inside = self._inside(path)
        if inside is not None or not (is_own_hot(name) or self._is_full_due(name)):
            try:
                self._vacuum(path, "LITE", keep_h)
            except Exception as e:
                if _NOT_LITE not in str(e):
                    raise
                if inside is not None:
                    msg = f"its log is too short to know which files may go, and listing its folder would delete those of {inside}; give them folders apart"
                    raise DefiniteError(msg) from e
            else:
                return
        # Files that no commit names may belong to a write in progress.
        self._vacuum(path, "FULL", max(keep_h, FULL_LEAST_H))
        self._control.record([Vacuumed(full_turn_of(name), self._now_s())], "recorded")

    def _inside(self, path: str) -> str | None:
        """Return the path of a table of the job inside this one's folder, or None.

        Folders hidden from VACUUM do not count.
        """
        below = path.rstrip("/") + "/"
        others = (other.removeprefix(below).split("/") for other in self._paths().values() if other.startswith(below))
        return next((below + "/".join(parts) for parts in others if not any(part.startswith(("_", ".")) for part in parts)), None)

    def _is_full_due(self, name: str) -> bool:
        """Return True if the table's folder must be listed. First turns are spread over a week."""
        now_s = self._now_s()
        last_s = self._control.state.vacuumed_s.get(full_turn_of(name))
        if last_s is None:
            ago_s = zlib.crc32(name.encode()) % (FULL_EVERY_H * 3600)
            self._control.record([Vacuumed(full_turn_of(name), now_s - ago_s)], "recorded")
            return False
        return not 0 <= now_s - last_s < FULL_EVERY_H * 3600

    def _vacuum(self, path: str, kind: str, keep_h: float) -> None:
        follow(self._session)
        self._session.sql(f"VACUUM delta.{quote(path)} {kind} RETAIN {keep_h:.9g} HOURS")
