"""Which tables a logged statement changes: every form of the grammar that names them, and no name from elsewhere in the text. # I5"""

from __future__ import annotations

import pytest
from dblog.dialects.mysql.ddl.lexer import LexerMode
from dblog.dialects.mysql.ddl.row_changes import row_change
from dblog.model import TableId

T = TableId("shop", "t")


def changed(text: str) -> set[TableId]:
    found = row_change(text, database="Shop", mode=LexerMode())
    assert found is not None
    return set(found[1])


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "insert t set a = 1",
        "INSERT IGNORE INTO `shop` . `T` (a) SELECT 1",
        "/* why */ UPDATE t SET a = 1",
        "UPDATE LOW_PRIORITY x, t SET a = 1",
        "UPDATE (SELECT 1) AS s JOIN shop.t ON s.a = t.a SET t.b = 2",
        "DELETE FROM t WHERE a = 1",
        "DELETE t FROM t, u WHERE t.a = u.a",
        "DELETE a FROM t AS a JOIN u ON a.b = u.b",
        "DELETE FROM a USING t AS a JOIN u WHERE a.b = u.b",
        "REPLACE t VALUES (1)",
        "WITH x AS (SELECT 1) UPDATE t SET a = 1",
        "SET STATEMENT max_statement_time = 1 FOR UPDATE t SET a = 1",
        "LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ','",
        "LOAD XML INFILE 'f' INTO TABLE t",
    ],
)
def test_the_tables_that_a_statement_changes(text: str) -> None:
    assert T in changed(text)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO audit.log VALUES ('t')",
        "INSERT INTO audit.log (t) VALUES (1)",
        "INSERT INTO log SELECT * FROM shop.t",
        "INSERT INTO log VALUES (1) ON DUPLICATE KEY UPDATE t = 1",
        "UPDATE log SET t = 1",
        "UPDATE audit.t SET a = 1",
        "DELETE FROM log WHERE t = 1",
        "REPLACE INTO tt VALUES (1) -- t",
    ],
)
def test_no_name_from_elsewhere(text: str) -> None:
    assert T not in changed(text)


@pytest.mark.parametrize("text", ["CREATE TABLE t (a INT)", "GRANT INSERT ON t TO x", "XA START 't'", ""])
def test_other_statements_change_no_rows(text: str) -> None:
    assert row_change(text, database="shop", mode=LexerMode()) is None


@pytest.mark.parametrize("comment", ["/* a */ ", "/**/", "/*** a * b **/\n"])
def test_any_number_of_comments_is_passed_over_in_one_way(comment: str) -> None:
    assert row_change(comment * 5000 + "CREATE TABLE t (a INT)", database="shop", mode=LexerMode()) is None
    assert T in changed(comment * 5000 + "DELETE FROM t")
