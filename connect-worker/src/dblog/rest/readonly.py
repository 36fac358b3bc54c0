"""A second listener that only reads and shows no configuration: for probes, metrics, dashboards and
consumers' schemas, without a login.

Its paths are listed, so a new resource is not open by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from dblog.rest.api import PROBE_PATHS, error

_OPEN = frozenset(
    {
        "/",
        *PROBE_PATHS,
        "/metrics",
        "/connectors",
        "/connectors/{connector}/status",
        "/connectors/{connector}/tasks/{task}/status",
        "/connectors/{connector}/topics",
        "/connectors/{connector}/offsets",
        "/connectors/{connector}/dumps",
        "/connectors/{connector}/dumps/{dump}",
        "/connector-plugins",
        "/connector-plugins/{plugin}/config",
    }
)


def reading_routes(routes: Sequence[BaseRoute], registry: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the open routes, the registry's reading routes, and one that answers 403 to others."""
    own = [route for route in routes if isinstance(route, Route)]
    schemas = [route for route in registry if isinstance(route, Route)]
    opened: list[BaseRoute] = [_Open(route) for route in (*(r for r in own if r.path in _OPEN), *schemas) if "GET" in (route.methods or ())]
    return [*opened, _Closed([*own, *schemas])]


class _Open(Route):
    """A route for GET and HEAD alone."""

    def __init__(self, route: Route) -> None:
        super().__init__(route.path, route.endpoint, methods=["GET"])

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return no match for other methods and for ``/connectors?expand=info``: they get 403."""
        found, child = super().matches(scope)
        shows_configurations = self.path == "/connectors" and "info" in HttpRequest(scope).query_params.getlist("expand")
        return (Match.NONE, {}) if found is Match.PARTIAL or (found is Match.FULL and shows_configurations) else (found, child)


class _Closed(BaseRoute):
    """Answers 403 for paths that only the other listener serves."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return a full match for every path that some route knows."""
        known = scope["type"] == "http" and any(route.matches(scope)[0] is not Match.NONE for route in self._routes)
        return (Match.FULL, {}) if known else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403."""
        answer: Response = error(
            HTTPStatus.FORBIDDEN,
            "This listener only reads and shows no configurations (dblog.rest.readonly.listener); ask the other one, see listeners",
        )
        await answer(scope, receive, send)
