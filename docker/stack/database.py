"""What MariaDB and MySQL servers have in common here: a data folder, a port, an administrator, options.

The administrator `root` may log in from the loopback interface with a password made for this data folder: other users of
the machine can reach the port too, and the server runs as the user who started it.
"""

import os
import pwd
import secrets
import shutil
import socket
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stack.containers import Container, container
from stack.errors import StackError, Unavailable
from stack.process import free_port
from stack.server import Server

HOST = "127.0.0.1"
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
"""Where packaged servers are; a user's PATH often lacks these."""

_GREETING_PROTOCOL = 10
"""First byte of the packet that a server sends to a new connection (MySQL Internals, Protocol::HandshakeV10)."""


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
    """`mariadb` or `mysql`."""

    def __init__(self, folder: Path, *, options: Mapping[str, object] | None = None, durable: bool = True) -> None:
        """`options` are server options by their names in a defaults file, added to or replacing those of this class; None removes one.

        `durable=False` does without flushes to the disk (one DDL statement has fifteen): a commit survives `kill` but not a power cut.
        """
        super().__init__(type(self).__name__, folder)
        self.host = HOST
        self.port = free_port()
        self.user = "root"
        self.options: dict[str, object] = dict(options or {})
        self.durable = durable
        self._password: str | None = None

    @property
    def password(self) -> str:
        """The administrator's password, the same as long as there is the data folder."""
        if self._password is None:
            kept = self.folder / "password"
            if not kept.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                kept.touch(mode=0o600)
                kept.write_text(secrets.token_hex(12))
            self._password = kept.read_text()
        return self._password

    @property
    def login(self) -> dict[str, Any]:
        """Keyword arguments for `pymysql.connect` as the administrator."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}

    @property
    def data(self) -> Path:
        """The data folder; binary logs are `binlog.000001` and so on in it."""
        return self.folder / "data"

    @property
    def scratch(self) -> Path:
        """The server's temporary files: a MariaDB that starts deletes those of others that it finds in a shared folder."""
        return self.folder / "tmp"

    def prepare(self) -> list[str]:
        self.scratch.mkdir(exist_ok=True)
        program = self.program()
        if program.container:
            program.container.remove()
            self.afterwards = program.container.removal
        self._write_files(program)
        if not self.data.is_dir():
            partial = self.folder / "data.partial"
            shutil.rmtree(partial, ignore_errors=True)
            self.initialise(program, partial)
            partial.rename(self.data)
        return [*program.command, f"--defaults-file={self.defaults}"]

    def restart(self, *, options: Mapping[str, object] | None = None) -> None:
        """Stop and start, with `options` added to the present ones."""
        self.options.update(options or {})
        super().restart()

    @abstractmethod
    def program(self) -> Program:
        """The server program, installed if need be. Raises Unavailable."""

    def contained(self, name: str, *, missing: Unavailable | None = None) -> Program:
        """The program `name` of this flavor's image, in a container. Raises Unavailable, with what was `missing` for a program of this machine."""
        found = container(self.flavor, self.folder, self.port, missing=missing)
        return Program(found.command(name), None, found)

    @abstractmethod
    def initialise(self, program: Program, data: Path) -> None:
        """Make `data` the data folder of an empty server; it does not exist yet."""

    @abstractmethod
    def default_options(self) -> dict[str, object]:
        """Options of this flavor besides those that both have."""

    @property
    def owner(self) -> str:
        """The user who starts the server, who also owns its process. As root the server insists on this option."""
        return pwd.getpwuid(os.geteuid()).pw_name

    @property
    def defaults(self) -> Path:
        """The file with the server's options."""
        return self.folder / "server.cnf"

    def _write_files(self, program: Program) -> None:
        options: dict[str, object] = {
            "user": self.owner,
            "basedir": program.basedir,
            "datadir": self.data,
            "tmpdir": self.scratch,
            "bind_address": program.container.address if program.container else HOST,
            "port": self.port,
            # Relative to the data folder: a path to a Unix socket is at most 107 bytes long, and the folder's may be longer.
            "socket": "server.sock",
            "pid_file": "server.pid",
            "init_file": self.folder / "administrator.sql",
            "skip_name_resolve": "ON",
            "log_bin": "binlog",
            "server_id": 1,
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "binlog_row_metadata": "FULL",
            "character_set_server": "utf8mb4",
            "innodb_flush_log_at_trx_commit": 1 if self.durable else 2,
            "sync_binlog": 1 if self.durable else 0,
            "innodb_buffer_pool_size": "128M",
            # io_uring and the kernel's limit on asynchronous I/O are out of reach in many containers.
            "innodb_use_native_aio": 0,
            "secure_file_priv": '""',
            "local_infile": "ON",
            "max_connections": 100,
            **self.default_options(),
            **self.options,
        }
        lines = "".join(f"{name}={value}\n" for name, value in options.items() if value is not None)
        self.defaults.write_text(f"[mysqld]\n{lines}")
        # Behind a published port, connections come from an address of the engine's.
        account = f"'{self.user}'@'{'%' if program.container and not program.container.host_network else HOST}'"
        administrator = self.folder / "administrator.sql"
        administrator.touch(mode=0o600)
        # Runs at every start, and stays out of the binary log: the connector under test must not see it.
        administrator.write_text(
            "SET SESSION sql_log_bin=0;\n"
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{self.password}';\n"
            f"ALTER USER {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
        )

    def answers(self) -> bool:
        """It greets a new connection."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                header_and_protocol = connection.recv(5, socket.MSG_WAITALL)
        except OSError:
            return False
        if len(header_and_protocol) == 5 and header_and_protocol[4] != _GREETING_PROTOCOL:  # noqa: PLR2004 - 4 bytes of header and 1
            raise StackError(f"port {self.port} answers with something that is not {type(self).__name__}")
        return len(header_and_protocol) == 5  # noqa: PLR2004
