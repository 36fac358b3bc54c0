"""Runs MariaDB 10.11 from Debian 12's package, else the machine's `mariadbd`, else an image's."""

import os
import shutil
from pathlib import Path

from stack.commands import run
from stack.containers import Container, wanted
from stack.database import SYSTEM_FOLDERS, Program
from stack.debian import unpacked
from stack.errors import Unavailable
from stack.mysql_family import MySqlFamily

_SYSTEM_TABLES = (
    # The statements that the server's own mariadb-install-db feeds to `mariadbd --bootstrap`, in
    # its order. The script itself cannot be used, because it starts the server without the loader
    # that belongs to it.
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "fill_help_tables.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mysql_sys_schema.sql",
)


class MariaDb(MySqlFamily):
    """A MariaDB server with strict GTIDs and full row metadata."""

    flavor = "mariadb"

    def program(self) -> Program:
        if wanted():
            return self.contained("mariadbd")
        try:
            system = unpacked("mariadb-10.11", package="mariadb-server-core", suite="bookworm")
        except Unavailable as missing:
            return _installed() or self.contained("mariadbd", missing=_advice(missing))
        return Program(system.command("usr/sbin/mariadbd", flushing=self.durable), system.root / "usr")

    def initialise(self, program: Program, data: Path) -> None:
        if program.container:
            self._initialise_contained(program.container, data)
            return
        assert program.basedir is not None
        scripts = program.basedir / "share" / "mysql"
        if not (scripts / _SYSTEM_TABLES[0]).exists():
            scripts = program.basedir / "share" / "mariadb"
        data.mkdir()
        statements = [b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"]
        statements += [(scripts / name).read_bytes() for name in _SYSTEM_TABLES]
        options = [
            f"--basedir={program.basedir}",
            f"--datadir={data}",
            f"--tmpdir={self.scratch}",
            "--user=" + self.owner,
            "--innodb_use_native_aio=0",
        ]
        options += ["--enforce_storage_engine=", "--max_allowed_packet=8M", "--net_buffer_length=16K", "--innodb_log_file_size=48M"]
        run(
            [*program.command, "--no-defaults", *options, "--bootstrap"],
            what="Initialising MariaDB's data folder",
            stdin=b"".join(statements),
        )

    def _initialise_contained(self, container: Container, data: Path) -> None:
        # The image's own script, because the statements that it feeds to the server are in the
        # image.
        options = [f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        if os.geteuid() == 0:
            options.append("--user=root")
        run([*container.command("mariadb-install-db", once=True), "--no-defaults", *options], what="Initialising MariaDB's data folder")

    def default_options(self) -> dict[str, object]:
        return {
            "gtid_strict_mode": "ON",
            "log_slave_updates": "ON",
            "innodb_log_file_size": "48M",
        }


def _installed() -> Program | None:
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path=SYSTEM_FOLDERS)
    return Program([found], Path(found).resolve().parent.parent) if found else None


def _advice(missing: Unavailable) -> Unavailable:
    return Unavailable(f"MariaDB cannot be had here: {missing}. Install MariaDB server 10.6 or later so that mariadbd is on the PATH")
