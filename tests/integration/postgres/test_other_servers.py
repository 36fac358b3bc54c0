"""Other servers behind the address, standbys and shutdowns."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from dblog.errors import DefiniteError
from stack import Postgres
from support.postgres import execute, new_database
from support.postgres_follower import PostgresFollower

TABLES = ("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")


def ids(follower: PostgresFollower) -> list[int]:
    return sorted(row["id"] for row in follower.rows.get("t", {}).values())


def copy_of(folder: Path, target: Path) -> None:
    """All of a stopped server's folder, its owners too."""
    shutil.copytree(folder, target, symlinks=True, copy_function=shutil.copy2)
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            of = os.lstat(Path(root) / name)
            os.chown(target / os.path.relpath(root, folder) / name, of.st_uid, of.st_gid, follow_symlinks=False)


def test_a_server_that_was_put_back_from_a_copy_of_its_files_is_no_silent_loss(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "one", durable=False)
    with server:
        database = new_database(server)
        follower = PostgresFollower(server, database)
        follower.sql(*TABLES)
        follower.start()
        follower.until_dumped()
        follower.task.stop()
    copy_of(tmp_path / "one", tmp_path / "kept")
    with server:
        follower.restart()
        follower.sql("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) n")
        follower.until(lambda: len(ids(follower)) == 2000)
        follower.until_caught_up()
        follower.task.stop()
    shutil.rmtree(tmp_path / "one")
    copy_of(tmp_path / "kept", tmp_path / "one")
    with server:
        try:
            follower.restart()
            follower.sql("INSERT INTO t VALUES (5000, 'after')")
            follower.until(lambda: 5000 in ids(follower))
        except DefiniteError:
            return
        finally:
            follower.task.stop()


def promoted(folder: Path) -> Postgres:
    """The copy in a folder becomes a primary of the next timeline, with the slots that it has."""
    server = Postgres(folder, durable=False)
    (server.data / "standby.signal").touch()
    server.start()
    server.promote()
    return server


def test_the_old_primary_behind_the_address_again_is_no_silent_loss(tmp_path: Path) -> None:
    old = Postgres(tmp_path / "old", durable=False)
    with old:
        database = new_database(old)
        follower = PostgresFollower(old, database)
        follower.sql(*TABLES)
        follower.start()
        follower.until_dumped()
        follower.task.stop()
    copy_of(tmp_path / "old", tmp_path / "new")
    new = promoted(tmp_path / "new")
    try:
        with old:
            follower.server = new
            follower.config["database.port"] = str(new.port)
            follower.restart()
            follower.sql("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) n")
            follower.until(lambda: len(ids(follower)) == 2000)
            follower.until_caught_up()
            follower.task.stop()
            follower.server = old
            follower.config["database.port"] = str(old.port)
            try:
                follower.restart()
                follower.sql("INSERT INTO t VALUES (5000, 'on the old one')")
                follower.until(lambda: 5000 in ids(follower))
            except DefiniteError:
                return
            finally:
                follower.task.stop()
            pytest.fail("it goes on with rows of a timeline that the server never had")
    finally:
        new.stop()


@pytest.mark.long
def test_a_dump_of_an_idle_server_in_read_only_mode_ends_behind_a_switch_of_its_log(tmp_path: Path) -> None:
    """pg_current_wal_insert_lsn() is then behind the header of a page (0/2000028) that the walsender, whose position is 0/2000000, has not come to."""
    with Postgres(tmp_path / "one", durable=False, options={"autovacuum": "off", "checkpoint_timeout": "1h"}) as server:
        database = new_database(server)
        follower = PostgresFollower(server, database, **{"read.only": "true", "snapshot.mode": "no_data"})
        follower.sql(*TABLES, "INSERT INTO t VALUES (1, 'a')", "VACUUM FREEZE t")
        follower.start()
        follower.until_caught_up()
        began = time.monotonic()
        while time.monotonic() - began < 20:  # the background writer notes what is under way, every 15 s where something was written
            follower.poll()
        execute(server, "SELECT pg_switch_wal()")
        request = follower.ask("public.t")
        began = time.monotonic()
        while (follower.status(request.id) or {}).get("state") != "DONE" and time.monotonic() - began < 60:
            follower.poll()
        took = time.monotonic() - began
        follower.task.stop()
    assert took < 5, f"it was done only when the server had written something else, after {took:.0f} s"


def test_a_connector_of_a_standby_dumps_and_follows_as_the_check_lets_it(tmp_path: Path) -> None:
    from stack import Postgres17

    with Postgres17(tmp_path / "one", durable=False) as server:
        database = new_database(server)
        execute(
            server,
            *TABLES,
            "INSERT INTO t VALUES (1, 'a')",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            database=database,
        )
        with server.standby(tmp_path / "standby", options={"hot_standby_feedback": "on"}) as standby:
            follower = PostgresFollower(standby, database, **{"read.only": "true"})
            stopped = threading.Event()

            def note() -> None:
                while not stopped.wait(0.2):
                    execute(server, "SELECT pg_log_standby_snapshot()")

            noting = threading.Thread(target=note)
            noting.start()
            try:
                follower.start()
                began = time.monotonic()
                while time.monotonic() - began < 30 and ids(follower) != [1]:
                    follower.poll()
                dumped = ids(follower)
                execute(server, "INSERT INTO t VALUES (2, 'b')", database=database)
                began = time.monotonic()
                while time.monotonic() - began < 15 and 2 not in ids(follower):
                    follower.poll()
                found = ids(follower)
                follower.task.stop()
            finally:
                stopped.set()
                noting.join()
    assert (dumped, found) == ([1], [1, 2])


def test_a_transaction_taken_in_part_that_the_promoted_server_lacks_is_a_lost_position(tmp_path: Path) -> None:
    old = Postgres(tmp_path / "old", durable=False)
    with old:
        database = new_database(old)
        follower = PostgresFollower(old, database, **{"max.batch.size": "100", "snapshot.mode": "no_data"})
        follower.sql(*TABLES)
        follower.start()
        follower.until_caught_up()
        follower.task.stop()
    copy_of(tmp_path / "old", tmp_path / "new")
    with old:
        follower.restart()
        follower.sql("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) n")
        while len(ids(follower)) < 200:
            follower.poll(records_max=100)
        assert follower.offset is not None
        assert follower.offset.get("dblog_event")
        follower.task.stop()
    new = promoted(tmp_path / "new")
    try:
        follower.server = new
        follower.config["database.port"] = str(new.port)
        try:
            follower.restart()
            follower.until_caught_up()
            follower.task.stop()
        except DefiniteError:
            return
        assert ids(follower) == [], "rows that the server does not have, and nothing to take them back"
    finally:
        new.stop()
