"""Runs a connector's transforms over a record, in the order of ``transforms``.

A transform with a predicate passes over records for which the predicate does not hold (``negate``:
for which it holds). A transform that returns None ends the chain: the record is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from dblog.transforms.faults import RecordError
from dblog.transforms.plugin import Effect, Predicate, Router, TopicPredicate, Transform
from dblog.transforms.record import Record

_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of Python that a value outside of what a transform expects can cause, such as 24:00 as a time.
They are errors of the record, as every exception of a transform is in Connect.
"""


class StepError(RecordError):
    """A RecordError with the transform that raised it."""

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(f"transform {step.alias} ({step.class_name}): {reason}")
        self.class_name = step.class_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A transform of the chain, with its alias, its class, and its predicate or None."""

    alias: str
    class_name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    @property
    def depends_on_topic_alone(self) -> bool:
        """True if the topic's name decides what becomes of a record, and only its topic changes."""
        return self.transform.effect is Effect.ROUTES and (self.predicate is None or hasattr(self.predicate, "test_topic"))

    def applies_to(self, record: Record) -> bool:
        """Return True if the transform gets the record."""
        return self.predicate is None or self.predicate.test(record) is not self.negate


class Chain:
    """The transforms of one connector."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.routes_only = all(step.depends_on_topic_alone for step in steps)
        """True if the chain does nothing but give each topic another name."""
        effects = {step.transform.effect for step in steps}
        # A route behind a predicate that asks for more than the topic may part a table's rows.
        parts = any(step.transform.effect is Effect.ROUTES and not step.depends_on_topic_alone for step in steps)
        self.keeps_rows = Effect.CHANGES not in effects and not parts
        """True if the rows that are let through keep key and value, and all rows of one topic go to
        one topic.
        """
        self.keeps_all = self.keeps_rows and Effect.DROPS not in effects
        """True if, besides, no record is dropped."""

    def route(self, topic: str) -> str:
        """Return the topic that the steps which depend on the topic alone make of a topic."""
        for step in self.steps:
            if step.depends_on_topic_alone:
                predicate = cast("TopicPredicate", step.predicate)
                if step.predicate is None or predicate.test_topic(topic) is not step.negate:
                    topic = cast("Router", step.transform).route(topic)
        return topic

    def apply(self, record: Record) -> Record | None:
        """Return the record after the chain, or None if it is dropped.

        Raise StepError if a transform cannot handle the record.
        """
        now: Record | None = record
        for step in self.steps:
            assert now is not None
            try:
                if step.predicate is None or step.applies_to(now):
                    now = step.transform.apply(now)
            except RecordError as e:
                raise StepError(step, str(e)) from e
            except _UNFIT as e:
                # The text may quote the value, so only the class is named.
                raise StepError(step, f"it cannot take one of the record's values ({type(e).__name__})") from e
            if now is None:
                return None
        return now
