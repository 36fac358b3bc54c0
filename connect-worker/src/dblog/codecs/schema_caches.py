"""Lets the caches that keep schemas by identity begin again together.

A transform may make a schema of each record's payload. So anybody who writes these records decides
how many schemas there are, and how large they are, while a cache counts its entries alone. The
transform keeps account of the fields of all of them (``transforms/expanded_json.py``), and once
they are too many every cache forgets what it has: else one would hold what another has dropped.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet


class SchemaCache(Protocol):
    """A cache with schemas, or what was made of them."""

    def forget(self) -> None:
        """Drop everything. What is asked for again is made again."""


_caches: WeakSet[SchemaCache] = WeakSet()


def forgets_with_others(cache: SchemaCache) -> None:
    """Have ``forget_all`` reach a cache for as long as others use it."""
    _caches.add(cache)


def forget_all() -> None:
    """Have every cache of this process drop its schemas."""
    for cache in list(_caches):
        cache.forget()
