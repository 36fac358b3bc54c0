"""Finds connectors of this worker that share what only one should have: a reader's name at a
server, or a prefix of topics.

A MySQL server ends the log connection of a ``database.server.id`` when another connects with it. A
PostgreSQL server refuses a second reader of a slot.

Connectors with one ``topic.prefix`` write one set of topics, whatever servers they read: rows would
come twice, or rows of equal keys would overwrite each other. With the prefixes ``p`` and ``p.a``, table
``b.t`` of ``a`` and table ``t`` of ``b`` have the topic ``p.a.b.t``. Few names have dots, so such
prefixes are accepted, and a topic that both have written to is reported.

Only the configurations are compared. A name that the server knows proves nothing: MySQL keeps the
id of an ended connection for up to a minute, and a connector that is being changed is such a reader
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

from dblog.config.plugins import find_connector

_CONSEQUENCES = {
    "database.server.id": "which ends the log connection of one whenever the other connects",
    "slot.name": "which lets one of them read the slot at a time",
}
"""Consequence of sharing, by the option that names a reader of the log."""
_PREFIX = "topic.prefix"
_ACCEPTED = "dblog.topics.shared"
_SERVER = ("database.hostname", "database.port")


def shared_reader(
    name: str, config: Mapping[str, str | None], others: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]
) -> str | None:
    """Return a sentence about the first other connector with the same reader's name at the same
    server.

    Return None if there is none. Stopped connectors do not count. ``others`` are configurations by
    name.
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
    """Return a sentence about the first other connector with this topic.prefix.

    Return None if there is none, or if one of both accepts sharing. Stopped connectors do not
    count.
    """
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
    """Return the sentence of ``shared_prefix`` for each connector, in one pass over all of them."""
    alike: dict[str, dict[str, Mapping[str, str]]] = {}
    for name, config in configs.items():
        if (prefix := _prefix(config)) is not None:
            alike.setdefault(prefix, {})[name] = config
    groups = [group for group in alike.values() if len(group) > 1]
    found = {name: shared_prefix(name, config, group, is_stopped=is_stopped) for group in groups for name, config in group.items()}
    return {name: text for name, text in found.items() if text is not None}


def nested_prefixes(configs: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return for each connector those whose prefix begins with its own and a dot, or the reverse."""
    of_prefix: dict[str, list[str]] = {}
    for name, config in configs.items():
        if (prefix := _prefix(config)) is not None:
            of_prefix.setdefault(prefix, []).append(name)
    found: dict[str, list[str]] = {}
    for prefix, names in of_prefix.items():
        parts = prefix.split(".")
        outer = [name for size in range(1, len(parts)) for name in of_prefix.get(".".join(parts[:size]), ())]
        for name in names if outer else ():
            found.setdefault(name, []).extend(outer)
        for name in outer:
            found.setdefault(name, []).extend(names)
    return {name: tuple(others) for name, others in found.items()}


def shared_topic(name: str, others: Iterable[str], topics_of: Callable[[str], Collection[str]]) -> str | None:
    """Return a sentence about the first topic that the connector and another one have written to.

    ``others`` have nested prefixes. Return None if there is no such topic.
    """
    own: frozenset[str] | None = None
    for other in others:
        own = frozenset(topics_of(name)) if own is None else own
        if common := sorted(own.intersection(topics_of(other))):
            return (
                f"topic.prefix: connector {other} writes to the topic {common[0]} too: its prefix and this one's, with a name that has dots, make one topic of "
                "two tables, where rows of equal keys overwrite each other. Leave one of the tables out (table.exclude.list), or give one connector another "
                f"prefix, or set {_ACCEPTED}=true where this is meant"
            )
    return None


def shared_readers(configs: Mapping[str, Mapping[str, str]], *, is_stopped: Callable[[str], bool]) -> dict[str, str]:
    """Return the sentence of ``shared_reader`` for each connector, in one pass over all of them."""
    alike: dict[tuple[str, str, str, str], dict[str, Mapping[str, str]]] = {}
    for name, config in configs.items():
        if (reader := _reader(config)) is not None:
            alike.setdefault(reader, {})[name] = config
    groups = [group for group in alike.values() if len(group) > 1]
    found = {name: shared_reader(name, config, group, is_stopped=is_stopped) for group in groups for name, config in group.items()}
    return {name: text for name, text in found.items() if text is not None}


def slot_left(config: Mapping[str, str | None]) -> str | None:
    """Return a sentence about the replication slot that a deleted connector leaves at its server,
    and how to drop it. None if it does not use a slot.
    """
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
    """Return the prefix that a connector writes to.

    None for classes that this worker lacks, and for configurations that accept sharing.
    """
    if find_connector(config.get("connector.class")) is None or (config.get(_ACCEPTED) or "").strip().lower() == "true":
        return None
    return (config.get(_PREFIX) or "").strip() or None


def _reader(config: Mapping[str, str | None]) -> tuple[str, str, str, str] | None:
    """Return the option, the server's host and port, and the reader's name.

    None without a reader.
    """
    defaults = _defaults(config.get("connector.class") or "")
    host, port = (_text(config, key, defaults) for key in _SERVER)
    found = [(key, text) for key in _CONSEQUENCES if key in defaults and (text := _text(config, key, defaults))]
    return (found[0][0], host.lower(), port, found[0][1]) if host and found else None


def _text(config: Mapping[str, str | None], key: str, defaults: Mapping[str, str]) -> str:
    return (config.get(key) or "").strip() or defaults.get(key, "")


@lru_cache(maxsize=16)
def _defaults(class_name: str) -> Mapping[str, str]:
    """Return the defaults of the relevant options of a class.

    Cached, because a worker may have a thousand connectors.
    """
    plugin = find_connector(class_name)
    options = plugin.options if plugin is not None else ()
    return {option.name: option.default or "" for option in options if option.name in (*_SERVER, *_CONSEQUENCES)}
