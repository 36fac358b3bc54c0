"""Keeps the earlier configurations of each connector, as far as the config topic still has them. Pure.

The topic is compacted, so it forgets old configurations in time; until then a worker that starts
reads them all again, and a restart loses no version that Kafka has not removed. A version is named
by its record's offset, which stays the same on every worker. Memory is bounded: the oldest versions
of all connectors go first.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass

VERSIONS_MAX = 20
"""Versions of one connector, with the one that is in force."""
BYTES_MAX = 16 << 20
"""Bytes of all versions together, as JSON."""


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """A configuration that a connector has had."""

    offset: int
    """Offset of its record in the config topic, which names the version."""
    at_ms: int
    """Time of the record, in milliseconds; 0 if it is not known."""
    data: bytes

    @property
    def config(self) -> dict[str, str]:
        """The configuration as it was stored."""
        found: dict[str, str] = json.loads(self.data)
        return found


class ConfigHistory:
    """Earlier configurations by connector. Not thread-safe: its store protects it."""

    def __init__(self) -> None:
        self._versions: dict[str, deque[ConfigVersion]] = {}
        self._order: OrderedDict[tuple[int, str], int] = OrderedDict()
        """Bytes of each version, oldest first."""
        self._bytes = 0

    def note(self, name: str, config: Mapping[str, str] | None, *, offset: int, at_ms: int) -> None:
        """Add a version. None forgets a connector that was deleted, with its secrets."""
        if config is None:
            for version in self._versions.pop(name, ()):
                self._bytes -= self._order.pop((version.offset, name), 0)
            return
        data = json.dumps(config, sort_keys=True, ensure_ascii=False).encode()
        versions = self._versions.setdefault(name, deque())
        if versions and versions[-1].data == data:
            return
        versions.append(ConfigVersion(offset, at_ms, data))
        self._order[offset, name] = len(data)
        self._bytes += len(data)
        while len(versions) > VERSIONS_MAX:
            self._drop(name)
        while self._bytes > BYTES_MAX and len(self._order) > 1:
            self._drop(next(iter(self._order))[1])

    def _drop(self, name: str) -> None:
        oldest = self._versions[name].popleft()
        self._bytes -= self._order.pop((oldest.offset, name), 0)
        if not self._versions[name]:
            del self._versions[name]

    def of(self, name: str) -> list[ConfigVersion]:
        """Return the versions of a connector, newest first."""
        return list(reversed(self._versions.get(name, ())))
