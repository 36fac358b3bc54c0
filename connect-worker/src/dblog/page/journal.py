"""The views of what has happened to a connector: its timeline, and its log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from dblog.cluster.journal import KINDS
from dblog.page.asked import Asked, connector_path
from dblog.page.connector import common
from dblog.page.fleet import Facts
from dblog.page.overview import Query
from dblog.rest.journal import LEVELS, lines_of


async def events(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the timeline, newest first."""
    values = common(asked, "events")
    found: Facts = values["each"]
    kind = asked.query("kind") if asked.query("kind") in (*KINDS, "warning") else ""
    shown = asked.services.herder.journal.events(found.name, kind=kind)
    return {
        **values,
        "events": [(each, line, unix_s(line.at)) for each, line in shown],
        "kinds": (*KINDS, "warning"),
        "kind": kind,
        "query_of": Query({"kind": kind} if kind else {}),
    }


async def log(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the log, newest line first."""
    values = common(asked, "log")
    found: Facts = values["each"]
    lines = await lines_of(asked.request, found.name)
    kept = {name: value for name in ("level", "q") if (value := asked.query(name))}
    return {
        **values,
        "lines": [(line, unix_s(line.at)) for line in reversed(lines)],
        "levels": LEVELS,
        "level": asked.query("level"),
        "search": asked.query("q"),
        "query_of": Query(kept),
        "download": f"{connector_path(found.name, '/log')}?{urlencode({**kept, 'format': 'text', 'lines': 5000})}",
    }


def unix_s(text: str) -> float | None:
    """Return the Unix time of a line, or None if it has none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
