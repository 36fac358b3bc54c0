"""Rows events whose images lack columns: where their rows end."""

from types import SimpleNamespace
from typing import Any

import pytest
from dblog.dialects.mysql.binlog.partial_images import Reader
from dblog.errors import DefiniteError
from dblog.model import TableId

PLAN: Any = SimpleNamespace(table=SimpleNamespace(id=TableId("shop", "t")), columns=())


def test_an_insert_without_any_column_is_one_row_of_no_bytes() -> None:
    assert len(list(Reader(PLAN, [], b"head", at=4).rows("c", b"\x00"))) == 1


def test_bytes_behind_a_row_without_any_column_are_damage_and_not_rows_for_ever() -> None:
    rows = Reader(PLAN, [], b"headxyz", at=4).rows("c", b"\x00")
    next(rows)

    with pytest.raises(DefiniteError, match=r"shop\.t: bytes follow a row that belong to no column"):
        next(rows)


@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_bits_of_columns_that_a_table_has_not_make_no_rows_for_ever(op: str) -> None:
    two: Any = SimpleNamespace(table=PLAN.table, columns=(SimpleNamespace(source=None),) * 2)
    rows = Reader(two, [None, None], b"headxyz", at=4).rows(op, b"\xfc")
    next(rows)

    with pytest.raises(DefiniteError, match="bytes follow a row that belong to no column"):
        next(rows)
    assert len(list(Reader(two, [None, None], b"head", at=4).rows(op, b"\xfc"))) == (op == "c")
