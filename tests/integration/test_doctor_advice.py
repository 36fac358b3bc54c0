"""The doctor's advice on real servers: settings with which a connector runs, and comes to harm later."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg2.extras
import pytest
from dblog.cli import app
from dblog.config.connector import parse_connector
from dblog.dialects.guide import Hosting
from dblog.dialects.mariadb import session as mariadb_session
from dblog.dialects.mysql.wire import session as mysql_session
from dblog.dialects.mysql.wire.advice import advise
from dblog.dialects.mysql.wire.connect import ConnectSettings
from dblog.dialects.mysql.wire.session import Session
from dblog.dialects.postgres.wire import advice as of_postgres
from dblog.dialects.postgres.wire.connect import settings_of
from dblog.dialects.postgres.wire.hosting import hosting_of
from dblog.dialects.postgres.wire.session import Session as PostgresSession
from dblog.dialects.postgres.wire.session import connect
from dblog.model import TableId
from stack import Postgres, Postgres18
from stack.database import Database
from support import postgres as on_postgres
from support.follower import Follower
from support.postgres_follower import PostgresFollower
from support.servers import execute, new_database, started
from typer.testing import CliRunner


def doctor(tmp_path: Path, config: dict[str, str]) -> str:
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "shop", "config": config}))
    found = CliRunner().invoke(app, ["doctor", str(file)])
    assert found.exit_code == 0, found.output
    return found.output


@contextlib.contextmanager
def globally(source: Database, name: str, value: str) -> Iterator[None]:
    """A variable of the whole server for a while."""
    ((before,),) = execute(source, f"SELECT @@GLOBAL.{name}")
    execute(source, f"SET GLOBAL {name} = {value}")
    yield
    execute(source, f"SET GLOBAL {name} = {before!r}")


@contextlib.contextmanager
def opened(source: Database, hosting: Hosting, **login: str) -> Iterator[Session]:
    """A session with a server that is taken for one of this service."""
    settings = ConnectSettings(host=source.host, port=source.port, **({"user": source.user, "password": source.password} | login))
    session = (mariadb_session if source.flavor == "mariadb" else mysql_session).connect(settings)
    session.facts = replace(session.facts, hosting=hosting)
    yield session
    session.close()


def test_a_log_that_is_kept_for_an_hour_is_named_with_the_time_of_another_dump(source: Database, tmp_path: Path) -> None:
    config = Follower(source, new_database(source, "advice")).config

    with globally(source, "binlog_expire_logs_seconds", "3600"):
        short = doctor(tmp_path, config)
    with globally(source, "binlog_expire_logs_seconds", "604800"):
        long = doctor(tmp_path, config)

    assert "keeps its log for 1.0 h: a connector that is down for longer has to dump all tables again" in short
    assert f"(more: prepare-{source.flavor}.md#log-retention)" in short
    assert "keeps its log for" not in long


def test_the_time_of_a_dump_comes_from_the_sizes_of_the_captured_tables(source: Database) -> None:
    database = new_database(source, "advice")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", database=database)
    execute(
        source, f"INSERT INTO t VALUES {', '.join(f'({n}, REPEAT(0, 200))' for n in range(2000))}", "ANALYZE TABLE t", database=database
    )

    with opened(source, Hosting.SELF) as session:
        assert session.data_bytes([TableId(database, "t"), TableId(database, "none")]) > 200_000
        assert session.data_bytes([]) == 0


def test_amazons_hours_are_read_and_where_they_cannot_be_the_administrator_is_told_how(source: Database) -> None:
    def said() -> str:
        return "\n".join(advise(session, []))

    with opened(source, Hosting.RDS) as session:
        unseen = said()
        execute(source, "CREATE TABLE mysql.rds_configuration (name VARCHAR(100), value VARCHAR(100))")
        try:
            execute(source, "INSERT INTO mysql.rds_configuration VALUES ('binlog retention hours', NULL)")
            empty = said()
            execute(source, "UPDATE mysql.rds_configuration SET value = '1'")
            short = said()
            execute(source, "UPDATE mysql.rds_configuration SET value = '168'")
            long = said()
        finally:
            execute(source, "DROP TABLE mysql.rds_configuration")

    assert "in a setting that the account may not read" in unseen
    assert "for nobody outside" in empty
    assert "keeps its log for 1.0 h" in short
    assert long == ""
    assert all("CALL mysql.rds_set_configuration('binlog retention hours', 168);" in text for text in (unseen, empty, short))
    assert all(text.endswith(f"(more: prepare-{source.flavor}.md#amazon-rds)") for text in (unseen, empty, short))


def test_a_log_that_azure_keeps_for_nobody_is_no_log_that_is_kept_for_ever(mysql: Database) -> None:
    with globally(mysql, "binlog_expire_logs_seconds", "0"):
        with opened(mysql, Hosting.AZURE) as session:
            (there,) = advise(session, [])
        with opened(mysql, Hosting.SELF) as session:
            here = advise(session, [])

    assert "which Azure takes for no time at all" in there
    assert there.endswith("(more: prepare-mysql.md#azure)")
    assert here == []


# -- PostgreSQL ------------------------------------------------------------------------------------


@contextlib.contextmanager
def asked(server: Postgres, database: str) -> Iterator[PostgresSession]:
    follower = PostgresFollower(server, database)
    session = connect(settings_of(parse_connector(follower.options, follower.config)), by_root=False)
    yield session
    session.close()


def test_a_slot_without_a_bound_and_one_that_nobody_reads_are_named(postgres: Postgres, postgres_database: str, tmp_path: Path) -> None:
    on_postgres.execute(postgres, "CREATE PUBLICATION dbz_publication FOR ALL TABLES", database=postgres_database)
    slot = f"left_behind_{postgres_database}"
    on_postgres.execute(postgres, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')", database=postgres_database)
    try:
        with asked(postgres, postgres_database) as session:
            other = "\n".join(of_postgres.advise(session, slot="shop", unread_bytes_min=0))
            own = "\n".join(of_postgres.advise(session, slot=slot, unread_bytes_min=0))
            large = "\n".join(of_postgres.advise(session, slot="shop"))
        output = doctor(tmp_path, PostgresFollower(postgres, postgres_database).config)
    finally:
        on_postgres.execute(postgres, f"SELECT pg_drop_replication_slot('{slot}')", database=postgres_database)

    assert f"nobody reads the slot {slot}" in other
    assert slot not in own + large
    assert "max_slot_wal_keep_size is -1" in output
    assert "(more: prepare-postgres.md#log-retention)" in output


def test_what_ends_a_slot_before_its_connector_comes_back_is_named(own_folder: Path) -> None:
    options = {"idle_replication_slot_timeout": "1h", "max_slot_wal_keep_size": "64MB", "max_wal_senders": "2"}
    with (
        started(Postgres18(own_folder / "primary", options=options, durable=False)) as primary,
        started(primary.standby(own_folder / "standby", options={**options, "hot_standby_feedback": "off"})) as standby,
    ):
        reader = psycopg2.connect(**primary.login, connection_factory=psycopg2.extras.PhysicalReplicationConnection)
        with contextlib.closing(reader), asked(primary, "postgres") as session:
            said = "\n".join(of_postgres.advise(session, slot="shop"))
        with asked(standby, "postgres") as session:
            of_standby = "\n".join(of_postgres.advise(session, slot="shop"))

    assert "idle_replication_slot_timeout is 1h" in said
    assert "max_slot_wal_keep_size is 64MB" in said
    assert "no room for another reader of its log (max_wal_senders)" in said  # the standby is one, and this reader the other
    assert "hot_standby_feedback" not in said
    assert "is a standby with hot_standby_feedback=off" in of_standby


@pytest.mark.parametrize(
    ("made", "undone", "hosting"),
    [
        (["ALTER DATABASE {} SET \"rds.logical_replication\" = 'off'"], [], Hosting.RDS),
        (
            [
                "ALTER DATABASE {} SET \"rds.logical_replication\" = 'on'",
                "CREATE FUNCTION aurora_version() RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
            ],
            [],
            Hosting.AURORA,
        ),
        (["ALTER DATABASE {} SET \"cloudsql.logical_decoding\" = 'on'"], [], Hosting.CLOUD_SQL),
        (["CREATE ROLE azure_pg_admin"], ["DROP ROLE azure_pg_admin"], Hosting.AZURE),
        ([], [], Hosting.SELF),
    ],
    ids=lambda value: value.name if isinstance(value, Hosting) else "",
)
def test_a_service_is_known_by_what_only_its_servers_have(
    postgres: Postgres, postgres_database: str, made: list[str], undone: list[str], hosting: Hosting
) -> None:
    on_postgres.execute(postgres, *(statement.format(postgres_database) for statement in made), "SELECT 1", database=postgres_database)
    try:
        with asked(postgres, postgres_database) as session:
            assert hosting_of(session) is hosting
    finally:
        on_postgres.execute(postgres, *undone, "SELECT 1", database=postgres_database)


def test_an_account_of_amazons_gets_the_grant_that_works_there(postgres: Postgres, postgres_database: str, tmp_path: Path) -> None:
    name = f"poor_{postgres_database}"
    on_postgres.execute(
        postgres,
        f"ALTER DATABASE {postgres_database} SET \"rds.logical_replication\" = 'on'",
        f"CREATE ROLE {name} LOGIN PASSWORD 'canary-secret'",
        database=postgres_database,
    )
    config = PostgresFollower(postgres, postgres_database, **{"database.user": name, "database.password": "canary-secret"}).config
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "shop", "config": config}))

    found = CliRunner().invoke(app, ["doctor", str(file)])

    on_postgres.execute(postgres, f"DROP ROLE {name}")
    assert found.exit_code == 1
    assert f'GRANT rds_replication TO "{name}";' in found.output
    assert "(more: prepare-postgres.md#amazon-rds)" in found.output
