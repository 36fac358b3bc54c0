"""DDL that changes old rows without row events, DDL that was not understood, and logs without column names, on real servers. # I3 I4"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import pymysql
import pytest
from dblog.core.changes import Change, Unknown, tables_of
from dblog.core.timeline import Position, Timeline
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.task.dialect import BinlogDialect
from dblog.dialects.mysql.wire.session import ServerFacts
from dblog.errors import DefiniteError
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database, purge_log

pytestmark = pytest.mark.either_server


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers of a database with two tables, a few rows in each."""
    database = new_database(source, "ddl_rows")
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20) CHARACTER SET latin1)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, 'ÿ'), (3, 30, NULL)",
        database=database,
    )
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        made.append(Follower(source, database, **config))
        return made[-1]

    yield make
    for follower in made:
        follower.task.stop()


@pytest.fixture
def without_names(source: Database) -> Iterator[None]:
    """The server logs no column names for a while."""
    least = "NO_LOG" if source.flavor == "mariadb" else "MINIMAL"
    execute(source, f"SET GLOBAL binlog_row_metadata = '{least}'")
    yield
    execute(source, "SET GLOBAL binlog_row_metadata = 'FULL'")


REWRITES = (
    "ADD c INT DEFAULT 7",
    "ADD c VARCHAR(5) NOT NULL DEFAULT '' FIRST",
    "ADD c INT AS (id * 2) STORED",
    "DROP PRIMARY KEY, ADD c INT AUTO_INCREMENT PRIMARY KEY",
    "MODIFY a VARCHAR(10)",
    "MODIFY a DECIMAL(5,1)",
    "RENAME COLUMN a TO z",
    "CHANGE a z BIGINT FIRST",
    "ADD c DATE, MODIFY b VARBINARY(20)",
)
QUIET = (
    "ADD c INT",
    "MODIFY a BIGINT",
    "MODIFY b VARCHAR(200) CHARACTER SET latin1",
    "CONVERT TO CHARACTER SET utf8mb4",
    "ADD INDEX (a)",
    "DROP a",
)


def test_old_rows_that_a_statement_changes_are_dumped_again_and_others_cost_nothing(shop: Any) -> None:
    follower = shop()
    names = [f"t{n}" for n in range(len(REWRITES + QUIET))]
    for name in names:
        follower.sql(f"CREATE TABLE {name} LIKE t", f"INSERT INTO {name} SELECT * FROM t")
    follower.start()
    follower.until_dumped()

    for name, clauses in zip(names, REWRITES + QUIET, strict=True):
        follower.sql(f"ALTER TABLE {name} {clauses}", f"INSERT INTO {name} (id) VALUES (9)")

    for name, clauses in zip(names, REWRITES + QUIET, strict=True):
        if "PRIMARY KEY" in clauses:  # the records' key is another one from there on
            follower.until(lambda name=name: follower.ops(name).count("r") >= 6)
        elif "VARBINARY" in clauses:  # JSON shows bytes in Base64
            follower.until(lambda name=name: {row["b"] for row in follower.rows[name].values()} == {"eA==", "/w==", None})
        else:
            follower.until_equal_by_name(name)
        assert (follower.ops(name).count("r") > 3) == (clauses in REWRITES), clauses


def test_a_redump_survives_a_kill_and_can_be_switched_off(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "20"})
    follower.sql("INSERT INTO t (id) VALUES " + ",".join(f"({n})" for n in range(100, 3100)))
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE t ADD c INT NOT NULL DEFAULT 4")
    follower.until(lambda: any(row.get("c") == 4 for row in follower.rows["t"].values()))
    follower.restart()
    follower.until_equal_by_name("t")

    quiet = shop(**{"dblog.ddl.redump": "never"}).start()
    quiet.until_dumped()
    quiet.sql("ALTER TABLE t ADD d INT DEFAULT 4", "INSERT INTO t (id) VALUES (5)")
    quiet.until(lambda: "c" in quiet.ops("t"))
    assert quiet.ops("t").count("r") == 3003


def test_a_table_swapped_in_by_a_schema_change_tool_is_dumped_under_its_real_name(shop: Any) -> None:
    follower = shop().start()
    follower.until_dumped()

    follower.sql(
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD n INT NOT NULL DEFAULT 8",
        "INSERT IGNORE INTO _t_gho (id, a, b) SELECT id, a, b FROM t",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "UPDATE t SET n = 9 WHERE id = 2",
        "DROP TABLE _t_del",
    )

    follower.until_equal_by_name("t")


