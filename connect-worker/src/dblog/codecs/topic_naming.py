"""Names the topics of one connector by Debezium's six strategies (package ``io.debezium.schema``;
its manual, connector property ``topic.naming.strategy``).

A strategy joins the prefix with the parts of the table's name and makes the result a legal Kafka
topic name. Default strategies use database and table, Schema strategies schema and table, as far as
a table's id has them in Debezium. A MySQL table has no schema there, and a PostgreSQL table no
database (``PgOutputMessageDecoder`` creates a ``TableId`` without a catalog). So under a strategy
that is not its connector's default, tables of one name in several databases or schemas share a
topic. Unicode strategies write an illegal character, and the underscore, as ``_u`` and its number,
so that no two tables share a topic by accident. Regex strategies rename a topic whose whole name
matches ``topic.regex``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import re2

from dblog.model import TableId

DEFAULT = "io.debezium.schema.DefaultTopicNamingStrategy"
"""Debezium's default if tables are in databases."""
BY_SCHEMA = "io.debezium.schema.SchemaTopicNamingStrategy"
"""Debezium's default if tables are in the schemas of one database."""
STRATEGIES: Mapping[str, tuple[bool, bool, bool]] = {
    DEFAULT: (True, False, False),
    BY_SCHEMA: (False, False, False),
    "io.debezium.schema.DefaultUnicodeTopicNamingStrategy": (True, True, False),
    "io.debezium.schema.SchemaUnicodeTopicNamingStrategy": (False, True, False),
    "io.debezium.schema.DefaultRegexTopicNamingStrategy": (True, False, True),
    "io.debezium.schema.SchemaRegexTopicNamingStrategy": (False, False, True),
}
"""Properties of each strategy by class name: True if the database is a part of the name (else the
schema), True if illegal characters are written as numbers, True if ``topic.regex`` is used.
"""
_BY_LOWER_CASE = {name.lower(): name for name in STRATEGIES}
TOPIC_NAME_LENGTH_MAX = 249
_TWO = 2
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_ILLEGAL_UNICODE = re.compile(r"[^A-Za-z0-9.-]")
_REFERENCE = re.compile(r"\$(\d+)|\$\{(\w+)\}|\\(.)", re.DOTALL)


def strategy_of(text: str | None, *, has_schemas: bool = False) -> str:
    """Return the strategy that a configuration names, ignoring case and blanks around it, or the
    connector's default if it names none. Raise KeyError for any other class.
    """
    if not text or not text.strip():
        return BY_SCHEMA if has_schemas else DEFAULT
    return _BY_LOWER_CASE[text.strip().lower()]


def takes_regex(strategy: str) -> bool:
    """Return True if the strategy uses ``topic.regex``."""
    _, _, with_regex = STRATEGIES[strategy]
    return with_regex


def own_topic(kind: str, prefix: str) -> str:
    """Return the default name of a topic that Debezium does not have.

    It does not begin with the prefix, because sinks subscribe to ``<prefix>.*`` and take each topic
    for a table's. Debezium keeps its heartbeats out in the same way.
    """
    return f"__dblog-{kind}.{prefix}"


def clean_topic(name: str, *, unicode: bool = False) -> str:
    """Return a legal Kafka topic name, as Debezium's TopicNamingStrategy makes it. Characters count
    as in Java, by 16 bits.
    """
    # Java's format of numbers puts two zeros before one or two hexadecimal digits.
    cleaned = _ILLEGAL_UNICODE.sub(_as_number, _java_chars(name)) if unicode else _ILLEGAL.sub("_", _java_chars(name))
    cleaned = cleaned[:TOPIC_NAME_LENGTH_MAX]
    return {".": "_", "..": "__"}.get(cleaned, cleaned)


def _as_number(found: re.Match[str]) -> str:
    digits = f"{ord(found[0]):x}"
    return f"_u00{digits}" if len(digits) <= _TWO else f"_u{digits}"


def _java_chars(name: str) -> str:
    """Return the text as Java's characters: each one beyond 16 bits becomes two surrogates."""
    units = name.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))


@dataclass(frozen=True, slots=True)
class TopicRegex:
    """The options ``topic.regex`` and ``topic.replacement``. Debezium matches them with RE2, and so
    does this class.
    """

    pattern: str
    replacement: str

    def __call__(self, topic: str) -> str:
        """Return the topic's new name, or the topic itself if it does not match as a whole or
        nothing would be left.
        """
        match = re2.fullmatch(self.pattern, topic)
        return topic if match is None else self._expanded(match) or topic

    def _expanded(self, match: Any) -> str:
        return _REFERENCE.sub(lambda one: one[3] or match.group(_group(one[1] or one[2])) or "", self.replacement)


def _group(name: str) -> int | str:
    return int(name) if name.isdigit() else name


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNaming:
    """The topic names of one connector. ``strategy`` is one of ``STRATEGIES``; ``regex`` is for the
    Regex ones.
    """

    prefix: str
    delimiter: str = "."
    heartbeat_prefix: str = "__debezium-heartbeat"
    heartbeat_name: str | None = None
    transaction_suffix: str = "transaction"
    strategy: str = DEFAULT
    regex: TopicRegex | None = None
    has_schemas: bool = False
    """True if the first part of a table's id is a schema of the connector's one database rather
    than a database.
    """

    def table(self, table: TableId) -> str:
        """Return the topic of a table: ``<prefix>.<database or schema>.<table>`` with the
        connector's default strategy.
        """
        with_database, unicode, with_regex = STRATEGIES[self.strategy]
        first = [table.database] if with_database is not self.has_schemas else []
        name = clean_topic(self._joined(self.prefix, *first, table.name), unicode=unicode)
        return self.regex(name) if with_regex and self.regex is not None else name

    def is_chosen(self, table: TableId) -> bool:
        """Return True if ``topic.regex`` changes the table's topic."""
        return self.regex is not None and takes_regex(self.strategy) and self.table(table) != replace(self, regex=None).table(table)

    @property
    def unicode_strategy(self) -> str:
        """Strategy that gives each table its own topic, whatever characters its name has."""
        package = DEFAULT.rpartition(".")[0]
        return f"{package}.{'Schema' if self.has_schemas else 'Default'}UnicodeTopicNamingStrategy"

    @property
    def schema_changes(self) -> str:
        """Topic of DDL records."""
        return clean_topic(self.prefix)

    @property
    def heartbeat(self) -> str:
        """Topic of heartbeats: ``__debezium-heartbeat.<prefix>``, or ``topic.heartbeat.name``
        alone.
        """
        return clean_topic(self.heartbeat_name or self._joined(self.heartbeat_prefix, self.prefix))

    def other(self, suffix: str) -> str:
        """Return the topic of records that belong to no table."""
        return clean_topic(self._joined(self.prefix, suffix))

    @property
    def transactions(self) -> str:
        """Topic of transaction metadata."""
        return clean_topic(self._joined(self.prefix, self.transaction_suffix))

    def _joined(self, *parts: str) -> str:
        return self.delimiter.join(part for part in parts if part)
