"""What keeps a connector from running is named with the place, the reason and the remedy, when it is made where that can be known then; no secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.core.dumprequests import INITIAL
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.errors import ConfigError, DblogError, DefiniteError, PositionLostError, TransientError
from stack import Postgres, Postgres17
from stack.process import wait_until
from support.postgres import connected, execute, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import started

PASSWORD = "a-very-secret-password"
ROW = "a value of a row"


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    execute(
        postgres,
        "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)",
        f"INSERT INTO t VALUES (1, '{ROW}')",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        database=postgres_database,
    )
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.fixture
def reader(postgres: Postgres, database: str) -> Iterator[dict[str, str]]:
    """An account that may do all that is needed, and nothing else: keys of the configuration."""
    name = f"reader_{database}"
    execute(
        postgres,
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD '{PASSWORD}'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
        database=database,
    )
    yield {"database.user": name, "database.password": PASSWORD}
    drop_slots(postgres, database)
    execute(postgres, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}", database=database)


def follower_of(server: Postgres, database: str, **config: str) -> PostgresFollower:
    return PostgresFollower(server, database, **{"publication.autocreate.mode": "disabled"} | config)


def told(error: DblogError) -> str:
    """What it says, which has no secret."""
    text = "\n".join([str(error), str(getattr(error, "discreet", "")), repr(error.__cause__)])
    assert PASSWORD not in text
    assert ROW not in text
    return str(error)


def checked(follower: PostgresFollower) -> list[str]:
    settings = parse_connector(follower.options, follower.config)
    return PostgresKind().check(settings, limit_s=60.0, abort=Abort())


def refused(follower: PostgresFollower, *, at_start: bool = True) -> str:
    """The sentence of a check, which a start has, too, but for tables that may not be read: it goes on beside them."""
    with pytest.raises(DefiniteError) as by_check:
        checked(follower)
    text = told(by_check.value)
    if at_start:
        follower.task = follower.new_task()
        with pytest.raises(DefiniteError) as by_start:
            follower.start()
        follower.task.stop()
        assert told(by_start.value) == text
    return text


def test_the_account_of_the_manual_is_enough(postgres: Postgres, database: str, reader: dict[str, str]) -> None:
    follower = follower_of(postgres, database, **reader)

    assert checked(follower) == []
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (2, 'x')")
    follower.until_equal("t")
    follower.task.stop()


# --- the server ------------------------------------------------------------------------------------------------------


def test_a_log_without_rows_that_nobody_may_read(own_folder: Path) -> None:
    with started(Postgres(own_folder, durable=False, options={"wal_level": "replica", "max_wal_senders": "0"})) as server:
        database = new_database(server)

        text = refused(follower_of(server, database))

        assert "wal_level=replica" in text
        assert "ALTER SYSTEM SET wal_level = 'logical'; and restart it" in text
        assert "ALTER SYSTEM SET max_wal_senders = 10; and restart it" in text
        server.restart(options={"wal_level": "logical", "max_wal_senders": "10"})
        execute(server, "CREATE PUBLICATION dbz_publication FOR ALL TABLES", database=database)
        follower_of(server, database).start().task.stop()
        drop_slots(server, database)


def test_a_server_without_room_for_a_slot(own_folder: Path) -> None:
    with started(Postgres(own_folder, durable=False, options={"max_replication_slots": "1"})) as server:
        database = new_database(server)
        execute(server, "SELECT pg_create_physical_replication_slot('taken')")
        execute(server, "CREATE PUBLICATION dbz_publication FOR ALL TABLES", database=database)

        text = refused(follower_of(server, database))

        assert "no room for another replication slot" in text
        assert "max_replication_slots" in text


def test_a_standby_that_cannot_decode_its_log(own_folder: Path) -> None:
    with (
        started(Postgres(own_folder / "primary", durable=False)) as primary,
        started(primary.standby(own_folder / "standby")) as standby,
    ):
        text = refused(follower_of(standby, "postgres"))

    assert f"{standby.port} is a standby of version 15" in text
    assert "point database.hostname at its primary" in text


def test_a_standby_whose_connector_would_have_to_write(own_folder: Path) -> None:
    with started(Postgres17(own_folder / "primary", durable=False)) as primary:
        database = new_database(primary)
        execute(primary, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        with started(primary.standby(own_folder / "standby", options={"hot_standby_feedback": "on"})) as standby:
            text = refused(follower_of(standby, database, **{"publication.autocreate.mode": "all_tables"}))
            assert "is a standby, where nothing can be written" in text
            assert "set read.only=true" in text
            assert 'run at its primary: CREATE PUBLICATION "dbz_publication" FOR ALL TABLES' in text

            execute(primary, "CREATE PUBLICATION dbz_publication FOR ALL TABLES", database=database)
            follower = follower_of(standby, database, **{"publication.autocreate.mode": "all_tables", "read.only": "true"})
            wait_until(lambda: not _fails(follower), timeout_s=30, what="the publication on the standby")


def _fails(follower: PostgresFollower) -> bool:
    try:
        checked(follower)
    except DefiniteError:
        return True
    return False


# --- the login -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"database.password": "guess"}, r"refused user 'postgres': the password is wrong.*correct database\.user and database\.password"),
        ({"database.user": "nobody", "database.password": PASSWORD}, r"refused user 'nobody'.*there is no such user"),
        ({"database.dbname": "nowhere"}, r"has no database 'nowhere'; correct database\.dbname"),
        ({"database.hostname": "no.such.host.invalid"}, r"host 'no\.such\.host\.invalid' is not known; correct database\.hostname"),
        ({"database.sslmode": "require"}, r"do not agree on TLS \(database\.sslmode=require\)"),
    ],
)
def test_a_login_that_is_refused(postgres: Postgres, database: str, config: dict[str, str], said: str) -> None:
    assert re.search(said, refused(follower_of(postgres, database, **config)))


def test_a_server_that_is_not_there_is_tried_again(postgres: Postgres, database: str) -> None:
    follower = follower_of(postgres, database, **{"database.port": "1"})

    with pytest.raises(TransientError, match=r"the server at 127\.0\.0\.1:1 cannot be reached: .*refused"):
        checked(follower)


def test_a_machine_that_pg_hba_lets_nobody_in_from(own_folder: Path) -> None:
    with started(Postgres(own_folder, durable=False)) as server:
        database = new_database(server)
        execute(
            server, f"CREATE ROLE other LOGIN REPLICATION PASSWORD '{PASSWORD}'", "CREATE PUBLICATION dbz_publication", database=database
        )
        hba = server.folder / "hba.conf"
        hba.write_text("host all other 127.0.0.1/32 reject\n" + hba.read_text().replace("host all all", "host all postgres"))
        execute(server, "SELECT pg_reload_conf()")
        follower = follower_of(server, database, **{"database.user": "other", "database.password": PASSWORD})

        wait_until(lambda: "pg_hba.conf" in _said(follower), timeout_s=30, what="the server to have read its file")
        text = refused(follower)

        assert "lets nobody in from this machine as user 'other'" in text
        assert "add a line to its pg_hba.conf" in text


def _said(follower: PostgresFollower) -> str:
    try:
        checked(follower)
    except DblogError as e:
        return told(e)
    return ""


# --- privileges ------------------------------------------------------------------------------------------------------


def test_an_account_without_replication_and_without_select_is_told_both(postgres: Postgres, database: str, reader: dict[str, str]) -> None:
    user = reader["database.user"]
    execute(postgres, f"ALTER ROLE {user} NOREPLICATION", f"REVOKE SELECT ON t FROM {user}", database=database)

    text = refused(follower_of(postgres, database, **reader), at_start=False)

    assert f'ALTER ROLE "{user}" REPLICATION;' in text
    statement = f'GRANT USAGE ON SCHEMA "public" TO "{user}"; GRANT SELECT ON "public"."t" TO "{user}";'
    assert statement in text
    execute(postgres, f'ALTER ROLE "{user}" REPLICATION', *statement.rstrip(";").split("; "), database=database)
    assert checked(follower_of(postgres, database, **reader)) == []


def test_an_account_that_may_not_make_the_publication(postgres: Postgres, database: str, reader: dict[str, str]) -> None:
    execute(postgres, "DROP PUBLICATION dbz_publication", database=database)
    for mode, statement in (
        ("all_tables", 'as a superuser: CREATE PUBLICATION "dbz_publication" FOR ALL TABLES'),
        ("filtered", f'with CREATE on database {database}: CREATE PUBLICATION "dbz_publication" FOR TABLE "public"."t"'),
    ):
        text = refused(follower_of(postgres, database, **reader, **{"publication.autocreate.mode": mode}))

        assert statement in text
        assert "publication.autocreate.mode=disabled" in text


def test_an_account_that_owns_the_tables_may_make_a_publication_of_them_and_not_of_all(
    postgres: Postgres, database: str, reader: dict[str, str]
) -> None:
    user = reader["database.user"]
    execute(postgres, "DROP PUBLICATION dbz_publication", f"GRANT CREATE ON DATABASE {database} TO {user}", database=database)
    execute(postgres, "CREATE SCHEMA hidden CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    hidden = refused(
        follower_of(postgres, database, **reader, **{"publication.autocreate.mode": "filtered", "schema.include.list": "hidden"}),
        at_start=False,
    )
    assert "may not make the publication" in hidden
    assert 'GRANT USAGE ON SCHEMA "hidden"' in hidden
    filtered = follower_of(postgres, database, **reader, **{"publication.autocreate.mode": "filtered"})

    assert "may not make the publication dbz_publication; run there as the owner of the tables" in refused(filtered)
    execute(postgres, f"ALTER TABLE t OWNER TO {user}", database=database)
    refused(follower_of(postgres, database, **reader, **{"publication.autocreate.mode": "all_tables"}))
    assert checked(filtered) == []
    filtered.task = filtered.new_task()
    filtered.start()
    filtered.until_dumped()
    filtered.task.stop()


def test_all_that_is_missing_is_one_list_of_statements_that_names_a_schema_once(
    postgres: Postgres, database: str, reader: dict[str, str]
) -> None:
    user = reader["database.user"]
    execute(
        postgres,
        "CREATE TABLE u (id INT PRIMARY KEY)",
        f"REVOKE SELECT ON t FROM {user}",
        f"ALTER ROLE {user} NOREPLICATION",
        database=database,
    )

    text = refused(follower_of(postgres, database, **reader), at_start=False)

    assert f'ALTER ROLE "{user}" REPLICATION; user ' in text
    grants = f'run there: GRANT USAGE ON SCHEMA "public" TO "{user}"; GRANT SELECT ON "public"."t", "public"."u" TO "{user}";'
    assert text.endswith(f"{grants} (more: prepare-postgres.md#the-account)")


def test_a_new_table_that_may_not_be_read_ends_its_own_dump_and_nothing_else(
    postgres: Postgres, database: str, reader: dict[str, str]
) -> None:
    user = reader["database.user"]
    follower = follower_of(postgres, database, **reader).start()
    try:
        follower.until_dumped()
        execute(postgres, "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)", database=database)
        follower.until(lambda: (follower.status(INITIAL) or {}).get("state") == "FAILED")
        status = follower.status(INITIAL)
        assert status is not None
        assert f'run there: GRANT USAGE ON SCHEMA "public" TO "{user}"; GRANT SELECT ON "public"."u" TO "{user}";' in status["reason"]
        follower.sql("INSERT INTO t VALUES (2, 'x')")
        follower.until_equal("t")
        follower.task.stop()

        follower.restart()
        follower.sql("INSERT INTO t VALUES (3, 'y')")
        follower.until_equal("t")
        follower.task.stop()

        execute(postgres, f"GRANT SELECT ON u TO {user}", database=database)
        follower.restart()
        follower.until_equal("u")
        follower.until_dumped()
    finally:
        follower.task.stop()


def test_policies_that_hide_rows(postgres: Postgres, database: str, reader: dict[str, str]) -> None:
    execute(postgres, "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON t USING (id > 7)", database=database)

    text = refused(follower_of(postgres, database, **reader), at_start=False)

    assert "the policies of public.t (row-level security) hide rows" in text
    assert f'ALTER ROLE "{reader["database.user"]}" BYPASSRLS;' in text


def test_a_slot_that_goes_with_each_stop_and_a_mode_that_never_dumps_again(postgres: Postgres, database: str) -> None:
    drops = {"slot.drop.on.stop": "true"}

    (warning,) = checked(follower_of(postgres, database, **drops))

    assert "set snapshot.mode=when_needed" in warning
    assert checked(follower_of(postgres, database, **drops, **{"snapshot.mode": "when_needed"})) == []


# --- signals and predicates -------------------------------------------------------------------------------------------


def test_a_signal_table_that_is_not_there_is_named_with_the_statement_that_makes_it(postgres: Postgres, database: str) -> None:
    follower = follower_of(postgres, database, **{"signal.data.collection": "public.signals"})

    (warning,) = checked(follower)

    assert "signal.data.collection names public.signals, and there is no such table" in warning
    execute(postgres, warning.partition("run there: ")[2].rstrip(";"), database=database)
    assert checked(follower) == []


@pytest.mark.parametrize("predicate", ["nobody = 1", "id ="])
def test_a_predicate_that_the_server_does_not_take_is_not_taken_for_a_table_that_has_changed(
    postgres: Postgres, database: str, predicate: str
) -> None:
    follower = follower_of(postgres, database, **{"snapshot.mode": "no_data"}).start()
    try:
        with pytest.raises(DefiniteError, match="the server does not take the predicate of public.t") as caught:
            follower.ask(r"public\.t", predicate={"public.t": predicate})
    finally:
        follower.task.stop()

    assert "has changed" not in told(caught.value)


# --- the include lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lists", "warning"),
    [
        (
            {"schema.include.list": "public", "table.include.list": r"public.t,public\.tt"},
            "no table that the account sees matches public.tt (is public.t meant?)",
        ),
        ({"schema.include.list": "pubic"}, "no schema with tables that the account sees matches pubic (is public meant?)"),
    ],
)
def test_a_name_that_matches_no_table(postgres: Postgres, database: str, lists: dict[str, str], warning: str) -> None:
    follower = follower_of(postgres, database, **lists)

    assert warning in checked(follower)


def test_names_without_their_schema_match_no_table(postgres: Postgres, database: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(follower_of(postgres, database, **{"table.include.list": "t"}))

    assert "t of table.include.list has no schema part, so it matches no table: write public\\.t" in str(error.value)


# --- the slot --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["With-Dash", "a" * 64, "ä"])
def test_a_name_that_no_slot_can_have(postgres: Postgres, database: str, name: str) -> None:
    with pytest.raises(DblogError) as error:
        checked(follower_of(postgres, database, **{"slot.name": name}))

    assert "must contain only digits, lowercase characters and underscores with length <= 63" in told(error.value)


def test_a_slot_of_another_plugin_or_another_database_or_a_physical_one(postgres: Postgres, database: str) -> None:
    other = new_database(postgres)
    slots = {name: f"{name}_{database}" for name in ("decoding", "elsewhere", "physical")}
    try:
        execute(postgres, f"SELECT pg_create_logical_replication_slot('{slots['decoding']}', 'test_decoding')", database=database)
        execute(postgres, f"SELECT pg_create_logical_replication_slot('{slots['elsewhere']}', 'pgoutput')", database=other)
        execute(postgres, f"SELECT pg_create_physical_replication_slot('{slots['physical']}')")

        said = {name: refused(follower_of(postgres, database, **{"slot.name": slot})) for name, slot in slots.items()}
    finally:
        drop_slots(postgres, other)
        execute(postgres, f"SELECT pg_drop_replication_slot('{slots['physical']}')")

    assert "decodes with test_decoding, and this connector reads pgoutput; name another slot with slot.name, or drop it" in said["decoding"]
    assert f"is of database '{other}', the connector of '{database}'; name another slot with slot.name" in said["elsewhere"]
    assert "is a physical one; name another with slot.name, or drop it: SELECT pg_drop_replication_slot(" in said["physical"]


def test_a_slot_that_another_connector_reads(postgres: Postgres, database: str) -> None:
    first = follower_of(postgres, database).start()
    first.until_dumped()
    second = follower_of(postgres, database, **{"slot.name": first.name})

    text = refused(second)

    assert f"the slot {first.name} is read by" in text
    assert "a slot serves one connector: name another one with slot.name, or stop its reader" in text
    assert checked(first) == [], "its own"
    first.restart()
    first.task.stop()


def test_a_slot_that_has_lost_its_log(own_folder: Path) -> None:
    limits = {"max_slot_wal_keep_size": "1MB", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with started(Postgres(own_folder, durable=False, options=limits)) as server:
        database = new_database(server)
        execute(server, "CREATE PUBLICATION dbz_publication FOR ALL TABLES", database=database)
        follower = follower_of(server, database)
        follower.sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'x')")
        follower.start()
        follower.until_dumped()
        follower.task.stop()
        with connected(server, database=database) as connection, connection.cursor() as cursor:
            for n in range(3):
                cursor.execute(f"INSERT INTO t VALUES ({n} + 2, '{n}')")
                cursor.execute("SELECT count(pg_logical_emit_message(false, '', repeat('x', 1000000))) FROM generate_series(1, 20)")
                cursor.execute("SELECT pg_switch_wal()")
                cursor.execute("CHECKPOINT")
        assert execute(server, "SELECT wal_status FROM pg_replication_slots") == [("lost",)]
        follower.task = follower.new_task()

        with pytest.raises(PositionLostError) as error:
            follower.start()
        follower.task.stop()
        assert re.search(
            r"has dropped log that the slot \w+ needs \(max_slot_wal_keep_size.*are lost; drop it with SELECT pg_drop_replication_slot\('\w+'\); "
            r"with snapshot\.mode=when_needed the connector dumps the tables again",
            told(error.value),
        )

        follower.config["snapshot.mode"] = "when_needed"
        assert checked(follower) == [str(error.value)]
        follower.task = follower.new_task()
        follower.start()
        follower.until_equal("t")
        follower.task.stop()


def test_another_plugin(postgres: Postgres, database: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(follower_of(postgres, database, **{"plugin.name": "decoderbufs"}))

    assert "plugin.name" in str(error.value.errors)
    assert "pgoutput" in str(error.value.errors)


def test_an_option_of_the_plugin_that_the_server_is_too_old_for(postgres: Postgres, database: str) -> None:
    with pytest.raises(
        DefiniteError, match=r"slot\.stream\.params has origin, which is of PostgreSQL 16, and the server at .* runs 15; remove the key"
    ):
        checked(follower_of(postgres, database, **{"slot.stream.params": "origin=none"}))


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables_whose_changes_the_server_refuses(postgres: Postgres, database: str) -> None:
    execute(
        postgres,
        "CREATE TABLE keyless (a INT)",
        "CREATE TABLE nothing (id INT PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "INSERT INTO nothing VALUES (1)",
        database=database,
    )

    (warning,) = checked(follower_of(postgres, database))

    assert warning.startswith("public.keyless, public.nothing have no replica identity")
    assert 'ALTER TABLE "public"."keyless" REPLICA IDENTITY FULL;' in warning
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        execute(postgres, "DELETE FROM nothing", database=database)


def test_a_value_that_no_record_can_hold_is_named_by_its_column_alone(postgres: Postgres, database: str) -> None:
    config = {"decimal.handling.mode": "precise", "event.converting.failure.handling.mode": "fail"}
    follower = follower_of(postgres, database, **config)
    follower.sql("CREATE TABLE n (id INT PRIMARY KEY, amount NUMERIC(8,2) NOT NULL, secret TEXT)")
    follower.start()
    follower.until_dumped()

    follower.sql(f"INSERT INTO n VALUES (1, 'NaN', '{ROW}')")
    with pytest.raises(DefiniteError) as error:
        follower.until(lambda: "c" in follower.ops("n"))
    follower.task.stop()

    assert "public.n.amount: NaN and infinity cannot be written as a decimal; set decimal.handling.mode=string" in told(error.value)
