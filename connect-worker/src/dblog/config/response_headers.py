"""The headers that ``response.http.headers.config`` adds to every answer of the REST interface, by
Kafka Connect's rules.

A rule is an action, a name and a value: ``set X-Frame-Options: DENY``. ``set`` replaces the result
of earlier rules for the name, and ``add`` adds to it. With ``setDate`` and ``addDate`` the value is
a number of milliseconds from now, and the header is a date. Commas separate rules; a rule that
contains a comma is in double quotes. A header that an answer already has stays, as in Connect,
where the resources run after the rules (Jetty's HeaderFilter).
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
"""At most 300 years in milliseconds. An HTTP date cannot express more, which is refused here and
not at each answer.
"""
_OF_THE_SERVER = frozenset({"connection", "content-length", "date", "keep-alive", "trailer", "transfer-encoding", "upgrade"})
"""With a second or a wrong one of these headers, clients cannot tell where an answer ends."""


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
    """The parsed rules, in their order."""

    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the option. Raise ValueError with the reason and the rule at fault."""
        return cls(tuple(_rule(item) for item in _items(text) if item))

    def at(self, now_s: float) -> list[tuple[bytes, bytes]]:
        """Return an answer's headers at this time, in seconds since 1970.

        Names are in lower case.
        """
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
        assert found is not None  # an empty item matches too
        yield re.sub(r"\\(.)", r"\1", found[1]).strip() if quoted else found[1].strip()
        at = found.end()


def _rule(text: str) -> _Rule:
    action, *header = text.split(maxsplit=1)
    name, _, value = (part.strip() for part in "".join(header).partition(":"))
    if action.lower() not in map(str.lower, _ACTIONS) or not name or not value:
        raise ValueError(
            f"'{text}' is not a rule; write one of {', '.join(_ACTIONS)}, then name: value, all in double quotes if it has a comma"
        )
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"'{text}' has characters that a header cannot have; write ASCII, and no blanks in the name")
    if name.lower() in _OF_THE_SERVER:
        raise ValueError(f"{name} is the server's own header; remove the rule")
    if action.lower().endswith("date") and _NUMBER.fullmatch(value) is None:
        raise ValueError(f"'{text}' needs a number of milliseconds from now, of at most 13 digits")
    return _Rule(action.lower(), name, value)


def check_response_headers(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Return what is wrong with the rules, or None."""
    try:
        ResponseHeaders.of(value if isinstance(value, str) else "")
    except ValueError as e:
        return str(e)
    return None
