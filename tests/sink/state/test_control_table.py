"""When notes get into the control table."""

from __future__ import annotations

from pathlib import Path

from dblog_sink.state.control_table import ControlTable, path_of, read_state
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.notes import Vacuumed
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
