"""What is reported where the brokers do not answer, do not let the sink in, or have none of its topics."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.kafka import brokers
from pyspark.sql import SparkSession
from sink.job import Job
from stack import Kafka
from stack.process import wait_until
from support.registry_server import RegistryServer

LEAST = {"kafka.bootstrap.servers": "127.0.0.1:1", "topics.pattern": r"p\..*", "registry.url": "http://r", "target.path": "/lake"}


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "dblog_sink.kafka.brokers"]


@pytest.mark.some_cases
@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_brokers_that_do_not_answer_are_waited_for_and_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, servers: str
) -> None:
    monkeypatch.setattr(brokers, "ANSWER_TIMEOUT_MS", 500)
    monkeypatch.setattr(brokers, "LOG_EVERY_S", 0.5)
    caplog.set_level(logging.WARNING)
    stopping = threading.Event()

    def stop() -> None:
        wait_until(lambda: len(reported(caplog)) > 1, timeout_s=60, what="the second report", pause_s=0.1)
        stopping.set()

    watching = threading.Thread(target=stop)
    watching.start()
    settings = job_options.parse(LEAST | {"kafka.bootstrap.servers": servers})

    assert brokers.first_answer(spark, settings, stopping) is None

    watching.join(60)
    assert all(text.startswith(f"waiting for a broker of kafka.bootstrap.servers {servers}, for ") for text in reported(caplog))


@pytest.mark.parametrize("name", ["SaslAuthenticationException", "SslAuthenticationException"])
def test_brokers_that_refuse_the_sink_stop_it_with_their_reason(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    jvm: Any = spark._jvm
    failed = jvm.java.util.concurrent.CompletableFuture()
    failed.completeExceptionally(getattr(jvm.org.apache.kafka.common.errors, name)("bad login"))
    monkeypatch.setattr(brokers, "cluster_id", lambda *_: failed.get())

    with pytest.raises(DefiniteError, match=rf"^the brokers at 127.0.0.1:1 refuse the sink, .*: {name}: bad login$"):
        brokers.first_answer(spark, job_options.parse(LEAST), threading.Event())


def test_topics_that_are_not_there_are_named(
    spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(spark, kafka, registry, tmp_path)
    caplog.set_level(logging.WARNING)

    def asked(**topics: str) -> list[str]:
        caplog.clear()
        given = {key: value for key, value in job.settings.items() if key != "topics.pattern"}
        assert brokers.first_answer(
            spark, job_options.parse(given | {key.replace("_", "."): value for key, value in topics.items()}), threading.Event()
        )
        return reported(caplog)

    table = job.table("t")
    there, absent = table.topic, f"{job.prefix}.shop.absent"
    pattern = rf"{job.prefix}\..*"
    (text,) = asked(topics_pattern=pattern)
    assert text.startswith(f"there is no topic that matches topics.pattern {pattern} (of ")
    assert asked(topics=f"{there}, {absent}") == [f"there is no topic {absent}, {there} yet"]
    job.create(table)
    assert asked(topics_pattern=pattern) == []
    assert asked(topics=f"{there}, {absent}") == [f"there is no topic {absent} yet"]
