"""Tracks the transaction that blocks the next snapshot, and reports a block that lasts or ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dblog_sink.config.job_options import Settings
from dblog_sink.observe.progress import Progress
from dblog_sink.snapshots.rule import Incomplete

log = logging.getLogger(__name__)


class Blockage:
    """The transaction that blocked the snapshot at the last look, None if none did."""

    def __init__(self, settings: Settings, progress: Progress, now_s: Callable[[], float]) -> None:
        self._settings = settings
        self._progress = progress
        self._now_s = now_s
        self._limit_s: float = settings["manifest.incomplete.max.s"]
        self._since_s = 0.0
        self._reported_at_s: float | None = None
        self.blocker: Incomplete | None = None

    def note(self, blocker: Incomplete | None) -> None:
        """Take in the blocker of a look at everything that has landed, None if there is none.

        Report a block that has lasted long enough, and the end of a reported one.
        """
        now_s = self._now_s()
        if blocker is None or self.blocker is None or blocker.id != self.blocker.id:
            if self._reported_at_s is not None and self.blocker is not None:
                self._progress.emit("completed", transaction=self.blocker.id)
            self._since_s, self._reported_at_s = now_s, None
        self.blocker = blocker
        if blocker is None or now_s - self._since_s < self._limit_s:
            return
        if self._reported_at_s is None or now_s - self._reported_at_s >= self._limit_s:
            self._reported_at_s = now_s
            self._report(blocker, round(now_s - self._since_s, 3))

    def _report(self, blocker: Incomplete, seconds: float) -> None:
        missing = {self._settings.table_name(topic): count for topic, count in blocker.missing.items()}
        self._progress.emit("incomplete", transaction=blocker.id, seconds=seconds, ended=blocker.end is not None, missing=missing)
        missing_records = ", ".join(f"{count} records of {table}" for table, count in missing.items()) + " are missing"
        log.error(
            "transaction %s has blocked the next snapshot for %.0f s: %s. If its records are lost, name it in manifest.pass, and dump the tables again",
            blocker.id,
            seconds,
            "its END has not come" if blocker.end is None else missing_records,
        )
