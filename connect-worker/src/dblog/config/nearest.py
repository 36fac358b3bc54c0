"""Finds the known name that a misspelt one resembles most."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.8
"""difflib's ratio above which two names are alike: one or two letters may differ in a key."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the nearest known name, ignoring case, or None if none is alike."""
    folded = {key.lower(): key for key in known}
    found = get_close_matches(name.lower().strip(), sorted(folded), n=1, cutoff=_ALIKE)
    return folded[found[0]] if found else None


def of_like_length(name: str, other: str) -> bool:
    """Return True if the lengths allow the names to be alike.

    The ratio is at most twice the shorter length divided by the sum of both.
    """
    return 2 * min(len(name), len(other)) >= _ALIKE * (len(name) + len(other))
