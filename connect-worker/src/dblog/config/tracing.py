"""Whether a task's steps are traced, and what that needs: the same key in the worker's file, for all connectors, and in a connector."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from dblog.config.options import Settings, Value

TRACING = "dblog.tracing.enabled"

PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
"""What the extra ``tracing`` brings."""


def installed(value: Value, _all: Mapping[str, Value]) -> str | None:
    """The check of the key: traces need the packages of an extra."""
    if value is not True or all(map(_is_there, PACKAGES)):
        return None
    return "Traces need OpenTelemetry's packages; install them with: pip install 'dblog[tracing]', or leave this key out"


def is_traced(config: Mapping[str, str], worker: Settings) -> bool:
    """Whether the connector's tasks are: its own key counts before the worker's."""
    own = config.get(TRACING, "").strip().lower()
    return own == "true" if own else worker.boolean(TRACING)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even a package above it
        return False
