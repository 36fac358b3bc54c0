"""An option is declared once, as data. Parsing, the validate answer, the reference page and the CLI
help derive from it (D13).

Values arrive as text (Connect stores every property as a string) and leave as a ``Settings``
mapping of typed values. There are two voices because there are two families of options: Connect
words its errors in one way (``ConfigDef`` in Kafka), Debezium in another (``Field``), and operators
search the web for exactly these texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dblog.config.regex import PatternError, Room, any_of
from dblog.errors import ConfigError

Value = str | int | float | bool | tuple[str, ...] | None
"""A parsed value. Lists are tuples of trimmed items, empty if absent; others are then None."""

Properties = Mapping[str, str | None]
"""Properties from a file or a REST body. None is a null value, which is an error in Connect."""

Check = Callable[[Value, Mapping[str, Value]], str | None]
"""Returns what is wrong with a parsed value, or None. Gets all parsed values too. ``{value}`` in
the text stands for the shown value.
"""

HIDDEN = "[hidden]"
"""Connect's replacement for a PASSWORD value."""


class Kind(StrEnum):
    """The types of Kafka's ConfigDef, by their names in the validate answer."""

    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105  the name of a type


class Importance(StrEnum):
    """An option's importance for users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """The width of a form's field."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Voice(StrEnum):
    """The project whose phrasing an error uses."""

    CONNECT = "connect"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class Large:
    """Limit above which a number takes more than one connector should, and what it takes then."""

    above: int
    takes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: name, type, default, unit, text, check.

    ``default`` is text as in a properties file; None means no default. ``unit`` (``ms``, ``bytes``,
    ``rows``...) is only documentation. ``choices`` are compared without case. ``refused`` returns
    the reason why this worker does not support a value that other implementations know, so that
    such an option is never silently ignored.
    """

    name: str
    doc: str
    kind: Kind = Kind.STRING
    default: str | None = None
    required: bool = False
    importance: Importance = Importance.MEDIUM
    group: str | None = None
    unit: str | None = None
    width: Width = Width.MEDIUM
    label: str = ""
    voice: Voice = Voice.CONNECT
    choices: tuple[str, ...] = ()
    check: Check | None = None
    refused: Callable[[Value], str | None] | None = None
    dependents: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    no_effect: str | None = None
    """Reason why the option has no effect here. It is accepted, and setting it gives a warning."""
    other_default: str | None = None
    """Reason why the default is not Debezium's. Leaving the option out gives a warning."""
    large: Large | None = None
    """Limit of values that are accepted without a warning. None if no value takes much from the
    other connectors of the worker.
    """
    recommended: tuple[str, ...] = ()
    """Values that forms offer besides ``choices``; others are accepted too."""
    listed: bool = True
    """False for an option that is accepted and parsed, but not part of the validate answer."""


