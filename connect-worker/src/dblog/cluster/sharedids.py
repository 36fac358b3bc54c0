"""Connectors of this worker that read one server under one ``database.server.id``: the server ends the log connection of one whenever another connects.

Only what the configurations hold is compared. That the server knows a replica by that id proves nothing: it keeps the id of a connection that has ended
for up to a minute, and a connector that is changed is such a replica itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def shared_server_id(
    name: str, config: Mapping[str, str | None], others: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]
) -> str | None:
    """A sentence for the first other connector, not stopped, with the same server and id; None when there is none. ``others``: by name."""
    reader = _reader(config)
    if reader is None:
        return None
    for other, other_config in others.items():
        if other != name and _reader(other_config) == reader and not is_stopped(other):
            return (
                f"database.server.id: {reader[2]} is also that of connector {other} on the same server, which ends the log connection of one whenever the "
                f"other connects; give each its own"
            )
    return None


def _reader(config: Mapping[str, str | None]) -> tuple[str, str, str] | None:
    host, port, server_id = (str(config.get(f"database.{key}") or "").strip() for key in ("hostname", "port", "server.id"))
    return (host.lower(), port or "3306", server_id) if host and server_id else None
