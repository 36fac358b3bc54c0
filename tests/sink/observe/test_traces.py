"""Traces of the sink: one row from the source to Delta in one trace, batches of many steps, merges of what has landed, a collector that is away."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.job.start import observers_of
from dblog_sink.kafka.trace_headers import STEPS_MAX, Steps
from dblog_sink.observe.traces import Traces, context_of
from pyspark.sql import SparkSession
from sink.harness import change, tombstone
from sink.job import Job
from stack import Kafka, MariaDb
from stack.process import free_port
from support.otlp_collector import Collector, Span, collector
from support.registry_server import RegistryServer
from support.servers import execute, new_database
from support.task_process import configured, task_process

LIMIT_S = 600.0
VALUE = "nobody-may-read-this"
REQUIRED = {"kafka.bootstrap.servers": "b", "registry.url": "http://r", "topics": "t", "target.path": "/lake"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield made


@pytest.fixture
def traces(spans: Collector) -> Iterator[Traces]:
    made = Traces(name="p")
    yield made
    made.close(5.0)


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path, traces: Traces) -> Job:
    made = Job(spark, kafka, registry, tmp_path)
    made.traces, made.listener = traces, traces.take
    made.settings["tracing.enabled"] = "true"
    return made


def header(number: int, flags: str = "01") -> str:
    return f"00-{number:032x}-{number:016x}-{flags}"


class Records:
    """A topic's records, in order, as they come."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])

    def take(self, count: int) -> list[tuple[dict[str, Any] | None, str]]:
        """The next ones: payload and ``traceparent``."""
        found: list[tuple[dict[str, Any] | None, str]] = []
        until_s = time.monotonic() + LIMIT_S
        while len(found) < count:
            assert time.monotonic() < until_s, f"{len(found)} records came"
            for one in self._consumer.consume(count - len(found), timeout=0.5):
                if one.error() is None:
                    text = one.value()
                    found.append((None if text is None else json.loads(text)["payload"], dict(one.headers())["traceparent"].decode()))
        return found

    def close(self) -> None:
        self._consumer.close()


def of_trace(found: list[Span], trace: str, service: str) -> list[Span]:
    """Spans of a trace, or with a link to it."""
    return [span for span in found if span.service == service and (span.trace == trace or trace in {link for link, _ in span.links})]


def committed(found: list[Span], trace: str) -> list[Span]:
    """Those of the sink that end in a Delta table."""
    return [span for span in of_trace(found, trace, "dblog-sink") if not span.name.startswith("land ")]


