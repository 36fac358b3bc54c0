"""Puts entries in the order of ``java.util.HashMap``.

Debezium keeps hstore and sparsevec values in such a map, so the entries of its records have this
order: by the lower bits of the spread hash, and by insertion within a bucket (Java's HashMap.java:
``hash``, ``putVal``, ``resize``, ``tableSizeFor``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")

DEFAULT_CAPACITY = 16
_MASK = (1 << 32) - 1


def in_java_order(entries: Mapping[Key, Item], hash_code: Callable[[Key], int], *, capacity: int = DEFAULT_CAPACITY) -> dict[Key, Item]:
    """Return the entries in the order of a HashMap that was created with ``capacity`` and filled in
    the given order.

    Buckets with eight or more entries, which Java turns into trees, keep that order too as long as
    nothing is removed.
    """
    buckets = 1 << max(0, capacity - 1).bit_length()
    while len(entries) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: Key) -> int:
        code = hash_code(key) & _MASK
        return (code ^ code >> 16) & (buckets - 1)

    return {key: entries[key] for key in sorted(entries, key=bucket)}


def string_hash(text: str) -> int:
    """Return ``String.hashCode`` as 32 bits, computed over UTF-16 units."""
    code = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        code = code * 31 + (raw[at] << 8 | raw[at + 1]) & _MASK
    return code


def short_hash(number: int) -> int:
    """Return ``Short.hashCode``, which is the number."""
    return number
