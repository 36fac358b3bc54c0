"""Privileges that an account lacks: one answer with every GRANT, the list of the page, and never a table of which only some rows come."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.config.plugins import CONNECTORS
from dblog.core.dumprequests import INITIAL
from dblog.dialects.registry import kind_of
from dblog.errors import DefiniteError
from stack.database import Database
from structlog.testing import capture_logs
from support.follower import Follower
from support.servers import execute, new_database

PAGES = Path(__file__).parents[2] / "connect-worker" / "docs"


@pytest.fixture
def account(source: Database) -> Iterator[str]:
    """A user without any privilege."""
    name = f"u{uuid.uuid4().hex[:12]}"
    execute(source, f"CREATE USER '{name}'@'{source.host}' IDENTIFIED BY 'secret'")
    yield name
    execute(source, f"DROP USER '{name}'@'{source.host}'")


def validate(follower: Follower) -> list[str]:
    plugin = next(c for c in CONNECTORS if c.flavor == follower.source.flavor)
    return kind_of(plugin.flavor).check(parse_connector(plugin.options, follower.config), limit_s=60.0, abort=Abort())


def grants_in(text: str) -> list[str]:
    return re.findall(r"GRANT [^;]+(?=;)", text)


def refused(follower: Follower) -> str:
    with pytest.raises(DefiniteError) as caught:
        validate(follower)
    return str(caught.value)


@pytest.mark.either_server
@pytest.mark.parametrize("named", ["database", "table", "pattern", "nothing"])
def test_every_privilege_that_is_missing_is_in_one_answer(source: Database, account: str, named: str) -> None:
    database = new_database(source, "poor")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)", database=database)
    watermarks = f"marks_{uuid.uuid4().hex[:8]}"
    config = {"database.user": account, "database.password": "secret", "dblog.watermark.table": f"{watermarks}.watermark"}
    config |= {
        "database": {},
        "table": {"table.include.list": rf"{database}\.t"},
        "pattern": {"table.include.list": rf"{database}\..*"},
        "nothing": {"database.include.list": ""},
    }[named]
    follower = Follower(source, database, **config)
    if named in ("table", "pattern"):
        follower.config.pop("database.include.list")

    grants = grants_in(refused(follower).split("\nThe last one lets ")[0])

    who = f"'{account}'@'{source.host}'"
    select = {"database": f"`{database}`.*", "table": f"`{database}`.`t`", "pattern": f"`{database}`.*", "nothing": "*.*"}[named]
    assert grants == [
        f"GRANT {'BINLOG MONITOR' if source.flavor == 'mariadb' else 'REPLICATION CLIENT'} ON *.* TO {who}",
        f"GRANT REPLICATION SLAVE ON *.* TO {who}",
        f"GRANT SELECT ON {select} TO {who}",
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON `{watermarks}`.* TO {who}",
    ]
    for missing in grants:
        execute(source, *(grant for grant in grants if grant != missing))
        assert grants_in(refused(follower).split("\nThe last one lets ")[0]) == [missing]
        execute(source, missing)
        for grant in grants:
            execute(source, grant.replace("GRANT", "REVOKE", 1).replace(" TO ", " FROM "))
    execute(source, *grants)
    validate(follower)
    assert execute(source, f"SHOW DATABASES LIKE '{watermarks}'") == []
    if named != "nothing":
        follower.start()
        follower.until_dumped()
        follower.until_equal("t")
        follower.task.stop()
        execute(source, f"DROP DATABASE {watermarks}")


@pytest.fixture
def shop(source: Database, account: str) -> Iterator[tuple[str, Follower]]:
    """A database with a table, and a connector whose account may read it, and everything that a connector needs."""
    database = new_database(source, "inventory")
    who = f"'{account}'@'{source.host}'"
    execute(
        source,
        f"CREATE TABLE {database}.customers (id INT PRIMARY KEY)",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {who}",
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {who}",
        f"GRANT SELECT ON {database}.* TO {who}",
    )
    yield database, Follower(source, database, **{"database.user": account, "database.password": "secret"})
    execute(source, f"DROP DATABASE {database}")


def test_a_table_without_its_database_is_named_with_the_tables_that_are_meant(shop: tuple[str, Follower]) -> None:
    database, follower = shop
    del follower.config["database.include.list"]
    follower.config["table.include.list"] = "customers"
    message = refused(follower)
    assert rf"customers of table.include.list has no database part, so it matches no table: write {database}\.customers" in message
    assert not grants_in(message)

    follower.config["table.include.list"] = "nobody"
    assert r"write <database>\.nobody" in refused(follower)

    follower.config["table.include.list"] = rf"{database}\.customers,customers"
    assert any("customers of table.include.list has no database part" in warning for warning in validate(follower))


@pytest.mark.parametrize("what", ["database", "table"])
def test_a_name_that_matches_nothing_is_named_with_the_nearest_that_the_account_sees(shop: tuple[str, Follower], what: str) -> None:
    database, follower = shop
    wrong = database.replace("inventory", "inventry")
    follower.config["database.include.list"] = wrong if what == "database" else ""
    follower.config["table.include.list"] = "" if what == "database" else rf"{wrong}\.customers"

    message = refused(follower)

    meant = database if what == "database" else f"{database}.customers"
    assert f"matches {wrong}" in message
    assert f"(is {meant} meant?). If the names are right, the account" in message
    assert f"GRANT SELECT ON `{wrong}`." in message


@pytest.mark.parametrize("what", ["name", "pattern"])
def test_an_include_list_that_matches_no_table_is_a_warning_at_creation_and_at_the_start(shop: tuple[str, Follower], what: str) -> None:
    database, follower = shop
    del follower.config["database.include.list"]
    follower.config["table.include.list"] = rf"{database}\.{'custmers' if what == 'name' else 'cust[xyz]+'}"
    sentence = (
        f"matches {database}.custmers (is {database}.customers meant?)"
        if what == "name"
        else "matches the include lists; tables that are created later"
    )

    assert any(sentence in warning for warning in validate(follower))
    with capture_logs() as lines:
        follower.restart()
        follower.task.stop()

    assert any(sentence in line.get("warning", "") for line in lines if line["log_level"] == "warning")


def test_a_list_of_columns_that_matches_none_is_a_warning_at_creation_and_at_the_start(shop: tuple[str, Follower]) -> None:
    database, follower = shop
    execute(follower.source, f"ALTER TABLE {database}.customers ADD email VARCHAR(20)")
    follower.config["column.exclude.list"] = rf"{database}\.customers\.emial"
    sentence = f"column.exclude.list: member 1 matches no column of a captured table (is {database}.customers.email meant?)"

    assert any(sentence in warning for warning in validate(follower))
    with capture_logs() as lines:
        follower.restart()
        follower.task.stop()

    assert any(sentence in line.get("warning", "") for line in lines if line["log_level"] == "warning")


def test_an_account_that_may_read_some_columns_only_is_refused(source: Database, account: str) -> None:
    database = new_database(source, "columns")
    who = f"'{account}'@'{source.host}'"
    execute(
        source,
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {who}",
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {who}",
        f"GRANT SELECT (id) ON {database}.t TO {who}",
    )
    follower = Follower(source, database, **{"database.user": account, "database.password": "secret"})

    assert grants_in(refused(follower)) == [f"GRANT SELECT ON `{database}`.`t` TO {who}"]


def test_the_page_of_the_database_lists_what_is_asked_for(source: Database, account: str) -> None:  # number 34 of the worker's safety
    database = new_database(source, "shop")
    follower = Follower(
        source, database, **{"database.user": account, "database.password": "secret", "dblog.watermark.table": "dblog_x.watermark"}
    )

    asked = [
        grant.replace(f"'{account}'@'{source.host}'", "'dblog'@'%'")
        for grant in grants_in(refused(follower).split("\nThe last one lets ")[0])
    ]

    page = (PAGES / f"prepare-{source.flavor}.md").read_text(encoding="utf-8")
    reported = grants_in(page[page.index("CREATE USER") :].partition("```")[0])
    assert [grant.replace(f"`{database}`", "`shop`").replace("`dblog_x`", "`dblog`") for grant in asked] == reported


def test_a_table_of_the_log_that_may_not_be_read_is_an_error_with_its_grant(source: Database, account: str) -> None:
    database = new_database(source, "part")
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE hidden (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO hidden VALUES (1, 1), (2, 2)",
        "FLUSH BINARY LOGS",
        database=database,
    )
    who = f"'{account}'@'{source.host}'"
    execute(source, f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {who}", f"GRANT SELECT ON {database}.t TO {who}")
    execute(source, f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {who}")
    follower = Follower(source, database, **{"database.user": account, "database.password": "secret"})
    validate(follower)
    with capture_logs() as lines:
        follower.start()
    assert [grants_in(line["warning"]) for line in lines if f"some tables of {database} only" in line.get("warning", "")] == [
        [f"GRANT SELECT ON `{database}`.* TO {who}"]
    ]
    follower.until_dumped()
    follower.sql("UPDATE hidden SET v = 3 WHERE id = 1")

    with pytest.raises(DefiniteError, match=rf"names {database}\.hidden, which the account .* may not read") as caught:
        follower.until(lambda: "hidden" in follower.rows)
    follower.task.stop()
    assert "hidden" not in follower.rows
    assert grants_in(str(caught.value)) == [f"GRANT SELECT ON `{database}`.`hidden` TO {who}"]

    execute(source, *grants_in(str(caught.value)))
    follower.restart()
    try:
        follower.until_equal("hidden")
        follower.until_equal("t")
    finally:
        follower.task.stop()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_table_that_may_not_be_read_any_more_while_it_is_dumped_ends_alone_with_its_grant(
    source: Database, account: str, threads: str
) -> None:
    database = new_database(source, "revoked")
    rows = ",".join(f"({n}, {n})" for n in range(5000))  # more than is read, one row at a time, until the REVOKE has run
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t VALUES {rows}",
        "INSERT INTO u VALUES (1, 1), (2, 2)",
        "FLUSH BINARY LOGS",
        database=database,
    )
    who = f"'{account}'@'{source.host}'"
    execute(source, f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {who}", f"GRANT SELECT ON {database}.t TO {who}")
    execute(source, f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {who}", f"GRANT SELECT ON {database}.u TO {who}")
    config = {"database.user": account, "database.password": "secret", "dblog.chunk.rows": "1", "dblog.dump.threads": threads}
    follower = Follower(source, database, **config).start()
    follower.until(lambda: len(follower.rows.get("t", {})) > 1)
    execute(source, f"REVOKE SELECT ON {database}.t FROM {who}")

    follower.until(lambda: (follower.status(INITIAL) or {}).get("state") == "FAILED")
    status = follower.status(INITIAL)
    assert status is not None
    assert [table["table"] for table in status["tables"] if table["state"] == "FAILED"] == [f"{database}.t"]
    grants = grants_in(status["reason"])
    assert grants == [f"GRANT SELECT ON `{database}`.`t` TO {who}"]
    execute(source, "INSERT INTO t VALUES (9999, 1)", database=database)
    follower.until(lambda: any(row["id"] == 9999 for row in follower.rows["t"].values()))
    follower.task.stop()

    execute(source, *grants)
    follower.config["dblog.chunk.rows"] = "1000"
    with capture_logs() as lines:
        follower.restart()
        try:
            follower.until_equal("t")
            follower.until_equal("u")
            follower.until_dumped()
        finally:
            follower.task.stop()
    assert [line["event"] for line in lines].count("dump done") == 1


def test_the_check_of_a_configuration_runs_no_statement_of_the_user(source: Database) -> None:  # number 7 of the worker's safety
    database = new_database(source, "checked")
    follower = Follower(source, database, **{"database.initial.statements": "CREATE DATABASE made_by_a_check"})

    validate(follower)

    assert execute(source, "SHOW DATABASES LIKE 'made_by_a_check'") == []


@pytest.mark.either_server
def test_a_table_of_a_requested_dump_that_may_not_be_read_any_more_ends_alone_with_its_grant(source: Database, account: str) -> None:
    database = new_database(source, "revoked")
    rows = ",".join(f"({n}, {n})" for n in range(300))
    execute(
        source,
        *(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)" for table in "tu"),
        *(f"INSERT INTO {table} VALUES {rows}" for table in "tu"),
        "FLUSH BINARY LOGS",
        database=database,
    )
    who = f"'{account}'@'{source.host}'"
    execute(source, f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {who}")
    execute(source, *(f"GRANT SELECT ON {database}.{table} TO {who}" for table in "tu"))
    execute(source, f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {who}")
    config = {"database.user": account, "database.password": "secret", "snapshot.mode": "no_data"}
    follower = Follower(source, database, **config).start()
    try:
        request = follower.ask(rf"{database}\.[tu]", chunk_rows=10, delay_ms=20)
        follower.until(lambda: len(follower.rows.get("t", {})) > 10)
        execute(source, f"REVOKE SELECT ON {database}.t FROM {who}")

        status = follower.until_state(request, "FAILED")

        assert {table["table"]: table["state"] for table in status["tables"]} == {f"{database}.t": "FAILED", f"{database}.u": "DONE"}
        assert grants_in(status["reason"]) == [f"GRANT SELECT ON `{database}`.`t` TO {who}"]
        follower.until_equal("u")
        execute(source, "INSERT INTO t VALUES (1000, 1)", database=database)
        follower.until(lambda: any(row["id"] == 1000 for row in follower.rows["t"].values()))
    finally:
        follower.task.stop()
