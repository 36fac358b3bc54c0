"""The views of the sinks: the list, and one sink with the tables that the caller may see."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from dblog.cluster.requests import not_found
from dblog.cluster.sinkrecords import SinkId
from dblog.cluster.sinkstore import SinkOfTable, SinkView
from dblog.config.roles import Role
from dblog.page.asked import Asked, refused
from dblog.page.connector import done
from dblog.page.effects import forget_sink_effect
from dblog.page.lake import SinkSeen, resume_command, seen
from dblog.page.overview import Query
from dblog.rest.api import PAGE_PATH
from dblog.rest.sinks import visible_sinks, visible_topics

_PAGE_SIZE = 50


def view_of(asked: Asked) -> SinkView | None:
    """Return what sinks report, or None where this worker does not read it."""
    return asked.services.sinks


def sees_all(asked: Asked) -> bool:
    """Return True if the caller may see all connectors, and so all that a sink reports."""
    return asked.may(Role.READER)


def seen_sinks(asked: Asked) -> list[SinkSeen]:
    """Return the sinks with tables that the caller may see, what is wrong first."""
    view, now_s = view_of(asked), time.time()
    if view is None:
        return []
    topics = visible_topics(asked.request)
    found = [seen(each, now_s, with_reason=topics is None) for each in visible_sinks(view, topics)]
    return sorted(found, key=lambda each: (not each.is_bad, not each.known.parked, each.name, each.state_path))


async def listed(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the list of sinks."""
    view = view_of(asked)
    return {
        "title": "Sinks",
        "active": "sinks",
        "found": seen_sinks(asked),
        "sees_all": sees_all(asked),
        "is_on": view is not None,
        "fault": view.fault if view is not None else "",
        "left_out": view.left_out if view is not None else 0,
    }


async def one(asked: Asked) -> Mapping[str, Any]:
    """Return the values of one sink."""
    name, state_path = asked.segment("sink"), asked.query("state")
    all_seen = [each for each in seen_sinks(asked) if each.name == name and state_path in ("", each.state_path)]
    if not all_seen:
        raise not_found(f"No sink {name[:200]} has reported with tables that you may see; the list of sinks shows those that have")
    found, view = all_seen[0], view_of(asked)
    assert view is not None
    id_ = SinkId(found.name, found.state_path)
    visible, search = visible_topics(asked.request), asked.query("q")
    wanted = search.strip().casefold()
    tables = [
        each
        for each in view.of_topics(view.topics_of(id_))
        if each.sink == id_ and (visible is None or each.topic in visible) and wanted in each.table.name.casefold()
    ]
    tables.sort(key=_worst_first)
    pages = max(1, -(-len(tables) // _PAGE_SIZE))
    page = min(max(1, asked.number("page")), pages)
    return {
        "title": found.name,
        "active": "sinks",
        "sink": found,
        "report": found.known.report,
        "sees_all": visible is None,
        "found": _Pages(page, pages),
        "tables": tables[(page - 1) * _PAGE_SIZE : page * _PAGE_SIZE],
        "matching": len(tables),
        "search": search,
        "resume_command": resume_command,
        "query_of": Query({each: value for each, value in (("state", state_path), ("q", search)) if value}),
    }


async def confirm_forget(asked: Asked) -> Mapping[str, Any]:
    """Return the confirmation of removing a sink that has ended."""
    found = (await one(asked))["sink"]
    state = quote(found.state_path, safe="")
    return {
        "effect": forget_sink_effect(found.name, found.known.tables),
        "url": f"{PAGE_PATH}/sinks/{quote(found.name, safe='')}/forget?state={state}",
    }


async def forget(asked: Asked) -> Mapping[str, Any]:
    """Remove a sink that has ended from the list."""
    name = asked.segment("sink")
    query = urlencode({"state_path": asked.query("state")})
    answer = await asked.call("DELETE", f"/sinks/{quote(name, safe='')}", query=query)
    if not answer.is_good:
        raise refused(answer)
    return done(f"{name} was removed from the list.", redirect=f"{PAGE_PATH}/sinks")


def _worst_first(each: SinkOfTable) -> tuple[bool, bool, str]:
    table = each.table
    return table.parked is None, table.verified is None or not table.verified.wrong, table.name


class _Pages:
    """The page that is shown, and how many there are."""

    def __init__(self, page: int, pages: int) -> None:
        self.page = page
        self.pages = pages
