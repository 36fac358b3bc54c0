"""A dump keeps no writer waiting: it locks no row, and holds a table's definition for no longer than it reads a chunk, also when it stops in the middle."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest
from dblog.dialects.mysql.wire import dump as dumps
from dblog.dialects.mysql.wire.connect import ConnectSettings
from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId
from stack.database import Database
from support.servers import execute, new_database

DIGITS = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
ROWS = "SELECT id, v FROM {}.t WHERE id > ?"


@pytest.fixture
def database(source: Database) -> str:
    name = new_database(source, "blocks")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", database=name)
    return name


@pytest.fixture
def opened(source: Database, database: str) -> Iterator[Callable[..., DumpConnection]]:
    with contextlib.ExitStack() as stack:

        def opened(**changes: float) -> DumpConnection:
            settings = ConnectSettings(host=source.host, port=source.port, user=source.user, password=source.password, **changes)
            return stack.enter_context(contextlib.closing(DumpConnection.open(settings, TableId(database, "watermark"))))

        yield opened


@pytest.fixture
def write(source: Database, database: str) -> Iterator[Callable[..., float]]:
    """Runs a statement as an application does, and gives the seconds that it took; error 1205 once it has waited for its limit."""
    with contextlib.closing(pymysql.connect(**source.login, database=database, autocommit=True)) as connection:

        def write(statement: str, *, limit_s: int) -> float:
            with connection.cursor() as cursor:
                cursor.execute(f"SET SESSION lock_wait_timeout = {limit_s}, innodb_lock_wait_timeout = {limit_s}")
                started_s = time.monotonic()
                cursor.execute(statement)
            return time.monotonic() - started_s

        yield write


def test_rows_of_a_chunk_that_is_read_are_written_and_its_table_is_altered_once_it_has_been_read(opened, write, database):
    dump = opened()
    dump.begin_snapshot()
    assert dump.select(ROWS.format(database), (0,)).row_count == 3

    for statement in ("UPDATE t SET v = v + 1", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (4, 4)"):
        write(statement, limit_s=1)
    with pytest.raises(pymysql.err.OperationalError, match="1205"):
        write("ALTER TABLE t ADD COLUMN w INT", limit_s=1)
    dump.end_snapshot()

    write("ALTER TABLE t ADD COLUMN w INT", limit_s=1)


def test_a_snapshot_whose_worker_is_silent_is_ended_so_that_an_alter_goes_on(opened, write, database, monkeypatch):
    monkeypatch.setattr(dumps, "SILENCE_S", 1)
    dump = opened()
    dump.begin_snapshot()
    assert dump.select(ROWS.format(database), (0,)).row_count == 3

    waited_s = write("ALTER TABLE t ADD COLUMN w INT", limit_s=60)

    assert waited_s < 30
    with pytest.raises(TransientError):
        dump.select(ROWS.format(database), (0,))


def test_between_snapshots_the_worker_may_be_silent(opened, source, database, monkeypatch):
    monkeypatch.setattr(dumps, "SILENCE_S", 1)
    dump, within = opened(), opened()
    for connection in (dump, within):
        connection.begin_snapshot()
        assert connection.select(ROWS.format(database), (0,)).row_count == 3
    dump.end_snapshot()
    gone = str(within.snapshot_id)
    deadline = time.monotonic() + 30
    while gone in _connections(source):
        assert time.monotonic() < deadline, "the silent snapshot is still there"
        time.sleep(0.05)

    dump.begin_snapshot()
    assert dump.select(ROWS.format(database), (0,)).row_count == 3


def test_a_chunk_that_takes_too_long_is_ended_at_the_server_too(opened, source, database):
    dump = opened(statement_timeout_s=0.5)
    dump.begin_snapshot()

    with pytest.raises(TransientError, match="took longer than 0.5 s"):
        dump.select(f"SELECT BENCHMARK(2000000000, SHA2(MAX(v), 512)) FROM {database}.t", ())

    deadline = time.monotonic() + 10
    while any("BENCHMARK" in text for text in _connections(source).values()):
        assert time.monotonic() < deadline, "the statement goes on although nobody waits for it"
        time.sleep(0.05)


def test_a_select_beyond_its_limit_is_ended_by_the_server_and_the_snapshot_goes_on(opened, write, database):
    dump = opened()
    dump.begin_snapshot()
    assert dump.select(ROWS.format(database), (0,)).row_count == 3
    write("DELETE FROM t WHERE id = 1", limit_s=10)
    dump.limit_selects(0.3)

    with pytest.raises(TransientError, match="short of something for now"):
        dump.select(
            f"SELECT COUNT(SHA2(CONCAT(a.v, b.n, c.n, d.n, e.n, f.n, g.n), 512)) FROM {database}.t a, {', '.join(f'{DIGITS} {n}' for n in 'bcdefg')}",
            (),
        )

    dump.limit_selects(0)
    assert dump.select(ROWS.format(database), (0,)).row_count == 3


def test_no_row_is_written_within_a_snapshot(opened, source, database):
    dump = opened()
    dump.begin_snapshot()

    for statement in ("DELETE FROM {}.t", "UPDATE {}.t SET v = 0", "INSERT INTO {}.t VALUES (9, 0)"):
        with pytest.raises(DefiniteError, match=r"\(error 1792\)"):
            dump.select(statement.format(database), ())

    assert execute(source, "SELECT COUNT(*), MIN(v) FROM t", database=database) == [(3, 1)]


def _connections(source: Database) -> dict[str, str]:
    """The statements that run, by connection."""
    with contextlib.closing(pymysql.connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW FULL PROCESSLIST")
        return {str(row[0]): str(row[7]) for row in cursor.fetchall() if "PROCESSLIST" not in str(row[7])}
