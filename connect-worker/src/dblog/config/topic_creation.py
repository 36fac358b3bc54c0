"""Rules for creating topics: the ``topic.creation.*`` groups of a connector (KIP-158).

Connect finds a bad group only when the task starts; here it is found when the connector is created.
Without such keys there are no rules, and topics get the broker's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dblog.config.options import split_list
from dblog.config.regex import PatternError, Room, any_of
from dblog.errors import ConfigError

_PREFIX = "topic.creation."
_GROUPS = "topic.creation.groups"
_DEFAULT = "default"
_OWN_KEYS = ("include", "exclude", "replication.factor", "partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    """Settings for topics whose whole name matches.

    -1 leaves the replication factor or the number of partitions to the broker.
    """

    group: str
    include: Callable[[str], bool]
    exclude: Callable[[str], bool]
    replication_factor: int
    partitions: int
    settings: dict[str, str]

    def matches(self, topic: str) -> bool:
        """Return True if the topic belongs to this group. An exclusion wins."""
        return self.include(topic) and not self.exclude(topic)


def topic_rules(properties: Mapping[str, str]) -> tuple[TopicRule, ...]:
    """Return the rules in the order of their precedence, the default last.

    Empty without ``topic.creation`` keys. Raise ConfigError for a bad group.
    """
    rules, errors = _read(properties)
    if errors:
        raise ConfigError(errors)
    return rules


def check_topic_creation(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the errors by key."""
    return _read(properties)[1]


def _read(properties: Mapping[str, str]) -> tuple[tuple[TopicRule, ...], dict[str, list[str]]]:
    errors: dict[str, list[str]] = {}
    if not any(name.startswith(_PREFIX) and name != _GROUPS for name in properties) and not properties.get(_GROUPS, "").strip():
        return (), errors
    fallback: dict[str, int] = {}
    for key in ("replication.factor", "partitions"):
        name = f"{_PREFIX}{_DEFAULT}.{key}"
        if name not in properties:
            errors[name] = [f'Missing required configuration "{name}" which has no default value.']
        fallback[key] = _count(properties, name, errors, default=-1)
    rules: list[TopicRule] = []
    room = Room()
    groups = [group for group in split_list(properties.get(_GROUPS, "")) if group != _DEFAULT]
    for group in [*groups, _DEFAULT]:
        prefix = f"{_PREFIX}{group}."
        include: Callable[[str], bool] = _every
        exclude: Callable[[str], bool] = _none
        if group != _DEFAULT:
            if not properties.get(prefix + "include", "").strip():
                errors[prefix + "include"] = [f'Missing required configuration "{prefix}include" which has no default value.']
            include = _matcher(properties, prefix + "include", errors, room)
            exclude = _matcher(properties, prefix + "exclude", errors, room)
        rules.append(
            TopicRule(
                group=group,
                include=include,
                exclude=exclude,
                replication_factor=_count(properties, prefix + "replication.factor", errors, default=fallback["replication.factor"]),
                partitions=_count(properties, prefix + "partitions", errors, default=fallback["partitions"]),
                settings={
                    name[len(prefix) :]: text
                    for name, text in properties.items()
                    if name.startswith(prefix) and name[len(prefix) :] not in _OWN_KEYS
                },
            )
        )
    return tuple(rules), errors


def _count(properties: Mapping[str, str], name: str, errors: dict[str, list[str]], *, default: int) -> int:
    if name not in properties:
        return default
    text = properties[name].strip()
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        errors[name] = [f"Invalid value {text} for configuration {name}: Not a number of type INT"]
    elif int(text) != -1 and int(text) < 1:
        what = "Replication factor" if name.endswith("replication.factor") else "Number of partitions"
        errors[name] = [
            f"Invalid value {text} for configuration {name}: {what} must be positive and not larger than the cluster allows, or -1"
        ]
    else:
        return int(text)
    return default


def _matcher(properties: Mapping[str, str], name: str, errors: dict[str, list[str]], room: Room) -> Callable[[str], bool]:
    try:
        return any_of(split_list(properties.get(name, "")), ignore_case=False, room=room)
    except PatternError as e:
        errors[name] = [f"Invalid value for configuration {name}: Syntax error in regular expression: {e}"]
        return _none


def _every(_topic: str) -> bool:
    return True


def _none(_topic: str) -> bool:
    return False
