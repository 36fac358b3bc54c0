"""Upkeep beside the writes: files that older versions left behind are deleted (VACUUM), in one thread, within a share of its time.

A table written every few seconds leaves more files behind than it has. Deleting them changes no version that is kept, so it needs no turn with the
writes. When a table was looked after last stands in the marks, or a job that starts anew every day would never come to it. Compaction is not
here: it rewrites what is there, so it belongs to whoever writes the table (``apply``), who does it when a table is looked after by command.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from dblog_sink.marks import Marks
from dblog_sink.progress import Progress
from dblog_sink.types import quote

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 60.0
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
_NOT_LITE = "DELTA_CANNOT_VACUUM_LITE"
"""The log no longer reaches back to the last VACUUM: then the folder is listed instead."""


def due(names: Mapping[str, str], last_s: Mapping[str, float], *, now_s: float, interval_s: float) -> list[str]:
    """The names whose last turn was so long ago, the longest first. One without a turn is not due: its first turn is noted as now."""
    waiting = [name for name in names if name in last_s and now_s - last_s[name] >= interval_s]
    return sorted(waiting, key=lambda name: (last_s[name], name))


class Upkeep:
    """The thread. ``paths`` gives the Delta tables there are, by name; ``tidy`` compacts a topic's table. ``interval_h`` 0: only what is asked for.

    ``keep_h`` says how long files are kept, asked for each table by its path; ``expire`` drops what names versions, before the files of any are deleted;
    ``check`` raises where another sink may be at work.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        paths: Callable[[], Mapping[str, str]],
        tidy: Callable[[str], None],
        marks: Marks,
        progress: Progress,
        interval_h: float,
        keep_h: Callable[[str], float],
        share_max: float,
        expire: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._paths = paths
        self._tidy = tidy
        self._marks = marks
        self._progress = progress
        self._interval_s = interval_h * 3600.0
        self._keep_h = keep_h
        self._share_max = share_max
        self._expire = expire
        self._check = check
        self._now_s = now_s
        self._asked: dict[str, str] = {}
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look, until ``stop``."""
        self._session.conf.set(_CHECK, "false")  # the configuration says how long; Delta would refuse less than a week
        self._session.conf.set(_LOGGED, "false")  # two commits less in each table's history
        self._thread = threading.Thread(target=self._run, name="dblog-upkeep", daemon=True)
        self._thread.start()

    def ask(self, topics: Mapping[str, str]) -> None:
        """Look after these tables now, whenever their turn would be; by name, the topic of each."""
        self._asked.update(topics)
        self._wake.set()

    def stop(self) -> None:
        """Begin nothing any more. A VACUUM that runs may be broken off at any point."""
        self._ended.set()
        self._wake.set()

    def look(self) -> float:
        """Give every table that was asked for, or is due, its turn; the seconds until the next look."""
        paths, now_s = self._paths(), self._now_s()
        while self._asked and not self._ended.is_set():
            name, topic = self._asked.popitem()
            self._tidied(name, topic)
            for one in (name, f"_dblog/tombstones/{name}"):
                if one in paths:
                    self._clean(one, paths[one])
        if self._interval_s <= 0:
            return _LOOK_EVERY_S
        if fresh := [name for name in paths if name not in self._marks.state.vacuumed]:
            self._marks.say({"vacuumed": dict.fromkeys(fresh, now_s)}, "marked", at_once=False)
        rest_s = _LOOK_EVERY_S
        for name in due(paths, self._marks.state.vacuumed, now_s=now_s, interval_s=self._interval_s):
            if self._ended.is_set() or self._asked:
                return 0.0
            began_s = time.monotonic()
            self._clean(name, paths[name])
            seconds = time.monotonic() - began_s
            self._marks.say({"vacuumed": {name: self._now_s()}}, "marked", at_once=False)
            rest_s = max(_LOOK_EVERY_S, seconds / self._share_max - seconds) if self._share_max > 0 else self._interval_s
            self._wake.wait(rest_s)
        return rest_s

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            rest_s = self.look()
            self._wake.wait(rest_s)

    def _tidied(self, name: str, topic: str) -> None:
        try:
            self._tidy(topic)
        except Exception as e:  # noqa: BLE001  as of ``_clean``
            log.warning("%s: compaction postponed: %s", name, str(e).strip().partition("\n")[0])

    def _clean(self, name: str, path: str) -> None:
        """One table. It never fails the job: what is wrong with a table, the next write tells."""
        began_s = time.monotonic()
        try:
            if not DeltaTable.isDeltaTable(self._session, path):
                return
            self._check()
            self._expire()
            keep_h = self._keep_h(path)
            try:
                self._vacuum(path, "LITE", keep_h)
            except Exception as e:
                if _NOT_LITE not in str(e):
                    raise
                self._vacuum(path, "FULL", keep_h)
            files = DeltaTable.forPath(self._session, path).detail().select("numFiles").first()
        except Exception as e:  # noqa: BLE001  see above
            log.warning("%s: VACUUM postponed: %s", name, str(e).strip().partition("\n")[0])
            return
        self._progress.say("upkeep", table=name, seconds=round(time.monotonic() - began_s, 3), files=None if files is None else files[0])

    def _vacuum(self, path: str, kind: str, keep_h: float) -> None:
        self._session.sql(f"VACUUM delta.{quote(path)} {kind} RETAIN {keep_h:.9g} HOURS")
