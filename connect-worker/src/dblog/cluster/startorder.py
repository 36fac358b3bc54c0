"""The first message to a task's process: its configuration with secrets, its offsets, and what it
shares with the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.records import Target, TaskId
from dblog.cluster.stores import OffsetStore
from dblog.config.plugins import find_connector
from dblog.config.providers import Provider, resolve
from dblog.config.secrets import secrets_of
from dblog.errors import ConfigError, DefiniteError
from dblog.observe.hidden import Hidden
from dblog.observe.logs import LevelTable


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The message, and a function that removes its secrets from texts."""

    message: Mapping[str, Any]
    hide: Callable[[str], str]


class StartOrders:
    """Builds start orders with what all tasks of this worker share."""

    def __init__(
        self,
        offsets: OffsetStore,
        *,
        providers: Mapping[str, Provider],
        hidden: Mapping[str, str],
        properties: Mapping[str, str],
        advertised_url: str,
        levels: LevelTable,
        dumps: DumpStore | None = None,
    ) -> None:
        """Create the builder.

        ``hidden`` maps secrets of the worker's own file to what is shown instead. ``dumps``
        None means that requests for dumps are not accepted.
        """
        self._offsets = offsets
        self._providers = providers
        self._hidden = hidden
        self._properties = properties
        self._advertised_url = advertised_url
        self._levels = levels
        self._dumps = dumps

    def build(self, task: TaskId, config: Mapping[str, str], target: Target, *, generation: int) -> StartOrder:
        """Return a task's order with the offsets that have been read so far.

        Raise DefiniteError if its configuration cannot be used.
        """
        plugin = find_connector(config.get("connector.class"))
        resolution = resolve(config if plugin is None else plugin.read_keys(config), self._providers)
        if plugin is None or resolution.errors:
            reason = str(ConfigError(resolution.errors)) if resolution.errors else f"unknown class {config.get('connector.class')}"
            raise DefiniteError(f"The configuration of task {task} cannot be used: {reason}")
        hidden = {**self._hidden, **secrets_of(resolution, config, plugin.options)}
        message = {
            "type": "start",
            "connector": task.connector,
            "task": task.task,
            "config": resolution.values,
            "hidden": hidden,
            "worker": self._properties,
            "worker_url": self._advertised_url,
            "offsets": [{"partition": partition, "offset": offset} for partition, offset in self._offsets.of(task.connector)],
            "target": target.value,
            "generation": generation,
            "levels": self._levels.own(),
            "dumps": [request.to_json() for request in self._dumps.open(task.connector)] if self._dumps is not None else [],
        }
        return StartOrder(message, Hidden(hidden).out_of)
