"""Which fields of an offset are hidden from readers: a new field of any database has to be put on one side or the other."""

import pytest
from dblog.core.takeover import PREFIX
from dblog.dialects.mysql.task import altered as mysql
from dblog.dialects.postgres.task import altered as postgres
from dblog.readers.run.offset import TABLE_COUNT
from dblog.readers.run.shown_offset import SHOWN, hidden_field, without_rows

HIDDEN_ONES = {"dblog_dump", "dblog_dumps", "dblog_xa"}


def test_every_field_of_every_database_is_shown_or_hidden():  # number 24 of the worker's safety
    assert mysql.FIELDS | postgres.FIELDS == SHOWN | HIDDEN_ONES


@pytest.mark.parametrize("name", [*sorted(HIDDEN_ONES), f"{PREFIX}collections", f"{PREFIX}primary_key", "a_field_of_later"])
@pytest.mark.parametrize("value", ["a", "", 7, 1.5, True])
def test_what_may_hold_a_key_is_hidden_whatever_its_type_is(name, value):
    assert without_rows({"pos": 4, name: value}) == {"pos": 4, name: "[hidden]"}
    assert hidden_field(without_rows({"pos": 4, name: value})) == name


def test_positions_counts_and_what_is_empty_are_shown():
    offset = {"file": "bin.000003", "pos": 4, "dblog_dump": None, f"{TABLE_COUNT}shop.orders": 3}

    assert without_rows(offset) == offset
    assert hidden_field(offset) is None
