"""Exports spans of batches and merges with OpenTelemetry's SDK and its OTLP exporter over HTTP.

OTEL_* variables of the driver's environment configure it. Each table of a batch has a span, and
each merge of landed records:

    apply <table>     from the batch's first look at its records until they are in the Delta table and the batch is recorded
    land <table>      the same, where they are in the landing table
    merge <table>     from the landing table into the Delta table

A span is a child of the newest of the worker's spans whose records it contains, so that this trace
is whole and its sampling applies here too. It is linked to up to ``STEPS_MAX`` others. The worker's
spans of landed records are kept in memory until the merge: the first merge after a restart has no
parent.

The SDK's queue is bounded and its exporter has a separate thread. An unavailable collector costs
spans, which are counted and logged once, but no time. Values of rows never appear. Only this file
imports the SDK, which is the extra ``tracing``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from dblog_sink import __version__
from dblog_sink.errors import DefiniteError
from dblog_sink.kafka.trace_headers import STEPS_MAX, Steps

log = logging.getLogger(__name__)

_WAITS = ("land", "parked")
"""Paths of a batch's records that are not in their table yet."""
_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_NONE = Steps((), 0)
_NS = 1_000_000_000


class Traces:
    """The spans of one job.

    ``take`` is a listener of the progress lines; threads may call it concurrently. The constructor
    raises DefiniteError if the variables ask for something that is not supported.
    """

    def __init__(self, *, name: str, counted: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _facts: None) -> None:
        """Set up the exporter.

        ``name`` is the pipeline's. ``counted`` receives the number of spans that the collector took
        or refused.
        """
        exporter = os.environ.get(_EXPORTER, "").strip() or "otlp"
        if exporter not in {"otlp", "none"}:
            msg = f"{_EXPORTER} is {exporter}, and traces go out by OTLP alone; set it to otlp or none, or unset it"
            raise DefiniteError(msg)
        for variable in _PROTOCOLS:
            if (protocol := os.environ.get(variable, "").strip()) not in {"", _HTTP}:
                msg = f"{variable} is {protocol}, and traces go out by {_HTTP} alone; set it to that, and the endpoint to the collector's port for HTTP (4318)"
                raise DefiniteError(msg)
        # It logs each attempt; the exporter below logs once.
        quiet = logging.getLogger("opentelemetry")
        quiet.propagate = False
        quiet.addHandler(logging.NullHandler())
        given = Resource.create({SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: name})
        unnamed = str(given.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
        try:
            # Not at the interpreter's exit, which would wait for an unavailable collector;
            # ``close`` ends it.
            self._provider = TracerProvider(
                resource=given.merge(Resource({SERVICE_NAME: "dblog-sink"})) if unnamed else given, shutdown_on_exit=False
            )
            if exporter == "otlp":
                self._provider.add_span_processor(BatchSpanProcessor(_CountingExporter(OTLPSpanExporter(), counted)))
        except ValueError as e:
            msg = f"the OTEL_* variables make no exporter of traces: {e}; correct them, or set tracing.enabled=false"
            raise DefiniteError(msg) from e
        self._tracer = self._provider.get_tracer("dblog_sink", __version__)
        self._turn = threading.Lock()
        self._began_ns = 0
        self._sequence = -1
        self._batch: dict[str, Steps] = {}
        self._landed: dict[str, list[tuple[int, Steps]]] = {}

    def batch_read(self, sequence: int, steps: Mapping[str, Steps], *, began_ns: int) -> None:
        """Record that a batch began and has records of these worker spans, by table.

        Its outcome follows as a progress line, or it is tried again.
        """
        with self._turn:
            self._sequence, self._batch, self._began_ns = sequence, dict(steps), began_ns

    def take(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Make spans from one progress line."""
        match kind:
            case "batch":
                with self._turn:
                    steps, began_ns = self._batch, self._began_ns
                    self._batch = {}
                for table, one in facts["tables"].items():
                    of_table = steps.get(table, _NONE)
                    if one["path"] in _WAITS:
                        self._wait(table, of_table)
                    name = "land" if one["path"] in _WAITS else "apply"
                    self._span(name, table, of_table, one, began_ns=began_ns, attributes={"dblog.batch_id": facts["batch_id"]})
            case "batch_failed":
                with self._turn:
                    steps, began_ns, self._batch = self._batch, self._began_ns, {}
                for table, of_table in steps.items():
                    self._span("apply", table, of_table, {}, began_ns=began_ns, error="the batch failed; the log has the reason")
            case "merge":
                began_ns = time.time_ns() - int(facts["seconds"] * _NS)
                self._span("merge", facts["table"], self._merged(facts["table"], facts["sequence"]), facts, began_ns=began_ns)
            case _:
                pass

    def close(self, limit_s: float) -> None:
        """Send remaining spans, for at most ``limit_s`` seconds."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(limit_s)

    def _wait(self, table: str, steps: Steps) -> None:
        """Keep worker spans of landed records until their merge, as many as a span may have."""
        if not steps.newest:
            return
        with self._turn:
            waiting = self._landed.setdefault(table, [])
            waiting.append((self._sequence, steps))
            room = STEPS_MAX
            for at in range(len(waiting) - 1, -1, -1):
                sequence, one = waiting[at]
                waiting[at] = (sequence, Steps(one.newest[:room], one.total))
                room -= len(waiting[at][1].newest)
            # A table may be parked for months, so batches without room left are counted together.
            crowded_out = next(at for at, (_, one) in enumerate(waiting) if one.newest)
            if crowded_out > 1:
                total = sum(one.total for _, one in waiting[:crowded_out])
                waiting[:crowded_out] = [(waiting[crowded_out - 1][0], Steps((), total))]

    def _merged(self, table: str, sequence: int) -> Steps:
        """Return the worker spans of batches up to this sequence, newest first, and forget them."""
        with self._turn:
            waiting = self._landed.pop(table, [])
            later = [one for one in waiting if one[0] > sequence]
            if later:
                self._landed[table] = later
        merged = [steps for at, steps in waiting if at <= sequence]
        newest = [text for steps in reversed(merged) for text in steps.newest]
        return Steps(tuple(dict.fromkeys(newest)), sum(steps.total for steps in merged))

    def _span(
        self,
        name: str,
        table: str,
        steps: Steps,
        facts: Mapping[str, Any],
        *,
        began_ns: int,
        attributes: Mapping[str, int] | None = None,
        error: str | None = None,
    ) -> None:
        contexts = [context for text in steps.newest if (context := context_of(text)) is not None]
        sampled = [context for context in contexts if context.trace_flags.sampled]
        parent = next(iter(sampled or contexts), None)
        given = {
            "db.collection.name": table,
            "dblog.records": facts.get("records"),
            "dblog.path": facts.get("path"),
            "dblog.rows.upserted": facts.get("upserts"),
            "dblog.rows.deleted": facts.get("deletes"),
            "dblog.records.quarantined": facts.get("bad"),
            "dblog.source.lag_s": facts.get("source_lag_s"),
            "dblog.steps": steps.total,
            **(attributes or {}),
        }
        span = self._tracer.start_span(
            f"{name} {table}",
            context=None if parent is None else set_span_in_context(NonRecordingSpan(parent)),
            kind=SpanKind.CONSUMER,
            attributes={key: value for key, value in given.items() if value is not None},
            links=[Link(context) for context in sampled[1:STEPS_MAX]],
            start_time=began_ns,
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end()


def context_of(traceparent: str) -> SpanContext | None:
    """Return the span that a header names, or None if its ids are zero and name none.

    The text must have the header's form.
    """
    _, trace_id, span_id, flags = traceparent.split("-")
    context = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return context if context.is_valid else None


class _CountingExporter(SpanExporter):
    """An exporter that counts spans, and logs an unavailable collector once."""

    def __init__(self, exporter: SpanExporter, counted: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._exporter = exporter
        self._counted = counted
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        taken = result is SpanExportResult.SUCCESS
        self._counted("spans", {"result": "exported" if taken else "lost", "spans": len(spans)})
        if taken and self._lost:
            log.info("the collector accepts traces again; %d spans were lost", self._lost)
        elif not taken and not self._lost:
            log.warning(
                "the collector does not accept traces; spans are lost until it does, and tables are not delayed. Check OTEL_EXPORTER_OTLP_ENDPOINT"
            )
        self._lost = 0 if taken else self._lost + len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)
