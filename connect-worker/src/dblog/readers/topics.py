"""Detects captured tables that write to one topic, where rows of equal keys would overwrite each
other.

Debezium's strategies make a legal topic name of any table name, so two tables may get the same
name: characters that Kafka does not allow become underscores, so two Chinese names of equal length
become one topic. Dots in names look like the dots between them, so ``a.b`` of schema ``c`` and
``b`` of ``c.a`` are both ``c.a.b``. Strategies other than the connector's default leave out the
schema or the database. Kafka itself rejects two topics that differ only in a dot and an underscore,
because its metrics have one name for both (Topic.java, "collides").

Tables that ``topic.regex`` brings together share a topic on purpose.

A configuration under which two tables would share a topic is refused. A table that comes later, while
the connector runs or between two runs, is parked, and the table that has the topic goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import structlog

from dblog.codecs.topic_naming import TopicNaming, TopicRegex, strategy_of, takes_regex
from dblog.config.namespaces import Namespace, namespace_of
from dblog.config.options import Settings
from dblog.errors import ConfigError
from dblog.model import TableId
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

SHARED = "dblog.topics.shared"
_STRATEGY = "topic.naming.strategy"
_DELIMITER = "-"
"""Delimiter for the parts of a topic's name that stays distinct from a dot in Kafka's metrics."""
_NAMED_MAX = 20


def naming_of(settings: Settings) -> TopicNaming:
    """Return the rules for topic names in a connector's configuration."""
    namespace = namespace_of(settings)
    strategy = strategy_of(settings.text_or_none(_STRATEGY), has_schemas=namespace is Namespace.SCHEMA)
    return TopicNaming(
        prefix=settings.text("topic.prefix"),
        delimiter=settings.text("topic.delimiter"),
        heartbeat_prefix=settings.text("topic.heartbeat.prefix"),
        heartbeat_name=settings.text_or_none("topic.heartbeat.name"),
        transaction_suffix=settings.text("topic.transaction"),
        strategy=strategy,
        regex=TopicRegex(settings.text("topic.regex"), settings.text("topic.replacement")) if takes_regex(strategy) else None,
        has_schemas=namespace is Namespace.SCHEMA,
    )


def _as_named(topic: str) -> str:
    return topic


@dataclass(slots=True)
class TopicOwners:
    """Captured tables by topic, except those whose topic was chosen for them."""

    naming: TopicNaming
    route: Callable[[str], str] = _as_named
    """Function that returns the topic which transforms make of a topic."""
    _owners: dict[str, set[TableId]] = field(default_factory=dict)
    _writers: dict[str, set[TableId]] = field(default_factory=dict)
    """Captured tables by topic, including those whose topic was chosen for them."""

    def add(self, table: TableId) -> str | None:
        """Add a captured table; return a sentence about tables that share its topic, None if there
        are none.
        """
        self._writers.setdefault(self.route(self.naming.table(table)), set()).add(table)
        if self.naming.is_chosen(table):
            return None
        owners = self._owners.setdefault(self.key(table), set())
        owners.add(table)
        return None if len(owners) == 1 else self._sentence(owners)

    def remove(self, table: TableId) -> str | None:
        """Remove a table that is no longer captured.

        Return a sentence about tables that still share its topic, None if there are none.
        """
        self._writers.get(self.route(self.naming.table(table)), set()).discard(table)
        owners = self._owners.get(self.key(table), set())
        owners.discard(table)
        return None if len(owners) <= 1 else self._sentence(owners)

    def refusal(self, table: TableId) -> str | None:
        """Return why the table must not be added: others have its topic.

        Return None if there are none, or if it was added before.
        """
        owners = self._owners.get(self.key(table), set())
        if not owners or table in owners or self.naming.is_chosen(table):
            return None
        return self._sentence({*owners, table})

    def is_alone(self, table: TableId) -> bool:
        """Return True if no other captured table writes to the table's topic."""
        return len(self._writers.get(self.route(self.naming.table(table)), ())) <= 1

    def shared(self) -> list[str]:
        """Return a sentence for each topic that several tables share."""
        return [self._sentence(owners) for owners in self._owners.values() if len(owners) > 1]

    def key(self, table: TableId) -> str:
        """Return the topic's name in Kafka's metrics, which is equal for topics that Kafka cannot
        tell apart.
        """
        return _metric_name(self.naming.table(table))

    def _sentence(self, owners: set[TableId]) -> str:
        tables = sorted(owners)
        topics = sorted({self.naming.table(table) for table in tables})
        more = f" and {len(tables) - _NAMED_MAX} more" if len(tables) > _NAMED_MAX else ""
        named = f"{', '.join(map(_shown, tables[:_NAMED_MAX]))}{more}"
        if len(topics) > 1:
            why = f"the topics {' and '.join(topics[:_NAMED_MAX])} of {named} differ only in dots and underscores, and Kafka refuses the second one"
        else:
            why = f"{named} share the topic {topics[0]}, where rows of equal keys overwrite each other"
        return (
            f"{why}: {self._way_apart(tables)}leave some out with {self._list_apart(tables)} (a connector with another topic.prefix may capture them), or set "
            f"{SHARED}=true where this is meant"
        )

    def _list_apart(self, tables: Collection[TableId]) -> str:
        """Return the name of the exclude list that can leave out only some of these tables.

        table.exclude.list knows tables by their names joined with a dot, which may be equal for
        several.
        """
        if len({str(table) for table in tables}) == len(tables):
            return "table.exclude.list"
        return "schema.exclude.list" if self.naming.has_schemas else "database.exclude.list"

    def _way_apart(self, tables: Collection[TableId]) -> str:
        """Return the settings that give each of these tables a topic of its own, followed by ", or
        ".

        Return an empty text if neither letters nor dots are the reason.
        """
        unicode = self.naming.unicode_strategy
        by_letters = f"set {_STRATEGY}={unicode}, which writes other letters as numbers"
        by_dots = f"set topic.delimiter={_DELIMITER}, which divides the parts of every topic of the connector instead of dots"
        for other, way in (
            (replace(self.naming, strategy=unicode), by_letters),
            (replace(self.naming, delimiter=_DELIMITER), by_dots),
            (replace(self.naming, strategy=unicode, delimiter=_DELIMITER), f"{by_letters}, and {by_dots}"),
        ):
            if len({_metric_name(other.table(table)) for table in tables}) == len(tables):
                return f"{way}, or "
        return ""


