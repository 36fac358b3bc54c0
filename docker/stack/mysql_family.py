"""Common parts of MariaDB and MySQL servers: options, administrator's statements, greeting.

The administrator `root` may log in from the loopback interface; the server runs as the user who
started it.
"""

import os
import pwd
import socket
from abc import abstractmethod
from pathlib import Path

from stack.database import HOST, Database, Program
from stack.errors import StackError

_GREETING_PROTOCOL = 10
"""First byte of the packet that a server sends to a new connection (MySQL Internals,
Protocol::HandshakeV10).
"""


class MySqlFamily(Database):
    """A MariaDB or MySQL server.

    Its binary logs are `binlog.000001` and so on in the data folder.
    """

    administrator = "root"

    @property
    def scratch(self) -> Path:
        """Folder of the server's temporary files.

        In a shared folder a starting MariaDB deletes those of others.
        """
        return self.folder / "tmp"

    def command(self, program: Program) -> list[str]:
        return [*program.command, f"--defaults-file={self.defaults}"]

    @abstractmethod
    def default_options(self) -> dict[str, object]:
        """Return options of this flavor besides the common ones."""

    @property
    def owner(self) -> str:
        """User who starts the server and owns its process.

        As root the server insists on this option.
        """
        return pwd.getpwuid(os.geteuid()).pw_name

    @property
    def defaults(self) -> Path:
        """File with the server's options."""
        return self.folder / "server.cnf"

    def write_files(self, program: Program) -> None:
        self.scratch.mkdir(exist_ok=True)
        options: dict[str, object] = {
            "user": self.owner,
            "basedir": program.basedir,
            "datadir": self.data,
            "tmpdir": self.scratch,
            "bind_address": program.container.address if program.container else HOST,
            "port": self.port,
            # Relative to the data folder: the path of a Unix socket is at most 107 bytes long, and
            # the folder's may be longer.
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
            # io_uring and the kernel's limit on asynchronous I/O are not available in many
            # containers.
            "innodb_use_native_aio": 0,
            "secure_file_priv": '""',
            "local_infile": "ON",
            "max_connections": 100,
            **self.default_options(),
            **self.options,
        }
        lines = "".join(f"{name}={value}\n" for name, value in options.items() if value is not None)
        self.defaults.write_text(f"[mysqld]\n{lines}")
        # With a published port, connections come from an address of the engine.
        account = f"'{self.user}'@'{'%' if program.container and not program.container.host_network else HOST}'"
        administrator = self.folder / "administrator.sql"
        administrator.touch(mode=0o600)
        # Runs at every start, and stays out of the binary log, because the connector under test
        # must not see it.
        administrator.write_text(
            "SET SESSION sql_log_bin=0;\n"
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{self.password}';\n"
            f"ALTER USER {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
        )

    def answers(self) -> bool:
        """Return True if it greets a new connection."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                header_and_protocol = connection.recv(5, socket.MSG_WAITALL)
        except OSError:
            return False
        if len(header_and_protocol) == 5 and header_and_protocol[4] != _GREETING_PROTOCOL:  # noqa: PLR2004 - 4 bytes of header and 1
            raise StackError(f"port {self.port} answers with something that is not {type(self).__name__}")
        return len(header_and_protocol) == 5  # noqa: PLR2004
