"""The order in which ``java.util.HashMap`` gives its entries.

Debezium keeps hstore and sparsevec values in one, so its records have their entries in this order: by the lower bits of the spread hash, and within a
bucket by insertion (Java's HashMap.java: ``hash``, ``putVal``, ``resize``, ``tableSizeFor``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")

DEFAULT_CAPACITY = 16
_MASK = (1 << 32) - 1


def in_java_order(entries: Mapping[Key, Item], hash_code: Callable[[Key], int], *, capacity: int = DEFAULT_CAPACITY) -> dict[Key, Item]:
    """The same entries in the order of a map that was made with ``capacity`` and filled in the given order.

    Buckets of eight and more, which Java makes trees, keep that order too as long as nothing is removed.
    """
    buckets = 1 << max(0, capacity - 1).bit_length()
    while len(entries) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: Key) -> int:
        code = hash_code(key) & _MASK
        return (code ^ code >> 16) & (buckets - 1)

    return {key: entries[key] for key in sorted(entries, key=bucket)}


def string_hash(text: str) -> int:
    """``String.hashCode`` in 32 bits: over UTF-16 units."""
    code = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        code = code * 31 + (raw[at] << 8 | raw[at + 1]) & _MASK
    return code


def short_hash(number: int) -> int:
    """``Short.hashCode``: the number."""
    return number
