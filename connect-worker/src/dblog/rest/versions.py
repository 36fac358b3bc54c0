"""``/connectors/{c}/config/versions``: the configurations that a connector has had, and back to one of
them. Not in Kafka Connect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.confighistory import ConfigVersion
from dblog.cluster.requests import PutConnector, not_found
from dblog.cluster.state import ConnectorView
from dblog.config.secret_values import shown_name
from dblog.rest.access import shown_config, shown_values
from dblog.rest.api import Answer, Services, ask, ready, segment
from dblog.rest.audit import note, note_fields
from dblog.rest.connectors import require_valid, warn


async def listed(request: HttpRequest) -> Response:
    """Answer with the versions, newest first, each with what it changed. Secrets are always hidden."""
    found = await ready(request)
    view = _view(found, segment(request, "connector"))
    # In a thread: names are compared with those of passwords, and a configuration may have 50 000.
    return Answer(await asyncio.to_thread(_listed, found.herder.configs.versions(view.name)))


async def restore(request: HttpRequest) -> Response:
    """Let a version be the connector's configuration again, after the checks that any one has to pass."""
    found = await ready(request)
    view = _view(found, segment(request, "connector"))
    version = version_of(found, view.name, segment(request, "revision"))
    config = {**version.config, "name": view.name}
    remarks = await require_valid(request, found, config)
    note(request, view.name, view.config, config)
    note_fields(request, version=version.offset)
    _, info = await ask(request, PutConnector(name=view.name, config=config, expected=view.config))
    found.herder.warnings.accepted(view.name, config, remarks.texts)
    shown = await shown_config(request, view.name, config)
    return Answer({**info, "config": shown}, headers=warn(view.name, remarks))


def version_of(found: Services, name: str, text: str) -> ConfigVersion:
    """Return the version that a text names. Raise RequestError 404."""
    versions = found.herder.configs.versions(name)
    version = next((each for each in versions if str(each.offset) == text), None)
    if version is None:
        known = ", ".join(str(each.offset) for each in versions) or "none"
        raise not_found(
            f"Connector {name} has no version {text[:40]} of its configuration; there are {known}. Kafka removes old ones in time"
        )
    return version


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return the keys that differ, each with both values, secrets hidden. None stands for no such key."""
    was, will = shown_values(before), shown_values(after)
    return [
        {"key": shown_name(key), "before": was.get(key), "after": will.get(key)}
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _listed(versions: list[ConfigVersion]) -> list[dict[str, Any]]:
    configs = [each.config for each in versions]
    return [
        {
            "version": each.offset,
            "at_ms": each.at_ms or None,
            "current": number == 0,
            "changes": differences(configs[number + 1], configs[number]) if number + 1 < len(versions) else None,
        }
        for number, each in enumerate(versions)
    ]


def _view(found: Services, name: str) -> ConnectorView:
    view = found.herder.configs.view(name)
    if view is None:
        raise not_found(f"Connector {name} not found")
    return view


ROUTES = [
    Route("/connectors/{connector}/config/versions", listed, methods=["GET"]),
    Route("/connectors/{connector}/config/versions/{revision}/restore", restore, methods=["POST"]),
]
