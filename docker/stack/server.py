"""The life cycle of all servers: prepare the folder, start, wait until it answers, stop or kill.

A server is a guarded program (see `process`) with a folder for its configuration, log and data.
Each class defines how the folder is prepared, the command line, and when the server answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from stack.process import GuardedProcess


class Server(GuardedProcess, ABC):
    """A server, started and stopped by `with`.

    `start` after `stop` or `kill` continues with the same data on the same port.
    """

    def __init__(
        self, name: str, folder: Path, *, log: str = "server.log", env: Mapping[str, str] | None = None, grace_s: float = 30.0
    ) -> None:
        """Prepare the server.

        `log` is the file in `folder` with the program's output. `env` is added to this process's
        environment.
        """
        self.folder = folder.absolute()
        super().__init__(name, (), log=self.folder / log, env=env, ready=self.answers, grace_s=grace_s)

    @abstractmethod
    def prepare(self) -> Sequence[str]:
        """Install the program and create configuration and data folder as needed.

        Return the command line.
        """

    @abstractmethod
    def answers(self) -> bool:
        """Return True if the server takes requests."""

    def start(self) -> None:
        """Prepare the folder, start the program and wait until it answers.

        Raise StackError with the end of its log if it does not.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.argv = list(self.prepare())
        super().start()

    def restart(self) -> None:
        """Stop in order, and start again."""
        self.stop()
        self.start()
