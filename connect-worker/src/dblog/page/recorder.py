"""Takes a sample of all tasks' numbers every few seconds, for the charts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from dblog.cluster.records import TaskId
from dblog.cluster.statusview import TaskReport
from dblog.page.history import REACHES, History

_log = structlog.get_logger("dblog.page")

SAMPLE_S = REACHES[0].step_s


class Recorder:
    """Records the reports of the tasks on this worker into a history."""

    def __init__(self, history: History, reports: Callable[[], Mapping[TaskId, TaskReport]]) -> None:
        self._history = history
        self._reports = reports

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
        found = {task.connector: (report.numbers, report.reported_s) for task, report in self._reports().items() if task.task == 0}
        self._history.record(time.time(), found)
