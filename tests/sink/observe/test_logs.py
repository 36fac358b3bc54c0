"""The driver's log as a log store reads it: one JSON object a line, each event with its numbers, and no secret in any of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from dblog_sink.cli import main
from dblog_sink.config import job_options
from dblog_sink.observe import logs
from dblog_sink.observe.progress import Progress
from dblog_sink.tables.modes.work import Applied

REQUIRED = {"kafka.bootstrap.servers": "b:9092", "registry.url": "http://r", "target.path": "/lake", "topics": "a.b.c"}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_batch_is_a_line_and_each_of_its_tables_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(layout="json")
    progress = Progress(None, log_facts=True)
    written = Applied(table="shop.a", topic="t.shop.a", records=5, upserts=3, path="merge", rows=40, seconds=0.5)

    progress.batch(7, [written], seconds=1.5, records=5, resent=0, phases={"read": 0.25})
    progress.emit("snapshot", number=4, source_ts_ms=1, seconds=2.5, tables=3)
    progress.emit("parked", table="shop.a", topic="t.shop.a", reason="r")
    for _ in range(3):
        progress.emit("idle", batch_id=7, records_behind=0, rows_waiting=0, lag_s=0.0)

    found = lines(capsys)
    assert [(line["event"], line["level"]) for line in found] == [
        ("batch", "info"),
        ("table", "info"),
        ("snapshot", "info"),
        ("parked", "error"),
        ("idle", "info"),
    ]
    assert (found[0]["batch_id"], found[0]["tables"], found[0]["phases"]) == (7, 1, {"read": 0.25})
    assert (found[1]["table"], found[1]["batch_id"], found[1]["upserts"], found[1]["path"]) == ("shop.a", 7, 3, "merge")
    assert all(line["timestamp"].endswith("Z") and line["logger"] == "dblog_sink.observe.progress" for line in found)


def test_secrets_of_the_configuration_are_in_no_line_of_either_layout(capsys: pytest.CaptureFixture[str]) -> None:
    settings = job_options.parse(
        {
            **REQUIRED,
            "registry.auth": 'reader:re"gistry-pw',
            "kafka.sasl.jaas.config": 'org.x.PlainLoginModule required username="u" password="kafka\\pw";',
            "kafka.ssl.keystore.password": "keystore-pw",
            "spark.hadoop.fs.s3a.secret.key": "s3-secret",
            "spark.hadoop.fs.s3a.access.key": "s3-access",
        }
    )
    shown = ['re"gistry-pw', "kafka\\pw", "keystore-pw", "s3-secret", "s3-access"]

    for layout in logs.FORMATS:
        logs.configure(layout=layout, secrets=settings.secrets)
        try:
            raise ValueError(f"refused: {shown}")
        except ValueError:
            logging.getLogger("x").exception("client with %s of %s", *(" ".join(shown), settings.kafka["kafka.sasl.jaas.config"]))
        logging.getLogger("x").info("facts", extra={logs.FACTS: {"reason": shown[0], "all": {"nested": shown}}})

        text = capsys.readouterr().err
        assert "hidden" in text
        assert not [secret for secret in ["gistry-pw", "kafka\\pw", "kafka\\\\pw", *shown[2:]] if secret in text]


def test_a_key_in_pem_is_in_no_line_even_if_a_message_has_its_lines_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", "AgEAAoIBAQC7VJTUt9Us8cKj"]
    begin, end = (f"-----{mark} PRIVATE KEY-----" for mark in ("BEGIN", "END"))
    key = "\n".join([begin, *body, end])
    settings = job_options.parse(
        {
            **REQUIRED,
            "kafka.ssl.keystore.key": key,
            "spark.hadoop.fs.s3a.encryption.key": "sse-c-key",
            "spark.io.encryption.keySizeBits": "256",
        }
    )

    for layout in logs.FORMATS:
        logs.configure(layout=layout, secrets=settings.secrets)
        logging.getLogger("x").info("refused: %s", key)
        logging.getLogger("x").info("refused: %s, and sse-c-key", " ".join(key.split("\n")), extra={logs.FACTS: {"bits": "256"}})

        text = capsys.readouterr().err
        assert "hidden" in text
        assert not [secret for secret in [*body, "sse-c-key"] if secret in text]
    assert "256" not in settings.secrets


def test_a_line_break_in_a_message_begins_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(layout="json")

    logging.getLogger("x").info('one\n{"event":"forged"}\u2028 %s', "\x1b[2J")

    (line,) = capsys.readouterr().err.split("\n")[:-1]
    assert json.loads(line)["event"] == 'one\n{"event":"forged"}\u2028 \x1b[2J'
    assert "\u2028" not in line


def test_the_level_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(layout="json", level="WARN")

    logging.getLogger("dblog_sink.x").info("quiet")
    logging.getLogger("dblog_sink.x").warning("loud")

    assert [line["event"] for line in lines(capsys)] == ["loud"]


def test_a_configuration_at_fault_is_reported_in_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "log.format=json", "--set", "merge.threads=none"]) == 2

    assert "merge.threads must be a whole number" in [line["event"] for line in lines(capsys)]
