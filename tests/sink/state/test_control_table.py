"""When notes get into the control table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from dblog_sink.state import notes
from dblog_sink.state.control_table import ControlTable, path_of, read_state
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.notes import Note, Vacuumed
from delta.tables import DeltaTable
from pyspark.sql import SparkSession


def test_notes_are_written_when_their_interval_has_passed_though_no_others_come(spark: SparkSession, tmp_path: Path) -> None:
    clock_s = [100.0]
    control = ControlTable(spark, path_of(str(tmp_path)), interval_s=5.0, now_s=lambda: clock_s[0], reached=nothing)

    control.record([Vacuumed("shop.a", 1.0)], "recorded")
    clock_s[0] = 104.0
    control.flush_due()
    assert not control.exists
    clock_s[0] = 105.0
    control.flush_due()

    assert read_state(spark, str(tmp_path)).vacuumed_s == {"shop.a": 1.0}


def test_a_store_that_is_away_is_asked_again_after_another_interval(spark: SparkSession, tmp_path: Path) -> None:
    clock_s, tries = [100.0], []

    class Away(ControlTable):
        def flush(self) -> None:
            tries.append(clock_s[0])
            raise OSError

    control = Away(spark, path_of(str(tmp_path)), interval_s=5.0, now_s=lambda: clock_s[0], reached=nothing)
    control.record([Vacuumed("shop.a", 1.0)], "recorded")
    for at_s in (106.0, 107.0, 111.0, 112.0):
        clock_s[0] = at_s
        try:
            control.flush_due()
        except OSError:
            continue

    assert tries == [106.0, 111.0]


class Rows(ControlTable):
    """A control table whose rows are in memory, in a store that may be away; it needs no Spark."""

    def __init__(self) -> None:
        super().__init__(MagicMock(), "control", interval_s=1000.0, now_s=lambda: 0.0, reached=nothing)
        self.is_away = False
        self.rows: list[list[Note]] = []

    def _write(self, notes: Iterable[Note], mode: str) -> int:
        del mode
        if self.is_away:
            message = "the store is away"
            raise OSError(message)
        self.rows.append([*notes])
        return 1


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    monkeypatch.setattr(DeltaTable, "isDeltaTable", lambda _session, _path: False)
    return Rows()


def test_notes_that_could_not_be_written_are_written_with_those_after_them(rows: Rows) -> None:
    """Else the next start would know nothing of a table that is parked, and write it."""
    parked = notes.Parked("p.a", "a person asked for it")
    rows.is_away = True
    with pytest.raises(OSError, match="the store is away"):
        rows.record([parked], "recorded", at_once=True)
    rows.is_away = False

    rows.record([notes.MergedUpTo("p.b", 3)], "recorded", at_once=True)

    assert rows.rows == [[parked, notes.MergedUpTo("p.b", 3)]]


def test_a_checkpoint_that_only_other_tables_know_keeps_its_epoch_and_a_new_one_comes_after_them(rows: Rows) -> None:
    """After the control table was lost. Batch numbers that come again would be taken for written."""
    landed = {"former": 4, "last": 7}

    assert rows.checkpoint_epoch("former", lambda: landed) == 4
    assert rows.checkpoint_epoch("new", lambda: landed) == 8
    assert rows.rows == [[notes.CheckpointEpoch("former", 4)], [notes.CheckpointEpoch("new", 8)]], "before they are used"
