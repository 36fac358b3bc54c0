"""Deletes files that older versions left behind (VACUUM), beside the writes, in one thread, within a share of its time.

A table written every few seconds leaves more files behind than it has. Deleting them changes no version that is kept, so it needs no turn with the
writes. The control table keeps when each table had its last turn, or a job that is started every day would never come to it. Compaction
is not here: it rewrites what is there, so it belongs to whoever writes the table (``tables/open_tables.py``), and is called here when a person asks for it.
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
"""The log no longer reaches back to the last VACUUM: then the folder is listed instead."""


_AHEAD_S = 3600.0
"""How far ahead a recorded turn may lie, in seconds: clocks of two machines differ a little."""
FULL_EVERY_H = 168
"""Hours between two VACUUMs of a table that list its folder, for files that no commit names: what a killed or a conflicting write left behind."""
FULL_LEAST_H = 24.0
"""Asked for where the configuration keeps files for less, such as 0, which Delta heeds: such a file may be of a write that has not committed yet. Other hours
Delta does not heed, but goes by the table's property: a week, or the six hours of the sink's own hot tables, longer than any write to them takes.
"""


def full_turn_of(name: str) -> str:
    """Return the name under which the control table has the turns in which a table's folder is listed."""
    return f"folder of {name}"


def due(names: Mapping[str, str], last_s: Mapping[str, float], *, now_s: float, interval_s: float) -> list[str]:
    """The names whose last turn was ``interval_s`` ago or more, the longest first. One without a turn is not due: the caller records its first turn as now. A
    turn that lies ahead was recorded by a clock that was wrong: it is due, or it would not be for as long as that clock was ahead.
    """
    waiting = [
        name
        for name in names
        if name in last_s and abs(now_s - last_s[name]) >= min(interval_s, _AHEAD_S if last_s[name] > now_s else interval_s)
    ]
    return sorted(waiting, key=lambda name: (last_s[name], name))


class Vacuum:
    """The thread. ``paths`` gives the Delta tables there are, by name; ``compact`` compacts a topic's table. ``interval_h`` 0: only what is asked for.

    ``keep_h``: how long files are kept, by a table's path; ``expire`` drops snapshots that name versions, before any files are deleted;
    ``check`` raises where another sink may be at work; ``quarantine`` compacts the quarantine if it is due; ``logs`` cleans the tables' Delta logs;
    ``look_every_s``: the least rest after a table or a look.
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
        """Begin to look, until ``stop``."""
        self._session.conf.set(_CHECK, "false")  # the configuration sets how long; Delta would refuse less than a week
        self._session.conf.set(_LOGGED, "false")  # two commits less in each table's history
        self._thread = threading.Thread(target=self._run, name="dblog-vacuum", daemon=True)
        self._thread.start()

    def ask(self, topics: Mapping[str, str]) -> None:
        """Compact and vacuum these tables now, before their turn; ``topics``: by table name, its topic."""
        self._asked.update(topics)
        self._wake.set()

    def stop(self) -> None:
        """Begin nothing more. A running VACUUM may be broken off at any point."""
        self._ended.set()
        self._wake.set()

    def look(self) -> float:
        """Give every table that was asked for, or is due, its turn; the seconds until the next look."""
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
        """Vacuum one table. It never fails the job: the next write reports what is wrong with the table."""
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
        """Delete files that the log names as removed; now and then, and where the log is too short for that, all in the folder that the table does not name.

        A folder is never listed where another table of the job lies inside it. Delta keeps removed files for as long as the table's property says, whatever
        hours it is given but 0 (``config/log_retention.py``).
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
        # Files that no commit names may be those of a write that has not ended.
        self._vacuum(path, "FULL", max(keep_h, FULL_LEAST_H))
        self._control.record([Vacuumed(full_turn_of(name), self._now_s())], "recorded")

    def _inside(self, path: str) -> str | None:
        """Return the path of another table of the job that lies in this one's folder and is not hidden from VACUUM, None where there is none."""
        below = path.rstrip("/") + "/"
        others = (other.removeprefix(below).split("/") for other in self._paths().values() if other.startswith(below))
        return next((below + "/".join(parts) for parts in others if not any(part.startswith(("_", ".")) for part in parts)), None)

    def _is_full_due(self, name: str) -> bool:
        """Return whether the table's folder is to be listed. The first turns of tables are spread over a week."""
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
