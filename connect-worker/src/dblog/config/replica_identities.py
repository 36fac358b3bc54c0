"""Rules of ``replica.identity.autoset.values``: the REPLICA IDENTITY that tables of a PostgreSQL
source get when a connector starts.

Debezium's form (``ReplicaIdentityMapper``): ``<regex of schema.table>:<identity>``, separated by
commas. An identity is DEFAULT, FULL, NOTHING, or INDEX and the name of an index, in any case. A
table that matches two rules is an error. For the effect on records see PostgreSQL's manual, ALTER
TABLE, REPLICA IDENTITY.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dblog.config.regex import Pattern, PatternError
from dblog.errors import ConfigError

OPTION = "replica.identity.autoset.values"
_RULE = re.compile(r"(?P<tables>[^\s:]+):(?P<kind>DEFAULT|FULL|NOTHING|INDEX\s+(?P<index>\w+))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """The old values that an update or a delete logs."""

    kind: str
    """DEFAULT, FULL, NOTHING or INDEX."""
    index: str | None = None
    """Name of the index for INDEX, as written. None for others."""


@dataclass(frozen=True, slots=True)
class IdentityRule:
    """One item of the option."""

    tables: Pattern
    identity: ReplicaIdentity


def identity_rules(text: str | None) -> tuple[IdentityRule, ...]:
    """Return the option's rules.

    Raise ConfigError for a malformed item, or an invalid expression.
    """
    rules = []
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        found = _RULE.fullmatch(part)
        if found is None:
            raise ConfigError(
                {OPTION: [f"{part} has an invalid format (expecting '<schema.table regex>:DEFAULT|FULL|NOTHING|INDEX <name>')"]}
            )
        try:
            tables = Pattern(found["tables"], ignore_case=True)
        except PatternError as e:
            raise ConfigError({OPTION: [f"{part} has no regular expression that can be used: {e}"]}) from e
        kind = found["kind"].split()[0].upper()
        rules.append(IdentityRule(tables, ReplicaIdentity(kind, found["index"])))
    return tuple(rules)


def identity_of(table: str, rules: Sequence[IdentityRule]) -> ReplicaIdentity | None:
    """Return the identity of ``schema.table``, or None if no rule matches it.

    Raise ConfigError if several rules match it.
    """
    found = [rule.identity for rule in rules if rule.tables.fullmatch(table)]
    if len(found) > 1:
        raise ConfigError(
            {OPTION: [f"{len(found)} of its expressions match {table}; a table has one REPLICA IDENTITY: let one of them match it"]}
        )
    return found[0] if found else None
