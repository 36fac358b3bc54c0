"""Where a worker's traces go."""

from __future__ import annotations

import pytest
from dblog.observe.traces import Traces
from support.otlp_collector import collector


def test_a_collector_leads_no_traces_and_no_login_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:  # number 5 of the worker's safety
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=canary")
    with collector() as named, collector() as elsewhere:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", named.url)
        named.answer, named.location = 307, f"{elsewhere.url}/v1/traces"
        traces = Traces(service="worker", instance="one")

        traces.tracer.start_span("step").end()
        traces.close(30)

        assert (named.requests, elsewhere.requests) == (1, 0)