@pytest.mark.long
def test_a_row_is_followed_from_the_log_to_the_delta_commit(kafka: Kafka, mariadb: MariaDb, spans: Collector, job: Job) -> None:
    database = new_database(mariadb, "traced")
    execute(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')", database=database)
    config = {**configured(kafka, mariadb, database), "dblog.tracing.enabled": "true"}
    topic = f"{config['topic.prefix']}.{database}.t"
    del job.settings["topics.pattern"]
    job.settings["topics"] = topic
    records = Records(kafka, topic)
    with task_process() as task:
        task.start(config, bootstrap=kafka.bootstrap)
        dumped = records.take(3)
        with job.running():
            for _, carried in dumped:
                spans.wait_for(lambda found, carried=carried: committed(found, carried.split("-")[1]), LIMIT_S)
            execute(mariadb, f"INSERT INTO t VALUES (4, '{VALUE}')", database=database)
            ((inserted, carried),) = records.take(1)
            trace, span_id = carried.split("-")[1:3]
            (applied,) = spans.wait_for(lambda found: committed(found, trace), LIMIT_S)
        execute(mariadb, "DELETE FROM t WHERE id = 4", database=database)
        deleted, null = records.take(2)
        assert task.seconds_to_stop() < 5
    records.close()

    # The dump's rows have the header of their step, and so have a delete and its tombstone.
    assert {row["source"]["snapshot"] for row, _ in dumped} == {"incremental"}
    assert all(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", carried) for _, carried in dumped)
    assert (deleted[0]["op"], null[0]) == ("d", None)
    assert deleted[1] == null[1]
    # One row's way.
    assert inserted["after"] == {"id": 4, "v": VALUE}
    worker = {span.name: span for span in of_trace(spans.spans, trace, "dblog-worker")}
    assert sorted(worker) == ["capture", f"send {topic}", "wait"]
    capture = worker["capture"]
    assert capture.id == span_id
    assert capture.attributes["db.system"] == capture.attributes["db.system.name"] == "mariadb"
    assert (capture.attributes["dblog.connector"], capture.attributes["dblog.task"]) == (config["name"], 0)
    assert re.fullmatch(r"\S+\.\d+:\d+", capture.attributes["dblog.position"])
    assert worker[f"send {topic}"].attributes["db.collection.name"] == f"{database}.t"
    assert (applied.trace, applied.parent, applied.links) == (trace, span_id, [])
    assert applied.attributes["db.collection.name"] == f"{database}.t"
    assert applied.attributes["dblog.rows.upserted"] == 1
    assert applied.end_ns > capture.start_ns
    # Of rows, keys and logins there is nothing.
    for hidden in (VALUE, mariadb.password):
        assert hidden.encode() not in spans.bodies


@pytest.mark.long
def test_a_batch_is_a_child_of_its_newest_step_and_linked_to_a_bounded_number_of_others(job: Job, spans: Collector) -> None:
    one, many, plain, damaged, quiet = (job.table(name) for name in ("one", "many", "plain", "damaged", "quiet"))
    job.create(one, many, plain, damaged, quiet)
    row = {"id": 1, "v": VALUE}
    job.send(change(one, "c", row, at=1), change(one, "d", row, at=2), tombstone(one, row), headers=[("traceparent", header(7).encode())])
    for number in range(1, STEPS_MAX + 73):
        # Half of them are not sampled, and the newest is one of these.
        text = header(number, "01" if number % 2 else "00")
        job.send(change(many, "c", {"id": number, "v": VALUE}, at=number), headers=[("own", b"\xff"), ("traceparent", text.encode())])
    job.send(change(plain, "c", row, at=1))
    job.send(change(damaged, "c", row, at=1), headers=[("traceparent", b"00-xyz\xff"), ("other", b"")])
    job.send(change(quiet, "c", row, at=1), headers=[("traceparent", header(9, "00").encode())])

    with job.running():
        job.wait("all tables", lambda: all(job.rows(table) for table in (many, plain, damaged, quiet)))
        spans.wait_for(lambda all_spans: len({span.attributes["db.collection.name"] for span in all_spans}) >= 4)

    def of(table: str) -> Span:
        """The table's first span: how it was brought in is the policy's choice."""
        return next(span for span in spans.spans if span.attributes["db.collection.name"] == table)

    assert (of("shop.one").trace, of("shop.one").parent) == (f"{7:032x}", f"{7:016x}")
    assert (of("shop.one").attributes["dblog.records"], of("shop.one").attributes["dblog.steps"]) == (3, 1)
    sampled = {f"{number:032x}" for number in range(1, STEPS_MAX + 73, 2)}
    linked = {trace for trace, _ in of("shop.many").links}
    assert of("shop.many").trace in sampled
    assert linked | {of("shop.many").trace} == sampled
    assert of("shop.many").attributes["dblog.steps"] == STEPS_MAX + 72
    for table in ("shop.plain", "shop.damaged"):
        assert (of(table).parent, of(table).links) == ("", []), "it begins a trace of its own"
    assert "shop.quiet" not in {span.attributes["db.collection.name"] for span in spans.spans}, "the worker has not sampled it"
    assert {span.service for span in spans.spans} == {"dblog-sink"}
    assert VALUE.encode() not in spans.bodies


def facts(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "records": 2, "upserts": 1, "deletes": 0, "bad": 0, "seconds": 0.25, "source_lag_s": None, **more}


def batch(traces: Traces, sequence: int, path: str, *numbers: int) -> None:
    steps = Steps(tuple(map(header, numbers)), len(numbers))
    traces.batch_read(sequence, {"shop.t": steps}, began_ns=time.time_ns())
    traces.take("batch", {"batch_id": sequence, "tables": {"shop.t": facts(path)}})


def test_a_merge_goes_on_with_the_steps_that_have_landed_up_to_it(traces: Traces, spans: Collector) -> None:
    batch(traces, 1, "land", 1)
    batch(traces, 2, "land", 2)
    batch(traces, 3, "land", 3)
    traces.take("merge", {"table": "shop.t", "sequence": 2, **facts("merge")})
    traces.take("merge", {"table": "shop.t", "sequence": 3, **facts("merge")})
    traces.take("merge", {"table": "shop.t", "sequence": 4, **facts("merge")})

    landed, merged = (
        [span for span in spans.wait_for(lambda found: len(found) == 6 and found) if span.name == name]
        for name in ("land shop.t", "merge shop.t")
    )

    assert {span.trace for span in landed} == {f"{number:032x}" for number in (1, 2, 3)}
    first, second, third = sorted(merged, key=lambda span: span.end_ns)
    assert (first.trace, [trace for trace, _ in first.links]) == (f"{2:032x}", [f"{1:032x}"])
    assert (second.trace, second.links) == (f"{3:032x}", [])
    assert (third.parent, third.links) == ("", []), "nothing has landed since"
    assert first.end_ns - first.start_ns >= 250_000_000


def test_what_waits_for_a_merge_is_bounded(traces: Traces, spans: Collector) -> None:
    for number in range(1, STEPS_MAX + 11):
        batch(traces, number, "land", number)
    traces.take("merge", {"table": "shop.t", "sequence": 1000, **facts("merge")})

    (merged,) = spans.wait_for(lambda found: [span for span in found if span.name == "merge shop.t"])

    assert merged.trace == f"{STEPS_MAX + 10:032x}"
    assert [trace for trace, _ in merged.links] == [f"{number:032x}" for number in range(STEPS_MAX + 9, 10, -1)]
    assert merged.attributes["dblog.steps"] == STEPS_MAX + 10


def test_a_batch_that_fails_shows_an_error_without_the_text_of_the_error(traces: Traces, spans: Collector) -> None:
    traces.batch_read(1, {"shop.t": Steps((header(1),), 1)}, began_ns=time.time_ns())
    traces.take("batch_failed", {})
    batch(traces, 1, "merge", 1)

    failed, applied = sorted(spans.wait_for(lambda found: len(found) == 2 and found), key=lambda span: span.end_ns)

    assert (failed.trace, failed.error) == (f"{1:032x}", "the batch failed; the log has the reason")
    assert (applied.trace, applied.error) == (f"{1:032x}", None)


def test_an_id_of_zeros_is_no_parent() -> None:
    assert context_of(header(1)) is not None
    assert context_of(header(0)) is None


def test_a_sampler_that_is_off_reports_nothing(monkeypatch: pytest.MonkeyPatch, spans: Collector) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    traces = Traces(name="p")
    batch(traces, 1, "merge", 1)
    traces.close(5.0)

    assert spans.requests == 0


def test_a_collector_that_is_away_holds_up_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:sesame-open@127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    counts = {"lost": 0, "exported": 0}

    def counted(kind: str, facts: Mapping[str, Any]) -> None:
        assert kind == "spans"
        counts[facts["result"]] += facts["spans"]

    def until(result: str, least: int, began_s: float) -> None:
        while counts[result] < least:
            assert time.monotonic() - began_s < 60
            time.sleep(0.01)

    caplog.set_level(logging.INFO, "dblog_sink")
    traces = Traces(name="p", counted=counted)
    began_s = time.monotonic()
    for number in range(1, 101):
        batch(traces, number, "merge", number)
    assert time.monotonic() - began_s < 5
    until("lost", 4, began_s)
    with collector(port) as back:
        batch(traces, 101, "merge", 101)
        until("exported", 1, began_s)
        assert back.spans
    began_s = time.monotonic()
    batch(traces, 102, "merge", 102)
    traces.close(0.2)

    assert time.monotonic() - began_s < 5
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("dblog_sink")]
    assert sum("the collector does not accept traces" in line for line in lines) <= 2, (
        "once, and perhaps once more after the collector was back"
    )
    assert "the collector accepts traces again" in " ".join(lines)
    assert "sesame" not in " ".join(lines)


def test_traces_without_their_packages_end_the_start_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = job_options.parse({**REQUIRED, "tracing.enabled": "true"})
    monkeypatch.delitem(sys.modules, "dblog_sink.observe.traces")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(DefiniteError, match=re.escape("pip install 'dblog-sink[tracing]'")):
        observers_of(settings)


@pytest.mark.parametrize(
    ("variable", "given", "reason"),
    [
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "by http/protobuf alone"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "by OTLP alone"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "make no exporter of traces"),
    ],
)
def test_a_variable_that_asks_for_what_is_not_here_is_an_error(
    monkeypatch: pytest.MonkeyPatch, variable: str, given: str, reason: str
) -> None:
    monkeypatch.setenv(variable, given)

    with pytest.raises(DefiniteError, match=reason):
        Traces(name="p")


def test_without_the_option_nothing_is_traced_and_no_header_is_read() -> None:
    progress, traces = observers_of(job_options.parse(REQUIRED))

    assert traces is None
    progress.count("batch_failed")
