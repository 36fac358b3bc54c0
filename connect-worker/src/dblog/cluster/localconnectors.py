"""The connectors that this worker runs, each with a checked configuration, a target and a state."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.cluster.decisions import ConnectorActual
from dblog.cluster.records import State, Target
from dblog.cluster.state import ConnectorView
from dblog.cluster.statuswriter import StatusWriter
from dblog.cluster.stores import ConfigStore
from dblog.cluster.validation import connector_of, hider
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.config.providers import Provider, resolve
from dblog.errors import ConfigError, DblogError
from dblog.transforms.configuration import chain_of


class LocalConnectors:
    """Connectors of this worker.

    Changed only in the herder's thread; any thread may read a copy.
    """

    def __init__(
        self, configs: ConfigStore, status_writer: StatusWriter, *, providers: Mapping[str, Provider], hidden: Mapping[str, str]
    ) -> None:
        self.startups = self.startup_failures = 0
        """Counts since this worker started."""
        self._configs = configs
        self._status_writer = status_writer
        self._providers = providers
        self._hidden = hidden
        self._actual: dict[str, ConnectorActual] = {}

    def actual(self) -> dict[str, ConnectorActual]:
        """Return a copy of the connectors, for the comparison with what is wanted."""
        return dict(self._actual)

    def states(self) -> dict[str, State]:
        """Return the current state of each connector."""
        return {name: State.FAILED if actual.failed else _state_of(actual.target) for name, actual in self.actual().items()}

    def start(self, name: str) -> str | None:
        """Check a connector's configuration and start it.

        Return the reason if it failed, else None.
        """
        view = self._configs.view(name)
        if view is None:
            return None
        trace = None
        if view.target is Target.STOPPED:
            self._status_writer.write_connector(name, State.STOPPED)
        else:
            trace = self._unusable_because(view)
            if trace is None:
                self.startups += 1
                self._status_writer.write_connector(name, _state_of(view.target))
            else:
                self.startup_failures += 1
                self._status_writer.write_connector(name, State.FAILED, trace)
        self._actual[name] = ConnectorActual(config=view.config, target=view.target, failed=trace is not None)
        return trace

    def _unusable_because(self, view: ConnectorView) -> str | None:
        """Return why the connector cannot run, for its status, or None if it can."""
        try:
            plugin = connector_of(view.config)
            resolution = resolve(plugin.read_keys(view.config), self._providers)
            if resolution.errors:
                raise ConfigError(resolution.errors)
            hide = hider(resolution, view.config, plugin, of_worker=self._hidden)
            try:
                parse_connector(plugin.options, resolution.values)
                chain_of(resolution.values)
            except DblogError as e:
                return hide(f"The configuration of connector {view.name} cannot be used: {e}")
        except DblogError as e:
            return f"The configuration of connector {view.name} cannot be used: {e}"
        return None

    def retarget(self, name: str, target: Target) -> None:
        """Pause, resume or stop a connector."""
        actual = self._actual[name]
        if actual.failed and target is not Target.STOPPED:
            # FAILED stays FAILED; the target is remembered for the restart.
            self._actual[name] = ConnectorActual(config=actual.config, target=target, failed=True)
            return
        self.start(name)

    def fail(self, name: str, trace: str) -> None:
        """Mark a connector as FAILED with this trace."""
        actual = self._actual[name]
        self._actual[name] = ConnectorActual(config=actual.config, target=actual.target, failed=True)
        self._status_writer.write_connector(name, State.FAILED, trace)

    def restart_with_status(self, name: str) -> None:
        """Set the status RESTARTING. The next reconcile starts the connector."""
        self._status_writer.write_connector(name, State.RESTARTING)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Forget a connector. The next reconcile starts it if it is still wanted."""
        self._actual.pop(name, None)

    def abandon(self) -> None:
        """Forget all connectors, because another worker may lead."""
        self._actual.clear()


def make_tasks(view: ConnectorView) -> list[dict[str, str]] | None:
    """Return the configurations of a connector's tasks, or None for a class that this worker lacks.

    There is one task for a log: the connector's configuration with Connect's ``task.class``.
    """
    plugin = find_connector(view.config.get("connector.class"))
    return None if plugin is None else [{**view.config, "task.class": plugin.task_class}]


def _state_of(target: Target) -> State:
    return {Target.STARTED: State.RUNNING, Target.PAUSED: State.PAUSED, Target.STOPPED: State.STOPPED}[target]
