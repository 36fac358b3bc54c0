"""How many connections a connector holds at its database, and what it says when the server has none left for it."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pymysql
import pytest
from dblog.dialects import connection_counts, idle_session
from dblog.errors import NoConnectionsError
from pymysql.connections import Connection
from stack import Postgres
from stack.database import Database
from support.follower import Follower
from support.postgres import execute as execute_postgres
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import connected, new_database

TIMEOUT_S = 120.0
SAID_S = 15.0
CONFIG = {"dblog.metrics.server.interval.ms": "500", "dblog.dump.threads": "3", "dblog.chunk.rows": "20"}
LEAST_MAX_CONNECTIONS = 10
"""Of MariaDB."""
MOST = connection_counts.IDLE + 1 + 3 * connection_counts.PER_READER


@pytest.fixture(autouse=True)
def idle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_session, "SESSION_IDLE_S", 0.5)


def until(condition: Callable[[], object], *, limit_s: float = TIMEOUT_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "it never became true"
        threading.Event().wait(0.05)


class Account:
    """An account of a server that a connector has for itself."""

    server: Database
    follower: Follower | PostgresFollower

    def open(self) -> int:
        raise NotImplementedError

    def cut(self) -> None:
        """End all connections of the account."""
        raise NotImplementedError


class OfFamily(Account):
    def __init__(self, server: Database, administrator: Connection) -> None:
        self.server, self.user, self._administrator = server, f"u{uuid.uuid4().hex[:8]}", administrator
        privileges = "SELECT, INSERT, UPDATE, DELETE, CREATE, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT"
        self.ask(f"CREATE USER {self.user} IDENTIFIED BY 'secret'")
        self.ask(f"GRANT {privileges} ON *.* TO {self.user}")
        config = {**CONFIG, "database.user": self.user, "database.password": "secret"}
        self.follower = Follower(server, new_database(server), **config)

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """Ask on a connection that stays open: no other may be had."""
        with self._administrator.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _ids(self) -> list[object]:
        return [number for (number,) in self.ask(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{self.user}'")]

    def open(self) -> int:
        return len(self._ids())

    def cut(self) -> None:
        for number in self._ids():
            with contextlib.suppress(pymysql.err.OperationalError):
                self.ask(f"KILL {number}")

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """A server with no connection left."""
        ((before,),) = self.ask("SELECT @@GLOBAL.max_connections")
        self.ask("CREATE USER IF NOT EXISTS filler IDENTIFIED BY 'secret'")
        try:
            with ExitStack() as opened:
                for _ in range(LEAST_MAX_CONNECTIONS):
                    taken = pymysql.connect(host=self.server.host, port=self.server.port, user="filler", password="secret")
                    opened.enter_context(contextlib.closing(taken))
                self.ask(f"SET GLOBAL max_connections = {LEAST_MAX_CONNECTIONS}")
                yield
        finally:
            self.ask(f"SET GLOBAL max_connections = {before}")


class OfPostgres(Account):
    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.user = server, f"u{uuid.uuid4().hex[:8]}"
        execute_postgres(
            server,
            f"CREATE ROLE {self.user} LOGIN REPLICATION PASSWORD 'secret'",
            f"GRANT pg_read_all_data TO {self.user}",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            database=database,
        )
        config = {**CONFIG, "database.user": self.user, "database.password": "secret", "publication.autocreate.mode": "disabled"}
        self.follower = PostgresFollower(server, database, **config)

    def open(self) -> int:
        return len(execute_postgres(self.server, f"SELECT pid FROM pg_stat_activity WHERE usename = '{self.user}'"))

    def cut(self) -> None:
        execute_postgres(self.server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.user}'")


@pytest.fixture
def of_family(source: Database) -> Iterator[OfFamily]:
    with connected(source) as administrator:
        yield OfFamily(source, administrator)


@pytest.fixture
def account_of_postgres(postgres: Postgres, postgres_database: str) -> Iterator[OfPostgres]:
    yield OfPostgres(postgres, postgres_database)
    drop_slots(postgres, postgres_database)


def assert_few_connections(account: Account) -> None:
    """Fewer than the most while it dumps, two while it is idle, also after a statement of the log has needed the session again."""
    follower = account.follower
    for name in ("t", "u", "v"):
        follower.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        follower.sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({number})" for number in range(300)))
    follower.start()
    seen: list[int] = []

    def dumped() -> bool:
        seen.append(account.open())
        return follower.offset is not None and "dblog_dump" in follower.offset and "snapshot" not in follower.offset

    follower.until(dumped)
    assert max(seen) <= MOST
    follower.until(lambda: account.open() == connection_counts.IDLE)

    follower.sql("ALTER TABLE t ADD w INT", "INSERT INTO t VALUES (1000, 1)", "CREATE TABLE late (id INT)", "INSERT INTO late VALUES (1)")
    follower.until_equal_by_name("t")
    follower.until_equal("late")
    follower.until(lambda: account.open() == connection_counts.IDLE)


def assert_says_what_helps(account: Account, remedy: str) -> None:
    """All connections are lost, and the server takes none: the trace and the warnings have the reason, the need and the remedy."""
    follower = account.follower
    began_s = time.monotonic()
    account.cut()

    def said(text: str | None) -> bool:
        return text is not None and all(part in text for part in ("is out of connections", "this connector needs 2, and up to 9", remedy))

    until(lambda: said(follower.task.waits_for()) and any(map(said, follower.warnings.texts())))
    assert time.monotonic() - began_s < SAID_S
    with pytest.raises(NoConnectionsError, match=remedy):
        follower.new_task().start(follower.offset)


def assert_goes_on(account: Account) -> None:
    follower = account.follower
    follower.sql("INSERT INTO u VALUES (1000)")
    follower.until_equal("u")
    until(lambda: follower.task.waits_for() is None and not follower.warnings.texts())
    follower.task.stop()
    until(lambda: account.open() == 0)


@pytest.mark.either_server
def test_an_idle_connector_has_two_connections_and_says_it_when_the_server_has_none_left(of_family: OfFamily) -> None:
    assert_few_connections(of_family)

    with of_family.full():
        assert_says_what_helps(of_family, "raise max_connections there")
    assert_goes_on(of_family)


def test_an_idle_connector_has_two_connections_at_postgres_and_says_it_when_the_server_has_none_left(
    account_of_postgres: OfPostgres,
) -> None:
    account = account_of_postgres
    assert_few_connections(account)

    execute_postgres(account.server, f"ALTER ROLE {account.user} CONNECTION LIMIT 0")
    assert_says_what_helps(account, f'ALTER ROLE "{account.user}" CONNECTION LIMIT -1')
    execute_postgres(account.server, f"ALTER ROLE {account.user} CONNECTION LIMIT -1")
    assert_goes_on(account)
