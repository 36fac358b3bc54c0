"""Debezium's Filter and ContentBasedRouter, with expressions of a small language.

Debezium runs a script engine there; this worker runs no scripts. It reads the usual one-line
expressions in Groovy and JavaScript (``expressions.py``), and refuses others when the configuration
is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.regex import Pattern
from dblog.errors import ConfigError
from dblog.transforms.expressions import Expression, ExpressionError
from dblog.transforms.faults import RecordError
from dblog.transforms.options import pattern, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, Transform, TransformPlugin
from dblog.transforms.record import Record

_LANGUAGES = ("jsr223.groovy", "jsr223.graal.js", "jsr223.js", "jsr223.javascript", "jsr223.nashorn")


class _Scripted:
    """The expression, the topics whose records get it (None: all), and what becomes of nulls."""

    def __init__(self, expression: Expression, *, topics: Pattern | None, null_handling: str) -> None:
        self._expression = expression
        self._topics = topics
        self._null_handling = null_handling

    def apply(self, record: Record) -> Record | None:
        """Return the record after the expression, or None to drop it."""
        if self._topics is not None and not self._topics.fullmatch(record.topic):
            return record
        if record.is_tombstone and self._null_handling != "evaluate":
            return None if self._null_handling == "drop" else record
        return self._evaluated(record)

    def _evaluated(self, record: Record) -> Record | None:
        raise NotImplementedError


class ScriptedFilter(_Scripted):
    """Keeps the records for which the expression is true."""

    effect = Effect.DROPS

    def _evaluated(self, record: Record) -> Record | None:
        result = self._expression.evaluate(record)
        if not isinstance(result, bool):
            raise RecordError("the value returned by the expression is not a Boolean")
        return record if result else None


class ContentBasedRouter(_Scripted):
    """Sends a record to the topic that the expression names; null leaves the topic."""

    effect = Effect.CHANGES

    def _evaluated(self, record: Record) -> Record | None:
        result = self._expression.evaluate(record)
        if result is None:
            return record
        if not isinstance(result, str):
            raise RecordError("the value returned by the expression is not a String")
        return record.with_topic(result)


def _expression(value: Value, _all: Mapping[str, Value]) -> str | None:
    try:
        Expression(str(value))
    except ExpressionError as e:
        return f"it cannot be evaluated here: {e}"
    return None


def _language(value: Value, _all: Mapping[str, Value]) -> str | None:
    if str(value).strip() in _LANGUAGES:
        return None
    return f"{{value}} is not known here; the usual expressions of {', '.join(_LANGUAGES)} are"


class _Make:
    """Factory of a transform with a script; ``option`` names the option of the expression."""

    def __init__(self, made: Callable[..., Transform], option: str) -> None:
        self._made = made
        self._option = option

    def __call__(self, settings: Settings, _part: Part) -> Transform:
        """Return the transform. Raise ConfigError for an expression that is not known."""
        try:
            expression = Expression(settings.text(self._option))
        except ExpressionError as e:
            raise ConfigError({self._option: [str(e)]}) from e
        topics = settings.text_or_none("topic.regex")
        return self._made(expression, topics=Pattern(topics) if topics else None, null_handling=settings.text("null.handling.mode"))


def _options(option: str, doc: str) -> tuple[Option, ...]:
    return (
        replace(
            text("topic.regex", "Pattern of topics whose records get the expression; absent: all.", importance=Importance.LOW),
            check=pattern,
        ),
        Option(
            name="language",
            doc="Language of the expression. No script runs; the usual expressions of these languages are read.",
            required=True,
            importance=Importance.HIGH,
            check=_language,
        ),
        Option(name=option, doc=doc, required=True, importance=Importance.HIGH, check=_expression),
        Option(
            name="null.handling.mode",
            doc="Treatment of tombstones: keep them, drop them, or evaluate the expression for them.",
            default="keep",
            importance=Importance.LOW,
            choices=("keep", "drop", "evaluate"),
        ),
    )


SCRIPTED_FILTER = TransformPlugin(
    class_name="io.debezium.transforms.Filter",
    doc="Keeps the records for which an expression is true.",
    make=_Make(ScriptedFilter, "condition"),
    options=_options("condition", "Expression that is true for the records to keep, as in value.op != 'd'."),
)
CONTENT_BASED_ROUTER = TransformPlugin(
    class_name="io.debezium.transforms.ContentBasedRouter",
    doc="Sends each record to the topic that an expression names.",
    make=_Make(ContentBasedRouter, "topic.expression"),
    options=_options("topic.expression", "Expression for the topic; null leaves it, as in value.op == 'd' ? 'deletes' : null."),
)
