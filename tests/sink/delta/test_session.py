"""Plans are compiled for many rows and interpreted for few, and made for the cores that there are, unless the configuration sets them."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from dblog_sink.delta.session import MANY_ROWS, REQUIRED, SessionPool, another, fit, fitted, is_one_machine, refuse_connect, spark_session
from dblog_sink.errors import DefiniteError
from pyspark import SparkContext
from pyspark.sql import SparkSession

WHOLE_STAGE = "spark.sql.codegen.wholeStage"
SHUFFLE, SNAPSHOT = "spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def cores(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(SparkContext, "defaultParallelism", property(lambda _: number))


def test_executors_that_come_after_the_start_are_planned_for(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SessionPool(spark, 1)
    with pool.borrow() as session:
        assert [session.conf.get(name) for name in (SHUFFLE, SNAPSHOT, LISTING)] == ["2", "1", "8"]

    cores(monkeypatch, 64)
    with pool.borrow() as session:
        assert [session.conf.get(name) for name in (SHUFFLE, SNAPSHOT, LISTING)] == ["64", "16", "256"]

    cores(monkeypatch, 1000)
    with pool.borrow() as session:
        assert (session.conf.get(SHUFFLE), session.conf.get(SNAPSHOT)) == ("1000", "50")


def test_numbers_of_partitions_that_the_configuration_sets_are_left_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session = another(spark)
    session.conf.set("spark.dblog.followed", SNAPSHOT)  # as where the other was given
    session.conf.set(SHUFFLE, "7")
    cores(monkeypatch, 64)

    fit(session, 1)

    assert (session.conf.get(SHUFFLE), session.conf.get(SNAPSHOT)) == ("7", "16")


@pytest.mark.parametrize(
    ("master", "alone"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1200]", False),
        ("spark://m:7077", False),
        ("yarn", False),
    ],
)
def test_spark_plans_again_between_stages_where_rows_go_over_the_network(master: str, alone: bool) -> None:
    assert is_one_machine(master) is alone


def test_a_driver_whose_tasks_run_in_it_listens_on_this_machine_alone(spark: SparkSession) -> None:  # number 37 of the sink's safety
    assert spark.sparkContext._jvm is not None
    process = Path(f"/proc/{spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()}")

    found = listening(process)

    assert len(found) >= 2, "Spark's messages, and its blocks"
    assert all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in found), found


def listening(process: Path) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses at which a process takes connections (proc(5), net/tcp)."""
    own = {str(link.readlink()) for link in (process / "fd").iterdir() if link.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                words = bytes.fromhex(fields[1].partition(":")[0])
                found.append(ipaddress.ip_address(b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))))
    return found


def test_sparks_page_is_not_served_unless_the_configuration_asks_for_it(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None


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


def test_what_the_configuration_sets_about_compilation_is_left_alone(spark: SparkSession) -> None:
    session = another(spark)
    session.conf.set("spark.dblog.fitted", "false")  # as where spark.sql.codegen.* was given
    session.conf.set(WHOLE_STAGE, "true")

    fit(session, 1)

    assert session.conf.get(WHOLE_STAGE) == "true"


def test_what_correctness_needs_is_not_changed_by_a_configuration(spark: SparkSession) -> None:
    needed = {name: value for name, value in REQUIRED.items() if value in ("true", "false")}

    session = spark_session("t", {name: {"true": "false", "false": "true"}[value] for name, value in needed.items()})

    assert session.conf.get("spark.databricks.delta.stats.collect") == "true", "an upsert goes by the statistics of the files that it wrote"
    assert {name: session.conf.get(name) for name in needed} == needed


@pytest.mark.parametrize(
    ("given", "environment", "reason"),
    [
        ({"spark.remote": "sc://h"}, {}, "spark.remote"),
        ({}, {"SPARK_REMOTE": "sc://h"}, "SPARK_REMOTE"),
        ({"spark.api.mode": "connect"}, {}, "spark.api.mode=connect"),
        ({"spark.api.mode": "classic"}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_session_without_a_jvm_beside_python_is_refused(given: dict[str, str], environment: dict[str, str], reason: str | None) -> None:
    if reason is None:
        refuse_connect(given, environment)
        return
    with pytest.raises(DefiniteError, match=rf"one of Spark Connect \({reason}\).*docs/managed-spark.md"):
        refuse_connect(given, environment)
