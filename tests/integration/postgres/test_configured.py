"""Keys of the connector that show on the server only: which schemas are looked at, what a table logs, and how far the slot is confirmed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task import connections
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.dialects.postgres.wire.connect import settings_of
from dblog.dialects.postgres.wire.estimates import row_estimates
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.errors import DefiniteError
from dblog.model import TableId
from stack import Postgres, Postgres17
from support.postgres import connected, execute, log_end, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import started


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


def confirmed(server: Postgres, follower: PostgresFollower) -> str:
    """Where the follower's slot stands."""
    ((lsn,),) = execute(server, f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{follower.name}'")
    return str(lsn)


def reaches(server: Postgres, follower: PostgresFollower, lsn: str) -> bool:
    return bool(execute(server, f"SELECT '{confirmed(server, follower)}'::pg_lsn >= '{lsn}'::pg_lsn")[0][0])


def reports(server: Postgres, follower: PostgresFollower, since: str) -> bool:
    """Whether the follower's connection has sent a status since then, by the server's clock."""
    return bool(
        execute(
            server,
            "SELECT 1 FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid "
            f"WHERE s.slot_name = '{follower.name}' AND r.reply_time > '{since}'",
        )
    )


def identities(server: Postgres, database: str) -> dict[str, str]:
    rows = execute(server, "SELECT relname, relreplident FROM pg_class WHERE relkind = 'r' AND relname LIKE 't%'", database=database)
    return {str(name): str(kind) for name, kind in rows}


def test_a_check_looks_at_the_chosen_schemas(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, "shop", **{"column.exclude.list": r"other\.t\.note"})
    follower.sql("CREATE SCHEMA shop", "CREATE SCHEMA other")
    for schema in ("shop", "other"):
        follower.sql(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, note TEXT)")

    def warnings(**config: str) -> list[str]:
        settings = parse_connector(follower.options, follower.config | config)
        return [text for text in PostgresKind().check(settings, limit_s=60.0, abort=Abort()) if "column.exclude.list" in text]

    assert warnings() == ["column.exclude.list: member 1 matches no column of a captured table; one that comes later is matched"]
    assert warnings(**{"schema.include.list": "shop,other"}) == []


def test_a_schema_of_an_extension_in_which_others_may_create_is_named_with_the_statement_that_closes_it(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database)
    role = f'r"{database}'
    quoted = '"' + role.replace('"', '""') + '"'
    follower.sql('CREATE SCHEMA "ext 1"', 'CREATE EXTENSION citext SCHEMA "ext 1"', "CREATE SCHEMA other", f"CREATE ROLE {quoted}")

    def named() -> list[str]:
        settings = parse_connector(follower.options, follower.config)
        return [text for text in PostgresKind().check(settings, limit_s=60.0, abort=Abort()) if "operators of" in text]

    assert named() == []
    follower.sql(f"GRANT CREATE ON SCHEMA other TO PUBLIC, {quoted}", 'GRANT USAGE ON SCHEMA "ext 1" TO PUBLIC')
    assert named() == []

    follower.sql(f'GRANT CREATE ON SCHEMA "ext 1" TO PUBLIC, {quoted}')

    (text,) = named()
    assert text.startswith('schema "ext 1" has operators of "citext", which')
    (statement,) = re.findall(r"REVOKE [^;]*;", text)
    assert quoted in statement
    follower.sql(statement)
    assert named() == []
    follower.sql("REVOKE ALL ON SCHEMA other FROM PUBLIC", f"DROP OWNED BY {quoted}", f"DROP ROLE {quoted}")


def test_tables_get_the_replica_identity_that_the_configuration_wants(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(
        postgres,
        database,
        **{"replica.identity.autoset.values": r"public\.t1:FULL,public\.t2:INDEX by_note,public\.t3:NOTHING,public\.t4:full"},
    )
    follower.sql(*(f"CREATE TABLE t{number} (id INT PRIMARY KEY, note TEXT NOT NULL)" for number in range(1, 6)))
    follower.sql("CREATE UNIQUE INDEX by_note ON t2 (note)", "ALTER TABLE t4 REPLICA IDENTITY FULL")

    follower.start()
    follower.task.stop()

    assert identities(postgres, database) == {"t1": "f", "t2": "i", "t3": "n", "t4": "f", "t5": "d"}
    assert execute(postgres, "SELECT indisreplident FROM pg_index WHERE indexrelid = 'by_note'::regclass", database=database) == [(True,)]


def test_partitions_whose_rows_come_under_their_root_get_its_replica_identity(postgres: Postgres, database: str) -> None:
    wanted = {"publish.via.partition.root": "true", "replica.identity.autoset.values": r"public\.root:FULL"}
    follower = PostgresFollower(postgres, database, **wanted)
    follower.sql(
        "CREATE TABLE root (id INT, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE of_leaves PARTITION OF root FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id)",
        "CREATE TABLE low_leaf PARTITION OF of_leaves FOR VALUES FROM (100) TO (150)",
        "INSERT INTO root VALUES (1, 'a')",
    )
    settings = parse_connector(follower.options, follower.config)
    (warning,) = PostgresKind().check(settings, limit_s=60.0, abort=Abort())
    assert "public.root has no replica identity" in warning
    follower.sql("ALTER TABLE root REPLICA IDENTITY FULL")
    assert PostgresKind().check(settings, limit_s=60.0, abort=Abort()) == [warning]  # rows are logged by the partitions'

    follower.start().until_dumped()
    follower.sql("UPDATE root SET v = 'b'")
    follower.until(lambda: "u" in follower.ops("root"))
    follower.task.stop()

    found = execute(postgres, "SELECT relname, relreplident FROM pg_class WHERE relname IN ('leaf', 'low_leaf')", database=database)
    assert dict(found) == {"leaf": "f", "low_leaf": "f"}
    (before,) = [record["before"] for _, record in follower.values if record is not None and record["op"] == "u"]
    assert before == {"id": 1, "v": "a"}
    assert PostgresKind().check(settings, limit_s=60.0, abort=Abort()) == []


def test_an_account_that_may_not_alter_a_table_fails_with_the_statement_to_run(postgres: Postgres, database: str) -> None:
    wanted = {"replica.identity.autoset.values": r"public\.t:FULL", "publication.autocreate.mode": "disabled"}
    account: dict[str, Any] = {"database.user": f"reader_{database}", "database.password": "pw"}
    follower = PostgresFollower(postgres, database, **wanted, **account)
    follower.sql(
        f"CREATE ROLE reader_{database} LOGIN REPLICATION PASSWORD 'pw'",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        f"GRANT SELECT ON t TO reader_{database}",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
    )
    try:
        with pytest.raises(DefiniteError, match=r'as its owner run: ALTER TABLE "public"\."t" REPLICA IDENTITY FULL'):
            follower.start()
        follower.sql("ALTER TABLE t REPLICA IDENTITY FULL")
        follower.task = follower.new_task()
        follower.start()
        follower.task.stop()
    finally:
        drop_slots(postgres, database)
        follower.sql(f"DROP OWNED BY reader_{database}", f"DROP ROLE reader_{database}")


@pytest.mark.parametrize("mode", ["connector", "manual"])
def test_the_slot_is_moved_on_unless_something_else_moves_it(postgres: Postgres, database: str, mode: str) -> None:
    follower = PostgresFollower(postgres, database, **{"lsn.flush.mode": mode, "status.update.interval.ms": "50"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    before = confirmed(postgres, follower)

    follower.sql("INSERT INTO t VALUES (1)")
    written = log_end(postgres)
    follower.sql("INSERT INTO t VALUES (2)")
    follower.until(lambda: len(follower.rows.get("t", {})) == 2)
    if mode == "connector":
        follower.until(lambda: reaches(postgres, follower, written))
    else:
        follower.restart()  # a new connection, which reports where it begins
        follower.sql("INSERT INTO t VALUES (3)")
        follower.until(lambda: len(follower.rows["t"]) == 3)
        ((since,),) = execute(postgres, "SELECT clock_timestamp()::text")
        follower.until(lambda: reports(postgres, follower, str(since)))
        assert confirmed(postgres, follower) == before
    follower.task.stop()


def test_with_heartbeats_the_slot_of_quiet_tables_is_moved_on(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, "quiet", **{"heartbeat.interval.ms": "50", "status.update.interval.ms": "50"})
    follower.sql("CREATE SCHEMA quiet", "CREATE TABLE quiet.t (id INT PRIMARY KEY)", "CREATE TABLE busy (id INT)")
    follower.start()
    follower.until_dumped()

    follower.sql("INSERT INTO busy SELECT generate_series(1, 1000)")
    written = log_end(postgres)

    follower.until(lambda: reaches(postgres, follower, written))
    follower.task.stop()


# number 33 of the worker's safety
def test_the_statement_of_a_heartbeat_is_run_with_each_and_one_that_fails_or_hangs_does_not_end_the_task(
    postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connections, "STATEMENT_LIMIT_S", 0.3)
    sql = partial(execute, postgres, database=postgres_database)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE beats (at TIMESTAMPTZ)", "CREATE TABLE how (begins BOOL)")
    statement = "DO $$ BEGIN IF EXISTS (SELECT FROM how) THEN RAISE 'the table how has rows'; END IF; END $$; INSERT INTO beats VALUES (clock_timestamp())"
    query = {"heartbeat.interval.ms": "50", "heartbeat.action.query": statement}
    follower = PostgresFollower(postgres, postgres_database, **query, **{"snapshot.mode": "no_data", "table.include.list": "public.t"})

    def beats_on() -> None:
        follower.until(lambda: not follower.warnings.texts())
        before = sql("SELECT count(*) FROM beats")[0][0]
        follower.until(lambda: sql("SELECT count(*) FROM beats")[0][0] > before + 2)

    def fails(reason: str) -> None:
        follower.until(
            lambda: any(
                f"heartbeat.action.query fails, and each heartbeat tries it again: {reason}" in text for text in follower.warnings.texts()
            )
        )

    try:
        follower.start()
        beats_on()

        sql("INSERT INTO how VALUES (true)", "INSERT INTO t VALUES (1)")
        fails("heartbeat.action.query at")
        follower.until(lambda: follower.ops("t") == ["c"])
        sql("TRUNCATE how")
        beats_on()

        with connected(postgres, database=postgres_database) as other, other.cursor() as cursor:
            cursor.execute("BEGIN; LOCK TABLE beats IN EXCLUSIVE MODE")
            fails("heartbeat.action.query at")
            cursor.execute("INSERT INTO t VALUES (2); COMMIT")
        follower.until(lambda: follower.ops("t") == ["c", "c"])
        beats_on()
    finally:
        follower.task.stop()
        drop_slots(postgres, postgres_database)
    assert 2 <= "".join(capfd.readouterr()).count("the statement of a heartbeat failed") <= 4, "once for each time that it began to fail"


def test_a_transaction_that_the_statement_of_a_heartbeat_leaves_open_is_rolled_back(postgres: Postgres, postgres_database: str) -> None:
    sql = partial(execute, postgres, database=postgres_database)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE beats (at TIMESTAMPTZ)")
    query = {"heartbeat.interval.ms": "50", "heartbeat.action.query": "BEGIN; INSERT INTO beats VALUES (clock_timestamp())"}
    follower = PostgresFollower(postgres, postgres_database, **query, **{"snapshot.mode": "no_data", "table.include.list": "public.t"})
    try:
        follower.start()
        follower.until(lambda: any("has left a transaction open, which was rolled back" in text for text in follower.warnings.texts()))
        sql("ALTER TABLE beats ADD more INT")  # nobody holds a lock of it for long
    finally:
        follower.task.stop()
        drop_slots(postgres, postgres_database)


@pytest.mark.parametrize(("origin", "ids"), [("none", [1, 3]), ("any", [1, 2, 3])])
def test_changes_that_the_database_got_by_replication_are_left_out_where_the_configuration_says_so(
    own_folder: Path, origin: str, ids: list[int]
) -> None:
    with started(Postgres17(own_folder / "server", durable=False)) as server:
        database = new_database(server, "origins")
        follower = PostgresFollower(server, database, **{"slot.stream.params": f"origin={origin}"})
        follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "SELECT pg_replication_origin_create('elsewhere')")
        follower.start()
        follower.until_dumped()

        follower.sql(
            "INSERT INTO t VALUES (1)",
            "SELECT pg_replication_origin_session_setup('elsewhere')",
            "INSERT INTO t VALUES (2)",
            "SELECT pg_replication_origin_session_reset()",
            "INSERT INTO t VALUES (3)",
        )
        follower.until(lambda: any(row["id"] == ids[-1] for row in follower.rows.get("t", {}).values()))
        follower.task.stop()

        assert sorted(row["id"] for row in follower.rows["t"].values()) == ids
        named = {
            record["after"]["id"]: record["source"]["origin"] for name, record in follower.values if name == "t" and record is not None
        }
        assert named == {number: "elsewhere" if number == ids[1] == 2 else None for number in ids}


def test_a_table_that_the_account_may_not_read_is_left_out_of_the_estimates_and_the_others_are_not(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE open (id INT)", "CREATE TABLE closed (id INT)", "CREATE ROLE looks_only LOGIN PASSWORD 'p'")
    try:
        follower.sql("GRANT SELECT ON open TO looks_only")
        settings = settings_of(parse_connector(follower.options, follower.config))
        with closing(connect(replace(settings, user="looks_only", password="p"), by_root=False)) as session:
            found = row_estimates(session, [TableId("public", "open"), TableId("public", "closed"), TableId("public", "missing")])
    finally:
        follower.sql("DROP OWNED BY looks_only", "DROP ROLE looks_only")

    assert list(found) == [TableId("public", "open")]


# number 7 of the worker's safety
def test_initial_statements_change_no_values_and_leave_no_transaction_open(postgres: Postgres, postgres_database: str) -> None:
    def opened(*statements: str) -> Session:
        where = {
            "database.hostname": postgres.host,
            "database.port": postgres.port,
            "database.user": postgres.user,
            "database.dbname": postgres_database,
        }
        return connect(
            replace(settings_of({**where, "database.password": postgres.password}), initial_statements=statements), by_root=False
        )

    changes = ("SET TimeZone = 'Europe/Berlin'", "SET DateStyle = 'German'", "SET client_encoding = 'LATIN1'", "SET row_security = on")
    changes += ("SET quote_all_identifiers = on", "SET lc_monetary = 'POSIX'")
    own = execute(postgres, "SELECT current_setting('lc_monetary')", database=postgres_database)[0][0]
    assert own != "POSIX"
    with closing(opened(*changes, "SET lock_timeout = '12s'")) as session:
        names = ("TimeZone", "DateStyle", "client_encoding", "row_security", "lock_timeout", "quote_all_identifiers", "lc_monetary")
        rows = session.wire.query("SELECT " + ", ".join(f"current_setting('{name}')" for name in names) + ", 'ä€'")
    assert rows == [("UTC", "ISO, MDY", "UTF8", "off", "12s", "off", own, "ä€")]
    for statement in ("BEGIN", "START TRANSACTION READ ONLY"):
        with pytest.raises(DefiniteError, match=r"^statement 2 of database\.initial\.statements leaves a transaction open"):
            opened("SELECT 1", statement, "SELECT 2")
