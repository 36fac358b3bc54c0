"""Checks and options that several transforms share."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.options import Importance, Kind, Option, Value
from dblog.config.regex import Pattern, PatternError

REPLACE_NULL = Option(
    name="replace.null.with.default",
    doc="If true, a field that is null and has a default gets the default; if false, it stays null.",
    kind=Kind.BOOLEAN,
    default="true",
)


def not_empty_list(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that a list has an item, in Connect's words."""
    return "Empty list" if value == () else None


def pattern(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that a text is a regular expression that can be used."""
    try:
        Pattern(str(value))
    except PatternError as e:
        return f"Invalid regex: {e}"
    return None


def anything(_value: Value, _all: Mapping[str, Value]) -> str | None:
    """Accept any text, an empty one too: Connect asks only that a required option is given."""
    return None


def text(name: str, doc: str, *, required: bool = False, default: str | None = None, importance: Importance = Importance.MEDIUM) -> Option:
    """Return an option for text."""
    return Option(name=name, doc=doc, required=required, default=default, importance=importance, check=anything if required else None)


def flag(name: str, doc: str, *, default: str, importance: Importance = Importance.LOW) -> Option:
    """Return an option that is true or false."""
    return Option(name=name, doc=doc, kind=Kind.BOOLEAN, default=default, importance=importance)


def names(name: str, doc: str, *, required: bool = False, importance: Importance = Importance.MEDIUM) -> Option:
    """Return an option for a list of names; a required one needs an item."""
    return Option(
        name=name,
        doc=doc,
        kind=Kind.LIST,
        required=required,
        default=None if required else "",
        importance=importance,
        check=not_empty_list if required else None,
    )
