"""The PostgreSQL that docker/stack starts: it answers, its log can be decoded, it keeps its data and its port, and standbys follow it."""

import os
from pathlib import Path

import psycopg2
import pytest
from stack import Postgres, Postgres17, Postgres18, StackError
from stack.postgres import slot_of
from stack.process import wait_until
from support.postgres import execute, new_database
from support.servers import started


def test_its_log_can_be_decoded(postgres: Postgres):
    facts = execute(
        postgres, "SELECT current_setting('wal_level'), current_setting('max_replication_slots'), current_setting('server_version_num')"
    )

    ((level, slots, version),) = facts
    assert (level, slots) == ("logical", "20")
    assert int(str(version)) >= 15_00_00


@pytest.mark.parametrize(
    ("kind", "extensions"),
    [
        (Postgres, ["hstore", "citext", "ltree", "postgis"]),
        pytest.param(Postgres17, ["postgis", "vector"], marks=pytest.mark.long),
        pytest.param(Postgres18, ["postgis", "vector"], marks=pytest.mark.long),
    ],
)
def test_types_of_extensions_are_at_hand(kind: type[Postgres], extensions: list[str], own_folder: Path):
    with started(kind(own_folder, durable=False)) as server:
        execute(server, *(f"CREATE EXTENSION {extension}" for extension in extensions))

        assert execute(server, "SELECT ST_AsText('POINT(1 2)'::geometry)") == [("POINT(1 2)",)]


def test_another_password_is_refused(postgres: Postgres):
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(**{**postgres.login, "password": "guess"})


def test_a_fresh_database_is_empty_and_another_one_each_time(postgres: Postgres, postgres_database: str):
    tables = execute(postgres, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'", database=postgres_database)

    assert tables == [(0,)]
    assert new_database(postgres) != postgres_database


def test_a_killed_server_comes_back_with_its_rows_on_its_port(own_folder: Path):
    with started(Postgres(own_folder, options={"wal_sender_timeout": "5s", "application_name": "it's"}, durable=False)) as server:
        execute(server, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
        port = server.port

        server.kill()
        with pytest.raises(psycopg2.OperationalError):
            psycopg2.connect(**server.login)
        server.start()

        assert server.port == port
        assert execute(server, "SELECT id, current_setting('wal_sender_timeout'), current_setting('application_name') FROM a") == [
            (1, "5s", "it's")
        ]
        server.restart(options={"wal_level": "replica"})
        assert execute(server, "SELECT id, current_setting('wal_level') FROM a") == [(1, "replica")]


def test_a_stop_does_not_wait_for_clients(own_folder: Path):
    with started(Postgres(own_folder, durable=False)) as server:
        connection = psycopg2.connect(**server.login)

        assert server.stop() == 0

        connection.close()


def test_a_killed_server_leaves_no_shared_memory(own_folder: Path):
    with started(Postgres(own_folder, durable=False)) as server:
        _, segment = (server.data / "postmaster.pid").read_text().splitlines()[6].split()
        assert segment in _shared_memory()

        server.kill()

        assert segment not in _shared_memory()


@pytest.mark.parametrize(
    "kind", [Postgres, pytest.param(Postgres17, marks=pytest.mark.long), pytest.param(Postgres18, marks=pytest.mark.long)]
)
def test_a_standby_follows_its_primary_until_it_is_promoted(kind: type[Postgres], own_folder: Path):
    with started(kind(own_folder / "primary", durable=False)) as primary:
        execute(primary, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")

        with started(primary.standby(own_folder / "Stand-by")) as standby:
            execute(primary, "INSERT INTO a VALUES (2)")
            wait_until(lambda: execute(standby, "SELECT count(*) FROM a") == [(2,)], timeout_s=30, what="the standby to have the row")
            with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
                execute(standby, "INSERT INTO a VALUES (3)")
            standby.restart()
            standby.promote()
            execute(standby, "INSERT INTO a VALUES (3)")

            assert execute(standby, "SELECT id, pg_is_in_recovery() FROM a ORDER BY 1") == [(1, False), (2, False), (3, False)]
            assert execute(primary, "SELECT slot_name FROM pg_replication_slots") == [("stand_by",)]
            with pytest.raises(StackError, match="recovery is not in progress"):
                standby.promote()


@pytest.mark.long
def test_a_failover_slot_is_on_the_standby_when_it_is_promoted(own_folder: Path):
    follows = {"sync_replication_slots": "on", "hot_standby_feedback": "on"}
    with (
        started(Postgres17(own_folder / "primary", durable=False)) as primary,
        started(primary.standby(own_folder / "s", options=follows)) as standby,
    ):
        primary.restart(options={"synchronized_standby_slots": "s"})
        execute(primary, "SELECT pg_create_logical_replication_slot('l', 'pgoutput', false, false, true)")

        def kept() -> bool:
            # A synchronized slot stays temporary until the primary's has moved beyond what the standby could reserve (manual, Replication Slot Synchronization).
            execute(primary, "SELECT pg_log_standby_snapshot()", "SELECT pg_replication_slot_advance('l', pg_current_wal_lsn())")
            return execute(standby, "SELECT synced FROM pg_replication_slots WHERE NOT temporary") == [(True,)]

        wait_until(kept, timeout_s=60, what="the slot on the standby", pause_s=0.2)
        standby.promote()

        assert execute(standby, "SELECT slot_name, plugin, failover FROM pg_replication_slots") == [("l", "pgoutput", True)]


def test_a_standbys_slot_has_a_name_that_the_server_takes():
    assert slot_of(Path("/a/Stand-by.1")) == "stand_by_1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_started_by_root_it_runs_as_another_user_in_a_folder_of_roots_alone(postgres: Postgres):
    assert postgres.folder.stat().st_mode & 0o077 == 0
    assert postgres.folder.stat().st_uid == 0
    assert Path(f"/proc/{postgres.pid}").stat().st_uid == postgres.data.stat().st_uid != 0


def _shared_memory() -> set[str]:
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()}
