"""Names of classes are asked of the JVM once, not at every column, session and commit."""

from __future__ import annotations

from typing import Any

import pytest
from dblog_sink.delta.jvm_classes import remember_classes
from dblog_sink.delta.session import another
from dblog_sink.schema.avro import read_avro
from py4j.java_gateway import JavaClass
from py4j.protocol import REFLECTION_COMMAND_NAME, Py4JError
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the JVM is asked about names from now on."""
    found: list[str] = []
    client = type(spark._jvm._gateway_client)
    send = client.send_command

    def noted(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        if command.startswith(REFLECTION_COMMAND_NAME):
            found.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", noted)
    return found


def test_columns_sessions_decoders_and_errors_ask_for_no_name_a_second_time(spark: SparkSession, asked: list[str]) -> None:
    def work() -> None:
        session = another(spark)
        frame = session.range(3).select((F.col("id") + 1).alias("a"), F.lit("x").alias("b"), F.lit(b"\x02").alias("c"))
        frame.select(F.when(F.col("a") > 1, F.col("b")).alias("d"), read_avro(F.col("c"), '"int"')).count()
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        session.range(1).persist(StorageLevel.MEMORY_ONLY).unpersist()
        with pytest.raises(AnalysisException):
            session.sql("SELECT nothing")

    work()
    asked.clear()
    work()

    assert asked == []


def test_a_class_that_is_not_there_is_missing_when_it_is_used_and_not_before(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog_sink.delta.jvm_classes._OWN", ("org.apache.spark.NoSuchClass", "java.util.ArrayList"))

    remember_classes(spark._jvm)

    assert isinstance(spark._jvm.java.util.ArrayList, JavaClass)
    assert spark._jvm.java.util.ArrayList([1, 2]).size() == 2
    with pytest.raises((Py4JError, TypeError)):
        spark._jvm.org.apache.spark.NoSuchClass.of(1)
