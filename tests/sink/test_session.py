"""Plans are compiled for many rows and interpreted for few, unless the configuration says which."""

from __future__ import annotations

from dblog_sink.session import MANY_ROWS, another, fit, fitted
from pyspark.sql import SparkSession

WHOLE_STAGE = "spark.sql.codegen.wholeStage"


def test_plans_are_compiled_from_so_many_rows_on(spark: SparkSession) -> None:
    session = another(spark)

    fit(session, MANY_ROWS)
    assert session.conf.get(WHOLE_STAGE) == "true"
    fit(session, MANY_ROWS - 1)
    assert session.conf.get(WHOLE_STAGE) == "false"


def test_a_session_compiles_as_before_when_a_question_is_answered(spark: SparkSession) -> None:
    session = another(spark)
    fit(session, MANY_ROWS)

    with fitted(session, 0):
        assert session.conf.get(WHOLE_STAGE) == "false"
    assert session.conf.get(WHOLE_STAGE) == "true"


def test_what_the_configuration_says_of_compilation_is_left_alone(spark: SparkSession) -> None:
    session = another(spark)
    session.conf.set("spark.dblog.fitted", "false")  # as where spark.sql.codegen.* was given
    session.conf.set(WHOLE_STAGE, "true")

    fit(session, 1)

    assert session.conf.get(WHOLE_STAGE) == "true"
