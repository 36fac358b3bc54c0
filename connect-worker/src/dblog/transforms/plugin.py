"""Defines what a transform and a predicate are, and how they declare class names and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from dblog.config.options import Option, Settings
from dblog.transforms.parts import Part
from dblog.transforms.record import Record


class Effect(Enum):
    """The most that a transform does to a record. It decides what a chunk marker can promise."""

    ROUTES = 1
    """Changes the topic, by the topic's name alone."""
    ADDS = 2
    """Changes headers and nothing else."""
    DROPS = 3
    """Drops records, and leaves the others as they are."""
    CHANGES = 4
    """Changes keys or values, or routes by them."""


class Transform(Protocol):
    """A configured transform. One thread calls it."""

    @property
    def effect(self) -> Effect:
        """The most that it does to a record."""

    def apply(self, record: Record) -> Record | None:
        """Return the record after the transform, or None to drop it.

        Raise RecordError if the transform cannot handle the record.
        """


class Router(Transform, Protocol):
    """A transform whose effect is ROUTES."""

    def route(self, topic: str) -> str:
        """Return the topic for records of a topic."""


class Predicate(Protocol):
    """A configured predicate."""

    def test(self, record: Record) -> bool:
        """Return True if the predicate holds for the record."""


class TopicPredicate(Predicate, Protocol):
    """A predicate that depends on the topic alone."""

    def test_topic(self, topic: str) -> bool:
        """Return True if the predicate holds for records of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlugin:
    """A transform that a configuration can name.

    ``make`` returns the transform of settings that passed the options' checks. It raises ConfigError
    if they contradict each other; the names in it have no prefix. ``parts`` are the class's
    variants; empty if it has none, and then ``make`` gets Part.VALUE.
    """

    class_name: str
    doc: str
    make: Callable[[Settings, Part], Transform]
    options: tuple[Option, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class names under which it is known, without aliases."""
        return tuple(f"{self.class_name}${part.value}" for part in self.parts) or (self.class_name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicatePlugin:
    """A predicate that a configuration can name; ``make`` is as for TransformPlugin."""

    class_name: str
    doc: str
    make: Callable[[Settings], Predicate]
    options: tuple[Option, ...] = ()
