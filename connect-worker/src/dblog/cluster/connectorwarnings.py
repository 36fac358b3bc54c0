"""The warnings of each connector: doubts about its configuration, and its task's reports.

Any worker finds the doubts in the configuration itself, even for a connector that does not run. The
database's warnings come from the request that set the configuration, until the task reports its own
list. A task that has ended leaves its last list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dblog.cluster.remarks import ordinary, remarks_on, written_out
from dblog.cluster.sharedids import nested_prefixes, shared_prefixes, shared_readers, shared_topic
from dblog.cluster.stores import ConfigStore, StatusStore
from dblog.cluster.validation import hider
from dblog.config.plugins import find_connector
from dblog.config.providers import Provider, resolve
from dblog.readers.standing_warnings import shown


@dataclass(frozen=True, slots=True)
class _Found:
    """Warnings, and the configuration that they are about.

    A task's configuration has one more key.
    """

    config: Mapping[str, str]
    texts: tuple[str, ...]
    by_task: bool = False
    ordinary: frozenset[str] = frozenset()
    """The texts that nobody needs to act on."""


class ConnectorWarnings:
    """The warnings of all connectors. Any thread may call any method: each changes one entry.

    ``statuses`` has the topics that a connector has written to; None to leave such warnings out.
    """

    def __init__(
        self,
        configs: ConfigStore,
        *,
        providers: Mapping[str, Provider],
        statuses: StatusStore | None = None,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._providers = providers
        self._found: dict[str, _Found] = {}
        self._doubts: dict[str, _Found] = {}
        self._shared: Mapping[str, tuple[str, ...]] | None = None
        self._nested: Mapping[str, tuple[str, ...]] | None = None

    def accepted(self, name: str, config: Mapping[str, str], texts: Sequence[str]) -> None:
        """Keep the warnings of a request that set this configuration.

        A list from a task that already runs with it is better and stays.
        """
        known = self._found.get(name)
        if known is not None and known.by_task and config.items() <= known.config.items():
            return
        shared = self._shared_with_others().get(name, ())
        self._found[name] = _Found(config, tuple(text for text in texts if text not in shared))

    def reported(self, name: str, config: Mapping[str, str], texts: Sequence[str]) -> None:
        """Store the list of the connector's task, which runs with this configuration.

        Its secrets are hidden.
        """
        self._found[name] = _Found(config, tuple(texts), by_task=True)

    def of(self, name: str) -> tuple[str, ...]:
        """Return the connector's current warnings, bounded in number and length."""
        return shown(self._all(name))

    def count(self, name: str) -> int:
        """Return the number of warnings that need attention.

        Does not count secrets that are written out, insecure choices, and defaults that are not
        Debezium's.
        """
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
        nested = self._nested_with_others().get(name, ())
        if self._statuses is not None and (shared := shared_topic(name, nested, self._statuses.topics)) is not None:
            texts.append(shared)
        texts += self._doubts_of(name, view.config).texts
        if found is not None and view.config.items() <= found.config.items():
            texts += found.texts
        return texts

    def config_changed(self) -> None:
        """Forget which connectors share a reader's name or a prefix, because one has changed."""
        self._shared = self._nested = None

    def forget(self, name: str) -> None:
        """Drop the warnings of a deleted connector."""
        self._found.pop(name, None)
        self._doubts.pop(name, None)

    def abandon(self) -> None:
        """Drop the tasks' reports, because another worker leads and runs the tasks."""
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
        # Without asking a provider: a secret that was never read cannot be in a text.
        hide = hider(resolve(config, {}), config, plugin)
        secrets = written_out(plugin, config, self._providers)
        texts = (*map(hide, remarks_on(plugin, config)), *secrets)
        return _Found(config, texts, ordinary=frozenset((*map(hide, ordinary(plugin, config)), *secrets)))

    def _shared_with_others(self) -> Mapping[str, tuple[str, ...]]:
        shared = self._shared
        if shared is None:
            configs = self._configs.connector_configs()
            found = [shares(configs, is_stopped=self._configs.is_stopped) for shares in (shared_readers, shared_prefixes)]
            shared = self._shared = {name: tuple(of[name] for of in found if name in of) for of in found for name in of}
        return shared

    def _nested_with_others(self) -> Mapping[str, tuple[str, ...]]:
        nested = self._nested
        if nested is None:
            nested = self._nested = nested_prefixes(self._configs.connector_configs())
        return nested
