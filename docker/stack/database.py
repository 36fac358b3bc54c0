"""Common parts of the database servers: data folder, port, administrator, options.

The administrator logs in from the loopback interface with a password made for this data folder,
because other users of the machine can reach the port too.
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
"""Folders of packaged servers, which a user's PATH often lacks."""


@dataclass(frozen=True, slots=True)
class Program:
    """A server program: the command that starts it, and the folder of its messages and plugins."""

    command: list[str]
    basedir: Path | None
    """Folder of messages and plugins; None if the program knows it."""
    container: Container | None = None
    """Container in which the command runs, None if it runs on this machine."""


class Database(Server):
    """A database server: `with MariaDb(folder) as db: db.host, db.port, db.user, db.password`.

    A folder with a server's data is continued.
    """

    flavor: str
    """Kind of server: `mariadb`, `mysql` or `postgres`."""
    administrator: str
    """Name of the user with all privileges."""

    def __init__(self, folder: Path, *, options: Mapping[str, object] | None = None, durable: bool = True) -> None:
        """Prepare the server's settings.

        `options` are server options by their names in an options file, added to or replacing those
        of the class; None removes one. `durable=False` omits flushes to disk (a DDL statement of
        MySQL has fifteen), so a commit survives `kill` but not a power failure.
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
        """Administrator's password, the same as long as the data folder exists."""
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
        """File with the administrator's password."""
        return self.folder / "password"

    @property
    def login(self) -> dict[str, Any]:
        """Keyword arguments for `pymysql.connect`, or `psycopg2.connect`, as the administrator."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}

    @property
    def image(self) -> str:
        """Name of its image in `containers.IMAGES`."""
        return self.flavor

    @property
    def data(self) -> Path:
        """Data folder."""
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
        """Return the server program, installed if necessary.

        Raise Unavailable if it cannot be had.
        """

    def contained(self, name: str, *, missing: Unavailable | None = None) -> Program:
        """Return the program `name` of this flavor's image, in a container.

        Raise Unavailable if there is none; `missing` is why there is no local program.
        """
        found = container(self.image, self.folder, self.port, missing=missing)
        return Program(found.command(name), None, found)

    @abstractmethod
    def write_files(self, program: Program) -> None:
        """Write the server's options and other files that it reads at start."""

    @abstractmethod
    def initialise(self, program: Program, data: Path) -> None:
        """Create `data` as the data folder of an empty server; it does not exist yet."""

    @abstractmethod
    def command(self, program: Program) -> list[str]:
        """Return the command line that starts the server with its files."""
