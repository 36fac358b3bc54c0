"""Settings of the whole server that change what the log has of the watermark's own statements: none of them stops a dump or hides a watermark. # I2 I5"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database

pytestmark = pytest.mark.either_server

BOTH = (
    {"binlog_row_image": "'MINIMAL'"},
    {"binlog_row_image": "'NOBLOB'"},
    {"binlog_row_metadata": "'MINIMAL'"},
    {"binlog_checksum": "'NONE'"},
)
MYSQL = (
    {"binlog_row_value_options": "'PARTIAL_JSON'"},
    {"binlog_row_value_options": "'PARTIAL_JSON'", "binlog_row_image": "'MINIMAL'"},
    {"binlog_row_value_options": "'PARTIAL_JSON'", "binlog_row_image": "'NOBLOB'", "binlog_transaction_compression": "ON"},
    {"binlog_transaction_compression": "ON"},
    {"binlog_rows_query_log_events": "ON"},
    {"binlog_transaction_compression": "ON", "binlog_rows_query_log_events": "ON", "binlog_checksum": "'NONE'"},
)
MARIADB = (
    {"binlog_row_metadata": "'NO_LOG'"},
    {"binlog_annotate_row_events": "OFF"},
    {"log_bin_compress": "ON", "log_bin_compress_min_len": "10"},
    {"log_bin_compress": "ON", "log_bin_compress_min_len": "10", "binlog_row_image": "'MINIMAL'", "binlog_checksum": "'NONE'"},
)

Change = Callable[[dict[str, str]], None]


@pytest.fixture
def set_global(source: Database) -> Iterator[Change]:
    """Sets variables of the whole server, and puts them back."""
    with contextlib.ExitStack() as undo:

        def change(values: dict[str, str]) -> None:
            for name, value in values.items():
                ((before,),) = execute(source, f"SELECT @@GLOBAL.{name}")
                execute(source, f"SET GLOBAL {name} = {value}")
                undo.callback(execute, source, f"SET GLOBAL {name} = {before!r}")

        yield change


@pytest.fixture
def database(source: Database) -> str:
    return new_database(source, "globals")


@pytest.fixture
def follow(source: Database, database: str) -> Iterator[Callable[[], Follower]]:
    """Starts followers of a table of 60 rows that dump it in chunks of 20."""
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d JSON, b TEXT)", database=database)
    rows = ", ".join(f"({n}, 'v{n}', '{{\"n\": {n}}}', 'text')" for n in range(60))
    execute(source, f"INSERT INTO t VALUES {rows}", database=database)
    followers: list[Follower] = []

    def start() -> Follower:
        config = {"dblog.chunk.rows": "20", "dblog.row.image.missing": "reread", "dblog.dump.threads": "1"}
        followers.append(Follower(source, database, **config))
        return followers[-1].start()

    yield start
    for follower in followers:
        follower.task.stop()


@pytest.mark.parametrize(
    "flavor_settings", [*(("", s) for s in BOTH), *(("mysql", s) for s in MYSQL), *(("mariadb", s) for s in MARIADB)], ids=str
)
def test_a_table_is_dumped_and_followed(
    source: Database, follow: Callable[[], Follower], set_global: Change, flavor_settings: tuple[str, dict[str, str]]
) -> None:
    flavor, settings = flavor_settings
    if flavor not in ("", source.flavor):
        return
    set_global(settings)

    follower = follow()
    follower.until_dumped()
    follower.sql("UPDATE t SET v = 'changed' WHERE id = 7", "INSERT INTO t VALUES (100, 'new', NULL, NULL)", "DELETE FROM t WHERE id = 8")

    follower.until(lambda: {r["id"]: r["v"] for r in follower.rows["t"].values()} == {r["id"]: r["v"] for r in follower.selected("t")})
    assert follower.ops("t").count("r") == 60


@pytest.mark.parametrize("log_format", ["MIXED", "STATEMENT"])
def test_watermarks_are_logged_as_rows_though_new_sessions_would_log_statements(
    source: Database, follow: Callable[[], Follower], set_global: Change, log_format: str
) -> None:
    follower = follow()
    follower.until_dumped()

    set_global({"binlog_format": f"'{log_format}'"})
    follower.sql("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7")

    follower.until(lambda: follower.ops("t").count("r") == 120)


def test_an_account_that_may_not_log_rows_waits_with_its_dump_until_new_sessions_do(
    source: Database, follow: Callable[[], Follower], set_global: Change, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    user = f"{database}_user"
    execute(
        source,
        f"CREATE USER {user} IDENTIFIED BY 'secret'",
        f"GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE, INSERT, UPDATE, CREATE{', BINLOG MONITOR' * (source.flavor == 'mariadb')} ON *.* TO {user}",
    )
    follower = follow()
    follower.until_dumped()
    follower.task.stop()
    follower.config |= {"database.user": user, "database.password": "secret"}
    follower.restart()

    set_global({"binlog_format": "'MIXED'"})
    follower.sql("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7")
    seen: list[str] = []
    follower.until(lambda: seen.append(capfd.readouterr().out) or "binlog_format=MIXED" in "".join(seen))
    execute(source, "SET GLOBAL binlog_format = 'ROW'")

    follower.until(lambda: follower.ops("t").count("r") == 120)
    execute(source, f"DROP USER {user}")


def test_watermarks_are_written_though_new_sessions_would_only_read(
    source: Database, follow: Callable[[], Follower], set_global: Change, database: str
) -> None:
    set_global({"transaction_read_only" if source.flavor == "mysql" else "tx_read_only": "ON"})

    follower = follow()
    follower.until_dumped()
    execute(source, "SET SESSION TRANSACTION READ WRITE", "UPDATE t SET v = 'changed' WHERE id = 7", database=database)

    follower.until(lambda: follower.ops("t").count("u") == 1)
    assert follower.ops("t").count("r") == 60


def test_defaults_are_known_though_the_server_writes_names_without_quotes_and_cuts_answers_off(
    source: Database, follow: Callable[[], Follower], set_global: Change, database: str
) -> None:
    declared = "id INT PRIMARY KEY, b VARBINARY(4) NOT NULL DEFAULT x'00ff', `a b` BINARY(2) DEFAULT x'00ff', c VARCHAR(9) DEFAULT 'it''s'"
    execute(source, f"CREATE TABLE strange ({declared})", database=database)
    quoted = defaults_of(follow())
    set_global({"sql_quote_show_create": "OFF", "sql_select_limit": "1"})

    assert defaults_of(follow()) == quoted
    assert quoted["b"] == quoted["a b"] == "0x00FF"


def defaults_of(follower: Follower) -> dict[str, object]:
    """The defaults of the table's columns as the schema-change topic has them at a start."""
    follower.until(
        lambda: any(
            "strange" in reported["ddl"] and reported["tableChanges"] and reported["tableChanges"][0]["table"]
            for reported in follower.reported
        )
    )
    changes = [
        change for reported in follower.reported for change in reported["tableChanges"] if "strange" in change["id"] and change["table"]
    ]
    return {column["name"]: column["defaultValueExpression"] for column in changes[-1]["table"]["columns"]}
