"""The jars beside Spark's own fit the Spark that runs them, or the job does not start."""

from pathlib import Path

import pytest
from dblog_sink.delta.jars import check_versions
from dblog_sink.errors import DefiniteError
from dblog_sink.job.submit import spark_jars
from stack import spark_jars as added_jars


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    (tmp_path / "spark-core_2.13-4.1.1.jar").touch()
    return tmp_path


def test_the_jars_of_this_project_fit_the_spark_of_this_project() -> None:
    own = spark_jars()

    assert own is not None
    assert list(own.glob("spark-core_*.jar"))
    check_versions(added_jars(), own)


@pytest.mark.parametrize(
    ("jar", "why"),
    [
        ("delta-spark_4.0_2.13-4.4.0.jar", "is for Spark 4.0"),
        ("delta-spark_2.12-3.2.0.jar", "is for Scala 2.12"),
        ("spark-avro_2.13-4.0.0.jar", "is of Spark 4.0.0"),
        ("spark-sql-kafka-0-10_2.12-4.1.1.jar", "is for Scala 2.12"),
    ],
)
def test_a_jar_of_another_spark_is_named_with_what_it_is_for(spark: Path, jar: str, why: str) -> None:
    with pytest.raises(DefiniteError, match=f"{jar} {why}") as raised:
        check_versions([Path("/j") / jar, Path("/j/delta-storage-4.4.0.jar")], spark)

    assert "io.delta:delta-spark_4.1_2.13:4.4.0" in str(raised.value)


def test_parts_of_spark_may_be_of_another_patch_of_its_line(spark: Path) -> None:
    check_versions([Path("/j/spark-avro_2.13-4.1.2.jar"), Path("/j/spark-sql-kafka-0-10_2.13-4.1.3.jar")], spark)


def test_what_names_no_scala_is_not_compared(spark: Path) -> None:
    check_versions([Path("/j/kafka-clients-3.9.1.jar"), Path("/j/spark-token-provider-kafka-0-10_2.13-4.0.0.jar")], spark)
