"""The DDL parser without a server: recorded truth of every case, and what no server would accept."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from dblog.core.changes import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Ignored,
    RenameTable,
    TruncateTable,
    Unknown,
)
from dblog.core.tablerecord import table_of_record
from dblog.core.timeline import Database, Timeline
from dblog.dialects.mariadb.flavor import mariadb_flavor
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.flavor import mysql_flavor
from dblog.model import Table, TableId
from hypothesis import given
from hypothesis import strategies as st
from support.ddl_cases import CASES
from support.ddl_truth import SQL_MODES, comparable, differences

TRUTH = [json.loads(line) for line in (Path(__file__).parent / "ddl_truth.jsonl").read_text(encoding="utf-8").splitlines()]
CASE_OF = {case.name: case for case in CASES}
T, U = TableId("shop", "t"), TableId("shop", "u")


def context(timeline: Timeline, position: tuple[int, int] = (1, 0), **options) -> Context:
    def database_charset(name: str) -> tuple[str | None, str | None]:
        known = timeline.databases.get(name)
        return (known.charset, known.collation) if known else (None, None)

    given_ = {"flavor": mysql_flavor(), "default_database": "shop"} | options
    return Context(table=timeline.lookup_before(position), database_charset=database_charset, **given_)


def followed(*statements: str, **options) -> Timeline:
    timeline = Timeline()
    timeline.databases["shop"] = Database("utf8mb4", options.pop("collation", None))
    for number, text in enumerate(statements, start=1):
        timeline.apply(parser.parse(text, context(timeline, (1, number), **options)), (1, number))
    return timeline


def parsed(text: str, *before: str, **options):
    """The changes of one statement, after others."""
    timeline = followed(*before, **options)
    return parser.parse(text, context(timeline, (1, len(before) + 1), **options))


def names(table: Table | None) -> list[str]:
    assert table is not None
    return [column.name for column in table.columns]


@pytest.mark.parametrize("truth", TRUTH, ids=lambda truth: f"{truth['server']}-{truth['case'].replace(' ', '-')}")
def test_the_tables_are_those_a_real_server_made(truth) -> None:
    case = CASE_OF[truth["case"]]
    mode = case.sql_mode or ""
    flavor = (mariadb_flavor if truth["server"] == "mariadb" else mysql_flavor)(tuple(truth["version"]))

    timeline = followed(
        *(statement.replace("{db}", "shop") for statement in case.statements),
        collation=flavor.default_collation("utf8mb4"),
        flavor=flavor,
        sql_mode=SQL_MODES.get(mode, 0),
        explicit_timestamps=mode.startswith("explicit") if mode.endswith("_timestamps") else None,
        server_charset=truth["charset"][0],
        server_collation=truth["charset"][1],
    )

    ours = {id_: comparable(table) for id_ in timeline.tables() if (table := timeline.current_table(id_)) is not None}
    truths = {TableId("shop", name.split(".", 1)[1]): record for name, record in truth["tables"].items()}
    assert differences({id_: comparable(table_of_record(id_, record)) for id_, record in truths.items()}, ours) == []


@pytest.mark.parametrize(
    "text",
    [
        "CREATE USER 'a'@'%' IDENTIFIED BY 'secret'",
        "ALTER USER a REQUIRE NONE",
        "DROP USER a, b",
        "RENAME USER a TO b",
        "GRANT ALL ON *.* TO a",
        "REVOKE ALL ON *.* FROM a",
        "CREATE ROLE r",
        "DROP ROLE r",
        "SET PASSWORD FOR a = 'x'",
        "FLUSH PRIVILEGES",
        "flush tables with read lock",
        "ANALYZE TABLE t",
        "OPTIMIZE LOCAL TABLE t",
        "REPAIR TABLE t",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1",
        "CREATE DEFINER=`root`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN ALTER TABLE t ADD z INT; END",
        "CREATE DEFINER=CURRENT_USER PROCEDURE p() BEGIN DROP TABLE t; END",
        "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'",
        "CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x.so'",
        "DROP FUNCTION IF EXISTS f",
        "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO DELETE FROM t",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')",
        "CREATE TABLESPACE ts ADD DATAFILE 'x.ibd'",
        "CREATE UNDO TABLESPACE u ADD DATAFILE 'u.ibu'",
        "ALTER INSTANCE ROTATE INNODB MASTER KEY",
        "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x' DEFINITION 'y'",
        "CREATE RESOURCE GROUP g TYPE = USER",
        "CREATE SEQUENCE s",
        "CREATE TEMPORARY TABLE t (a INT)",
        "CREATE OR REPLACE TEMPORARY TABLE t (a INT)",
        "DROP TEMPORARY TABLE IF EXISTS t /* generated by server */",
        "INSERT INTO t VALUES (1)",
        "(SELECT 1)",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "XA START 'x'",
        "SAVEPOINT `a`",
        "ROLLBACK TO `a`",
        "INSTALL PLUGIN x SONAME 'y'",
        "KILL 5",
        "SET NAMES utf8mb4",
        "SET @@session.x = 1; ALTER TABLE t ADD z INT",
        "BEGIN",
        "",
        ";",
        "-- only a comment",
        "/* only a comment */",
        "/*!99999 DROP TABLE t */",
        "ALTER DATABASE shop READ ONLY = 1",
        "ALTER DATABASE shop ENCRYPTION = 'Y'",
        "ALTER DATABASE `#mysql50#a-b` UPGRADE DATA DIRECTORY NAME",
    ],
)
def test_what_changes_no_shape_is_ignored(text: str) -> None:
    assert all(isinstance(change, Ignored) for change in parsed(text, "CREATE TABLE t (a INT)"))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("ALTER TABLE t ADD b QUANTUM", (T,)),
        ("ALTER TABLE t TELEPORT a", (T,)),
        ("ALTER TABLE t RENAME TO u, TELEPORT a", (T, U)),
        ("ALTER TABLE t DROP COLUMN nope", (T,)),
        ("ALTER TABLE t ADD a BIGINT", (T,)),
        ("ALTER TABLE t ADD b INT AFTER nope", (T,)),
        ("ALTER TABLE t MODIFY nope INT", (T,)),
        ("ALTER TABLE t DROP a", (T,)),
        ("ALTER TABLE t ADD UNIQUE (nope)", (T,)),
        ("ALTER TABLE t ADD b VARCHAR(5) CHARACTER SET klingon", (T,)),
        ("ALTER TABLE t ADD b VARCHAR", (T,)),
        ("ALTER TABLE t ADD b INT DEFAULT", (T,)),
        ("ALTER TABLE t ADD (b INT", (T,)),
        ("ALTER TABLE u ADD b INT", (U,)),
        ("CREATE TABLE u AS SELECT 1 AS x", (U,)),
        ("CREATE TABLE u SELECT 1 AS x", (U,)),
        ("CREATE TABLE u (a INT) SELECT 1 AS b", (U,)),
        ("CREATE TABLE u (a INT) ENGINE=InnoDB IGNORE AS (SELECT 1 AS b)", (U,)),
        ("CREATE TABLE u (SELECT 1 AS b)", (U,)),
        ("CREATE TABLE u AS WITH c AS (SELECT 1) SELECT * FROM c", (U,)),
        ("CREATE TABLE u AS TABLE t", (U,)),
        ("CREATE TABLE u LIKE nope", (U,)),
        ("CREATE TABLE u (a INT, a INT)", (U,)),
        ("CREATE TABLE u (a INT, b", (U,)),
        ("CREATE TABLE u (a INT 'x", (U,)),
        ("CREATE TABLE u ()", (U,)),
        ("CREATE UNIQUE INDEX i ON u (a)", (U,)),
        ("DROP INDEX i ON u", (U,)),
        ("DROP TABLE t, u AND MORE", (T, U)),
        ("RENAME TABLE t TO u BUT NOT NOW", (T, U)),
        ("RENAME TABLE t", (T,)),
        ("CREATE SOMETHING NEW", ()),
        ("ALTER EVERYTHING", ()),
        ("FROBNICATE TABLE t", ()),
        ("CREATE", ()),
        ("ALTER TABLE", ()),
        ("\x00\xff garbage `", ()),
        ("5 + 5", ()),
    ],
)
def test_what_is_not_understood_names_its_tables_and_raises_nothing(text: str, ids: tuple[TableId, ...]) -> None:
    changes = parsed(text, "CREATE TABLE t (a INT)")

    assert [type(change) for change in changes] == [Unknown]
    assert changes[0].ids == ids


def test_reasons_do_not_quote_values() -> None:
    (change,) = parsed("ALTER TABLE t ADD b INT DEFAULT 5 'secret value' NONSENSE", "CREATE TABLE t (a INT)")

    assert isinstance(change, Unknown)
    assert "secret" not in change.reason


def test_every_kind_of_change_has_its_value() -> None:
    before = ("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")

    assert parsed("DROP TABLE `shop`.`t`,`u` /* generated by server */", *before) == (DropTable((T, U)),)
    assert parsed("RENAME TABLE t TO x, u TO t, x TO u", *before) == (
        RenameTable(((T, TableId("shop", "x")), (U, T), (TableId("shop", "x"), U))),
    )
    assert parsed("TRUNCATE t", *before) == (TruncateTable(T),)
    assert parsed("CREATE DATABASE IF NOT EXISTS d CHARACTER SET latin1") == (
        CreateDatabase("d", "latin1", "latin1_swedish_ci", only_if_absent=True),
    )
    assert parsed("CREATE SCHEMA d", server_charset="utf8mb4") == (CreateDatabase("d", "utf8mb4", "utf8mb4_0900_ai_ci"),)
    assert parsed("ALTER DATABASE COLLATE latin1_bin") == (AlterDatabase("shop", "latin1", "latin1_bin"),)
    assert parsed("DROP SCHEMA IF EXISTS d") == (DropDatabase("d"),)


def test_a_rename_within_an_alter_changes_the_name_of_the_table() -> None:
    (change,) = parsed("ALTER TABLE t RENAME TO d2.u, ADD b INT", "CREATE TABLE t (a INT)")

    assert isinstance(change, AlterTable)
    assert (change.id, change.table.id, names(change.table)) == (T, TableId("d2", "u"), ["a", "b"])


def test_the_log_form_of_create_select_is_an_ordinary_create() -> None:
    (change,) = parsed("CREATE TABLE `t` (\n  `i` bigint NOT NULL DEFAULT '0',\n  `x` varchar(1) NOT NULL DEFAULT ''\n) START TRANSACTION")

    assert isinstance(change, CreateTable)
    assert names(change.table) == ["i", "x"]


def test_names_are_lowered_where_the_server_stores_them_so() -> None:
    timeline = followed("CREATE TABLE Orders (a INT)", "ALTER TABLE SHOP.ORDERS ADD b INT", lower_case_names=True)

    assert timeline.tables() == [TableId("shop", "orders")]
    assert names(timeline.current_table(TableId("shop", "orders"))) == ["a", "b"]


def test_a_bit_default_below_zero_is_all_the_bits_of_its_column() -> None:
    timeline = followed("CREATE TABLE t (a BIT(64) DEFAULT -1)")

    assert timeline.current_table(T).columns[0].default == f"b'{'1' * 64}'"


def test_statements_with_semicolons_between_build_on_each_other() -> None:
    timeline = followed("CREATE TABLE t (a INT); ALTER TABLE t ADD b INT; RENAME TABLE t TO u; ALTER TABLE u ADD c INT")

    assert names(timeline.current_table(U)) == ["a", "b", "c"]
    assert timeline.current_table(T) is None


@pytest.mark.parametrize(
    ("version", "text"),
    [((5, 7, 44), "int(11)"), ((8, 0, 18), "int(11)"), ((8, 0, 19), "int"), ((9, 7, 0), "int")],
)
def test_display_widths_follow_the_servers_version(version: tuple[int, int, int], text: str) -> None:
    (change,) = parsed("CREATE TABLE t (a INT, b TINYINT(1), c INT(5) ZEROFILL, d YEAR)", flavor=mysql_flavor(version))

    assert isinstance(change, CreateTable)
    assert [column.type_text for column in change.table.columns] == [
        text,
        "tinyint(1)",
        "int(5) unsigned zerofill",
        "year" if text == "int" else "year(4)",
    ]


def test_the_first_timestamp_of_old_servers_defaults_to_now() -> None:
    (change,) = parsed("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL)", flavor=mysql_flavor((5, 7, 44)))

    assert isinstance(change, CreateTable)
    assert [(c.nullable, c.default, c.default_is_expression) for c in change.table.columns] == [
        (False, "CURRENT_TIMESTAMP", True),
        (False, "0000-00-00 00:00:00", False),
        (True, None, False),
    ]


def test_the_default_collation_is_the_flavors_own() -> None:
    text = "CREATE TABLE t (a VARCHAR(5)) CHARSET utf8mb4"

    found = {
        flavor.default_collation("utf8mb4"): parsed(text, flavor=flavor)[0].table.columns[0].collation
        for flavor in (mysql_flavor((5, 7, 44)), mysql_flavor(), mariadb_flavor((10, 11, 6)), mariadb_flavor((11, 8, 2)))
    }

    assert found == {name: name for name in ("utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci")}


def test_a_collation_of_mariadb_that_fits_many_charsets_takes_the_columns() -> None:
    (change,) = parsed("CREATE TABLE t (a VARCHAR(5) CHARACTER SET utf16 COLLATE uca1400_ai_ci)", flavor=mariadb_flavor((11, 4, 0)))

    assert isinstance(change, CreateTable)
    assert change.table.columns[0].collation == "utf16_uca1400_ai_ci"


WORDS = st.sampled_from(
    (
        "CREATE", "TABLE", "ALTER", "DROP", "ADD", "COLUMN", "t", "a", "b", "INT", "VARCHAR", "(", ")", ",", ";", "5", "'x'", "`q`",
        '"', "'", "`", "DEFAULT", "NOT", "NULL", "PRIMARY", "KEY", "UNIQUE", "INDEX", "AS", "SELECT", "RENAME", "TO", "FIRST", "AFTER",
        "MODIFY", "CHANGE", "ENUM", "CHECK", "REFERENCES", "PARTITION", "BY", "CONVERT", "CHARACTER", "SET", "COLLATE", "utf8mb4",
        "COMMENT", "=", ".", "/*!", "*/", "/*", "--", "#", "/*M!", "@x", ":=", "IF", "EXISTS", "LIKE", "WITH", "SYSTEM", "VERSIONING",
        "GENERATED", "ALWAYS", "VIRTUAL", "DATABASE", "ON", "UPDATE", "CURRENT_TIMESTAMP", "0x", "b'1'", "x'4'", "_latin1", "1e5", ".5",
        "\\", "\x00", "é",
    )
)  # fmt: skip


@given(st.one_of(st.lists(WORDS, max_size=25).map(" ".join), st.text(max_size=60)), st.booleans())
def test_no_text_makes_the_parser_raise(text: str, mariadb: bool) -> None:
    flavor = mariadb_flavor() if mariadb else mysql_flavor()

    assert parsed(text, "CREATE TABLE t (a INT, b VARCHAR(5))", flavor=flavor)
    assert parsed("ALTER TABLE t " + text, "CREATE TABLE t (a INT, b VARCHAR(5))", flavor=flavor)
    assert parsed("CREATE TABLE u (" + text, flavor=flavor)


@given(st.sampled_from([statement for case in CASES for statement in case.statements]), st.integers(0, 400))
def test_no_beginning_of_a_statement_makes_the_parser_raise(statement: str, length: int) -> None:
    assert parsed(statement[:length], "CREATE TABLE t (a INT, b VARCHAR(5))")


def test_deep_nesting_ends_in_an_answer() -> None:
    assert parsed("ALTER TABLE t ADD b INT CHECK (" + "(" * 100_000, "CREATE TABLE t (a INT)")[0].ids == (T,)


NAMES = st.sampled_from("abcd")
PLACES = st.one_of(st.just(""), st.just(" FIRST"), NAMES.map(" AFTER {}".format))
CLAUSES = st.one_of(
    st.builds("ADD {}{} INT{}".format, st.sampled_from(("", "IF NOT EXISTS ")), NAMES, PLACES),
    st.builds("DROP COLUMN {}{}".format, st.sampled_from(("", "IF EXISTS ")), NAMES),
    st.builds("MODIFY {}{} BIGINT{}".format, st.sampled_from(("", "IF EXISTS ")), NAMES, PLACES),
    st.builds("CHANGE {}{} {} INT{}".format, st.sampled_from(("", "IF EXISTS ")), NAMES, NAMES, PLACES),
    st.builds("RENAME COLUMN {} TO {}".format, NAMES, NAMES),
    st.builds("ADD UNIQUE ({})".format, NAMES),
)


@given(st.lists(CLAUSES, min_size=1, max_size=5))
def test_no_clauses_together_make_the_parser_raise_or_a_name_come_twice(clauses: list[str]) -> None:
    for change in parsed("ALTER TABLE t " + ", ".join(clauses), "CREATE TABLE t (a INT, b INT, c INT)", flavor=mariadb_flavor()):
        if isinstance(change, AlterTable):
            names = [column.name.lower() for column in change.table.columns]
            assert len(set(names)) == len(names)


def many(count: int, clause: str) -> str:
    return "ALTER TABLE t " + ", ".join(clause.replace("{n}", str(n)).replace("{n-1}", str(n - 1)) for n in range(1, count + 1))


@pytest.mark.parametrize(
    "clause", ["ADD c{n} INT", "ADD c{n} INT FIRST", "MODIFY c{n} BIGINT FIRST", "CHANGE IF EXISTS c{n} d{n} INT", "ADD UNIQUE (c{n})"]
)
def test_more_columns_or_indexes_than_a_table_has_are_not_understood_and_cost_no_time(clause: str) -> None:
    columns = ["a"] if clause.startswith("ADD c") else [f"c{n}" for n in range(1, 4001)]
    text = many(20_000, clause)
    started_s = time.process_time()

    (change,) = parsed(text, f"CREATE TABLE t ({', '.join(f'{name} INT' for name in columns)})", flavor=mariadb_flavor())

    assert isinstance(change, Unknown)
    assert change.ids == (T,)
    assert time.process_time() - started_s < 5


@pytest.mark.parametrize(
    ("clause", "made", "order"),
    [
        ("ADD c{n} INT", "c", "c0 first"),
        ("ADD c{n} INT AFTER c{n-1}", "c", "c0 first"),
        ("ADD c{n} INT FIRST", "c", "reversed, c0 last"),
        ("MODIFY d{n} BIGINT FIRST", "d", "reversed, c0 last"),
        ("CHANGE d{n} e{n} INT AFTER c0", "e", "c0 first, reversed"),
    ],
)
def test_as_many_columns_as_a_table_has_are_followed_in_their_order(clause: str, made: str, order: str) -> None:
    names = ["c0"] if clause.startswith("ADD") else ["c0", *(f"d{n}" for n in range(1, 4001))]
    before = "CREATE TABLE t (" + ", ".join(f"{name} INT" for name in names) + ")"
    started_s = time.process_time()

    (change,) = parsed(many(4000, clause), before)

    assert time.process_time() - started_s < 2
    expected = [f"{made}{n}" for n in range(1, 4001)]
    if "reversed" in order:
        expected.reverse()
    expected.insert(len(expected) if "last" in order else 0, "c0")
    assert [column.name for column in change.table.columns] == expected


def test_a_table_of_more_columns_than_any_has_is_not_understood() -> None:
    columns = ", ".join(f"c{n} INT" for n in range(4097))

    (change,) = parsed(f"CREATE TABLE t ({columns})")
    assert isinstance(change, Unknown)
    (change,) = parsed("ALTER TABLE t ADD c4096 INT, ADD d INT", f"CREATE TABLE t ({columns.rpartition(',')[0]})")
    assert isinstance(change, Unknown)


@pytest.mark.parametrize(
    ("statement", "removes"),
    [
        ("ALTER TABLE t TRUNCATE PARTITION p, q", "TRUNCATE PARTITION"),
        ("ALTER TABLE t DROP PARTITION p", "DROP PARTITION"),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "EXCHANGE PARTITION"),
        ("ALTER TABLE t DISCARD TABLESPACE", "DISCARD TABLESPACE"),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE v", "CONVERT PARTITION"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", "ALTER IGNORE"),
        ("ALTER IGNORE TABLE t ADD INDEX (a)", None),
        ("ALTER TABLE t ADD UNIQUE (a)", None),
        ("ALTER TABLE t ADD PARTITION (PARTITION q VALUES LESS THAN (9))", None),
        ("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))", None),
        ("ALTER TABLE t REBUILD PARTITION p", None),
        ("ALTER TABLE t COALESCE PARTITION 1", None),
        ("ALTER TABLE t REMOVE PARTITIONING", None),
    ],
)
def test_a_clause_that_takes_rows_away_is_named(statement: str, removes: str | None) -> None:
    made = ("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)")

    changes = parsed(statement, *made, flavor=mariadb_flavor())

    altered = next(change for change in changes if isinstance(change, AlterTable) and change.id == T)
    assert altered.removes == removes


def test_or_replace_of_a_table_is_known_as_that() -> None:
    statements = ("CREATE OR REPLACE TABLE t (id INT)", "CREATE OR REPLACE TABLE t LIKE u", "CREATE TABLE t (id INT)")

    found = [parsed(statement, "CREATE TABLE u (id INT)", flavor=mariadb_flavor()) for statement in statements]

    assert [change.replaces for (change,) in found if isinstance(change, CreateTable)] == [True, True, False]


def test_a_statement_of_many_clauses_is_read_as_far_as_a_bound() -> None:
    many = ",".join(["COMMENT='a'"] * 300_000)
    began = time.process_time()

    changes = parsed(f"ALTER TABLE t {many}", "CREATE TABLE t (id INT PRIMARY KEY)")

    assert [type(change) for change in changes] == [Unknown]
    assert changes[0].ids == (T,), "the table is read from the server"
    assert time.process_time() - began < 15, "the log stands still meanwhile"


def test_the_largest_table_of_a_server_is_within_the_bound() -> None:
    members = ",".join(f"'m{number}'" for number in range(65_535))

    (change,) = parsed(f"CREATE TABLE t (id INT PRIMARY KEY, e ENUM({members}))")

    assert isinstance(change, CreateTable)
    assert len(change.table.columns[1].members) == 65_535


def test_a_cut_statement_names_each_table_that_was_read(monkeypatch) -> None:
    monkeypatch.setattr(parser, "TOKENS_MAX", 1000)

    (change,) = parsed(f"DROP TABLE {', '.join(f't{number}' for number in range(2000))}")

    assert isinstance(change, Unknown)
    assert change.ids[:2] == (TableId("shop", "t0"), TableId("shop", "t1"))
    assert len(change.ids) > 490


def test_a_long_statement_that_changes_no_table_stays_ignored_when_it_is_cut(monkeypatch) -> None:
    monkeypatch.setattr(parser, "TOKENS_MAX", 1000)

    (change,) = parsed("CREATE VIEW v AS SELECT 1" + "+1" * 2000)

    assert isinstance(change, Ignored)


ZEROS = "0" * 5000
"""More digits than Python reads as a number; servers take any number of leading zeros."""
TAKEN_BY_SERVERS = {
    "INT": f"INT({ZEROS}5)",
    "VARCHAR": f"VARCHAR({ZEROS}5)",
    "DECIMAL": f"DECIMAL({ZEROS}10,{ZEROS}2)",
    "DATETIME": f"DATETIME({ZEROS}3) DEFAULT CURRENT_TIMESTAMP({ZEROS}3)",
    "DEFAULT INT": f"INT DEFAULT {ZEROS}1",
    "DEFAULT DATE": f"DATE DEFAULT {ZEROS}20240101",
    "DEFAULT YEAR": f"YEAR DEFAULT {ZEROS}2024",
    "DEFAULT TIME": f"TIME DEFAULT '{ZEROS}1:00:00'",
    "DEFAULT BIT": f"BIT(8) DEFAULT x'{ZEROS}01'",
    "DEFAULT DOUBLE": "DOUBLE DEFAULT 1e-99999999999999999999",
    "DEFAULT DECIMAL": "DECIMAL(10,2) DEFAULT 0e99999999999999999999",
    "DEFAULT BIGINT": "BIGINT DEFAULT 0e99999999999999999999",
}
"""Columns that MySQL 9.7 or MariaDB 10.11 takes from anybody who may create a table."""


@pytest.mark.parametrize("mariadb", [False, True])
@pytest.mark.parametrize("name", TAKEN_BY_SERVERS)
def test_a_number_of_any_length_raises_nothing(name: str, mariadb: bool) -> None:  # number 17 of the worker's safety
    flavor = mariadb_flavor() if mariadb else mysql_flavor()

    (made,) = parsed(f"CREATE TABLE t (a INT PRIMARY KEY, c {TAKEN_BY_SERVERS[name]})", flavor=flavor)
    (other,) = parsed(f"ALTER TABLE u ADD c {TAKEN_BY_SERVERS[name]}", "CREATE TABLE u (a INT PRIMARY KEY)", flavor=flavor)

    assert isinstance(made, CreateTable) or made.ids == (T,), "it is read from the server"
    assert isinstance(other, AlterTable) or other.ids == (U,)


def test_leading_zeros_change_no_length() -> None:
    columns = followed(f"CREATE TABLE t (a VARCHAR({ZEROS}5), b DECIMAL({ZEROS}7,{ZEROS}2))").current_table(T).columns

    assert [(column.length, column.scale) for column in columns] == [(5, None), (7, 2)]


@pytest.mark.parametrize(
    "type_", ["INT(2000000000) ZEROFILL DEFAULT 1", "BIT(4000000000) DEFAULT 1", "DATETIME(7)", "DECIMAL(66)", "DECIMAL(9,39)"]
)
def test_a_length_that_no_server_takes_is_not_understood_and_costs_no_memory(type_: str) -> None:  # number 17 of the worker's safety
    (change,) = parsed(f"CREATE TABLE t (c {type_})")

    assert isinstance(change, Unknown)
    assert change.ids == (T,)
