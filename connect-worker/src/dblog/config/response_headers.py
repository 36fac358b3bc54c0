"""The headers that ``response.http.headers.config`` gives every answer of the REST interface: rules as Kafka Connect has them.

A rule is an action, a name and a value: ``set X-Frame-Options: DENY``. ``set`` replaces what earlier rules say of the name, ``add`` stands beside it. With
``setDate`` and ``addDate`` the value is a number of milliseconds from now, and the header a date. Rules stand between commas; one that has a comma stands in
double quotes. What an answer has by itself stays, as in Connect, where the resources come after the rules (Jetty's HeaderFilter).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Self

from dblog.config.options import Value

_ACTIONS = ("set", "add", "setDate", "addDate")
_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_BARE = re.compile(r"([^,]*)(?:,|$)")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]+")
_NUMBER = re.compile(r"[+-]?[0-9]{1,13}")
"""300 years in milliseconds: more than a date of HTTP has room for is refused here, not at each answer."""
_OF_THE_SERVER = frozenset({"connection", "content-length", "date", "keep-alive", "trailer", "transfer-encoding", "upgrade"})
"""A second one of these, or one that is wrong, and clients no longer know where an answer ends."""


@dataclass(frozen=True, slots=True)
class _Rule:
    action: str
    name: str
    value: str

    @property
    def replaces(self) -> bool:
        return self.action.startswith("set")

    def value_at(self, now_s: float) -> str:
        return formatdate(now_s + int(self.value) / 1000, usegmt=True) if self.action.endswith("date") else self.value


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """What the rules say, in their order."""

    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """ValueError has the reason, and the rule at fault."""
        return cls(tuple(_rule(item) for item in _items(text) if item))

    def at(self, now_s: float) -> list[tuple[bytes, bytes]]:
        """The headers of an answer at this time, in seconds since 1970; their names in small letters."""
        found: list[tuple[bytes, bytes]] = []
        for rule in self.rules:
            name = rule.name.lower().encode("ascii")
            if rule.replaces:
                found = [header for header in found if header[0] != name]
            found.append((name, rule.value_at(now_s).encode("ascii")))
        return found


def _items(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        found = quoted or _BARE.match(text, at)
        assert found is not None  # an empty item matches
        yield re.sub(r"\\(.)", r"\1", found[1]).strip() if quoted else found[1].strip()
        at = found.end()


def _rule(text: str) -> _Rule:
    action, *header = text.split(maxsplit=1)
    name, _, value = (part.strip() for part in "".join(header).partition(":"))
    if action.lower() not in map(str.lower, _ACTIONS) or not name or not value:
        raise ValueError(
            f"'{text}' is no rule; write one of {', '.join(_ACTIONS)}, then name: value, all in double quotes if it has a comma"
        )
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"'{text}' has characters that a header cannot have; write ASCII, and no blanks in the name")
    if name.lower() in _OF_THE_SERVER:
        raise ValueError(f"{name} is the server's own header; remove the rule")
    if action.lower().endswith("date") and _NUMBER.fullmatch(value) is None:
        raise ValueError(f"'{text}' needs a number of milliseconds from now, of at most 13 digits")
    return _Rule(action.lower(), name, value)


def check_response_headers(value: Value, _all: Mapping[str, Value]) -> str | None:
    """What is wrong with the rules."""
    try:
        ResponseHeaders.of(value if isinstance(value, str) else "")
    except ValueError as e:
        return str(e)
    return None
