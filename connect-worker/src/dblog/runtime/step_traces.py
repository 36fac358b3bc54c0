"""Traces each step of a task, from one poll of the queue to Kafka's acknowledgement.

All records of a step carry the same ``traceparent`` header (W3C Trace Context), created once per
step, so a consumer can continue the trace. The spans are

    capture                   from the end of the step's first batch in the reader
    │                         to the acknowledgement of its last batch
    ├── wait                  in the queue
    └── send <topic>          for each topic, from the sender to the acknowledgement

Spans name tables, topics and positions. About rows they contain only numbers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from dblog.model import Batch, Headers

TRACEPARENT = "traceparent"

TOPICS_MAX = 32
"""Maximum number of topics of a step with a span of their own; ``capture`` counts all topics."""


@dataclass(slots=True)
class _Step:
    """A step that is not fully acknowledged; ``spans`` holds its open spans, the outermost last."""

    batches: int
    spans: list[Span] = field(default_factory=list)


class StepTraces:
    """Traces of the steps of one run, which are acknowledged in order.

    ``attributes`` are set on every span.
    """

    def __init__(self, tracer: Tracer, attributes: Mapping[str, str | int]) -> None:
        self._tracer = tracer
        self._attributes = dict(attributes)
        self._steps: deque[_Step] = deque()

    def polled(self, batches: Sequence[Batch]) -> Headers | None:
        """Begin a step with these batches and return the headers of its records.

        Return None if the step has no records or the tracing SDK is disabled.
        """
        step = _Step(len(batches))
        self._steps.append(step)
        records = sum(batch.records_total for batch in batches)
        if not records:
            return None
        now_ns = time.time_ns()
        queued_ns = next((batch.queued_at_ns for batch in batches if batch.queued_at_ns), now_ns)
        capture = self._tracer.start_span("capture", start_time=queued_ns, attributes=self._attributes)
        if capture.is_recording():
            step.spans = self._of_topics(batches, capture, queued_ns, now_ns)
            capture.set_attribute("dblog.records", records)
            capture.set_attribute("dblog.bytes", sum(batch.bytes_total for batch in batches))
            times_us = [batch.source_ts_us for batch in batches if batch.source_ts_us is not None]
            if times_us:
                capture.set_attribute("dblog.source.ts_ms", max(times_us) // 1000)
        step.spans.append(capture)
        context = capture.get_span_context()
        return [(TRACEPARENT, traceparent(context).encode())] if context.is_valid else None

    def acknowledged(self, batches: int, position: object) -> None:
        """Note that Kafka acknowledged this number of further batches, up to ``position`` in the
        log.
        """
        while batches:
            step = self._steps[0]
            taken = min(batches, step.batches)
            step.batches -= taken
            batches -= taken
            if not step.batches:
                self._steps.popleft()
                if step.spans and step.spans[-1].is_recording():
                    step.spans[-1].set_attribute("dblog.position", str(position))
                for span in step.spans:
                    span.end()

    def close(self) -> None:
        """End the run's open spans with an error; the next run sends their records again."""
        for step in self._steps:
            for span in step.spans:
                span.set_status(Status(StatusCode.ERROR, "the run ended before Kafka acknowledged all records"))
                span.end()
        self._steps.clear()

    def _of_topics(self, batches: Sequence[Batch], capture: Span, queued_ns: int, now_ns: int) -> list[Span]:
        parent = set_span_in_context(capture)
        self._tracer.start_span("wait", context=parent, start_time=queued_ns, attributes=self._attributes).end(now_ns)
        counts: dict[str, int] = {}
        tables: dict[str, str] = {}
        for batch in batches:
            for segment in batch.segments:
                counts[segment.topic] = counts.get(segment.topic, 0) + len(segment.values)
                if segment.table is not None:
                    tables[segment.topic] = str(segment.table)
        capture.set_attribute("dblog.topics", len(counts))
        spans = []
        for topic, count in list(counts.items())[:TOPICS_MAX]:
            attributes = {
                **self._attributes,
                "messaging.system": "kafka",
                "messaging.operation.name": "send",
                "messaging.destination.name": topic,
                "messaging.batch.message_count": count,
            }
            if topic in tables:
                attributes["db.collection.name"] = tables[topic]
            spans.append(
                self._tracer.start_span(f"send {topic}", context=parent, kind=SpanKind.PRODUCER, start_time=now_ns, attributes=attributes)
            )
        return spans


def traceparent(context: SpanContext) -> str:
    """Return the header's value in the form of W3C Trace Context, version 00."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
