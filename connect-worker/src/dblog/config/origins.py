r"""The entries of ``access.control.allow.origin``: which origins the pages may have that call the REST interface from a browser.

Kafka Connect changed what an entry is, and files of both kinds are taken. Up to Kafka 3.9 ``*`` inside an entry stands for anything (Jetty 9's
CrossOriginFilter: ``https://*.corp.example``); since Kafka 4.0 an entry is a regular expression (Jetty 12's CrossOriginHandler:
``https://.*\.corp\.example``). What only an expression can have makes an entry one. An entry with nothing special is one origin as it is written: that
Kafka 4 takes each of its dots for any character would let in pages that nobody named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from dblog.config.options import Value, split_list
from dblog.config.regex import Pattern, PatternError, as_written

_EXPRESSION = re.compile(r"[\\(){}|?+^$]|\.\*|\[(?![0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])")
"""What an origin with ``*`` in it cannot have; a bracket may hold the address of an IPv6 host."""


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """The origins of one list. Empty: no page of another origin may call."""

    every: bool
    exact: frozenset[str]
    patterns: tuple[Pattern, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """PatternError names the entry at fault."""
        entries = split_list(text)
        exact = frozenset(entry for entry in entries if "*" not in entry and not _EXPRESSION.search(entry))
        return cls("*" in entries, exact, tuple(_pattern(entry) for entry in entries if entry != "*" and entry not in exact))

    def __bool__(self) -> bool:
        return bool(self.every or self.exact or self.patterns)

    def allows(self, origin: str) -> bool:
        """Whether a page of this origin may call."""
        return self.every or origin in self.exact or any(pattern.fullmatch(origin) for pattern in self.patterns)


def _pattern(entry: str) -> Pattern:
    text = entry if _EXPRESSION.search(entry) else ".*".join(rf"\Q{part}\E" for part in entry.split("*"))
    try:
        return Pattern(text)
    except PatternError as e:
        raise PatternError(f"the entry {as_written(entry)} cannot be used: {e}") from None


def check_origins(value: Value, _all: Mapping[str, Value]) -> str | None:
    """What is wrong with the list."""
    try:
        AllowedOrigins.of(value if isinstance(value, str) else "")
    except PatternError as e:
        return f"{e}; write origins such as https://console.example, or https://*.corp.example for all below a domain"
    return None
