"""Declares every view and every action of the page: path, role, template, and what fills it.

This is the only place. ``routes.py`` makes the routes, checks the role, and renders; a view that is
not listed here does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dblog.config.roles import Role
from dblog.page import overview
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


VIEWS = (View(path="", role=Role.READER, template="overview.html", load=overview.load),)
ACTIONS: tuple[Action, ...] = ()
DATA = (Data(path="/series", role=Role.READER, load=overview.series),)


def full(path: str) -> str:
    """Return the path with the page's prefix."""
    return PAGE_PATH + path
