"""Filter: drops every record that it gets. A predicate decides which records these are."""

from __future__ import annotations

from dataclasses import dataclass

from dblog.config.options import Settings
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record


@dataclass(frozen=True, slots=True)
class Filter:
    """The transform has no options."""

    effect = Effect.DROPS

    def apply(self, record: Record) -> None:
        """Drop the record."""
        del record


def _make(_settings: Settings, _part: Part) -> Filter:
    return Filter()


FILTER = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.Filter",
    doc="Drops every record that it gets; a predicate decides which these are.",
    make=_make,
)
