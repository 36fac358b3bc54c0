"""Which statements change old rows without row events, decided from the columns before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog.core.changes import AlterTable, CreateTable, DropTable, RenameTable
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.flavor import mysql_flavor
from dblog.dialects.mysql.ddl.rewrites import rewritten
from dblog.model import Table, TableId

T = TableId("d", "t")


def known(*columns: str) -> dict[TableId, Table]:
    context = Context(flavor=mysql_flavor((8, 4, 0)), table=lambda _: None, default_database="d")
    (made,) = parser.parse(f"CREATE TABLE t ({', '.join(columns)}) CHARSET latin1", context)
    assert isinstance(made, CreateTable)
    return {T: made.table}


def reasons(statement: str, *columns: str) -> dict[TableId, str]:
    tables = known(*columns or ("id INT PRIMARY KEY", "v VARCHAR(10)", "n INT", "u INT UNSIGNED", "e ENUM('a','b')", "d DATETIME(3)"))
    context = Context(flavor=mysql_flavor((8, 4, 0)), table=tables.get, default_database="d")
    return rewritten(parser.parse(statement, context), tables.get)


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD x INT", "ADD x INT DEFAULT NULL", "MODIFY n BIGINT", "MODIFY u BIGINT", "MODIFY u INT UNSIGNED",
        "MODIFY v VARCHAR(11)", "MODIFY v TEXT", "MODIFY e ENUM('a','b','c')", "CONVERT TO CHARACTER SET utf8mb4", "COMMENT 'x'", "ENGINE=InnoDB",
        "DROP n", "ADD KEY (n)", "ALTER n SET DEFAULT 5", "MODIFY n INT DEFAULT 9 FIRST", "ADD PARTITION PARTITIONS 2", "ALGORITHM=INSTANT, ADD x INT",
    ],
)  # fmt: skip
def test_statements_after_which_old_rows_read_as_before(clauses: str) -> None:
    assert reasons(f"ALTER TABLE t {clauses}") == {}


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD x INT DEFAULT 0", "ADD x INT NOT NULL", "ADD x INT AS (n + 1)", "ADD x DATETIME DEFAULT CURRENT_TIMESTAMP", "ADD x VARCHAR(9) DEFAULT (UUID())",
        "MODIFY n SMALLINT", "MODIFY n INT UNSIGNED", "MODIFY u INT", "MODIFY n VARCHAR(20)", "MODIFY v VARCHAR(5)", "MODIFY v CHAR(10)",
        "MODIFY v VARBINARY(10)", "MODIFY e ENUM('b','a')", "MODIFY d DATETIME", "MODIFY d DATETIME(6)", "MODIFY n INT NOT NULL", "MODIFY n DOUBLE",
        "RENAME COLUMN n TO m", "CHANGE n m INT", "TRUNCATE PARTITION p0", "DROP PARTITION p0", "IMPORT TABLESPACE", "CONVERT TO CHARACTER SET ascii",
        "EXCHANGE PARTITION p0 WITH TABLE other",
    ],
)  # fmt: skip
def test_statements_that_change_old_rows(clauses: str) -> None:
    assert list(reasons(f"ALTER TABLE t {clauses}")) == [T]


@pytest.mark.parametrize(
    ("clauses", "columns", "reason"),
    [
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (b)", ("a INT PRIMARY KEY", "b INT NOT NULL"), "its rows are distinguished by b instead of a"),
        (
            "DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)",
            ("a INT", "b INT", "PRIMARY KEY (a, b)"),
            "its rows are distinguished by b, a instead of a, b",
        ),
        ("ADD PRIMARY KEY (a)", ("a INT NOT NULL", "b INT"), "its rows are distinguished by a instead of nothing"),
        ("DROP PRIMARY KEY", ("a INT PRIMARY KEY", "b INT"), None),
        ("ADD UNIQUE (b)", ("a INT PRIMARY KEY", "b INT NOT NULL"), None),
    ],
)
def test_rows_that_have_never_been_sent_under_their_key_are_dumped_again(
    clauses: str, columns: tuple[str, ...], reason: str | None
) -> None:
    assert reasons(f"ALTER TABLE t {clauses}", *columns) == ({} if reason is None else {T: reason})


def test_rows_that_go_with_their_table_are_no_matter_of_a_dump() -> None:
    tables = known("a INT PRIMARY KEY")
    again = CreateTable(tables[T])

    assert rewritten([DropTable((T,))], tables.get) == rewritten([again], lambda _: None) == {}


def test_a_new_expression_changes_the_column_though_its_type_stays() -> None:
    assert reasons("ALTER TABLE t MODIFY g INT AS (a + 2)", "a INT", "g INT AS (a + 1)") == {T: "column g is computed again"}


def test_renames_give_rows_to_another_name_and_what_is_dropped_needs_none() -> None:
    a, b, c = (TableId("d", name) for name in "abc")

    assert list(rewritten([RenameTable(((a, b), (c, a)))], lambda _: None)) == [b, a]
    assert rewritten([RenameTable(((a, b),)), DropTable((b,))], lambda _: None) == {}


def test_the_columns_before_a_chain_of_changes_are_those_of_the_chain() -> None:
    tables = known("id INT")
    wider = known("id BIGINT")[T]
    other = TableId("d", "u")

    found = rewritten([RenameTable(((T, other),)), AlterTable(other, replace(wider, id=other)), DropTable((other,))], tables.get)

    assert found == {}
