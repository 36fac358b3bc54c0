"""Chooses MariaDB or MySQL for each test of behaviour that they share (``make test``).

``make test-long`` uses the other one. Tests of behaviour that differs (types, statements,
privileges, positions, the form of a log) always run on both; their files lack the mark
``either_server``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

import pytest

SERVER = re.compile(r"mariadb|mysql", re.IGNORECASE)
"""The name of a server in that of a case."""


def later(names: Iterable[str]) -> set[str]:
    """Return the tests' names that can wait for ``make test-long``.

    Of two names that differ only in the server, a checksum of the name chooses the one that waits.
    """
    found: dict[str, dict[str, str]] = {}
    for name in names:
        test, bracket, case = name.partition("[")
        if server := SERVER.search(case):
            found.setdefault(test + bracket + case[: server.start()] + case[server.end() :], {})[server[0].lower()] = name
    return {servers[("mariadb", "mysql")[crc32(key.encode()) % 2]] for key, servers in found.items() if len(servers) == 2}


def mark(items: list[pytest.Item]) -> None:
    """Mark the tests that can wait as long."""
    marked = [item for item in items if item.get_closest_marker("either_server")]
    waiting = later(item.nodeid for item in marked)
    for item in marked:
        if item.nodeid in waiting:
            item.add_marker(pytest.mark.long)