@dataclass(frozen=True, slots=True, kw_only=True)
class FromThePast(BinlogDialect):
    """A worker that is older than the server: statements with the comment ``future`` are not understood."""

    def statement_parser(self, facts: ServerFacts, timeline: Timeline) -> Any:
        understood = BinlogDialect.statement_parser(self, facts, timeline)

        def parse(query: events.Query, text: str, position: Position) -> Iterable[Change]:
            changes = tuple(understood(query, text, position))
            if "/* future */" not in text:
                return changes
            return (Unknown(tuple(id_ for change in changes for id_ in tables_of(change)), "a clause of the future"),)

        return parse


def in_the_past(follower: Follower) -> Follower:
    follower.dialect = FromThePast(**{f.name: getattr(follower.dialect, f.name) for f in fields(BinlogDialect)})
    follower.task = follower.new_task()
    return follower


@pytest.mark.usefixtures("without_names")
def test_without_names_in_the_log_a_table_that_was_not_understood_is_read_at_its_position(shop: Any) -> None:
    follower = in_the_past(shop()).start()
    follower.until_dumped()

    follower.sql("ALTER TABLE t /* future */ ADD c INT AFTER id")
    follower.sql("INSERT INTO t (id, c, a) VALUES (4, 40, 41)")

    follower.until_equal_by_name("t")
    assert "parked" not in json.dumps([json.loads(v) for _, v in follower.history.records if v])


@pytest.mark.usefixtures("without_names")
def test_a_table_altered_twice_before_it_could_be_read_is_parked_and_the_others_go_on(shop: Any) -> None:
    follower = in_the_past(shop()).start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql(
        "ALTER TABLE t /* future */ ADD c INT",
        "INSERT INTO t (id, c) VALUES (4, 44)",
        "INSERT INTO other VALUES (1)",
        # The same number of columns and the same types: only the position shows that c was not yet d.
        "ALTER TABLE t CHANGE c d INT, CHANGE a e INT",
        "INSERT INTO t (id, d) VALUES (5, 55)",
        "UPDATE t SET d = 66 WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO other VALUES (2)",
    )

    follower.task = follower.new_task()
    follower.task.start(follower.offset)
    follower.until_equal("other")
    wrong = [
        record
        for table, record in follower.values
        if table == "t" and record and (record["after"] or {}).get("d") == 44 and record["op"] != "r"
    ]
    follower.sql("INSERT INTO t (id, d) VALUES (6, 77)", "DELETE FROM t WHERE id = 2")
    follower.until(lambda: {row["id"]: row.get("d") for row in follower.rows["t"].values()}.items() >= {4: 44, 5: 55, 1: 66, 6: 77}.items())
    follower.until(lambda: follower.task.metrics()["tables_parked"] == 0)

    assert not wrong
    history = [json.loads(v) for _, v in follower.history.records if v]
    assert any("parked" in version for record in history for version in record.get("versions", ())), "it was parked on the way"


@pytest.mark.usefixtures("without_names")
@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_a_connector_that_dumps_nothing_goes_on_without_rows_it_cannot_show_only_where_that_is_wanted(shop: Any, mode: str) -> None:
    options = {"snapshot.mode": "no_data", "inconsistent.schema.handling.mode": mode, "provide.transaction.metadata": "true"}
    follower = in_the_past(shop(**options)).start()
    follower.sql("INSERT INTO t (id) VALUES (4)", "INSERT INTO other VALUES (1)")
    follower.until(lambda: len(follower.values) == 2)
    follower.task.stop()
    follower.sql(
        "ALTER TABLE t /* future */ ADD c INT",
        "INSERT INTO t (id, c) VALUES (5, 55)",
        "INSERT INTO other VALUES (2)",
        "ALTER TABLE t CHANGE c d INT, CHANGE a e INT",
        "UPDATE t SET d = 66 WHERE id = 1",
        "INSERT INTO other VALUES (3)",
    )
    follower.task = follower.new_task()
    follower.task.start(follower.offset)

    if mode == "fail":
        with pytest.raises(
            DefiniteError, match=r"rows of ddl_rows\w*\.t in the log cannot be decoded: .*inconsistent\.schema\.handling\.mode"
        ):
            follower.until(lambda: False)
        return
    follower.until_equal("other")
    follower.sql("INSERT INTO t (id, d) VALUES (6, 77)", "INSERT INTO other VALUES (4)")
    follower.until(lambda: len(follower.values) == 6)
    assert [record["after"] for table, record in follower.values[2:] if table == "t"] == [{"id": 6, "e": None, "b": None, "d": 77}]
    assert follower.task.metrics()["log_events_skipped_total"] == 2
    assert "r" not in {record["op"] for _, record in follower.values}


