"""Runs MySQL 9.7 from Debian unstable's package, else the machine's `mysqld`, else an image's.

The released Debian has no package of MySQL.
"""

import shutil
from pathlib import Path

from stack.commands import run
from stack.containers import wanted
from stack.database import SYSTEM_FOLDERS, Program
from stack.debian import unpacked
from stack.errors import Unavailable
from stack.mysql_family import MySqlFamily


class MySql(MySqlFamily):
    """A MySQL server with GTIDs on and full row metadata."""

    flavor = "mysql"

    def program(self) -> Program:
        if wanted():
            return self.contained("mysqld")
        try:
            system = unpacked("mysql-9.7", package="mysql-server-core", suite="sid")
        except Unavailable as missing:
            return _installed() or self.contained("mysqld", missing=_advice(missing))
        return Program(system.command("usr/sbin/mysqld", flushing=self.durable), system.root / "usr")

    def initialise(self, program: Program, data: Path) -> None:
        # The administrator's statements wait for the first start: they need the binary log's
        # options, which this step does not.
        options = [
            *([f"--basedir={program.basedir}"] if program.basedir else []),
            f"--datadir={data}",
            f"--tmpdir={self.scratch}",
            "--user=" + self.owner,
            "--innodb_use_native_aio=0",
        ]
        # The data folder keeps this option.
        if "lower_case_table_names" in self.options:
            options.append(f"--lower_case_table_names={self.options['lower_case_table_names']}")
        command = program.container.command("mysqld", once=True) if program.container else program.command
        run([*command, "--no-defaults", *options, "--initialize-insecure"], what="Initialising MySQL's data folder")

    def default_options(self) -> dict[str, object]:
        return {
            "gtid_mode": "ON",
            "enforce_gtid_consistency": "ON",
            "mysqlx": 0,
            "innodb_redo_log_capacity": "64M",
        }


def _installed() -> Program | None:
    found = shutil.which("mysqld") or shutil.which("mysqld", path=SYSTEM_FOLDERS)
    if found is None or "MariaDB" in run([found, "--no-defaults", "--version"], what="Asking mysqld for its version"):
        return None
    return Program([found], Path(found).resolve().parent.parent)


def _advice(missing: Unavailable) -> Unavailable:
    return Unavailable(f"MySQL cannot be had here: {missing}. Install MySQL server 8.4 or later so that mysqld is on the PATH")
