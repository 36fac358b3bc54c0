"""Collects the facts of all connectors from the herder's views, for all callers together."""

from __future__ import annotations

import time

from dblog.cluster.records import TaskId
from dblog.config.plugins import find_connector
from dblog.page.fleet import Facts, facts_of
from dblog.page.history import History
from dblog.page.lake import lake_of
from dblog.rest.api import Services

_KEPT_S = 2.0
"""Least age at which the facts are collected again: several browsers share one collection."""
_SHARE_MAX = 0.01
"""Greatest share of a core for collecting, however many browsers ask: facts of more connectors are
kept for longer."""
SYSTEMS = {"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL"}


class Fleet:
    """The facts of all connectors. Used only in the event loop's thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._until_s = 0.0
        self._facts: dict[str, Facts] = {}

    def facts(self, services: Services) -> dict[str, Facts]:
        """Return the facts of all connectors by name, two seconds old, or older where there are so
        many that collecting them takes long.
        """
        if time.monotonic() >= self._until_s:
            began_s = time.thread_time()
            self._facts = self._collect(services)
            self._until_s = time.monotonic() + max(_KEPT_S, (time.thread_time() - began_s) / _SHARE_MAX)
        return self._facts

    def renew(self) -> None:
        """Collect again at the next request, because something has been changed."""
        self._until_s = 0.0

    def _collect(self, services: Services) -> dict[str, Facts]:
        herder, sinks, now_s = services.herder, services.sinks, time.time()
        reports = herder.status_view.reports()
        found: dict[str, Facts] = {}
        for name, view in herder.configs.views().items():
            report = reports.get(TaskId(name, 0))
            plugin = find_connector(view.config.get("connector.class"))
            found[name] = facts_of(
                name,
                config=view.config,
                system=SYSTEMS.get(plugin.flavor, plugin.flavor) if plugin is not None else "unknown class",
                target=view.target.value,
                status=herder.status_view.connector_status(name),
                numbers=None if report is None else report.numbers,
                reported_s=None if report is None else report.reported_s,
                waits=None if report is None else report.waits,
                restarts={} if report is None else report.restarts,
                rates=self._history.now(name),
                warnings=herder.status_view.warnings_of(name),
                now_s=now_s,
                lake=None if sinks is None else lake_of(sinks.of_topics(herder.statuses.topics(name)), sinks.sink, now_s),
            )
        return found
