"""The database of a run on MySQL or MariaDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
from chaos import check
from chaos.check import Folded, Problem
from chaos.database import AWAY_S, SENTINEL, RunDatabase
from chaos.effects import Statement, apply
from chaos.mysql import select
from chaos.mysql.settings import DEFAULTS
from chaos.plan import DDL_SESSION, Step
from demo.pipeline import CONNECTOR_USER, Connector, create_connector_user
from stack import Kafka, MariaDb, MySql
from stack.database import Database
from stack.process import wait_until
from support.ddl_cases import STREAMED_CASES
from support.ddl_replay import Replay
from support.replicas import follow_again, follow_primary, make_primary, stop_following

LOST_RACES = {1205, 1213, 1412}
SWAP_TRIES = 10


def cases_of(flavor: str) -> list[Any]:
    """The cases of DDL that a server knows, in their order."""
    return [case for case in STREAMED_CASES if flavor in case.servers]


class MySqlDatabase(RunDatabase):
    """Implements ``chaos.database.RunDatabase``."""

    error = pymysql.MySQLError
    _swap_at = 0

    def own_servers(self, folder: Path, ending: contextlib.ExitStack) -> None:
        made = MySql if self.plan.flavor == "mysql" else MariaDb
        self.source = made(folder / "primary", durable=False)
        self.replica = made(folder / "replica", durable=False, options={"server_id": 2, "log_bin": "other-name"})
        for server in (self.source, self.replica):
            server.start()
            ending.callback(server.kill)
        follow_primary(self.replica, self.source)

    def begin(self) -> None:
        self._globals(self.plan.settings.log)
        create_connector_user(self.source)
        if self.plan.apart:  # what Debezium needs
            with self._connected(database=None) as cursor:
                cursor.execute(f"GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO '{CONNECTOR_USER}'@'%'")
        if self.replica is not None and self.plan.flavor == "mariadb":
            with self._connected(database=None) as cursor:  # without it the server does not show whether it still follows another one
                cursor.execute(f"GRANT SLAVE MONITOR ON *.* TO '{CONNECTOR_USER}'@'%'")
        with self._connected(database=None) as cursor:
            cursor.execute(f"CREATE DATABASE `{self.name}` CHARACTER SET utf8mb4")
            cursor.execute(f"USE `{self.name}`")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id INT PRIMARY KEY, v VARCHAR(40))")
            for table in self.model.values():
                cursor.execute(table.create)
            for statement in self.plan.own:
                cursor.execute(statement.sql)
            for statement in self.plan.fill:
                with contextlib.suppress(pymysql.err.IntegrityError, pymysql.err.OperationalError):
                    cursor.execute(statement.sql)

    def connector(self, name: str, excluded: set[str], kafka: Kafka) -> Connector:
        options = {
            **{key: text.replace("{schema}", self.name) for key, text in self.plan.settings.connector.items()},
            "database.include.list": rf"{self.name},replay_\d+(_b)?",
            "database.server.id": str(5000 + self.plan.seed % 50_000 + (60_000 if name.endswith("b") else 0)),
        }
        if name.endswith("b"):
            options.pop("snapshot.include.collection.list", None)
        if excluded:
            options["table.exclude.list"] = ",".join(rf"{self.name}\.{table}" for table in sorted(excluded))
        return Connector(name=name, prefix=name, source=self.read or self.source, kafka=kafka, database=self.name, options=options)

    def end_load(self) -> None:
        with self._connected(database=None) as cursor:
            cursor.execute("XA RECOVER")
            for _, _, _, name in cursor.fetchall():
                # Its connection was lost behind XA PREPARE. On MySQL its rows are logged, so it is not rolled back.
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"XA COMMIT '{name if isinstance(name, str) else name.decode()}'")

    def tables(self, excluded: set[str]) -> list[str]:
        with self._connected() as cursor:
            cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
            found = [str(row[0]) for row in cursor.fetchall()]
        narrowed = {t.name for t in self.model.values() if t.born in excluded}
        return [name for name in found if name != SENTINEL and name not in narrowed | excluded]

    def compared_topics(self, table: str, old: Folded, fresh: Folded) -> list[Problem]:
        return check.compare_folded(table, old, fresh, reread=self.plan.settings.rereads)

    def compare(self, table: str, fresh: Folded) -> list[Problem]:
        settings = self.plan.settings
        if table in self.model:
            return select.compare_select(
                self.source, self.name, self.model[table], settings.modes, fresh, as_json=settings.converter != "avro"
            )
        if (count := self.count(table)) != len(fresh.rows) + len(fresh.unkeyed):
            return [Problem("dump", table, f"{count} rows by SELECT, {len(fresh.rows) + len(fresh.unkeyed)} in a fresh dump")]
        return []

    def count(self, table: str) -> int:
        with self._connected() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM `{table}`")
            return int(cursor.fetchall()[0][0])

    def in_delta(self, table: str) -> bool:
        with self._connected() as cursor:
            cursor.execute(f"SHOW KEYS FROM `{table}` WHERE Non_unique = 0")
            return bool(cursor.fetchall())

    def sentinel(self, number: int, text: str) -> None:
        with self._connected() as cursor:
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES ({number}, '{text}')")

    def leave(self) -> None:
        self._globals(DEFAULTS[self.plan.flavor])
        with self._connected(database=None) as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{self.name}`")

    # -- sessions

    def go_on(self, step: Step) -> Any:
        """A new connection, which does what is left of a swap: without its last copy the table would have lost rows, of which the log shows nothing."""
        if step.kind != "ghost":
            return None
        for _ in range(SWAP_TRIES):
            connection = None
            try:
                connection = self.login()
                self.do(connection, step, begin=self._swap_at)
            except (pymysql.MySQLError, OSError) as e:
                self.journal.log(f"session {step.session} lost its connection again: {e}")
            else:
                return connection
            with contextlib.suppress(Exception):
                connection.close()
        return None

    def do(self, connection: Any, step: Step, *, begin: int = 0) -> None:
        """A step's statements. What the server refuses is passed over, as long as the transaction is open; a swap is done whole, or not begun."""
        with connection.cursor() as cursor:
            swap = step.kind == "ghost"
            for at, statement in enumerate(step.statements[begin:], begin):
                if swap:
                    self._swap_at = at
                code = self._execute(connection, cursor, step, statement)
                tries = SWAP_TRIES if swap else 0
                while code in LOST_RACES and tries > 0:
                    code, tries = self._execute(connection, cursor, step, statement), tries - 1
                if code in LOST_RACES or (code and swap and not begin):
                    break
            # After a lost race a transaction of two phases is still open.
            xa = next((s.sql for s in step.statements if s.sql.startswith("XA START")), None)
            for rest in (f"XA END {xa[9:]}", f"XA ROLLBACK {xa[9:]}") if xa else ("ROLLBACK",):
                with contextlib.suppress(pymysql.err.OperationalError, pymysql.err.InternalError, pymysql.err.ProgrammingError):
                    cursor.execute(rest)

    def _execute(self, connection: Any, cursor: Any, step: Step, statement: Statement) -> int:
        """The error with which the server refuses it, or 0."""
        try:
            cursor.execute(statement.sql)
            cursor.fetchall()
        except pymysql.MySQLError as e:
            code = int(e.args[0]) if e.args else 0
            if code in (0, 2006, 2013) or not connection.open:
                raise
            self.journal.counts[f"refused {statement.kind} {code}"] += 1
            self.journal.log(f"{step.at_s:.2f} refused {code} {str(e.args[-1])[:120]}: {statement.sql[:200]}")
            return code
        self.journal.counts[statement.kind if statement.kind != "border" else step.kind] += 1
        if step.session == DDL_SESSION:
            self.journal.log(statement.sql[:400])
        if statement.effect is not None and statement.effect.table in self.model:
            apply(self.model, statement.effect)
        return 0

    def case(self, step: Step) -> None:
        """In databases of its own, on a connection of its own: it changes the session."""
        case = cases_of(self.plan.flavor)[int(step.statements[0].sql)]
        self.journal.log(f"DDL case {case.name}")
        with self._connected(database=None) as cursor:
            try:
                Replay(self.source, cursor).run(case, int(step.at_s * 1000))
                self.journal.counts["case"] += 1
            except (pymysql.MySQLError, AssertionError) as e:
                self.journal.log(f"DDL case {case.name}: {e}")
                self.journal.counts["refused case"] += 1

    def login(self) -> Any:
        connection = self.logged_in(
            lambda: pymysql.connect(**self.source.login, database=self.name, charset="utf8mb4", autocommit=True, read_timeout=60),
            pymysql.err.OperationalError,
        )
        with connection.cursor() as cursor:
            cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00', lock_wait_timeout=10, innodb_lock_wait_timeout=3")
        return connection

    @contextlib.contextmanager
    def _connected(self, database: str | None = "") -> Iterator[Any]:
        login = {**self.source.login, "database": self.name if database == "" else database}
        with contextlib.closing(pymysql.connect(**login, charset="utf8mb4", autocommit=True)) as connection, connection.cursor() as cursor:
            if database is None or database == "":
                cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
            yield cursor

    # -- what befalls the server

    def restarted(self) -> None:
        self._globals(self.plan.settings.log)

    def _globals(self, values: dict[str, str]) -> None:
        """The log's settings, for sessions that begin from now on; on the replica too."""
        for server in (self.source, self.replica):
            if server is None or not server.running:
                continue
            with contextlib.closing(pymysql.connect(**server.login, autocommit=True)) as connection, connection.cursor() as cursor:
                for name, text in values.items():
                    cursor.execute(f"SET GLOBAL {name} = '{text}'")

    def fault_flush_logs(self) -> None:
        with self._connected() as cursor:
            cursor.execute("FLUSH BINARY LOGS")

    def fail_over(self) -> None:
        """As an orderly one is done: nobody writes any more, the connector with its watermarks neither, so the replica gets all that was read."""
        assert self.replica is not None
        with self._connected() as cursor:
            cursor.execute("SET GLOBAL read_only = ON")
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES (-1, 'failover')")
        replica = self.replica
        wait_until(lambda: has_row(replica, self.name, -1), timeout_s=AWAY_S, what="the replica", pause_s=0.2)
        stop_following(replica)
        self.source.kill()
        self.source = replica
        self._globals(self.plan.settings.log)

    def part(self) -> None:
        assert self.replica is not None
        stop_following(self.replica)

    def fail_over_parted(self) -> None:
        """No more of what XA PREPARE has left at the replica is known to anybody; its locks would stay."""
        assert self.replica is not None
        self.source.kill()
        self._lead(self.replica)

    def read_replica(self) -> None:
        self.read = self.replica

    def join(self) -> None:
        assert self.replica is not None
        replica = self.replica
        self.sentinel(-2, "join")
        follow_again(replica)
        wait_until(lambda: has_row(replica, self.name, -2), timeout_s=AWAY_S, what="the replica", pause_s=0.2)
        self.source.kill()
        stop_following(replica)
        self._lead(replica)

    def change_way(self, statements: tuple[str, ...]) -> None:
        with self._connected() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _lead(self, replica: Database) -> None:
        make_primary(replica)
        self.source, self.read = replica, None
        self._globals(self.plan.settings.log)
        self.end_load()


def has_row(replica: Database, database: str, number: int) -> bool:
    """Whether the replica has this row of the sentinels."""
    try:
        with contextlib.closing(pymysql.connect(**replica.login, database=database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {SENTINEL} WHERE id = {number}")
            return bool(cursor.fetchall())
    except pymysql.MySQLError:
        return False
