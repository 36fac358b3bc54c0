"""Declares every view and every action of the page: path, role, template, and what fills it.

This is the only place. ``routes.py`` makes the routes, checks the role, and renders; a view that is
not listed here does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dblog.config.roles import Role
from dblog.page import configuration, connector, dumps, journal, overview, sinks, tables
from dblog.page.asked import Asked
from dblog.rest.api import PAGE_PATH

Load = Callable[[Asked], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page, or a part of one, that only reads."""

    path: str
    """Path below /ui. With ``{connector}`` the role is needed for that connector, else for any."""
    role: Role
    template: str
    load: Load
    """Returns the template's values. Raises RequestError for a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change that a form of the page requests. Its answer is rendered like a view."""

    path: str
    role: Role
    template: str
    run: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """JSON for a chart."""

    path: str
    role: Role
    load: Load


_CONNECTOR = "/connectors/{connector}"
_VERSION = f"{_CONNECTOR}/config/history/{{version}}"
_DUMP = f"{_CONNECTOR}/dumps/{{dump}}"

VIEWS = (
    View(path="", role=Role.READER, template="overview.html", load=overview.load),
    View(path="/sinks", role=Role.READER, template="sinks.html", load=sinks.listed),
    View(path="/sinks/{sink}", role=Role.READER, template="sink.html", load=sinks.one),
    View(path="/sinks/{sink}/confirm/forget", role=Role.ADMIN, template="confirm.html", load=sinks.confirm_forget),
    View(path="/new", role=Role.ADMIN, template="new.html", load=configuration.new),
    View(path=_CONNECTOR, role=Role.READER, template="connector.html", load=connector.load),
    View(path=f"{_CONNECTOR}/tables", role=Role.READER, template="tables.html", load=tables.listed),
    View(path=f"{_CONNECTOR}/tables/{{table}}", role=Role.READER, template="table.html", load=tables.one),
    View(path=f"{_CONNECTOR}/dumps", role=Role.READER, template="dumps.html", load=dumps.listed),
    View(path=_DUMP, role=Role.READER, template="dump.html", load=dumps.one),
    View(path=f"{_CONNECTOR}/offsets", role=Role.READER, template="offsets.html", load=connector.offsets),
    View(path=f"{_CONNECTOR}/offsets/edit", role=Role.ADMIN, template="position.html", load=connector.edit_offsets),
    View(path=f"{_CONNECTOR}/offsets/confirm/reset", role=Role.ADMIN, template="confirm.html", load=connector.confirm_reset),
    View(path=f"{_CONNECTOR}/events", role=Role.OPERATOR, template="events.html", load=journal.events),
    View(path=f"{_CONNECTOR}/log", role=Role.OPERATOR, template="log.html", load=journal.log),
    View(path=f"{_CONNECTOR}/config", role=Role.VIEWER, template="config.html", load=configuration.show),
    View(path=f"{_CONNECTOR}/config/history", role=Role.VIEWER, template="history.html", load=configuration.history),
    View(path=f"{_VERSION}/confirm", role=Role.ADMIN, template="confirm.html", load=configuration.confirm_restore),
    View(path=f"{_CONNECTOR}/config/edit", role=Role.ADMIN, template="edit.html", load=configuration.edit),
    View(path=f"{_CONNECTOR}/confirm/{{what}}", role=Role.OPERATOR, template="confirm.html", load=connector.confirm),
    View(path=f"{_DUMP}/confirm/stop", role=Role.OPERATOR, template="confirm.html", load=connector.confirm_stop_dump),
)
ACTIONS = (
    Action(path="/sinks/{sink}/forget", role=Role.ADMIN, template="done.html", run=sinks.forget),
    Action(path="/new", role=Role.ADMIN, template="checked.html", run=configuration.create),
    Action(path=f"{_CONNECTOR}/do/{{what}}", role=Role.OPERATOR, template="done.html", run=connector.do),
    Action(path=f"{_CONNECTOR}/tasks/{{task}}/restart", role=Role.OPERATOR, template="done.html", run=connector.restart_task),
    Action(path=f"{_CONNECTOR}/config/edit", role=Role.ADMIN, template="edit.html", run=configuration.apply),
    Action(path=f"{_CONNECTOR}/offsets/edit", role=Role.ADMIN, template="position.html", run=connector.set_offsets),
    Action(path=f"{_CONNECTOR}/offsets/reset", role=Role.ADMIN, template="done.html", run=connector.reset_offsets),
    Action(path=f"{_VERSION}/restore", role=Role.ADMIN, template="done.html", run=configuration.restore),
    Action(path=f"{_CONNECTOR}/dumps", role=Role.OPERATOR, template="done.html", run=dumps.start),
    Action(path=f"{_DUMP}/speed", role=Role.OPERATOR, template="done.html", run=dumps.change),
    Action(path=f"{_DUMP}/{{verb}}", role=Role.OPERATOR, template="done.html", run=dumps.act),
    Action(path=f"{_DUMP}/tables/{{table}}/{{verb}}", role=Role.OPERATOR, template="done.html", run=dumps.act),
)
DATA = (
    Data(path="/series", role=Role.READER, load=overview.series),
    Data(path=f"{_CONNECTOR}/series", role=Role.READER, load=connector.series),
)


def full(path: str) -> str:
    """Return the path with the page's prefix."""
    return PAGE_PATH + path
