"""The Delta logs of hot tables stay short, whatever time passes, and nothing goes that somebody was promised."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from dblog_sink.config import job_options
from dblog_sink.config.log_retention import (
    CLEANED,
    FILE_RETENTION,
    LOG_CLEANUP,
    LOG_RETENTION,
    OWN_LOG_H,
    is_cleaned,
    log_changes,
    log_properties,
)
from dblog_sink.delta import log_cleanup
from dblog_sink.job.log_cleanup import STEP_H, LogCleanup, cutoffs_h, follow_own_logs
from dblog_sink.state.notes import State, Vacuumed
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from sink.harness import Record, Sink, change
from sink.long_run import CHECKPOINT_EVERY, Month
from support.chunk_markers import chunk_marker, in_avro
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def test_a_log_is_cleaned_down_to_its_retention_in_steps_of_a_day_at_most() -> None:
    for since_h, keep_h in itertools.product((0.0, 1.0, 24.0, 25.0, 100.0, 720.0), (6.0, 192.0)):
        ages = cutoffs_h(since_h, keep_h)

        assert ages[-1] == keep_h
        before = [keep_h + since_h, *ages]
        assert all(0 <= older - younger <= STEP_H for older, younger in itertools.pairwise(before))


def test_a_table_is_brought_to_its_retention_unless_its_owner_or_snapshots_want_more() -> None:
    def changes(given: dict[str, str], log_h: float, kept_h: float, files_kept_h: float = 168.0) -> dict[str, str]:
        return dict(log_changes(given, log_h, kept_h=kept_h, files_kept_h=files_kept_h))

    assert changes({}, 192.0, 720.0) == log_properties(192.0), "Delta's default"
    assert changes({}, OWN_LOG_H, 720.0) == log_properties(OWN_LOG_H)
    assert not changes(log_properties(192.0), 192.0, 192.0)
    of_delta = {name: value for name, value in log_properties(OWN_LOG_H).items() if name.startswith("delta.")}
    assert is_cleaned(log_changes(of_delta, OWN_LOG_H, kept_h=OWN_LOG_H, files_kept_h=OWN_LOG_H, own=True)), "one of the sink's own"
    assert not log_changes(of_delta | {CLEANED: "true"}, OWN_LOG_H, kept_h=OWN_LOG_H, files_kept_h=OWN_LOG_H, own=True)
    assert not changes(log_properties(OWN_LOG_H), OWN_LOG_H, OWN_LOG_H, OWN_LOG_H)
    assert changes(log_properties(300.0), 192.0, 300.0)[LOG_RETENTION] == "interval 192 hours", "ours, and the configuration has changed"
    assert not changes(log_properties(192.0) | {LOG_RETENTION: "interval 5073 hours"}, 192.0, 5073.0, 5049.0), "raised for snapshots"
    assert not changes({LOG_RETENTION: "interval 60 days", LOG_CLEANUP: "true"}, 192.0, 1440.0), "its owner's"
    assert changes({LOG_RETENTION: "interval 180 hours", LOG_CLEANUP: "true"}, 192.0, 180.0)[LOG_RETENTION] == "interval 192 hours"
    files = {FILE_RETENTION: "interval 300 hours"}
    assert changes(files, 192.0, 720.0, 300.0)[LOG_RETENTION] == "interval 300 hours", "Delta refuses a log that is shorter than the files"


def test_a_table_whose_files_are_to_be_kept_for_long_says_so_to_delta() -> None:
    """Delta's VACUUM goes by that, whatever hours it is given, and no older version is read."""
    month = log_properties(744.0)
    assert month[FILE_RETENTION] == "interval 720 hours"
    week = dict(log_changes({}, 744.0, kept_h=720.0, files_kept_h=168.0))
    assert week == month
    assert not log_changes(month, 744.0, kept_h=744.0, files_kept_h=720.0)
    assert log_changes(month, 192.0, kept_h=744.0, files_kept_h=720.0)[FILE_RETENTION] == "interval 168 hours", (
        "the configuration has changed"
    )
    assert FILE_RETENTION not in log_changes(month, 192.0, kept_h=2000.0, files_kept_h=2000.0), "its owner's"
    assert FILE_RETENTION not in log_properties(192.0)


def test_a_log_that_its_owner_wants_whole_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    assert not log_changes({LOG_CLEANUP: "false"}, 192.0, kept_h=720.0, files_kept_h=168.0)
    days = Month(spark, tmp_path / "t", days=0.5, every_s=300.0, name="shop.t", cleaned=False)
    days()
    properties = "'dblog.log.kept.h', 'dblog.log.cleaned'"
    spark.sql(f"ALTER TABLE delta.`{days.path}` UNSET TBLPROPERTIES IF EXISTS ({properties})")
    spark.sql(f"ALTER TABLE delta.`{days.path}` SET TBLPROPERTIES ('{LOG_CLEANUP}' = 'false')")
    cleanup = LogCleanup(
        spark,
        keep_h=lambda _name, _path: 1.0,
        checked=dict,
        control=SimpleNamespace(state=State(), record=lambda _notes, _step: None),
    )

    cleanup.look({"shop.t": str(days.path)})

    assert (days.log / f"{0:020}.json").exists()


