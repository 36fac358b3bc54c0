"""Finds options that a configuration leaves out and whose default here is not Debezium's.

A warning names the option to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.options import Option


def other_defaults(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return a sentence for each unset option whose default differs from Debezium's, by name."""
    return {
        option.name: f"not set: {option.other_default}; write {option.name}={option.default}"
        for option in options
        if option.other_default is not None and not any((properties.get(name) or "").strip() for name in (option.name, *option.aliases))
    }
