"""The program of dummy tasks, which keeps a list of the processes that it handed out."""

import sys
from pathlib import Path

from dblog.cluster.program import Begun, TaskProgram

DUMMY = [sys.executable, str(Path(__file__).with_name("dummy_task.py"))]


class RecordedProgram(TaskProgram):
    """A program whose ``handed_out`` has the processes of tasks, the oldest first."""

    def __init__(self) -> None:
        super().__init__(DUMMY)
        self.handed_out: list[Begun] = []

    def begin(self) -> Begun:
        begun = super().begin()
        self.handed_out.append(begun)
        return begun

    @property
    def pids(self) -> list[int]:
        return [begun.process.pid for begun in self.handed_out]
