"""The number of connections that a connector holds at its database, and a sentence about it for the
error of a server that has none left.

An idle connector holds two: the log, and the session of ``readers/log/logwatch.py`` for questions.
A start, a dump or a statement of the log needs more. Those are closed after
``idle_session.SESSION_IDLE_S`` seconds without use, and opened again on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.core.pressure import OF_SERVER

IDLE = 2
PER_READER = 2
"""Connections per dump reader: one for its snapshot, one for watermarks."""


def most(options: Mapping[str, Any]) -> int:
    """Return the number of connections that a connector uses at most: while its readers dump, its
    session is in use, and limits of dumps are measured.
    """
    originals: Mapping[str, Any] = getattr(options, "originals", options)
    name = "dblog.dump.threads" if "dblog.dump.threads" in originals else "snapshot.max.threads"
    measures = any(f"dblog.dump.limit.{limit}" in originals for limit in OF_SERVER)
    return IDLE + 1 + PER_READER * int(options.get(name) or 1) + measures


def needs(options: Mapping[str, Any]) -> str:
    """Return the part of a sentence that says how many connections a connector needs."""
    return f"this connector needs {IDLE}, and up to {most(options)} while it starts or dumps"
