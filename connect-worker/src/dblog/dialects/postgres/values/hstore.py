"""Converts an hstore's text into a map or into JSON.

Sources of the rules: PostgreSQL manual, hstore External Representation; Debezium's
PostgresValueConverter, which reads it with HStoreConverter into a HashMap.
"""

from __future__ import annotations

import re

from dblog.codecs.javatext import quoted
from dblog.dialects.postgres.values.java_maps import in_java_order, string_hash

_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_ENTRY = re.compile(rf"{_STRING}=>(?:{_STRING}|NULL)(?:, |$)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def hstore_map(text: str) -> dict[str, str | None]:
    """Return keys and values in Java's order; None is NULL. Raise ValueError for a text that is not
    an hstore.
    """
    out: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        found = _ENTRY.match(text, at)
        if found is None:
            raise ValueError
        key, value = found[1], found[2]
        out[_ESCAPED.sub(r"\1", key)] = None if value is None else _ESCAPED.sub(r"\1", value)
        at = found.end()
    return in_java_order(out, string_hash)


def hstore_json(text: str) -> str:
    """Return the map as JSON, as Jackson writes it."""
    return json_object(hstore_map(text))


def json_object(entries: dict[str, str | None]) -> str:
    """Return texts and nulls as a JSON object without blanks."""
    members = (f"{quoted(key)}:{'null' if value is None else quoted(value)}" for key, value in entries.items())
    return "{" + ",".join(members) + "}"
