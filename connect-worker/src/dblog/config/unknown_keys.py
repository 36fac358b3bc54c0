"""Finds keys of a connector's configuration that change nothing here: unknown ones, with the known key that each most resembles, and known ones without effect.

Connect ignores such keys, and so does this worker, for a configuration often carries keys of other versions and tools. But a misspelt filter that is
ignored dumps a whole server, so an unknown key is named: in the log and a header when a connector is made, in the log at every start of its task, and in
the validate answer, without making the configuration invalid. A worker's file is looked at too, at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.framework import FRAMEWORK_OPTIONS
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
    "key.converter.",
    "predicates.",
    "producer.override.",
    "schema.history.internal.consumer.",
    "schema.history.internal.producer.",
    "signal.consumer.",
    "snapshot.select.statement.overrides.",
    "topic.creation.",
    "transforms.",
    "value.converter.",
)
"""Keys below these are clients', converters' and transforms' own, or are checked where their family is read."""

_WORKER_FAMILIES = (
    "admin.",
    "config.providers.",
    "config.storage.",
    "consumer.",
    "header.converter.",
    "key.converter.",
    "listeners.https.",
    "offset.storage.",
    "producer.",
    "reconnect.",
    "sasl.",
    "socket.",
    "ssl.",
    "status.storage.",
    "value.converter.",
)
"""The same of a worker's file: clients', converters', providers' and topics' own keys."""

_ADDED_FOR_TASKS = frozenset({"task.class"})
"""What the worker itself adds to the configuration of a task, as Connect does."""


_LOOKED_UP_MAX = 100


def unknown_keys(options: Iterable[Option], names: Iterable[str]) -> dict[str, str | None]:
    """Each of the names that neither Connect nor the connector's ``options`` declare, in order, with the nearest known one, or None.

    It is looked for while there are few: a comparison with all known keys takes more than a millisecond.
    """
    known = {name for option in (*FRAMEWORK_OPTIONS, *options) for name in (option.name, *option.aliases)}
    unknown = [name for name in names if name not in known and name not in _ADDED_FOR_TASKS and not name.startswith(_FAMILIES)]
    return {name: nearest_of(name, known) if at < _LOOKED_UP_MAX else None for at, name in enumerate(unknown)}


def misspelt_worker_keys(names: Iterable[str]) -> dict[str, str]:
    """Keys of a worker's file that resemble a known one and are none, with the known one. Others are clients' or other tools' own, and not named."""
    known = {option.name for option in WORKER_OPTIONS}
    unknown = [name for name in names if name not in known and not name.startswith(_WORKER_FAMILIES)]
    return {name: nearest for name in unknown if (nearest := nearest_of(name, known)) is not None}


def without_effect(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    """A sentence for each key of a connector that is set, and to another value than its default, and has no effect here."""
    return _without_effect((*FRAMEWORK_OPTIONS, *options), properties)


def worker_keys_without_effect(properties: Mapping[str, str | None]) -> dict[str, str]:
    """The same of a worker's file."""
    return _without_effect(WORKER_OPTIONS, properties)


def _without_effect(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    for option in options:
        for name in (option.name, *option.aliases):
            text = properties.get(name)
            if option.no_effect is not None and text is not None and text.strip() != (option.default or ""):
                found[name] = f"no effect here: {option.no_effect}"
    return found


def describe_unknown(unknown: Mapping[str, str | None]) -> dict[str, str]:
    """A sentence for each unknown key; values are never shown."""
    return {name: f"no such key; it is ignored{f'. Is {nearest} meant?' if nearest else ''}" for name, nearest in unknown.items()}
