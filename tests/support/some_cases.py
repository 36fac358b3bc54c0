"""Chooses some cases of each test that uses a server (``make test``).

A case of such a test costs a second of CPU or more, and its siblings mostly take the same way
through the code. ``make test-long`` has the other cases, and ``make test-day`` a fourteenth of them
each day. The rule is for all of ``FOLDER``; elsewhere the mark ``some_cases`` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.either_server import SERVER

EVERY = 3
"""Size of the groups of a test's cases of which ``make test`` runs the first."""
FOLDER = "tests/integration/"
USED = frozenset({"kafka", "mariadb", "mysql", "own_folder", "postgres", "source", "spark"})
"""Fixtures of servers. A test without any of them is cheap, so all its cases run."""


def later(names: Iterable[str]) -> set[str]:
    """Return the cases that can wait for ``make test-long``.

    ``names`` are in the order of collection. The cases of each database server are counted apart,
    so a test of behaviour in which two servers differ runs on both.
    """
    waiting: set[str] = set()
    counts: dict[tuple[str, str], int] = {}
    for name in names:
        test, _, case = name.partition("[")
        server = SERVER.search(case)
        key = test, server[0].lower() if server else ""
        counts[key] = counts.get(key, -1) + 1
        if counts[key] % EVERY:
            waiting.add(name)
    return waiting


def mark(items: list[pytest.Item]) -> None:
    """Mark the cases that can wait as long; those that wait already are not counted."""
    chosen = [item for item in items if _is_chosen(item)]
    waiting = later(item.nodeid for item in chosen)
    for item in chosen:
        if item.nodeid in waiting:
            item.add_marker(pytest.mark.long)


def _is_chosen(item: pytest.Item) -> bool:
    if not hasattr(item, "callspec") or item.get_closest_marker("long"):
        return False
    asked = item.get_closest_marker("some_cases") is not None
    return asked or (item.nodeid.startswith(FOLDER) and not USED.isdisjoint(item.fixturenames))
