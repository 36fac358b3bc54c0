"""Takes a sample of all tasks' numbers every few seconds, for the charts."""

from __future__ import annotations

import asyncio
import time

import structlog

from dblog.cluster.statusview import StatusView
from dblog.page.history import REACHES, History

_log = structlog.get_logger("dblog.page")

SAMPLE_S = REACHES[0].step_s


class Recorder:
    """Records the reports of the tasks on this worker into a history."""

    def __init__(self, history: History, view: StatusView) -> None:
        self._history = history
        self._view = view

    async def follow(self) -> None:
        """Record until cancelled. An unexpected error costs one sample, and is logged."""
        while True:
            try:
                self.record()
            except Exception as e:  # noqa: BLE001  charts are worth less than the worker
                _log.error("a sample for the page's charts could not be taken", error=type(e).__name__)
            await asyncio.sleep(SAMPLE_S)

    def record(self) -> None:
        """Record one sample. A connector of these databases has one task, with the number 0."""
        found = {task.connector: (report.numbers, report.reported_s) for task, report in self._view.reports().items() if task.task == 0}
        self._history.record(time.time(), found)