@pytest.mark.usefixtures("without_names")
def test_a_parked_table_stays_parked_over_a_restart_until_its_position_is_reached(shop: Any) -> None:
    follower = in_the_past(shop()).start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql("ALTER TABLE t /* future */ ADD c INT", "INSERT INTO t (id, c) VALUES (4, 44)", "ALTER TABLE t CHANGE c d INT")
    before = dict(follower.offset or {})
    follower.task = follower.new_task()
    follower.task.start(before)
    follower.until(lambda: any(b'"parked"' in v for _, v in follower.history.records if v))

    follower.task.stop()  # killed before any offset was stored
    follower.task = follower.new_task()
    follower.task.start(before)

    follower.until(lambda: {row["id"]: row.get("d") for row in follower.rows["t"].values()}.get(4) == 44)
    follower.until_equal_by_name("t")


@pytest.mark.usefixtures("without_names")
def test_without_names_in_the_log_rows_follow_every_statement_by_its_text(shop: Any) -> None:
    follower = shop().start()
    follower.until_dumped()

    follower.sql(
        "ALTER TABLE t ADD c INT UNSIGNED FIRST, RENAME COLUMN a TO aa",
        "INSERT INTO t (id, aa, c) VALUES (4, -1, 4294967295)",
        "ALTER TABLE t MODIFY aa INT AFTER b, CHANGE c cc BIGINT",
        "INSERT INTO t (id, aa, cc) VALUES (5, 51, -52)",
        "RENAME TABLE t TO u, other TO t, u TO other",
        "INSERT INTO other (id, aa, cc) VALUES (6, 61, -62)",
        "INSERT INTO t VALUES (1)",
    )

    follower.until_equal_by_name("other")
    follower.until(
        lambda: {"id": 1} in follower.rows["t"].values()
    )  # its old rows have another topic's columns: a swap of different tables


def test_a_statement_is_read_in_its_clients_character_set(shop: Any, source: Database) -> None:
    follower = shop().start()
    follower.until_dumped()

    for charset in ("latin1", "gbk", "utf8mb4"):
        with (
            pymysql.connect(**source.login, database=follower.database, autocommit=True, charset=charset) as connection,
            connection.cursor() as cursor,
        ):
            # ü is one byte in latin1, two in gbk and in UTF-8, each pair another.
            cursor.execute(f"CREATE TABLE `grüüe_{charset}` (id INT PRIMARY KEY, `lünge` ENUM('ü', 'x') COMMENT 'é')")
            cursor.execute(f"INSERT INTO `grüüe_{charset}` VALUES (1, 'ü')")
            cursor.execute(f"CREATE TABLE `weg_ü_{charset}` (id INT PRIMARY KEY)")
            cursor.execute(f"DROP TABLE `weg_ü_{charset}`")

    for charset in ("latin1", "gbk", "utf8mb4"):
        follower.until_equal(f"grüüe_{charset}")
    known = [str(id_.name) for id_ in follower.task.running.schemas.captured()]
    assert [name for name in known if name.startswith("weg")] == []
    assert sum(name.startswith("grüüe") for name in known) == 3


def test_the_first_start_shows_every_table_and_later_statements_show_theirs(shop: Any, source: Database) -> None:
    elsewhere = new_database(source, "ddl_elsewhere")
    execute(source, "CREATE TABLE far (id INT PRIMARY KEY)", database=elsewhere)
    every = shop().start()
    only = shop(
        **{
            "schema.history.internal.store.only.captured.tables.ddl": "true",
            "schema.history.internal.ddl.filter": r"ALTER TABLE t COMMENT .*,CREATE TABLE \w+\(hidden.*",
        }
    ).start()
    db = every.database

    every.sql(
        "ALTER TABLE t COMMENT 'quiet'", "ALTER TABLE t ADD c INT", "CREATE TABLE x(hidden INT)", f"CREATE TABLE {elsewhere}.g (id INT)"
    )
    for follower in (every, only):
        follower.until(lambda f=follower: any("ADD c" in r["ddl"] for r in f.reported))
    every.until(lambda: any(r["databaseName"] == elsewhere and "g (id" in r["ddl"] for r in every.reported))

    first = [r for r in every.reported if r["source"]["snapshot"] == "true"]
    ours = [r for r in first if r["databaseName"] == db]
    assert first[0]["ddl"].startswith("SET character_set_server=")
    assert [(r["ddl"].split(" (")[0], [c["type"] for c in r["tableChanges"]]) for r in ours] == [
        (f"DROP TABLE IF EXISTS `{db}`.`other`", ["DROP"]),
        (f"DROP TABLE IF EXISTS `{db}`.`t`", ["DROP"]),
        (f"DROP DATABASE IF EXISTS `{db}`", []),
        (ours[3]["ddl"], []),
        (f"USE `{db}`", []),
        ("CREATE TABLE `other`", ["CREATE"]),
        ("CREATE TABLE `t`", ["CREATE"]),
    ]
    assert ours[3]["ddl"].startswith(f"CREATE DATABASE `{db}` CHARSET utf8mb4 COLLATE ")
    assert [c["name"] for c in ours[6]["tableChanges"][0]["table"]["columns"]] == ["id", "a", "b"]
    assert any(r["databaseName"] == elsewhere for r in first)
    assert {r["databaseName"] for r in only.reported} == {"", db}
    assert [r["ddl"] for r in only.reported if r["source"]["snapshot"] == "false"] == ["ALTER TABLE t ADD c INT"]
    assert [c["name"] for c in only.reported[-1]["tableChanges"][0]["table"]["columns"]] == ["id", "a", "b", "c"]
    assert not any("quiet" in (v or b"").decode() for _, v in only.history.records if b'"ddl":"ALTER TABLE t COMMENT' in (v or b""))


