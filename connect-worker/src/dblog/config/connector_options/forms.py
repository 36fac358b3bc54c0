"""Helpers for declaring options: Debezium's wording of errors, group names, and the reason for an
option that dblog does not support yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dblog.config.options import Importance, Kind, Large, Option, Voice, Width

CONNECTION = "Connection"
REPLICATION = "Replication"
FILTERS = "Filters"
EVENTS = "Events"
SNAPSHOT = "Snapshot"
SIGNALS = "Signals"
TOPICS = "Topics"
RUNTIME = "Run time"
HISTORY = "Schema history"
OURS = "dblog"

HIGH, LOW = Importance.HIGH, Importance.LOW

DUMP_THREADS = Large(64, "each is a thread, a connection to the database and up to two chunks in the memory of the task's process")

option = partial(Option, voice=Voice.DEBEZIUM)
int_option = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.INT)
long_option = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.LONG)
bool_option = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.BOOLEAN, width=Width.SHORT)
list_option = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.LIST, width=Width.LONG)


def not_yet(what: str) -> str:
    """Return the reason to refuse an option whose effect dblog does not have yet."""
    return f"dblog does not {what} yet; remove the key"


def placed(options: tuple[Option, ...], behind: Mapping[str, tuple[Option, ...]]) -> tuple[Option, ...]:
    """Return ``options`` with others inserted, for forms and the reference page.

    ``behind`` maps the name of an option to the options that follow it. Raise AssertionError for a
    name that no option has.
    """
    missing = behind.keys() - {each.name for each in options}
    assert not missing, missing
    return tuple(one for each in options for one in (each, *behind.get(each.name, ())))


def changed(options: tuple[Option, ...], changes: Mapping[str, Mapping[str, Any]]) -> tuple[Option, ...]:
    """Return ``options`` with changed fields, such as a default or a text, by option name.

    Raise AssertionError for a name that no option has.
    """
    missing = changes.keys() - {each.name for each in options}
    assert not missing, missing
    return tuple(replace(each, **changes.get(each.name, {})) for each in options)
