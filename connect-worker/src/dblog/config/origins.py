r"""The entries of ``access.control.allow.origin``: origins whose pages may call the REST interface
from a browser.

Kafka Connect has changed the form of an entry, and both forms are accepted. Up to Kafka 3.9 ``*``
inside an entry stands for any text (Jetty 9's CrossOriginFilter: ``https://*.corp.example``). Since
Kafka 4.0 an entry is a regular expression (Jetty 12's CrossOriginHandler:
``https://.*\.corp\.example``). An entry with characters that only an expression can have is an
expression. An entry without special characters is one literal origin: in Kafka 4 each of its dots
would match any character and let in pages that nobody named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from dblog.config.options import Value, split_list
from dblog.config.regex import Pattern, PatternError, as_written

_EXPRESSION = re.compile(r"[\\(){}|?+^$]|\.\*|\[(?![0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])")
"""Characters that an origin with ``*`` cannot have. Brackets may enclose an IPv6 address."""


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """The origins of one list. Without any, no page of another origin may call."""

    every: bool
    exact: frozenset[str]
    patterns: tuple[Pattern, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a list. Raise PatternError naming the entry at fault."""
        entries = split_list(text)
        exact = frozenset(entry for entry in entries if "*" not in entry and not _EXPRESSION.search(entry))
        return cls("*" in entries, exact, tuple(_pattern(entry) for entry in entries if entry != "*" and entry not in exact))

    def __bool__(self) -> bool:
        return bool(self.every or self.exact or self.patterns)

    def allows(self, origin: str) -> bool:
        """Return True if a page of this origin may call."""
        return self.every or origin in self.exact or any(pattern.fullmatch(origin) for pattern in self.patterns)


def _pattern(entry: str) -> Pattern:
    text = entry if _EXPRESSION.search(entry) else ".*".join(rf"\Q{part}\E" for part in entry.split("*"))
    try:
        return Pattern(text)
    except PatternError as e:
        raise PatternError(f"the entry {as_written(entry)} cannot be used: {e}") from None


def check_origins(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Return what is wrong with the list, or None."""
    try:
        AllowedOrigins.of(value if isinstance(value, str) else "")
    except PatternError as e:
        return f"{e}; write origins such as https://console.example, or https://*.corp.example for all below a domain"
    return None
