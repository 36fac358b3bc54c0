"""Replaces known secrets in texts that people may read: log lines, errors and traces."""

from __future__ import annotations

import json
from collections.abc import Mapping


def forms_of(secret: str) -> tuple[str, str, str]:
    """Return the secret's forms: plain, as JSON, and as JSON that does not escape non-ASCII."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


class Hidden:
    """Replaces known secrets in texts."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """Hide the keys of ``known``, each replaced by its value."""
        self._known: tuple[tuple[str, str], ...] = ()
        self.take(known or {})

    def take(self, known: Mapping[str, str]) -> None:
        """Replace the set of hidden texts by the keys of ``known``; show each one's value instead.

        Their JSON forms are hidden too. Longer texts are replaced first, because one may contain
        another.
        """
        written = {form: shown for secret, shown in known.items() for form in forms_of(secret)}
        self._known = tuple(sorted(written.items(), key=lambda pair: -len(pair[0])))

    def out_of(self, text: str) -> str:
        """Return ``text`` with every hidden text replaced."""
        for secret, shown in self._known:
            text = text.replace(secret, shown)
        return text


HIDDEN_IN_LOG = Hidden()
"""Secrets hidden in this process's own log lines. A task fills it from its configuration."""
