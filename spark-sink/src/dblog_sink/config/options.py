"""Defines options, and readers that turn their text into values or raise ValueError (D13)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_PORT_MAX = 65_535
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option. ``read`` turns its text into a value, or raises ValueError with the reason."""

    name: str
    read: Callable[[str], Any]
    default: str | None
    doc: str


def text(given: str) -> str:
    """Read any text that is not empty."""
    if not given.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return given.strip()


def _numeric(convert: Callable[[str], Any], kind: str, least: int) -> Callable[[str], Any]:
    def read(given: str) -> Any:
        try:
            value = convert(given)
        except ValueError:
            msg = f"must be {kind}"
            raise ValueError(msg) from None
        # This refuses NaN too.
        if not value >= least:
            msg = f"must be at least {least}"
            raise ValueError(msg)
        return value

    return read


def whole(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers that are at least ``least``."""
    return _numeric(int, "a whole number", least)


number: Callable[[str], float] = _numeric(float, "a number", 0)
"""Reads a number that is zero or more."""


def truth(given: str) -> bool:
    """Read true or false."""
    lowered = given.strip().lower()
    if lowered not in ("true", "false"):
        msg = "must be true or false"
        raise ValueError(msg)
    return lowered == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a reader of one of these choices."""

    def read(given: str) -> str:
        if given.strip() not in choices:
            msg = f"must be one of {', '.join(choices)}"
            raise ValueError(msg)
        return given.strip()

    return read


def pattern(given: str) -> re.Pattern[str]:
    """Read a regular expression."""
    try:
        return re.compile(given)
    except re.error as e:
        msg = f"is not a regular expression: {e}"
        raise ValueError(msg) from None


def topic_or_none(given: str) -> str | None:
    """Read the name of a topic; an empty text gives None."""
    name = given.strip()
    if name and not _TOPIC.fullmatch(name):
        msg = "must be a topic's name: at most 249 of the characters a-z A-Z 0-9 . _ -, or empty"
        raise ValueError(msg)
    return name or None


def address(given: str) -> str:
    """Read an address to listen on: ``host:port``, or a port alone for all addresses."""
    port = given.strip().rpartition(":")[2]
    if not port.isdigit() or int(port) > _PORT_MAX:
        msg = "must be host:port, or a port"
        raise ValueError(msg)
    return given.strip()


def web_addresses(given: str) -> str:
    """Read addresses of http and https, separated by commas."""
    for part in given.split(","):
        try:
            found = urlsplit(part.strip())
            named = found.scheme in ("http", "https") and found.hostname
        except ValueError:
            named = None
        if not named:
            msg = "must be http:// or https:// and a host, or several of these separated by commas"
            raise ValueError(msg)
    return given.strip()


def name_list(given: str) -> tuple[str, ...]:
    """Read names separated by commas, none empty and none twice."""
    names = tuple(part.strip() for part in given.split(","))
    if not all(names):
        msg = "must be names separated by commas"
        raise ValueError(msg)
    if len({name.lower() for name in names}) < len(names):
        msg = "names something twice"
        raise ValueError(msg)
    return names
