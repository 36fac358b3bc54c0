"""Renamed columns, as the source's DDL shows them."""

import pytest
from dblog_sink.schema.renames import Renamed, renamed


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO b", [Renamed(None, "t", "a", "b")]),
        ("alter table `shop`.`my t` change column `a``x` b bigint not null after id, ADD c int", [Renamed("shop", "my t", "a`x", "b")]),
        ("ALTER TABLE t CHANGE a b int, RENAME COLUMN c TO d", [Renamed(None, "t", "a", "b"), Renamed(None, "t", "c", "d")]),
        ('ALTER TABLE ONLY public."T" RENAME COLUMN "A" TO "B"', [Renamed("public", "T", "A", "B")]),
        ("ALTER TABLE t CHANGE a a bigint", []),
        ("ALTER TABLE t ADD c varchar(9) COMMENT 'change a b', MODIFY d int /* RENAME COLUMN a TO b */", []),
        ("ALTER TABLE t RENAME TO u", []),
        ("CREATE TABLE t (a int)", []),
        ("RENAME TABLE t TO u", []),
    ],
)
def test_only_a_statement_that_renames_columns_renames_columns(ddl: str, expected: list[Renamed]) -> None:
    assert renamed(ddl) == expected
