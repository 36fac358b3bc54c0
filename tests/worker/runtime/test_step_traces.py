"""Traces of a task's steps over a real broker and a collector: what records carry, what spans show, and what a collector that is away costs."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any

import pytest
from dblog.config import tracing
from dblog.config.tracing import TRACING
from dblog.errors import TransientError
from dblog.model import Batch, Segment, TableId
from stack import Kafka
from stack.process import free_port
from support.otlp_collector import Collector, Span, collector
from worker.runtime.test_supervisor import CountingTask, World, until

ON = {TRACING: "true"}
SAMPLED = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]")
NOT_SAMPLED = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[02]")
"""The second bit of the flags: the trace's id is random."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans go out after a tenth of a second instead of five."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


@pytest.fixture
def world(kafka: Kafka) -> Iterator[World]:
    made = World(kafka)
    yield made
    made.stop()


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def headers_of(message: Any) -> dict[str, bytes]:
    return dict(message.headers() or [])


def test_each_record_carries_the_span_that_its_step_was_captured_in(world: World, spans: Collector) -> None:
    world.start(worker=ON)

    records = world.records(world.topic, 20)

    captured = spans.wait_for(lambda all_spans: len(found := named(all_spans, "capture")) == 20 and found)
    carried = [headers_of(one)["traceparent"].decode() for one in records]
    assert [one[:-3] for one in carried] == [f"00-{span.trace}-{span.id}" for span in sorted(captured, key=lambda span: span.start_ns)]
    assert {headers_of(one)["context"] for one in records} == {b"yes"}
    assert records[4].value() is None, "a tombstone has it too"


def test_a_step_is_shown_from_the_queue_to_the_acknowledgement(world: World, spans: Collector) -> None:
    world.upto = 1
    world.source_ts_us = 1_700_000_000_123_456
    world.start(worker=ON)

    capture, send, wait = sorted(spans.wait_for(lambda found: len(found) == 3 and found), key=lambda one: one.name)

    assert send.name == f"send {world.topic}"
    assert {(one.trace, one.parent) for one in (wait, send)} == {(capture.trace, capture.id)}
    assert capture.has_in_it(wait)
    assert capture.has_in_it(send)
    assert capture.service == "dblog-worker"
    assert capture.attributes == {
        "dblog.connector": "c",
        "dblog.task": 0,
        "dblog.records": 1,
        "dblog.bytes": 2,
        "dblog.topics": 1,
        "dblog.source.ts_ms": 1_700_000_000_123,
        "dblog.position": str(world.tasks[0].fold),
    }
    assert send.attributes["messaging.destination.name"] == world.topic
    assert send.attributes["messaging.batch.message_count"] == 1


