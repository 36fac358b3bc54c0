"""RegexRouter: gives topics other names by a pattern.

A topic that the pattern matches as a whole gets the name that Java's ``replaceFirst`` makes; others
keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dblog.config.options import Importance, Settings
from dblog.config.regex import PatternError, Replacing
from dblog.errors import ConfigError
from dblog.transforms.options import pattern, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record

_TOPICS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """A pattern and the name for topics that it matches."""

    regex: Replacing
    effect = Effect.ROUTES
    _known: dict[str, str] = field(default_factory=dict, compare=False)

    def route(self, topic: str) -> str:
        """Return the topic's new name."""
        known = self._known.get(topic)
        if known is None:
            replaced = self.regex.replaced(topic)
            known = topic if replaced is None else replaced
            if len(self._known) >= _TOPICS_MAX:
                self._known.clear()
            self._known[topic] = known
        return known

    def apply(self, record: Record) -> Record:
        """Return the record in its new topic."""
        topic = self.route(record.topic)
        return record if topic == record.topic else record.with_topic(topic)


def _make(settings: Settings, _part: Part) -> RegexRouter:
    try:
        return RegexRouter(Replacing(settings.text("regex"), settings.text("replacement")))
    except PatternError as e:
        raise ConfigError({"replacement": [str(e)]}) from e


REGEX_ROUTER = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.RegexRouter",
    doc="Gives topics that a pattern matches as a whole other names.",
    make=_make,
    options=(
        replace(
            text("regex", "Pattern that the whole name of a topic has to match.", required=True, importance=Importance.HIGH), check=pattern
        ),
        text("replacement", "The new name; $1 is the first group.", required=True, importance=Importance.HIGH),
    ),
)
