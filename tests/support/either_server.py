"""Trials that judge what both servers share: ``make test`` runs each on one of the two, and ``make test-long`` on the other.

What a server does in its own way (types, statements, privileges, positions, how a log is written) is tried on both each time; such a file lacks the mark
``either_server``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

import pytest

_SERVER = re.compile(r"mariadb|mysql", re.IGNORECASE)


def later(names: Iterable[str]) -> set[str]:
    """Those of the tests' names that can wait: of two names that differ in the server alone, one, which by the name's own number."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        test, bracket, case = name.partition("[")
        if server := _SERVER.search(case):
            found.setdefault(test + bracket + case[: server.start()] + case[server.end() :], {})[server[0].lower()] = name
    return {servers[("mariadb", "mysql")[crc32(key.encode()) % 2]] for key, servers in found.items() if len(servers) == 2}


def mark(items: list[pytest.Item]) -> None:
    """Mark those that wait as long."""
    marked = [item for item in items if item.get_closest_marker("either_server")]
    waiting = later(item.nodeid for item in marked)
    for item in marked:
        if item.nodeid in waiting:
            item.add_marker(pytest.mark.long)
