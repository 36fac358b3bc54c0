"""Exports spans to a collector with OpenTelemetry's SDK and its OTLP exporter over HTTP. The OTEL_*
environment variables configure it.

The SDK's queue is bounded and its exporter has its own thread, so a slow or missing collector costs
spans but never time. Lost spans are counted. The loss is logged once until the collector accepts
spans again; the SDK's own log lines, one for each try, are suppressed.

No other file imports the SDK, which is the optional dependency ``tracing``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from dblog import __version__
from dblog.errors import DefiniteError
from dblog.observe.numbers import Counts

log = structlog.get_logger(__name__)

_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_OUTCOMES = 2


class Traces:
    """Tracer and exporter of one process.

    Raises DefiniteError for OTEL_* values that it cannot serve.
    """

    def __init__(self, *, service: str, instance: str) -> None:
        """Create the exporter from the environment.

        ``service`` is the service name if OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES give none.
        ``instance`` distinguishes the processes of one service.
        """
        exporter = os.environ.get(_EXPORTER, "").strip() or "otlp"
        if exporter not in {"otlp", "none"}:
            message = f"{_EXPORTER} is {exporter}, and traces go out by OTLP alone; set it to otlp or none, or unset it"
            raise DefiniteError(message)
        for name in _PROTOCOLS:
            if (protocol := os.environ.get(name, "").strip()) not in {"", _HTTP}:
                message = f"{name} is {protocol}, and traces go out by {_HTTP} alone; set it to that, and the endpoint to the collector's port for HTTP (4318)"
                raise DefiniteError(message)
        _quiet()
        self._counts = Counts(_OUTCOMES)
        given = Resource.create({SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: instance})
        named = given if _is_named(given) else given.merge(Resource({SERVICE_NAME: service}))
        try:
            # Without shutdown_on_exit=False the interpreter's exit would wait for a missing
            # collector. ``close`` ends the provider instead.
            self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
            if exporter == "otlp":
                self._provider.add_span_processor(BatchSpanProcessor(_CountingExporter(OTLPSpanExporter(), self._counts)))
        except ValueError as e:
            message = f"the OTEL_* variables make no exporter of traces: {e}; correct them, or set dblog.tracing.enabled=false"
            raise DefiniteError(message) from e
        self.tracer: Tracer = self._provider.get_tracer("dblog", __version__)

    def numbers(self) -> Mapping[str, float]:
        """Return the counts of exported and lost spans as a task's numbers."""
        return self._counts.numbers("trace_spans_total")

    def close(self, limit_s: float) -> None:
        """Export the remaining spans, waiting at most ``limit_s``."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(limit_s)


class _CountingExporter(SpanExporter):
    """Counts exported and lost spans, and logs an unreachable collector once."""

    def __init__(self, exporter: SpanExporter, counts: Counts) -> None:
        self._exporter = exporter
        self._counts = counts
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._counts.add("exported", len(spans))
            if self._lost:
                log.info("the collector accepts traces again", spans_lost=self._lost)
                self._lost = 0
            return result
        self._counts.add("lost", len(spans))
        if not self._lost:
            log.warning(
                "the collector does not accept traces; spans are lost until it does, and records are not delayed. Check OTEL_EXPORTER_OTLP_ENDPOINT"
            )
        self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _is_named(resource: Resource) -> bool:
    return not str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")


def _quiet() -> None:
    quiet = logging.getLogger("opentelemetry")
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
