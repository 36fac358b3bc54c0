"""The start and end that all servers here share: prepare the folder, start, wait until it answers, stop or kill, start again.

A server is a guarded program (see `process`) with a folder of its own for its configuration, its log and its data. A class declares
its own part: how the folder is prepared, the command line, and when the server answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from stack.process import GuardedProcess


class Server(GuardedProcess, ABC):
    """`with` starts and stops it; `start` after `stop` or `kill` continues with the same data on the same port."""

    def __init__(
        self, name: str, folder: Path, *, log: str = "server.log", env: Mapping[str, str] | None = None, grace_s: float = 30.0
    ) -> None:
        """`log` is the file in `folder` that gets what the program writes; `env` is added to this process's environment."""
        self.folder = folder.absolute()
        super().__init__(name, (), log=self.folder / log, env=env, ready=self.answers, grace_s=grace_s)

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Install the program if need be, write its configuration, make its data folder if it is new; the command line."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes requests."""

    def start(self) -> None:
        """Prepare the folder, start the program and wait until it answers. Raises StackError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.argv = list(self.prepare())
        super().start()

    def restart(self) -> None:
        """Stop in order, and start."""
        self.stop()
        self.start()