def test_a_log_stays_until_a_vacuum_has_read_which_files_may_go(spark: SparkSession, tmp_path: Path) -> None:
    """After a stop of the sink for some days, a folder would have to be listed."""
    days = Month(spark, tmp_path / "t", days=2.0, every_s=300.0, name="shop.t", cleaned=False)
    days()
    state = State()
    state.take(Vacuumed("shop.t", time.time() - 40 * 3600.0))
    cleanup = LogCleanup(
        spark,
        keep_h=lambda _name, _path: 30.0,
        checked=dict,
        control=SimpleNamespace(state=state, record=lambda _notes, _step: None),
        vacuums=True,
    )

    cleanup.look({"shop.t": str(days.path)})

    assert (days.log / f"{20:020}.json").exists()
    state.take(Vacuumed("shop.t", time.time()))
    cleanup.look({"shop.t": str(days.path)})
    assert not (days.log / f"{100:020}.json").exists()


def test_days_of_commits_leave_a_log_that_is_as_short_as_after_hours(spark: SparkSession, tmp_path: Path) -> None:
    days = Month(spark, tmp_path / "control", days=2.0, every_s=60.0)

    days()

    assert days.version >= 2 * 24 * 60 - 2
    assert days.names_most <= days.bound < days.version, days.facts
    assert days.deleted_most <= 2.1 * (days.commits_between_turns + CHECKPOINT_EVERY), days.facts
    assert spark.read.format("delta").load(str(days.path)).count() == 0, "the table can still be read"
    assert log_cleanup.version(spark, str(days.path)) <= days.version


def test_a_log_that_nobody_cleans_is_found_too_long(spark: SparkSession, tmp_path: Path) -> None:
    days = Month(spark, tmp_path / "control", days=2.0, every_s=60.0, cleaned=False)

    days()

    assert days.names_most > days.bound


def test_commits_that_were_not_checked_yet_stay_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """Else nobody could tell whether one of them restored an older version."""
    days = Month(spark, tmp_path / "t", days=2.0, every_s=300.0, name="shop.t")
    days.cleaned = False
    days()
    cleanup = LogCleanup(
        spark,
        keep_h=lambda _name, _path: OWN_LOG_H,
        checked=lambda: {"shop.t": 200},
        control=SimpleNamespace(state=State(), record=lambda _notes, _step: None),
    )

    cleanup.look({"shop.t": str(days.path)})

    assert not (days.log / f"{49:020}.json").exists()
    assert (days.log / f"{200:020}.json").exists()


def test_tables_of_an_earlier_version_get_the_retention_at_a_start(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"vacuum.keep.h": "200", "control.interval.s": "0", "topics.pattern": r"p\..*"}
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    sink.batch(change(table, "c", {"id": 1, "v": "a"}, at=1))
    chunk = chunk_marker(table.topic, chunk_id="c", low=(1, 1 << 23), read=1)
    marker = Record(topic="__dblog-chunks.p", key=None, value=in_avro(registry, chunk))
    sink.batch(change(table, "d", {"id": 1, "v": "a"}, at=2), Record(topic=table.topic, key=None, value=b"no frame"), marker)
    own = {"_dblog/control": 6, "_dblog/chunks": 6, "_dblog/quarantine": 224}
    hours = {**own, "shop.t": 224, "_dblog/tombstones/shop.t": 6}
    paths = sink.writer.paths()

    def kept() -> dict[str, float]:
        return {name: log_cleanup.kept_h(sink.spark, paths[name]) for name in hours}

    assert kept() == hours, "of new tables"
    sink.restarted()
    assert all(log_cleanup.may_clean(sink.spark, paths[name]) for name in hours), (
        "no table is taken for one whose owner wants its log whole"
    )
    for name in own:  # as a write of rows made them, which keeps Delta's properties alone
        sink.spark.sql(f"ALTER TABLE delta.`{paths[name]}` UNSET TBLPROPERTIES ('dblog.log.kept.h', 'dblog.log.cleaned')")
    follow_own_logs(sink.spark, job_options.parse(sink.given))
    assert all(log_cleanup.may_clean(sink.spark, paths[name]) for name in own)
    for name in hours:
        sink.spark.sql(
            f"ALTER TABLE delta.`{paths[name]}` UNSET TBLPROPERTIES IF EXISTS ('{LOG_RETENTION}', '{LOG_CLEANUP}', '{FILE_RETENTION}', 'dblog.log.kept.h')"
        )
    assert set(kept().values()) == {720.0}

    follow_own_logs(sink.spark, job_options.parse(sink.given))
    sink.batch(change(table, "c", {"id": 2, "v": "a"}, at=3))

    assert kept() == hours
    properties = DeltaTable.forPath(sink.spark, paths["shop.t"]).detail().select("properties").first()[0]
    assert properties[LOG_CLEANUP] == "false"
    assert sink.rows(table) == [{"id": 2, "v": "a"}]


@pytest.mark.long
def test_a_week_of_a_commit_each_five_seconds_leaves_a_short_log(
    spark: SparkSession, tmp_path: Path
) -> None:  # `make sink-month` has 30 days
    month = Month(spark, tmp_path / "control", days=7.0, every_s=5.0)

    month()

    assert month.names_most <= month.bound, month.facts
    assert month.since_checkpoint_most <= 200, month.facts
