"""Runs PostgreSQL 15 from Debian 12's package, else the machine's server, else an image's.

17 and 18 are from later releases of Debian. PostgreSQL refuses to run as root. Started by root it
runs as `nobody`, who owns the data folder, with one privilege of root (CAP_DAC_OVERRIDE of
capabilities(7)): its program, its files and the folder around its data are in places that only root
may read.
"""

import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from stack.commands import run
from stack.containers import wanted
from stack.database import HOST, Database, Program
from stack.debian import Unpacked, unpacked
from stack.errors import StackError, Unavailable

INSTALLED = "/usr/lib/postgresql"
"""Folder of Debian's programs, with a folder for each version; they are not on the PATH."""

_PROTOCOL_3 = 3 << 16
"""Version in a startup packet (PostgreSQL manual, Message Formats, StartupMessage)."""
_CANNOT_CONNECT_NOW = b"\0C57P03\0"
"""SQLSTATE field of the error of a server that is starting, stopping or recovering (PostgreSQL
manual, Error Codes; Error and Notice Message Fields).
"""
_LOGIN = ("host", "port", "user", "password", "dbname")
_LOGIN_VARIABLES = ("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE")
"""Environment variables of the client programs (PostgreSQL manual: libpq)."""
_REMOVE_SHARED_MEMORY = 'set -- $(sed -n 7p "$0"); [ -z "$2" ] || exec ipcrm --shmem-id "$2"'
"""Shell command that removes the System V shared memory of a killed server. Line 7 of
`postmaster.pid` has its key and id; the kernel has room for 4096 segments.
"""