class Settings(Mapping[str, Value]):
    """Parsed options by name, and the texts that they came from."""

    __slots__ = ("_values", "originals")

    def __init__(self, values: Mapping[str, Value], originals: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.originals: dict[str, str] = dict(originals)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        # Values may be secrets, and a settings object can end up in a log line or a trace.
        return f"Settings({len(self._values)} values)"

    def text(self, name: str) -> str:
        """Return the value of a text option that always has one."""
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"option {name} has no text value")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return the value of a text option, or None if absent."""
        value = self._values[name]
        if value is not None and not isinstance(value, str):
            raise TypeError(f"option {name} is not text")
        return value

    def integer(self, name: str) -> int:
        """Return the value of an integer option that always has one."""
        value = self._values[name]
        if not isinstance(value, int):
            raise TypeError(f"option {name} has no integer value")
        return value

    def boolean(self, name: str) -> bool:
        """Return the value of a boolean option."""
        value = self._values[name]
        if not isinstance(value, bool):
            raise TypeError(f"option {name} has no boolean value")
        return value

    def items_of(self, name: str) -> tuple[str, ...]:
        """Return the items of a list option, or an empty tuple if absent."""
        value = self._values[name]
        if value is None:
            return ()
        if not isinstance(value, tuple):
            raise TypeError(f"option {name} is not a list")
        return value

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the original properties below a prefix (``producer.override.``), without it."""
        return {name[len(prefix) :]: text for name, text in self.originals.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of reading properties: the readable values, and the messages by option."""

    values: dict[str, Value]
    errors: dict[str, list[str]]


_INTEGER_RANGES = {Kind.INT: (-(2**31), 2**31 - 1), Kind.SHORT: (-(2**15), 2**15 - 1), Kind.LONG: (-(2**63), 2**63 - 1)}
_DEBEZIUM_TYPE_TEXTS = {
    Kind.INT: "An integer is expected",
    Kind.SHORT: "A short value is expected",
    Kind.LONG: "A long value is expected",
    Kind.DOUBLE: "A double value is expected",
    Kind.BOOLEAN: "Either 'true' or 'false' is expected",
}
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def split_list(text: str) -> tuple[str, ...]:
    r"""Split a text at commas into trimmed, non-empty items.

    ``\,`` is a comma inside an item (Debezium's rule for lists of regular expressions).
    """
    items = (item.strip().replace("\\,", ",") for item in _UNESCAPED_COMMA.split(text))
    return tuple(item for item in items if item)


def check_properties(options: Iterable[Option], properties: Properties, *, shown: Mapping[str, str] | None = None) -> Checked:
    """Parse and check properties. Never raises.

    ``shown`` maps keys whose value came from a config provider to the placeholder to print instead,
    so that no secret reaches a message.
    """
    values: dict[str, Value] = {}
    errors: dict[str, list[str]] = {}
    declared = list(options)
    unreadable: set[str] = set()
    for option in declared:
        text, name_given = _given(option, properties)
        if name_given is not None and text is None:
            errors.setdefault(option.name, []).append(_null_error(option.name))
            unreadable.add(option.name)
            values[option.name] = () if option.kind is Kind.LIST else None
            continue
        try:
            values[option.name] = _parse(option, text if text is not None else option.default)
        except ValueError as e:
            errors.setdefault(option.name, []).append(_worded(option, str(e), _shown(option, text, shown)))
            unreadable.add(option.name)
            values[option.name] = () if option.kind is Kind.LIST else None
    for option in declared:
        if option.name in unreadable:
            continue
        text, _ = _given(option, properties)
        problem = _problem(option, text, values)
        if problem is None:
            continue
        if option.required and _is_blank(text) and option.voice is Voice.CONNECT and text is None:
            message = f'Missing required configuration "{option.name}" which has no default value.'
        else:
            message = _worded(option, problem, _shown(option, text if text is not None else option.default, shown))
        errors.setdefault(option.name, []).append(message)
    return Checked(values, errors)


def parse(options: Iterable[Option], properties: Mapping[str, str], *, shown: Mapping[str, str] | None = None) -> Settings:
    """Return the typed settings. Raise ConfigError with every message.

    ``shown`` is as for ``check_properties``.
    """
    checked = check_properties(options, properties, shown=shown)
    if checked.errors:
        raise ConfigError(checked.errors)
    return Settings(checked.values, properties)


def raw_text(option: Option, properties: Properties) -> str | None:
    """Return the text given for an option under its name or an alias, else its default."""
    text, name_given = _given(option, properties)
    return text if name_given is not None else option.default


def _given(option: Option, properties: Properties) -> tuple[str | None, str | None]:
    for name in (option.name, *option.aliases):
        if name in properties:
            return properties[name], name
    return None, None


def _is_blank(text: str | None) -> bool:
    return text is None or not text.strip()


def _parse(option: Option, text: str | None) -> Value:
    """Return the typed value. Raise ValueError with the reason in the option's voice."""
    if option.kind is Kind.LIST:
        return tuple(_as_declared(option, item) for item in split_list(text)) if text is not None else ()
    if text is None:
        return None
    if option.kind in (Kind.STRING, Kind.PASSWORD):
        return _as_declared(option, text)
    trimmed = text.strip()
    if option.kind is Kind.CLASS:
        return trimmed or None
    if option.kind is Kind.BOOLEAN:
        lowered = trimmed.lower()
        if lowered in ("true", "false"):
            return lowered == "true"
        raise ValueError(_type_reason(option, "Expected value to be either true or false"))
    if not trimmed and option.voice is Voice.DEBEZIUM and not option.required:
        # Debezium treats an empty number as absent.
        return _parse(option, option.default) if option.default else None
    if option.kind is Kind.DOUBLE:
        try:
            return float(trimmed)
        except ValueError:
            raise ValueError(_type_reason(option, "Not a number of type DOUBLE")) from None
    low, high = _INTEGER_RANGES[option.kind]
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", trimmed) or not low <= int(trimmed) <= high:
        raise ValueError(_type_reason(option, f"Not a number of type {option.kind}"))
    return int(trimmed)


def _as_declared(option: Option, text: str) -> str:
    """Return a choice in its declared spelling, because blanks and case do not count.

    Code that compares choices must not take ``FAIL`` for another word than ``fail``.
    """
    wanted = text.strip().lower()
    return next((choice for choice in option.choices if choice.lower() == wanted), text)


def _type_reason(option: Option, connect_reason: str) -> str:
    return connect_reason if option.voice is Voice.CONNECT else _DEBEZIUM_TYPE_TEXTS[option.kind]


def _problem(option: Option, text: str | None, values: Mapping[str, Value]) -> str | None:
    """Return the first thing wrong with a parsed value, or None."""
    value = values[option.name]
    if option.required and _is_blank(text) and (text is None or option.check is None or option.voice is Voice.DEBEZIUM):
        return "A value is required" if option.voice is Voice.DEBEZIUM else "String must be non-empty"
    if value is None:
        return None
    if option.choices:
        given = value if isinstance(value, tuple) else (str(value),)
        allowed = {choice.lower() for choice in option.choices}
        if any(item.strip().lower() not in allowed for item in given):
            listed = ", ".join(option.choices)
            if option.voice is Voice.DEBEZIUM:
                return f"Value must be one of {listed}"
            return f"String must be one of: {listed}"
    if option.check is not None and (problem := option.check(value, values)) is not None:
        return problem
    return option.refused(value) if option.refused is not None else None


def _shown(option: Option, text: str | None, shown: Mapping[str, str] | None) -> str:
    if shown is not None and option.name in shown:
        return shown[option.name]
    if option.kind is Kind.PASSWORD:
        return HIDDEN
    return "null" if text is None else text


def _worded(option: Option, reason: str, shown: str) -> str:
    reason = reason.replace("{value}", shown)
    if option.voice is Voice.DEBEZIUM:
        return f"The '{option.name}' value is invalid: {reason}"
    return f"Invalid value {shown} for configuration {option.name}: {reason}"


def _null_error(name: str) -> str:
    return f"Invalid value null for configuration {name}: Null value can not be supplied as the configuration value."


# Checks that several options share. Each is a value, so that a declaration reads as data.


def at_least(low: int) -> Check:
    """Return a check that a number is at least ``low``, in Connect's words."""

    def check(value: Value, _all: Mapping[str, Value]) -> str | None:
        return f"Value must be at least {low}" if isinstance(value, int | float) and value < low else None

    return check


def positive(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that an integer is positive: Debezium's bound for sizes."""
    return "A positive, non-zero integer value is expected" if isinstance(value, int) and value <= 0 else None


def positive_long(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that a long is positive: Debezium's bound for ids and times."""
    return "A positive, non-zero long value is expected" if isinstance(value, int) and value <= 0 else None


def not_negative(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that an integer is not negative: Debezium's bound for times where 0 means off."""
    return "An non-negative integer is expected" if isinstance(value, int) and value < 0 else None


def not_negative_long(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that a long is not negative: Debezium's bound where 0 means off."""
    return "A non-negative long value is expected" if isinstance(value, int) and value < 0 else None


def regexes(value: Value, _all: Mapping[str, Value], *, room: Room | None = None) -> str | None:
    """Check that every item of a list compiles. ``room`` is what several lists may take together."""
    if not isinstance(value, tuple):
        return None
    try:
        any_of(value, ignore_case=True, room=room)
    except PatternError as e:
        return f"A comma-separated list of valid regular expressions is expected, but {e}"
    return None


def topic_name(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check the characters that Debezium allows in a topic prefix."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_.\-]+", value):
        return "{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"
    return None


def excludes(other: str) -> Check:
    """Return a check that refuses an exclude list beside its include list, as Debezium does."""

    def check(value: Value, everything: Mapping[str, Value]) -> str | None:
        if value and everything.get(other):
            return f'"{other}" is already specified'
        return None

    return check


def all_of(*checks: Check) -> Check:
    """Return a check that reports the first problem of several checks."""

    def check(value: Value, everything: Mapping[str, Value]) -> str | None:
        for one in checks:
            if (problem := one(value, everything)) is not None:
                return problem
        return None

    return check


def only(*accepted: Value, because: str) -> Callable[[Value], str | None]:
    """Return a function that refuses every value except ``accepted``, with the reason ``because``.

    For options whose other values this worker does not support yet.
    """
    lowered = {item.lower() if isinstance(item, str) else item for item in accepted}

    def refused(value: Value) -> str | None:
        compared = value.strip().lower() if isinstance(value, str) else value
        return None if value is None or value in ((), "") or compared in lowered else because

    return refused
