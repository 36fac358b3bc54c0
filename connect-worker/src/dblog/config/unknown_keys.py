"""Finds keys of a configuration that change nothing here: unknown ones, with the option that each
resembles most, and options without effect.

Connect ignores such keys, and so does this worker, because a configuration often has keys of other
versions and tools. But ignoring a misspelt filter would dump a whole server. So an unknown key is
named in the log and a header when a connector is created, in the log at every start of its task,
and in the validate answer, without making the configuration invalid. A worker's file is checked at
its start.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from dblog.config.column_converters import names_of
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import CONVERTER_PREFIXES, FRAMEWORK_OPTIONS
from dblog.config.nearest import nearest as nearest_of
from dblog.config.options import Option
from dblog.config.worker_options import WORKER_OPTIONS

_FAMILIES = (
    "admin.override.",
    "column.mask.",
    "column.truncate.",
    "consumer.override.",
    "driver.",
    "header.converter.",
    "producer.override.",
    "schema.history.internal.consumer.",
    "schema.history.internal.producer.",
    "signal.consumer.",
    "snapshot.select.statement.overrides.",
    "topic.creation.",
)
"""Prefixes of keys that belong to clients, or are checked with their family."""

_WORKER_FAMILIES = (
    "admin.",
    "config.providers.",
    "config.storage.",
    "consumer.",
    "header.converter.",
    "listeners.https.",
    "offset.storage.",
    "producer.",
    "reconnect.",
    "sasl.",
    "socket.",
    "ssl.",
    "status.storage.",
)
"""Prefixes of keys in a worker's file that belong to clients, providers and topics."""

# A converter's key that resembles no converter option may be unknown here, so it is not named.
_CONVERTER_KEYS = {
    key: replace(option, name=key) for option in CONVERTER_OPTIONS for part in CONVERTER_PREFIXES for key in (f"{part}{option.name}",)
}
_OWN_NAMES = frozenset(option.name for option in CONVERTER_OPTIONS)
_HEADER = ".request.header."
"""Any name may follow this."""
_ADDED_FOR_TASKS = frozenset({"task.class"})
"""Keys that the worker itself adds to a task's configuration, as Connect does."""


_LOOKED_UP_MAX = 100

_FORMER = {
    "database.server.name": "topic.prefix",
    "database.include.list": "schema.include.list",
    "database.exclude.list": "schema.exclude.list",
    "schema.include.list": "database.include.list",
    "schema.exclude.list": "database.exclude.list",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
}
"""New names of keys of Debezium 1, or of its connectors for other databases. Their spelling gives
no hint.
"""


_FORMER_OF_TRANSFORMS = {
    "blacklist": "exclude",
    "whitelist": "include",
    "add.source.fields": "add.fields",
    "delete.handling.mode": "delete.tombstone.handling.mode",
    "drop.tombstones": "delete.tombstone.handling.mode",
    "logical.table.cache.size": "logical.destination.cache.size",
    "table.field.schema.version": "table.field.event.schema.version",
}
"""New names of transforms' keys, without their prefix."""


def unknown_keys(options: Iterable[Option], names: Iterable[str]) -> dict[str, str | None]:
    """Return the undeclared names, in order, each with the nearest declared one or None.

    A mapping of properties has the settings of column converters too, which are checked by
    themselves. Only the first ones are looked up, because each comparison with all options takes more than a
    millisecond.
    """
    converters = tuple(f"{name}." for name in names_of(names)) if isinstance(names, Mapping) else ()
    names = list(names)
    known = {name for option in (*FRAMEWORK_OPTIONS, *options) for name in (option.name, *option.aliases)}
    others = [
        name
        for name in names
        if name not in known and name not in _ADDED_FOR_TASKS and not name.startswith((*_FAMILIES, *CONVERTER_PREFIXES, *converters))
    ]
    found = {name: _meant(name, known) if at < _LOOKED_UP_MAX else None for at, name in enumerate(others)}
    return found | _misspelt_converter_keys(names, known)


def _meant(name: str, known: AbstractSet[str]) -> str | None:
    former = _FORMER.get(name)
    if name.startswith("transforms."):
        prefix, key = next(
            ((name.removesuffix(old), new) for old, new in _FORMER_OF_TRANSFORMS.items() if name.endswith(f".{old}")), ("", "")
        )
        former = f"{prefix}{key}"
    return former if former in known else nearest_of(name, known)


def misspelt_worker_keys(names: Iterable[str]) -> dict[str, str]:
    """Return misspelt keys of a worker's file, each with the option it resembles.

    Other undeclared keys belong to clients or other tools, and are not named.
    """
    known = {option.name for option in WORKER_OPTIONS}
    names = list(names)
    others = [name for name in names if name not in known and not name.startswith((*_WORKER_FAMILIES, *CONVERTER_PREFIXES))]
    found = {name: nearest for name in others if (nearest := nearest_of(name, known)) is not None}
    return found | _misspelt_converter_keys(names, known)


def _misspelt_converter_keys(names: Iterable[str], known: Container[str]) -> dict[str, str]:
    found = {}
    others = (name for name in names if name.startswith(CONVERTER_PREFIXES) and name not in known and name not in _CONVERTER_KEYS)
    for name in islice((name for name in others if _HEADER not in name), _LOOKED_UP_MAX):
        part = next(part for part in CONVERTER_PREFIXES if name.startswith(part))
        # Without their common prefix, which would make all of them alike.
        if (nearest := nearest_of(name.removeprefix(part), _OWN_NAMES)) is not None:
            found[name] = f"{part}{nearest}"
    return found


def without_effect(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return a sentence for each option set, without effect here, to other than its default."""
    return _without_effect((*FRAMEWORK_OPTIONS, *options, *_CONVERTER_KEYS.values()), properties)


def worker_keys_without_effect(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return a sentence for each option of a worker's file that is set without effect."""
    return _without_effect((*WORKER_OPTIONS, *_CONVERTER_KEYS.values()), properties)


def _without_effect(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    for option in options:
        for name in (option.name, *option.aliases):
            text = properties.get(name)
            if option.no_effect is not None and text is not None and text.strip().lower() != (option.default or "").lower():
                found[name] = f"no effect here: {option.no_effect}"
    return found


def describe_unknown(unknown: Mapping[str, str | None]) -> dict[str, str]:
    """Return a sentence for each unknown key. Values are never shown."""
    return {name: f"no such key; it is ignored{f'. Is {nearest} meant?' if nearest else ''}" for name, nearest in unknown.items()}
