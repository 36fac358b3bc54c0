"""How many rows a table has: read from its log without a job where the log has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from dblog_sink.delta import file_skipping
from dblog_sink.delta.session import another
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


def jobs(session: SparkSession) -> int:
    return int(session.sparkContext._jsc.sc().dagScheduler().nextJobId())


def table(session: SparkSession, path: Path) -> str:
    session.range(0, 100, 1, 2).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(path))
    session.sql(f"DELETE FROM delta.`{path}` WHERE id < 7").collect()
    return str(path)


def test_the_files_of_the_newest_checksum_show_it_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t")
    before = jobs(spark)

    assert file_skipping.row_count(spark, path) == 93
    assert jobs(spark) == before


@pytest.mark.some_cases
@pytest.mark.parametrize("why", ["none is there", "too many files", "no statistics"])
def test_where_no_checksum_shows_it_the_rows_are_counted(spark: SparkSession, tmp_path: Path, why: str) -> None:
    session = another(spark)
    settings = {
        "too many files": ("spark.databricks.delta.allFilesInCrc.thresholdNumFiles", "1"),
        "no statistics": ("spark.databricks.delta.stats.collect", "false"),
    }
    if why in settings:
        session.conf.set(*settings[why])
    path = table(session, tmp_path / "t")
    if why not in settings:
        for checksum in Path(path).glob("_delta_log/*.crc"):
            checksum.unlink()
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    before = jobs(session)

    assert file_skipping.row_count(session, path) == 93
    assert jobs(session) > before


def test_another_delta_whose_checksums_list_no_files_has_its_rows_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Snapshot:
        def checksumOpt(self) -> None:  # noqa: N802  as Delta calls it
            msg = "Method checksumOpt([]) does not exist"
            raise Py4JError(msg)

    path = table(spark, tmp_path / "t")
    monkeypatch.setattr(file_skipping, "newest", lambda *_: (None, Snapshot()))

    assert file_skipping.row_count(spark, path) == 93
