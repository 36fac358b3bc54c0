"""The warnings that stand for each connector: what its configuration leaves in doubt, and what its task reports.

Doubts are found in the configuration itself, so any worker shows them, also of a connector that does not run. What the database had to say is
known from the request that gave the configuration, until the task reports its own list; a task that has ended leaves its last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dblog.cluster.doubts import doubts, ordinary, written_out
from dblog.cluster.sharedids import shared_prefixes, shared_readers
from dblog.cluster.stores import ConfigStore
from dblog.cluster.validation import hider
from dblog.config.plugins import find_connector
from dblog.config.providers import Provider, resolve
from dblog.readers.standing_warnings import shown


@dataclass(frozen=True, slots=True)
class _Found:
    """Warnings with the configuration that they are about; a task's has one key more."""

    config: Mapping[str, str]
    texts: tuple[str, ...]
    by_task: bool = False
    ordinary: frozenset[str] = frozenset()
    """Those of the texts that nobody needs to look at."""


class ConnectorWarnings:
    """Those of all connectors. Any thread may call any method: each changes one entry."""

    def __init__(self, configs: ConfigStore, *, providers: Mapping[str, Provider]) -> None:
        self._configs = configs
        self._providers = providers
        self._found: dict[str, _Found] = {}
        self._doubts: dict[str, _Found] = {}
        self._shared: Mapping[str, tuple[str, ...]] | None = None

    def accepted(self, name: str, config: Mapping[str, str], texts: Sequence[str]) -> None:
        """Keep what was in doubt when a request gave the connector this configuration. A task that runs with it already knows better."""
        known = self._found.get(name)
        if known is not None and known.by_task and config.items() <= known.config.items():
            return
        shared = self._shared_with_others().get(name, ())
        self._found[name] = _Found(config, tuple(text for text in texts if text not in shared))

    def reported(self, name: str, config: Mapping[str, str], texts: Sequence[str]) -> None:
        """Take the list of the connector's task, which runs with this configuration; secrets are hidden in it."""
        self._found[name] = _Found(config, tuple(texts), by_task=True)

    def of(self, name: str) -> tuple[str, ...]:
        """Return what stands for a connector now, bounded in number and length."""
        return shown(self._all(name))

    def count(self, name: str) -> int:
        """Return how many of them somebody should look at: all but secrets that are written out, insecure choices, and defaults that are not Debezium's."""
        view = self._configs.view(name)
        if view is None:
            return 0
        passed_over = self._doubts_of(name, view.config).ordinary
        return len(shown(text for text in self._all(name) if text not in passed_over))

    def _all(self, name: str) -> list[str]:
        view = self._configs.view(name)
        if view is None:
            return []
        found, texts = self._found.get(name), list(self._shared_with_others().get(name, ()))
        texts += self._doubts_of(name, view.config).texts
        if found is not None and view.config.items() <= found.config.items():
            texts += found.texts
        return texts

    def config_changed(self) -> None:
        """Look again at which connectors share a reader's name or a prefix: a configuration or a target has changed."""
        self._shared = None

    def forget(self, name: str) -> None:
        """Drop what is known of a connector that is deleted."""
        self._found.pop(name, None)
        self._doubts.pop(name, None)

    def abandon(self) -> None:
        """Drop what tasks have reported: another worker leads, and runs them."""
        self._found.clear()

    def _doubts_of(self, name: str, config: Mapping[str, str]) -> _Found:
        known = self._doubts.get(name)
        if known is None or known.config != config:
            known = self._doubts[name] = self._doubts_in(config)
        return known

    def _doubts_in(self, config: Mapping[str, str]) -> _Found:
        plugin = find_connector(config.get("connector.class"))
        if plugin is None:
            return _Found(config, ())
        # No provider is asked: a secret that nobody has read can be in no sentence.
        hide = hider(resolve(config, {}), config, plugin)
        secrets = written_out(plugin, config, self._providers)
        texts = (*map(hide, doubts(plugin, config)), *secrets)
        return _Found(config, texts, ordinary=frozenset((*map(hide, ordinary(plugin, config)), *secrets)))

    def _shared_with_others(self) -> Mapping[str, tuple[str, ...]]:
        shared = self._shared
        if shared is None:
            configs = self._configs.connector_configs()
            found = [shares(configs, is_stopped=self._configs.is_stopped) for shares in (shared_readers, shared_prefixes)]
            shared = self._shared = {name: tuple(of[name] for of in found if name in of) for of in found for name in of}
        return shared
