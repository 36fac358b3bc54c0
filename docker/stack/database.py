"""What the database servers have in common here: a data folder, a port, an administrator, options.

The administrator may log in from the loopback interface with a password made for this data folder: other users of the machine can reach the port too.
"""

import secrets
import shutil
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stack.containers import Container, container
from stack.errors import Unavailable
from stack.process import free_port
from stack.server import Server

HOST = "127.0.0.1"
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
"""Where packaged servers are; a user's PATH often lacks these."""


@dataclass(frozen=True, slots=True)
class Program:
    """A server program: the command that starts it, and the folder its messages and plugins are under."""

    command: list[str]
    basedir: Path | None
    """None: the program knows."""
    container: Container | None = None
    """The one that the command runs in, if it does."""


class Database(Server):
    """`with MariaDb(folder) as db: db.host, db.port, db.user, db.password`; a folder that holds a server's data is continued."""

    flavor: str
    """`mariadb`, `mysql` or `postgres`."""
    administrator: str
    """The name of the user who may do everything."""

    def __init__(self, folder: Path, *, options: Mapping[str, object] | None = None, durable: bool = True) -> None:
        """`options` are server options by their names in a file of options, added to or replacing those of this class; None removes one.

        `durable=False` does without flushes to the disk (one DDL statement of MySQL has fifteen): a commit survives `kill` but not a power cut.
        """
        super().__init__(type(self).__name__, folder)
        self.host = HOST
        self.port = free_port()
        self.user = self.administrator
        self.options: dict[str, object] = dict(options or {})
        self.durable = durable
        self._password: str | None = None

    @property
    def password(self) -> str:
        """The administrator's password, the same as long as there is the data folder."""
        if self._password is None:
            if not self.password_file.exists():
                self.keep_password(secrets.token_hex(12))
            self._password = self.password_file.read_text()
        return self._password

    def keep_password(self, password: str) -> None:
        """Write the password's file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(password)

    @property
    def password_file(self) -> Path:
        """The file that keeps the administrator's password."""
        return self.folder / "password"

    @property
    def login(self) -> dict[str, Any]:
        """Keyword arguments for `pymysql.connect`, or `psycopg2.connect`, as the administrator."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}

    @property
    def image(self) -> str:
        """The name of its image in `containers.IMAGES`."""
        return self.flavor

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    def prepare(self) -> list[str]:
        program = self.program()
        if program.container:
            program.container.remove()
            self.afterwards = program.container.removal
        self.write_files(program)
        if not self.data.is_dir():
            partial = self.folder / "data.partial"
            shutil.rmtree(partial, ignore_errors=True)
            self.initialise(program, partial)
            partial.rename(self.data)
        return self.command(program)

    def restart(self, *, options: Mapping[str, object] | None = None) -> None:
        """Stop and start, with `options` added to the present ones."""
        self.options.update(options or {})
        super().restart()

    @abstractmethod
    def program(self) -> Program:
        """The server program, installed if need be. Raises Unavailable."""

    def contained(self, name: str, *, missing: Unavailable | None = None) -> Program:
        """The program `name` of this flavor's image, in a container. Raises Unavailable, with what was `missing` for a program of this machine."""
        found = container(self.image, self.folder, self.port, missing=missing)
        return Program(found.command(name), None, found)

    @abstractmethod
    def write_files(self, program: Program) -> None:
        """Write the server's options, and what else it reads at its start."""

    @abstractmethod
    def initialise(self, program: Program, data: Path) -> None:
        """Make `data` the data folder of an empty server; it does not exist yet."""

    @abstractmethod
    def command(self, program: Program) -> list[str]:
        """The command line that starts the server with its files."""