def _shown(table: TableId) -> str:
    """Return a table's name, in quotes if its dots would be ambiguous."""
    return f'"{table.database}"."{table.name}"' if "." in f"{table.database}{table.name}" else str(table)


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")


class SharedTopicWarnings:
    """Warnings about topics that captured tables share, updated while the connector runs.

    ``route`` returns the topic which transforms make of a topic. Tables that they bring together
    share a topic on purpose.
    """

    def __init__(self, settings: Settings, warnings: StandingWarnings, *, route: Callable[[str], str] = _as_named) -> None:
        self._owners = None if settings.boolean(SHARED) else TopicOwners(naming_of(settings), route)
        self._warnings = warnings
        self._logged: set[str] = set()
        self._refused: dict[TableId, str] = {}
        """Tables whose topic others have, with the reason."""

    def captured(self, table: TableId) -> None:
        """Add a table whose records will be written."""
        if self._owners is not None and (sentence := self._owners.add(table)) is not None:
            key = f"shared topic {self._owners.key(table)}"
            if key not in self._logged:
                self._logged.add(key)
                log.warning("tables share a topic", reason=sentence)
            self._warnings.raise_warning(key, sentence)

    def refusal(self, table: TableId) -> str | None:
        """Return why the rows of a table that is new here must not be written: others have its topic.

        Return None if there are none. The warning stands until the table goes.
        """
        if self._owners is None or (sentence := self._owners.refusal(table)) is None:
            return None
        self._refused[table] = reason = (
            f"{sentence}. {_shown(table)} came last and is parked: none of its rows is written until the connector is started with a topic for it"
        )
        self._warnings.raise_warning(f"shared topic {self._owners.key(table)}", reason)
        return reason

    def gone(self, table: TableId) -> None:
        """Remove a table that was dropped or renamed."""
        if self._owners is None:
            return
        name = self._owners.key(table)
        key = f"shared topic {name}"
        self._refused.pop(table, None)
        sentence = self._owners.remove(table) or next((why for one, why in self._refused.items() if self._owners.key(one) == name), None)
        if sentence is None:
            self._warnings.withdraw(key)
        else:
            self._warnings.raise_warning(key, sentence)

    def is_alone(self, table: TableId) -> bool:
        """Return True if only this table can have rows in its topic.

        Return False if the configuration allows tables or connectors to share topics.
        """
        return self._owners is not None and self._owners.is_alone(table)


def refused_topics(settings: Settings, first: Iterable[TableId], later: Iterable[TableId]) -> dict[TableId, str]:
    """Return those of the ``later`` tables, in their order, whose topic a table before them has.

    The values are the reasons. Return nothing if the configuration allows tables to share topics.
    """
    owners = TopicOwners(naming_of(settings))
    if settings.boolean(SHARED):
        return {}
    for table in first:
        owners.add(table)
    refused = {}
    for table in later:
        if (reason := owners.refusal(table)) is not None:
            refused[table] = reason
        else:
            owners.add(table)
    return refused


def require_own_topics(settings: Settings, tables: Iterable[TableId]) -> None:
    """Raise ConfigError if some of the tables would share a topic and the configuration forbids
    that.
    """
    if settings.boolean(SHARED):
        return
    owners = TopicOwners(naming_of(settings))
    for table in tables:
        owners.add(table)
    if faults := owners.shared():
        more = [f"and {len(faults) - _NAMED_MAX} topics more"] if len(faults) > _NAMED_MAX else []
        raise ConfigError({_STRATEGY: [*faults[:_NAMED_MAX], *more]})
