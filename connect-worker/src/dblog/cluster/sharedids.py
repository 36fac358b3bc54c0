"""Connectors of this worker that share what one alone should have: a reader's name at a server, or a prefix of topics.

A MySQL server ends the log connection of one ``database.server.id`` whenever another connects with it; a PostgreSQL server refuses a second reader of a slot.

Connectors with one ``topic.prefix`` write one set of topics, whatever servers they read: a row would come twice, or rows of equal keys overwrite each other.

Only what the configurations hold is compared. That a server knows the name proves nothing: MySQL keeps the id of a connection that has ended for up to a
minute, and a connector that is changed is such a reader itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from dblog.config.plugins import find_connector

_CONSEQUENCES = {
    "database.server.id": "which ends the log connection of one whenever the other connects",
    "slot.name": "which lets one of them read the slot at a time",
}
"""By the key that names a reader of the log."""
_PREFIX = "topic.prefix"
_ACCEPTED = "dblog.topics.shared"
_SERVER = ("database.hostname", "database.port")


def shared_reader(
    name: str, config: Mapping[str, str | None], others: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]
) -> str | None:
    """A sentence for the first other connector, not stopped, that reads the same server's log by the same name; None when there is none.

    ``others``: by name.
    """
    reader = _reader(config)
    if reader is None:
        return None
    for other, other_config in others.items():
        if other != name and _reader(other_config) == reader and not is_stopped(other):
            key, text = reader[0], reader[-1]
            return f"{key}: {text} is also that of connector {other} on the same server, {_CONSEQUENCES[key]}; give each its own"
    return None


def shared_prefix(
    name: str, config: Mapping[str, str | None], others: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]
) -> str | None:
    """Return a sentence for the first other connector, not stopped, with this topic.prefix; None where there is none, or one of both accepts it."""
    prefix = _prefix(config)
    if prefix is None:
        return None
    for other, other_config in others.items():
        if other != name and _prefix(other_config) == prefix and not is_stopped(other):
            return (
                f"topic.prefix: {prefix} is also that of connector {other}, so both write to topics of one name, and offsets, chunk markers and the lake "
                f"cannot tell them apart; give each its own, or set {_ACCEPTED}=true where this is meant"
            )
    return None


def shared_prefixes(configs: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]) -> dict[str, str]:
    """Return what ``shared_prefix`` says of each connector, in one pass over all of them."""
    alike: dict[str, dict[str, Mapping[str, str]]] = {}
    for name, config in configs.items():
        if (prefix := _prefix(config)) is not None:
            alike.setdefault(prefix, {})[name] = config
    groups = [group for group in alike.values() if len(group) > 1]
    found = {name: shared_prefix(name, config, group, is_stopped=is_stopped) for group in groups for name, config in group.items()}
    return {name: text for name, text in found.items() if text is not None}


def shared_readers(configs: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]) -> dict[str, str]:
    """Return what ``shared_reader`` says of each connector, in one pass over all of them."""
    alike: dict[tuple[str, str, str, str], dict[str, Mapping[str, str]]] = {}
    for name, config in configs.items():
        if (reader := _reader(config)) is not None:
            alike.setdefault(reader, {})[name] = config
    groups = [group for group in alike.values() if len(group) > 1]
    found = {name: shared_reader(name, config, group, is_stopped=is_stopped) for group in groups for name, config in group.items()}
    return {name: text for name, text in found.items() if text is not None}


def slot_left(config: Mapping[str, str | None]) -> str | None:
    """A sentence for the replication slot that a deleted connector leaves at its server, and how to drop it; None where the log is not read by one."""
    reader = _reader(config)
    if reader is None or reader[0] != "slot.name":
        return None
    _, host, port, slot = reader
    quoted = slot.replace("'", "''")
    return (
        f"the replication slot {slot} stays at {host}:{port}, and the server keeps its log for it until its disk is full; unless a connector shall go on "
        f"with it, run there: SELECT pg_drop_replication_slot('{quoted}');"
    )


def _prefix(config: Mapping[str, str | None]) -> str | None:
    """The prefix that a connector of this worker's kinds writes to; None for others, and where its configuration accepts to share it."""
    if find_connector(config.get("connector.class")) is None or (config.get(_ACCEPTED) or "").strip().lower() == "true":
        return None
    return (config.get(_PREFIX) or "").strip() or None


def _reader(config: Mapping[str, str | None]) -> tuple[str, str, str, str] | None:
    """The key, the server's host and port, and the name that the key has; None for a configuration that names no reader."""
    defaults = _defaults(config.get("connector.class") or "")
    host, port = (_text(config, key, defaults) for key in _SERVER)
    found = [(key, text) for key in _CONSEQUENCES if key in defaults and (text := _text(config, key, defaults))]
    return (found[0][0], host.lower(), port, found[0][1]) if host and found else None


def _text(config: Mapping[str, str | None], key: str, defaults: Mapping[str, str]) -> str:
    return (config.get(key) or "").strip() or defaults.get(key, "")


@lru_cache(maxsize=16)
def _defaults(class_name: str) -> Mapping[str, str]:
    """Of the keys that matter here, those that a connector of this class has; kept, for a worker may have a thousand connectors."""
    plugin = find_connector(class_name)
    options = plugin.options if plugin is not None else ()
    return {option.name: option.default or "" for option in options if option.name in (*_SERVER, *_CONSEQUENCES)}
