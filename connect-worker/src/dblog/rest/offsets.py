"""``/connectors/{c}/offsets``: read, alter and reset source offsets (KIP-875)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import AlterOffsets, ResetOffsets, bad_request, not_found
from dblog.config.options import HIDDEN
from dblog.config.plugins import find_connector
from dblog.config.roles import Role
from dblog.errors import ConfigError, DefiniteError
from dblog.model import OffsetMap
from dblog.readers.run.shown_offset import hidden_field, without_rows
from dblog.rest.api import Answer, Services, ask, check, parsed, ready, segment
from dblog.rest.identity import may

_DONE = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However, if this connector manages offsets "
    "externally, they will need to be manually {} in the system that the connector uses."
)


async def get(request: HttpRequest) -> Response:
    """Answer with all offsets, including this worker's own latest writes.

    Keys of rows and SQL are left out unless the caller is an operator.
    """
    found = await ready(request)
    name = segment(request, "connector")
    if found.herder.configs.view(name) is None:
        raise not_found(f"Connector {name} not found")
    # The stored progress of a dump contains keys of rows, and the SQL of signals.
    whole = may(request, Role.OPERATOR, name)
    stored = found.herder.offsets.of(name)
    return Answer(
        {"offsets": [{"partition": partition, "offset": offset if whole else without_rows(offset)} for partition, offset in stored]}
    )


async def alter(request: HttpRequest) -> Response:
    """Set the offsets of the given partitions; null removes one."""
    found = await ready(request)
    changes = _changes(parsed(await request.body()))
    name = segment(request, "connector")
    # In a thread: an offset may hold the state of a dump of thousands of tables.
    await check(request, lambda: _require_usable(found, name, changes))
    await ask(request, AlterOffsets(name, changes))
    return Answer({"message": _DONE.format("altered", "altered")})


async def reset(request: HttpRequest) -> Response:
    """Remove all of a connector's offsets."""
    await ready(request)
    await ask(request, ResetOffsets(segment(request, "connector")))
    return Answer({"message": _DONE.format("reset", "reset")})


def _require_usable(found: Services, name: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
    """Refuse (400) offsets that the connector could not start from.

    The herder reports other obstacles.
    """
    from dblog.dialects.registry import kind_of  # noqa: PLC0415  what a worker that is never asked need not load

    view = found.herder.configs.view(name)
    plugin = find_connector(view.config.get("connector.class")) if view is not None else None
    if view is None or plugin is None:
        return
    try:
        config, _ = found.validator.resolved(dict(view.config))
        kind_of(plugin.flavor).check_offsets(config.get("topic.prefix", ""), changes)
    except ConfigError as e:
        raise bad_request(f"The configuration of connector {name} cannot be used: {e}") from e
    except DefiniteError as e:
        raise bad_request(str(e)) from e


def _changes(body: object) -> list[tuple[dict[str, Any], OffsetMap | None]]:
    entries = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(entries, list) or not entries:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    changes: list[tuple[dict[str, Any], OffsetMap | None]] = []
    for entry in entries:
        partition = entry.get("partition") if isinstance(entry, dict) else None
        if not isinstance(partition, dict):
            raise bad_request("The partition for a source connector offset cannot be null or missing")
        offset = entry.get("offset")
        if offset is not None and not isinstance(offset, dict):
            raise bad_request("The offset of a partition must be a JSON object, or null to remove it")
        if (field := hidden_field(offset or {})) is not None:
            raise bad_request(
                f"The value {HIDDEN} of the offset's field {field} stands for one that is not shown; read the offsets as an operator of the connector, and "
                "change what they are then"
            )
        for what in (partition, offset or {}):
            for field, value in what.items():
                if isinstance(value, dict | list):
                    kind = "MAP" if isinstance(value, dict) else "ARRAY"
                    raise bad_request(f"Offsets may only contain primitive types as values, but field {field} contains {kind}")
        changes.append((partition, offset))
    return changes


ROUTES = [
    Route("/connectors/{connector}/offsets", get, methods=["GET"]),
    Route("/connectors/{connector}/offsets", alter, methods=["PATCH"]),
    Route("/connectors/{connector}/offsets", reset, methods=["DELETE"]),
]
