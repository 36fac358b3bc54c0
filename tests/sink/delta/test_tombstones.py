"""What is known of deletes and truncates without a look into their table, without Spark."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from dblog_sink.delta import tombstones
from dblog_sink.delta.merge import Txn
from dblog_sink.delta.tombstones import Tombstones
from pyspark.sql import types as t


def test_a_delete_that_arrives_late_hides_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a dump row from between the two would bring the key of the later one back. # I2"""
    for name in ("F", "append", "unwritten"):  # what needs a session
        monkeypatch.setattr(tombstones, name, MagicMock())
    monkeypatch.setattr(tombstones, "unwritten", lambda values, _like: values)
    known = Tombstones(path="t", keys=(("id", t.LongType()),), exists=True)
    assert known.none_behind((0, 0))

    for last in ((1, 600), (1, 240)):
        known.write(MagicMock(), MagicMock(columns=[]), last, Txn("sink", last[1]))

    assert not known.none_behind((1, 300))
    assert known.none_behind((1, 600))

    known.write_floor(MagicMock(), (2, 5), Txn("sink", 700), ts_ms=7)
    known.write_floor(MagicMock(), (1, 900), Txn("sink", 701), ts_ms=6)
    assert not known.none_behind((2, 4))
    assert (known.floor, known.floors) == ((2, 5), {(2, 5): 7, (1, 900): 6})