class Postgres(Database):
    """A PostgreSQL server whose log can be decoded.

    `standby` makes a copy of it, which only takes reads until `promote`. `stop` is PostgreSQL's
    fast shutdown, `kill` a crash.
    """

    flavor = "postgres"
    administrator = "postgres"
    # SIGTERM would wait until the last client has gone.
    stop_signal = signal.SIGINT
    version = "15"
    suite = "bookworm"
    extensions: tuple[str, ...] = ("postgis-3",)
    """Packages of extensions; PostgreSQL's own (hstore, citext, ltree...) are in the server's."""
    primary: "Postgres | None" = None
    """Server of which this one is a standby, None if it is not."""

    @property
    def image(self) -> str:
        return "postgres" if self.version == Postgres.version else f"postgres{self.version}"

    @property
    def login(self) -> dict[str, Any]:
        """Keyword arguments for `psycopg2.connect` as administrator, to the database `postgres`."""
        return {**super().login, "dbname": "postgres"}

    def program(self) -> Program:
        return self.tool("postgres")

    def tool(self, name: str, *, once: bool = False) -> Program:
        """Return this version's program `name`, such as `psql`, `pg_basebackup` or `pg_rewind`.

        `once` is for a program that ends, if it runs in a container.
        """
        if wanted():
            return self._contained_tool(name, once=once)
        try:
            system = self._unpacked()
        except Unavailable as missing:
            return self._installed_tool(name) or self._contained_tool(name, once=once, missing=self._advice(missing))
        return Program([*_as_owner(), *system.command(f"{self._folder}/{name}")], system.root)

    def run_tool(self, name: str, *arguments: str, login: Mapping[str, object]) -> str:
        """Run a client program that connects with `login`, and return its output.

        Raise StackError with the output if it fails.
        """
        program = self.tool(name, once=True)
        if program.container and not program.container.host_network:
            raise Unavailable(
                f"{name} runs in a container that cannot reach servers of this machine; Podman on Linux gives it their network"
            )
        env = {variable: str(login[name]) for variable, name in zip(_LOGIN_VARIABLES, _LOGIN, strict=True)}
        return run([*program.command, *arguments], what=f"{name} of PostgreSQL {self.version}", env=env)

    def standby(self, folder: Path, *, options: Mapping[str, object] | None = None) -> Self:
        """Return a physical standby that streams from this server through a separate slot.

        Its start copies the data of this server, which must then run.
        """
        made = type(self)(folder, options={"primary_slot_name": slot_of(folder), **(options or {})}, durable=self.durable)
        made.primary = self
        # The password is among the copied data.
        made.keep_password(self.password)
        return made

    def promote(self) -> None:
        """Make this standby a primary that takes writes, on a new timeline, and wait until it does.

        Raise StackError if it is no standby.
        """
        done = self.run_tool("psql", "-XAtc", "SELECT pg_catalog.pg_promote()", login=self.login).strip()
        if done != "t":
            raise StackError(f"{self.name} did not become a primary within a minute\n{self.log_end()}")

    def initialise(self, program: Program, data: Path) -> None:
        if self.primary:
            self._copy(self.primary, data)
            return
        options = [f"--pgdata={data}", f"--username={self.user}", f"--pwfile={self.password_file}", "--auth=scram-sha-256"]
        # The locale C is on every machine; other collations are ICU's, which the server includes.
        options += ["--encoding=UTF8", "--locale=C", "--no-sync"]
        self.keep_password(self.password)
        run([*self._initdb(program), *options], what="Initialising PostgreSQL's data folder")

    def _copy(self, primary: "Postgres", data: Path) -> None:
        slot = str(self.options["primary_slot_name"])
        names = self.run_tool("psql", "-XAtc", "SELECT slot_name FROM pg_catalog.pg_replication_slots", login=primary.login).split()
        # An earlier copy was interrupted.
        create = [] if slot in names else ["--create-slot"]
        options = [f"--pgdata={data}", "--checkpoint=fast", "--wal-method=stream", "--no-sync", f"--slot={slot}", *create]
        self.run_tool("pg_basebackup", *options, login=primary.login)
        (data / "standby.signal").touch()

    def write_files(self, program: Program) -> None:
        contained = program.container
        options: dict[str, object] = {
            "listen_addresses": contained.address if contained else HOST,
            "port": self.port,
            # The path of a Unix socket is at most 107 bytes long, and the folder's may be longer.
            "unix_socket_directories": "",
            "hba_file": self.folder / "hba.conf",
            "wal_level": "logical",
            "max_wal_senders": 20,
            "max_replication_slots": 20,
            "max_connections": 100,
            "fsync": "on" if self.durable else "off",
            "full_page_writes": "on" if self.durable else "off",
            "timezone": "UTC",
            # A killed server would leave its segment in /dev/shm, which is small in containers.
            "dynamic_shared_memory_type": "mmap",
            **(self._streaming(self.primary) if self.primary else {}),
            **self.options,
        }
        lines = "".join(f"{name} = {_quoted(value)}\n" for name, value in options.items() if value is not None)
        # A standby's file has a password.
        self.defaults.touch(mode=0o600)
        self.defaults.write_text(lines)
        # With a published port, connections come from an address of the engine.
        clients = "0.0.0.0/0" if contained and not contained.host_network else f"{HOST}/32"
        (self.folder / "hba.conf").write_text(
            f"host all all {clients} scram-sha-256\nhost replication all {clients} scram-sha-256\n"  # `all` has no replication in it
        )
        if not contained:
            self.afterwards = ["sh", "-c", _REMOVE_SHARED_MEMORY, str(self.data / "postmaster.pid")]

    @property
    def defaults(self) -> Path:
        """File with the server's options.

        `ALTER SYSTEM` writes `postgresql.auto.conf` in the data folder, which overrides it.
        """
        return self.folder / "server.conf"

    def command(self, program: Program) -> list[str]:
        return [*program.command, "-D", str(self.data), "-c", f"config_file={self.defaults}"]

    def answers(self) -> bool:
        """Return True if the server asks a new connection for a password.

        During recovery it refuses connections.
        """
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                parameters = b"".join(f"{text}\0".encode() for text in ("user", self.user, "database", "postgres")) + b"\0"
                connection.sendall(struct.pack("!ii", 8 + len(parameters), _PROTOCOL_3) + parameters)
                kind = connection.recv(1)
                error = connection.recv(4096) if kind == b"E" else b""
        except OSError:
            return False
        if kind not in (b"R", b"E", b""):
            raise StackError(f"port {self.port} answers with something that is not {type(self).__name__}")
        return kind != b"" and _CANNOT_CONNECT_NOW not in error

    def _streaming(self, primary: "Postgres") -> dict[str, object]:
        login = {**primary.login, "application_name": str(self.options["primary_slot_name"])}
        return {"primary_conninfo": " ".join(f"{name}={value}" for name, value in login.items()), "hot_standby": "on"}

    @property
    def _folder(self) -> str:
        return f"usr/lib/postgresql/{self.version}/bin"

    def _unpacked(self) -> Unpacked:
        server = f"postgresql-{self.version}"
        packages = [server, *(f"{server}-{extension}" for extension in self.extensions)]
        links = {f"usr/share/postgresql/{self.version}/extension/postgis.control": "postgis-3.control"}
        return unpacked("-".join([server, *self.extensions]), package=" ".join(packages), suite=self.suite, links=links)

    def _initdb(self, program: Program) -> list[str]:
        """Return the command line of `initdb`.

        It runs the `postgres` next to it, and an unpacked one starts only with its own loader.
        """
        if program.basedir is None:
            return self.tool("initdb", once=True).command
        system = self._unpacked()
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        shutil.copy(system.root / self._folder / "initdb", programs)
        beside = programs / "postgres"
        beside.write_text(f'#!/bin/sh\nexec {shlex.join(system.command(f"{self._folder}/postgres"))} "$@"\n')
        beside.chmod(0o755)
        return [*_as_owner(), *system.command(str(programs / "initdb")), "-L", str(system.root / f"usr/share/postgresql/{self.version}")]

    def _installed_tool(self, name: str) -> Program | None:
        found = shutil.which("postgres")
        folders = [*Path(INSTALLED).glob("*/bin"), *([Path(found).resolve().parent] if found else [])]
        fitting = sorted((version, folder) for folder in folders if (version := _version(folder)) >= int(self.version))
        return Program([*_as_owner(), str(fitting[0][1] / name)], None) if fitting else None

    def _contained_tool(self, name: str, *, once: bool, missing: Unavailable | None = None) -> Program:
        found = self.contained(name, missing=missing).container
        assert found is not None
        first, *others = [*_as_owner(), name]
        return Program([*found.command(first, once=once, passed=_LOGIN_VARIABLES), *others], None, found)

    def _advice(self, missing: Unavailable) -> Unavailable:
        return Unavailable(
            f"PostgreSQL {self.version} cannot be had here: {missing}. "
            f"Install PostgreSQL server {self.version} or later so that postgres is on the PATH"
        )


