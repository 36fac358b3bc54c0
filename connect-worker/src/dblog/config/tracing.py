"""Decides whether a task is traced.

The worker's file and a connector have the same option for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from dblog.config.options import Settings, Value

TRACING = "dblog.tracing.enabled"

PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
"""Packages of the optional dependency ``tracing``."""


def installed(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that the packages for traces are installed, if traces are enabled."""
    if value is not True or all(map(_is_there, PACKAGES)):
        return None
    return "Traces need OpenTelemetry's packages; install them with: pip install 'dblog[tracing]', or leave this key out"


def is_traced(config: Mapping[str, str], worker: Settings) -> bool:
    """Return True if the connector's tasks are traced. Its own option overrides the worker's."""
    own = config.get(TRACING, "").strip().lower()
    return own == "true" if own else worker.boolean(TRACING)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even a parent package
        return False
