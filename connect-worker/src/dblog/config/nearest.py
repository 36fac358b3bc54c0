"""The known name that a misspelt one most resembles."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.8
"""difflib's ratio from which a name counts as meant: one or two letters of a key's length."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The nearest of the known names, whatever the case; None when none resembles it."""
    folded = {key.lower(): key for key in known}
    found = get_close_matches(name.lower().strip(), sorted(folded), n=1, cutoff=_ALIKE)
    return folded[found[0]] if found else None


def of_like_length(name: str, other: str) -> bool:
    """Whether the lengths alone let one resemble the other: the ratio is at most twice the shorter length by the sum of both."""
    return 2 * min(len(name), len(other)) >= _ALIKE * (len(name) + len(other))