def test_a_connector_of_debeziums_is_taken_over_at_its_offset_without_a_dump(shop: Any, source: Database) -> None:
    follower = shop()
    status = execute(source, "SHOW MASTER STATUS" if source.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    position = {"ts_sec": 1, "file": status[0], "pos": status[1]}
    texts = [str(execute(source, f"SHOW CREATE TABLE {name}", database=follower.database)[0][1]) for name in ("other", "t")]
    statements = [f"CREATE DATABASE `{follower.database}` CHARSET utf8mb4", *texts]
    follower.history.records += [
        (None, json.dumps({"source": {"server": follower.name}, "position": {**position, "snapshot": "INITIAL"}, "databaseName": follower.database,
                           "ddl": text, "tableChanges": []}).encode())
        for text in statements
    ]  # fmt: skip
    follower.sql("INSERT INTO t VALUES (7, 70, 'seven')", "ALTER TABLE t CHANGE a aa INT", "INSERT INTO t VALUES (8, 80, 'eight')")
    follower.offset = position

    follower.start()
    follower.until(lambda: len(follower.ops("t")) >= 2)

    assert [record["after"] for name, record in follower.values if name == "t" and record][:2] == [
        {"id": 7, "a": 70, "b": "seven"},
        {"id": 8, "aa": 80, "b": "eight"},
    ]
    follower.restart()
    follower.sql("INSERT INTO other VALUES (3)")
    follower.until(lambda: follower.ops("other") == ["c"])


@pytest.mark.parametrize("mode", ["fail", "warn"])
@pytest.mark.usefixtures("without_names")
def test_who_begins_with_the_oldest_log_reads_rows_with_the_columns_of_their_time(shop: Any, mode: str) -> None:
    follower = shop(**{"snapshot.mode": "never", "inconsistent.schema.handling.mode": mode})
    purge_log(follower.source)
    follower.sql(
        "CREATE TABLE made (id INT PRIMARY KEY, v INT, w INT)",
        "INSERT INTO made VALUES (1, 1, 10)",
        # The same number of columns and the same types: only the position shows that x was not yet x.
        "ALTER TABLE made RENAME COLUMN v TO x, RENAME COLUMN w TO v",
        "INSERT INTO made VALUES (2, 2, 20)",
        "INSERT INTO other VALUES (1)",  # its CREATE is purged, and nothing has altered it since
    )
    if mode == "warn":
        follower.sql("UPDATE t SET a = 11 WHERE id = 1", "ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN b TO a")

    follower.start()
    follower.until(lambda: len(follower.values) == 3)
    if mode == "warn":
        follower.until(lambda: follower.task.metrics()["log_events_skipped_total"] == 1)  # of columns that nobody knows
    follower.restart()
    follower.sql("INSERT INTO made VALUES (3, 3, 30)", "INSERT INTO t (id) VALUES (4)")
    follower.until(lambda: len(follower.values) == 5)

    assert [record["after"] for table, record in follower.values if table != "t" and record is not None] == [
        {"id": 1, "v": 1, "w": 10},
        {"id": 2, "x": 2, "v": 20},
        {"id": 1},
        {"id": 3, "x": 3, "v": 30},
    ]
    last = {"id": 4, "c": None, "a": None} if mode == "warn" else {"id": 4, "a": None, "b": None}
    assert [record["after"] for table, record in follower.values if table == "t" and record is not None] == [last]