class Postgres17(Postgres):
    """PostgreSQL 17 of Debian 13, the first with failover slots, which a standby synchronizes."""

    version = "17"
    suite = "trixie"
    extensions = ("postgis-3", "pgvector")


class Postgres18(Postgres):
    """PostgreSQL 18 of Debian unstable."""

    version = "18"
    suite = "sid"
    extensions = ("postgis-3", "pgvector")


def slot_of(folder: Path) -> str:
    """Return the name of the replication slot for the standby in this folder.

    It has lower-case letters, digits and underscores (PostgreSQL manual, Replication Slots).
    """
    return re.sub(r"[^a-z0-9_]", "_", folder.name.lower())[:63]


def _as_owner() -> list[str]:
    """Return the start of a command line that runs as the owner of the data folder."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        raise Unavailable(
            "PostgreSQL refuses to run as root, and setpriv of util-linux, which starts it as another user, is not on this machine"
        )
    nobody = pwd.getpwnam("nobody")
    user = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    # access(2), by which initdb looks for its programs, ignores capabilities unless the change of
    # user keeps them (capabilities(7), SECBIT_NO_SETUID_FIXUP). The change would also clear the
    # signal of the guard's death.
    kept = ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig=keep"]
    return ["setpriv", *user, *kept]


def _version(folder: Path) -> int:
    """Return the major version of the server with programs in this folder; 0 without one."""
    if not (folder / "postgres").exists():
        return 0
    found = re.search(r"\(PostgreSQL\) (\d+)", run([str(folder / "postgres"), "--version"], what="Asking postgres for its version"))
    return int(found[1]) if found else 0


def _quoted(value: object) -> str:
    """Return a value quoted for the options file.

    PostgreSQL manual, Parameter Interaction via the Configuration File.
    """
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"