def test_records_without_context_and_records_with_headers_of_their_own_carry_it_too(
    world: World, spans: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poll(task: CountingTask, **_: object) -> list[Batch]:
        if task.next > 1:
            return []
        task.next = 2
        own = Segment(world.topic, [b"a", b"b"], [b"1", b"2"], TableId("shop", "t"), headers={1: [("own", b"1")]})
        plain = Segment(world.topic, [b"c"], [b"3"], context_headers=False)
        return [Batch([own, plain], 1, 3, 6)]

    monkeypatch.setattr(CountingTask, "poll", poll)
    world.start(worker=ON)

    records = world.records(world.topic, 3)

    found = [headers_of(one) for one in records]
    assert [sorted(one) for one in found] == [["context", "traceparent"], ["context", "own", "traceparent"], ["traceparent"]]
    assert len({one["traceparent"] for one in found}) == 1
    (send,) = spans.wait_for(lambda all_spans: named(all_spans, f"send {world.topic}"))
    assert send.attributes["db.collection.name"] == "shop.t"
    assert send.attributes["messaging.batch.message_count"] == 3


def test_the_connectors_key_counts_before_the_workers(world: World, spans: Collector) -> None:
    world.start(worker=ON, **{TRACING: "false"})

    records = world.records(world.topic, 20)

    assert {tuple(sorted(headers_of(one))) for one in records} == {("context",)}
    assert spans.requests == 0


def test_without_the_key_nothing_of_opentelemetry_is_imported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []
    real = builtins.__import__

    def noted(name: str, *args: Any) -> Any:
        imported.append(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", noted)
    world.start()

    assert "traceparent" not in headers_of(world.records(world.topic, 20)[0])
    assert not [name for name in imported if "opentelemetry" in name]


def test_what_is_not_sampled_is_marked_so_and_reports_no_span(world: World, spans: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    world.start(worker=ON)

    records = world.records(world.topic, 20)
    world.stop()

    assert all(NOT_SAMPLED.fullmatch(headers_of(one)["traceparent"]) for one in records)
    assert spans.requests == 0


def test_a_disabled_sdk_adds_no_header(world: World, spans: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    world.start(worker=ON)

    assert {tuple(headers_of(one)) for one in world.records(world.topic, 20)} == {("context",)}
    world.stop()
    assert spans.requests == 0


def test_a_collector_that_is_away_holds_up_no_record_and_is_logged_once(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:sesame-open@127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    world.start(worker=ON)

    records = world.records(world.topic, 20)
    lost = world.wait_number("trace_spans_total|lost", lambda count: count >= 8)

    assert all(SAMPLED.fullmatch(headers_of(one)["traceparent"]) for one in records)
    assert world.stored()[-1] == 20
    assert "trace_spans_total|exported" not in lost
    with collector(port) as back:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", back.url)
        world.upto = 30
        world.wait_number("trace_spans_total|exported", lambda count: count > 0)
    world.stop()
    printed = capsys.readouterr()
    assert printed.out.count("the collector does not accept traces") == 1
    assert printed.out.count("the collector accepts traces again") == 1
    assert "sesame" not in printed.out + printed.err
    assert "opentelemetry" not in printed.err, "the SDK's own lines, one for each try, are left out"


def test_the_end_of_a_task_does_not_wait_for_a_collector_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    world.start(worker=ON)
    world.records(world.topic, 20)

    world.stop()

    assert world.exit_code == 0


def test_a_run_that_ends_early_shows_what_was_not_acknowledged(world: World, spans: Collector) -> None:
    world.poll_errors[11] = TransientError("the database went away")
    world.large_at = 6
    world.start(worker=ON, **{"producer.override.max.request.size": "2000", "errors.tolerance": "none", "dblog.retry.timeout.ms": "100"})
    world.wait_state("FAILED")

    failed = spans.wait_for(lambda all_spans: [one for one in named(all_spans, "capture") if one.error is not None])

    assert failed[0].error == "the run ended before Kafka acknowledged all records"


def test_every_lent_header_comes_back_when_its_records_are_acknowledged(world: World, spans: Collector) -> None:
    world.upto = 2000
    world.start(worker=ON)
    world.wait_sent(2000, outstanding=0)

    assert all(SAMPLED.fullmatch(headers_of(one)["traceparent"]) for one in world.records(world.topic, 2000))
    assert world.stored()[-1] == 2000


@pytest.mark.parametrize(
    ("variable", "given", "reason"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and traces go out by http/protobuf alone"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER is zipkin, and traces go out by OTLP alone; set it to otlp or none"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "the OTEL_* variables make no exporter of traces: max_queue_size must be a positive integer"),
    ],
)
def test_a_variable_that_asks_for_what_is_not_here_fails_the_task_with_the_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch, variable: str, given: str, reason: str
) -> None:
    monkeypatch.setenv(variable, given)
    world.start(worker=ON)

    assert reason in world.wait_state("FAILED")["trace"]


def test_a_missing_extra_is_an_error_at_the_start_that_names_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "PACKAGES", ("no_such_package.sdk",))
    world.start(worker=ON)

    trace = world.wait_state("FAILED")["trace"]

    assert "pip install 'dblog[tracing]'" in trace
    assert TRACING in trace
    until(lambda: world.exit_code == 1)
