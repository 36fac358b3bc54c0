"""The predicates of Kafka Connect: HasHeaderKey, RecordIsTombstone, TopicNameMatches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dblog.config.options import Importance, Settings
from dblog.config.regex import Pattern
from dblog.transforms.options import pattern, text
from dblog.transforms.plugin import PredicatePlugin
from dblog.transforms.record import Record

_PACKAGE = "org.apache.kafka.connect.transforms.predicates"
_TOPICS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Holds for records with at least one header of a name."""

    name: str

    def test(self, record: Record) -> bool:
        """Return True if the record has the header."""
        return any(header.name == self.name for header in record.headers)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Holds for records whose value is null."""

    def test(self, record: Record) -> bool:
        """Return True if the value is null."""
        return record.is_tombstone


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Holds for records whose topic a pattern matches as a whole."""

    pattern: Pattern
    _known: dict[str, bool] = field(default_factory=dict, compare=False)

    def test_topic(self, topic: str) -> bool:
        """Return True if the pattern matches the topic."""
        known = self._known.get(topic)
        if known is None:
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            known = self._known[topic] = self.pattern.fullmatch(topic)
        return known

    def test(self, record: Record) -> bool:
        """Return True if the pattern matches the record's topic."""
        return self.test_topic(record.topic)


def _has_header_key(settings: Settings) -> HasHeaderKey:
    return HasHeaderKey(settings.text("name"))


def _record_is_tombstone(_settings: Settings) -> RecordIsTombstone:
    return RecordIsTombstone()


def _topic_name_matches(settings: Settings) -> TopicNameMatches:
    return TopicNameMatches(Pattern(settings.text("pattern")))


PREDICATES = (
    PredicatePlugin(
        class_name=f"{_PACKAGE}.HasHeaderKey",
        doc="Holds for records with at least one header of the name.",
        make=_has_header_key,
        options=(text("name", "Name of the header.", required=True),),
    ),
    PredicatePlugin(class_name=f"{_PACKAGE}.RecordIsTombstone", doc="Holds for records whose value is null.", make=_record_is_tombstone),
    PredicatePlugin(
        class_name=f"{_PACKAGE}.TopicNameMatches",
        doc="Holds for records whose topic the pattern matches as a whole.",
        make=_topic_name_matches,
        options=(replace(text("pattern", "Pattern for names of topics.", required=True), check=pattern, importance=Importance.MEDIUM),),
    ),
)
